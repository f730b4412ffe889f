//! Compiling kernels.

use super::{Context, Source};
use crate::status::Str;

/// Arguments of [`KernelTable::compile`] and [`KernelTable::supports`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CompileArgs {
    /// Device handle.
    pub device: u64,
    /// What to compile.
    pub source: Source,
    /// Options as `key=value` lines; unknown ones are an error. Empty for the defaults. `optimise=off` asks for programs that the
    /// device's compiler does not optimise, with the same results; a backend without such a compiler answers `Unsupported` and why.
    pub options: Str,
}

/// What [`KernelTable::inspect`] shows of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum KernelPart {
    /// The text that the device's compiler was given, in UTF-8.
    Source = 1,
    /// What the compiler made of it.
    Binary = 2,
    /// What the compiler remarked, in UTF-8; no bytes for nothing.
    Log = 3,
    /// What the backend knows about the program, as lines `key=value` in UTF-8. `extension` is that of a file with the source, such as
    /// `cl`. Other keys are the backend's own.
    Facts = 4,
    /// Which nodes the lines of the source compute, as lines `LINE NODE` in UTF-8. Lines count from 1, and nodes from 0 in the
    /// kernel, or in the definition of the library op.
    Lines = 5,
}

impl KernelPart {
    /// Every part of this version with its name.
    pub const ALL: [(KernelPart, &'static str); 5] = [
        (KernelPart::Source, "source"),
        (KernelPart::Binary, "binary"),
        (KernelPart::Log, "log"),
        (KernelPart::Facts, "facts"),
        (KernelPart::Lines, "lines"),
    ];

    /// The part of a code.
    pub const fn from_code(code: u32) -> Option<KernelPart> {
        if code == 0 || code as usize > KernelPart::ALL.len() {
            return None;
        }
        Some(KernelPart::ALL[code as usize - 1].0)
    }

    /// `source`, `binary`, ….
    pub const fn name(self) -> &'static str {
        KernelPart::ALL[self as usize - 1].1
    }
}

/// Arguments of [`KernelTable::inspect`].
///
/// A kernel becomes one program or more, because a backend may write another program for launches with other strides. A program
/// that exists keeps its number as long as the kernel. A launch may add some, so there may be none before the first one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct InspectArgs {
    /// Kernel handle.
    pub kernel: u64,
    /// Number of the program, from 0. One that does not exist has no bytes.
    pub program: u32,
    /// A [`KernelPart`] code.
    pub part: u32,
    /// Where the part goes; null for its length alone.
    pub buffer: *mut u8,
    /// Most bytes that fit there.
    pub capacity: usize,
    /// How many bytes the part has, which may be more than `capacity`.
    pub len: *mut usize,
    /// How many programs there are now.
    pub programs: *mut usize,
}

/// Kernels. A device without this table moves memory and nothing else.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelTable {
    /// Success when [`KernelTable::compile`] would accept the source; otherwise `Unsupported` and why.
    pub supports: unsafe extern "C" fn(context: Context, args: *const CompileArgs) -> i32,
    /// Compiles for the device.
    pub compile: unsafe extern "C" fn(context: Context, args: *const CompileArgs, out: *mut u64) -> i32,
    /// Frees a kernel; work that was submitted with it goes on.
    pub release: unsafe extern "C" fn(context: Context, kernel: u64) -> i32,
    /// What the backend made of a kernel. It is for people who look for a fault, and costs programs that do not ask nothing.
    /// `Unsupported` and why for a part that the program does not have, such as the source of one that was not written.
    pub inspect: unsafe extern "C" fn(context: Context, args: *const InspectArgs) -> i32,
}
