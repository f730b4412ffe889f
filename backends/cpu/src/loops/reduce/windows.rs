//! The greatest or least f32 of windows that lie side by side along a line, at a step of one or two elements: first over the rows of
//! all windows, then over the places along a row.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::super::num::Num;
use crate::isa::Isa;
use std::ops::Range;

/// Windows of a line from which on vectors pay.
pub(crate) const LONG: usize = 16;
/// Keys behind those of a line that scratch has room for: of the pair that a last place is one of.
pub(crate) const SLACK: usize = 1;

/// Windows side by side. Place `p` of the line and column `c` of window `i` are the same where `p == i * step + c`.
pub(crate) struct Line<'a> {
    /// Where place 0 of each row would stand in memory.
    pub(crate) rows: &'a [*const f32],
    /// Of a window.
    pub(crate) columns: &'a [usize],
    /// 1 or 2.
    pub(crate) step: usize,
    /// Places that there are.
    pub(crate) span: usize,
    /// Places that memory has; the others are padding.
    pub(crate) inside: Range<usize>,
    pub(crate) padding: f32,
    /// Whether each window sees rows of padding.
    pub(crate) edge: bool,
}

/// Sets `n` elements to the greatest or least of windows. Scratch has room for the line's places and [`SLACK`].
pub(crate) type WindowsFn = unsafe fn(n: usize, to: *mut f32, scratch: *mut i32, line: &Line<'_>);

/// Of the greatest or the least, if the machine has vectors for it.
pub(super) fn bests<const MAX: bool>(isa: Isa) -> Option<WindowsFn> {
    #[cfg(target_arch = "x86_64")]
    return match isa {
        Isa::Baseline => None,
        Isa::Avx2 => Some(x86::avx2::<MAX>),
        Isa::Avx512 => Some(x86::avx512::<MAX>),
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        None
    }
}

/// As [`Num::key`], with the greatest or the least for what is no number.
#[inline(always)]
fn key<const MAX: bool>(x: f32) -> i32 {
    x.key::<MAX>()
}

#[inline(always)]
fn better<const MAX: bool>(a: i32, b: i32) -> i32 {
    if MAX { Ord::max(a, b) } else { Ord::min(a, b) }
}

/// What the passes ask of vectors, of floats or of their keys.
///
/// # Safety
/// For all methods: the processor has the instructions, and pointers are valid for what is read or written there.
trait Vector: Copy {
    /// Lanes that are numbers.
    type Numbers: Copy;
    const LANES: usize;

    unsafe fn splat(x: f32) -> Self;
    unsafe fn load<T>(from: *const T) -> Self;
    unsafe fn store<T>(self, to: *mut T);
    /// The better floats, anything where one is no number; +0 is greater than -0.
    unsafe fn better<const MAX: bool>(self, other: Self) -> Self;
    /// All lanes.
    unsafe fn all() -> Self::Numbers;
    /// Those of some lanes where both are numbers.
    unsafe fn numbers(self, other: Self, of: Self::Numbers) -> Self::Numbers;
    /// The keys of floats, and the best one where there is no number.
    unsafe fn keys<const MAX: bool>(self, numbers: Self::Numbers) -> Self;
    unsafe fn better_keys<const MAX: bool>(self, other: Self) -> Self;
    /// The floats of keys.
    unsafe fn values(self) -> Self;
    /// Every second lane of two.
    unsafe fn seconds(self, other: Self) -> Self;
}

/// The keys of `V` vectors of places over all rows.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn rows<T: Vector, const V: usize, const MAX: bool>(scratch: *mut i32, line: &Line<'_>, first: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let load = |row: *const f32, v: usize| T::load(row.wrapping_add(first + v * T::LANES));
        let padding = T::splat(line.padding);
        let (start, rest) = match line.rows {
            [row, rest @ ..] if !line.edge => (Some(*row), rest),
            rows => (None, rows),
        };
        let mut best: [T; V] = [padding; V];
        if let Some(row) = start {
            for (v, best) in best.iter_mut().enumerate() {
                *best = load(row, v);
            }
        }
        let mut numbers = [T::all(); V];
        for (numbers, &best) in numbers.iter_mut().zip(&best) {
            *numbers = best.numbers(best, *numbers);
        }
        let (pairs, last) = rest.as_chunks::<2>();
        for &[a, b] in pairs {
            for v in 0..V {
                let (a, b) = (load(a, v), load(b, v));
                best[v] = best[v].better::<MAX>(a.better::<MAX>(b));
                numbers[v] = a.numbers(b, numbers[v]);
            }
        }
        for &a in last {
            for v in 0..V {
                let a = load(a, v);
                best[v] = best[v].better::<MAX>(a);
                numbers[v] = a.numbers(a, numbers[v]);
            }
        }
        for v in 0..V {
            best[v]
                .keys::<MAX>(numbers[v])
                .store(scratch.add(first + v * T::LANES));
        }
    }
}

/// # Safety
/// The processor has the instructions. Scratch and `to` have room, and each row has the places inside.
#[inline(always)]
unsafe fn take<T: Vector, const MAX: bool>(n: usize, to: *mut f32, scratch: *mut i32, line: &Line<'_>) {
    let Range { start, end } = line.inside;
    // SAFETY: the caller's promise. The last vectors of a row begin earlier, where it is long enough, and write the same again.
    unsafe {
        let padding = key::<MAX>(line.padding);
        for at in (0..start).chain(end..line.span + SLACK) {
            *scratch.add(at) = padding;
        }
        let mut first = start;
        while end - start >= 4 * T::LANES && end - first > T::LANES {
            first = first.min(end - 4 * T::LANES);
            rows::<T, 4, MAX>(scratch, line, first);
            first += 4 * T::LANES;
        }
        while end - start >= T::LANES && first < end {
            first = first.min(end - T::LANES);
            rows::<T, 1, MAX>(scratch, line, first);
            first += T::LANES;
        }
        for at in first..end {
            let floats = line.rows.iter().map(|row| key::<MAX>(*row.wrapping_add(at)));
            let best = floats.reduce(better::<MAX>).unwrap_or(padding);
            *scratch.add(at) = if line.edge {
                better::<MAX>(best, padding)
            } else {
                best
            };
        }
        match line.step {
            1 => columns::<T, 1, MAX>(n, to, scratch, line.columns),
            _ => columns::<T, 2, MAX>(n, to, scratch, line.columns),
        }
    }
}

/// # Safety
/// As [`take`]; scratch has the keys.
#[inline(always)]
unsafe fn columns<T: Vector, const S: usize, const MAX: bool>(
    n: usize,
    to: *mut f32,
    scratch: *const i32,
    columns: &[usize],
) {
    let [start, rest @ ..] = columns else { return };
    // SAFETY: the caller's promise; what a vector reads behind the places is slack.
    unsafe {
        let column = |first: usize, column: usize| {
            let at = scratch.add(first * S + column);
            match S {
                1 => T::load(at),
                _ => T::load(at).seconds(T::load(at.add(T::LANES))),
            }
        };
        if n < T::LANES {
            for i in 0..n {
                let keys = columns.iter().map(|column| *scratch.add(i * S + column));
                *to.add(i) = f32::from_key(keys.reduce(better::<MAX>).unwrap_or(0));
            }
            return;
        }
        for first in (0..n).step_by(T::LANES) {
            let first = first.min(n - T::LANES);
            let mut best = column(first, *start);
            for &at in rest {
                best = best.better_keys::<MAX>(column(first, at));
            }
            best.values().store(to.add(first));
        }
    }
}
