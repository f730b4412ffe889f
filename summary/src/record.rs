//! Records: length, checksum of the length, content, checksum of the content.

use crate::checksum::masked;
use std::io::{self, ErrorKind, Read};

/// Bytes of a record beside its content.
pub(crate) const FRAME: usize = 16;
/// The longest content that is read.
const LONGEST: u64 = 1 << 31;

/// A record as it stands in a file.
pub(crate) fn framed(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(content.len() + FRAME);
    record.extend(length);
    record.extend(masked(&length).to_le_bytes());
    record.extend(content);
    record.extend(masked(content).to_le_bytes());
    record
}

/// What comes next in a file.
pub(crate) enum Next {
    Record(Vec<u8>),
    /// Nothing, or a record that is not whole yet.
    End,
    Damaged(&'static str),
}

/// Reads the next record.
pub(crate) fn next(from: &mut impl Read) -> io::Result<Next> {
    let Some(head) = bytes(from, 12)? else {
        return Ok(Next::End);
    };
    let (length, sum) = head.split_at(8);
    if masked(length) != number(sum) {
        return Ok(Next::Damaged("the checksum of a record's length is another"));
    }
    let length = length
        .iter()
        .rev()
        .fold(0, |length, &byte| length << 8 | u64::from(byte));
    if length > LONGEST {
        return Ok(Next::Damaged("a record is longer than 2 GiB"));
    }
    let Some(content) = bytes(from, length)? else {
        return Ok(Next::End);
    };
    let Some(sum) = bytes(from, 4)? else {
        return Ok(Next::End);
    };
    if masked(&content) != number(&sum) {
        return Ok(Next::Damaged("the checksum of a record is another"));
    }
    Ok(Next::Record(content))
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// So many bytes, or `None` where fewer are left. Memory grows with what is there, not with what a length says.
fn bytes(from: &mut impl Read, count: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match from.by_ref().take(count).read_to_end(&mut bytes) {
        Ok(got) => Ok((got as u64 == count).then_some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
