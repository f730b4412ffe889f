use super::*;
use proptest::prelude::*;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

const SOURCE: &str = r#"
__attribute__((section(".note.thalweg"), aligned(4), used))
static const struct { unsigned n, d, t; char name[8]; char desc[12]; } note = { 8, 11, 1, "thalweg", "name=good\nx=" };
static int table[4] = {1, 2, 3, 4};
int *where = &table[1];
int thalweg_backend(void) { return *where; }
"#;

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let (source, library) = (dir.path().join("good.c"), dir.path().join("good.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .args(["-Wl,--no-as-needed", "-lm"])
        .status()
        .unwrap();
    assert!(done.success());
    std::fs::read(library).unwrap()
});

#[test]
fn a_good_library_tells_what_it_needs_and_exports() {
    let elf = check(&GOOD).unwrap();
    assert_eq!(elf.note, Some(&b"name=good\nx"[..]));
    assert!(
        elf.needed.iter().any(|lib| lib.starts_with("libm.so")),
        "{:?}",
        elf.needed
    );
    assert!(elf.may_export("thalweg_backend") && !elf.may_export("other"));
}

#[test]
fn this_program_is_not_a_plugin_but_readable() {
    let bytes = std::fs::read(Path::new("/proc/self/exe")).unwrap();
    assert_eq!(check(&bytes).unwrap().note, None);
}

#[test]
fn no_prefix_of_a_library_passes() {
    for len in 0..GOOD.len() {
        assert!(check(&GOOD[..len]).is_err(), "{len} of {} bytes", GOOD.len());
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let text = |bytes: &[u8]| check(bytes).unwrap_err().to_string();
    assert_eq!(text(b""), "the file is empty");
    assert_eq!(
        text(b"#!/bin/sh\n"),
        "not a shared library: the file does not start as an ELF file"
    );
    let half = GOOD.len() / 2;
    assert!(text(&GOOD[..half]).ends_with(&format!(", the file has {half}; copy the file again")));
    let mut other = GOOD.clone();
    other[18..20].copy_from_slice(&if cfg!(target_arch = "s390x") { 62u16 } else { 22 }.to_ne_bytes());
    let arch = std::env::consts::ARCH;
    assert!(
        text(&other).ends_with(&format!(
            ", this program runs on {arch}; get the plugin for {arch}"
        )),
        "{}",
        text(&other)
    );
    let mut object = GOOD.clone();
    object[16..18].copy_from_slice(&1u16.to_ne_bytes());
    assert_eq!(text(&object), "not a shared library but an object file");
}

/// The library with a table of packed relocations in place of its own relocations, which begin with their address.
#[cfg(target_pointer_width = "64")]
fn packed(words: impl FnOnce(u64) -> Vec<u64>) -> Result<(), String> {
    let mut bytes = GOOD.clone();
    let number = |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let header = Header::parse(&*bytes).unwrap();
    let segments = header.program_headers(ENDIAN, &*bytes).unwrap();
    let segment = segments
        .iter()
        .find(|s| s.p_type(ENDIAN) == elf::PT_DYNAMIC)
        .unwrap();
    let start = segment.p_offset(ENDIAN) as usize;
    let entries: Vec<usize> = (0..segment.p_filesz(ENDIAN) as usize / 16)
        .map(|at| start + 16 * at)
        .collect();
    let place = |tag: u64| *entries.iter().find(|at| number(&bytes, **at) == tag).unwrap();
    // DT_RELA, DT_RELASZ, DT_RELAENT and DT_RELACOUNT become DT_RELR, DT_RELRSZ, DT_RELRENT and DT_DEBUG.
    let (table, size, each, count) = (place(7), place(8), place(9), place(0x6fff_fff9));
    // The table of a small library lies in its first segment, where addresses are offsets.
    let at = number(&bytes, table + 8) as usize;
    let words = words(number(&bytes, at));
    assert!(8 * words.len() as u64 <= number(&bytes, size + 8));
    let set =
        |bytes: &mut [u8], at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
    for (entry, tag) in [(table, 36), (size, 35), (each, 37), (count, 21)] {
        set(&mut bytes, entry, tag);
    }
    set(&mut bytes, size + 8, 8 * words.len() as u64);
    for (word, number) in words.iter().enumerate() {
        set(&mut bytes, at + 8 * word, *number);
    }
    check(&bytes).map(drop).map_err(|error| error.to_string())
}

#[test]
#[cfg(target_pointer_width = "64")]
fn packed_relocations_lie_in_the_files_memory() {
    let outside =
        Err("damaged: a relocation lies outside of the file's memory; copy the file again".to_owned());
    assert_eq!(packed(|at| vec![at]), Ok(()));
    // With the word behind it, and with a map of nothing.
    assert_eq!(packed(|at| vec![at, 0b11]), Ok(()));
    assert_eq!(packed(|at| vec![at, 1, 1]), Ok(()));
    // Each map moves on by 63 words, past the end of the library.
    assert_eq!(packed(|at| vec![at + (1 << 30)]), outside);
    assert_eq!(
        packed(|at| vec![at, 1 << 63 | 1, 1, 1, 1, 1, 1 << 63 | 1]),
        outside
    );
    assert_eq!(packed(|_| vec![u64::MAX - 1]), outside);
    assert_eq!(
        packed(|_| vec![0b11]),
        Err("damaged: packed relocations begin with no address; copy the file again".to_owned())
    );
}

proptest! {
    #[test]
    fn damaged_bytes_never_panic(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut bytes = GOOD.clone();
        for (index, byte) in places {
            // Most of what matters lies in the header, the tables after it and the section table at the end.
            let at = index.index(4096);
            let at = if at < 2048 { at } else { bytes.len() - (at - 2047) };
            bytes[at] = byte;
        }
        let _ = check(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = GOOD[..16].to_vec();
        bytes.extend(tail);
        prop_assert!(check(&bytes).is_err());
    }
}
