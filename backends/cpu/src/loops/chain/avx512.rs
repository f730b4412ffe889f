//! Chains with AVX-512: eight vectors in hand.

use super::{Chain, Code, Fetch};
use crate::loops::LANES;
use crate::loops::num::Num;
use crate::loops::reduce::{Best, CHUNK};
use crate::math::EXP32;
use std::arch::x86_64::*;

/// Vectors of a group.
pub(super) const GROUP: usize = 8;
/// The same of sums that memory alone holds up: the fewer lines are asked for at once, the less loads wait behind them.
const FEW: usize = 2;
/// Elements of a vector.
pub(super) const WIDTH: usize = 16;
/// Registers that the greatest is gathered in.
const SIDES: usize = 4;

/// What the reduction of a chain has gathered: the totals of a sum and its lanes, or the greatest.
///
/// A chunk's sum waits for itself, but not for that of the chunk before, so the processor has several at work; chunks walked side by
/// side take one and a half times as long from memory, and three times from the second cache.
pub(super) struct Gathered {
    totals: __m512,
    lanes: __m512,
    greatest: [__m512; SIDES],
    nan: __mmask16,
}

/// What the links of a row share.
#[derive(Clone, Copy)]
pub(super) struct Habits<'a> {
    fetches: &'a [Fetch],
    /// Of those that the chain runs over.
    row: usize,
    /// Of the single value that the chain divides by; 0 where it must not be used.
    reciprocal: f32,
    past_caches: bool,
}

/// One link for `V` vectors in hand; `mask` says which lanes of a lone vector count.
///
/// # Safety
/// As [`Chain::run`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn link<const CODE: u8, const V: usize>(
    base: *mut u8,
    first: usize,
    mask: __mmask16,
    habits: Habits<'_>,
    gathered: &mut Gathered,
    hand: &mut [__m512; V],
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
        let read = |i: usize| {
            if V == 1 {
                _mm512_maskz_loadu_ps(mask, at(i))
            } else {
                _mm512_loadu_ps(at(i))
            }
        };
        let single = || _mm512_set1_ps(*base.cast::<f32>());
        macro_rules! each {
            ($i:ident => $go:expr) => {
                for $i in 0..V {
                    hand[$i] = $go;
                }
            };
        }
        match CODE {
            LOAD => each!(i => read(i)),
            STORE => {
                for (i, &x) in hand.iter().enumerate() {
                    if V == 1 {
                        _mm512_mask_storeu_ps(at(i), mask, x);
                    } else if habits.past_caches {
                        _mm512_stream_ps(at(i), x);
                    } else {
                        _mm512_storeu_ps(at(i), x);
                    }
                }
            }
            SUB_SINGLE => {
                let b = single();
                each!(i => _mm512_sub_ps(hand[i], b));
            }
            DIV_SINGLE => divide(hand, single(), habits.reciprocal),
            MUL_SINGLE => {
                let b = single();
                each!(i => _mm512_mul_ps(hand[i], b));
            }
            SQUARE => each!(i => _mm512_mul_ps(hand[i], hand[i])),
            MUL => each!(i => _mm512_mul_ps(hand[i], read(i))),
            ADD => each!(i => _mm512_add_ps(hand[i], read(i))),
            EXP => exp(hand),
            SUM => {
                let lanes = &mut gathered.lanes;
                for &x in hand.iter() {
                    *lanes = if V == 1 {
                        _mm512_mask_add_ps(*lanes, mask, *lanes, x)
                    } else {
                        _mm512_add_ps(*lanes, x)
                    };
                }
            }
            _ => extreme::<V>(hand, mask, gathered),
        }
    }
}

impl Gathered {
    /// Nothing.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Gathered {
        Gathered {
            totals: _mm512_setzero_ps(),
            lanes: _mm512_setzero_ps(),
            greatest: [_mm512_set1_ps(f32::NEG_INFINITY); SIDES],
            nan: 0,
        }
    }

    /// Goes on with the totals of a state.
    ///
    /// # Safety
    /// The state is that of a sum of f32.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn resume(&mut self, state: *const u8) {
        // SAFETY: it begins with its totals.
        self.totals = unsafe { _mm512_loadu_ps(state.cast()) };
    }

    /// Adds the lanes of a chunk to the totals.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn flush(&mut self) {
        self.totals = _mm512_add_ps(self.totals, self.lanes);
        self.lanes = _mm512_setzero_ps();
    }

    /// Writes the totals to a state, or their sum where the row is whole.
    ///
    /// # Safety
    /// `to` is a state, or an f32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn put_sum(&self, to: *mut u8, whole: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if whole {
                *to.cast::<f32>() = pairwise(self.totals);
            } else {
                _mm512_storeu_ps(to.cast(), self.totals);
            }
        }
    }

    /// Takes the greatest into a state, or writes it where the row is whole.
    ///
    /// # Safety
    /// `to` is a state, or an f32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn put_greatest(&self, to: *mut u8, whole: bool) {
        let [a, b, c, d] = self.greatest;
        let best =
            _mm512_range_ps::<GREATER>(_mm512_range_ps::<GREATER>(a, b), _mm512_range_ps::<GREATER>(c, d));
        // NaN is above everything.
        let key = match self.nan {
            0 => _mm512_reduce_max_epi32(keys(best)),
            _ => i32::MAX,
        };
        // SAFETY: the caller's promise.
        unsafe {
            if whole {
                *to.cast::<f32>() = f32::from_key(key);
            } else {
                let best = &mut *to.cast::<Best>();
                best.key = Ord::max(best.key, i64::from(key));
            }
        }
    }
}

/// The sum of 16 lanes: l and l + 8, then 4, 2, 1.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn pairwise(x: __m512) -> f32 {
    let x = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x));
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
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
                use super::{CHUNK, Chain, Code, FEW, Fetch, GROUP, Gathered, Habits, WIDTH, ask, is_light, link, reciprocal};
                use std::arch::x86_64::{__mmask16, _mm512_setzero_ps};

                const CODES: &[Code] = &[$(Code::$code),*];
                const LINKS: usize = CODES.len();
                const SUMS: bool = matches!(CODES[LINKS - 1], Code::Sum);
                const LIGHT: bool = SUMS && is_light(CODES);
                const PAST_CACHES: bool = matches!(CODES[LINKS - 1], Code::Store);
                const GREATEST: bool = matches!(CODES[LINKS - 1], Code::Greatest);
                const _: () = assert!(LINKS <= super::super::MOST_LINKS);

                #[inline]
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn group<const V: usize>(
                    bases: &[*mut u8; LINKS],
                    first: usize,
                    mask: __mmask16,
                    habits: Habits<'_>,
                    gathered: &mut Gathered,
                ) {
                    ask::<V>(habits.fetches, habits.row, first);
                    let mut hand = [_mm512_setzero_ps(); V];
                    let mut bases = bases.iter();
                    $(
                        if let Some(&base) = bases.next() {
                            // SAFETY: the caller's promise.
                            unsafe { link::<{ Code::$code as u8 }, V>(base, first, mask, habits, gathered, &mut hand) };
                        }
                    )*
                }

                /// # Safety
                /// As [`Chain::run`]; the machine has AVX-512 F, BW, DQ and VL.
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
                pub(in super::super) unsafe fn run(chain: &Chain<'_>, fetches: &[Fetch]) {
                    let n = chain.n;
                    let Some(places) = chain.places.first_chunk::<LINKS>() else { return };
                    for row in 0..chain.rows {
                        let bases = places.map(|place| place.at.wrapping_add(row.wrapping_mul(place.step)));
                        let divisor = CODES.iter().zip(&bases).find(|(code, _)| matches!(code, Code::DivSingle));
                        let habits = Habits {
                            fetches,
                            row,
                            // SAFETY: the link's value is a single one.
                            reciprocal: divisor.map_or(0.0, |(_, base)| unsafe { reciprocal(*base.cast::<f32>()) }),
                            past_caches: PAST_CACHES && chain.past_caches,
                        };
                        let mut gathered = Gathered::new();
                        // SAFETY: the caller's promise.
                        unsafe {
                            if SUMS && !chain.whole {
                                gathered.resume(bases[LINKS - 1]);
                            }
                            walk(&bases, n, habits, &mut gathered);
                            if SUMS {
                                gathered.put_sum(bases[LINKS - 1], chain.whole);
                            }
                            if GREATEST {
                                gathered.put_greatest(bases[LINKS - 1], chain.whole);
                            }
                        }
                    }
                }

                /// One row.
                ///
                /// # Safety
                /// As [`Chain::run`].
                #[inline]
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn walk(
                    bases: &[*mut u8; LINKS],
                    n: usize,
                    habits: Habits<'_>,
                    gathered: &mut Gathered,
                ) {
                    let mut at = 0;
                    // SAFETY: the groups cover n elements; the caller's promise for the rest.
                    unsafe {
                        while LIGHT && n - at >= CHUNK {
                            for _ in 0..CHUNK / (FEW * WIDTH) {
                                group::<FEW>(bases, at, !0, habits, gathered);
                                at += FEW * WIDTH;
                            }
                            gathered.flush();
                        }
                        while n - at >= GROUP * WIDTH {
                            group::<GROUP>(bases, at, !0, habits, gathered);
                            at += GROUP * WIDTH;
                            if SUMS && at % CHUNK == 0 {
                                gathered.flush();
                            }
                        }
                        if n - at >= 4 * WIDTH {
                            group::<4>(bases, at, !0, habits, gathered);
                            at += 4 * WIDTH;
                        }
                        while at < n {
                            let mask = if n - at < WIDTH { (1 << (n - at)) - 1 } else { !0 };
                            group::<1>(bases, at, mask, habits, gathered);
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

/// The selector of `vrangeps`: the greater of two, -0 below +0.
const GREATER: i32 = 0b0101;

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn extreme<const V: usize>(hand: &[__m512; V], mask: __mmask16, gathered: &mut Gathered) {
    let nan = &mut gathered.nan;
    if V == 1 {
        let best = &mut gathered.greatest[0];
        *nan |= _mm512_mask_cmp_ps_mask::<_CMP_UNORD_Q>(mask, hand[0], hand[0]);
        *best = _mm512_mask_range_ps::<GREATER>(*best, mask, *best, hand[0]);
        return;
    }
    for (i, pair) in hand.chunks_exact(2).enumerate() {
        let best = &mut gathered.greatest[i % SIDES];
        *nan |= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(pair[0], pair[1]);
        *best = _mm512_range_ps::<GREATER>(*best, _mm512_range_ps::<GREATER>(pair[0], pair[1]));
    }
}

/// [`Num::key`] of what is not NaN.
#[inline]
#[target_feature(enable = "avx512f")]
fn keys(x: __m512) -> __m512i {
    let bits = _mm512_castps_si512(x);
    let flip = _mm512_and_si512(_mm512_srai_epi32::<31>(bits), _mm512_set1_epi32(i32::MAX));
    _mm512_xor_si512(bits, flip)
}

/// 1 / b where [`divide`] may use it, 0 where not.
fn reciprocal(b: f32) -> f32 {
    const LEAST: f32 = 1.0 / 16_777_216.0;
    let size = Num::abs(b);
    if (LEAST..=16_777_216.0).contains(&size) {
        1.0 / b
    } else {
        0.0
    }
}

/// Each a / b, correctly rounded; r is 1 / b correctly rounded with |b| in 2^-24..=2^24, or 0.
///
/// That one product and two fused steps suffice with a correctly rounded reciprocal is Markstein's theorem (Brisebarre, Muller,
/// Raina, Accelerating correctly rounded floating-point division when the divisor is known in advance, 2004), provided that
/// nothing underflows or overflows: nothing does for |a| in 2^-100..2^100, and +0 passes. With any other, all are divided.
#[inline]
#[target_feature(enable = "avx512f")]
fn divide<const V: usize>(hand: &mut [__m512; V], b: __m512, r: f32) {
    // Of bits with the sign last.
    const LEAST: i32 = (127 - 100) << 24;
    const GREATEST: u32 = ((127 + 100) << 24) - 1;
    let r_all = _mm512_set1_ps(r);
    let one = _mm512_set1_epi32(1);
    let mut quotients = *hand;
    let (mut low, mut high) = (_mm512_set1_epi32(-1), _mm512_setzero_si512());
    for (q, &a) in quotients.iter_mut().zip(hand.iter()) {
        let product = _mm512_mul_ps(a, r_all);
        *q = _mm512_fmadd_ps(_mm512_fnmadd_ps(product, b, a), r_all, product);
        let bits = _mm512_rol_epi32::<1>(_mm512_castps_si512(a));
        high = _mm512_max_epu32(high, bits);
        // +0 becomes the greatest.
        low = _mm512_min_epu32(low, _mm512_sub_epi32(bits, one));
    }
    let outside = _mm512_cmplt_epu32_mask(low, _mm512_set1_epi32(LEAST - 1))
        | _mm512_cmpgt_epu32_mask(high, _mm512_set1_epi32(GREATEST.cast_signed()));
    if outside == 0 && r != 0.0 {
        *hand = quotients;
    } else {
        for a in hand {
            *a = _mm512_div_ps(*a, b);
        }
    }
}

/// The bits of `math::exp32`: where that multiplies by two powers of two, of which the first product is exact, this scales
/// once. Each step is taken for all vectors, so that none waits for its own last.
#[inline]
#[target_feature(enable = "avx512f,fma")]
fn exp<const V: usize>(hand: &mut [__m512; V]) {
    let set = |c: f32| _mm512_set1_ps(c);
    let mut n = *hand;
    let mut p = *hand;
    macro_rules! each {
        ($to:ident, $i:ident => $go:expr) => {
            for $i in 0..V {
                $to[$i] = $go;
            }
        };
    }
    each!(hand, i => _mm512_min_ps(set(EXP32.highest), hand[i]));
    each!(hand, i => _mm512_max_ps(set(EXP32.lowest), hand[i]));
    each!(n, i => _mm512_fmadd_ps(hand[i], set(std::f32::consts::LOG2_E), set(EXP32.magic)));
    each!(n, i => _mm512_sub_ps(n[i], set(EXP32.magic)));
    each!(hand, i => _mm512_fnmadd_ps(n[i], set(EXP32.ln2_high), hand[i]));
    each!(hand, i => _mm512_fnmadd_ps(n[i], set(EXP32.ln2_low), hand[i]));
    let [c0, c1, c2, c3, c4] = EXP32.poly;
    each!(p, i => _mm512_fmadd_ps(set(c4), hand[i], set(c3)));
    each!(p, i => _mm512_fmadd_ps(p[i], hand[i], set(c2)));
    each!(p, i => _mm512_fmadd_ps(p[i], hand[i], set(c1)));
    each!(p, i => _mm512_fmadd_ps(p[i], hand[i], set(c0)));
    each!(p, i => _mm512_fmadd_ps(p[i], hand[i], set(1.0)));
    each!(p, i => _mm512_fmadd_ps(p[i], hand[i], set(1.0)));
    each!(hand, i => _mm512_scalef_ps(p[i], n[i]));
}

/// Asks for as many lines as the group that begins at element `first` has vectors, each where it would stand in an f32 row.
#[inline(always)]
fn ask<const V: usize>(fetches: &[Fetch], row: usize, first: usize) {
    for fetch in fetches {
        if first / WIDTH >= fetch.lines {
            continue;
        }
        let from = fetch
            .from
            .wrapping_add(row.wrapping_mul(fetch.step))
            .wrapping_add(first * 4);
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
