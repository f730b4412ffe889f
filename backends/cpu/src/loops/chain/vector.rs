//! The vectors that chains are written over.

/// 16 numbers of f32 in one or two registers, of which every implementation computes the same bits.
///
/// Methods are safe to call where the processor has the instructions of the implementation. Pointers are valid for 16 numbers, or
/// for those of the mask.
pub(super) trait Vector: Copy {
    /// Which lanes count.
    type Mask: Copy;
    /// Lanes in which a NaN was seen.
    type Nans: Copy;

    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// The other lanes are 0.
    unsafe fn load_some(mask: Self::Mask, from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn store_some(self, mask: Self::Mask, to: *mut f32);
    unsafe fn add(self, b: Self) -> Self;
    /// The other lanes stay.
    unsafe fn add_some(self, mask: Self::Mask, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    /// `self * b + c`, rounded once.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// `c - self * b`, rounded once.
    unsafe fn fnma(self, b: Self, c: Self) -> Self;
    /// `self < b ? self : b`.
    unsafe fn min(self, b: Self) -> Self;
    /// `self > b ? self : b`.
    unsafe fn max(self, b: Self) -> Self;
    /// Each `p * 2^n`, where `rounded` is n + 1.5 * 2^23, of the numbers that `exp` has.
    unsafe fn scale<const V: usize>(p: &[Self; V], n: &[Self; V], rounded: &[Self; V]) -> [Self; V];
    /// Each a / b, correctly rounded. `reciprocal` is 1 / b correctly rounded with |b| in 2^-24..=2^24, or 0.
    unsafe fn divide<const V: usize>(hand: &mut [Self; V], b: Self, reciprocal: f32);
    /// The greater of two that are not NaN, -0 below +0.
    unsafe fn greater(self, b: Self) -> Self;
    unsafe fn greater_some(self, mask: Self::Mask, b: Self) -> Self;
    /// The key of the greatest lane, as `Num::key` has it; none is NaN.
    unsafe fn greatest_key(self) -> i32;
    /// The mask of the first lanes.
    unsafe fn first(lanes: usize) -> Self::Mask;
    unsafe fn all() -> Self::Mask;
    unsafe fn no_nans() -> Self::Nans;
    unsafe fn see(nans: Self::Nans, a: Self, b: Self) -> Self::Nans;
    unsafe fn see_some(nans: Self::Nans, mask: Self::Mask, a: Self) -> Self::Nans;
    unsafe fn any(nans: Self::Nans) -> bool;
}
