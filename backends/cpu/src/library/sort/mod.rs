//! Sorting along one axis.
//!
//! Elements become keys of up to 64 bits, with or without their indices, which vectors sort. What does not fit, and what there are no
//! vectors for, is sorted by radix. For a few elements a row is read once.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod first;
mod key;
mod order;
mod pairs;
mod quick;
mod values;
mod vector;

use crate::exec::Args;
use crate::isa::Isa;
use crate::library::gemm::piece;
use crate::parallel::{Parallel, Serial};
use half::{bf16, f16};
use key::Sortable;
use quick::Quick;
use thalweg_hal::library::Sort;
use thalweg_hal::{DType, match_type};
use values::Wide;

/// Elements that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 12;
/// Elements of a piece of a long row, at least.
const PIECE: usize = 1 << 15;

/// A compiled sort.
pub struct SortKernel {
    op: Sort,
    isa: Isa,
}

impl SortKernel {
    pub(super) fn compile(op: &Sort, isa: Isa) -> SortKernel {
        SortKernel { op: op.clone(), isa }
    }

    /// Nanoseconds on one core, roughly. How long a row is of which a part is wanted is not known: it is taken for long.
    pub(super) fn cost(&self, extents: &[u64]) -> u64 {
        let each = if self.op.part { 10_000 } else { 10 };
        extents
            .iter()
            .fold(each, |all: u64, &extent| all.saturating_mul(extent))
    }

    /// # Safety
    /// As [`crate::exec::Program::run`].
    pub(super) unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        if args.extents.contains(&0) {
            return;
        }
        // SAFETY: the caller vouches for the operands.
        unsafe {
            match_type!(self.op.dtype, T => self.typed::<T>(args, parallel);
                DType::F64 => f64,
                DType::F32 => f32,
                DType::F16 => f16,
                DType::BF16 => bf16,
                DType::I64 => i64,
                DType::I32 => i32,
                DType::I16 => i16,
                DType::I8 => i8,
                DType::U64 => u64,
                DType::U32 => u32,
                DType::U16 => u16,
                DType::U8 | DType::Bool => u8;
                // Dtypes for storage: the op's signature refuses them.
                else ())
        }
    }

    unsafe fn typed<T: Sortable>(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        let (Some((_, batch)), Some(length)) =
            (args.extents.split_last(), Source::<T>::length(args, &self.op))
        else {
            return;
        };
        let rows = batch.iter().product::<u64>() as usize;
        let vectors = match self.op.indices || self.op.part {
            true => None,
            false => Wide::<T>::version(self.isa),
        };
        let sort = |row: usize, parallel: &dyn Parallel| {
            let row = row as u64;
            // SAFETY: rows of the outputs are disjoint, and each is read whole before any of it is written.
            unsafe {
                if let Some(version) = vectors {
                    values::sort_row::<T>(args, &self.op, (self.isa, version), row, parallel);
                } else if u32::try_from(length).is_ok() {
                    first::sort_row::<T, u32>(args, &self.op, self.isa, row, parallel);
                } else {
                    first::sort_row::<T, u64>(args, &self.op, self.isa, row, parallel);
                }
            }
        };
        let threads = parallel.threads();
        // Long rows one by one, where their pieces are worth more threads than there are rows.
        if rows < threads.min(length / PIECE) {
            (0..rows).for_each(|row| sort(row, parallel));
            return;
        }
        let useful = threads.min(rows.saturating_mul(length) / GRAIN).max(1);
        let groups = if useful == 1 { 1 } else { rows.min(8 * useful) };
        let body = |group: usize| piece(rows, groups, group).for_each(|row| sort(row, &Serial));
        match groups {
            1 => body(0),
            groups => parallel.run(groups, &body),
        }
    }
}

/// The elements of a row.
#[derive(Clone, Copy)]
struct Source<T> {
    x: *const T,
    step: isize,
    length: usize,
}

// SAFETY: no one writes the elements meanwhile.
unsafe impl<T: Sync> Sync for Source<T> {}

impl<T> Source<T> {
    /// How many there are.
    fn length(args: &Args<'_>, op: &Sort) -> Option<usize> {
        let length = if op.part {
            args.args.first()?.gather_extent
        } else {
            *args.extents.last()?
        };
        usize::try_from(length).ok()
    }

    fn new(args: &Args<'_>, op: &Sort, row: u64) -> Option<Source<T>> {
        let (start, step) = place(args, 0, row);
        let x = args.args.first()?;
        Some(Source {
            x: x.ptr.cast::<T>().wrapping_offset(start),
            step: if op.part { x.gather_stride as isize } else { step },
            length: Source::<T>::length(args, op)?,
        })
    }

    fn at(&self, index: usize) -> *const T {
        self.x.wrapping_offset(index as isize * self.step)
    }
}

/// Memory that threads share by disjoint pieces.
struct Shared<T>(*mut T);

// SAFETY: as said above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn at(&self, offset: isize) -> *mut T {
        self.0.wrapping_offset(offset)
    }
}

/// Where a row of an operand starts, in elements, and the step between its elements.
fn place(args: &Args<'_>, operand: usize, row: u64) -> (isize, isize) {
    let (mut rest, mut at) = (row, 0);
    let strides = args.args[operand].strides;
    let Some((&length_stride, strides)) = strides.split_last() else {
        return (0, 0);
    };
    for (&extent, &stride) in args.extents.iter().zip(strides).rev() {
        at += (rest % extent) as isize * stride as isize;
        rest /= extent;
    }
    (at, length_stride as isize)
}
