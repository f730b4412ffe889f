//! The tables inside the segments: dynamic section, notes, symbols.

use super::{ENDIAN, ElfError, Section, Segment, Symbol};
use object::elf;
use object::read::elf::{Dyn, ProgramHeader, SectionHeader, Sym};
use std::ops::Range;
use thalweg_hal::manifest::{NOTE_NAME, NOTE_TYPE};

/// Where `size` bytes at address `address` lie in the file.
fn place(segments: &[Segment], address: u64, size: u64) -> Option<Range<usize>> {
    segments
        .iter()
        .filter(|s| s.p_type(ENDIAN) == elf::PT_LOAD)
        .find_map(|s| {
            let (start, file): (u64, u64) = (s.p_vaddr(ENDIAN).into(), s.p_filesz(ENDIAN).into());
            let skip = address.checked_sub(start)?;
            if skip.checked_add(size)? > file {
                return None;
            }
            let offset: u64 = s.p_offset(ENDIAN).into();
            let first = offset.checked_add(skip)?;
            Some(usize::try_from(first).ok()?..usize::try_from(first.checked_add(size)?).ok()?)
        })
}

/// Checks the dynamic section and returns the names of the needed libraries.
pub(super) fn dynamic<'a>(segments: &[Segment], bytes: &'a [u8]) -> Result<Vec<&'a str>, ElfError> {
    let segment = segments.iter().find(|s| s.p_type(ENDIAN) == elf::PT_DYNAMIC);
    let segment = segment.ok_or(ElfError::Damaged("it has no dynamic section"))?;
    let entries = segment.dynamic(ENDIAN, bytes).ok().flatten();
    let entries = entries.ok_or(ElfError::Damaged("the dynamic section is cut"))?;
    let end = entries.iter().position(|e| e.tag(ENDIAN) == elf::DT_NULL);
    let entries = &entries[..end.ok_or(ElfError::Damaged("the dynamic section has no end"))?];
    // Of several entries with one tag, the system's loader takes the last.
    let value = |tag| {
        entries
            .iter()
            .rfind(|e| e.tag(ENDIAN) == tag)
            .map(|e| e.val(ENDIAN))
    };
    let strings = match (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) {
        (Some(at), Some(size)) => place(segments, at, size).and_then(|range| bytes.get(range)),
        _ => None,
    };
    let strings = strings.ok_or(ElfError::Damaged("the dynamic section has no string table"))?;
    let tables = [
        (elf::DT_RELA, Some(elf::DT_RELASZ)),
        (elf::DT_REL, Some(elf::DT_RELSZ)),
        (elf::DT_RELR, Some(elf::DT_RELRSZ)),
        (elf::DT_JMPREL, Some(elf::DT_PLTRELSZ)),
        (elf::DT_INIT_ARRAY, Some(elf::DT_INIT_ARRAYSZ)),
        (elf::DT_FINI_ARRAY, Some(elf::DT_FINI_ARRAYSZ)),
        (elf::DT_SYMTAB, None),
        (elf::DT_HASH, None),
        (elf::DT_GNU_HASH, None),
        (elf::DT_VERSYM, None),
        (elf::DT_VERNEED, None),
    ];
    for (table, size) in tables {
        let Some(address) = value(table) else { continue };
        let size = match size {
            Some(tag) => value(tag).ok_or(ElfError::Damaged(
                "the dynamic section names a table without its size",
            ))?,
            None => 1,
        };
        if size > 0 && place(segments, address, size).is_none() {
            return Err(ElfError::Damaged("the dynamic section points outside the file"));
        }
    }
    let words = match value(elf::DT_PLTREL) {
        Some(REL) => 2,
        _ => 3,
    };
    for (table, size, words) in [
        (elf::DT_RELA, elf::DT_RELASZ, 3),
        (elf::DT_REL, elf::DT_RELSZ, 2),
        (elf::DT_JMPREL, elf::DT_PLTRELSZ, words),
        (elf::DT_RELR, elf::DT_RELRSZ, 1),
    ] {
        let range = value(table)
            .zip(value(size))
            .and_then(|(at, size)| place(segments, at, size));
        let Some(content) = range.and_then(|range| bytes.get(range)) else {
            continue;
        };
        // The system's loader would take what lies behind the table for the rest of the last one.
        if content.len() % (words * WORD) != 0 {
            return Err(ElfError::Damaged(
                "a table of relocations ends in the middle of one",
            ));
        }
        match table {
            elf::DT_RELR => packed_relocations(segments, content)?,
            _ => relocations(segments, content, words)?,
        }
    }
    // The first runs when the file is loaded, the last when the process exits.
    for function in [elf::DT_INIT, elf::DT_FINI].into_iter().filter_map(value) {
        code(segments, function, bytes)?;
    }
    for array in [elf::DT_INIT_ARRAY, elf::DT_FINI_ARRAY]
        .into_iter()
        .filter_map(value)
    {
        // Its entries are relocated, so it lies in writable memory.
        if array % size_of::<usize>() as u64 != 0 || segment_of(segments, array, elf::PF_W).is_none() {
            return Err(ElfError::Damaged(
                "the dynamic section points to no list of functions",
            ));
        }
    }
    if value(elf::DT_SYMTAB).is_none() || value(elf::DT_HASH).or(value(elf::DT_GNU_HASH)).is_none() {
        return Err(ElfError::Damaged("the dynamic section has no symbol table"));
    }
    let mut needed = Vec::new();
    for entry in entries {
        let tag = entry.tag(ENDIAN);
        if [elf::DT_NEEDED, elf::DT_SONAME, elf::DT_RPATH, elf::DT_RUNPATH].contains(&tag) {
            let name = string(strings, entry.val(ENDIAN));
            let name = name.ok_or(ElfError::Damaged(
                "the dynamic section names a text outside its string table",
            ))?;
            if tag == elf::DT_NEEDED {
                needed.push(name);
            }
        }
    }
    Ok(needed)
}

/// What `DT_PLTREL` says of relocations without an addend.
const REL: u64 = 17;

const WORD: usize = size_of::<usize>();

/// Whether a word at `address` lies in the library's own memory.
fn own_word(segments: &[Segment], address: u64) -> bool {
    segments.iter().any(|s| {
        let (start, size): (u64, u64) = (s.p_vaddr(ENDIAN).into(), s.p_memsz(ENDIAN).into());
        let skip = address.checked_sub(start);
        s.p_type(ENDIAN) == elf::PT_LOAD
            && skip.is_some_and(|skip| size.checked_sub(WORD as u64).is_some_and(|last| skip <= last))
    })
}

/// The words of a table.
fn words_of(table: &[u8]) -> impl Iterator<Item = u64> {
    let words = table.chunks_exact(WORD);
    words.map(|bytes| bytes.try_into().map_or(0, usize::from_ne_bytes) as u64)
}

/// Checks that a relocation writes into the library's own memory. The system's loader does not check it, and what lies beyond is
/// another's, in a trial by chance nobody's.
fn relocated(segments: &[Segment], address: u64) -> Result<(), ElfError> {
    match own_word(segments, address) {
        true => Ok(()),
        false => Err(ElfError::Damaged(
            "a relocation lies outside of the file's memory",
        )),
    }
}

/// Checks relocations of so many words, which begin with the address and the kind.
fn relocations(segments: &[Segment], table: &[u8], words: usize) -> Result<(), ElfError> {
    for entry in table.chunks_exact(words * WORD) {
        let mut entry = words_of(entry);
        let (address, kind) = (entry.next().unwrap_or(0), entry.next().unwrap_or(0));
        // Kind 0 writes nothing.
        if kind != 0 {
            relocated(segments, address)?;
        }
    }
    Ok(())
}

/// Checks packed relocations: an even word is the address of a word to relocate, an odd one a map of those that follow.
fn packed_relocations(segments: &[Segment], table: &[u8]) -> Result<(), ElfError> {
    const MAPPED: u64 = 8 * WORD as u64 - 1;
    let mut next = None;
    for word in words_of(table) {
        if word & 1 == 0 {
            relocated(segments, word)?;
            next = Some(word + WORD as u64);
            continue;
        }
        let start = next.ok_or(ElfError::Damaged("packed relocations begin with no address"))?;
        for bit in (0..MAPPED).filter(|bit| word >> (bit + 1) & 1 == 1) {
            relocated(segments, start + bit * WORD as u64)?;
        }
        next = Some(start + MAPPED * WORD as u64);
    }
    Ok(())
}

/// The segment to load that holds `address` and has the permission `flag`.
fn segment_of(segments: &[Segment], address: u64, flag: elf::ProgramFlags) -> Option<&Segment> {
    segments.iter().find(|s| {
        let (start, file): (u64, u64) = (s.p_vaddr(ENDIAN).into(), s.p_filesz(ENDIAN).into());
        s.p_type(ENDIAN) == elf::PT_LOAD
            && s.p_flags(ENDIAN).0 & flag.0 != 0
            && address.checked_sub(start).is_some_and(|skip| skip < file)
    })
}

/// Checks that there is machine code at `address`.
fn code(segments: &[Segment], address: u64, bytes: &[u8]) -> Result<(), ElfError> {
    let segment = segment_of(segments, address, elf::PF_X);
    let place = segment
        .and_then(|_| place(segments, address, 1))
        .and_then(|range| bytes.get(range.start..));
    let code = place.ok_or(ElfError::Damaged("a function lies outside the machine code"))?;
    if code.iter().take(8).all(|b| *b == 0) {
        return Err(ElfError::Damaged("a function's machine code is all zeros"));
    }
    Ok(())
}

fn string(strings: &[u8], at: u64) -> Option<&str> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The content of the note; notes of others and malformed ones are passed over.
pub(super) fn note<'a>(segments: &[Segment], sections: &[Section], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let in_segments = segments
        .iter()
        .filter_map(|s| s.notes(ENDIAN, bytes).ok().flatten());
    let in_sections = sections
        .iter()
        .filter_map(|s| s.notes(ENDIAN, bytes).ok().flatten());
    in_segments.chain(in_sections).find_map(|mut notes| {
        while let Ok(Some(note)) = notes.next() {
            if note.name_bytes() == NOTE_NAME && note.n_type(ENDIAN).0 == NOTE_TYPE {
                return Some(note.desc());
            }
        }
        None
    })
}

pub(super) fn exports<'a>(
    segments: &[Segment],
    sections: &[Section],
    bytes: &'a [u8],
) -> Result<Option<Vec<&'a str>>, ElfError> {
    let Some(table) = sections.iter().find(|s| s.sh_type(ENDIAN) == elf::SHT_DYNSYM) else {
        return Ok(None);
    };
    let symbols = table.data_as_array::<Symbol, _>(ENDIAN, bytes);
    let symbols = symbols.map_err(|_| ElfError::Damaged("the symbol table has a wrong size"))?;
    let strings = sections
        .get(table.sh_link(ENDIAN) as usize)
        .and_then(|s| s.data(ENDIAN, bytes).ok());
    let strings = strings.ok_or(ElfError::Damaged("the symbol table has no string table"))?;
    let mut names = Vec::new();
    for symbol in symbols {
        let name = string(strings, symbol.st_name(ENDIAN).into());
        let name = name.ok_or(ElfError::Damaged("a symbol has no name in the string table"))?;
        if symbol.st_shndx(ENDIAN) == elf::SHN_UNDEF || symbol.st_bind() == elf::STB_LOCAL {
            continue;
        }
        if symbol.st_type() == elf::STT_FUNC {
            code(segments, symbol.st_value(ENDIAN).into(), bytes)?;
        }
        names.push(name);
    }
    Ok(Some(names))
}
