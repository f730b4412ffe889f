//! Any bytes are a recording that is good up to some frame, or none. What is read is written and read back to the same, and every
//! view of it can be made.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use thalweg::observe::recording::{Frame, MAGIC, Reader, Record, Writer};
use thalweg_observe::{Report, Sort, derive};

/// The recording of some payloads: with right sums, which a mutation seldom hits. The first byte of each is its length in eights.
fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    while let Some((&length, rest)) = data.split_first() {
        let (payload, rest) = rest.split_at(rest.len().min(8 * usize::from(length)));
        file.extend((payload.len() as u32).to_le_bytes());
        file.extend(crc32fast::hash(payload).to_le_bytes());
        file.extend(payload);
        data = rest;
    }
    file
}

/// The records, and whether all bytes are whole.
fn records(file: &[u8]) -> Option<(Vec<Record>, bool)> {
    let mut reader = Reader::new(file).ok()?;
    let records: Vec<Record> = reader.by_ref().collect();
    assert!(reader.whole() <= file.len() as u64);
    // What is said to be whole is.
    let whole = &file[..reader.whole() as usize];
    let again: Vec<Record> = Reader::new(whole).expect("a recording").collect();
    assert_eq!(again.len(), records.len());
    Some((records, reader.cut().is_none()))
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).expect("memory takes bytes");
    let mut frame = Frame::default();
    records.iter().for_each(|record| frame.push(record));
    writer.write(&mut frame).expect("memory takes bytes");
    file
}

/// A file without a name, so that none is left.
fn viewed(file: &[u8]) {
    let mut place = tempfile::tempfile().expect("the system gives a file");
    place.write_all(file).expect("the system takes bytes");
    place.rewind().expect("a file has a begin");
    if let Ok(summary) = derive(&[path(&place)], None) {
        assert!(!Report::new(&summary, Sort::Device, 20).to_string().is_empty());
    }
}

fn path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fuzz_target!(|data: &[u8]| {
    let file = match data.first() {
        Some(b'T') | None => data.to_vec(),
        Some(_) => framed(data),
    };
    let Some((read, _)) = records(&file) else { return };
    let again = written(&read);
    let (found, whole) = records(&again).expect("what was written is read");
    assert!(whole);
    // As text, since a number that is none equals nothing.
    assert_eq!(format!("{found:?}"), format!("{read:?}"));
    viewed(&file);
});
