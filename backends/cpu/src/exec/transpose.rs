//! Transposes of tiles in the first-level cache.

/// `to[i * to_stride + j] = from[j * from_stride + i]` for `i < rows` and `j < columns`; strides are in elements.
///
/// # Safety
/// Both sides hold the elements that the strides reach, and they do not overlap.
pub(super) unsafe fn transpose(
    size: usize,
    (to, to_stride): (*mut u8, isize),
    (from, from_stride): (*const u8, isize),
    rows: usize,
    columns: usize,
) {
    macro_rules! blocks {
        ($t:ty, $n:literal, $square:ident) => {
            blocks::<$t, $n>(
                (to.cast(), to_stride),
                (from.cast(), from_stride),
                rows,
                columns,
                $square::<$t, $n>,
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 if rows >= 16 && columns >= 16 => blocks!(u8, 16, woven),
            1 => blocks!(u8, 8, square),
            2 => blocks!(u16, 8, woven),
            4 => blocks!(u32, 4, woven),
            _ => blocks!(u64, 4, square),
        }
    }
}

type Square<T> = unsafe fn((*mut T, isize), (*const T, isize));

/// Squares of `N`. The last ones of an edge begin earlier, where there are so many, and write what stands there again.
#[inline(always)]
unsafe fn blocks<T: Copy, const N: usize>(
    (to, to_stride): (*mut T, isize),
    (from, from_stride): (*const T, isize),
    rows: usize,
    columns: usize,
    square: Square<T>,
) {
    let at = |i: usize, j: usize| {
        let (i, j) = (i as isize, j as isize);
        (
            to.wrapping_offset(i * to_stride + j),
            from.wrapping_offset(j * from_stride + i),
        )
    };
    // SAFETY: i and j stay below rows and columns.
    unsafe {
        if rows < N || columns < N {
            for i in 0..rows {
                for j in 0..columns {
                    let (to, from) = at(i, j);
                    *to = *from;
                }
            }
            return;
        }
        for j in (0..columns).step_by(N) {
            for i in (0..rows).step_by(N) {
                let (to, from) = at(i.min(rows - N), j.min(columns - N));
                square((to, to_stride), (from, from_stride));
            }
        }
    }
}

/// A square, element by element.
#[inline(always)]
unsafe fn square<T: Copy, const N: usize>(
    (to, to_stride): (*mut T, isize),
    (from, from_stride): (*const T, isize),
) {
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..N as isize {
            for j in 0..N as isize {
                *to.offset(i * to_stride + j) = *from.offset(j * from_stride + i);
            }
        }
    }
}

/// A square whose lines are registers of 16 bytes.
///
/// To interleave the elements of line `k` with those of line `k + N / 2` rotates the bits of places by one; after as many rounds
/// as a line's index has bits, lines and elements have changed places.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn woven<T: Copy, const N: usize>(
    (to, to_stride): (*mut T, isize),
    (from, from_stride): (*const T, isize),
) {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16,
        _mm_unpackhi_epi32, _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_unpacklo_epi32,
    };
    const { assert!(N * size_of::<T>() == 16 && N.is_power_of_two()) };
    // SAFETY: SSE2 is part of the target; the caller vouches for the square.
    unsafe {
        let mut lines = [_mm_setzero_si128(); N];
        for (j, line) in lines.iter_mut().enumerate() {
            *line = _mm_loadu_si128(from.offset(j as isize * from_stride).cast::<__m128i>());
        }
        for _ in 0..N.ilog2() {
            let before = lines;
            for k in 0..N / 2 {
                let (a, b) = (before[k], before[k + N / 2]);
                (lines[2 * k], lines[2 * k + 1]) = match size_of::<T>() {
                    1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                    2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                    _ => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                };
            }
        }
        for (i, line) in lines.into_iter().enumerate() {
            _mm_storeu_si128(to.offset(i as isize * to_stride).cast::<__m128i>(), line);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
use square as woven;

#[cfg(test)]
mod tests {
    use super::transpose;

    /// Every element lands in its place and nothing else is written, for squares that fit, that overlap and that do not fit.
    #[test]
    fn every_size_and_edge() {
        for size in [1, 2, 4, 8] {
            for (rows, columns) in [
                (1, 9),
                (3, 40),
                (4, 4),
                (8, 15),
                (16, 16),
                (17, 31),
                (32, 32),
                (45, 64),
            ] {
                // Strides longer than the lines, and addresses that no register is aligned to.
                let (to_stride, from_stride) = (columns + 3, rows + 5);
                let from: Vec<u8> = (0..size * (1 + columns * from_stride))
                    .map(|i| (i * 7 + i / 251) as u8)
                    .collect();
                let mut to = vec![0xa5; size * (1 + rows * to_stride)];
                let mut expected = to.clone();
                for i in 0..rows {
                    for j in 0..columns {
                        let (at, source) = (size * (1 + i * to_stride + j), size * (1 + j * from_stride + i));
                        expected[at..at + size].copy_from_slice(&from[source..source + size]);
                    }
                }
                // SAFETY: both sides hold the elements.
                unsafe {
                    transpose(
                        size,
                        (to.as_mut_ptr().add(size), to_stride as isize),
                        (from.as_ptr().add(size), from_stride as isize),
                        rows,
                        columns,
                    );
                }
                assert!(to == expected, "size {size}, {rows} x {columns}");
            }
        }
    }
}
