//! Sorting along one axis.
//!
//! Elements become signed keys of 32 or 64 bits, with or without their indices, which vectors sort; of keys of 64 bits with indices they
//! sort 32 bits at a time. Where there are no vectors, keys are sorted by radix. For a few elements a row is read once.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod digest;
mod elements;
mod entry;
mod first;
mod network;
mod order;
mod plan;
mod quick;
mod split;
mod values;
mod vector;

use crate::exec::Args;
use crate::isa::Isa;
use crate::library::gemm::piece;
use crate::parallel::{Parallel, Serial};
use elements::Elements;
use entry::Long;
use order::Results;
use quick::Quick;
use thalweg_hal::library::Sort;

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
        // The op's signature refuses dtypes for storage.
        let Some(elements) = Elements::new(self.op.dtype, self.op.descending, self.isa) else {
            return;
        };
        let (Some((_, batch)), Some(length)) = (args.extents.split_last(), Source::length(args, &self.op))
        else {
            return;
        };
        let rows = batch.iter().product::<u64>() as usize;
        let values = !(self.op.indices || self.op.part);
        let of_32 = i32::version(self.isa).filter(|_| values && !elements.is_long());
        let of_64 = i64::version(self.isa).filter(|_| values && elements.is_long());
        let is_numbered = u32::try_from(length).is_ok();
        let wanted = *args.extents.last().unwrap_or(&0) as usize;
        let digests = elements.is_long()
            && is_numbered
            && length > first::SHORT
            && !first::is_few(wanted.min(length), length);
        let by_digest = i64::version(self.isa).filter(|_| digests);
        let sort = |row: usize, parallel: &dyn Parallel| {
            let row = row as u64;
            let (Some(x), Some(results)) = (
                Source::new(args, &self.op, row),
                Results::new(args, &self.op, row),
            ) else {
                return;
            };
            let with = (&elements, self.isa);
            // SAFETY: the caller vouches for the operands. Rows of the outputs are disjoint, and each is read whole before any of it
            // is written.
            unsafe {
                match (of_32, of_64) {
                    (Some(version), _) => {
                        values::sort_row(args, (&elements, version), &x, row, parallel);
                    }
                    (_, Some(version)) => {
                        values::sort_row(args, (&elements, version), &x, row, parallel);
                    }
                    (None, None) if let Some(version) = by_digest => {
                        digest::sort_row(version, &elements, &x, results, parallel);
                    }
                    (None, None) if elements.is_long() || !is_numbered => {
                        first::sort_row::<Long>(with, &x, results, parallel)
                    }
                    (None, None) => first::sort_row::<i64>(with, &x, results, parallel),
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
struct Source {
    x: *const u8,
    /// Elements between neighbours.
    step: isize,
    /// Bytes of an element.
    size: usize,
    length: usize,
}

// SAFETY: no one writes the elements meanwhile.
unsafe impl Sync for Source {}

impl Source {
    /// How many there are.
    fn length(args: &Args<'_>, op: &Sort) -> Option<usize> {
        let length = if op.part {
            args.args.first()?.gather_extent
        } else {
            *args.extents.last()?
        };
        usize::try_from(length).ok()
    }

    fn new(args: &Args<'_>, op: &Sort, row: u64) -> Option<Source> {
        let (start, step) = place(args, 0, row);
        let (x, size) = (args.args.first()?, op.dtype.size());
        Some(Source {
            x: x.ptr.wrapping_offset(start * size as isize),
            step: if op.part { x.gather_stride as isize } else { step },
            size,
            length: Source::length(args, op)?,
        })
    }

    fn at(&self, index: usize) -> *const u8 {
        self.x
            .wrapping_offset(index as isize * self.step * self.size as isize)
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
