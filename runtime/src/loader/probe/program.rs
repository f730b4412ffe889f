//! The program that the child runs: an ELF file of one page of code, made here, that needs the plugin and no more.
//!
//! The system's loader maps the plugin with all that it needs and runs the constructors; then the code writes
//! [`SIGN`] to standard output and ends the process without running destructors.

use std::io;
use std::path::Path;

/// What the program writes when every constructor came to its end.
pub(super) const SIGN: &[u8; 7] = b"loaded\n";

/// Write `SIGN`, which follows the code, to descriptor 1; exit with 0.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[
    0xb8, 1, 0, 0, 0, // mov eax, 1 (write)
    0xbf, 1, 0, 0, 0, // mov edi, 1
    0x48, 0x8d, 0x35, 16, 0, 0, 0, // lea rsi, [rip + 16]
    0xba, 7, 0, 0, 0, // mov edx, 7
    0x0f, 0x05, // syscall
    0xb8, 231, 0, 0, 0, // mov eax, 231 (exit_group)
    0x31, 0xff, // xor edi, edi
    0x0f, 0x05, // syscall
];
/// Write `SIGN`, which follows the code, to descriptor 1; exit with 0.
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = &[
    0x08, 0x08, 0x80, 0xd2, // mov x8, 64 (write)
    0x20, 0x00, 0x80, 0xd2, // mov x0, 1
    0xc1, 0x00, 0x00, 0x10, // adr x1, +24
    0xe2, 0x00, 0x80, 0xd2, // mov x2, 7
    0x01, 0x00, 0x00, 0xd4, // svc 0
    0xc8, 0x0b, 0x80, 0xd2, // mov x8, 94 (exit_group)
    0x00, 0x00, 0x80, 0xd2, // mov x0, 0
    0x01, 0x00, 0x00, 0xd4, // svc 0
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CODE: &[u8] = &[];

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SEGMENTS: u64 = 4;
/// Offset and address of the writable part: a multiple of the largest page size of the architectures.
const DATA: u64 = 0x10000;
const ENTRIES: u64 = 6;

/// The program that needs the library at `path`.
pub(super) fn program(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    if CODE.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "no trial program for this architecture",
        ));
    }
    let (entry, code_end) = (
        HEADER + SEGMENTS * SEGMENT,
        HEADER + SEGMENTS * SEGMENT + (CODE.len() + SIGN.len()) as u64,
    );
    let path = path.as_os_str().as_bytes();
    let (dynamic, symbols) = (DATA, DATA + ENTRIES * 16);
    let strings = symbols + 24;
    let strings_size = path.len() as u64 + 2;
    let data_size = strings + strings_size - DATA;
    let mut file = Image(Vec::new());
    file.bytes(b"\x7fELF\x02\x01\x01").pad(16);
    // Type (shared object), machine, version; entry, segments, no sections; flags; sizes and counts.
    file.half(3)
        .half(MACHINE)
        .word(1)
        .long(entry)
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
    file.segment(load, execute_read, 0, code_end, DATA);
    file.segment(load, read_write, DATA, data_size, DATA);
    file.segment(dynamic_segment, read_write, dynamic, ENTRIES * 16, 8);
    file.segment(stack, read_write, 0, 0, 16);
    file.bytes(CODE).bytes(SIGN).pad(DATA as usize);
    let (needed, string_table, symbol_table, string_size, symbol_size) = (1, 5, 6, 10, 11);
    for (tag, value) in [
        (needed, 1),
        (string_table, strings),
        (symbol_table, symbols),
        (string_size, strings_size),
        (symbol_size, 24),
        (0, 0),
    ] {
        file.long(tag).long(value);
    }
    file.pad(strings as usize).bytes(b"\0").bytes(path).bytes(b"\0");
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
