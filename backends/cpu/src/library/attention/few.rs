//! Few queries: packing would cost more than the products, and keys and values are read where they lie.

use super::weigh::{Score, folded};
use crate::isa::{Isa, versions};
use crate::library::gemm::{Element, Stored, Uniform};
use crate::math::{bf16_to_f32, f16_to_f32};
use half::{bf16, f16};

/// An element that vector instructions widen.
pub(super) trait Read: Uniform + Element<Acc: Score, Out = Self> {
    /// Exact conversion.
    fn read(self) -> Self::Acc;
}

macro_rules! read {
    ($($t:ty, $value:ident => $read:expr;)*) => {$(
        impl Read for $t {
            #[inline(always)]
            fn read(self) -> Self::Acc {
                let $value = self;
                $read
            }
        }
    )*};
}
read! {
    f32, x => x;
    f64, x => x;
    f16, x => f16_to_f32(x.to_bits());
    bf16, x => bf16_to_f32(x.to_bits());
}

/// What computes few queries.
#[derive(Clone, Copy)]
pub(super) struct Few {
    /// Keys and values are read where they lie; else they are copied first, which changes no bit.
    pub(super) in_place: bool,
    pub(super) dots: DotsFn,
    pub(super) gather: GatherFn,
}

impl Few {
    pub(super) fn new<T: Read<Acc: Read>>(isa: Isa, in_place: bool) -> Few {
        let (dots, gather) = match in_place {
            true => (dots::<T>(isa), gather::<T>(isa)),
            false => (dots::<T::Acc>(isa), gather::<T::Acc>(isa)),
        };
        Few {
            in_place,
            dots,
            gather,
        }
    }
}

/// The products of some queries, which lie one after the other, with some keys.
pub(crate) struct Dots {
    pub(super) q: *const u8,
    pub(super) rows: usize,
    /// Keys, each without gaps, and the elements from one to the next.
    pub(super) k: (*const u8, isize),
    pub(super) keys: usize,
    pub(super) depth: usize,
    /// Scores, and the elements from one query's to the next one's.
    pub(super) scores: (*mut u8, usize),
}

/// The sums of some values with the weights of some queries.
pub(crate) struct Gather {
    /// Weights, and the elements from one query's to the next one's.
    pub(super) weights: (*const u8, usize),
    pub(super) rows: usize,
    /// Values, each without gaps, and the elements from one to the next.
    pub(super) v: (*const u8, isize),
    pub(super) keys: usize,
    pub(super) width: usize,
    /// Sums, one query's after the other's.
    pub(super) sums: *mut u8,
}

versions! {
    /// Products of few queries with keys.
    DotsLoop, dots, DotsFn(job: &Dots)
}

versions! {
    /// Sums of values for few queries.
    GatherLoop, gather, GatherFn(job: &Gather)
}

/// Lanes of a sum along the depth.
const LANES: usize = 16;

impl<T: Read> DotsLoop for T {
    #[inline(always)]
    unsafe fn run(job: &Dots) {
        // SAFETY: the caller vouches for the operands.
        unsafe {
            for key in 0..job.keys {
                let k = job.k.0.cast::<T>().offset(key as isize * job.k.1);
                let (k, k_rest) = std::slice::from_raw_parts(k, job.depth).as_chunks::<LANES>();
                for row in 0..job.rows {
                    let q = job.q.cast::<T::Acc>().add(row * job.depth);
                    let (q, q_rest) = std::slice::from_raw_parts(q, job.depth).as_chunks::<LANES>();
                    let mut sums = [T::Acc::ZERO; LANES];
                    for (q, k) in q.iter().zip(k) {
                        sums = added(sums, *q, k.map(T::read));
                    }
                    if !k_rest.is_empty() {
                        sums = added(sums, padded(q_rest, |q| q), padded(k_rest, T::read));
                    }
                    let sum = folded(sums, Score::plus);
                    *job.scores.0.cast::<T::Acc>().add(row * job.scores.1 + key) = sum;
                }
            }
        }
    }
}

/// The sums with a product more in each. They are values, as sums that a loop of few lanes reaches would lie in memory.
#[inline(always)]
fn added<A: Score>(sums: [A; LANES], q: [A; LANES], k: [A; LANES]) -> [A; LANES] {
    std::array::from_fn(|lane| sums[lane].plus(q[lane].times(k[lane])))
}

/// Some elements, then zeros: these add 0, which changes no sum, as one that began with 0 is never -0.
#[inline(always)]
fn padded<T: Copy, A: Score>(some: &[T], read: impl Fn(T) -> A) -> [A; LANES] {
    let mut all = [A::ZERO; LANES];
    for (to, &from) in all.iter_mut().zip(some) {
        *to = read(from);
    }
    all
}

impl<T: Read> GatherLoop for T {
    #[inline(always)]
    unsafe fn run(job: &Gather) {
        let mut from = 0;
        // SAFETY: the caller vouches for the operands.
        unsafe {
            while from + 64 <= job.width {
                columns::<T, 64>(job, from);
                from += 64;
            }
            while from + 16 <= job.width {
                columns::<T, 16>(job, from);
                from += 16;
            }
            for column in from..job.width {
                columns::<T, 1>(job, column);
            }
        }
    }
}

/// Columns from `from` on.
#[inline(always)]
unsafe fn columns<T: Read, const N: usize>(job: &Gather, from: usize) {
    // SAFETY: the caller vouches for the operands.
    unsafe {
        for row in 0..job.rows {
            let weights = job.weights.0.cast::<T::Acc>().add(row * job.weights.1);
            let mut sums = [T::Acc::ZERO; N];
            for key in 0..job.keys {
                let weight = *weights.add(key);
                let v = job.v.0.cast::<T>().offset(key as isize * job.v.1).add(from);
                for (sum, &v) in sums.iter_mut().zip(&*v.cast::<[T; N]>()) {
                    *sum = sum.plus(weight.times(v.read()));
                }
            }
            let to = job.sums.cast::<T::Acc>().add(row * job.width + from);
            to.cast::<[T::Acc; N]>().write_unaligned(sums);
        }
    }
}
