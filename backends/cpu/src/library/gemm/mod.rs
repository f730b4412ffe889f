//! The general matrix product of one block of C on one thread.
//!
//! k is cut into blocks by its length alone, so the bits of an element of C depend on k and not on the block it is in.
//! For each block of k, A is packed whole (it stays in L2) and B one panel at a time (it stays in L1, or near it).

mod buffer;
mod bytes;
pub(in crate::library) mod code;
mod direct;
mod element;
mod halves;
mod lanes;
mod pack;
mod squares;
mod strips;
mod tile;
mod vector;
mod whole;

pub(crate) use buffer::Scratch;
pub(crate) use bytes::Byte;
pub(crate) use bytes::PairLanes;
pub use bytes::Signs;
#[cfg(test)]
pub(crate) use bytes::Way;
#[cfg(target_arch = "x86_64")]
pub(crate) use bytes::{Pairs256, Pairs512};
pub(crate) use direct::direct;
pub(crate) use element::{Element, Kernels, NarrowFn, Stored, Uniform, Wide, narrow};
#[cfg(test)]
pub(crate) use halves::kernels as halves_kernels;
pub(crate) use halves::{HalfLanes, MXCSR_FLUSHING, by_amx};
#[cfg(target_arch = "x86_64")]
pub(crate) use pack::Load512;
pub(crate) use pack::{PackFn, Panel};
#[cfg(target_arch = "x86_64")]
pub(crate) use squares::{InUse, SIDE};
pub(crate) use strips::{OVERRUN, Strips, pack_panel};
#[cfg(target_arch = "x86_64")]
pub(crate) use tile::{F32x8, F32x16, F64x4, F64x8, I32x8, I32x16, I64x8};
pub(crate) use vector::{Lanes, Pair, Vector};
pub(crate) use whole::{Whole, may_fill, pack_panels, pack_whole, packed_len};

use std::ops::Range;
use tile::{Lines, TileArgs};

/// Longest block of k. Each block passes over C once more; a panel of B need not fit in L1, as the sums hide what L2 takes.
pub(in crate::library) const KC: usize = 512;
/// Rows of A that stay in L2, packed, where blocks of k are longest.
const ROWS: usize = 336;
/// Most rows of a block where they are shorter.
const MOST_ROWS: usize = 2 * ROWS;
/// Whether rows `step` bytes apart fall on so few sets of L1 that a tile's rows push each other out.
fn rows_collide(step: isize) -> bool {
    step % 2048 == 0
}

/// The longest of the blocks that `steps` packed steps of k are cut into.
fn longest_block(steps: usize) -> usize {
    steps.div_ceil(steps.div_ceil(KC).max(1))
}

/// Pointers and strides (in elements) of one product C = A B.
pub(crate) struct Operands<T: Element> {
    pub(crate) a: *const T,
    pub(crate) a_row: isize,
    pub(crate) a_col: isize,
    pub(crate) b: *const T,
    pub(crate) b_row: isize,
    pub(crate) b_col: isize,
    pub(crate) c: *mut T::Out,
    pub(crate) c_row: isize,
    pub(crate) c_col: isize,
    /// Bytes from each element of C to what is added to it, if [`adds`] allows that.
    pub(crate) beside: Option<isize>,
}

/// Whether tiles of a product whose rows of C are contiguous add what lies beside C.
pub(crate) fn adds<T: Element>(kernels: &Kernels<T>, k: usize) -> bool {
    T::SUMS && T::DIRECT && kernels.block.is_none() && kernels.step == 1 && (1..=KC).contains(&k)
}

/// Bounds of piece `i` of `0..len` cut into `pieces` whose lengths differ by one at most.
pub(crate) fn piece(len: usize, pieces: usize, i: usize) -> Range<usize> {
    len * i / pieces..len * (i + 1) / pieces
}

/// A length cut into pieces whose lengths differ by one at most, the longer ones first.
#[derive(Clone, Copy)]
struct Pieces {
    count: usize,
    length: usize,
    longer: usize,
}

impl Pieces {
    fn new(len: usize, count: usize) -> Self {
        let of = count.max(1);
        Self {
            count,
            length: len / of,
            longer: len % of,
        }
    }

    /// Bounds of piece `i`.
    fn at(&self, i: usize) -> Range<usize> {
        let start = i * self.length + i.min(self.longer);
        start..start + self.length + usize::from(i < self.longer)
    }

    /// Pieces from `i` on that are as long.
    fn alike(&self, i: usize) -> usize {
        if i < self.longer {
            self.longer - i
        } else {
            self.count - i
        }
    }
}

/// How a panel of B comes near while the one before it is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// It is there, or is read where it lies.
    Nothing,
    /// It is packed, some steps of k after each tile.
    Packs,
    /// Its rows are asked for; its first tile copies them.
    Copies,
    /// Its packed form is asked for.
    Whole,
}

/// Steps of k that packing transposes at once: slices of a panel are whole groups of them.
const STEPS: usize = 16;

/// Most tiles whose sums lie beside C before they are rounded into it.
const BESIDE: usize = 4;

/// Computes the block `rows` x `cols` of C, `k` terms each, which are the first of those that `whole` has; `cols` starts at one of
/// its panels.
///
/// # Safety
/// The operands reach every element of the block, C is written by no one else, the kernels' instruction set exists.
pub(crate) unsafe fn block<T: Element>(
    kernels: &Kernels<T>,
    x: &Operands<T>,
    whole: Whole<T::Acc>,
    k: usize,
    rows: Range<usize>,
    cols: Range<usize>,
) {
    if let Some(block) = kernels.block
        && k > 0
    {
        // SAFETY: same contract.
        return unsafe { block(kernels, x, whole, k, rows, cols) };
    }
    let (mr, nr) = (kernels.tiles.packed.len(), kernels.tiles.nr);
    let (mc, nc) = (rows.len(), cols.len());
    let (tiles, panels) = (mc.div_ceil(mr), nc.div_ceil(nr));
    let heights = Pieces::new(mc, tiles);
    // Of packed elements, of which each has `step` steps of k.
    let step = kernels.step;
    let lanes = k.div_ceil(step);
    let k_blocks = lanes.div_ceil(KC);
    let kc_max = longest_block(lanes);

    let pack_a = !direct::reads_a(x, mc, kc_max, panels);
    let whole_b = whole.is_packed();
    let ready = whole_b && !whole.fills;
    let pack_b = !direct::reads_b(x, nc, kc_max, tiles);
    let direct_c = T::SUMS && x.c_col == 1;
    // Lengths in accumulators, each with the packing's overrun and a whole number of cache lines.
    let line = |len: usize| (len + 16).next_multiple_of(16);
    let b_len = if whole_b { 0 } else { line(kc_max * nr) };
    let a_len = if pack_a {
        line(kc_max * mc * kernels.a_words)
    } else {
        0
    };
    let tail_len = line(BESIDE.min(tiles) * mr * nr);
    // Sums that several blocks of k add to; those of one block are rounded a tile at a time.
    let sums_len = if direct_c || k_blocks == 1 {
        0
    } else {
        line(mc * panels * nr)
    };
    let start_len = if whole_b || kernels.excess.is_none() {
        0
    } else {
        line(nr)
    };
    let bytes = (2 * b_len + a_len + tail_len + sums_len + start_len) * size_of::<T::Acc>();

    let scratch = Scratch::take(bytes);
    let packed_b: *mut T::Acc = scratch.start().cast();
    // SAFETY: the scratch memory has the length that was asked for; the operands' extents are the caller's contract.
    unsafe {
        let packed_a = packed_b.add(2 * b_len);
        let tail = packed_a.add(a_len);
        let sums = tail.add(tail_len);
        let start = sums.add(sums_len);
        let c0 =
            x.c.wrapping_offset(rows.start as isize * x.c_row)
                .wrapping_add(cols.start);
        for block_of_k in 0..k_blocks {
            let ks = piece(lanes, k_blocks, block_of_k);
            let kc = ks.len();
            let k0 = (ks.start * step) as isize;
            let a = x.a.offset(rows.start as isize * x.a_row + k0 * x.a_col);
            let b = x.b.offset(k0 * x.b_row + cols.start as isize * x.b_col);
            let elements = |steps: &Range<usize>| {
                ((ks.start + steps.end) * step).min(k) - (ks.start + steps.start) * step
            };
            let a_tile = |r: Range<usize>| Panel {
                dst: packed_a.add(r.start * kc * kernels.a_words),
                pitch: r.len(),
                src: a.offset(r.start as isize * x.a_row),
                width: r.len(),
                w_step: x.a_row,
                k_step: x.a_col,
                kc: elements(&(0..kc)),
            };
            // Where panel `p` lies packed. Behind the last one of a whole B is the first of the next block of k.
            let home = |p: usize| match (whole_b, p < panels) {
                (false, _) => packed_b.wrapping_add(p % 2 * b_len),
                (true, true) => {
                    (whole.panels).wrapping_add((cols.start + p * nr) * whole.steps + ks.start * nr)
                }
                (true, false) => (whole.panels).wrapping_add(cols.start * whole.steps + ks.end * nr),
            };
            let b_panel = |p: usize, steps: Range<usize>| Panel {
                dst: home(p).wrapping_add(steps.start * nr),
                pitch: nr,
                src: b.offset((p * nr) as isize * x.b_col + (steps.start * step) as isize * x.b_row),
                width: nr.min(nc - p * nr),
                w_step: x.b_col,
                k_step: x.b_row,
                kc: elements(&steps),
            };
            let packs = |p: usize| !ready && p < panels && (whole_b || pack_b || nc - p * nr < nr);
            // Whole panels of rows in memory are packed by the first tile that reads them.
            let copies = |p: usize| pack_a && T::DIRECT && x.b_col == 1 && packs(p) && nc - p * nr >= nr;
            if packs(0) && !copies(0) {
                (kernels.pack[1])(&b_panel(0, 0..kc));
            }
            for p in 0..panels {
                let (col, width) = (p * nr, nr.min(nc - p * nr));
                let packed = home(p);
                let far = (b.offset(col as isize * x.b_col).cast(), x.b_row);
                let near = if whole_b || packs(p) {
                    (packed.cast_const(), nr as isize)
                } else {
                    far
                };
                // All terms of a whole B begin with the first block of k.
                let start = match kernels.excess {
                    Some(excess) if !ready => {
                        let start = if whole_b {
                            whole.start.wrapping_add(cols.start + col)
                        } else {
                            start
                        };
                        excess(near.0.cast(), kc, start.cast());
                        start.cast_const()
                    }
                    Some(_) if block_of_k == 0 => whole.start.wrapping_add(cols.start + col).cast_const(),
                    _ => std::ptr::null(),
                };
                let ahead = if packs(p + 1) {
                    if copies(p + 1) {
                        Ahead::Copies
                    } else {
                        Ahead::Packs
                    }
                } else if ready && (p + 1 < panels || ks.end < k) {
                    Ahead::Whole
                } else {
                    Ahead::Nothing
                };
                // Steps of k that each tile brings near.
                let slice = match ahead {
                    Ahead::Nothing => 0,
                    Ahead::Copies | Ahead::Whole => kc.div_ceil(tiles),
                    Ahead::Packs => kc.div_ceil(STEPS).div_ceil(tiles) * STEPS,
                };
                let mut t = 0;
                while t < tiles {
                    let packs_a = pack_a && p == 0;
                    let copying = t == 0 && copies(p);
                    let in_place = direct_c && width == nr;
                    let last = block_of_k + 1 == k_blocks;
                    // Nothing is done between these tiles, which are of one height.
                    let slices = ahead == Ahead::Packs && t * slice < kc;
                    let together = if packs_a || copying || slices {
                        1
                    } else if in_place || !direct_c && !last {
                        heights.alike(t)
                    } else {
                        heights.alike(t).min(BESIDE)
                    };
                    let height = heights.at(t).len();
                    let r = heights.at(t).start..heights.at(t + together - 1).end;
                    let c = c0.wrapping_offset(r.start as isize * x.c_row).wrapping_add(col);
                    let mut next = [Lines::NONE; 2];
                    let steps = t * slice..kc.min((t + 1) * slice);
                    let slice_of = |panel: *mut T::Acc| Lines {
                        start: panel.wrapping_add(steps.start * nr).cast_const().cast(),
                        step: (nr * size_of::<T::Acc>()) as isize,
                        runs: steps.len(),
                        bytes: nr * size_of::<T::Acc>(),
                    };
                    if packs_a {
                        (kernels.pack[0])(&a_tile(r.clone()));
                        if t + 1 < tiles {
                            next[0] = a_tile(heights.at(t + 1)).lines();
                        }
                    } else if whole_b && !ready && !steps.is_empty() {
                        next[0] = slice_of(home(p + 1));
                    } else if let Some(beside) = x.beside {
                        next[0] = Lines {
                            start: c.wrapping_byte_offset(beside).cast_const().cast(),
                            step: x.c_row * size_of::<T::Out>() as isize,
                            runs: height,
                            bytes: width * size_of::<T::Out>(),
                        };
                    }
                    // The next panel is packed a slice at a time, after a tile that has brought the slice near.
                    let mut next_slice = None;
                    if !steps.is_empty() {
                        match ahead {
                            Ahead::Nothing => {}
                            Ahead::Copies => next[1] = b_panel(p + 1, steps.clone()).lines(),
                            Ahead::Packs => {
                                let panel = b_panel(p + 1, steps.clone());
                                next[1] = panel.lines();
                                next_slice = Some(panel);
                            }
                            Ahead::Whole => next[1] = slice_of(home(p + 1)),
                        }
                    }
                    let (set, a, a_tile, a_row, a_k) = if pack_a {
                        (
                            kernels.tiles.packed,
                            packed_a.add(r.start * kc * kernels.a_words).cast_const(),
                            height * kc * kernels.a_words,
                            1,
                            height as isize,
                        )
                    } else {
                        (
                            kernels.tiles.strided,
                            a.offset(r.start as isize * x.a_row).cast(),
                            (height as isize).wrapping_mul(x.a_row) as usize,
                            x.a_row,
                            x.a_col,
                        )
                    };
                    let (target, c_row) = if in_place {
                        (c.cast(), x.c_row)
                    } else if direct_c || k_blocks == 1 {
                        (tail, nr as isize)
                    } else {
                        (sums.add(r.start * panels * nr + col), (panels * nr) as isize)
                    };
                    let ((b, b_k), set) = if copying {
                        (far, kernels.tiles.copying)
                    } else {
                        (near, set)
                    };
                    set[height - 1](&TileArgs {
                        tiles: together,
                        rows: height,
                        kc,
                        a,
                        a_tile,
                        a_row,
                        a_k,
                        b,
                        b_k,
                        c: target,
                        c_row,
                        start,
                        accumulate: target != tail && (block_of_k > 0 || x.beside.is_some()),
                        beside: x.beside.unwrap_or(0),
                        copy: if copying { packed } else { std::ptr::null_mut() },
                        next,
                    });
                    if direct_c && !in_place {
                        let added = (block_of_k > 0).then_some(0).or(x.beside);
                        add_tail::<T>(c.cast(), x.c_row, tail, nr, r.len(), width, added);
                    } else if !direct_c && last {
                        let sums = (target.cast_const(), c_row as usize);
                        let (top, left) = (rows.start + r.start, cols.start + col);
                        store(kernels, x, sums, top..top + r.len(), left..left + width);
                    }
                    if let Some(panel) = &next_slice {
                        (kernels.pack[1])(panel);
                    }
                    t += together;
                }
            }
        }
        if k == 0 {
            zero(x, rows.clone(), cols.clone());
        }
    }
}

/// Writes the used columns of a tile to C, or what lies so many bytes from C and them.
unsafe fn add_tail<T: Element>(
    c: *mut T::Acc,
    c_row: isize,
    tile: *const T::Acc,
    pitch: usize,
    rows: usize,
    width: usize,
    added: Option<isize>,
) {
    for i in 0..rows {
        // SAFETY: the caller's tile and C have `rows` rows of `width` columns.
        unsafe {
            let (c, tile) = (c.offset(i as isize * c_row), tile.add(i * pitch));
            for j in 0..width {
                let sum = *tile.add(j);
                *c.add(j) = match added {
                    Some(beside) => T::add(*c.add(j).wrapping_byte_offset(beside), sum),
                    None => sum,
                };
            }
        }
    }
}

/// Rounds sums into C, whatever its strides.
unsafe fn store<T: Element>(
    kernels: &Kernels<T>,
    x: &Operands<T>,
    (sums, pitch): (*const T::Acc, usize),
    rows: Range<usize>,
    cols: Range<usize>,
) {
    // SAFETY: C reaches the block, and the sums have a row of `pitch` for each of its rows.
    unsafe {
        let c = (x.c).offset(rows.start as isize * x.c_row + cols.start as isize * x.c_col);
        if x.c_col == 1 {
            return (kernels.narrow)((c, x.c_row), (sums, pitch), [rows.len(), cols.len()]);
        }
        for i in 0..rows.len() {
            let src = std::slice::from_raw_parts(sums.add(i * pitch), cols.len());
            let c = c.offset(i as isize * x.c_row);
            for (j, &sum) in src.iter().enumerate() {
                *c.offset(j as isize * x.c_col) = T::narrow(sum);
            }
        }
    }
}

/// The sum of no terms.
unsafe fn zero<T: Element>(x: &Operands<T>, rows: Range<usize>, cols: Range<usize>) {
    for i in rows {
        for j in cols.clone() {
            // SAFETY: C reaches the block.
            unsafe { *x.c.offset(i as isize * x.c_row + j as isize * x.c_col) = T::narrow(T::ZERO) }
        }
    }
}
