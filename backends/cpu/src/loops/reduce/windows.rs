//! The greatest or least f32 of windows that lie side by side along a line, at a step of one or two elements: first over the rows of
//! all windows, then over the places along a row. Windows of two or three neighbours do both in registers; others go through scratch.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::super::num::Num;
use crate::isa::Isa;
use crate::prefetch::ask;
use std::ops::Range;

/// Windows of a line from which on vectors pay.
pub(crate) const LONG: usize = 16;
/// Places behind those of a line that scratch has room for: of the pair that a last place is one of.
pub(crate) const SLACK: usize = 1;
/// Bytes from a row that is read to what is asked for.
const AHEAD: usize = 12 << 10;

/// Lines of windows side by side. Place `p` of a line and column `c` of window `i` are the same where `p == i * step + c`.
pub(crate) struct Lines<'a> {
    pub(crate) count: usize,
    /// Of a line.
    pub(crate) windows: usize,
    /// Where place 0 of each row of the first line would stand in memory, and elements from a line to the next.
    pub(crate) rows: &'a [*const f32],
    pub(crate) apart: isize,
    /// How many of the rows, the last ones, no line before has read.
    pub(crate) fresh: usize,
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

/// Sets elements to the greatest or least of windows, line after line. Scratch has room for the places of a line and [`SLACK`].
pub(crate) type WindowsFn = unsafe fn(to: *mut f32, scratch: *mut i32, lines: &Lines<'_>);

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
    unsafe fn both(a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    unsafe fn is_all(of: Self::Numbers) -> bool;
    /// The keys of floats, and the best one where there is no number.
    unsafe fn keys<const MAX: bool>(self, numbers: Self::Numbers) -> Self;
    unsafe fn better_keys<const MAX: bool>(self, other: Self) -> Self;
    /// The floats of keys.
    unsafe fn values(self) -> Self;
    /// Every second lane of two, from the first on.
    unsafe fn seconds(self, other: Self) -> Self;
    /// The others.
    unsafe fn others(self, other: Self) -> Self;
    /// The last lane of `before`, then all lanes but the last.
    unsafe fn after(self, before: Self) -> Self;
}

/// `V` vectors over all rows, whose elements are `at` from those of place 0, and those that are numbers.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn best<T: Vector, const V: usize, const MAX: bool>(
    at: isize,
    rows: &[*const f32],
    lines: &Lines<'_>,
) -> ([T; V], [T::Numbers; V]) {
    // SAFETY: the caller's promise.
    unsafe {
        let load = |row: *const f32, v: usize| T::load(row.wrapping_offset(at).wrapping_add(v * T::LANES));
        let (start, rest) = match *rows {
            [row, ref rest @ ..] if !lines.edge => (Some(row), rest),
            ref rows => (None, rows),
        };
        let mut best: [T; V] = [T::splat(lines.padding); V];
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
        (best, numbers)
    }
}

/// `V` vectors of places over all rows, and whether they are numbers.
///
/// # Safety
/// As [`best`]; `to` has room.
#[inline(always)]
unsafe fn vectors<T: Vector, const V: usize, const MAX: bool, const KEYS: bool>(
    to: *mut i32,
    at: isize,
    rows: &[*const f32],
    lines: &Lines<'_>,
) -> T::Numbers {
    // SAFETY: the caller's promise.
    unsafe {
        let (best, numbers) = best::<T, V, MAX>(at, rows, lines);
        let mut all = T::all();
        for v in 0..V {
            let to = to.add(v * T::LANES);
            if KEYS {
                best[v].keys::<MAX>(numbers[v]).store(to);
            } else {
                best[v].store(to);
                all = T::both(all, numbers[v]);
            }
        }
        all
    }
}

/// The windows of a line whose places are inside. Where every second window begins with the last place of the one before, that of the
/// first one may be padding.
#[inline(always)]
fn inner<const S: usize, const C: usize>(lines: &Lines<'_>) -> Range<usize> {
    let Range { start, end } = lines.inside;
    let (low, high) = match (S, C) {
        (2, 3) => (start / 2, end.saturating_sub(1) / 2),
        _ => (start.div_ceil(S), (end + S).saturating_sub(C) / S),
    };
    low..high.min(lines.windows).max(low)
}

/// A vector of windows of `C` neighbours, `S` apart, whose first place is `at` from place 0; and what was read last, if the next vector
/// needs that.
///
/// # Safety
/// As [`near`].
#[inline(always)]
unsafe fn neighbours<T: Vector, const S: usize, const C: usize, const MAX: bool>(
    at: isize,
    before: T,
    numbers: &mut T::Numbers,
    rows: &[*const f32],
    lines: &Lines<'_>,
) -> (T, T) {
    // SAFETY: the caller's promise.
    unsafe {
        if S == 2 {
            let ([a, b], [p, q]) = best::<T, 2, MAX>(at + (C as isize - 2), rows, lines);
            *numbers = T::both(*numbers, T::both(p, q));
            let (firsts, last) = (a.seconds(b), a.others(b));
            let pair = firsts.better::<MAX>(last);
            return match C {
                3 => (last.after(before).better::<MAX>(pair), last),
                _ => (pair, before),
            };
        }
        let ([mut window], [all]) = best::<T, 1, MAX>(at, rows, lines);
        *numbers = T::both(*numbers, all);
        for column in 1..C {
            let ([next], [all]) = best::<T, 1, MAX>(at + column as isize, rows, lines);
            *numbers = T::both(*numbers, all);
            window = window.better::<MAX>(next);
        }
        (window, before)
    }
}

/// The place `at` from place 0, over all rows, in all lanes.
///
/// # Safety
/// As [`near`].
#[inline(always)]
unsafe fn single<T: Vector, const MAX: bool>(at: isize, numbers: &mut T::Numbers, rows: &[*const f32]) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        let mut best = T::splat(*rows[0].wrapping_offset(at));
        *numbers = best.numbers(best, *numbers);
        for row in &rows[1..] {
            let place = T::splat(*row.wrapping_offset(at));
            *numbers = place.numbers(place, *numbers);
            best = best.better::<MAX>(place);
        }
        best
    }
}

/// A line of windows of `C` neighbours, `S` apart, without scratch; whether all that was read are numbers.
///
/// # Safety
/// As [`take`]; the line has [`inner`] windows, of which none sees rows of padding.
#[inline(always)]
unsafe fn near<T: Vector, const S: usize, const C: usize, const MAX: bool>(
    to: *mut f32,
    i: usize,
    rows: &[*const f32],
    lines: &Lines<'_>,
) -> bool {
    let Range {
        start: low,
        end: high,
    } = inner::<S, C>(lines);
    let moved = lines.apart.wrapping_mul(i as isize);
    // SAFETY: the caller's promise. The last vector begins earlier, and writes the same again.
    unsafe {
        let mut all = T::all();
        let mut before = T::splat(lines.padding);
        if (S, C) == (2, 3) && lines.inside.start <= low * S {
            before = single::<T, MAX>(moved + (low * S) as isize, &mut all, rows);
        }
        let mut first = low;
        while first + T::LANES <= high {
            let (window, last) =
                neighbours::<T, S, C, MAX>(moved + (first * S) as isize, before, &mut all, rows, lines);
            window.store(to.add(first));
            before = last;
            first += T::LANES;
        }
        if first < high {
            first = high - T::LANES;
            let at = moved + (first * S) as isize;
            if (S, C) == (2, 3) && lines.inside.start <= first * S {
                before = single::<T, MAX>(at, &mut all, rows);
            }
            let (window, _) = neighbours::<T, S, C, MAX>(at, before, &mut all, rows, lines);
            window.store(to.add(first));
        }
        for window in (0..low).chain(high..lines.windows) {
            let places = (window * S..window * S + C).map(|place| {
                let keys = rows
                    .iter()
                    .map(|row| key::<MAX>(*row.wrapping_offset(moved).wrapping_add(place)));
                match lines.inside.contains(&place) {
                    true => keys.reduce(better::<MAX>).unwrap_or(0),
                    false => key::<MAX>(lines.padding),
                }
            });
            *to.add(window) = f32::from_key(places.reduce(better::<MAX>).unwrap_or(0));
        }
        T::is_all(all)
    }
}

/// The places of line `i` as keys, or as floats; whether these are numbers.
///
/// # Safety
/// As [`take`].
#[inline(always)]
unsafe fn places<T: Vector, const MAX: bool, const KEYS: bool>(
    scratch: *mut i32,
    i: usize,
    rows: &[*const f32],
    lines: &Lines<'_>,
) -> bool {
    let Range { start, end } = lines.inside;
    let bits = |key: i32| match KEYS {
        true => key,
        false => f32::from_key(key).to_bits() as i32,
    };
    let padding = key::<MAX>(lines.padding);
    let moved = lines.apart.wrapping_mul(i as isize);
    // SAFETY: the caller's promise. The last vectors of a row begin earlier, where it is long enough, and write the same again.
    unsafe {
        for at in (0..start).chain(end..lines.span + SLACK) {
            *scratch.add(at) = bits(padding);
        }
        let mut numbers = T::all();
        let mut first = start;
        while end - start >= 4 * T::LANES && end - first > T::LANES {
            first = first.min(end - 4 * T::LANES);
            let at = moved + first as isize;
            numbers = T::both(
                numbers,
                vectors::<T, 4, MAX, KEYS>(scratch.add(first), at, rows, lines),
            );
            first += 4 * T::LANES;
        }
        while end - start >= T::LANES && first < end {
            first = first.min(end - T::LANES);
            let at = moved + first as isize;
            numbers = T::both(
                numbers,
                vectors::<T, 1, MAX, KEYS>(scratch.add(first), at, rows, lines),
            );
            first += T::LANES;
        }
        let mut all = T::is_all(numbers);
        for at in first..end {
            let floats = (rows.iter()).map(|row| key::<MAX>(*row.wrapping_offset(moved).wrapping_add(at)));
            let best = floats.reduce(better::<MAX>).unwrap_or(padding);
            let best = if lines.edge {
                better::<MAX>(best, padding)
            } else {
                best
            };
            all &= !f32::from_key(best).is_nan();
            *scratch.add(at) = bits(best);
        }
        all
    }
}

/// The windows of a line.
///
/// # Safety
/// As [`take`]; scratch has the places.
#[inline(always)]
unsafe fn windows<T: Vector, const S: usize, const MAX: bool, const KEYS: bool>(
    n: usize,
    to: *mut f32,
    scratch: *const i32,
    columns: &[usize],
) {
    let [start, rest @ ..] = columns else { return };
    // SAFETY: the caller's promise; what a vector reads behind the places is slack.
    unsafe {
        if n < T::LANES {
            for i in 0..n {
                let keys = columns.iter().map(|column| {
                    let bits = *scratch.add(i * S + column);
                    if KEYS {
                        bits
                    } else {
                        key::<MAX>(f32::from_bits(bits as u32))
                    }
                });
                *to.add(i) = f32::from_key(keys.reduce(better::<MAX>).unwrap_or(0));
            }
            return;
        }
        let column = |first: usize, column: usize| {
            let at = scratch.add(first * S + column);
            match S {
                1 => T::load(at),
                _ => T::load(at).seconds(T::load(at.add(T::LANES))),
            }
        };
        for first in (0..n).step_by(T::LANES) {
            let first = first.min(n - T::LANES);
            let mut best = column(first, *start);
            for &at in rest {
                let next = column(first, at);
                best = match KEYS {
                    true => best.better_keys::<MAX>(next),
                    false => best.better::<MAX>(next),
                };
            }
            let best = if KEYS { best.values() } else { best };
            best.store(to.add(first));
        }
    }
}

/// Takes lines from line `i` on by `line`, until one has what is no number; returns that or the end.
#[inline(always)]
fn each(i: usize, lines: &Lines<'_>, mut line: impl FnMut(usize) -> bool) -> usize {
    let fresh = &lines.rows[lines.rows.len().saturating_sub(lines.fresh)..];
    for i in i..lines.count {
        for row in fresh {
            let from = row.wrapping_offset(lines.apart.wrapping_mul(i as isize));
            ask(
                from.cast::<u8>().wrapping_add(AHEAD),
                lines.span * size_of::<f32>(),
            );
        }
        if !line(i) {
            return i;
        }
    }
    lines.count
}

/// # Safety
/// The processor has the instructions. `to` has room for all windows, scratch has its lines, and each row has the places inside.
#[inline(always)]
unsafe fn take<T: Vector, const MAX: bool>(to: *mut f32, scratch: *mut i32, lines: &Lines<'_>) {
    let (n, step, columns) = (lines.windows, lines.step, lines.columns);
    let mut i = 0;
    let to = |i: usize| to.wrapping_add(i * n);
    let (whole, lanes) = (!lines.edge, T::LANES);
    while i < lines.count {
        // SAFETY: the caller's promise. The compiler knows the numbers of rows and columns of usual windows.
        unsafe {
            i = match (step, lines.rows, columns) {
                _ if lines.padding.is_nan() => i,
                (2, &[a, b, c], &[0, 1, 2]) if whole && inner::<2, 3>(lines).len() >= lanes => {
                    each(i, lines, |i| near::<T, 2, 3, MAX>(to(i), i, &[a, b, c], lines))
                }
                (2, &[a, b], &[0, 1]) if whole && inner::<2, 2>(lines).len() >= lanes => {
                    each(i, lines, |i| near::<T, 2, 2, MAX>(to(i), i, &[a, b], lines))
                }
                (1, &[a, b, c], &[0, 1, 2]) if whole && inner::<1, 3>(lines).len() >= lanes => {
                    each(i, lines, |i| near::<T, 1, 3, MAX>(to(i), i, &[a, b, c], lines))
                }
                _ => each(i, lines, |i| {
                    let numbers = places::<T, MAX, false>(scratch, i, lines.rows, lines);
                    match step {
                        _ if !numbers => {}
                        1 => windows::<T, 1, MAX, false>(n, to(i), scratch, columns),
                        _ => windows::<T, 2, MAX, false>(n, to(i), scratch, columns),
                    }
                    numbers
                }),
            };
            if i < lines.count {
                places::<T, MAX, true>(scratch, i, lines.rows, lines);
                match step {
                    1 => windows::<T, 1, MAX, true>(n, to(i), scratch, columns),
                    _ => windows::<T, 2, MAX, true>(n, to(i), scratch, columns),
                }
                i += 1;
            }
        }
    }
}
