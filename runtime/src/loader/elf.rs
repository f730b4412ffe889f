//! Judges an ELF file before the system's loader sees it.
//!
//! The system's loader maps what the headers promise and trusts it: a truncated file ends the process with SIGBUS,
//! a damaged dynamic section with an assertion. [`check`] reads bytes and runs nothing.

// A word is u64 here and u32 on 32-bit machines.
#![allow(clippy::useless_conversion)]

use object::NativeEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

mod tables;

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

/// How a library begins.
pub(super) const MAGIC: [u8; 4] = elf::ELFMAG;

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
    let needed = tables::dynamic(segments, bytes)?;
    Ok(Elf {
        note: tables::note(segments, sections, bytes),
        needed,
        exports: tables::exports(segments, sections, bytes)?,
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

#[cfg(test)]
mod tests;
