//! Rows of A as AMX reads them.

use super::super::element::Element;
use super::super::pack::Panel;
use std::arch::x86_64::*;

/// Copies rows of A side by side, with zeros behind the last step of k.
///
/// # Safety
/// The source has the panel's extents, and `to` has as many rows of `pitch` elements, each of at least `whole`.
pub(super) unsafe fn pack_rows<T: Element>(from: &Panel<T>, to: *mut T, pitch: usize, whole: usize) {
    let side = size_of::<__m128i>() / size_of::<T>();
    let done = match (from.k_step, from.w_step) {
        (_, 1) => [from.width / side * side, from.kc / side * side],
        _ => [0; 2],
    };
    // SAFETY: the caller's promise.
    unsafe {
        for row in (0..done[0]).step_by(side) {
            for step in (0..done[1]).step_by(side) {
                let src = from.src.offset(step as isize * from.k_step).add(row);
                let (src, to) = ((src, from.k_step), (to.add(row * pitch + step), pitch));
                match size_of::<T>() {
                    1 => turn::<T, 16>(src, to, |a, b| [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)]),
                    _ => turn::<T, 8>(src, to, |a, b| {
                        [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)]
                    }),
                }
            }
        }
        for row in 0..from.width {
            let (src, to) = (from.src.offset(row as isize * from.w_step), to.add(row * pitch));
            if from.k_step == 1 {
                to.copy_from_nonoverlapping(src, from.kc);
            } else {
                for step in (if row < done[0] { done[1] } else { 0 })..from.kc {
                    to.add(step).write(*src.offset(step as isize * from.k_step));
                }
            }
            if from.kc < whole {
                to.add(from.kc).write_bytes(0, whole - from.kc);
            }
        }
    }
}

/// Writes a square of `N` rows of 16 bytes with rows and columns exchanged: again and again the upper half is interleaved with the lower.
///
/// # Safety
/// Both have the square, with these steps between rows.
unsafe fn turn<T, const N: usize>(
    (from, step): (*const T, isize),
    (to, pitch): (*mut T, usize),
    interleave: impl Fn(__m128i, __m128i) -> [__m128i; 2],
) {
    // SAFETY: the caller's promise; the instructions belong to every x86-64.
    unsafe {
        let mut rows: [__m128i; N] =
            std::array::from_fn(|row| _mm_loadu_si128(from.offset(row as isize * step).cast()));
        for _ in 0..N.ilog2() {
            rows = std::array::from_fn(|row| interleave(rows[row / 2], rows[row / 2 + N / 2])[row % 2]);
        }
        for (row, x) in rows.into_iter().enumerate() {
            _mm_storeu_si128(to.add(row * pitch).cast(), x);
        }
    }
}
