//! What sorting asks of vectors of keys.

/// A key: an integer, so that equal keys are the same bits.
pub(super) trait Key: Copy + Ord + Send + Sync + 'static {
    const MAX: Self;
    /// The least one above, of one below [`Key::MAX`].
    fn next(self) -> Self;
}

macro_rules! keys {
    ($($t:ty)*) => {$(
        impl Key for $t {
            const MAX: $t = <$t>::MAX;
            #[inline(always)]
            fn next(self) -> $t {
                self + 1
            }
        }
    )*};
}
keys!(i32 i64);

/// The lanes that take the greater ones when lanes are compared over `distance`.
pub(super) const fn upper(distance: usize) -> u16 {
    match distance {
        1 => 0xaaaa,
        2 => 0xcccc,
        4 => 0xf0f0,
        _ => 0xff00,
    }
}

/// A bit of the lane's number and one of the register's that change places.
pub(super) trait Shuffle {
    /// Which bit of the lane's.
    const AT: usize;
    /// Bits of the lane's number that are turned in the second register.
    const TURNED: usize;
}

/// Keys in a register.
///
/// # Safety
/// For all methods: the processor has the instructions, and pointers are valid for what is said to be read or written there.
pub(super) trait Vector: Copy {
    type Key: Key;
    const LANES: usize;

    unsafe fn splat(key: Self::Key) -> Self;
    unsafe fn load(from: *const Self::Key) -> Self;
    /// The first `count` lanes, if any, or all; the others are [`Key::MAX`].
    unsafe fn load_some(from: *const Self::Key, count: isize) -> Self;
    unsafe fn store(self, to: *mut Self::Key);
    /// The first `count` lanes, if any, or all.
    unsafe fn store_some(self, to: *mut Self::Key, count: isize);
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    /// The less and the greater keys of each lane.
    #[inline(always)]
    unsafe fn ordered(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller's promise.
        unsafe { [self.min(other), self.max(other)] }
    }
    /// Registers of the lanes of both whose number lacks the bit, and of those that have it. Of the lanes of a result, those whose number
    /// has the bit are from `other`.
    unsafe fn swapped<S: Shuffle>(self, other: Self) -> [Self; 2];
    /// Compares each lane with one of `other`: that at `DISTANCE` from it, or with `MIRROR` the one that mirrors it among twice as many.
    /// Of two such lanes the lower one takes the less key, the upper one the greater.
    unsafe fn exchange<const MIRROR: bool, const DISTANCE: usize>(self, other: Self) -> Self;
    /// The lanes of both in turn: those of the lower halves, and those of the upper ones.
    unsafe fn interleaved(self, other: Self) -> [Self; 2];
    /// Writes the keys below `pivot` from `low` on, and the others up to `high`. Returns how many are below. All lanes may be written
    /// at both ends.
    unsafe fn split(self, pivot: Self, low: *mut Self::Key, high: *mut Self::Key) -> usize;

    /// As [`Vector::split`] of the first `count` keys at `from`, and writes no more than these.
    unsafe fn split_some(
        from: *const Self::Key,
        count: usize,
        pivot: Self,
        low: *mut Self::Key,
        high: *mut Self::Key,
    ) -> usize;
}
