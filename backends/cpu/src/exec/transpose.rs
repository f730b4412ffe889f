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
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => blocks::<u8, 8>(
                (to.cast(), to_stride),
                (from.cast(), from_stride),
                rows,
                columns,
                square,
            ),
            2 => blocks::<u16, 8>(
                (to.cast(), to_stride),
                (from.cast(), from_stride),
                rows,
                columns,
                square,
            ),
            4 => blocks::<u32, 4>(
                (to.cast(), to_stride),
                (from.cast(), from_stride),
                rows,
                columns,
                square_u32,
            ),
            _ => blocks::<u64, 4>(
                (to.cast(), to_stride),
                (from.cast(), from_stride),
                rows,
                columns,
                square,
            ),
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

/// A square of 8, or of 4 for 8 bytes.
#[inline(always)]
unsafe fn square<T: Copy>((to, to_stride): (*mut T, isize), (from, from_stride): (*const T, isize)) {
    let n = if size_of::<T>() == 8 { 4 } else { 8 };
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..n {
            for j in 0..n {
                *to.offset(i * to_stride + j) = *from.offset(j * from_stride + i);
            }
        }
    }
}

/// A square of 4.
#[inline(always)]
unsafe fn square_u32((to, to_stride): (*mut u32, isize), (from, from_stride): (*const u32, isize)) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of the target; the caller vouches for the square.
    unsafe {
        use std::arch::x86_64::{
            __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
            _mm_unpacklo_epi32, _mm_unpacklo_epi64,
        };
        let line = |j: isize| _mm_loadu_si128(from.offset(j * from_stride).cast::<__m128i>());
        let (a, b, c, d) = (line(0), line(1), line(2), line(3));
        let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (ab2, cd2) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        let put = |i: isize, v| _mm_storeu_si128(to.offset(i * to_stride).cast::<__m128i>(), v);
        put(0, _mm_unpacklo_epi64(ab, cd));
        put(1, _mm_unpackhi_epi64(ab, cd));
        put(2, _mm_unpacklo_epi64(ab2, cd2));
        put(3, _mm_unpackhi_epi64(ab2, cd2));
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..4 {
            for j in 0..4 {
                *to.offset(i * to_stride + j) = *from.offset(j * from_stride + i);
            }
        }
    }
}
