//! The program that the child runs: an ELF file of one page of code, made here, that needs the C library and no more.
//!
//! The system's loader maps it with the C library and resolves [`FUNCTIONS`] in its data; then its [`code`](super::code) runs.

use super::code::code;
use std::io;
use std::path::Path;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// The relocation that writes the address of a symbol: R_AARCH64_GLOB_DAT, R_X86_64_GLOB_DAT.
const ADDRESS_OF_SYMBOL: u64 = if cfg!(target_arch = "aarch64") { 1025 } else { 6 };
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SEGMENTS: u64 = 4;
/// Where the code lies.
pub(super) const ENTRY: u64 = HEADER + SEGMENTS * SEGMENT;
/// Offset and address of the writable part: a multiple of the largest page size of the architectures.
pub(super) const DATA: u64 = 0x10000;

/// What the system's loader finds for the program, in the order of the words behind a request's.
pub(super) const FUNCTIONS: [&str; 5] = ["dlopen", "dlsym", "dlerror", "read", "write"];
/// Bytes of a request, which are the first of the data.
pub(super) const REQUEST: usize = 64;
/// Bytes that the program sends first: the address of its data, the socket's descriptor, the three functions for the host's table,
/// what the system's loader wants to run at the end, the function that then goes on, a word of no meaning, and the addresses of
/// [`FUNCTIONS`]. The program keeps the descriptor behind them.
pub(super) const HELLO: usize = REQUEST + 8 * FUNCTIONS.len();
/// A word of the data: whether the parent waits for the end of `exit`.
pub(super) const END_AWAITED: usize = HELLO + 8;
/// Where the parent may put what functions take and give, from the address of the data on, and how much.
pub(super) const SCRATCH: u64 = 128;
pub(super) const SCRATCH_SIZE: u64 = 8192;

const ENTRIES: u64 = 9;
const SYMBOL: u64 = 24;
const RELOCATION: u64 = 24;

/// The program that needs the library at `path`, which has [`FUNCTIONS`].
pub(super) fn program(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let code = code();
    if code.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "there is no trial program for this architecture",
        ));
    }
    let mut names = vec![0];
    let mut name = |text: &[u8]| {
        let at = names.len() as u64;
        names.extend_from_slice(text);
        names.push(0);
        at
    };
    let library = name(path.as_os_str().as_bytes());
    let functions = FUNCTIONS.map(|function| name(function.as_bytes()));
    let count = functions.len() as u64;
    let dynamic = DATA + SCRATCH + SCRATCH_SIZE;
    let symbols = dynamic + ENTRIES * 16;
    let relocations = symbols + (count + 1) * SYMBOL;
    let strings = relocations + count * RELOCATION;
    let data_size = strings + names.len() as u64 - DATA;
    let mut file = Image(Vec::new());
    file.bytes(b"\x7fELF\x02\x01\x01").pad(16);
    // Type (shared object), machine, version; entry, segments, no sections; flags; sizes and counts.
    file.half(3)
        .half(MACHINE)
        .word(1)
        .long(ENTRY)
        .long(HEADER)
        .long(0)
        .word(0);
    file.half(HEADER as u16)
        .half(SEGMENT as u16)
        .half(SEGMENTS as u16)
        .half(64)
        .half(0)
        .half(0);
    let (load, dynamic_segment, stack) = (1, 2, 0x6474_e551);
    let (execute_read, read_write) = (5, 6);
    file.segment(load, execute_read, 0, ENTRY + code.len() as u64, DATA);
    file.segment(load, read_write, DATA, data_size, DATA);
    file.segment(dynamic_segment, read_write, dynamic, ENTRIES * 16, 8);
    file.segment(stack, read_write, 0, 0, 16);
    file.bytes(code).pad(dynamic as usize);
    let (needed, string_table, symbol_table, table, table_size) = (1, 5, 6, 7, 8);
    let (relocation_size, string_size, symbol_size) = (9, 10, 11);
    for (tag, value) in [
        (needed, library),
        (string_table, strings),
        (symbol_table, symbols),
        (table, relocations),
        (table_size, count * RELOCATION),
        (relocation_size, RELOCATION),
        (string_size, names.len() as u64),
        (symbol_size, SYMBOL),
        (0, 0),
    ] {
        file.long(tag).long(value);
    }
    file.pad((symbols + SYMBOL) as usize);
    for name in functions {
        // A global function that is defined elsewhere.
        file.word(name as u32).half(0x12).half(0).long(0).long(0);
    }
    for at in 0..count {
        let (place, symbol) = (DATA + REQUEST as u64 + 8 * at, at + 1);
        file.long(place).long(symbol << 32 | ADDRESS_OF_SYMBOL).long(0);
    }
    file.bytes(&names);
    Ok(file.0)
}

struct Image(Vec<u8>);

impl Image {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Image {
        self.0.extend_from_slice(bytes);
        self
    }

    fn pad(&mut self, len: usize) -> &mut Image {
        self.0.resize(len, 0);
        self
    }

    fn half(&mut self, value: u16) -> &mut Image {
        self.bytes(&value.to_le_bytes())
    }

    fn word(&mut self, value: u32) -> &mut Image {
        self.bytes(&value.to_le_bytes())
    }

    fn long(&mut self, value: u64) -> &mut Image {
        self.bytes(&value.to_le_bytes())
    }

    /// A segment whose address is its offset in the file.
    fn segment(&mut self, kind: u32, flags: u32, at: u64, size: u64, align: u64) {
        self.word(kind)
            .word(flags)
            .long(at)
            .long(at)
            .long(at)
            .long(size)
            .long(size)
            .long(align);
    }
}
