//! Products by AMX, whose eight registers are squares of 16 rows of 64 bytes.
//!
//! An instruction multiplies 16 rows of A, of 64 bytes along k each, by 16 columns of B, packed in lanes of 4 bytes along k as vectors take
//! them. Four registers are sums, 32 rows by 32 columns of C, two are rows of A and two are columns of B. A is read where it lies if its
//! rows are whole registers.
#![cfg(target_arch = "x86_64")]

mod rows;

use super::buffer::Scratch;
use super::bytes::{Byte, Signs};
use super::element::{BlockFn, Element, Kernels, narrow};
use super::lanes::lanes;
use super::pack::Panel;
use super::tile::TileSet;
use super::{Operands, Whole, piece, rows_collide, store};
use crate::isa::Isa;
use rows::pack_rows;
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows of a register, and the lanes of four bytes in each.
pub(crate) const SIDE: usize = 16;
/// Rows and columns of C whose sums are in registers at a time.
const TILE: usize = 2 * SIDE;
/// Bytes along k in a row of a register.
const DEPTH: usize = 64;
/// Bytes of B, packed, that stay in L2 while rows of A pass.
const NEAR: usize = 1 << 20;
/// Registers along k of rows of A that stay in L1, at most: they are 32 KiB.
const MOST_DEPTH: usize = 16;

/// Rows of A, a panel of B, and where the sums go. Steps between rows are in bytes.
struct Tile {
    a: *const u8,
    a_row: isize,
    b: *const u8,
    /// Registers along k.
    depth: usize,
    c: *mut u8,
    c_row: isize,
    /// Adds to what is there.
    adds: bool,
    /// A place in two rows of the next rows of A, which are asked for.
    next: [*const u8; 2],
}

/// Sums of 16 rows, and of 32.
type Squares = [unsafe fn(&Tile); 2];

/// Defines the kernels of an instruction. The panel of B passes through, while the rows of A come back for each panel: the hint keeps A near.
macro_rules! kernels {
    ($name:ident, $dot:literal) => {
        const $name: Squares = {
            unsafe fn one(t: &Tile) {
                // SAFETY: the caller has configured the registers, and each pointer has its rows.
                unsafe {
                    asm!(
                        "test {adds}, {adds}",
                        "jnz 3f",
                        "tilezero tmm0",
                        "tilezero tmm1",
                        "jmp 2f",
                        "3:",
                        "tileloadd tmm0, [{c} + {c_row}]",
                        "tileloadd tmm1, [{c} + {c_row} + 64]",
                        "2:",
                        "tileloadd tmm4, [{a} + {a_row}]",
                        "tileloaddt1 tmm6, [{b} + {b_row}]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        "tileloaddt1 tmm7, [{b} + {b_row} + 64]",
                        concat!($dot, " tmm1, tmm4, tmm7"),
                        "add {a}, 64",
                        "add {b}, 2048",
                        "prefetcht1 [{next0}]",
                        "prefetcht1 [{next1}]",
                        "add {next0}, 64",
                        "add {next1}, 64",
                        "dec {depth}",
                        "jnz 2b",
                        "tilestored [{c} + {c_row}], tmm0",
                        "tilestored [{c} + {c_row} + 64], tmm1",
                        a = inout(reg) t.a => _,
                        b = inout(reg) t.b => _,
                        depth = inout(reg) t.depth => _,
                        next0 = inout(reg) t.next[0] => _,
                        next1 = inout(reg) t.next[1] => _,
                        a_row = in(reg) t.a_row,
                        b_row = in(reg) 4 * TILE,
                        c = in(reg) t.c,
                        c_row = in(reg) t.c_row,
                        adds = in(reg) usize::from(t.adds),
                        options(nostack),
                    );
                }
            }
            unsafe fn two(t: &Tile) {
                // SAFETY: as above.
                unsafe {
                    asm!(
                        "test {adds}, {adds}",
                        "jnz 3f",
                        "tilezero tmm0",
                        "tilezero tmm1",
                        "tilezero tmm2",
                        "tilezero tmm3",
                        "jmp 2f",
                        "3:",
                        "tileloadd tmm0, [{c} + {c_row}]",
                        "tileloadd tmm1, [{c} + {c_row} + 64]",
                        "tileloadd tmm2, [{c_below} + {c_row}]",
                        "tileloadd tmm3, [{c_below} + {c_row} + 64]",
                        "2:",
                        "tileloadd tmm4, [{a} + {a_row}]",
                        "tileloaddt1 tmm6, [{b} + {b_row}]",
                        "tileloaddt1 tmm7, [{b} + {b_row} + 64]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        concat!($dot, " tmm1, tmm4, tmm7"),
                        "tileloadd tmm5, [{below} + {a_row}]",
                        concat!($dot, " tmm2, tmm5, tmm6"),
                        concat!($dot, " tmm3, tmm5, tmm7"),
                        "add {a}, 64",
                        "add {below}, 64",
                        "add {b}, 2048",
                        "prefetcht1 [{next0}]",
                        "prefetcht1 [{next1}]",
                        "add {next0}, 64",
                        "add {next1}, 64",
                        "dec {depth}",
                        "jnz 2b",
                        "tilestored [{c} + {c_row}], tmm0",
                        "tilestored [{c} + {c_row} + 64], tmm1",
                        "tilestored [{c_below} + {c_row}], tmm2",
                        "tilestored [{c_below} + {c_row} + 64], tmm3",
                        a = inout(reg) t.a => _,
                        below = inout(reg) t.a.wrapping_offset(SIDE as isize * t.a_row) => _,
                        b = inout(reg) t.b => _,
                        depth = inout(reg) t.depth => _,
                        next0 = inout(reg) t.next[0] => _,
                        next1 = inout(reg) t.next[1] => _,
                        a_row = in(reg) t.a_row,
                        b_row = in(reg) 4 * TILE,
                        c = in(reg) t.c,
                        c_below = in(reg) t.c.wrapping_offset(SIDE as isize * t.c_row),
                        c_row = in(reg) t.c_row,
                        adds = in(reg) usize::from(t.adds),
                        options(nostack),
                    );
                }
            }
            [one, two]
        };
    };
}
kernels!(UNSIGNED, "tdpbuud");
kernels!(UNSIGNED_SIGNED, "tdpbusd");
kernels!(SIGNED_UNSIGNED, "tdpbsud");
kernels!(SIGNED, "tdpbssd");
kernels!(HALVES, "tdpbf16ps");

/// By whether A is signed, and then B; last those of bf16.
const ALL: [Squares; 5] = [UNSIGNED, UNSIGNED_SIGNED, SIGNED_UNSIGNED, SIGNED, HALVES];

/// The kernels for bytes of these signs. Only where the machine has [`Isa::sums_squares`].
pub(super) fn bytes(signs: Signs, tiles: TileSet<i32>) -> Kernels<Byte> {
    let block = match (signs.a, signs.b) {
        (false, false) => block::<Byte, 0>,
        (false, true) => block::<Byte, 1>,
        (true, false) => block::<Byte, 2>,
        (true, true) => block::<Byte, 3>,
    };
    Kernels {
        fours: Isa::Avx512.sums_bytes().then_some(signs),
        ..kernels(tiles, block)
    }
}

/// The kernels for bf16. Only where the machine has [`Isa::sums_squares`].
pub(super) fn halves<T: Element<Acc = f32>>(tiles: TileSet<f32>) -> Kernels<T> {
    let kernels = kernels(tiles, block::<T, 4>);
    match !T::SUMS && Isa::Avx512.sums_halves() {
        true => Kernels {
            narrow: round::<T>,
            ..kernels
        },
        false => kernels,
    }
}

/// Rounds to bf16, as [`super::element::NarrowFn`] says. The instruction takes numbers below the least normal one as zeros; no sum of
/// AMX is one.
///
/// # Safety
/// That of the type, whose results are bf16; the machine has the instruction.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn round<T: Element<Acc = f32>>(
    (to, to_row): (*mut T::Out, isize),
    (from, pitch): (*const f32, usize),
    [rows, columns]: [usize; 2],
) {
    for row in 0..rows {
        for column in (0..columns).step_by(TILE) {
            // SAFETY: the caller's memory has these rows, and of a row no more than its columns is touched.
            unsafe {
                let mask = u32::MAX >> (TILE - TILE.min(columns - column));
                let from = from.add(row * pitch + column);
                let low = _mm512_maskz_loadu_ps(mask as u16, from);
                let high = _mm512_maskz_loadu_ps((mask >> SIDE) as u16, from.wrapping_add(SIDE));
                let rounded: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                let to = to.offset(row as isize * to_row).add(column);
                _mm512_mask_storeu_epi16(to.cast(), mask, rounded);
            }
        }
    }
}

fn kernels<T: Element>(tiles: TileSet<T::Acc>, block: BlockFn<T>) -> Kernels<T> {
    Kernels {
        tiles,
        pack: [lanes::<T, 0>(Isa::Avx512), pack],
        a_words: 1,
        step: 4 / size_of::<T>(),
        multiple: SIDE,
        fours: None,
        excess: None,
        narrow: narrow::<T>(Isa::Avx512),
        block: Some(block),
    }
}

/// Eight registers of 16 rows of 64 bytes, as `ldtilecfg` reads them.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    first_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static WHOLE: Configuration = Configuration {
    palette: 1,
    first_row: 0,
    reserved: [0; 14],
    bytes: {
        let mut bytes = [0; 16];
        let mut register = 0;
        while register < 8 {
            bytes[register] = DEPTH as u16;
            register += 1;
        }
        bytes
    },
    rows: {
        let mut rows = [0; 16];
        let mut register = 0;
        while register < 8 {
            rows[register] = SIDE as u8;
            register += 1;
        }
        rows
    },
};

/// The registers in use: what is in them costs at each change of threads, so they are given back.
pub(crate) struct InUse;

impl InUse {
    /// # Safety
    /// The machine has AMX, and the process may use it.
    pub(crate) unsafe fn new() -> InUse {
        // SAFETY: the caller's promise.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE, options(nostack, readonly)) };
        InUse
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // SAFETY: the registers are in use.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Packs columns of B as vectors take them, and zeros up to whole registers along k.
///
/// # Safety
/// That of [`super::pack::PackFn`], with room for whole registers.
unsafe fn pack<T: Element>(panel: &Panel<T>) {
    let packed = panel.kc.div_ceil(4 / size_of::<T>());
    let zeros = packed.next_multiple_of(SIDE) - packed;
    // SAFETY: the caller's promise.
    unsafe {
        lanes::<T, 0>(Isa::Avx512)(panel);
        if zeros > 0 {
            (panel.dst.add(packed * panel.pitch)).write_bytes(0, zeros * panel.pitch);
        }
    }
}

/// Computes a block of C, as [`super::block`] does.
///
/// # Safety
/// That of [`super::block`]; there is a term; the machine has AMX, and the process may use it.
unsafe fn block<T: Element, const SUMS: usize>(
    kernels: &Kernels<T>,
    x: &Operands<T>,
    whole: Whole<T::Acc>,
    k: usize,
    rows: Range<usize>,
    cols: Range<usize>,
) {
    let [one, two] = ALL[SUMS];
    let (lanes, panels) = (kernels.lanes(k), cols.len().div_ceil(TILE));
    let (panel, steps) = (lanes * TILE, lanes * kernels.step);
    let near = (NEAR / (panel * 4)).clamp(1, panels);
    let depth = lanes / SIDE;
    let depths = depth.div_ceil(MOST_DEPTH);
    let longest = depth.div_ceil(depths);
    let lies = x.a_col == 1 && k == steps && !rows_collide(x.a_row * size_of::<T>() as isize);
    // An odd number of lines, so that rows of one column spread over the sets of a cache.
    let pitch = (longest | 1) * DEPTH / size_of::<T>();
    let b_len = if whole.is_packed() { 0 } else { near * panel + 16 };
    // Sums of a strip, or of one tile where C takes them as they are.
    let adds_to_c = T::SUMS && x.c_col == 1;
    let strip = if depths == 1 { 2 } else { near } * TILE;
    let scratch = Scratch::take((b_len + TILE * strip) * 4 + TILE * pitch * size_of::<T>());
    let packed_b: *mut T::Acc = scratch.start().cast();
    // SAFETY: the scratch memory has the length that was asked for; the operands' extents are the caller's contract.
    unsafe {
        let sums = packed_b.add(b_len);
        let packed_a: *mut T = sums.add(TILE * strip).cast();
        let _in_use = InUse::new();
        let per = DEPTH / size_of::<T>();
        let rows_from = |row: usize, steps: &Range<usize>| {
            x.a.wrapping_offset(row as isize * x.a_row + (steps.start * per) as isize * x.a_col)
        };
        // A tile is rounded while the next one is summed.
        let mut done: Option<(*const T::Acc, Range<usize>, Range<usize>)> = None;
        let write = |done: Option<(*const T::Acc, Range<usize>, Range<usize>)>| {
            if let Some((sums, rows, cols)) = done {
                store(kernels, x, (sums, strip), rows, cols);
            }
        };
        for first in (0..panels).step_by(near) {
            let group = first..panels.min(first + near);
            if !whole.is_packed() {
                // Rows that lie side by side are read some at a time, over all panels.
                let slice = match x.b_col {
                    1 => SIDE * kernels.step,
                    _ => k,
                };
                for start in (0..k).step_by(slice) {
                    for p in group.clone() {
                        let col = cols.start + p * TILE;
                        pack(&Panel {
                            dst: packed_b.add((p - first) * panel + start / kernels.step * TILE),
                            pitch: TILE,
                            src: (x.b).offset(start as isize * x.b_row + col as isize * x.b_col),
                            width: TILE.min(cols.end - col),
                            w_step: x.b_col,
                            k_step: x.b_row,
                            kc: slice.min(k - start),
                        });
                    }
                }
            }
            let mut row = rows.start;
            while row < rows.end {
                let (height, kernel) = match rows.end - row {
                    TILE.. => (TILE, two),
                    left => (left.min(SIDE), one),
                };
                let whole_rows = height % SIDE == 0;
                for part in 0..depths {
                    let steps = piece(depth, depths, part);
                    let from = rows_from(row, &steps);
                    let (mut a, mut a_row) = (from, x.a_row);
                    if !(lies && whole_rows) {
                        let from = Panel {
                            dst: std::ptr::null_mut(),
                            pitch: 0,
                            src: from,
                            width: height,
                            w_step: x.a_row,
                            k_step: x.a_col,
                            kc: k.min(steps.end * per) - steps.start * per,
                        };
                        pack_rows(&from, packed_a, pitch, steps.len() * per);
                        (a, a_row) = (packed_a, pitch as isize);
                    }
                    let (next, left) = match part + 1 < depths {
                        true => (rows_from(row, &piece(depth, depths, part + 1)), height),
                        false => (
                            rows_from(row + height, &piece(depth, depths, 0)),
                            rows.end - row - height,
                        ),
                    };
                    for p in group.clone() {
                        let col = cols.start + p * TILE;
                        let width = TILE.min(cols.end - col);
                        let b = match whole.is_packed() {
                            true => whole.panels.add(col * whole.steps),
                            false => packed_b.add((p - first) * panel).cast_const(),
                        };
                        let c = x.c.offset(row as isize * x.c_row + col as isize * x.c_col);
                        let lies = adds_to_c && width == TILE && whole_rows;
                        let (c, c_row) = match lies {
                            true => (c.cast(), x.c_row),
                            false => (sums.add((p - first) * TILE % strip), strip as isize),
                        };
                        if done.as_ref().is_some_and(|(sums, ..)| *sums == c.cast_const()) {
                            write(done.take());
                        }
                        kernel(&Tile {
                            a: a.cast(),
                            a_row: a_row * size_of::<T>() as isize,
                            b: b.add(steps.start * SIDE * TILE).cast(),
                            depth: steps.len(),
                            c: c.cast(),
                            c_row: 4 * c_row,
                            adds: part > 0,
                            next: [0, 1].map(|i| {
                                let i = 2 * (p - first) + i;
                                match x.a_col == 1 && i < left.min(TILE) {
                                    true => next.wrapping_offset(i as isize * x.a_row).cast(),
                                    false => a.cast(),
                                }
                            }),
                        });
                        write(done.take());
                        if !lies && part + 1 == depths {
                            done = Some((c.cast_const(), row..row + height, col..col + width));
                        }
                    }
                }
                row += height;
            }
            write(done.take());
        }
    }
}
