//! Judges an ELF file before the system's loader sees it.
//!
//! The system's loader maps what the headers promise and trusts it: a truncated file ends the process with SIGBUS,
//! a damaged dynamic section with an assertion. [`check`] reads bytes and runs nothing.

use object::NativeEndian;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};
use std::ops::Range;
use thalweg_hal::manifest::{NOTE_NAME, NOTE_TYPE};

#[cfg(target_pointer_width = "64")]
type Header = elf::FileHeader64<NativeEndian>;
#[cfg(target_pointer_width = "32")]
type Header = elf::FileHeader32<NativeEndian>;
type Segment = <Header as FileHeader>::ProgramHeader;
type Section = <Header as FileHeader>::SectionHeader;
type Symbol = <Header as FileHeader>::Sym;

const ENDIAN: NativeEndian = NativeEndian;
/// A whole block of zeros among machine code comes from an interrupted copy, not from a compiler.
const BLOCK: usize = 4096;

/// What the loader needs to know of a file that passed [`check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf<'a> {
    /// The content of the note `thalweg`, `None` when there is none.
    pub note: Option<&'a [u8]>,
    /// The libraries that the system's loader will look for.
    pub needed: Vec<&'a str>,
    /// The names of the exported symbols, `None` when the file has no section table to find them by.
    pub exports: Option<Vec<&'a str>>,
}

impl Elf<'_> {
    /// Whether `symbol` may be there: false only when it is certain that it is not.
    pub fn may_export(&self, symbol: &str) -> bool {
        self.exports.as_ref().is_none_or(|names| names.contains(&symbol))
    }
}

/// Why a file is not handed to the system's loader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// No bytes.
    #[error("the file is empty")]
    Empty,
    /// Something else than a program file.
    #[error("not a shared library: the file does not start as an ELF file")]
    NotElf,
    /// Made for another processor.
    #[error(
        "built for {found}, this program runs on {}; get the plugin for {}",
        std::env::consts::ARCH,
        std::env::consts::ARCH
    )]
    Machine {
        /// What it was made for.
        found: String,
    },
    /// An executable, an object file or a core dump.
    #[error("not a shared library but {0}")]
    Kind(&'static str),
    /// Something lies outside the file.
    #[error("truncated: {what} reaches to byte {end}, the file has {len}; copy the file again")]
    Truncated {
        /// What does not fit.
        what: &'static str,
        /// Where it should end.
        end: u64,
        /// The file's length.
        len: u64,
    },
    /// The headers contradict themselves or the format.
    #[error("damaged: {0}; copy the file again")]
    Damaged(&'static str),
}

/// Checks `bytes` as a shared library for this machine. Never panics, whatever the bytes are.
///
/// # Errors
/// The first thing found that would make loading it fail or end the process.
pub fn check(bytes: &[u8]) -> Result<Elf<'_>, ElfError> {
    let header = header(bytes)?;
    let segments = header.program_headers(ENDIAN, bytes).map_err(|_| {
        truncated_table(
            "the segment table",
            header.e_phoff(ENDIAN).into(),
            u64::from(header.e_phnum(ENDIAN)) * size_of::<Segment>() as u64,
            bytes,
        )
    })?;
    check_segments(segments, bytes)?;
    let sections = header.section_headers(ENDIAN, bytes).map_err(|_| {
        truncated_table(
            "the section table",
            header.e_shoff(ENDIAN).into(),
            u64::from(header.e_shnum(ENDIAN)) * size_of::<Section>() as u64,
            bytes,
        )
    })?;
    check_sections(sections, bytes)?;
    let needed = dynamic(segments, bytes)?;
    Ok(Elf {
        note: note(segments, sections, bytes),
        needed,
        exports: exports(segments, sections, bytes)?,
    })
}

fn header(bytes: &[u8]) -> Result<&Header, ElfError> {
    if bytes.is_empty() {
        return Err(ElfError::Empty);
    }
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(ElfError::NotElf);
    }
    let header_size = size_of::<Header>() as u64;
    let Some(ident) = bytes.get(..20).filter(|_| bytes.len() as u64 >= header_size) else {
        return Err(ElfError::Truncated {
            what: "the header",
            end: header_size,
            len: bytes.len() as u64,
        });
    };
    let little = ident[5] == 1;
    let pair = [ident[18], ident[19]];
    let machine = if little {
        u16::from_le_bytes(pair)
    } else {
        u16::from_be_bytes(pair)
    };
    let bits = if ident[4] == 1 { 32 } else { 64 };
    let wrong_machine = HOST_MACHINE.is_some_and(|host| host.0 != machine);
    if wrong_machine || bits != usize::BITS || little != cfg!(target_endian = "little") {
        let order = if little { "little" } else { "big" };
        return Err(ElfError::Machine {
            found: format!("{} ({bits} bits, {order} endian)", machine_name(machine)),
        });
    }
    let header =
        Header::parse(bytes).map_err(|_| ElfError::Damaged("the header is not that of an ELF file"))?;
    match header.e_type(ENDIAN) {
        elf::ET_DYN => Ok(header),
        elf::ET_EXEC => Err(ElfError::Kind("an executable")),
        elf::ET_REL => Err(ElfError::Kind("an object file")),
        elf::ET_CORE => Err(ElfError::Kind("a core dump")),
        _ => Err(ElfError::Damaged("the file's type is unknown")),
    }
}

const HOST_MACHINE: Option<elf::Machine> = if cfg!(target_arch = "x86_64") {
    Some(elf::EM_X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(elf::EM_AARCH64)
} else if cfg!(target_arch = "x86") {
    Some(elf::EM_386)
} else if cfg!(target_arch = "arm") {
    Some(elf::EM_ARM)
} else if cfg!(any(target_arch = "riscv64", target_arch = "riscv32")) {
    Some(elf::EM_RISCV)
} else if cfg!(target_arch = "powerpc64") {
    Some(elf::EM_PPC64)
} else {
    None
};

fn machine_name(machine: u16) -> String {
    let name = match elf::Machine(machine) {
        elf::EM_X86_64 => "x86_64",
        elf::EM_386 => "x86",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_ARM => "arm",
        elf::EM_RISCV => "riscv",
        elf::EM_PPC64 => "powerpc64",
        elf::EM_S390 => "s390x",
        _ => return format!("machine {machine}"),
    };
    name.into()
}

fn truncated_table(what: &'static str, offset: u64, size: u64, bytes: &[u8]) -> ElfError {
    let (end, len) = (offset.saturating_add(size), bytes.len() as u64);
    if end > len {
        ElfError::Truncated { what, end, len }
    } else {
        ElfError::Damaged("a header table has a wrong entry size")
    }
}

fn inside(what: &'static str, offset: u64, size: u64, bytes: &[u8]) -> Result<(), ElfError> {
    let (end, len) = (offset.saturating_add(size), bytes.len() as u64);
    if end > len {
        Err(ElfError::Truncated { what, end, len })
    } else {
        Ok(())
    }
}

fn check_segments(segments: &[Segment], bytes: &[u8]) -> Result<(), ElfError> {
    let mut last_end = 0;
    let mut loads = 0;
    for segment in segments {
        let (offset, size) = (segment.p_offset(ENDIAN).into(), segment.p_filesz(ENDIAN).into());
        inside("a segment", offset, size, bytes)?;
        if segment.p_type(ENDIAN) != elf::PT_LOAD {
            continue;
        }
        loads += 1;
        let (start, memory): (u64, u64) = (segment.p_vaddr(ENDIAN).into(), segment.p_memsz(ENDIAN).into());
        let align: u64 = segment.p_align(ENDIAN).into();
        // The limit keeps a wild size from asking the system for all of the address space.
        let end = start.checked_add(memory).filter(|end| *end < 1 << 40);
        let Some(end) = end else {
            return Err(ElfError::Damaged("a segment has an impossible address"));
        };
        if size > memory || start < last_end {
            return Err(ElfError::Damaged("the segments overlap"));
        }
        if align > 1 && (!align.is_power_of_two() || start % align != offset % align) {
            return Err(ElfError::Damaged("a segment is misaligned"));
        }
        last_end = end;
    }
    if loads == 0 {
        Err(ElfError::Damaged("it has no segment to load"))
    } else {
        Ok(())
    }
}

fn check_sections(sections: &[Section], bytes: &[u8]) -> Result<(), ElfError> {
    for section in sections {
        let Some((offset, size)) = section.file_range(ENDIAN) else {
            continue;
        };
        inside("a section", offset, size, bytes)?;
        let code = section.sh_flags(ENDIAN).0 & elf::SHF_EXECINSTR.0 != 0;
        if code && has_zero_block(bytes, offset as usize, (offset + size) as usize) {
            return Err(ElfError::Damaged("a block of its machine code is all zeros"));
        }
    }
    Ok(())
}

fn has_zero_block(bytes: &[u8], start: usize, end: usize) -> bool {
    let code = bytes.get(start.next_multiple_of(BLOCK)..end).unwrap_or(&[]);
    code.chunks_exact(BLOCK)
        .any(|block| block.iter().all(|b| *b == 0))
}

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
fn dynamic<'a>(segments: &[Segment], bytes: &'a [u8]) -> Result<Vec<&'a str>, ElfError> {
    let segment = segments.iter().find(|s| s.p_type(ENDIAN) == elf::PT_DYNAMIC);
    let segment = segment.ok_or(ElfError::Damaged("it has no dynamic section"))?;
    let entries = segment.dynamic(ENDIAN, bytes).ok().flatten();
    let entries = entries.ok_or(ElfError::Damaged("the dynamic section is cut"))?;
    let end = entries.iter().position(|e| e.tag(ENDIAN) == elf::DT_NULL);
    let entries = &entries[..end.ok_or(ElfError::Damaged("the dynamic section has no end"))?];
    let value = |tag| {
        entries
            .iter()
            .find(|e| e.tag(ENDIAN) == tag)
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
        (elf::DT_INIT, None),
        (elf::DT_FINI, None),
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

fn string(strings: &[u8], at: u64) -> Option<&str> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The content of the note; notes of others and malformed ones are passed over.
fn note<'a>(segments: &[Segment], sections: &[Section], bytes: &'a [u8]) -> Option<&'a [u8]> {
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

fn exports<'a>(
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
            let code =
                place(segments, symbol.st_value(ENDIAN).into(), 1).and_then(|range| bytes.get(range.start..));
            let code = code.ok_or(ElfError::Damaged("a function lies outside the file"))?;
            if code.iter().take(8).all(|b| *b == 0) {
                return Err(ElfError::Damaged("a function's machine code is all zeros"));
            }
        }
        names.push(name);
    }
    Ok(Some(names))
}

#[cfg(test)]
mod tests;
