//! Micro-kernels: one `MR x NR` tile of C held in registers while k runs.

use super::vector::{Lanes, Vector};

/// Runs of memory to be prefetched, a few at a time between steps of k: in a burst they would stall the sums.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Lines {
    /// First run; need not exist.
    pub(crate) start: *const u8,
    /// Bytes from run to run.
    pub(crate) step: isize,
    /// Number of runs.
    pub(crate) runs: usize,
    /// Bytes of a run.
    pub(crate) bytes: usize,
}

impl Lines {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        start: std::ptr::null(),
        step: 0,
        runs: 0,
        bytes: 0,
    };
}

/// What one micro-kernel call computes: `c[i, j] (+)= sum_l a[i, l] * b[l, j]` over full tiles, one below the other. Strides in elements.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct TileArgs<S> {
    /// Tiles, at least one; the copying kernels take one.
    pub(crate) tiles: usize,
    /// Rows of a tile; kernels of one height do not read it.
    pub(crate) rows: usize,
    /// Steps of the sum.
    pub(crate) kc: usize,
    /// Element `[0, 0]` of A.
    pub(crate) a: *const S,
    /// Step from a tile of A to the next one.
    pub(crate) a_tile: usize,
    /// Step between rows of A; the packed kernels take 1.
    pub(crate) a_row: isize,
    /// Step between columns of A; the packed kernels take the number of rows.
    pub(crate) a_k: isize,
    /// Row 0 of B; rows are contiguous.
    pub(crate) b: *const S,
    /// Step between rows of B.
    pub(crate) b_k: isize,
    /// Row 0 of C; rows are contiguous.
    pub(crate) c: *mut S,
    /// Step between rows of C.
    pub(crate) c_row: isize,
    /// What each row of sums begins with, if it is not null; read by registers that have [`Vector::STARTS`].
    pub(crate) start: *const S,
    /// Adds what is `beside` C instead of overwriting it.
    pub(crate) accumulate: bool,
    /// Bytes from an element of C to what is added: 0 where that is C itself.
    pub(crate) beside: isize,
    /// Where the copying kernels put the rows of B, packed; null for the others.
    pub(crate) copy: *mut S,
    /// What to bring near meanwhile. Each tile asks for so many runs, which go on where those of the tile before it ended.
    pub(crate) next: [Lines; 2],
}

impl<S: Copy> TileArgs<S> {
    /// Calls `tile` for each of the tiles alone.
    #[inline(always)]
    pub(super) fn each(&self, mut tile: impl FnMut(&TileArgs<S>)) {
        let mut one = TileArgs { tiles: 1, ..*self };
        for _ in 0..self.tiles {
            tile(&one);
            one.a = one.a.wrapping_add(self.a_tile);
            one.c = one.c.wrapping_offset(self.rows as isize * self.c_row);
        }
    }
}

/// A micro-kernel for tiles of one height.
pub(crate) type TileFn<S> = unsafe extern "C" fn(&TileArgs<S>);

/// The micro-kernels of one accumulator type on one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct TileSet<S: 'static> {
    /// Width of a tile.
    pub(crate) nr: usize,
    /// Kernels of height `index + 1` for packed A.
    pub(crate) packed: &'static [TileFn<S>],
    /// Kernels of height `index + 1` for A with any strides.
    pub(crate) strided: &'static [TileFn<S>],
    /// The same for tiles of half the width; none where only machine code has them.
    pub(crate) narrow: &'static [TileFn<S>],
    /// Kernels of height `index + 1` for packed A and a B that is far, which they pack on their way: the ports for memory are idle
    /// anyway.
    pub(crate) copying: &'static [TileFn<S>],
}

/// Rows that a kernel of the compiler sums at once.
const GROUP: usize = 4;

/// The micro-kernel of the compiler, of any height and form: where there is no machine code of our own.
#[inline(always)]
pub(super) unsafe fn tile<V: Vector, const NV: usize>(t: &TileArgs<V::Lane>) {
    // SAFETY: the caller vouches for a full tile behind each pointer and for the instruction set.
    unsafe {
        let (mut b, mut b_k) = (t.b, t.b_k);
        if !t.copy.is_null() {
            for l in 0..t.kc {
                for j in 0..NV {
                    V::load(b.add(j * V::LANES)).store(t.copy.add((l * NV + j) * V::LANES));
                }
                b = b.wrapping_offset(t.b_k);
            }
            (b, b_k) = (t.copy, (NV * V::LANES) as isize);
        }
        let mut row = 0;
        while row + GROUP <= t.rows {
            rows::<V, GROUP, NV>(t, row, b, b_k);
            row += GROUP;
        }
        while row < t.rows {
            rows::<V, 1, NV>(t, row, b, b_k);
            row += 1;
        }
    }
}

#[inline(always)]
unsafe fn rows<V: Vector, const MR: usize, const NV: usize>(
    t: &TileArgs<V::Lane>,
    first: usize,
    mut b: *const V::Lane,
    b_k: isize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut acc = [[V::zero(); NV]; MR];
        if V::STARTS && !t.start.is_null() {
            for sums in &mut acc {
                for (j, x) in sums.iter_mut().enumerate() {
                    *x = V::load(t.start.add(j * V::LANES));
                }
            }
        }
        let mut a = t.a.offset(first as isize * t.a_row);
        for _ in 0..t.kc {
            let mut bv = [V::zero(); NV];
            for (j, v) in bv.iter_mut().enumerate() {
                *v = V::load(b.add(j * V::LANES));
            }
            for (i, sums) in acc.iter_mut().enumerate() {
                let av = V::splat(a.offset(i as isize * t.a_row));
                for (x, &bj) in sums.iter_mut().zip(&bv) {
                    *x = x.mul_add(av, bj);
                }
            }
            a = a.wrapping_offset(t.a_k);
            b = b.wrapping_offset(b_k);
        }
        for (i, sums) in acc.iter().enumerate() {
            let c = t.c.offset((first + i) as isize * t.c_row);
            for (j, &x) in sums.iter().enumerate() {
                let c = c.add(j * V::LANES);
                let x = if t.accumulate {
                    V::load(c.wrapping_byte_offset(t.beside)).add(x)
                } else {
                    x
                };
                x.store(c);
            }
        }
    }
}

/// Instantiates a `TileSet` constant of the compiler's kernels from a vector type, the registers of a tile row and the heights.
macro_rules! tile_set {
    ($name:ident, $vector:ty, $nv:literal, $(#[$feature:meta],)? $most:literal) => {
        pub(in crate::library::gemm) const $name: TileSet<<$vector as Vector>::Lane> = {
            $(#[$feature])?
            unsafe extern "C" fn kernel(t: &TileArgs<<$vector as Vector>::Lane>) {
                // SAFETY: same contract, for each of the tiles.
                t.each(|t| unsafe { tile::<$vector, $nv>(t) });
            }
            const KERNELS: &[TileFn<<$vector as Vector>::Lane>] = &[kernel as TileFn<<$vector as Vector>::Lane>; $most];
            TileSet {
                nr: <$vector as Vector>::LANES * $nv,
                packed: KERNELS,
                strided: KERNELS,
                narrow: &[],
                copying: KERNELS,
            }
        };
    };
}
pub(super) use tile_set;

tile_set!(F32_PLAIN, Lanes<f32, 4>, 2, 6);
tile_set!(F64_PLAIN, Lanes<f64, 2>, 2, 6);
tile_set!(I32_PLAIN, Lanes<i32, 4>, 2, 4);
tile_set!(I64_PLAIN, Lanes<i64, 2>, 2, 4);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{TileArgs, TileFn, TileSet, Vector, tile};
    use std::arch::x86_64::*;

    macro_rules! x86_vector {
        ($name:ident, $register:ty, $lane:ty, $lanes:literal, $load:expr, $store:expr, $zero:expr, $splat:expr, $mul_add:expr, $add:expr $(, $starts:literal)?) => {
            /// One register.
            #[derive(Clone, Copy)]
            pub(crate) struct $name(pub(crate) $register);
            // The blocks' contract: the instruction set is on and the pointers are good, as the trait says.
            impl Vector for $name {
                type Lane = $lane;
                const LANES: usize = $lanes;
                $(const STARTS: bool = $starts;)?
                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $zero() })
                }
                #[inline(always)]
                unsafe fn splat(p: *const $lane) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $splat(*p) })
                }
                #[inline(always)]
                unsafe fn load(p: *const $lane) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $load(p.cast()) })
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut $lane) {
                    // SAFETY: the trait's contract.
                    unsafe { $store(p.cast(), self.0) }
                }
                #[inline(always)]
                unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $mul_add(self.0, a.0, b.0) })
                }
                #[inline(always)]
                unsafe fn add(self, a: Self) -> Self {
                    // SAFETY: the trait's contract.
                    Self(unsafe { $add(self.0, a.0) })
                }
            }
        };
    }
    pub(in crate::library::gemm) use x86_vector;

    x86_vector!(
        F32x16,
        __m512,
        f32,
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        |x, a, b| _mm512_fmadd_ps(a, b, x),
        _mm512_add_ps
    );
    x86_vector!(
        F64x8,
        __m512d,
        f64,
        8,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_setzero_pd,
        _mm512_set1_pd,
        |x, a, b| _mm512_fmadd_pd(a, b, x),
        _mm512_add_pd
    );
    x86_vector!(
        I32x16,
        __m512i,
        i32,
        16,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        |x, a, b| _mm512_add_epi32(x, _mm512_mullo_epi32(a, b)),
        _mm512_add_epi32
    );
    x86_vector!(
        I64x8,
        __m512i,
        i64,
        8,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_setzero_si512,
        _mm512_set1_epi64,
        |x, a, b| _mm512_add_epi64(x, _mm512_mullo_epi64(a, b)),
        _mm512_add_epi64
    );
    x86_vector!(
        F32x8,
        __m256,
        f32,
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_setzero_ps,
        _mm256_set1_ps,
        |x, a, b| _mm256_fmadd_ps(a, b, x),
        _mm256_add_ps
    );
    x86_vector!(
        F64x4,
        __m256d,
        f64,
        4,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_setzero_pd,
        _mm256_set1_pd,
        |x, a, b| _mm256_fmadd_pd(a, b, x),
        _mm256_add_pd
    );
    x86_vector!(
        I32x8,
        __m256i,
        i32,
        8,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_setzero_si256,
        _mm256_set1_epi32,
        |x, a, b| _mm256_add_epi32(x, _mm256_mullo_epi32(a, b)),
        _mm256_add_epi32
    );

    tile_set!(F32_AVX512, F32x16, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], 14);
    tile_set!(F64_AVX512, F64x8, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], 14);
    tile_set!(I32_AVX512, I32x16, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], 14);
    tile_set!(I64_AVX512, I64x8, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], 14);
    tile_set!(F32_AVX2, F32x8, 2, #[target_feature(enable = "avx2,fma")], 6);
    tile_set!(F64_AVX2, F64x4, 2, #[target_feature(enable = "avx2,fma")], 6);
    tile_set!(I32_AVX2, I32x8, 2, #[target_feature(enable = "avx2,fma")], 6);
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::*;
