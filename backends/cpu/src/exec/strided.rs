//! Lines of 4-byte elements a few places apart, by registers: windows of pools, strided slices, short rows.

use crate::isa::Isa;

/// Lines of one length: dense on one side, `stride` between elements and `step` between lines on the other.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) count: usize,
    pub(super) length: usize,
    pub(super) stride: isize,
    pub(super) step: isize,
}

/// Reads lines into a dense block; `false` where no routine suits the stride or the machine, and nothing was done.
///
/// # Safety
/// The machine has the instruction set; the elements of all lines are readable and writable, and so are those between two of a line; the sides do not overlap.
#[inline]
pub(super) unsafe fn load(isa: Isa, to: *mut u32, from: *const u32, lines: Lines) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        // SAFETY: the instructions exist; the caller's promise.
        unsafe {
            match lines.stride {
                1 => x86::load::<1>(to, from, lines),
                2 => x86::load::<2>(to, from, lines),
                3 => x86::load::<3>(to, from, lines),
                4 => x86::load::<4>(to, from, lines),
                _ => return false,
            }
        }
        return true;
    }
    let _ = (isa, to, from, lines);
    false
}

/// Writes a dense block to lines and nothing between their elements; otherwise as [`load`].
///
/// # Safety
/// As [`load`].
#[inline]
pub(super) unsafe fn store(isa: Isa, to: *mut u32, from: *const u32, lines: Lines) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        // SAFETY: the instructions exist; the caller's promise.
        unsafe {
            match lines.stride {
                1 => x86::store::<1>(to, from, lines),
                2 => x86::store::<2>(to, from, lines),
                3 => x86::store::<3>(to, from, lines),
                4 => x86::store::<4>(to, from, lines),
                _ => return false,
            }
        }
        return true;
    }
    let _ = (isa, to, from, lines);
    false
}

/// Reads lines from the last element on, back to the first, into a dense block; `false` where they are short or the machine does not suit, and
/// nothing was done.
///
/// # Safety
/// As [`load`].
#[inline]
pub(super) unsafe fn backwards(isa: Isa, to: *mut u32, from: *const u32, lines: Lines) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 && lines.length >= x86::BACKWARDS {
        // SAFETY: the instructions exist; the caller's promise.
        unsafe { x86::backwards(to, from, lines) };
        return true;
    }
    let _ = (isa, to, from, lines);
    false
}

/// Reads neighbours, each as often as a line is long, into a dense block; `false` where the lines are others or the machine does not suit,
/// and nothing was done.
///
/// # Safety
/// As [`load`].
#[inline]
pub(super) unsafe fn repeated(isa: Isa, to: *mut u32, from: *const u32, lines: Lines) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 && (lines.stride, lines.step) == (0, 1) {
        // SAFETY: the instructions exist; the caller's promise.
        unsafe {
            match lines.length {
                2 => x86::repeated::<2>(to, from, lines.count),
                4 => x86::repeated::<4>(to, from, lines.count),
                8 => x86::repeated::<8>(to, from, lines.count),
                _ => return false,
            }
        }
        return true;
    }
    let _ = (isa, to, from, lines);
    false
}

/// Reads every second of `2 n - 1` elements, which is quick for those of up to four bytes; `false` where no routine suits the size,
/// the number or the machine, and nothing was done.
///
/// # Safety
/// These elements are readable, and `to` holds `n`; the sides do not overlap.
#[inline]
pub(super) unsafe fn every_second<T: Copy>(to: *mut T, from: *const T, n: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of the target; the caller's promise.
    unsafe {
        use std::arch::x86_64::{
            __m128i, _mm_and_si128, _mm_castsi128_ps, _mm_loadu_si128, _mm_packs_epi32, _mm_packus_epi16,
            _mm_set1_epi16, _mm_shuffle_ps, _mm_slli_epi32, _mm_srai_epi32, _mm_srli_epi16, _mm_storeu_ps,
            _mm_storeu_si128,
        };
        let lanes = 16 / size_of::<T>();
        if n < lanes || size_of::<T>() > 4 {
            return false;
        }
        for first in (0..n).step_by(lanes) {
            // The last ones overlap those before. Of the second half, the elements are at odd places, so that none behind is read.
            let first = first.min(n - lanes);
            let low = _mm_loadu_si128(from.add(2 * first).cast::<__m128i>());
            let high = _mm_loadu_si128(from.add(2 * first + lanes - 1).cast::<__m128i>());
            if size_of::<T>() == 1 {
                let low = _mm_and_si128(low, _mm_set1_epi16(0xff));
                let both = _mm_packus_epi16(low, _mm_srli_epi16::<8>(high));
                _mm_storeu_si128(to.add(first).cast(), both);
            } else if size_of::<T>() == 2 {
                let low = _mm_srai_epi32::<16>(_mm_slli_epi32::<16>(low));
                let both = _mm_packs_epi32(low, _mm_srai_epi32::<16>(high));
                _mm_storeu_si128(to.add(first).cast(), both);
            } else {
                let both = _mm_shuffle_ps::<0b11_01_10_00>(_mm_castsi128_ps(low), _mm_castsi128_ps(high));
                _mm_storeu_ps(to.add(first).cast(), both);
            }
        }
        true
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (to, from, n);
        false
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(
    clippy::needless_range_loop,
    reason = "registers, tables and masks share an index"
)]
mod x86 {
    use super::Lines;
    use std::arch::x86_64::{
        __m512i, _mm_loadu_si128, _mm256_castsi128_si256, _mm256_loadu_si256, _mm256_permutevar8x32_epi32,
        _mm256_setr_epi32, _mm256_storeu_si256, _mm512_loadu_si512, _mm512_mask_permutexvar_epi32,
        _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32, _mm512_maskz_permutexvar_epi32,
        _mm512_permutexvar_epi32,
    };

    /// Elements of a register.
    const LANES: usize = 16;
    /// Elements of one of AVX2.
    pub(super) const BACKWARDS: usize = 8;

    /// # Safety
    /// AVX2 exists; as [`super::backwards`], of lines of [`BACKWARDS`] elements at least.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn backwards(mut to: *mut u32, mut from: *const u32, lines: Lines) {
        let turned = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
        for _ in 0..lines.count {
            for first in (0..lines.length).step_by(BACKWARDS) {
                // The last ones overlap those before.
                let first = first.min(lines.length - BACKWARDS);
                // SAFETY: so many elements lie before the one that `from` points at, and as many fit.
                unsafe {
                    let part = _mm256_loadu_si256(from.sub(first + BACKWARDS - 1).cast());
                    _mm256_storeu_si256(to.add(first).cast(), _mm256_permutevar8x32_epi32(part, turned));
                }
            }
            to = to.wrapping_add(lines.length);
            from = from.wrapping_offset(lines.step);
        }
    }

    /// Elements of a register of SSE2.
    const READ: usize = 4;

    /// Each of `count` elements `TIMES` times.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn repeated<const TIMES: i32>(to: *mut u32, from: *const u32, count: usize) {
        let lanes = _mm256_setr_epi32(
            0,
            1 / TIMES,
            2 / TIMES,
            3 / TIMES,
            4 / TIMES,
            5 / TIMES,
            6 / TIMES,
            7 / TIMES,
        );
        let times = TIMES as usize;
        // Elements of a register of results, for which as many are read as half of it holds.
        let part = 2 * READ / times;
        let whole = match count.checked_sub(READ) {
            Some(behind) => behind / part * part + part,
            None => 0,
        };
        // SAFETY: the caller vouches for the elements of both sides; four lie behind each of those that begin a register.
        unsafe {
            for at in (0..whole).step_by(part) {
                let some = _mm256_castsi128_si256(_mm_loadu_si128(from.add(at).cast()));
                let all = _mm256_permutevar8x32_epi32(some, lanes);
                _mm256_storeu_si256(to.add(at * times).cast(), all);
            }
            for at in whole..count {
                let element = *from.add(at);
                (0..times).for_each(|time| to.add(at * times + time).write(element));
            }
        }
    }

    /// For register `k` of a stretch of `16 S` places: from which of its places each lane comes, and which lanes do.
    const fn lanes<const S: usize>(k: usize) -> ([i32; LANES], u16) {
        let (mut from, mut mask) = ([0; LANES], 0);
        let mut lane = 0;
        while lane < LANES {
            if lane * S / LANES == k {
                from[lane] = (lane * S % LANES) as i32;
                mask |= 1 << lane;
            }
            lane += 1;
        }
        (from, mask)
    }

    /// For register `k`: which lane goes to each of its places, and which places get one.
    const fn places<const S: usize>(k: usize) -> ([i32; LANES], u16) {
        let (mut from, mut mask) = ([0; LANES], 0);
        let mut place = 0;
        while place < LANES {
            let at = k * LANES + place;
            if at.is_multiple_of(S) {
                from[place] = (at / S) as i32;
                mask |= 1 << place;
            }
            place += 1;
        }
        (from, mask)
    }

    /// Of the `count` places from 0 on, those in register `k`.
    #[inline]
    fn inside(count: usize, k: usize) -> u16 {
        let here = count.saturating_sub(k * LANES).min(LANES);
        ((1_u32 << here) - 1) as u16
    }

    /// # Safety
    /// AVX-512 F exists.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn table(of: &[i32; LANES]) -> __m512i {
        // SAFETY: the array has a register's lanes.
        unsafe { _mm512_loadu_si512(of.as_ptr().cast()) }
    }

    /// # Safety
    /// AVX-512 F exists; as [`super::load`] with the stride `S`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn load<const S: usize>(mut to: *mut u32, mut from: *const u32, lines: Lines) {
        let tables: [_; S] = std::array::from_fn(lanes::<S>);
        let n = lines.length;
        let whole = n.saturating_sub(1) / LANES * LANES;
        let rest = n - whole;
        let reach = rest.saturating_sub(1) * S + usize::from(rest > 0);
        let (ends, last): ([u16; S], u16) = (std::array::from_fn(|k| inside(reach, k)), inside(rest, 0));
        // SAFETY: whole registers are read where an element lies behind them, and masked ones up to the last element.
        unsafe {
            let mut index = [table(&tables[0].0); S];
            for (index, (from, _)) in index.iter_mut().zip(&tables) {
                *index = table(from);
            }
            for _ in 0..lines.count {
                for i in (0..whole).step_by(LANES) {
                    let part = _mm512_loadu_si512(from.add(i * S).cast());
                    let mut line = if S == 1 {
                        part
                    } else {
                        _mm512_permutexvar_epi32(index[0], part)
                    };
                    for k in 1..S {
                        let part = _mm512_loadu_si512(from.add(i * S + k * LANES).cast());
                        line = _mm512_mask_permutexvar_epi32(line, tables[k].1, index[k], part);
                    }
                    _mm512_mask_storeu_epi32(to.add(i).cast(), u16::MAX, line);
                }
                let start = from.wrapping_add(whole * S);
                let part = _mm512_maskz_loadu_epi32(ends[0], start.cast());
                let mut line = if S == 1 {
                    part
                } else {
                    _mm512_permutexvar_epi32(index[0], part)
                };
                for k in 1..S {
                    let part = _mm512_maskz_loadu_epi32(ends[k], start.wrapping_add(k * LANES).cast());
                    line = _mm512_mask_permutexvar_epi32(line, tables[k].1, index[k], part);
                }
                _mm512_mask_storeu_epi32(to.wrapping_add(whole).cast(), last, line);
                to = to.wrapping_add(n);
                from = from.wrapping_offset(lines.step);
            }
        }
    }

    /// # Safety
    /// AVX-512 F exists; as [`super::store`] with the stride `S`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn store<const S: usize>(mut to: *mut u32, mut from: *const u32, lines: Lines) {
        let tables: [_; S] = std::array::from_fn(places::<S>);
        let n = lines.length;
        // SAFETY: masks leave out all places but those of elements.
        unsafe {
            let mut index = [table(&tables[0].0); S];
            for (index, (from, _)) in index.iter_mut().zip(&tables) {
                *index = table(from);
            }
            for _ in 0..lines.count {
                for i in (0..n).step_by(LANES) {
                    let rest = (n - i).min(LANES);
                    let line = _mm512_maskz_loadu_epi32(inside(rest, 0), from.add(i).cast());
                    for k in 0..S {
                        let mask = tables[k].1 & inside(rest * S, k);
                        let part = _mm512_maskz_permutexvar_epi32(mask, index[k], line);
                        _mm512_mask_storeu_epi32(to.wrapping_add(i * S + k * LANES).cast(), mask, part);
                    }
                }
                from = from.wrapping_add(n);
                to = to.wrapping_offset(lines.step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::isa::Isa;

    #[test]
    fn every_second_element_is_read_and_none_behind_the_last() {
        fn check<T: Copy + PartialEq + std::fmt::Debug>(n: usize, of: impl Fn(usize) -> T) {
            let from: Vec<T> = (0..2 * n - 1).map(&of).collect();
            let mut to = vec![of(0); n + 1];
            // SAFETY: both sides have the elements.
            if unsafe { super::every_second(to.as_mut_ptr(), from.as_ptr(), n) } {
                let wanted: Vec<T> = (0..n).map(|i| of(2 * i)).chain([of(0)]).collect();
                assert_eq!(to, wanted, "{n} elements");
            } else {
                assert!(n < 16 || size_of::<T>() == 2 || cfg!(not(target_arch = "x86_64")));
            }
        }
        for n in 1..100 {
            check(n, |i| (i * 7 + 3) as u8);
            check(n, |i| (i * 7 + 3) as u16);
            check(n, |i| (i * 7 + 3) as u32);
        }
    }

    #[test]
    fn elements_are_repeated_and_none_behind_them_is_read_or_written() {
        for isa in [Isa::Avx2, Isa::Avx512]
            .into_iter()
            .filter(|isa| isa.is_available())
        {
            for length in [2, 4, 8] {
                for count in 0..40 {
                    let from: Vec<u32> = (0..count as u32).map(|i| i * 7 + 3).collect();
                    let mut to = vec![u32::MAX; count * length + 1];
                    let lines = Lines {
                        count,
                        length,
                        stride: 0,
                        step: 1,
                    };
                    // SAFETY: both sides have the elements.
                    assert!(unsafe { super::repeated(isa, to.as_mut_ptr(), from.as_ptr(), lines) });
                    let wanted = from.iter().flat_map(|&of| std::iter::repeat_n(of, length));
                    assert_eq!(
                        to,
                        wanted.chain([u32::MAX]).collect::<Vec<_>>(),
                        "{count} times {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_length_and_stride_moves_the_elements_and_no_other() {
        for stride in 1..6_usize {
            for length in (0..70).chain([1000]) {
                let (count, step) = (3, length * stride + 5);
                let lines = Lines {
                    count,
                    length,
                    stride: stride as isize,
                    step: step as isize,
                };
                let wide: Vec<u32> = (0..(count * step) as u32 + 9).map(|i| i * 7 + 1).collect();
                let mut dense = vec![0; count * length + 3];
                // SAFETY: both sides have the elements.
                let done = unsafe { super::load(Isa::detect(), dense.as_mut_ptr(), wide.as_ptr(), lines) };
                assert_eq!(done, stride < 5 && Isa::detect() == Isa::Avx512);
                if !done {
                    continue;
                }
                for (i, &value) in dense.iter().enumerate() {
                    let wanted = match i {
                        i if i >= count * length => 0,
                        i => wide[i / length * step + i % length * stride],
                    };
                    assert_eq!(value, wanted, "stride {stride}, length {length}, element {i}");
                }
                let mut back = vec![u32::MAX; wide.len()];
                // SAFETY: as above.
                unsafe { super::store(Isa::detect(), back.as_mut_ptr(), dense.as_ptr(), lines) };
                for (i, &value) in back.iter().enumerate() {
                    let (line, place) = (i / step, i % step);
                    let hit = line < count && place % stride == 0 && place / stride < length;
                    let wanted = if hit { wide[i] } else { u32::MAX };
                    assert_eq!(value, wanted, "stride {stride}, length {length}, place {i}");
                }
            }
        }
    }
}
