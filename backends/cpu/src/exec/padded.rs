//! Inputs that windows read with padding around them: a piece after the other is padded near the core, and the rest of the kernel reads
//! it as any strided input.

use super::arena::Scratch;
use super::launch::SPLIT;
use super::moves::copy_one;
use super::program::{Arg, Args, Program};
use super::reads::{Pattern, Read, ReadAxis, without_padding};
use super::slabs::{Slabs, moved};
use super::space::full_strides;
use crate::isa::Isa;
use crate::parallel::{Parallel, Serial};
use crate::prefetch::LINE;
use smallvec::SmallVec;
use thalweg_hal::ir::{Info, Kernel};

/// Bytes of a piece: of the second-level cache.
const PIECE: u64 = 128 << 10;
/// Most elements of a padded input for each point of the space. Windows far from each other are read where they are.
const MOST_PER_POINT: u64 = 16;
/// Most bytes of scratch where a launch cannot be cut into small pieces.
const MOST_SCRATCH: u64 = 64 << 20;

/// A kernel whose padded inputs are padded before it reads them.
pub(super) struct Padded {
    patterns: Vec<Pattern>,
    /// The same kernel, of padded inputs.
    program: Program,
}

/// How a launch is cut into pieces.
struct Cut {
    slabs: Slabs,
    /// Of scratch for the largest piece.
    bytes: u64,
}

/// A padded input of a piece.
struct Piece<'a> {
    read: &'a Read,
    size: usize,
    gather_stride: i64,
    /// Axes of the space beside those of windows: bytes between their neighbours in memory, and extents.
    beside: SmallVec<[(isize, u64); 8]>,
    /// Elements along each axis of the windows.
    lengths: SmallVec<[u64; 4]>,
    /// Elements between neighbours on each axis of the space.
    strides: SmallVec<[i64; 16]>,
}

type Pieces<'a> = SmallVec<[Piece<'a>; 2]>;

/// Of scratch for all of them.
fn bytes_of(pieces: &Pieces<'_>) -> u64 {
    pieces.iter().map(Piece::bytes).fold(0, u64::saturating_add)
}

impl<'a> Piece<'a> {
    fn of(
        read: &'a Read,
        (size, gather_stride): (usize, i64),
        extents: &[u64],
        strides: &[i64],
    ) -> Piece<'a> {
        let lengths: SmallVec<[u64; 4]> = read.axes.iter().map(|axis| axis.at.length(extents)).collect();
        let mut step = 1;
        let mut own: SmallVec<[i64; 16]> = SmallVec::from_elem(0, extents.len());
        for (axis, &length) in read.axes.iter().zip(&lengths).rev() {
            for (own, coefficient) in own.iter_mut().zip(&axis.at.coefficients) {
                *own += coefficient.wrapping_mul(step);
            }
            step = step.wrapping_mul(length as i64);
        }
        let mut beside = SmallVec::new();
        for axis in (0..extents.len()).rev() {
            if strides[axis] != 0 && extents[axis] > 1 {
                own[axis] = step;
                step = step.wrapping_mul(extents[axis] as i64);
                beside.push((strides[axis] as isize * size as isize, extents[axis]));
            }
        }
        beside.reverse();
        Piece {
            read,
            size,
            gather_stride,
            beside,
            lengths,
            strides: own,
        }
    }

    fn elements(&self) -> u64 {
        let beside = self.beside.iter().map(|&(_, extent)| extent);
        beside
            .chain(self.lengths.iter().copied())
            .fold(1, u64::saturating_mul)
    }

    /// Of scratch, whole lines.
    fn bytes(&self) -> u64 {
        let bytes = self.elements().saturating_mul(self.size as u64);
        bytes.min(i64::MAX as u64).next_multiple_of(LINE as u64)
    }

    /// Bytes in memory from place 0 along an axis of the windows.
    fn bytes_along(&self, axis: &ReadAxis, place: i64) -> isize {
        let elements = place.wrapping_mul(axis.stride).wrapping_mul(self.gather_stride);
        (elements as isize).wrapping_mul(self.size as isize)
    }

    /// Writes the elements and the padding around them; `first` is the place of the first along each axis of the windows.
    ///
    /// # Safety
    /// `from` is the parameter's element at the piece's first point, and all that are not padding can be read. `to` has
    /// [`Piece::bytes`].
    unsafe fn fill(&self, mut to: *mut u8, from: *const u8, first: &[i64]) {
        let lines: u64 = self.lengths[..self.lengths.len() - 1].iter().product();
        let planes: u64 = self.beside.iter().map(|&(_, extent)| extent).product();
        for plane in 0..planes {
            let (mut rest, mut plane_at) = (plane, from);
            for &(bytes, extent) in self.beside.iter().rev() {
                plane_at = plane_at.wrapping_offset((rest % extent) as isize * bytes);
                rest /= extent;
            }
            for line in 0..lines {
                let (mut rest, mut at, mut inside) = (line, plane_at, true);
                for ((axis, &length), &first) in
                    self.read.axes.iter().zip(&self.lengths).zip(first).rev().skip(1)
                {
                    let place = first + (rest % length) as i64;
                    rest /= length;
                    inside &= axis.inside.contains(&place);
                    at = at.wrapping_offset(self.bytes_along(axis, place));
                }
                // SAFETY: the caller's promise.
                to = unsafe { self.line(to, at, first[first.len() - 1], inside) };
            }
        }
    }

    /// Writes a line, and returns where the next one stands.
    ///
    /// # Safety
    /// As [`Piece::fill`].
    unsafe fn line(&self, to: *mut u8, from: *const u8, first: i64, inside: bool) -> *mut u8 {
        let (Some(axis), Some(&length)) = (self.read.axes.last(), self.lengths.last()) else {
            return to;
        };
        let (length, size) = (length as i64, self.size);
        let begin = axis.inside.start.saturating_sub(first).clamp(0, length);
        let end = match inside {
            true => axis.inside.end.saturating_sub(first).clamp(begin, length),
            false => begin,
        };
        let place = |at: i64| to.wrapping_add(at as usize * size);
        let from = from.wrapping_offset(self.bytes_along(axis, first + begin));
        // SAFETY: the caller's promise.
        unsafe {
            self.pad(to, begin);
            if axis.stride.wrapping_mul(self.gather_stride) == 1 {
                place(begin).copy_from_nonoverlapping(from, (end - begin) as usize * size);
            } else {
                for at in begin..end {
                    copy_one(
                        size,
                        place(at),
                        from.wrapping_offset(self.bytes_along(axis, at - begin)),
                    );
                }
            }
            self.pad(place(end), length - end);
        }
        place(length)
    }

    /// # Safety
    /// `to` has so many elements.
    unsafe fn pad(&self, to: *mut u8, elements: i64) {
        let bits = self.read.bits.to_le_bytes();
        for at in 0..elements as usize {
            // SAFETY: the caller's promise.
            unsafe { copy_one(self.size, to.add(at * self.size), bits.as_ptr()) };
        }
    }
}

impl Padded {
    /// What a kernel with padded inputs becomes; `None` for others.
    pub(super) fn of(kernel: &Kernel, info: &Info, isa: Isa) -> Option<Padded> {
        let (kernel, patterns) = without_padding(kernel, info)?;
        let program = Program::compile(&kernel, isa).ok()?;
        Some(Padded { patterns, program })
    }

    pub(super) fn generate(mut self, isa: Isa) -> Padded {
        self.program = self.program.generate(isa);
        self
    }

    /// Estimated nanoseconds on one core.
    pub(super) fn cost(&self, extents: &[u64]) -> u64 {
        self.program.cost(extents)
    }

    /// Of each padded input, over the extents of a piece. `strides` are those of the memory, of each parameter.
    fn pieces<'a>(
        &self,
        reads: &'a [Read],
        extents: &[u64],
        args: &[Arg<'_>],
        strides: &[i64],
    ) -> Pieces<'a> {
        let of = |read: &'a Read| {
            let (p, rank) = (read.param, extents.len());
            let size = usize::from(self.program.sizes[p]);
            let elements = (size, args[p].gather_stride);
            Piece::of(read, elements, extents, &strides[p * rank..(p + 1) * rank])
        };
        reads.iter().map(of).collect()
    }

    /// Whether what a read takes for elements lies within its parameter, and padding it takes little memory for a piece.
    fn fits(&self, piece: &Piece<'_>, extents: &[u64], arg: &Arg<'_>, strides: &[i64]) -> bool {
        let (mut least, mut most) = (0_i64, 0_i64);
        for axis in &piece.read.axes {
            let start = axis.at.offset;
            let end = start.saturating_add_unsigned(axis.at.length(extents));
            let (start, end) = (start.max(axis.inside.start), end.min(axis.inside.end));
            if start < end {
                least = least.saturating_add(start.saturating_mul(axis.stride));
                most = most.saturating_add((end - 1).saturating_mul(axis.stride));
            }
        }
        let both = |(axis, &stride): (usize, &i64)| {
            stride != 0 && piece.read.axes.iter().any(|read| read.at.coefficients[axis] != 0)
        };
        let points = extents.iter().copied().fold(MOST_PER_POINT, u64::saturating_mul);
        least >= 0
            && piece.read.axes.iter().all(|axis| axis.stride >= 0)
            && most.cast_unsigned() < arg.gather_extent
            && !strides.iter().enumerate().any(both)
            && piece.elements() <= points
    }

    /// Pieces that stay near the core and are enough for all threads, unless an index is asked for along their axes.
    fn cut(&self, reads: &[Read], args: &Args<'_>, strides: &[i64], threads: usize) -> Cut {
        let extents = args.extents;
        let outer = self.program.kernel.outer as usize;
        let whole = |axis: usize| extents[axis] == 1 || self.program.pinned >> axis & 1 == 0;
        let free = (0..outer).take_while(|&axis| whole(axis)).count();
        let bytes = |axis: usize, width: u64| {
            let mut own: SmallVec<[u64; 16]> = extents.into();
            own[..axis].fill(1);
            own[axis] = width;
            bytes_of(&self.pieces(reads, &own, args.args, strides))
        };
        let mut cut = Cut {
            slabs: Slabs::new(extents, 0, extents[0]),
            bytes: bytes_of(&self.pieces(reads, extents, args.args, strides)),
        };
        for axis in 0..free {
            let before: u64 = extents[..axis].iter().product();
            let mut width = extents[axis];
            while width > 1
                && (bytes(axis, width) > PIECE || before * extents[axis].div_ceil(width) < threads as u64)
            {
                width = width.div_ceil(2);
            }
            cut = Cut {
                slabs: Slabs::new(extents, axis, width),
                bytes: bytes(axis, width),
            };
            if cut.bytes <= PIECE && cut.slabs.count >= threads as u64 {
                break;
            }
        }
        cut
    }

    /// The padded inputs of a launch, if each one fits.
    fn reads(&self, args: &Args<'_>, strides: &[i64]) -> Option<SmallVec<[Read; 2]>> {
        let rank = args.extents.len();
        let patterns = self.patterns.iter();
        let reads: SmallVec<[Read; 2]> = patterns.map(|pattern| pattern.with(args.scalars)).collect();
        let fits = self
            .pieces(&reads, args.extents, args.args, strides)
            .iter()
            .all(|piece| {
                let p = piece.read.param;
                let own = &strides[p * rank..(p + 1) * rank];
                self.fits(piece, args.extents, &args.args[p], own)
            });
        fits.then_some(reads)
    }

    /// Whether a launch goes by lines, and does.
    ///
    /// # Safety
    /// As [`Program::run`].
    #[cfg(test)]
    pub(super) unsafe fn run_lines(&self, kernel: &Kernel, args: &Args<'_>, parallel: &dyn Parallel) -> bool {
        let (rank, strides) = (args.extents.len(), full_strides(kernel, args));
        let reads = self.reads(args, &strides);
        let read = reads.as_ref().and_then(|reads| reads.first());
        read.is_some_and(|read| {
            let own = &strides[read.param * rank..][..rank];
            // SAFETY: the caller's promise.
            unsafe { self.program.run_edges(args, (read, own), parallel) }
        })
    }

    /// Runs the kernel where this is a way to; whether it did.
    ///
    /// # Safety
    /// As [`Program::run`].
    pub(super) unsafe fn run(&self, kernel: &Kernel, args: &Args<'_>, parallel: &dyn Parallel) -> bool {
        let rank = args.extents.len();
        if rank == 0 || args.extents.contains(&0) {
            return false;
        }
        let strides = full_strides(kernel, args);
        let Some(reads) = self.reads(args, &strides) else {
            return false;
        };
        if let [read] = &reads[..] {
            let own = &strides[read.param * rank..][..rank];
            // SAFETY: the caller's promise.
            if unsafe { self.program.run_edges(args, (read, own), parallel) } {
                return true;
            }
        }
        let threads = match self.cost(args.extents) < SPLIT {
            true => 1,
            false => parallel.threads(),
        };
        let cut = self.cut(&reads, args, &strides, threads);
        if cut.bytes > MOST_SCRATCH {
            return false;
        }
        let piece = |number: u64, parallel: &dyn Parallel| {
            let (start, extents) = cut.slabs.slab(number, args.extents);
            let pieces = self.pieces(&reads, &extents, args.args, &strides);
            let scratch = Scratch::new(bytes_of(&pieces) as usize);
            let mut to = scratch.start();
            let mut own = moved(args.args, &start, &strides, &self.program.sizes);
            for piece in &pieces {
                let read = piece.read;
                let first: SmallVec<[i64; 4]> = read.axes.iter().map(|axis| axis.at.value(&start)).collect();
                let arg = &mut own[read.param];
                // SAFETY: the caller vouches for what the launch reads; scratch was sized for all pieces.
                unsafe { piece.fill(to, arg.ptr, &first) };
                (arg.ptr, arg.strides) = (to, &piece.strides[..read.rank(&self.program.kernel)]);
                to = to.wrapping_add(piece.bytes() as usize);
            }
            let args = Args {
                extents: &extents,
                args: &own,
                scalars: args.scalars,
            };
            // SAFETY: the caller's promise, for a part of the space; padded inputs stand in scratch.
            unsafe { self.program.run(&args, parallel) };
        };
        match cut.slabs.count {
            1 => piece(0, parallel),
            pieces if threads == 1 => (0..pieces).for_each(|number| piece(number, &Serial)),
            pieces => parallel.run(pieces as usize, &|number| piece(number as u64, &Serial)),
        }
        true
    }
}
