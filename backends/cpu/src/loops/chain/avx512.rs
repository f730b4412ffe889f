//! Chains with AVX-512: eight vectors in hand.

use super::{Chain, Code, Fetch, Link};
use crate::loops::LANES;
use crate::loops::num::Num;
use crate::loops::reduce::{Best, CHUNK};
use crate::math::EXP32;
use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _CMP_UNORD_Q, _MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch, _mm512_add_ps,
    _mm512_and_si512, _mm512_castps_si512, _mm512_cmp_ps_mask, _mm512_cmpgt_epu32_mask, _mm512_div_ps,
    _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_loadu_ps, _mm512_mask_add_ps, _mm512_mask_cmp_ps_mask,
    _mm512_mask_div_ps, _mm512_mask_range_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_range_ps, _mm512_reduce_max_epi32, _mm512_scalef_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_slli_epi32, _mm512_srai_epi32,
    _mm512_storeu_ps, _mm512_sub_epi32, _mm512_sub_ps, _mm512_test_epi32_mask, _mm512_xor_si512,
};

/// Vectors of a group.
pub(super) const GROUP: usize = 8;
/// Elements of a vector.
pub(super) const WIDTH: usize = 16;
/// Chunks that are walked side by side where a sum would otherwise wait for itself.
pub(super) const SIDES: usize = 4;

/// What the reduction of a chain has gathered: lanes of a sum by chunk, or a greatest in the first.
pub(super) struct Gathered {
    lanes: [__m512; SIDES],
    nan: __mmask16,
}

/// One link for `V` vectors in hand, neighbours in pairs and pairs `FAR` bytes apart; `mask` says which lanes of a lone vector
/// count.
///
/// # Safety
/// As [`Chain::run`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn link<const CODE: u8, const V: usize, const FAR: usize>(
    base: *mut u8,
    first: usize,
    mask: __mmask16,
    reciprocal: f32,
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
        let at = |i: usize| block.wrapping_add(i / 2 * FAR + i % 2 * 64).cast::<f32>();
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
                    } else {
                        _mm512_storeu_ps(at(i), x);
                    }
                }
            }
            SUB_SINGLE => {
                let b = single();
                each!(i => _mm512_sub_ps(hand[i], b));
            }
            DIV_SINGLE => {
                let b = single();
                if reciprocal == 0.0 {
                    each!(i => _mm512_div_ps(hand[i], b));
                } else {
                    let r = _mm512_set1_ps(reciprocal);
                    each!(i => divide(hand[i], b, r));
                }
            }
            MUL_SINGLE => {
                let b = single();
                each!(i => _mm512_mul_ps(hand[i], b));
            }
            SQUARE => each!(i => _mm512_mul_ps(hand[i], hand[i])),
            MUL => each!(i => _mm512_mul_ps(hand[i], read(i))),
            ADD => each!(i => _mm512_add_ps(hand[i], read(i))),
            EXP => each!(i => exp(hand[i])),
            SUM => {
                for (i, &x) in hand.iter().enumerate() {
                    let lanes = &mut gathered.lanes[if FAR == CHUNK * 4 { i / 2 } else { 0 }];
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

/// The reduction's state before a chain.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn start(links: &[Link]) -> Gathered {
    let greatest = links.iter().any(|link| link.code == Code::Greatest);
    let first = if greatest { f32::NEG_INFINITY } else { 0.0 };
    let mut lanes = [_mm512_setzero_ps(); SIDES];
    lanes[0] = _mm512_set1_ps(first);
    Gathered { lanes, nan: 0 }
}

/// The reciprocal of the single value that a chain divides by; 0 where it must not be used.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn divisor(chain: &Chain<'_>) -> f32 {
    let found = chain.links.iter().find(|link| link.code == Code::DivSingle);
    // SAFETY: the link's value is a single one.
    found.map_or(0.0, |link| unsafe {
        reciprocal(*(*chain.values.add(link.value as usize)).cast::<f32>())
    })
}

/// Adds the lanes of whole or last chunks to the totals, in order.
///
/// # Safety
/// As [`Chain::run`]; the chain ends in a sum.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn flush(state: *mut u8, gathered: &mut Gathered) {
    // SAFETY: the state of a sum begins with its totals.
    unsafe {
        let totals = state.cast::<f32>();
        let mut sum = _mm512_loadu_ps(totals);
        for lanes in &mut gathered.lanes {
            sum = _mm512_add_ps(sum, *lanes);
            *lanes = _mm512_setzero_ps();
        }
        _mm512_storeu_ps(totals, sum);
    }
}

/// Takes a chain's greatest into the row's.
///
/// # Safety
/// As [`Chain::run`]; the chain ends in a greatest.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn settle(state: *mut u8, gathered: &Gathered) {
    // NaN is above everything.
    let key = match gathered.nan {
        0 => _mm512_reduce_max_epi32(keys(gathered.lanes[0])),
        _ => i32::MAX,
    };
    // SAFETY: the state of a greatest.
    unsafe {
        let best = &mut *state.cast::<Best>();
        best.key = Ord::max(best.key, i64::from(key));
    }
}

/// Groups in which a chain walks `n` elements; with `sums`, chunks go side by side while there are two.
const fn groups(n: usize, sums: bool) -> usize {
    if !sums {
        return n.div_ceil(GROUP * WIDTH);
    }
    let (rounds, rest) = (n / (SIDES * CHUNK), n % (SIDES * CHUNK));
    let (last, rest) = match rest / CHUNK {
        0 | 1 => (0, rest),
        _ => (1, rest % CHUNK),
    };
    (rounds + last) * GROUP + rest.div_ceil(GROUP * WIDTH)
}

/// A module with the function `run` for each pattern.
macro_rules! versions {
    ($($(#[$doc:meta])* $name:ident: [$($code:ident),*];)*) => {
        $(
            #[expect(non_snake_case, reason = "named as the pattern")]
            pub(super) mod $name {
                use super::{
                    CHUNK, Chain, Code, Fetch, GROUP, Gathered, SIDES, WIDTH, ask, divisor, flush, groups, link, settle,
                    start,
                };
                use std::arch::x86_64::{__mmask16, _mm512_setzero_ps};

                const SUMS: bool = false $(|| Code::$code as u8 == Code::Sum as u8)*;
                const GREATEST: bool = false $(|| Code::$code as u8 == Code::Greatest as u8)*;

                #[inline]
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn group<const V: usize, const FAR: usize>(
                    chain: &Chain<'_>,
                    first: usize,
                    mask: __mmask16,
                    reciprocal: f32,
                    gathered: &mut Gathered,
                ) {
                    let mut hand = [_mm512_setzero_ps(); V];
                    let mut links = chain.links.iter();
                    $(
                        // SAFETY: the caller's promise; the pattern has as many links as the chain.
                        unsafe {
                            let base = match links.next() {
                                Some(l) if Code::$code as u8 == Code::Sum as u8 || Code::$code as u8 == Code::Greatest as u8 => {
                                    *chain.states.add(l.value as usize)
                                }
                                Some(l) => *chain.values.add(l.value as usize),
                                None => return,
                            };
                            link::<{ Code::$code as u8 }, V, FAR>(base, first, mask, reciprocal, gathered, &mut hand);
                        }
                    )*
                }

                /// # Safety
                /// As [`Chain::run`]; the machine has AVX-512 F, BW, DQ and VL.
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
                pub(in super::super) unsafe fn run(chain: &Chain<'_>, n: usize, fetches: &mut [Fetch]) {
                    const FAR: usize = CHUNK * 4;
                    let mut gathered = start(chain.links);
                    let most = fetches.iter().map(|fetch| fetch.lines).max().unwrap_or(0);
                    let share = most.div_ceil(groups(n, SUMS).max(1));
                    let mut at = 0;
                    // SAFETY: the groups cover n elements; the caller's promise for the rest.
                    unsafe {
                        let r = divisor(chain);
                        let state = match chain.links.last() {
                            Some(last) if SUMS || GREATEST => *chain.states.add(last.value as usize),
                            _ => std::ptr::null_mut(),
                        };
                        let g = &mut gathered;
                        while SUMS && n - at >= 2 * CHUNK {
                            let sides = ((n - at) / CHUNK).min(SIDES);
                            for step in 0..GROUP {
                                ask(fetches, share);
                                let first = at + step * 2 * WIDTH;
                                match sides {
                                    2 => group::<4, FAR>(chain, first, !0, r, g),
                                    3 => group::<6, FAR>(chain, first, !0, r, g),
                                    _ => group::<GROUP, FAR>(chain, first, !0, r, g),
                                }
                            }
                            at += sides * CHUNK;
                            flush(state, g);
                        }
                        while n - at >= GROUP * WIDTH {
                            ask(fetches, share);
                            group::<GROUP, 128>(chain, at, !0, r, g);
                            at += GROUP * WIDTH;
                            if SUMS && at % CHUNK == 0 {
                                flush(state, g);
                            }
                        }
                        if at < n {
                            ask(fetches, share);
                        }
                        if n - at >= 4 * WIDTH {
                            group::<4, 128>(chain, at, !0, r, g);
                            at += 4 * WIDTH;
                        }
                        while at < n {
                            let mask = if n - at < WIDTH { (1 << (n - at)) - 1 } else { !0 };
                            group::<1, 128>(chain, at, mask, r, g);
                            at += WIDTH;
                        }
                        if SUMS {
                            flush(state, g);
                        }
                        if GREATEST {
                            settle(state, g);
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
    let (best, nan) = (&mut gathered.lanes[0], &mut gathered.nan);
    if V == 1 {
        *nan |= _mm512_mask_cmp_ps_mask::<_CMP_UNORD_Q>(mask, hand[0], hand[0]);
        *best = _mm512_mask_range_ps::<GREATER>(*best, mask, *best, hand[0]);
        return;
    }
    for pair in hand.chunks_exact(2) {
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

/// a / b, correctly rounded, where r is 1 / b correctly rounded and |b| lies in 2^-24..=2^24.
///
/// That one product and two fused steps suffice with a correctly rounded reciprocal is Markstein's theorem (Brisebarre, Muller,
/// Raina, Accelerating correctly rounded floating-point division when the divisor is known in advance, 2004), provided that
/// nothing underflows or overflows: nothing does for |a| in 2^-100..2^100, and +0 passes. The rest is divided.
#[inline]
#[target_feature(enable = "avx512f")]
fn divide(a: __m512, b: __m512, r: __m512) -> __m512 {
    const FIRST: i32 = (127 - 100) << 24;
    const COUNT: i32 = 200 << 24;
    let q = _mm512_mul_ps(a, r);
    let q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, b, a), r, q);
    let bits = _mm512_castps_si512(a);
    let place = _mm512_sub_epi32(_mm512_slli_epi32::<1>(bits), _mm512_set1_epi32(FIRST));
    let outside =
        _mm512_cmpgt_epu32_mask(place, _mm512_set1_epi32(COUNT - 1)) & _mm512_test_epi32_mask(bits, bits);
    if outside == 0 {
        q
    } else {
        _mm512_mask_div_ps(q, outside, a, b)
    }
}

/// The bits of `math::exp32`: where that multiplies by two powers of two, of which the first product is exact, this scales
/// once.
#[inline]
#[target_feature(enable = "avx512f,fma")]
fn exp(x: __m512) -> __m512 {
    let set = |c: f32| _mm512_set1_ps(c);
    let x = _mm512_max_ps(set(EXP32.lowest), _mm512_min_ps(set(EXP32.highest), x));
    let n = _mm512_sub_ps(
        _mm512_fmadd_ps(x, set(std::f32::consts::LOG2_E), set(EXP32.magic)),
        set(EXP32.magic),
    );
    let r = _mm512_fnmadd_ps(n, set(EXP32.ln2_low), _mm512_fnmadd_ps(n, set(EXP32.ln2_high), x));
    let [c0, c1, c2, c3, c4] = EXP32.poly;
    let p = _mm512_fmadd_ps(set(c4), r, set(c3));
    let p = _mm512_fmadd_ps(p, r, set(c2));
    let p = _mm512_fmadd_ps(p, r, set(c1));
    let p = _mm512_fmadd_ps(p, r, set(c0));
    let p = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r), set(1.0));
    _mm512_scalef_ps(p, n)
}

/// Asks for at most `share` lines of each.
#[inline(always)]
pub(super) fn ask(fetches: &mut [Fetch], share: usize) {
    for fetch in fetches {
        let lines = fetch.lines.min(share);
        for line in 0..lines {
            let at = fetch.from.wrapping_add(line * 64).cast();
            // SAFETY: a prefetch never faults.
            unsafe {
                if fetch.written {
                    _mm_prefetch::<_MM_HINT_ET0>(at);
                } else {
                    _mm_prefetch::<_MM_HINT_T0>(at);
                }
            }
        }
        fetch.from = fetch.from.wrapping_add(lines * 64);
        fetch.lines -= lines;
    }
}

const _: () = assert!(LANES == WIDTH && CHUNK == 2 * GROUP * WIDTH);
