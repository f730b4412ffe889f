//! Machine code for kernels of the IR: a map on f32 becomes one loop that holds what lies between its nodes in registers.
//!
//! [`lower`] writes the body as instructions, with the functions of [`crate::math`]; [`registers`] gives each value a register and
//! makes code of the body, with AVX2 or AVX-512; [`function`] puts loops around it. Every element has the bits that the loops of
//! [`crate::loops`] compute. What has no code here runs by those: other dtypes, strided parameters, reductions, other ops, and all
//! kernels where the system refuses memory that may be executed.

pub(crate) mod assembler;
mod function;
mod lower;
mod opcodes;
pub(crate) mod pages;
mod registers;
mod ssa;
mod uses;

#[cfg(test)]
mod tests;

use crate::isa::Isa;
use function::{Way, function};
use pages::Pages;
use thalweg_hal::ir::{Info, Kernel};

/// Most parameters of a kernel.
const MOST_PARAMS: usize = 16;

/// What [`Map::run`] calls.
#[cfg(target_arch = "x86_64")]
type Entry =
    unsafe extern "sysv64" fn(bytes: usize, addresses: *const *mut u8, scalars: *const u64, way: usize);
#[cfg(not(target_arch = "x86_64"))]
type Entry = unsafe extern "C" fn(bytes: usize, addresses: *const *mut u8, scalars: *const u64, way: usize);

/// A map as machine code.
pub(crate) struct Map {
    entry: Entry,
    /// Bytes of a vector.
    width: usize,
    /// Parameters that are written.
    outputs: Vec<usize>,
    _pages: Pages,
}

impl Map {
    /// Compiles a kernel; `None` where it stays with the loops.
    pub(crate) fn new(kernel: &Kernel, info: &Info, isa: Isa) -> Option<Map> {
        let wide = match isa {
            Isa::Avx512 => true,
            Isa::Avx2 => false,
            Isa::Baseline => return None,
        };
        if kernel.params.len() > MOST_PARAMS {
            return None;
        }
        let body = lower::body(kernel, info, wide)?;
        let function = function(&body, kernel.params.len(), wide)?;
        let pages = Pages::new(&function.code)?;
        // SAFETY: the code is a function of this type.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(pages.at(function.entry)) };
        Some(Map {
            entry,
            width: if wide { 64 } else { 32 },
            outputs: body.stores.iter().map(|&(param, _)| param as usize).collect(),
            _pages: pages,
        })
    }

    /// Computes `n` elements. `address` gives the first of each parameter; with `fetch` inputs are asked for ahead of time, with
    /// `stream` outputs go past the caches.
    ///
    /// # Safety
    /// The machine has the instruction set. Every parameter has `n` elements of f32, or one where it is single; an output shares
    /// memory with an input only element by element. There are as many scalars as the kernel has.
    pub(crate) unsafe fn run(
        &self,
        n: usize,
        params: usize,
        address: impl Fn(usize) -> *mut u8,
        scalars: &[u64],
        (fetch, stream): (bool, bool),
    ) {
        if n == 0 {
            return;
        }
        let mut addresses = [std::ptr::null_mut(); MOST_PARAMS];
        for (p, to) in addresses.iter_mut().enumerate().take(params) {
            *to = address(p);
        }
        let aligned = |&p: &usize| addresses[p].addr() % self.width == 0;
        let way = match stream && self.outputs.iter().all(aligned) {
            true => Way::Stream,
            false if fetch => Way::Fetch,
            false => Way::Near,
        };
        // SAFETY: the caller's promise.
        unsafe { (self.entry)(n * 4, addresses.as_ptr(), scalars.as_ptr(), way as usize) };
    }
}
