//! Micro-kernels: one `MR x NR` tile of C held in registers while k runs.

/// A vector register of `LANES` accumulator elements.
///
/// Every method is inlined into a function that enables the instruction set; calling one elsewhere is undefined.
pub(crate) trait Vector: Copy {
    /// Type of one lane.
    type Lane: Copy + 'static;
    /// Lanes of one register.
    const LANES: usize;
    /// All lanes zero.
    unsafe fn zero() -> Self;
    /// All lanes `*p`.
    unsafe fn splat(p: *const Self::Lane) -> Self;
    /// `LANES` elements from `p`, of any alignment.
    unsafe fn load(p: *const Self::Lane) -> Self;
    /// Writes `LANES` elements to `p`, of any alignment.
    unsafe fn store(self, p: *mut Self::Lane);
    /// `self + a * b`, rounded once.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// `self + a`.
    unsafe fn add(self, a: Self) -> Self;
    /// Brings the line of `p` near; `p` may be any address.
    unsafe fn prefetch(p: *const u8);
}

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
unsafe fn tile<V: Vector, const MR: usize, const NV: usize, const PACKED: bool, const COPY: bool>(
    t: &TileArgs<V::Lane>,
) {
    // SAFETY: the caller vouches for a full tile behind each pointer and for the instruction set.
    unsafe {
        let mut acc = [[V::zero(); NV]; MR];
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

/// `x + a * b`, rounded once, on processors without such an instruction: the C library's function would be called for each lane.
/// The product is exact in f64. Its sum is rounded to odd there, so that rounding it again gives what one rounding gives (Boldo and
/// Melquiond, Emulation of FMA and correctly rounded sums, 2008).
#[inline(always)]
fn fused(x: f32, a: f32, b: f32) -> f32 {
    let (x, product) = (f64::from(x), f64::from(a) * f64::from(b));
    let sum = x + product;
    // What rounding has left out.
    let part = sum - x;
    let rest = (x - (sum - part)) + (product - part);
    let bits = sum.to_bits();
    let away = (rest > 0.0) == (sum > 0.0);
    let odd = if away { bits | 1 } else { bits.wrapping_sub(1) | 1 };
    let exact = rest == 0.0 || bits & 1 == 1 || !sum.is_finite();
    f64::from_bits(if exact { bits } else { odd }) as f32
}

/// Lanes without named instructions: what the compiler makes of a loop over an array.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<S, const N: usize>(pub(crate) [S; N]);

/// Two registers as one of twice the lanes, so that sums across lanes run in the order of wider registers.
#[derive(Clone, Copy)]
pub(crate) struct Pair<V>(pub(crate) V, pub(crate) V);

impl<V: Vector> Vector for Pair<V> {
    type Lane = V::Lane;
    const LANES: usize = 2 * V::LANES;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the trait's contract.
        unsafe { Self(V::zero(), V::zero()) }
    }
    #[inline(always)]
    unsafe fn splat(p: *const V::Lane) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Self(V::splat(p), V::splat(p)) }
    }
    #[inline(always)]
    unsafe fn load(p: *const V::Lane) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Self(V::load(p), V::load(p.add(V::LANES))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut V::Lane) {
        // SAFETY: the trait's contract.
        unsafe {
            self.0.store(p);
            self.1.store(p.add(V::LANES));
        }
    }
    #[inline(always)]
    unsafe fn mul_add(self, a: Self, b: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Self(self.0.mul_add(a.0, b.0), self.1.mul_add(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn add(self, a: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Self(self.0.add(a.0), self.1.add(a.1)) }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        // SAFETY: the trait's contract.
        unsafe { V::prefetch(p) }
    }
}

macro_rules! plain_vector {
    ($lane:ty, $zero:literal, $mul_add:expr, $add:expr) => {
        impl<const N: usize> Vector for Lanes<$lane, N> {
            type Lane = $lane;
            const LANES: usize = N;
            #[inline(always)]
            unsafe fn zero() -> Self {
                Self([$zero; N])
            }
            #[inline(always)]
            unsafe fn splat(p: *const $lane) -> Self {
                // SAFETY: the caller's contract.
                Self([unsafe { *p }; N])
            }
            #[inline(always)]
            unsafe fn load(p: *const $lane) -> Self {
                // SAFETY: the caller's contract.
                Self(unsafe { p.cast::<[$lane; N]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $lane) {
                // SAFETY: the caller's contract.
                unsafe { p.cast::<[$lane; N]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn mul_add(mut self, a: Self, b: Self) -> Self {
                for ((x, a), b) in self.0.iter_mut().zip(a.0).zip(b.0) {
                    *x = $mul_add(*x, a, b);
                }
                self
            }
            #[inline(always)]
            unsafe fn add(mut self, a: Self) -> Self {
                for (x, a) in self.0.iter_mut().zip(a.0) {
                    *x = $add(*x, a);
                }
                self
            }
            #[inline(always)]
            unsafe fn prefetch(_: *const u8) {}
        }
    };
}
plain_vector!(f32, 0.0, fused, |x: f32, a: f32| x + a);
plain_vector!(
    f64,
    0.0,
    |x: f64, a: f64, b: f64| a.mul_add(b, x),
    |x: f64, a: f64| x + a
);
plain_vector!(
    i32,
    0,
    |x: i32, a: i32, b: i32| x.wrapping_add(a.wrapping_mul(b)),
    i32::wrapping_add
);
plain_vector!(
    i64,
    0,
    |x: i64, a: i64, b: i64| x.wrapping_add(a.wrapping_mul(b)),
    i64::wrapping_add
);

tile_set!(F32_PLAIN, Lanes<f32, 4>, 2, [1 2 3 4 5 6]);
tile_set!(F64_PLAIN, Lanes<f64, 2>, 2, [1 2 3 4 5 6]);
tile_set!(I32_PLAIN, Lanes<i32, 4>, 2, [1 2 3 4]);
tile_set!(I64_PLAIN, Lanes<i64, 2>, 2, [1 2 3 4]);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{TileArgs, TileSet, Vector, tile};
    use std::arch::x86_64::*;

    macro_rules! x86_vector {
        ($name:ident, $register:ty, $lane:ty, $lanes:literal, $load:expr, $store:expr, $zero:expr, $splat:expr, $mul_add:expr, $add:expr) => {
            /// One register.
            #[derive(Clone, Copy)]
            pub(crate) struct $name(pub(crate) $register);
            // The blocks' contract: the instruction set is on and the pointers are good, as the trait says.
            impl Vector for $name {
                type Lane = $lane;
                const LANES: usize = $lanes;
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

#[cfg(test)]
mod tests {
    #[test]
    fn products_are_fused_without_such_an_instruction() {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        let special = [
            0.0,
            -0.0,
            1.0,
            f32::MIN_POSITIVE,
            1e-45,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        for round in 0..2_000_000 {
            // Exponents that are near each other, so that terms meet at the place where f32 rounds.
            let mut number = || match round % 4 {
                0 => f32::from_bits(next()),
                1 if next().is_multiple_of(3) => special[next() as usize % special.len()],
                _ => f32::from_bits(next() & 0x80ff_ffff | (110 + next() % 30) << 23),
            };
            let (a, b) = (number(), number());
            // A product that is nearly taken away, and one that lies half way between two numbers.
            let x = match round % 5 {
                0 => -(a * b),
                1 => a * b * 16_777_216.0,
                _ => number(),
            };
            let (found, wanted) = (super::fused(x, a, b), a.mul_add(b, x));
            let same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
            assert!(same, "{x:e} + {a:e} * {b:e} is {wanted:e}, not {found:e}");
        }
    }
}
