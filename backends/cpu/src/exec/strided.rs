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
    // SAFETY: the instructions exist; the caller's promise.
    unsafe {
        match isa {
            Isa::Baseline => false,
            Isa::Avx2 => x86::load_avx2(to, from, lines),
            Isa::Avx512 => x86::load_avx512(to, from, lines),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (isa, to, from, lines);
        false
    }
}

/// Writes a dense block to lines and nothing between their elements; otherwise as [`load`].
///
/// # Safety
/// As [`load`].
#[inline]
pub(super) unsafe fn store(isa: Isa, to: *mut u32, from: *const u32, lines: Lines) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instructions exist; the caller's promise.
    unsafe {
        match isa {
            Isa::Baseline => false,
            Isa::Avx2 => x86::store_avx2(to, from, lines),
            Isa::Avx512 => x86::store_avx512(to, from, lines),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (isa, to, from, lines);
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
        __m256i, __m512i, _mm256_and_si256, _mm256_blendv_epi8, _mm256_cmpeq_epi32, _mm256_loadu_si256,
        _mm256_maskload_epi32, _mm256_maskstore_epi32, _mm256_permutevar8x32_epi32, _mm256_set1_epi32,
        _mm256_setr_epi32, _mm256_storeu_si256, _mm512_loadu_si512, _mm512_mask_permutexvar_epi32,
        _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32, _mm512_permutexvar_epi32, _mm512_storeu_si512,
    };

    /// Most elements of a register.
    const MOST: usize = 16;

    /// A register of words. Masks have a bit for each.
    ///
    /// Methods may be called where the processor has the instructions; memory is valid for all words, or for those of the mask.
    trait Words: Copy {
        const LANES: usize;
        unsafe fn load(from: *const u32) -> Self;
        /// The other words are 0.
        unsafe fn load_some(mask: u16, from: *const u32) -> Self;
        unsafe fn store(self, to: *mut u32);
        unsafe fn store_some(self, mask: u16, to: *mut u32);
        /// Word `index[l]` of `from` in every place of the mask, and the words of `self` in the others.
        unsafe fn take(self, mask: u16, index: Self, from: Self) -> Self;
    }

    impl Words for __m512i {
        const LANES: usize = 16;
        #[inline(always)]
        unsafe fn load(from: *const u32) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }
        #[inline(always)]
        unsafe fn load_some(mask: u16, from: *const u32) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm512_maskz_loadu_epi32(mask, from.cast()) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u32) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.cast(), self) };
        }
        #[inline(always)]
        unsafe fn store_some(self, mask: u16, to: *mut u32) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_mask_storeu_epi32(to.cast(), mask, self) };
        }
        #[inline(always)]
        unsafe fn take(self, mask: u16, index: Self, from: Self) -> Self {
            // SAFETY: the caller's promise.
            unsafe {
                if mask == u16::MAX {
                    return _mm512_permutexvar_epi32(index, from);
                }
                _mm512_mask_permutexvar_epi32(self, mask, index, from)
            }
        }
    }

    /// The mask as words of ones and zeros.
    ///
    /// # Safety
    /// AVX2 exists.
    #[inline(always)]
    unsafe fn words(mask: u16) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask.into()), bits), bits)
        }
    }

    impl Words for __m256i {
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn load(from: *const u32) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm256_loadu_si256(from.cast()) }
        }
        #[inline(always)]
        unsafe fn load_some(mask: u16, from: *const u32) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm256_maskload_epi32(from.cast(), words(mask)) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u32) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_si256(to.cast(), self) };
        }
        #[inline(always)]
        unsafe fn store_some(self, mask: u16, to: *mut u32) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_maskstore_epi32(to.cast(), words(mask), self) };
        }
        #[inline(always)]
        unsafe fn take(self, mask: u16, index: Self, from: Self) -> Self {
            // SAFETY: the caller's promise.
            unsafe {
                let taken = _mm256_permutevar8x32_epi32(from, index);
                match mask as u8 {
                    u8::MAX => taken,
                    _ => _mm256_blendv_epi8(self, taken, words(mask)),
                }
            }
        }
    }

    /// For register `k` of a stretch of `L S` places: from which of its places each lane comes, and which lanes do.
    const fn lanes<const S: usize>(l: usize, k: usize) -> ([u32; MOST], u16) {
        let (mut from, mut mask) = ([0; MOST], 0);
        let mut lane = 0;
        while lane < l {
            if lane * S / l == k {
                from[lane] = (lane * S % l) as u32;
                mask |= 1 << lane;
            }
            lane += 1;
        }
        (from, mask)
    }

    /// For register `k`: which lane goes to each of its places, and which places get one.
    const fn places<const S: usize>(l: usize, k: usize) -> ([u32; MOST], u16) {
        let (mut from, mut mask) = ([0; MOST], 0);
        let mut place = 0;
        while place < l {
            let at = k * l + place;
            if at.is_multiple_of(S) {
                from[place] = (at / S) as u32;
                mask |= 1 << place;
            }
            place += 1;
        }
        (from, mask)
    }

    /// Of the `count` places from 0 on, those in register `k` of `l` lanes.
    #[inline(always)]
    fn inside(l: usize, count: usize, k: usize) -> u16 {
        let here = count.saturating_sub(k * l).min(l);
        ((1_u32 << here) - 1) as u16
    }

    /// # Safety
    /// The processor has the instructions; as [`super::load`] with the stride `S`.
    #[inline(always)]
    unsafe fn load<X: Words, const S: usize>(to: *mut u32, mut from: *const u32, lines: Lines) {
        let tables: [_; S] = std::array::from_fn(|k| lanes::<S>(X::LANES, k));
        let n = lines.length;
        let whole = n.saturating_sub(1) / X::LANES * X::LANES;
        let rest = n - whole;
        let reach = rest.saturating_sub(1) * S + usize::from(rest > 0);
        let ends: [u16; S] = std::array::from_fn(|k| inside(X::LANES, reach, k));
        let last = inside(X::LANES, rest, 0);
        let total = lines.count * n;
        let mut done = 0;
        // SAFETY: whole registers are read where an element lies behind them, and masked ones up to the last element. A whole one
        // is written where elements of later lines follow, which overwrite it.
        unsafe {
            let mut index = [X::load(tables[0].0.as_ptr()); S];
            for k in 1..S {
                index[k] = X::load(tables[k].0.as_ptr());
            }
            for _ in 0..lines.count {
                for i in (0..whole).step_by(X::LANES) {
                    let mut line = X::load(from.add(i * S));
                    if S > 1 {
                        line = line.take(u16::MAX, index[0], line);
                    }
                    for k in 1..S {
                        let part = X::load(from.add(i * S + k * X::LANES));
                        line = line.take(tables[k].1, index[k], part);
                    }
                    line.store(to.add(done + i));
                }
                let start = from.wrapping_add(whole * S);
                let mut line = X::load_some(ends[0], start);
                if S > 1 {
                    line = line.take(u16::MAX, index[0], line);
                }
                for k in 1..S {
                    let part = X::load_some(ends[k], start.wrapping_add(k * X::LANES));
                    line = line.take(tables[k].1, index[k], part);
                }
                let end = to.wrapping_add(done + whole);
                if total - (done + whole) >= X::LANES {
                    line.store(end);
                } else {
                    line.store_some(last, end);
                }
                done += n;
                from = from.wrapping_offset(lines.step);
            }
        }
    }

    /// # Safety
    /// The processor has the instructions; as [`super::store`] with the stride `S`.
    #[inline(always)]
    unsafe fn store<X: Words, const S: usize>(mut to: *mut u32, mut from: *const u32, lines: Lines) {
        let tables: [_; S] = std::array::from_fn(|k| places::<S>(X::LANES, k));
        let n = lines.length;
        // SAFETY: masks leave out all places but those of elements.
        unsafe {
            let mut index = [X::load(tables[0].0.as_ptr()); S];
            for k in 1..S {
                index[k] = X::load(tables[k].0.as_ptr());
            }
            for _ in 0..lines.count {
                for i in (0..n).step_by(X::LANES) {
                    let rest = (n - i).min(X::LANES);
                    let line = X::load_some(inside(X::LANES, rest, 0), from.add(i));
                    for k in 0..S {
                        let mask = tables[k].1 & inside(X::LANES, rest * S, k);
                        let part = line.take(u16::MAX, index[k], line);
                        part.store_some(mask, to.wrapping_add(i * S + k * X::LANES));
                    }
                }
                from = from.wrapping_add(n);
                to = to.wrapping_offset(lines.step);
            }
        }
    }

    macro_rules! routines {
        ($($name:ident: $routine:ident::<$X:ty>($to:ty, $from:ty), $features:literal;)*) => {$(
            /// # Safety
            #[doc = concat!("The processor has ", $features, "; as [`super::", stringify!($routine), "`].")]
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(to: $to, from: $from, lines: Lines) -> bool {
                // SAFETY: the caller's promise.
                unsafe {
                    match lines.stride {
                        1 => $routine::<$X, 1>(to, from, lines),
                        2 => $routine::<$X, 2>(to, from, lines),
                        3 => $routine::<$X, 3>(to, from, lines),
                        4 => $routine::<$X, 4>(to, from, lines),
                        _ => return false,
                    }
                }
                true
            }
        )*};
    }

    routines! {
        load_avx2: load::<__m256i>(*mut u32, *const u32), "avx2";
        load_avx512: load::<__m512i>(*mut u32, *const u32), "avx512f";
        store_avx2: store::<__m256i>(*mut u32, *const u32), "avx2";
        store_avx512: store::<__m512i>(*mut u32, *const u32), "avx512f";
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::isa::Isa;

    #[test]
    fn every_length_and_stride_moves_the_elements_and_no_other() {
        (Isa::ALL.into_iter().filter(|isa| isa.is_available())).for_each(moves);
    }

    fn moves(isa: Isa) {
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
                let done = unsafe { super::load(isa, dense.as_mut_ptr(), wide.as_ptr(), lines) };
                assert_eq!(done, stride < 5 && isa != Isa::Baseline);
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
                unsafe { super::store(isa, back.as_mut_ptr(), dense.as_ptr(), lines) };
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
