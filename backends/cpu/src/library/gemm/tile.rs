//! Micro-kernels: one `MR x NR` tile of C held in registers while k runs.

use super::vector::{Lanes, Vector};

/// Runs of memory to be prefetched, a few at a time between steps of k: in a burst they would stall the sums.
#[derive(Clone, Copy)]
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

/// What one micro-kernel call computes: `c[i, j] (+)= sum_l a[i, l] * b[l, j]` over a full tile. Strides in elements.
pub(crate) struct TileArgs<S> {
    /// Steps of the sum.
    pub(crate) kc: usize,
    /// Element `[0, 0]` of A.
    pub(crate) a: *const S,
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
    /// Adds to C instead of overwriting it.
    pub(crate) accumulate: bool,
    /// Where the copying kernels put the rows of B, packed; others do not read it.
    pub(crate) copy: *mut S,
    /// What to bring near meanwhile.
    pub(crate) next: [Lines; 2],
}

/// Rows of B that the copying kernels ask for ahead of time.
const AHEAD: usize = 24;

/// A micro-kernel for one tile height.
pub(crate) type TileFn<S> = unsafe fn(&TileArgs<S>);

/// The micro-kernels of one accumulator type on one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct TileSet<S: 'static> {
    /// Width of a tile.
    pub(crate) nr: usize,
    /// Kernels of height `index + 1` for packed A.
    pub(crate) packed: &'static [TileFn<S>],
    /// Kernels of height `index + 1` for A with any strides.
    pub(crate) strided: &'static [TileFn<S>],
    /// Kernels of height `index + 1` for packed A and a B that is far, which they pack on their way: the ports for memory are idle
    /// anyway.
    pub(crate) copying: &'static [TileFn<S>],
}

/// A block for every row of a tile. The compiler gives up unrolling a loop over the highest tiles, whose sums then lie in memory.
macro_rules! rows {
    ($row:ident in $mr:ident $body:block) => {
        rows!(@ $row $mr $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13);
    };
    (@ $row:ident $mr:ident $body:block $($at:literal)*) => {
        const { assert!($mr <= [$($at),*].len()) };
        $(if $at < $mr {
            let $row: usize = $at;
            $body
        })*
    };
}

#[inline(always)]
pub(super) unsafe fn tile<
    V: Vector,
    const MR: usize,
    const NV: usize,
    const PACKED: bool,
    const COPY: bool,
>(
    t: &TileArgs<V::Lane>,
) {
    // SAFETY: the caller vouches for a full tile behind each pointer and for the instruction set.
    unsafe {
        let mut acc = [[V::zero(); NV]; MR];
        if V::STARTS && !t.start.is_null() {
            let mut start = [V::zero(); NV];
            for (j, v) in start.iter_mut().enumerate() {
                *v = V::load(t.start.add(j * V::LANES));
            }
            rows!(i in MR { acc[i] = start; });
        }
        let mut b = t.b;
        let mut ahead = b.wrapping_offset(AHEAD as isize * t.b_k);
        let mut copy = t.copy;
        let mut a = t.a;
        // Rows in groups of three share a base register: base, base + s, base + 2s.
        let mut base = [t.a; 5];
        for (g, p) in base.iter_mut().enumerate() {
            *p = t.a.wrapping_offset(3 * g as isize * t.a_row);
        }
        let (mut c, mut next) = (t.c.cast_const(), t.next);
        let at_once = next.map(|lines| lines.runs.div_ceil(MR));
        for i in 0..MR {
            let steps = if i + 1 < MR {
                t.kc / MR
            } else {
                t.kc - (MR - 1) * (t.kc / MR)
            };
            for _ in 0..steps {
                let mut bv = [V::zero(); NV];
                for (j, v) in bv.iter_mut().enumerate() {
                    *v = V::load(b.add(j * V::LANES));
                    if COPY {
                        v.store(copy.add(j * V::LANES));
                        V::prefetch(ahead.wrapping_add(j * V::LANES).cast());
                    }
                }
                rows!(i in MR {
                    let av = V::splat(if PACKED {
                        a.add(i)
                    } else {
                        base[i / 3].offset((i % 3) as isize * t.a_row)
                    });
                    for (x, &bj) in acc[i].iter_mut().zip(&bv) {
                        *x = x.mul_add(av, bj);
                    }
                });
                b = b.wrapping_offset(t.b_k);
                if COPY {
                    copy = copy.add(NV * V::LANES);
                    ahead = ahead.wrapping_offset(t.b_k);
                }
                if PACKED {
                    a = a.add(MR);
                } else {
                    for p in &mut base {
                        *p = p.wrapping_offset(t.a_k);
                    }
                }
            }
            for j in 0..NV {
                V::prefetch(c.wrapping_add(j * V::LANES).cast());
            }
            c = c.wrapping_offset(t.c_row);
            for (lines, at_once) in next.iter_mut().zip(at_once) {
                for _ in 0..at_once.min(lines.runs) {
                    for byte in (0..lines.bytes).step_by(64) {
                        V::prefetch(lines.start.wrapping_add(byte));
                    }
                    lines.start = lines.start.wrapping_offset(lines.step);
                    lines.runs -= 1;
                }
            }
        }
        rows!(i in MR {
            let c = t.c.offset(i as isize * t.c_row);
            for (j, &x) in acc[i].iter().enumerate() {
                let c = c.add(j * V::LANES);
                let x = if t.accumulate { V::load(c).add(x) } else { x };
                x.store(c);
            }
        });
    }
}

/// Instantiates a `TileSet` constant from a vector type, the registers of a tile row and the heights.
macro_rules! tile_set {
    ($name:ident, $vector:ty, $nv:literal, $(#[$feature:meta],)? [$($mr:literal)*]) => {
        pub(crate) const $name: TileSet<<$vector as Vector>::Lane> = {
            $(#[$feature])?
            unsafe fn kernel<const MR: usize, const PACKED: bool, const COPY: bool>(
                t: &TileArgs<<$vector as Vector>::Lane>,
            ) {
                // SAFETY: same contract.
                unsafe { tile::<$vector, MR, $nv, PACKED, COPY>(t) }
            }
            TileSet {
                nr: <$vector as Vector>::LANES * $nv,
                packed: &[$(kernel::<$mr, true, false>),*],
                strided: &[$(kernel::<$mr, false, false>),*],
                copying: &[$(kernel::<$mr, true, true>),*],
            }
        };
    };
}

/// As [`tile_set`], of packed operands alone and two registers a row.
macro_rules! packed_set {
    ($name:ident, $vector:ty, $(#[$feature:meta],)? [$($mr:literal)*]) => {
        pub(in crate::library::gemm) const $name: $crate::library::gemm::tile::TileSet<<$vector as Vector>::Lane> = {
            use $crate::library::gemm::tile::{TileArgs, TileSet, tile};

            $(#[$feature])?
            unsafe fn kernel<const MR: usize>(t: &TileArgs<<$vector as Vector>::Lane>) {
                // SAFETY: same contract.
                unsafe { tile::<$vector, MR, 2, true, false>(t) }
            }
            TileSet {
                nr: <$vector as Vector>::LANES * 2,
                packed: &[$(kernel::<$mr>),*],
                strided: &[],
                copying: &[],
            }
        };
    };
}
pub(super) use packed_set;

tile_set!(F32_PLAIN, Lanes<f32, 4>, 2, [1 2 3 4 5 6]);
tile_set!(F64_PLAIN, Lanes<f64, 2>, 2, [1 2 3 4 5 6]);
tile_set!(I32_PLAIN, Lanes<i32, 4>, 2, [1 2 3 4]);
tile_set!(I64_PLAIN, Lanes<i64, 2>, 2, [1 2 3 4]);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{TileArgs, TileSet, Vector, tile};
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
                #[inline(always)]
                unsafe fn prefetch(p: *const u8) {
                    // SAFETY: a prefetch never faults.
                    unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
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

    tile_set!(F32_AVX512, F32x16, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
    tile_set!(F64_AVX512, F64x8, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
    tile_set!(I32_AVX512, I32x16, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], [1 2 3 4 5 6 7 8]);
    tile_set!(I64_AVX512, I64x8, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], [1 2 3 4 5 6 7 8]);
    tile_set!(F32_AVX2, F32x8, 2, #[target_feature(enable = "avx2,fma")], [1 2 3 4 5 6]);
    tile_set!(F64_AVX2, F64x4, 2, #[target_feature(enable = "avx2,fma")], [1 2 3 4 5 6]);
    tile_set!(I32_AVX2, I32x8, 2, #[target_feature(enable = "avx2,fma")], [1 2 3 4]);
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::*;
