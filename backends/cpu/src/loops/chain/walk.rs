//! The loops of chains, over vectors of any instruction set.

use super::avx2::Avx2;
use super::avx512::Avx512;
use super::gathered::{Gathered, SIDES};
use super::vector::Vector;
use super::{Chain, Code, Fetch};
use crate::isa::Isa;
use crate::loops::LANES;
use crate::loops::num::Num;
use crate::loops::reduce::CHUNK;
use crate::math::EXP32;
use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};

/// Vectors of a group with AVX-512.
const GROUP: usize = 8;
/// With AVX2, where they take twice as many of half as many registers.
const NARROW_GROUP: usize = 4;
/// The same where each needs others beside it.
const HEAVY_NARROW_GROUP: usize = 2;
/// The same of sums that memory alone holds up: the fewer lines are asked for at once, the less loads wait behind them.
const FEW: usize = 2;
/// Elements of a vector.
const WIDTH: usize = 16;

/// What the links share.
#[derive(Clone, Copy)]
struct Habits<'a> {
    fetches: &'a [Fetch],
    /// Of the single value that the chain divides by; 0 where it must not be used.
    reciprocal: f32,
}

/// One link for `V` vectors in hand; `mask` says which lanes of a lone vector count.
///
/// # Safety
/// As [`Chain::run`].
#[inline(always)]
unsafe fn link<X: Vector, const CODE: u8, const V: usize>(
    base: *mut u8,
    first: usize,
    mask: X::Mask,
    habits: Habits<'_>,
    gathered: &mut Gathered<X>,
    hand: &mut [X; V],
) {
    const LOAD: u8 = Code::Load as u8;
    const STORE: u8 = Code::Store as u8;
    const SUB_SINGLE: u8 = Code::SubSingle as u8;
    const DIV_SINGLE: u8 = Code::DivSingle as u8;
    const MUL_SINGLE: u8 = Code::MulSingle as u8;
    const SQUARE: u8 = Code::Square as u8;
    const MUL: u8 = Code::Mul as u8;
    const ADD: u8 = Code::Add as u8;
    const EXP: u8 = Code::Exp as u8;
    const SUM: u8 = Code::Sum as u8;
    // SAFETY: the caller's promise.
    unsafe {
        let block = base.wrapping_add(first * 4);
        let at = |i: usize| block.wrapping_add(i * 64).cast::<f32>();
        macro_rules! read {
            ($i:expr) => {
                if V == 1 {
                    X::load_some(mask, at($i))
                } else {
                    X::load(at($i))
                }
            };
        }
        macro_rules! each {
            ($i:ident => $go:expr) => {
                for $i in 0..V {
                    hand[$i] = $go;
                }
            };
        }
        match CODE {
            LOAD => each!(i => read!(i)),
            STORE => {
                for (i, &x) in hand.iter().enumerate() {
                    if V == 1 {
                        x.store_some(mask, at(i));
                    } else {
                        x.store(at(i));
                    }
                }
            }
            SUB_SINGLE => {
                let b = X::splat(*base.cast::<f32>());
                each!(i => hand[i].sub(b));
            }
            DIV_SINGLE => X::divide(hand, X::splat(*base.cast::<f32>()), habits.reciprocal),
            MUL_SINGLE => {
                let b = X::splat(*base.cast::<f32>());
                each!(i => hand[i].mul(b));
            }
            SQUARE => each!(i => hand[i].mul(hand[i])),
            MUL => each!(i => hand[i].mul(read!(i))),
            ADD => each!(i => hand[i].add(read!(i))),
            EXP => exp(hand),
            SUM => {
                let lanes = &mut gathered.lanes;
                for &x in hand.iter() {
                    *lanes = if V == 1 {
                        lanes.add_some(mask, x)
                    } else {
                        lanes.add(x)
                    };
                }
            }
            _ => extreme::<X, V>(hand, mask, gathered),
        }
    }
}

/// Whether a core takes less time for the links than memory for their elements.
const fn is_light(codes: &[Code]) -> bool {
    let mut rest = codes;
    while let [code, others @ ..] = rest {
        if matches!(code, Code::Exp) {
            return false;
        }
        rest = others;
    }
    true
}

/// A module with the function `run` for each pattern.
macro_rules! versions {
    ($($(#[$doc:meta])* $name:ident: [$($code:ident),*];)*) => {
        $(
            #[expect(non_snake_case, reason = "named as the pattern")]
            pub(super) mod $name {
                use super::{
                    Avx2, Avx512, CHUNK, Chain, Code, FEW, Fetch, GROUP, Gathered, HEAVY_NARROW_GROUP, Habits, Isa, NARROW_GROUP,
                    Vector, WIDTH, ask, is_light, link, reciprocal,
                };

                const CODES: &[Code] = &[$(Code::$code),*];
                const LINKS: usize = CODES.len();
                const SUMS: bool = matches!(CODES[LINKS - 1], Code::Sum);
                const LIGHT: bool = (SUMS || PLACE) && is_light(CODES);
                const GREATEST: bool = matches!(CODES[LINKS - 1], Code::Greatest);
                const PLACE: bool = matches!(CODES[LINKS - 1], Code::GreatestPlace);
                const NARROW: usize = if is_light(CODES) { NARROW_GROUP } else { HEAVY_NARROW_GROUP };
                const _: () = assert!(LINKS <= super::super::MOST_LINKS);

                #[inline(always)]
                unsafe fn group<X: Vector, const V: usize>(
                    bases: &[*mut u8; LINKS],
                    first: usize,
                    mask: X::Mask,
                    habits: Habits<'_>,
                    gathered: &mut Gathered<X>,
                ) {
                    ask::<V>(habits.fetches, first);
                    // SAFETY: the caller's promise.
                    let mut hand = unsafe { [X::splat(0.0); V] };
                    let mut bases = bases.iter();
                    $(
                        if let Some(&base) = bases.next() {
                            // SAFETY: the caller's promise.
                            unsafe { link::<X, { Code::$code as u8 }, V>(base, first, mask, habits, gathered, &mut hand) };
                        }
                    )*
                }

                /// # Safety
                /// As [`Chain::run`]; the machine has the chain's instruction set, which is not the baseline.
                pub(in super::super) unsafe fn run(chain: &Chain<'_>, fetches: &[Fetch]) {
                    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
                    unsafe fn avx2(chain: &Chain<'_>, fetches: &[Fetch]) {
                        // SAFETY: the caller's promise.
                        unsafe { whole::<Avx2, NARROW>(chain, fetches) }
                    }
                    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
                    unsafe fn avx512(chain: &Chain<'_>, fetches: &[Fetch]) {
                        // SAFETY: the caller's promise.
                        unsafe { whole::<Avx512, GROUP>(chain, fetches) }
                    }
                    // SAFETY: the caller's promise.
                    unsafe {
                        match chain.isa {
                            Isa::Baseline | Isa::Avx2 => avx2(chain, fetches),
                            Isa::Avx512 => avx512(chain, fetches),
                        }
                    }
                }

                /// # Safety
                /// As [`Chain::run`].
                #[inline(always)]
                unsafe fn whole<X: Vector, const GROUP: usize>(chain: &Chain<'_>, fetches: &[Fetch]) {
                    let n = chain.n;
                    let Some(bases) = chain.places.first_chunk::<LINKS>() else { return };
                    let divisor = CODES.iter().zip(bases).find(|(code, _)| matches!(code, Code::DivSingle));
                    let habits = Habits {
                        fetches,
                        // SAFETY: the link's value is a single one.
                        reciprocal: divisor.map_or(0.0, |(_, base)| unsafe { reciprocal(*base.cast::<f32>()) }),
                    };
                    // SAFETY: the caller's promise.
                    unsafe {
                        let mut gathered = Gathered::<X>::new();
                        if SUMS {
                            gathered.resume(bases[LINKS - 1]);
                        }
                        walk::<X, GROUP>(bases, n, habits, &mut gathered);
                        if SUMS {
                            gathered.put_sum(bases[LINKS - 1]);
                        }
                        if GREATEST {
                            gathered.put_greatest(bases[LINKS - 1]);
                        }
                        if PLACE && n > 0 {
                            let row = (bases[0].cast::<f32>().cast_const(), n);
                            gathered.put_place(bases[LINKS - 1], row, chain.first);
                        }
                    }
                }

                /// All elements.
                ///
                /// # Safety
                /// As [`Chain::run`].
                #[inline(always)]
                unsafe fn walk<X: Vector, const GROUP: usize>(
                    bases: &[*mut u8; LINKS],
                    n: usize,
                    habits: Habits<'_>,
                    gathered: &mut Gathered<X>,
                ) {
                    let mut at = 0;
                    // SAFETY: the groups cover n elements; the caller's promise for the rest.
                    unsafe {
                        let all = X::all();
                        while LIGHT && n - at >= CHUNK {
                            for _ in 0..CHUNK / (FEW * WIDTH) {
                                group::<X, FEW>(bases, at, all, habits, gathered);
                                at += FEW * WIDTH;
                            }
                            gathered.flush();
                        }
                        while n - at >= GROUP * WIDTH {
                            group::<X, GROUP>(bases, at, all, habits, gathered);
                            at += GROUP * WIDTH;
                            if SUMS && at % CHUNK == 0 {
                                gathered.flush();
                            }
                        }
                        if GROUP > 4 && n - at >= 4 * WIDTH {
                            group::<X, 4>(bases, at, all, habits, gathered);
                            at += 4 * WIDTH;
                        }
                        while at < n {
                            let mask = if n - at < WIDTH { X::first(n - at) } else { all };
                            group::<X, 1>(bases, at, mask, habits, gathered);
                            at += WIDTH;
                        }
                        if SUMS {
                            gathered.flush();
                        }
                    }
                }
            }
        )*
    };
}
with_patterns!(versions);

/// # Safety
/// The processor has the instructions.
#[inline(always)]
unsafe fn extreme<X: Vector, const V: usize>(hand: &[X; V], mask: X::Mask, gathered: &mut Gathered<X>) {
    // SAFETY: the caller's promise.
    unsafe {
        if V == 1 {
            gathered.nans = X::see_some(gathered.nans, mask, hand[0]);
            gathered.greatest[0] = gathered.greatest[0].greater_some(mask, hand[0]);
            return;
        }
        for (i, pair) in hand.chunks_exact(2).enumerate() {
            let best = &mut gathered.greatest[i % SIDES];
            gathered.nans = X::see(gathered.nans, pair[0], pair[1]);
            *best = best.greater(pair[0].greater(pair[1]));
        }
    }
}

/// 1 / b where [`Vector::divide`] may use it, 0 where not.
fn reciprocal(b: f32) -> f32 {
    const LEAST: f32 = 1.0 / 16_777_216.0;
    let size = Num::abs(b);
    if (LEAST..=16_777_216.0).contains(&size) {
        1.0 / b
    } else {
        0.0
    }
}

/// The bits of `math::exp32`. Each step is taken for all vectors, so that none waits for its own last.
///
/// # Safety
/// The processor has the instructions.
#[inline(always)]
unsafe fn exp<X: Vector, const V: usize>(hand: &mut [X; V]) {
    let mut rounded = *hand;
    let mut n = *hand;
    let mut p = *hand;
    macro_rules! each {
        ($to:ident, $i:ident => $go:expr) => {
            for $i in 0..V {
                $to[$i] = $go;
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        let set = |c: f32| X::splat(c);
        each!(hand, i => set(EXP32.highest).min(hand[i]));
        each!(hand, i => set(EXP32.lowest).max(hand[i]));
        each!(rounded, i => hand[i].fma(set(std::f32::consts::LOG2_E), set(EXP32.magic)));
        each!(n, i => rounded[i].sub(set(EXP32.magic)));
        each!(hand, i => n[i].fnma(set(EXP32.ln2_high), hand[i]));
        each!(hand, i => n[i].fnma(set(EXP32.ln2_low), hand[i]));
        let [c0, c1, c2, c3, c4] = EXP32.poly;
        each!(p, i => set(c4).fma(hand[i], set(c3)));
        each!(p, i => p[i].fma(hand[i], set(c2)));
        each!(p, i => p[i].fma(hand[i], set(c1)));
        each!(p, i => p[i].fma(hand[i], set(c0)));
        each!(p, i => p[i].fma(hand[i], set(1.0)));
        each!(p, i => p[i].fma(hand[i], set(1.0)));
        *hand = X::scale(&p, &n, &rounded);
    }
}

/// Asks for as many lines as the group that begins at element `first` has vectors, each where it would stand in an f32 row.
#[inline(always)]
fn ask<const V: usize>(fetches: &[Fetch], first: usize) {
    for fetch in fetches {
        if first / WIDTH >= fetch.lines {
            continue;
        }
        let from = fetch.from.wrapping_add(first * 4);
        for i in 0..V {
            let at = from.wrapping_add(i * 64).cast();
            // SAFETY: a prefetch never faults.
            unsafe {
                if fetch.written {
                    _mm_prefetch::<_MM_HINT_ET0>(at);
                } else {
                    _mm_prefetch::<_MM_HINT_T0>(at);
                }
            }
        }
    }
}

const _: () = assert!(LANES == WIDTH && CHUNK == 2 * GROUP * WIDTH);
