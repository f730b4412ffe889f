//! Products of a few rows of bytes, where the machine sums the products of four at once and columns of B are contiguous: B is read where it
//! lies. Sums are exact modulo 2³², so their order does not matter.

mod code;

use super::{Few, few};
use crate::isa::Isa;
use crate::library::gemm::{Byte, Kernels, Operands, Scratch, Signs};
use code::{COLUMNS, Order};
use std::ops::Range;

/// Terms from which dot products cost less than packing.
const LONG: usize = 256;
/// Elements of B from which that is so: for one row, for up to four, for up to eight.
const LARGE: [usize; 3] = [1 << 16, 1 << 18, 1 << 20];
/// Elements of B from which one row reads it faster as it lies than packed.
const LARGE_PACKED: usize = 1 << 18;

/// Rows of A and [`COLUMNS`] columns of B.
#[repr(C)]
struct Dots {
    a: *const u8,
    /// Bytes from row to row.
    a_row: isize,
    b: *const u8,
    /// Bytes from column to column.
    b_col: isize,
    /// Of as many terms as a vector has bytes; at least one.
    steps: usize,
    /// The sums of each row, and then of the elements of B where they are summed.
    to: *mut i32,
}

/// Such a product.
pub(crate) struct FewBytes {
    kernels: code::Kernels,
    order: Order,
    /// Elements of B.
    elements: usize,
}

impl FewBytes {
    /// The kernels for a product of `m` rows, `n` columns and `k` terms whose elements have these signs, if it has few rows.
    pub(super) fn new(
        (isa, codegen): (Isa, bool),
        signs: Signs,
        x: &Operands<Byte>,
        [m, n, k]: [usize; 3],
    ) -> Option<FewBytes> {
        let order = match (signs.a, signs.b) {
            (false, true) => Order::Straight,
            (true, false) => Order::Swapped,
            (true, true) => Order::Biased,
            (false, false) => return None,
        };
        let elements = k.saturating_mul(n);
        let least = match m {
            1 => LARGE[0],
            2..=4 => LARGE[1],
            5..=8 => LARGE[2],
            _ => return None,
        };
        let pays = k >= LONG && elements >= least && n >= COLUMNS;
        if !codegen || !pays || x.b_row != 1 || few([m, n, k]) != Some(false) {
            return None;
        }
        let kernels = code::kernels(isa, order)?;
        Some(FewBytes {
            kernels,
            order,
            elements,
        })
    }
}

impl Few<Byte> for FewBytes {
    fn serves(&self, _: &Kernels<Byte>, m: usize, packed: bool) -> bool {
        !packed || m == 1 && self.elements >= LARGE_PACKED
    }

    unsafe fn run(&self, x: &Operands<Byte>, [m, n, k]: [usize; 3], cols: Range<usize>) {
        let width = self.kernels.width;
        let biased = self.order == Order::Biased;
        let row = k.next_multiple_of(width);
        // Sums of whole vectors of terms, and of those that are left.
        let [(most, _), ..] = self.kernels.by_rows;
        let sums = (most + 1) * COLUMNS;
        let scratch = Scratch::take(2 * sums * size_of::<i32>() + COLUMNS * width + m * row);
        // SAFETY: the scratch memory has the length asked for; the operands' extents are the caller's contract, and the kernels' instruction set exists.
        unsafe {
            let to: *mut i32 = scratch.start().cast();
            to.write_bytes(0, 2 * sums);
            let rest: *mut u8 = to.add(2 * sums).cast();
            let a = rest.add(COLUMNS * width);
            a.write_bytes(0, m * row);
            for i in 0..m {
                let from = x.a.wrapping_offset(i as isize * x.a_row);
                for l in 0..k {
                    let Byte(value) = *from.wrapping_offset(l as isize * x.a_col);
                    a.add(i * row + l)
                        .write(if biased { value ^ 0x80 } else { value });
                }
            }
            let whole = k / width * width;
            for first in cols.clone().step_by(COLUMNS) {
                // The last columns overlap those before: sums of a column are the same in each.
                let at = first.min(n - COLUMNS);
                let b: *const u8 = x.b.offset(at as isize * x.b_col).cast();
                if whole < k {
                    rest.write_bytes(0, COLUMNS * width);
                    for column in 0..COLUMNS {
                        let from = b.offset(column as isize * x.b_col).add(whole);
                        rest.add(column * width).copy_from_nonoverlapping(from, k - whole);
                    }
                }
                let mut i = 0;
                while i < m {
                    let fits = |&(rows, _): &(usize, _)| i + rows <= m;
                    let Some((rows, kernel)) = self.kernels.by_rows.into_iter().find(fits) else {
                        break;
                    };
                    let dots = |done: usize, b: *const u8, b_col: isize, steps: usize, to: *mut i32| {
                        if steps > 0 {
                            kernel(&Dots {
                                a: a.add(i * row + done),
                                a_row: row as isize,
                                b,
                                b_col,
                                steps,
                                to,
                            });
                        }
                    };
                    dots(0, b, x.b_col, whole / width, to);
                    dots(whole, rest, width as isize, usize::from(whole < k), to.add(sums));
                    let total = |at: usize| (*to.add(at)).wrapping_add(*to.add(sums + at));
                    for column in first - at..COLUMNS.min(cols.end - at) {
                        let bias = if biased { total(rows * COLUMNS + column) } else { 0 };
                        for r in 0..rows {
                            let sum = total(r * COLUMNS + column).wrapping_sub(bias.wrapping_mul(128));
                            let to = (i + r) as isize * x.c_row + (at + column) as isize * x.c_col;
                            *x.c.wrapping_offset(to) = sum;
                        }
                    }
                    i += rows;
                }
            }
        }
    }
}
