//! Registers of sums, as micro-kernels use them.

/// A vector register of `LANES` accumulator elements.
///
/// Every method is inlined into a function that enables the instruction set; calling one elsewhere is undefined.
pub(crate) trait Vector: Copy {
    /// Type of one lane.
    type Lane: Copy + 'static;
    /// Lanes of one register.
    const LANES: usize;
    /// Sums may begin with something else than zero.
    const STARTS: bool = false;
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
}

/// `x + a * b`, rounded once, on processors without such an instruction: the C library's function would be called for each lane.
#[inline(always)]
fn fused(x: f32, a: f32, b: f32) -> f32 {
    sum_to_odd(x, a, b) as f32
}

/// `x + a * b`, so that rounding it again gives what one rounding gives. The product is exact in f64, and its sum is rounded to odd
/// there (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008).
#[inline(always)]
pub(super) fn sum_to_odd(x: f32, a: f32, b: f32) -> f64 {
    let (x, product) = (f64::from(x), f64::from(a) * f64::from(b));
    let sum = x + product;
    // What rounding has left out.
    let part = sum - x;
    let rest = (x - (sum - part)) + (product - part);
    let bits = sum.to_bits();
    let away = (rest > 0.0) == (sum > 0.0);
    let odd = if away { bits | 1 } else { bits.wrapping_sub(1) | 1 };
    let exact = rest == 0.0 || bits & 1 == 1 || !sum.is_finite();
    f64::from_bits(if exact { bits } else { odd })
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
