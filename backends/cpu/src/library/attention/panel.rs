//! From scores to weights, for a panel of queries: a column each, so that nothing is summed across lanes.

use super::weigh::Score;
use crate::isa::{Isa, versions};

/// Scores of a panel of queries that become weights.
pub(crate) struct Columns {
    /// A row a key, a place a query.
    pub(super) scores: *mut u8,
    pub(super) keys: usize,
    /// The key that the first query sees last: each key behind it is hidden from one query more.
    pub(super) diagonal: isize,
    pub(super) scale: *const u8,
    /// Numbers that are added to the scores, or that are 0 where a key is not seen; and whether they are added.
    pub(super) mask: Option<(*const u8, bool)>,
    /// The peaks of the queries so far, then the sums of their weights relative to them.
    pub(super) state: *mut u8,
    /// Sums of values, a row of queries for each of the `width` places.
    pub(super) sums: *mut u8,
    pub(super) width: usize,
}

versions! {
    /// Weights of a panel, and the sums of values made relative to the new peaks.
    ColumnsLoop, columns, ColumnsFn(job: &Columns)
}

/// The version for panels of so many queries, which are two registers.
pub(super) fn of_panel<A: Score>(isa: Isa, lanes: usize) -> ColumnsFn {
    match lanes / 2 {
        2 => columns::<Half<A, 2>>(isa),
        4 => columns::<Half<A, 4>>(isa),
        8 => columns::<Half<A, 8>>(isa),
        _ => columns::<Half<A, 16>>(isa),
    }
}

/// Works on half a panel at a time.
struct Half<A, const W: usize>(A);

/// Rows whose powers are computed side by side, and whose weights have a sum each: powers take long, but many fit into that time.
const ROWS: usize = 4;

impl<A: Score, const W: usize> ColumnsLoop for Half<A, W> {
    #[inline(always)]
    unsafe fn run(job: &Columns) {
        // SAFETY: the caller vouches for the panel's memory.
        unsafe {
            let scores = std::slice::from_raw_parts_mut(job.scores.cast::<A>(), job.keys * 2 * W);
            let slope = masked::<A, W>(job, scores);
            let (rows, _) = scores.as_chunks_mut::<W>();
            let state = job.state.cast::<[A; W]>();
            let mut factors = [[A::ONE; W]; 2];
            for (half, factor) in factors.iter_mut().enumerate() {
                let (before, total) = (*state.add(half), *state.add(2 + half));
                let peak = peaks(before, rows, half);
                let base = peak.map(|peak| if peak.greater(A::NOTHING) { peak } else { A::ZERO });
                let sum = weights(rows, half, base, slope);
                // Nothing was summed as long as the peak was -inf, but for NaN.
                for lane in 0..W {
                    if before[lane].greater(A::NOTHING) {
                        factor[lane] = before[lane].minus(peak[lane]).power(slope);
                    }
                }
                *state.add(half) = peak;
                *state.add(2 + half) =
                    std::array::from_fn(|lane| total[lane].times(factor[lane]).plus(sum[lane]));
            }
            if !factors.as_flattened().iter().all(|factor| factor.equals(A::ONE)) {
                let sums = std::slice::from_raw_parts_mut(job.sums.cast::<[[A; W]; 2]>(), job.width);
                for sums in sums.as_flattened_mut().chunks_exact_mut(2) {
                    for (sums, factors) in sums.iter_mut().zip(&factors) {
                        for (sum, &factor) in sums.iter_mut().zip(factors) {
                            *sum = sum.times(factor);
                        }
                    }
                }
            }
        }
    }
}

/// Scales and masks the scores; what their distances are multiplied by for the exponents of weights.
#[inline(always)]
unsafe fn masked<A: Score, const W: usize>(job: &Columns, scores: &mut [A]) -> A {
    // SAFETY: the caller vouches for the scale and the mask.
    unsafe {
        let scale = *job.scale.cast::<A>();
        let mut slope = A::UNIT;
        match job.mask {
            // The greatest product is the greatest score too.
            None if scale.greater(A::ZERO) && !scale.greater(A::ONE) => slope = scale.times(A::UNIT),
            None => scores.iter_mut().for_each(|score| *score = score.times(scale)),
            Some((mask, added)) => {
                let mask = std::slice::from_raw_parts(mask.cast::<A>(), scores.len());
                for (score, &mask) in scores.iter_mut().zip(mask) {
                    let scaled = score.times(scale);
                    *score = match added {
                        true => scaled.plus(mask),
                        false if mask.greater(A::ZERO) => scaled,
                        false => A::NOTHING,
                    };
                }
            }
        }
        for key in job.diagonal.max(0) as usize..job.keys {
            let hidden = key.wrapping_sub(job.diagonal as usize).min(2 * W);
            scores[key * 2 * W..][..hidden].fill(A::NOTHING);
        }
        slope
    }
}

/// The greatest scores of half a panel; a NaN is passed over here, and makes the sum NaN.
#[inline(always)]
fn peaks<A: Score, const W: usize>(before: [A; W], rows: &[[A; W]], half: usize) -> [A; W] {
    let greater = |a: [A; W], b: &[A; W]| -> [A; W] {
        std::array::from_fn(|lane| {
            if b[lane].greater(a[lane]) {
                b[lane]
            } else {
                a[lane]
            }
        })
    };
    let mut peaks = [before; ROWS];
    let (groups, rest) = rows.as_chunks::<{ 2 * ROWS }>();
    for rows in groups {
        for (at, peak) in peaks.iter_mut().enumerate() {
            *peak = greater(*peak, &rows[2 * at + half]);
        }
    }
    for (row, peak) in rest.chunks_exact(2).zip(&mut peaks) {
        *peak = greater(*peak, &row[half]);
    }
    let [a, b, c, d] = peaks;
    greater(greater(a, &b), &greater(c, &d))
}

/// Makes the scores of half a panel weights; their sums.
#[inline(always)]
fn weights<A: Score, const W: usize>(rows: &mut [[A; W]], half: usize, base: [A; W], slope: A) -> [A; W] {
    let weigh = |row: &mut [A; W]| {
        *row = std::array::from_fn(|lane| row[lane].minus(base[lane]).power(slope));
    };
    let plus = |a: [A; W], b: [A; W]| -> [A; W] { std::array::from_fn(|lane| a[lane].plus(b[lane])) };
    let mut sums = [[A::ZERO; W]; ROWS];
    let (groups, rest) = rows.as_chunks_mut::<{ 2 * ROWS }>();
    for rows in groups {
        for (at, sum) in sums.iter_mut().enumerate() {
            weigh(&mut rows[2 * at + half]);
            *sum = plus(*sum, rows[2 * at + half]);
        }
    }
    for (row, sum) in rest.chunks_exact_mut(2).zip(&mut sums) {
        weigh(&mut row[half]);
        *sum = plus(*sum, row[half]);
    }
    let [a, b, c, d] = sums;
    plus(plus(a, b), plus(c, d))
}
