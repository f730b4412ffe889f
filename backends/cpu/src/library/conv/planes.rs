//! Copies what a block of the result takes from into padded planes.

use super::geometry::{AXES, Axis, Block, Layout, Pass};
use super::operands::Gathered;
use crate::library::gemm::{Element, Stored};
use smallvec::SmallVec;
use std::ops::Range;

/// One plane: `dst[j]` is `src` at `(first + j) * step` along each axis, or a lane of several channels there; zero where that is outside.
#[repr(C)]
pub(super) struct Plane<T: Stored> {
    pub(super) dst: *mut T::Acc,
    /// Extents of the plane.
    pub(super) extents: [usize; AXES],
    /// Where along each axis elements exist.
    pub(super) from: [usize; AXES],
    pub(super) to: [usize; AXES],
    /// Element of plane index 0, which need not exist.
    pub(super) src: *const T,
    /// Elements from one plane index to the next.
    pub(super) steps: [isize; AXES],
    /// The zeros are there.
    pub(super) framed: bool,
    /// What stands for zero.
    pub(super) zero: T::Acc,
    /// Channels whose elements are a lane of the plane, and elements from each to the next.
    pub(super) count: usize,
    pub(super) apart: isize,
}

/// Copies one plane; it may write up to 16 elements past its end.
pub(super) type PlaneFn<T> = unsafe fn(&Plane<T>);

/// Elements that a plane's copy may write past its end.
pub(super) const SLACK: usize = 64;

/// Along an axis, the element of plane index 0 of a block, and the indices whose elements exist.
pub(super) fn exist(axis: &Axis, phase: isize, at: usize, size: usize) -> (isize, Range<usize>) {
    let first = (at as isize + axis.low) * axis.step as isize + phase;
    let index_of = |element: isize| element.max(0).cast_unsigned().div_ceil(axis.step);
    let end = index_of(axis.extent as isize - first).min(size + axis.span);
    (first, index_of(-first).min(end)..end)
}

/// How the planes of a block are copied: for each phase of a channel, those of the first one with no source yet, and its elements from a
/// channel's first one to that of index 0.
pub(super) struct Planes<T: Stored> {
    of_phases: SmallVec<[(Plane<T>, isize); 1]>,
    samples: usize,
    plane: usize,
    /// Channels of a lane.
    each: usize,
}

impl<T: Stored> Planes<T> {
    /// Planes of lanes of `each` channels.
    pub(super) fn new(
        (each, zero): (usize, T::Acc),
        spatial: [isize; AXES],
        pass: &Pass,
        layout: &Layout,
        block: &Block,
        dst: *mut T::Acc,
    ) -> Planes<T> {
        let [a, b, c] = &pass.axes;
        let pairs = (a.phases.iter()).flat_map(|&pa| b.phases.iter().map(move |&pb| (pa, pb)));
        let phases = pairs.flat_map(|(pa, pb)| c.phases.iter().map(move |&pc| [pa, pb, pc]));
        let of_phase = |(phase, firsts): (usize, [isize; AXES])| {
            let mut job = Plane {
                dst: dst.wrapping_add(phase * layout.samples * layout.plane),
                extents: layout.extents,
                from: [0; AXES],
                to: [0; AXES],
                src: std::ptr::null(),
                steps: [0; AXES],
                framed: false,
                zero,
                count: 1,
                apart: 0,
            };
            let mut at = 0;
            for (i, axis) in pass.axes.iter().enumerate() {
                let (first, there) = exist(axis, firsts[i], block.at[i], block.size[i]);
                (job.from[i], job.to[i]) = (there.start, there.end);
                at += first * spatial[i];
                job.steps[i] = axis.step as isize * spatial[i];
            }
            (job, at)
        };
        Planes {
            of_phases: phases.enumerate().map(of_phase).collect(),
            samples: layout.samples,
            plane: layout.plane,
            each,
        }
    }

    /// Copies the planes of `channels`, or of lanes of them, for `samples`. Where `framed`, a copy to the same place has left its zeros.
    ///
    /// # Safety
    /// `gathered` is readable at every element, and there is room for the planes and `SLACK` elements.
    pub(super) unsafe fn copy(
        &self,
        plane: PlaneFn<T>,
        gathered: &Gathered<T>,
        (samples, channels): (Range<usize>, Range<usize>),
        framed: bool,
    ) {
        let apart = self.of_phases.len() * self.samples * self.plane;
        for (index, channel) in channels.enumerate() {
            let first_channel = channel * self.each;
            let src = gathered.at(samples.start, first_channel);
            for (phase, first) in &self.of_phases {
                for sample in 0..samples.len() {
                    let job = Plane {
                        dst: phase.dst.wrapping_add(index * apart + sample * self.plane),
                        src: src.wrapping_offset(first + sample as isize * gathered.sample),
                        framed,
                        count: self.each.min(gathered.channels - first_channel),
                        apart: gathered.channel,
                        ..*phase
                    };
                    // SAFETY: only elements that exist are read; planes lie one after another in `dst`.
                    unsafe { plane(&job) };
                }
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn loops<T: Stored>(p: &Plane<T>, row: impl Fn(*mut T::Acc, *const T, usize)) {
    let [_, lines, width] = p.extents;
    // SAFETY: the caller vouches for the plane and for the source's elements. A row that runs over its end is followed by zeros or by
    // rows that are copied after it.
    unsafe {
        if !p.framed {
            frame(p);
        }
        let [from, to] = [p.from[2], p.to[2]];
        if from == to {
            return;
        }
        for i in p.from[0]..p.to[0] {
            let dst = p.dst.add(i * lines * width + from);
            let src = p
                .src
                .wrapping_offset(i as isize * p.steps[0] + from as isize * p.steps[2]);
            for j in p.from[1]..p.to[1] {
                let src = src.wrapping_offset(j as isize * p.steps[1]);
                row(dst.add(j * width), src, to - from);
            }
        }
    }
}

/// Elements of a line below which a plane is cleared at once: zeros at the ends of short lines take longer.
const SHORT: usize = 32;

/// Writes the zeros.
#[inline(always)]
unsafe fn frame<T: Stored>(p: &Plane<T>) {
    let [rows, lines, width] = p.extents;
    if width < SHORT {
        for k in 0..rows * lines * width {
            // SAFETY: the caller vouches for the plane.
            unsafe { p.dst.add(k).write(p.zero) };
        }
        return;
    }
    for i in 0..rows {
        for j in 0..lines {
            let inside = (p.from[0]..p.to[0]).contains(&i) && (p.from[1]..p.to[1]).contains(&j);
            let (from, to) = if inside { (p.from[2], p.to[2]) } else { (0, 0) };
            for k in (0..from).chain(to..width) {
                // SAFETY: the caller vouches for the plane.
                unsafe { p.dst.add((i * lines + j) * width + k).write(p.zero) };
            }
        }
    }
}

/// Any layout.
#[inline(always)]
pub(super) unsafe fn any<T: Element>(p: &Plane<T>) {
    let strided = |step: isize| {
        move |dst: *mut T::Acc, src: *const T, count: usize| {
            for k in 0..count {
                // SAFETY: the caller vouches for the plane and for the source's elements.
                unsafe { dst.add(k).write((*src.offset(k as isize * step)).widen()) }
            }
        }
    };
    // SAFETY: the caller's contract. Constant steps let the compiler see neighbours.
    unsafe {
        match p.steps[2] {
            1 => loops(p, strided(1)),
            2 => loops(p, strided(2)),
            step => loops(p, strided(step)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Plane, any, loops};
    use crate::library::gemm::{Element, Load512};
    use crate::prefetch::ask;
    use std::arch::x86_64::{
        __m256i, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_si256, _mm256_maskload_epi32,
        _mm256_maskz_loadu_epi32, _mm256_permute4x64_epi64, _mm256_shuffle_ps, _mm256_storeu_si256,
        _mm512_castsi512_si256, _mm512_maskz_loadu_epi32, _mm512_permutex2var_epi32, _mm512_setr_epi32,
        _mm512_setzero_si512, _mm512_storeu_si512,
    };

    /// Bytes between what is copied and what is asked for.
    const AHEAD: usize = 4 << 10;

    /// With AVX2.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(in super::super) unsafe fn avx2<T: Element>(p: &Plane<T>) {
        // SAFETY: same contract; a row of elements that are sums already is copied as it is.
        unsafe {
            match (T::DIRECT, size_of::<T>(), p.steps[2]) {
                (true, 4, 1) => loops(p, |dst, src, count| words(dst.cast(), src.cast(), count)),
                // The compiler takes longer rows by registers, too.
                (true, 4, 2) if p.to[2] - p.from[2] <= LANES => {
                    loops(p, |dst, src, count| second_words(dst.cast(), src.cast(), count));
                }
                (true, _, 1) => loops(p, |dst, src, count| copy::<T::Acc>(dst, src.cast(), count)),
                _ => any(p),
            }
        }
    }

    /// Lanes of 32 bits of a register.
    const LANES: usize = 8;
    /// From its `LANES - n`th number on, the mask of the first n lanes.
    static MASKS: [i32; 2 * LANES] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    /// The first `count` words from `src` on, then zeros.
    #[target_feature(enable = "avx2")]
    unsafe fn some(src: *const u32, count: usize) -> __m256i {
        // SAFETY: the caller vouches for so many words; others are not read.
        unsafe {
            let mask = _mm256_loadu_si256(MASKS.as_ptr().add(LANES - count).cast());
            _mm256_maskload_epi32(src.cast(), mask)
        }
    }

    /// Copies a row of words by registers; the last one runs over its end with zeros.
    #[target_feature(enable = "avx2")]
    unsafe fn words(dst: *mut u32, src: *const u32, count: usize) {
        // SAFETY: the caller vouches for `count` words of both and for what is written behind them.
        unsafe {
            let whole = count / LANES * LANES;
            for k in (0..whole).step_by(LANES) {
                _mm256_storeu_si256(dst.add(k).cast(), _mm256_loadu_si256(src.add(k).cast()));
            }
            if whole < count {
                _mm256_storeu_si256(dst.add(whole).cast(), some(src.add(whole), count - whole));
            }
        }
    }

    /// Every second word of a row of at most [`LANES`], which runs over its end with zeros.
    #[target_feature(enable = "avx2")]
    unsafe fn second_words(dst: *mut u32, src: *const u32, count: usize) {
        // SAFETY: as above; the last word that is read is the last one that is wanted.
        unsafe {
            let read = 2 * count - 1;
            let low = some(src, read.min(LANES));
            let high = some(src.add(read.min(LANES)), read.saturating_sub(LANES));
            let pairs = _mm256_shuffle_ps::<0x88>(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
            let in_order = _mm256_permute4x64_epi64::<0xd8>(_mm256_castps_si256(pairs));
            _mm256_storeu_si256(dst.cast(), in_order);
        }
    }

    /// Copies a row by registers; the last one begins earlier where it would not fit.
    #[inline(always)]
    unsafe fn copy<S: Copy>(dst: *mut S, src: *const S, count: usize) {
        /// Elements of a step: a register of 4 bytes each, two of 8.
        const STEP: usize = 8;
        // SAFETY: the caller vouches for `count` elements of both.
        unsafe {
            if count < STEP {
                for k in 0..count {
                    dst.add(k).write(*src.add(k));
                }
                return;
            }
            let step = |at: usize| {
                dst.add(at)
                    .cast::<[S; STEP]>()
                    .write_unaligned(src.add(at).cast::<[S; STEP]>().read_unaligned())
            };
            for at in (0..=count - STEP).step_by(STEP) {
                step(at);
            }
            if !count.is_multiple_of(STEP) {
                step(count - STEP);
            }
        }
    }

    /// With AVX-512 and whole registers: a row's last one runs over its end with zeros.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in super::super) unsafe fn avx512<T: Load512>(p: &Plane<T>) {
        // SAFETY: same contract; what is written past a row's end is written again or is slack.
        unsafe {
            let are_words = T::DIRECT && size_of::<T>() == 4;
            match p.steps[2] {
                1 if are_words && p.to[2] - p.from[2] <= LANES => {
                    loops(p, |dst, src, count| few_words(dst.cast(), src.cast(), count));
                    return;
                }
                1 => {}
                // The compiler takes longer rows by registers, too.
                2 if are_words && p.to[2] - p.from[2] <= WORDS => {
                    loops(p, |dst, src, count| every_second(dst.cast(), src.cast(), count));
                    return;
                }
                _ => {
                    any(p);
                    return;
                }
            }
            loops(p, |dst, src, count| {
                for k in (0..count).step_by(T::LANES) {
                    ask(src.wrapping_add(k + AHEAD / size_of::<T>()).cast(), 1);
                    T::store(dst.add(k), T::load(src.add(k), T::LANES.min(count - k)));
                }
            });
        }
    }

    /// A row of at most [`LANES`] words, which runs over its end with zeros.
    #[target_feature(enable = "avx512f,avx512vl")]
    unsafe fn few_words(dst: *mut u32, src: *const u32, count: usize) {
        // SAFETY: the caller vouches for the words and for what is written behind them.
        unsafe {
            ask(src.wrapping_add(AHEAD / size_of::<u32>()).cast(), 1);
            let words = _mm256_maskz_loadu_epi32(((1_u32 << count) - 1) as u8, src.cast());
            _mm256_storeu_si256(dst.cast(), words);
        }
    }

    /// Every second word of a row of at most [`WORDS`], which runs over its end with zeros.
    #[target_feature(enable = "avx512f,avx512vl")]
    unsafe fn every_second(dst: *mut u32, src: *const u32, count: usize) {
        // SAFETY: the caller vouches for the words and for what is written behind them. Others than those that are wanted, and what lies
        // between them, are not read.
        unsafe {
            let index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let read = 2 * count - 1;
            ask(
                src.wrapping_add(AHEAD / size_of::<u32>()).cast(),
                read * size_of::<u32>(),
            );
            let mask = u32::MAX >> (2 * WORDS - read);
            let low = _mm512_maskz_loadu_epi32(mask as u16, src.cast());
            if read <= WORDS {
                let even = _mm512_permutex2var_epi32(low, index, _mm512_setzero_si512());
                _mm256_storeu_si256(dst.cast(), _mm512_castsi512_si256(even));
            } else {
                let high = _mm512_maskz_loadu_epi32((mask >> WORDS) as u16, src.add(WORDS).cast());
                let even = _mm512_permutex2var_epi32(low, index, high);
                _mm512_storeu_si512(dst.cast(), even);
            }
        }
    }

    /// Words of a register of AVX-512.
    const WORDS: usize = 16;
}
