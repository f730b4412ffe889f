//! The machine code of the trial program: it calls what it is told to call, and nothing else.
//!
//! At its start it keeps a copy of descriptor 0, a socket, and closes the original, so that a plugin that reads standard input does
//! not take the parent's requests. Then it sends the [`Hello`](super::program::HELLO) bytes of its data, and serves requests: eight
//! words come, the address of a function and six arguments; the function is called, and its result goes back as one word. It ends
//! when the socket does.
//!
//! Behind that are three functions for the host's table: one returns 0, one returns 1, one runs the pieces of a
//! [`ParallelArgs`](thalweg_hal::tables::ParallelArgs) one after the other. A fourth is the last that `exit` calls. Where the parent has
//! said that it waits for the end, it does not return, but sends a zero and serves on: the others came to their end.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::program::{DATA, END_AWAITED, ENTRY, HELLO};

/// The code, to be mapped at [`ENTRY`](super::program::ENTRY).
#[cfg(target_arch = "x86_64")]
pub(super) fn code() -> &'static [u8] {
    let (start, end): (*const u8, *const u8);
    // SAFETY: the block jumps over the code between its labels and writes two registers.
    unsafe {
        std::arch::asm!(
            "lea {start}, [rip + 20f]",
            "lea {end}, [rip + 30f]",
            "jmp 30f",
            "20:",
            "and rsp, -16",
            "lea r12, [rip + 20b + {data}]",
            // What the system's loader wants to run at the end comes in rdx.
            "mov [r12 + 40], rdx",
            // The copy of the socket stays in ebx: dup, then close.
            "xor edi, edi",
            "mov eax, 32",
            "syscall",
            "mov ebx, eax",
            "xor edi, edi",
            "mov eax, 3",
            "syscall",
            "mov [r12], r12",
            "mov [r12 + 8], rbx",
            "lea rax, [rip + 25f]",
            "mov [r12 + 16], rax",
            "lea rax, [rip + 24f]",
            "mov [r12 + 24], rax",
            "lea rax, [rip + 26f]",
            "mov [r12 + 32], rax",
            "lea rax, [rip + 29f]",
            "mov [r12 + 48], rax",
            "mov [r12 + {hello}], rbx",
            "mov edx, {hello}",
            // Write edx bytes of the data.
            "21:",
            "mov edi, ebx",
            "mov rsi, r12",
            "mov eax, 1",
            "syscall",
            "cmp eax, edx",
            "jne 23f",
            // Read a request, again where a signal came (EINTR).
            "22:",
            "mov edi, ebx",
            "mov rsi, r12",
            "mov edx, 64",
            "xor eax, eax",
            "syscall",
            "cmp rax, -4",
            "je 22b",
            "cmp rax, 64",
            "jne 23f",
            "mov rdi, [r12 + 8]",
            "mov rsi, [r12 + 16]",
            "mov rdx, [r12 + 24]",
            "mov rcx, [r12 + 32]",
            "mov r8, [r12 + 40]",
            "mov r9, [r12 + 48]",
            "xor eax, eax",
            "call [r12]",
            "mov [r12], rax",
            "mov edx, 8",
            "jmp 21b",
            // exit_group(0)
            "23:",
            "xor edi, edi",
            "mov eax, 231",
            "syscall",
            "24:",
            "mov eax, 1",
            "ret",
            "25:",
            "xor eax, eax",
            "ret",
            "26:",
            "push rbx",
            "push r12",
            "push r13",
            "mov rbx, rsi",
            "xor r12d, r12d",
            "27:",
            "cmp r12, [rbx + 16]",
            "jae 28f",
            "mov rdi, [rbx + 8]",
            "mov rsi, r12",
            "call [rbx]",
            "inc r12",
            "jmp 27b",
            "28:",
            "pop r13",
            "pop r12",
            "pop rbx",
            "ret",
            "29:",
            "lea rax, [rip + 20b + {data}]",
            "cmp qword ptr [rax + {awaited}], 0",
            "je 25b",
            "and rsp, -16",
            "mov r12, rax",
            "mov rbx, [r12 + {hello}]",
            "mov qword ptr [r12], 0",
            "mov edx, 8",
            "jmp 21b",
            "30:",
            start = out(reg) start,
            end = out(reg) end,
            data = const DATA - ENTRY,
            hello = const HELLO,
            awaited = const END_AWAITED,
            options(nomem, nostack, preserves_flags),
        );
    }
    bytes(start, end)
}

/// The code, to be mapped at [`ENTRY`](super::program::ENTRY).
#[cfg(target_arch = "aarch64")]
pub(super) fn code() -> &'static [u8] {
    let (start, end): (*const u8, *const u8);
    // SAFETY: the block jumps over the code between its labels and writes two registers.
    unsafe {
        std::arch::asm!(
            "adr {start}, 20f",
            "adr {end}, 30f",
            "b 30f",
            "20:",
            "adr x21, 20b + {data}",
            // What the system's loader wants to run at the end comes in x0.
            "str x0, [x21, #40]",
            // The copy of the socket stays in x19: dup, then close.
            "mov x0, #0",
            "mov x8, #23",
            "svc #0",
            "mov x19, x0",
            "mov x0, #0",
            "mov x8, #57",
            "svc #0",
            "adr x9, 25f",
            "adr x10, 24f",
            "adr x11, 26f",
            "stp x21, x19, [x21]",
            "stp x9, x10, [x21, #16]",
            "str x11, [x21, #32]",
            "adr x9, 29f",
            "str x9, [x21, #48]",
            "str x19, [x21, #{hello}]",
            "mov x20, #{hello}",
            // Write x20 bytes of the data.
            "21:",
            "mov x0, x19",
            "mov x1, x21",
            "mov x2, x20",
            "mov x8, #64",
            "svc #0",
            "cmp x0, x20",
            "b.ne 23f",
            // Read a request, again where a signal came (EINTR).
            "22:",
            "mov x0, x19",
            "mov x1, x21",
            "mov x2, #64",
            "mov x8, #63",
            "svc #0",
            "cmn x0, #4",
            "b.eq 22b",
            "cmp x0, #64",
            "b.ne 23f",
            "ldp x9, x0, [x21]",
            "ldp x1, x2, [x21, #16]",
            "ldp x3, x4, [x21, #32]",
            "ldr x5, [x21, #48]",
            "blr x9",
            "str x0, [x21]",
            "mov x20, #8",
            "b 21b",
            // exit_group(0)
            "23:",
            "mov x0, #0",
            "mov x8, #94",
            "svc #0",
            "24:",
            "mov x0, #1",
            "ret",
            "25:",
            "mov x0, #0",
            "ret",
            "26:",
            "stp x29, x30, [sp, #-32]!",
            "stp x19, x20, [sp, #16]",
            "mov x19, x1",
            "mov x20, #0",
            "27:",
            "ldr x9, [x19, #16]",
            "cmp x20, x9",
            "b.hs 28f",
            "ldp x9, x0, [x19]",
            "mov x1, x20",
            "blr x9",
            "add x20, x20, #1",
            "b 27b",
            "28:",
            "ldp x19, x20, [sp, #16]",
            "ldp x29, x30, [sp], #32",
            "ret",
            "29:",
            "adr x9, 20b + {data}",
            "ldr x10, [x9, #{awaited}]",
            "cbz x10, 25b",
            "mov x21, x9",
            "ldr x19, [x21, #{hello}]",
            "str xzr, [x21]",
            "mov x20, #8",
            "b 21b",
            "30:",
            start = out(reg) start,
            end = out(reg) end,
            data = const DATA - ENTRY,
            hello = const HELLO,
            awaited = const END_AWAITED,
            options(nomem, nostack, preserves_flags),
        );
    }
    bytes(start, end)
}

/// No trial program is there for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn code() -> &'static [u8] {
    &[]
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn bytes(start: *const u8, end: *const u8) -> &'static [u8] {
    // SAFETY: both are addresses of this program's code, `end` behind `start`; code is readable and lives as long as the process.
    unsafe { std::slice::from_raw_parts(start, end.addr() - start.addr()) }
}
