//! Archives of plugins: gzipped tar files that hold plain files, in one folder or in none.
//!
//! An archive comes from elsewhere, so everything that is no plain file is refused rather than passed over: links, devices, paths
//! that lead out of the folder, and more bytes than plugins have.

use super::install::is_wanted;
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

const BLOCK: usize = 512;
/// Most bytes of an archive, unpacked.
pub(super) const MAX_BYTES: u64 = 1 << 30;
/// Most files and folders of an archive.
const MAX_ENTRIES: usize = 256;
/// More zeros than any writer of archives adds at the end.
const MAX_PADDING: u64 = 1 << 20;

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// The bytes cannot be read or unpacked.
    #[error("the archive cannot be read: {0}; copy it again")]
    Read(io::Error),
    /// A file cannot be written.
    #[error("cannot write {0}: {1}")]
    Write(String, io::Error),
    /// It ends in the middle.
    #[error("the archive is truncated; copy it again")]
    Truncated,
    /// A header that no writer makes.
    #[error("the archive is damaged: {0}; copy it again")]
    Damaged(&'static str),
    /// A path that leads out of the folder, or deeper than one folder.
    #[error("the archive holds the path {0:?}; only files in one folder are unpacked")]
    Path(String),
    /// A link, a device, or an extension.
    #[error("the archive holds {1} ({0:?}); only plain files are unpacked")]
    Kind(String, &'static str),
    /// The same file twice.
    #[error("the archive holds {0} twice")]
    Twice(String),
    /// A bomb, or no archive of plugins.
    #[error("the archive holds more than {0}")]
    TooLarge(&'static str),
}

/// Unpacks the plugins and the sums of an archive into `folder`, which is empty.
///
/// # Errors
/// The first thing that does not belong into an archive of plugins. What was written until then stays in `folder`.
pub(super) fn unpack(archive: impl Read, folder: &Path) -> Result<(), ArchiveError> {
    let mut input = GzDecoder::new(BufReader::new(archive));
    let (mut bytes, mut top) = (0_u64, None);
    for _ in 0..=MAX_ENTRIES {
        let Some(header) = block(&mut input)? else {
            return rest(input);
        };
        let Header { path, kind, size } = header;
        bytes = bytes.saturating_add(size);
        if bytes > MAX_BYTES {
            return Err(ArchiveError::TooLarge("1 GiB"));
        }
        let name = inside(&path, kind, &mut top)?;
        match kind {
            Kind::Folder if size > 0 => return Err(ArchiveError::Damaged("a folder has content")),
            Kind::File if is_wanted(name) => write(&mut input, size, folder, name)?,
            Kind::Folder | Kind::File => skip(&mut input, size)?,
        }
        skip(&mut input, size.next_multiple_of(BLOCK as u64) - size)?;
    }
    Err(ArchiveError::TooLarge("256 files"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

struct Header {
    path: String,
    kind: Kind,
    size: u64,
}

/// The next header, `None` at the end.
fn block(input: &mut impl Read) -> Result<Option<Header>, ArchiveError> {
    let mut block = [0_u8; BLOCK];
    input.read_exact(&mut block).map_err(broken)?;
    if block == [0; BLOCK] {
        return Ok(None);
    }
    if &block[257..262] != b"ustar" {
        return Err(ArchiveError::Damaged("a file has no header of the kind ustar"));
    }
    // The sum is taken with spaces in its own field.
    let sum: u64 = (block.iter().enumerate())
        .map(|(i, byte)| u64::from(if (148..156).contains(&i) { b' ' } else { *byte }))
        .sum();
    if octal(&block[148..156]) != Some(sum) {
        return Err(ArchiveError::Damaged("a header has a wrong sum"));
    }
    let text = |range: std::ops::Range<usize>| {
        let field = block[range].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(field).into_owned()
    };
    // Writers of GNU's dialect keep times in the field of the prefix.
    let prefix = if &block[257..263] == b"ustar\0" {
        text(345..500)
    } else {
        String::new()
    };
    let name = text(0..100);
    let path = if prefix.is_empty() {
        name
    } else {
        format!("{prefix}/{name}")
    };
    let kind = match block[156] {
        b'0' | 0 => Kind::File,
        b'5' => Kind::Folder,
        b'1' => return Err(ArchiveError::Kind(path, "a hard link")),
        b'2' => return Err(ArchiveError::Kind(path, "a symbolic link")),
        b'3' | b'4' | b'6' => return Err(ArchiveError::Kind(path, "a device")),
        b'x' | b'g' | b'L' | b'K' => {
            return Err(ArchiveError::Kind(
                path,
                "an extension of the format; pack it with --format=ustar",
            ));
        }
        _ => return Err(ArchiveError::Kind(path, "an unknown kind of file")),
    };
    let size = octal(&block[124..136]).ok_or(ArchiveError::Damaged("a size is no number"))?;
    Ok(Some(Header { path, kind, size }))
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

/// The file's name, when `path` is `FOLDER/NAME` or `NAME` with the same folder as all others.
fn inside<'a>(path: &'a str, kind: Kind, top: &mut Option<String>) -> Result<&'a str, ArchiveError> {
    let wrong = || ArchiveError::Path(path.into());
    let plain = path.strip_prefix("./").unwrap_or(path);
    let plain = if kind == Kind::Folder {
        plain.trim_end_matches('/')
    } else {
        plain
    };
    if kind == Kind::Folder && matches!(plain, "" | ".") && !path.starts_with('/') {
        return Ok("");
    }
    let (folder, name) = match plain.split_once('/') {
        Some(_) if kind == Kind::Folder => return Err(wrong()),
        Some((folder, name)) => (Some(folder), name),
        None if kind == Kind::Folder => (Some(plain), "."),
        None => (None, plain),
    };
    let sound = |part: &str| !matches!(part, "" | "..") && !part.contains(['/', '\\', '\0']);
    if folder.is_some_and(|folder| folder == "." || !sound(folder)) || !sound(name) {
        return Err(wrong());
    }
    if let Some(folder) = folder
        && top.get_or_insert_with(|| folder.to_owned()) != folder
    {
        return Err(wrong());
    }
    Ok(name)
}

fn write(input: &mut impl Read, size: u64, folder: &Path, name: &str) -> Result<(), ArchiveError> {
    let failed = |error| ArchiveError::Write(name.into(), error);
    let mut file = File::create_new(folder.join(name)).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => ArchiveError::Twice(name.into()),
        _ => failed(error),
    })?;
    let mut left = size;
    let mut chunk = vec![0; 1 << 16];
    while left > 0 {
        let part = &mut chunk[..left.min(1 << 16) as usize];
        input.read_exact(part).map_err(broken)?;
        io::Write::write_all(&mut file, part).map_err(failed)?;
        left -= part.len() as u64;
    }
    file.sync_all().map_err(failed)
}

fn skip(input: &mut impl Read, size: u64) -> Result<(), ArchiveError> {
    match io::copy(&mut input.take(size), &mut io::sink()).map_err(broken)? {
        skipped if skipped == size => Ok(()),
        _ => Err(ArchiveError::Truncated),
    }
}

/// Reads to the end, where the sum of the whole archive is checked.
fn rest(input: impl Read) -> Result<(), ArchiveError> {
    let mut padding = Vec::new();
    input
        .take(MAX_PADDING)
        .read_to_end(&mut padding)
        .map_err(broken)?;
    if padding.len() as u64 == MAX_PADDING || padding.iter().any(|byte| *byte != 0) {
        return Err(ArchiveError::Damaged("something follows its end"));
    }
    Ok(())
}

fn broken(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Truncated,
        _ => ArchiveError::Read(error),
    }
}

#[cfg(test)]
mod tests;
