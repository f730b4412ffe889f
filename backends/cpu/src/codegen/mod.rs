//! Machine code for kernels of the IR: a map on f32 becomes one loop that holds what lies between its nodes in registers, and a row
//! with reductions one loop for each walk over its elements.
//!
//! [`lower`] writes the body as instructions, with the functions of [`crate::math`]; [`registers`] gives each value a register and
//! [`instructions`] makes code of them, with AVX2 or AVX-512; [`function`] puts loops around a map, and [`rows`] around rows, whose
//! reductions [`reductions`] has. Every element has the bits that the loops of [`crate::loops`] compute. What has no code here runs
//! by those: other dtypes, strided elements, other ops, and all kernels where the system refuses memory that may be executed. Integers
//! exist near the border: sums, differences and products of i32 become f32. f16 and bf16 are f32 between memory and memory, rounded where
//! the IR rounds. With AVX-512 bytes and truths are read beside f32, and bytes that floats became are written, or their sums, differences and
//! products with others. So are truths.

pub(crate) mod assembler;
mod body;
mod function;
mod homes;
mod instructions;
mod lower;
mod narrow;
pub(crate) mod opcodes;
pub(crate) mod pages;
mod places;
mod quotients;
mod reductions;
mod registers;
mod rows;
mod scalars;
mod settled;
mod ssa;
mod uses;

#[cfg(test)]
pub(crate) mod tests;

use crate::exec::Phases;
use crate::isa::Isa;
use crate::loops::SEGMENT;
use function::{Way, function};
use pages::Pages;
use thalweg_hal::ir::{Access, Info, Kernel, Level, Role};

/// Most parameters of a kernel.
const MOST_PARAMS: usize = 16;

/// Bytes of rows that are walked together: less than a cache of 32 KiB, which has what is asked for ahead of time too.
const GROUP_BYTES: usize = 24 << 10;

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
        let body = lower::map(kernel, info, wide)?;
        let function = function(&body, kernel.params.len(), wide)?;
        let pages = Pages::new(&function.code)?;
        // SAFETY: the code is a function of this type.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(pages.at(function.entry)) };
        Some(Map {
            entry,
            width: if wide { 64 } else { 32 },
            outputs: (body.sections.iter().flat_map(|s| &s.sinks))
                .filter_map(|&(sink, _)| match sink {
                    body::Sink::Store(param) => Some(param as usize),
                    body::Sink::Reduce(_) | body::Sink::Keep(_) => None,
                })
                .collect(),
            _pages: pages,
        })
    }

    /// Computes `n` elements. `address` gives the first of each parameter; with `fetch` inputs are asked for ahead of time, with
    /// `stream` outputs go past the caches.
    ///
    /// # Safety
    /// The machine has the instruction set. Every parameter has `n` elements, or one where it is single; an output shares
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

/// What [`Rows::run`] calls.
#[cfg(target_arch = "x86_64")]
type RowEntry = unsafe extern "sysv64" fn(call: *mut rows::Call);
#[cfg(not(target_arch = "x86_64"))]
type RowEntry = unsafe extern "C" fn(call: *mut rows::Call);

/// A kernel with reductions as machine code.
pub(crate) struct Rows {
    entry: RowEntry,
    /// Parameters whose elements stand one after the other in a row.
    pub(crate) walked: Vec<usize>,
    /// Those of them that are written.
    pub(crate) outputs: Vec<usize>,
    /// Values that are kept from one walk over a row to the next; each has the elements of a row.
    pub(crate) kept: usize,
    /// Parameters whose next rows the code asks for.
    pub(crate) ahead: Vec<usize>,
    /// Whether a row is walked once.
    single: bool,
    /// Most rows of a group.
    together: usize,
    /// Most elements of a row.
    most: usize,
    _pages: Pages,
}

impl Rows {
    /// Compiles a kernel; `None` where it stays with the loops.
    pub(crate) fn new(kernel: &Kernel, info: &Info, phases: &Phases, isa: Isa) -> Option<Rows> {
        Rows::asking(kernel, info, phases, isa, rows::MOST_AHEAD)
    }

    /// A map as a kernel of rows: outputs and the parameters of `moving` go on along a row, those of `single` are the same everywhere, and the
    /// others for a row. Sets have a bit for each parameter.
    pub(crate) fn laid(kernel: &Kernel, moving: u64, single: u64) -> Kernel {
        let mut rows = kernel.clone();
        (rows.outer, rows.inner) = (1, 1);
        for (p, param) in rows.params.iter_mut().enumerate() {
            (param.level, param.access) = match (moving >> p & 1, single >> p & 1) {
                _ if param.role == Role::Out => (Level::Element, Access::Contiguous),
                (1, _) => (Level::Element, Access::Contiguous),
                (_, 1) => (Level::Row, Access::Broadcast),
                _ => (Level::Row, Access::Strided),
            };
        }
        rows
    }

    /// Compiles a map whose rows are in a cache; `None` where it stays with the loops.
    pub(crate) fn of_map(kernel: &Kernel, info: &Info, isa: Isa) -> Option<Rows> {
        Rows::asking(kernel, info, &Phases::of_map(kernel, info), isa, 0)
    }

    fn asking(kernel: &Kernel, info: &Info, phases: &Phases, isa: Isa, asks: usize) -> Option<Rows> {
        let wide = match isa {
            Isa::Avx512 => true,
            Isa::Avx2 => false,
            Isa::Baseline => return None,
        };
        let body = lower::rows(kernel, info, wide, phases)?;
        let made = rows::row_function(&body, kernel.params.len(), wide, asks)?;
        let pages = Pages::new(&made.function.code)?;
        // SAFETY: the code is a function of this type.
        let entry = unsafe { std::mem::transmute::<*const u8, RowEntry>(pages.at(made.function.entry)) };
        let read = (body.insts.iter().zip(&body.needed)).filter_map(|(inst, &needed)| match inst.op {
            ssa::Op::Load(param) if needed => Some(param as usize),
            _ => None,
        });
        let written = body
            .sections
            .iter()
            .flat_map(|s| &s.sinks)
            .filter_map(|&(sink, _)| match sink {
                body::Sink::Store(param) => Some(param as usize),
                body::Sink::Reduce(_) | body::Sink::Keep(_) => None,
            });
        let outputs: Vec<usize> = written.collect();
        Some(Rows {
            entry,
            walked: read.chain(outputs.iter().copied()).collect(),
            outputs,
            kept: body.kept.len(),
            ahead: made.ahead.into_iter().map(|p| p as usize).collect(),
            single: body.sections.len() == 1,
            together: made.together,
            most: match body.reduces.is_empty() {
                true => usize::MAX,
                false => SEGMENT,
            },
            _pages: pages,
        })
    }

    /// Rows of `n` elements that are walked together: those that a cache has room for.
    pub(crate) fn group(&self, n: usize) -> usize {
        let row = 4 * n * (self.walked.len() + self.kept);
        (GROUP_BYTES / row.max(1)).clamp(1, self.together)
    }

    /// Computes `rows` rows of `n` elements. `addresses` has the first row of each parameter, then each value that is kept, then what
    /// is asked for; `steps` the bytes from a row to the next of each. Afterwards `addresses` has the rows that follow, and kept memory where it was.
    ///
    /// # Safety
    /// The machine has the instruction set, and `n` is at least 1, with reductions at most the elements of a segment. `addresses` and `steps` have an
    /// entry for each parameter, for each of `kept` and for each of `ahead`. Every parameter has the elements of these rows, of f32, or of
    /// i64 where they are places; an output shares memory with an input only element by element. Kept memory has `n` elements of f32 for each row
    /// of a [group](Rows::group) and shares none with a parameter. There are as many scalars as the kernel has. With `stream` the rows of outputs begin with a line and
    /// have whole ones.
    pub(crate) unsafe fn run(
        &self,
        (rows, n): (usize, usize),
        addresses: &mut [*mut u8],
        steps: &[isize],
        scalars: &[u64],
        stream: bool,
    ) {
        debug_assert!((1..=self.most).contains(&n));
        debug_assert_eq!(addresses.len(), steps.len());
        if rows == 0 {
            return;
        }
        let mut call = rows::Call {
            bytes: n * 4,
            rows,
            addresses: addresses.as_mut_ptr(),
            steps: steps.as_ptr(),
            scalars: scalars.as_ptr(),
            stream: usize::from(stream),
            group: if self.single { rows } else { self.group(n) },
            taken: 0,
            left: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { (self.entry)(&raw mut call) };
    }
}
