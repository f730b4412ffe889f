//! From scores to weights.

use crate::isa::versions;
use crate::library::gemm::Element;
use crate::math::{exp2_of_product, exp64};

/// What scores are computed in.
pub(crate) trait Score: Element<Acc = Self, Out = Self> {
    const NOTHING: Self;
    const ONE: Self;
    /// What natural exponents are multiplied by for `power`.
    const UNIT: Self;
    fn from_scalar(bits: u64) -> Self;
    fn greater(self, other: Self) -> bool;
    fn equals(self, other: Self) -> bool;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    /// The power whose exponent is the product with `slope`, which is not above 0.
    fn power(self, slope: Self) -> Self;
}

macro_rules! score {
    ($t:ty, $bits:ty, $unit:expr, $power:expr) => {
        impl Score for $t {
            const NOTHING: $t = <$t>::NEG_INFINITY;
            const ONE: $t = 1.0;
            const UNIT: $t = $unit;
            fn from_scalar(bits: u64) -> $t {
                <$t>::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn greater(self, other: $t) -> bool {
                self > other
            }
            #[inline(always)]
            fn equals(self, other: $t) -> bool {
                self == other
            }
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self - other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn over(self, other: $t) -> $t {
                self / other
            }
            #[inline(always)]
            fn power(self, slope: $t) -> $t {
                $power(self, slope)
            }
        }
    };
}
score!(f32, u32, std::f32::consts::LOG2_E, exp2_of_product);
score!(f64, u64, 1.0, |x: f64, slope| exp64(x * slope));

/// A row of scores that become weights.
pub(crate) struct Row {
    /// Room for whole lanes.
    pub(super) scores: *mut u8,
    pub(super) len: usize,
    /// Keys that the query sees; the others weigh nothing.
    pub(super) visible: usize,
    pub(super) scale: *const u8,
    /// First element, step, and whether it is added.
    pub(super) mask: Option<(*const u8, isize, bool)>,
    /// The peak of the row so far, and the sum of its weights relative to it.
    pub(super) state: *mut u8,
    /// Where to put what earlier weights are to be multiplied by.
    pub(super) factor: *mut u8,
}

versions! {
    /// Weights of a row of scores.
    WeighLoop, weigh, WeighFn(row: &Row)
}

versions! {
    /// `sums * factor + part`, row by row.
    JoinLoop, join, JoinFn(sums: *mut u8, part: *const u8, factors: *const u8, rows: usize, width: usize)
}

/// Lanes of a running maximum or sum.
pub(super) const LANES: usize = 32;

/// All lanes in one, half by half.
#[inline(always)]
pub(super) fn folded<A: Copy, const N: usize>(mut lanes: [A; N], join: impl Fn(A, A) -> A) -> A {
    let mut width = N / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = join(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

pub(super) struct Weigh<A>(A);

impl<A: Score> WeighLoop for Weigh<A> {
    #[inline(always)]
    unsafe fn run(row: &Row) {
        // SAFETY: the caller vouches for the row's memory.
        unsafe {
            let lanes = row.visible.next_multiple_of(LANES);
            let scores = std::slice::from_raw_parts_mut(row.scores.cast::<A>(), row.len.max(lanes));
            let (visible, hidden) = scores.split_at_mut(row.visible);
            let scale = *row.scale.cast::<A>();
            let mut slope = A::UNIT;
            match row.mask {
                // The greatest product is the greatest score too.
                None if scale.greater(A::ZERO) && !scale.greater(A::ONE) => slope = scale.times(A::UNIT),
                None => visible.iter_mut().for_each(|score| *score = score.times(scale)),
                Some((mask, step, true)) => {
                    let mask = mask.cast::<A>();
                    for (j, score) in visible.iter_mut().enumerate() {
                        *score = score.times(scale).plus(*mask.offset(j as isize * step));
                    }
                }
                Some((mask, step, false)) => {
                    for (j, score) in visible.iter_mut().enumerate() {
                        let seen = *mask.offset(j as isize * step) != 0;
                        *score = if seen { score.times(scale) } else { A::NOTHING };
                    }
                }
            }
            let (ragged, beyond) = hidden.split_at_mut(lanes - row.visible);
            ragged.fill(A::NOTHING);
            beyond.fill(A::ZERO);
            let (scores, _) = scores[..lanes].as_chunks_mut::<LANES>();
            let state = row.state.cast::<A>();
            // A NaN is passed over here, and makes the sum NaN.
            let before = *state;
            let mut peaks = [before; LANES];
            for scores in &*scores {
                for (peak, &score) in peaks.iter_mut().zip(scores) {
                    *peak = if score.greater(*peak) { score } else { *peak };
                }
            }
            let peak = folded(peaks, |a, b| if b.greater(a) { b } else { a });
            let base = if peak.greater(A::NOTHING) { peak } else { A::ZERO };
            let mut sums = [A::ZERO; LANES];
            for scores in scores {
                for (sum, score) in sums.iter_mut().zip(scores) {
                    *score = score.minus(base).power(slope);
                    *sum = sum.plus(*score);
                }
            }
            let sum = folded(sums, A::plus);
            // Nothing was summed as long as the peak was -inf, but for NaN.
            let factor = match before.greater(A::NOTHING) {
                true => before.minus(peak).power(slope),
                false => A::ONE,
            };
            *row.factor.cast::<A>() = factor;
            *state = peak;
            *state.add(1) = (*state.add(1)).times(factor).plus(sum);
        }
    }
}

pub(super) struct Join<A>(A);

impl<A: Score> JoinLoop for Join<A> {
    #[inline(always)]
    unsafe fn run(sums: *mut u8, part: *const u8, factors: *const u8, rows: usize, width: usize) {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            for row in 0..rows {
                let factor = *factors.cast::<A>().add(row);
                let sums = std::slice::from_raw_parts_mut(sums.cast::<A>().add(row * width), width);
                let part = std::slice::from_raw_parts(part.cast::<A>().add(row * width), width);
                for (sum, &part) in sums.iter_mut().zip(part) {
                    *sum = sum.times(factor).plus(part);
                }
            }
        }
    }
}
