//! What a plugin says of itself without being run: a note in its ELF file, written at compile time by
//! [`note!`](crate::note) and read by the loader before anything of the plugin is executed.
//!
//! The note's name is `thalweg`, its type 1, its content UTF-8 lines `key=value`:
//!
//! ```text
//! name=acme
//! kind=gpu
//! version=1.2.0
//! abi=1.0
//! arch=x86_64
//! features=avx2,fma
//! needs=libcuda.so.1
//! layout=BackendApi{abi:u32,…
//! ```
//!
//! `layout` is [`LAYOUT`](crate::tables::LAYOUT): a program compares the structs that it knows and refuses a plugin that was built
//! with other ones. A plugin without it is taken at its word.

use crate::tables::{ABI_MAJOR, ABI_MINOR};
use std::fmt;

/// The section that holds the note.
pub const SECTION: &str = ".note.thalweg";
/// The note's name, with its final zero.
pub const NOTE_NAME: [u8; 8] = *b"thalweg\0";
/// The note's type.
pub const NOTE_TYPE: u32 = 1;
/// The longest content that is read.
pub const MAX_LEN: usize = 1 << 16;
/// The kind of a layer, which stands between a program and any backend; its file is `libthalweg_layer_<name>.so`.
pub const LAYER_KIND: &str = "layer";
/// The longest backend name.
pub const MAX_NAME: usize = 32;

/// A version of the contract. Plugins and programs with the same `major` work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbiVersion {
    /// Changes when a published table changes.
    pub major: u16,
    /// Grows when tables are added.
    pub minor: u16,
}

/// The contract of this crate.
pub const ABI: AbiVersion = AbiVersion {
    major: ABI_MAJOR,
    minor: ABI_MINOR,
};
/// [`ABI`] as text, for the note.
pub const ABI_TEXT: &str = "2.1";

impl fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The bytes of one ELF note; `N` comes from [`desc_size`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
pub struct Note<const N: usize> {
    namesz: u32,
    descsz: u32,
    kind: u32,
    name: [u8; 8],
    desc: [u8; N],
}

/// The size of the content that `fields` take, rounded up to the 4 bytes that notes are aligned to.
pub const fn desc_size(fields: &[(&str, &str)]) -> usize {
    desc_len(fields).next_multiple_of(4)
}

const fn desc_len(fields: &[(&str, &str)]) -> usize {
    let (mut len, mut i) = (0, 0);
    while i < fields.len() {
        len += fields[i].0.len() + fields[i].1.len() + 2;
        i += 1;
    }
    len
}

impl<const N: usize> Note<N> {
    /// Builds the note from `key`, `value` pairs; meant for constants, where a refusal is a compile error.
    ///
    /// # Panics
    /// When a value holds a line break, the content is longer than [`MAX_LEN`], or `N` is not its
    /// [`desc_size`].
    pub const fn new(fields: &[(&str, &str)]) -> Note<N> {
        let len = desc_len(fields);
        assert!(len <= MAX_LEN, "the manifest is longer than 65536 bytes");
        assert!(N == len.next_multiple_of(4), "N must be desc_size(fields)");
        let mut desc = [0; N];
        let (mut at, mut i) = (0, 0);
        while i < fields.len() {
            at = put(&mut desc, at, fields[i].0.as_bytes());
            desc[at] = b'=';
            at = put(&mut desc, at + 1, fields[i].1.as_bytes());
            desc[at] = b'\n';
            at += 1;
            i += 1;
        }
        Note {
            namesz: NOTE_NAME.len() as u32,
            descsz: len as u32,
            kind: NOTE_TYPE,
            name: NOTE_NAME,
            desc,
        }
    }

    /// The content without its padding.
    pub fn desc(&self) -> &[u8] {
        &self.desc[..self.descsz as usize]
    }
}

const fn put(into: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let mut i = 0;
    while i < bytes.len() {
        assert!(
            bytes[i] != b'\n' && bytes[i] != 0,
            "a manifest value holds a line break or a zero"
        );
        into[at + i] = bytes[i];
        i += 1;
    }
    at + i
}

/// Puts the plugin's manifest into its file.
///
/// `name` is the backend's name (`libthalweg_<name>.so`), `kind` what it drives (`cpu`, `gpu`, …). `features`
/// (CPU features without which the code cannot run) and `needs` (libraries that are opened at run time) are
/// comma-separated and may be left out; `version` is the crate's own when left out.
///
/// ```
/// thalweg_hal::note! { name: "acme", kind: "gpu", needs: "libacme.so.2" }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! note {
    (name: $name:expr, kind: $kind:expr
     $(, version: $version:expr)? $(, features: $features:expr)? $(, needs: $needs:expr)? $(,)?) => {
        const _: () = {
            const FIELDS: &[(&str, &str)] = &[
                ("name", $name),
                ("kind", $kind),
                ("version", $crate::note!(@or env!("CARGO_PKG_VERSION") $(, $version)?)),
                ("abi", $crate::manifest::ABI_TEXT),
                ("arch", ::std::env::consts::ARCH),
                ("features", $crate::note!(@or "" $(, $features)?)),
                ("needs", $crate::note!(@or "" $(, $needs)?)),
                ("layout", $crate::tables::LAYOUT),
            ];
            #[used]
            #[cfg_attr(not(any(target_vendor = "apple", windows)), unsafe(link_section = ".note.thalweg"))]
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__thalweg"))]
            #[cfg_attr(windows, unsafe(link_section = ".thalweg"))]
            static NOTE: $crate::manifest::Note<{ $crate::manifest::desc_size(FIELDS) }> =
                $crate::manifest::Note::new(FIELDS);
        };
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $value:expr) => { $value };
}

/// What a plugin says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The name that users ask for.
    pub name: String,
    /// What it drives: `cpu`, `gpu`, …; [`LAYER_KIND`] for a layer.
    pub kind: String,
    /// The plugin's own version.
    pub version: String,
    /// The contract that it was built against.
    pub abi: AbiVersion,
    /// The architecture, as in `std::env::consts::ARCH`.
    pub arch: String,
    /// CPU features without which its code cannot run.
    pub features: Vec<String>,
    /// Libraries that it opens at run time.
    pub needs: Vec<String>,
    /// The structs that it was built with, as [`LAYOUT`](crate::tables::LAYOUT); empty where it does not say.
    pub layout: String,
}

/// Why a note's content is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Longer than [`MAX_LEN`].
    #[error("the manifest has {0} bytes; at most 65536 are read")]
    TooLong(usize),
    /// Not text.
    #[error("the manifest is not UTF-8")]
    NotText,
    /// A line without `=`.
    #[error("the manifest's line {line} has no `=`; lines read key=value")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// A key that must be there once is not.
    #[error("the manifest lacks `{0}`")]
    Missing(&'static str),
    /// A key stands there twice.
    #[error("the manifest has `{0}` twice")]
    Twice(&'static str),
    /// A value that cannot be meant.
    #[error("the manifest's {key} is {value:?}; {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value, cut to a readable length.
        value: String,
        /// What may stand there.
        expected: &'static str,
    },
}

const KEYS: [&str; 8] = [
    "name", "kind", "version", "abi", "arch", "features", "needs", "layout",
];

/// Reads a note's content. Unknown keys are passed over, so that a later version may add some.
///
/// # Errors
/// [`ManifestError`] says which line or value was refused.
pub fn parse(desc: &[u8]) -> Result<Manifest, ManifestError> {
    if desc.len() > MAX_LEN {
        return Err(ManifestError::TooLong(desc.len()));
    }
    let text = std::str::from_utf8(desc).map_err(|_| ManifestError::NotText)?;
    let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
    for (i, line) in text.trim_end_matches('\0').lines().enumerate() {
        if line.is_empty() {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(ManifestError::Line { line: i + 1 })?;
        let Some(slot) = KEYS.iter().position(|k| *k == key) else {
            continue;
        };
        if values[slot].replace(value.trim()).is_some() {
            return Err(ManifestError::Twice(KEYS[slot]));
        }
    }
    let need = |i: usize| values[i].ok_or(ManifestError::Missing(KEYS[i]));
    Ok(Manifest {
        name: word("name", need(0)?)?,
        kind: word("kind", need(1)?)?,
        version: version(need(2)?)?,
        abi: abi(need(3)?)?,
        arch: word("arch", need(4)?)?,
        features: list("features", values[5].unwrap_or(""))?,
        needs: list("needs", values[6].unwrap_or(""))?,
        layout: values[7].unwrap_or_default().into(),
    })
}

fn refused(key: &'static str, value: &str, expected: &'static str) -> ManifestError {
    ManifestError::Value {
        key,
        value: value.chars().take(40).collect(),
        expected,
    }
}

fn word(key: &'static str, value: &str) -> Result<String, ManifestError> {
    let fits = (1..=MAX_NAME).contains(&value.len())
        && value.starts_with(|c: char| c.is_ascii_lowercase())
        && value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if fits {
        Ok(value.into())
    } else {
        Err(refused(
            key,
            value,
            "1 to 32 of a-z, 0-9, _ and -, a letter first",
        ))
    }
}

fn version(value: &str) -> Result<String, ManifestError> {
    let fits = (1..=64).contains(&value.len())
        && value.starts_with(|c: char| c.is_ascii_digit())
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'));
    if fits {
        Ok(value.into())
    } else {
        Err(refused("version", value, "a version reads like 1.2.0"))
    }
}

fn abi(value: &str) -> Result<AbiVersion, ManifestError> {
    let numbers = value
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = numbers.ok_or_else(|| refused("abi", value, "an ABI version reads like 2.0"))?;
    Ok(AbiVersion { major, minor })
}

fn list(key: &'static str, value: &str) -> Result<Vec<String>, ManifestError> {
    let items: Vec<String> = value
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(String::from)
        .collect();
    let fits = |item: &String| item.len() <= 128 && item.chars().all(|c| c.is_ascii_graphic() && c != '/');
    match items.iter().find(|item| !fits(item)) {
        Some(item) => Err(refused(
            key,
            item,
            "names without `/` or spaces, separated by commas",
        )),
        None => Ok(items),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[(&str, &str)] = &[
        ("name", "acme"),
        ("kind", "gpu"),
        ("version", "1.2.0"),
        ("abi", "2.0"),
        ("arch", "x86_64"),
    ];

    #[test]
    fn a_note_reads_back() {
        const NOTE: Note<{ desc_size(FIELDS) }> = Note::new(FIELDS);
        assert_eq!((NOTE.namesz, NOTE.kind, size_of_val(&NOTE) % 4), (8, 1, 0));
        let manifest = parse(NOTE.desc()).unwrap();
        assert_eq!(manifest.name, "acme");
        assert_eq!(manifest.abi, AbiVersion { major: 2, minor: 0 });
        assert!(manifest.features.is_empty());
        assert_eq!(ABI.to_string(), ABI_TEXT);
    }

    #[test]
    fn lists_and_unknown_keys() {
        let text = "name=a\nkind=cpu\nversion=1\nabi=1.7\narch=x86_64\ncolour=red\nfeatures=avx2, fma,\nneeds=libx.so.1\n";
        let manifest = parse(text.as_bytes()).unwrap();
        assert_eq!(manifest.features, ["avx2", "fma"]);
        assert_eq!(manifest.needs, ["libx.so.1"]);
        assert_eq!(manifest.abi.minor, 7);
    }

    #[test]
    fn refusals_name_the_value() {
        let with = |key: &str, value: &str| {
            let lines: Vec<String> = FIELDS
                .iter()
                .map(|(k, v)| format!("{k}={}", if *k == key { value } else { v }))
                .collect();
            parse(lines.join("\n").as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(
            with("abi", "one"),
            "the manifest's abi is \"one\"; an ABI version reads like 2.0"
        );
        assert_eq!(
            with("name", "../x"),
            "the manifest's name is \"../x\"; 1 to 32 of a-z, 0-9, _ and -, a letter first"
        );
        assert_eq!(parse(b"name=a").unwrap_err(), ManifestError::Missing("kind"));
        assert_eq!(
            parse(b"name=a\nname=b").unwrap_err(),
            ManifestError::Twice("name")
        );
        assert_eq!(parse(b"name").unwrap_err(), ManifestError::Line { line: 1 });
        assert_eq!(parse(&[0xff]).unwrap_err(), ManifestError::NotText);
        assert_eq!(
            parse(&[b'a'; 70_000]).unwrap_err(),
            ManifestError::TooLong(70_000)
        );
    }
}
