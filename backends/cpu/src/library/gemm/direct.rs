//! Products so small that packing would cost more than it saves: A and B are read where they lie, and C is written there.

use super::tile::{Lines, TileArgs};
use super::{Element, KC, Kernels, Operands, Pieces, rows_collide};

/// Up to this many panels of B, A is read in place: packing would cost more than it saves.
const PANELS_UNPACKED_A: usize = 2;
/// The same for an A of at most `UNPACKED` elements whose rows are contiguous.
const PANELS_UNPACKED_SMALL_A: usize = 4;
/// Up to this many tiles of A, rows of a B of at most `UNPACKED` elements are read in place.
const TILES_UNPACKED_B: usize = 16;
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

/// Computes C of `m` rows and `n` columns as [`super::block`] would, if that would pack nothing and has one block of k; whether it did.
///
/// # Safety
/// That of [`super::block`].
pub(crate) unsafe fn direct<T: Element>(
    kernels: &Kernels<T>,
    x: &Operands<T>,
    [m, n, k]: [usize; 3],
) -> bool {
    let (mr, nr) = (kernels.tiles.strided.len(), kernels.tiles.nr);
    let summed_in_place = T::SUMS && x.c_col == 1 && kernels.step == 1 && kernels.excess.is_none();
    if !summed_in_place || kernels.block.is_some() || k == 0 || k > KC {
        return false;
    }
    let (tiles, panels) = (m.div_ceil(mr), n.div_ceil(nr));
    let narrow = kernels.tiles.narrow;
    let whole = n.is_multiple_of(nr) || 2 * n % nr == 0 && !narrow.is_empty();
    if !whole || !reads_a(x, m, k, panels) || !reads_b(x, n, k, tiles) {
        return false;
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
