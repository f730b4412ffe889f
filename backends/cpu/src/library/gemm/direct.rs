//! Products so small that packing would cost more than it saves: A and B are read where they lie, and C is written there. A B of few
//! columns is copied.

use super::tile::{Lines, TileArgs};
use super::{Element, KC, Kernels, Operands, Pieces, rows_collide};
use std::mem::MaybeUninit;

/// Up to this many panels of B, A is read in place: packing would cost more than it saves.
const PANELS_UNPACKED_A: usize = 2;
/// The same for an A of at most `UNPACKED` elements whose rows are contiguous.
const PANELS_UNPACKED_SMALL_A: usize = 4;
/// Up to this many tiles of A, rows of a B of at most `UNPACKED` elements are read in place.
const TILES_UNPACKED_B: usize = 16;
/// Elements of a B and of a C that are copied one by one, for tiles that they do not fill.
const TINY: usize = 256;
/// The same with what fills up rows.
const COPIED: usize = 1024;
/// Elements of an operand that stays in a small L2 unpacked.
const UNPACKED: usize = 1 << 15;

/// Whether `rows` rows of A are read in place for `panels` panels of B, in blocks of `kc` terms.
pub(super) fn reads_a<T: Element>(x: &Operands<T>, rows: usize, kc: usize, panels: usize) -> bool {
    let collide = || rows_collide(x.a_row * size_of::<T>() as isize);
    let most = match x.a_col == 1 && rows * kc <= UNPACKED && !collide() {
        true => PANELS_UNPACKED_SMALL_A,
        false => PANELS_UNPACKED_A,
    };
    T::DIRECT && panels <= most
}

/// Whether whole panels of `columns` columns of B are read in place for `tiles` tiles of A, in blocks of `kc` terms.
pub(super) fn reads_b<T: Element>(x: &Operands<T>, columns: usize, kc: usize, tiles: usize) -> bool {
    T::DIRECT && x.b_col == 1 && tiles <= TILES_UNPACKED_B && kc * columns <= UNPACKED
}

/// Computes C of `m` rows and `n` columns as [`super::block`] would, if that has one block of k and would pack nothing, or next to nothing;
/// whether it did.
///
/// # Safety
/// That of [`super::block`].
pub(crate) unsafe fn direct<T: Element>(
    kernels: &Kernels<T>,
    x: &Operands<T>,
    [m, n, k]: [usize; 3],
) -> bool {
    let (mr, nr) = (kernels.tiles.strided.len(), kernels.tiles.nr);
    let plain = T::SUMS && T::DIRECT && kernels.step == 1 && kernels.excess.is_none();
    if !plain || kernels.block.is_some() || k == 0 || k > KC {
        return false;
    }
    let (tiles, panels) = (m.div_ceil(mr), n.div_ceil(nr));
    let narrow = kernels.tiles.narrow;
    let whole = n.is_multiple_of(nr) || 2 * n % nr == 0 && !narrow.is_empty();
    if x.c_col != 1 || !whole || !reads_a(x, m, k, panels) || !reads_b(x, n, k, tiles) {
        let tiny = n < nr && k * n <= TINY && m * n <= TINY;
        let fits = tiny && k * width_for(kernels, n) <= COPIED && x.beside.is_none();
        if fits {
            // SAFETY: the caller's promise.
            unsafe { padded(kernels, x, [m, n, k]) };
        }
        return fits;
    }
    let heights = Pieces::new(m, tiles);
    for column in (0..n).step_by(nr) {
        let tiles_of = if n - column < nr {
            narrow
        } else {
            kernels.tiles.strided
        };
        let mut t = 0;
        while t < tiles {
            let (together, rows) = (heights.alike(t), heights.at(t));
            // SAFETY: the caller's promise.
            unsafe {
                tiles_of[rows.len() - 1](&TileArgs {
                    tiles: together,
                    rows: rows.len(),
                    kc: k,
                    a: x.a.wrapping_offset(rows.start as isize * x.a_row).cast(),
                    a_tile: (rows.len() as isize).wrapping_mul(x.a_row) as usize,
                    a_row: x.a_row,
                    a_k: x.a_col,
                    b: x.b.wrapping_add(column).cast(),
                    b_k: x.b_row,
                    c: (x.c.wrapping_offset(rows.start as isize * x.c_row))
                        .wrapping_add(column)
                        .cast(),
                    c_row: x.c_row,
                    start: std::ptr::null(),
                    accumulate: x.beside.is_some(),
                    beside: x.beside.unwrap_or(0),
                    copy: std::ptr::null_mut(),
                    next: [Lines::NONE; 2],
                });
            }
            t += together;
        }
    }
    true
}

/// The width of the tile that `n` columns fill best, which are fewer than a whole one has.
fn width_for<T: Element>(kernels: &Kernels<T>, n: usize) -> usize {
    let nr = kernels.tiles.nr;
    match 2 * n <= nr && !kernels.tiles.narrow.is_empty() {
        true => nr / 2,
        false => nr,
    }
}

/// Computes C of fewer columns than a tile has, of which B is copied and filled up with zeros.
unsafe fn padded<T: Element>(kernels: &Kernels<T>, x: &Operands<T>, [m, n, k]: [usize; 3]) {
    let width = width_for(kernels, n);
    let tiles = match width < kernels.tiles.nr {
        true => kernels.tiles.narrow,
        false => kernels.tiles.strided,
    };
    let mut copied = [const { MaybeUninit::<T::Acc>::uninit() }; COPIED];
    let mut sums = [const { MaybeUninit::<T::Acc>::uninit() }; COPIED];
    let height = tiles.len().min(COPIED / width);
    // SAFETY: the operands have these rows and columns, and both places have room for as many of a tile.
    unsafe {
        let (b, c): (*mut T::Acc, *mut T::Acc) = (copied.as_mut_ptr().cast(), sums.as_mut_ptr().cast());
        for l in 0..k {
            let from = x.b.wrapping_offset(l as isize * x.b_row);
            let to = b.add(l * width);
            for j in 0..n {
                to.add(j)
                    .write((*from.wrapping_offset(j as isize * x.b_col)).widen());
            }
            for j in n..width {
                to.add(j).write(T::ZERO);
            }
        }
        for top in (0..m).step_by(height) {
            let rows = height.min(m - top);
            tiles[rows - 1](&TileArgs {
                tiles: 1,
                rows,
                kc: k,
                a: x.a.wrapping_offset(top as isize * x.a_row).cast(),
                a_tile: 0,
                a_row: x.a_row,
                a_k: x.a_col,
                b: b.cast_const(),
                b_k: width as isize,
                c,
                c_row: width as isize,
                start: std::ptr::null(),
                accumulate: false,
                beside: 0,
                copy: std::ptr::null_mut(),
                next: [Lines::NONE; 2],
            });
            for i in 0..rows {
                let to = x.c.wrapping_offset((top + i) as isize * x.c_row);
                for j in 0..n {
                    let sum = T::narrow(*c.add(i * width + j));
                    *to.wrapping_offset(j as isize * x.c_col) = sum;
                }
            }
        }
    }
}
