//! What the reduction of a chain gathers on its way.

use super::vector::Vector;
use crate::loops::num::Num;
use crate::loops::reduce::Best;

/// The key of NaN, which is above everything.
const NAN: i32 = i32::MAX;
/// Vectors that the greatest is gathered in.
pub(super) const SIDES: usize = 4;

/// What the reduction of a chain has gathered: the totals of a sum and its lanes, or the greatest.
///
/// A chunk's sum waits for itself, but not for that of the chunk before, so the processor has several at work; chunks walked side by
/// side take one and a half times as long from memory, and three times from the second cache.
pub(super) struct Gathered<X: Vector> {
    pub(super) totals: X,
    pub(super) lanes: X,
    pub(super) greatest: [X; SIDES],
    pub(super) nans: X::Nans,
}

impl<X: Vector> Gathered<X> {
    /// Nothing.
    ///
    /// # Safety
    /// The processor has the instructions.
    #[inline(always)]
    pub(super) unsafe fn new() -> Gathered<X> {
        // SAFETY: the caller's promise.
        unsafe {
            Gathered {
                totals: X::splat(0.0),
                lanes: X::splat(0.0),
                greatest: [X::splat(f32::NEG_INFINITY); SIDES],
                nans: X::no_nans(),
            }
        }
    }

    /// Goes on with the totals of a state.
    ///
    /// # Safety
    /// The state is that of a sum of f32.
    #[inline(always)]
    pub(super) unsafe fn resume(&mut self, state: *const u8) {
        // SAFETY: it begins with its totals.
        self.totals = unsafe { X::load(state.cast()) };
    }

    /// Adds the lanes of a chunk to the totals.
    ///
    /// # Safety
    /// The processor has the instructions.
    #[inline(always)]
    pub(super) unsafe fn flush(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.totals = self.totals.add(self.lanes);
            self.lanes = X::splat(0.0);
        }
    }

    /// Writes the totals to a state.
    ///
    /// # Safety
    /// `to` is a state.
    #[inline(always)]
    pub(super) unsafe fn put_sum(&self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.totals.store(to.cast()) };
    }

    /// The key of the greatest.
    ///
    /// # Safety
    /// The processor has the instructions.
    #[inline(always)]
    pub(super) unsafe fn key(&self) -> i32 {
        let [a, b, c, d] = self.greatest;
        // SAFETY: the caller's promise.
        unsafe {
            match X::any(self.nans) {
                true => NAN,
                false => a.greater(b).greater(c.greater(d)).greatest_key(),
            }
        }
    }

    /// Takes the greatest into a state.
    ///
    /// # Safety
    /// `to` is a state.
    #[inline(always)]
    pub(super) unsafe fn put_greatest(&self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let best = &mut *to.cast::<Best>();
            best.key = Ord::max(best.key, i64::from(self.key()));
        }
    }

    /// Takes the place of the greatest of `n` elements, the first of which stands at place `first`, into a state.
    ///
    /// # Safety
    /// `to` is a state; `x` has the elements, and there is one at least.
    #[inline(always)]
    pub(super) unsafe fn put_place(&self, to: *mut u8, (x, n): (*const f32, usize), first: i64) {
        // SAFETY: the caller's promise.
        unsafe {
            let key = self.key();
            let best = &mut *to.cast::<Best>();
            if best.index < 0 || i64::from(key) > best.key {
                *best = Best {
                    key: i64::from(key),
                    index: first + place(x, n, key) as i64,
                };
            }
        }
    }
}

/// The first of `n` elements that has the key.
///
/// # Safety
/// `x` has the elements.
#[inline(always)]
unsafe fn place(x: *const f32, n: usize, key: i32) -> usize {
    let bits = f32::from_key(key).to_bits();
    // SAFETY: the caller's promise.
    unsafe {
        match key {
            NAN => find(n, |i| (*x.add(i)).is_nan()),
            _ => find(n, |i| (*x.add(i)).to_bits() == bits),
        }
    }
}

/// The first of `n` for which `is` holds, or the last one.
#[inline(always)]
fn find(n: usize, is: impl Fn(usize) -> bool) -> usize {
    /// Elements that are compared before any is looked at.
    const STRETCH: usize = 64;
    let mut at = 0;
    while n - at >= STRETCH && !(0..STRETCH).fold(false, |hit, i| hit | is(at + i)) {
        at += STRETCH;
    }
    while at + 1 < n && !is(at) {
        at += 1;
    }
    at
}
