//! No file makes the loader's ELF checks or the manifest's parser panic, and what they hand out lies in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg::loader::elf::check;
use thalweg_hal::manifest;

fuzz_target!(|data: &[u8]| {
    let _ = manifest::parse(data);
    let Ok(elf) = check(data) else { return };
    let inside = |part: &[u8]| data.as_ptr_range().contains(&part.as_ptr()) || part.is_empty();
    assert!(elf.note.is_none_or(inside));
    assert!(elf.needed.iter().all(|name| inside(name.as_bytes())));
    assert!(elf.may_export("thalweg_backend") || elf.exports.is_some());
    if let Some(note) = elf.note {
        let _ = manifest::parse(note);
    }
});
