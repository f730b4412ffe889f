//! From tiles to the result.

use super::Job;
use super::rows::PITCH;
use crate::library::conv::geometry::AXES;
use crate::library::conv::geometry::{Block, Layout};
use crate::library::conv::tile::{ASK_LINES, ASK_TERMS, Ahead};
use crate::library::conv::tile::{PutArgs, Run};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Panel, Stored};
use crate::prefetch::{LINE, ask_to_write};
use smallvec::SmallVec;
use std::ops::Range;

/// The runs of a tile.
pub(super) type Runs = SmallVec<[Run; 8]>;

/// Whether a word is a finite float; integers may be taken for others.
pub(super) fn is_finite<S: Copy>(word: &S) -> bool {
    const SINGLE: u32 = 0x7f80_0000;
    const DOUBLE: u64 = 0x7ff << 52;
    // SAFETY: words have 4 or 8 bytes.
    unsafe {
        match size_of::<S>() {
            4 => (&raw const *word).cast::<u32>().read_unaligned() & SINGLE != SINGLE,
            _ => (&raw const *word).cast::<u64>().read_unaligned() & DOUBLE != DOUBLE,
        }
    }
}

/// The result's element at a block's first position.
pub(super) fn target_of<T>(job: &Job<'_, T>, group: usize, sample: usize, block: &Block) -> *mut T {
    let mut at = sample as isize * job.target.sample + group as isize * job.target.group;
    for i in 0..AXES {
        at += block.at[i] as isize * job.target.spatial[i];
    }
    job.target.ptr.wrapping_offset(at)
}

/// Adds what of the places `columns` are positions of the block, and where they go; `places.start` is column `first` of the tile.
pub(super) fn runs_of(
    layout: &Layout,
    block: &Block,
    strides: [isize; AXES],
    places: Range<usize>,
    first: usize,
    runs: &mut Runs,
) {
    let [_, lines, width] = layout.extents;
    let size = block.size;
    // Whether lines and planes of the block follow one another in the result without gaps.
    let whole = strides[2] == 1
        && (size[1] == 1 || strides[1] == size[2] as isize)
        && (size[0] == 1 || strides[0] == (size[1] * size[2]) as isize);
    let mut place = places.start;
    while place < places.end {
        let (line, k) = (place / width, place % width);
        let (i, j) = (line / lines, line % lines);
        if j >= size[1] {
            place += (lines - j) * width - k;
        } else if k >= size[2] {
            place += width - k;
        } else {
            let count = (size[2] - k).min(places.end - place);
            let at = i as isize * strides[0] + j as isize * strides[1] + k as isize * strides[2];
            let room = if whole {
                size.iter().product::<usize>() - at.cast_unsigned()
            } else {
                count
            };
            let column = first + place - places.start;
            match runs.last_mut() {
                Some(last) if whole && last.column + last.count == column => last.count += count,
                _ => runs.push(Run {
                    column,
                    count,
                    at,
                    room,
                }),
            }
            place += count;
        }
    }
}

/// Lines that a tile will be stored to, which its kernel asks for.
pub(super) struct Asked {
    /// As [`Ahead`] has them; those that are not noted stand for nothing.
    lines: SmallVec<[*const u8; 128]>,
    noted: usize,
    nothing: *const u8,
}

impl Asked {
    /// None. `nothing` is memory that is near anyway.
    pub(super) fn new<S>(nothing: *const S) -> Asked {
        Asked {
            lines: SmallVec::new(),
            noted: 0,
            nothing: nothing.cast(),
        }
    }

    /// Forgets what was noted, for a kernel of so many terms.
    fn clear(&mut self, terms: usize) {
        let count = terms / ASK_TERMS * ASK_LINES;
        if self.lines.len() != count {
            self.lines.clear();
            self.lines.resize(count, self.nothing);
        }
        self.lines[count.saturating_sub(self.noted)..].fill(self.nothing);
        self.noted = 0;
    }

    /// What is too much for the kernel is asked for at once.
    fn note(&mut self, line: *const u8) {
        if self.noted == self.lines.len() {
            ask_to_write(line, LINE);
            return;
        }
        self.noted += 1;
        let at = self.lines.len() - self.noted;
        self.lines[at] = line;
    }

    /// For a kernel of so many terms: the lines of `rows` rows of the runs at `dst`, and the next weights, if they are wanted.
    pub(super) fn tile<T: Stored>(
        &mut self,
        job: &Job<'_, T>,
        terms: usize,
        weights: Option<*const T::Acc>,
        (rows, dst, runs): (usize, *mut T, &[Run]),
    ) -> Ahead {
        self.clear(terms);
        let mut asked = |to: *const u8, bytes: usize| {
            let first = to.addr() % LINE;
            for at in (0..first + bytes).step_by(LINE) {
                self.note(to.wrapping_sub(first).wrapping_add(at));
            }
        };
        let [.., step] = job.target.spatial;
        if job.target.row == 1 && step != 1 {
            for run in runs {
                for i in 0..run.count as isize {
                    asked(
                        dst.wrapping_offset(run.at + i * step).cast(),
                        rows * size_of::<T>(),
                    );
                }
            }
        } else if step == 1 {
            for row in 0..rows {
                for run in runs {
                    let to = dst.wrapping_offset(row as isize * job.target.row + run.at);
                    asked(to.cast(), run.count * size_of::<T>());
                }
            }
        }
        Ahead {
            lines: self.lines.as_ptr().wrapping_byte_sub(4 * (terms % ASK_TERMS)),
            weights: weights.unwrap_or(std::ptr::null()).cast(),
            quiet: match weights {
                Some(_) => 0,
                None => terms - self.noted.div_ceil(ASK_LINES) * ASK_TERMS,
            },
        }
    }
}

/// How tiles go to the result.
pub(super) struct Storing<'a, T: Stored> {
    pub(super) kernels: &'a ConvKernels<T>,
    pub(super) job: &'a Job<'a, T>,
    /// The rows of a position are neighbours in the result.
    pub(super) beside: bool,
    /// Room for turned tiles, with a register of slack.
    pub(super) turned: *mut T::Acc,
}

impl<T: Stored> Storing<'_, T> {
    /// Stores tiles whose sums follow one another: as they are where the rows of a position are neighbours in the result, else turned.
    ///
    /// # Safety
    /// There are the sums of as many positions, at most [`PITCH`], and so many accumulators from each to the next; the result has the
    /// elements of each run.
    pub(super) unsafe fn tiles(
        &self,
        (sums, width): (*const T::Acc, usize),
        positions: usize,
        rows: usize,
        dst: *mut T,
        runs: &[Run],
    ) {
        // SAFETY: the caller's contract, and the turned tiles have room for the runs' columns.
        unsafe {
            if self.beside {
                put_beside(self.kernels, self.job, sums, width, rows, dst, runs);
                return;
            }
            self.turn((sums, width), positions, rows);
            store(self.kernels, self.job, self.turned, PITCH, rows, dst, runs);
        }
    }

    /// `turned[row * PITCH + position] = sums[position * width + row]`.
    unsafe fn turn(&self, (sums, width): (*const T::Acc, usize), positions: usize, rows: usize) {
        // SAFETY: the caller's sums, and room for turned ones with a register of slack.
        unsafe {
            if T::DIRECT {
                (self.kernels.pack)(&Panel {
                    dst: self.turned,
                    pitch: PITCH,
                    src: sums.cast(),
                    width: positions,
                    w_step: width as isize,
                    k_step: 1,
                    kc: rows,
                });
                return;
            }
            for row in 0..rows {
                for position in 0..positions {
                    (self.turned.add(row * PITCH + position)).write(*sums.add(position * width + row));
                }
            }
        }
    }
}

/// Stores a tile, rounded.
///
/// # Safety
/// The tile has the columns and the result the elements of each run, and a register may be read behind the tile.
pub(super) unsafe fn store<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    tile: *const T::Acc,
    width: usize,
    rows: usize,
    dst: *mut T,
    runs: &[Run],
) {
    let step = job.target.spatial[2];
    // SAFETY: the caller's tile has the columns and its result the elements of each run.
    unsafe {
        if T::DIRECT && step == 1 {
            (kernels.tiles.put)(&PutArgs {
                tile,
                width,
                rows,
                dst: dst.cast(),
                dst_row: job.target.row,
                runs,
            });
            return;
        }
        for row in 0..rows {
            for run in runs {
                let src = tile.add(row * width + run.column);
                let dst = dst.offset(row as isize * job.target.row + run.at);
                (kernels.narrow)(dst, step, src, run.count);
            }
        }
    }
}

/// Stores a tile of sums, position by position, to a result whose neighbours are rows.
///
/// # Safety
/// The tile has the columns, `width` sums apart, and the result the elements of each run.
unsafe fn put_beside<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    tile: *const T::Acc,
    width: usize,
    rows: usize,
    dst: *mut T,
    runs: &[Run],
) {
    // SAFETY: the caller's contract; accumulators are elements.
    unsafe {
        (kernels.tiles.put_beside)(&PutArgs {
            tile,
            width,
            rows,
            dst: dst.cast(),
            dst_row: job.target.spatial[2],
            runs,
        });
    }
}
