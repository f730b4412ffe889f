//! Copies of lines from all over a table, while later ones are asked for: a processor asks by itself for what follows, and not for the
//! line after that.

use super::past;
use crate::isa::Isa;
use crate::prefetch::{self, LINE};

/// Bytes that are copied between a line and the one that is asked for meanwhile, at least.
const AHEAD: usize = 6 << 10;
/// A line up to this long is asked for whole; of a longer one the first bytes, and the processor goes on by itself.
const WHOLE: usize = 8 << 10;
pub(super) const FIRST: usize = 512;

/// How many lines of `bytes` bytes one is asked for before it is copied.
pub(super) fn distance(bytes: usize) -> usize {
    AHEAD.div_ceil(bytes.max(1))
}

/// Copies a line, past the caches where `far`, and asks for the one that begins at `next`.
///
/// # Safety
/// Both sides hold `bytes` bytes and do not overlap; the machine has the instruction set. With `far` the line is written to whole lines of
/// the cache.
pub(super) unsafe fn copy(
    isa: Isa,
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    next: Option<*const u8>,
    far: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (next, far) {
            (Some(next), true) if bytes <= WHOLE => return lines::<true>(isa, to, from, bytes, next),
            (Some(next), false) if bytes <= WHOLE => return lines::<false>(isa, to, from, bytes, next),
            (Some(next), _) => prefetch::ask(next, FIRST),
            (None, _) => {}
        }
        match far {
            true => past::stream(isa, to, from, bytes),
            false => to.copy_from_nonoverlapping(from, bytes),
        }
    }
}

/// # Safety
/// As [`copy`].
unsafe fn lines<const FAR: bool>(isa: Isa, to: *mut u8, from: *const u8, bytes: usize, next: *const u8) {
    let whole = bytes / LINE * LINE;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256, _mm512_loadu_si512,
            _mm512_storeu_si512, _mm512_stream_si512,
        };
        #[target_feature(enable = "avx512f")]
        unsafe fn avx512<const FAR: bool>(to: *mut u8, from: *const u8, bytes: usize, next: *const u8) {
            for at in (0..bytes).step_by(LINE) {
                prefetch::ask(next.wrapping_add(at), LINE);
                // SAFETY: the caller's promise.
                unsafe {
                    let (to, line) = (to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
                    match FAR {
                        true => _mm512_stream_si512(to, line),
                        false => _mm512_storeu_si512(to, line),
                    }
                }
            }
        }
        #[target_feature(enable = "avx")]
        unsafe fn avx<const FAR: bool>(to: *mut u8, from: *const u8, bytes: usize, next: *const u8) {
            for at in (0..bytes).step_by(LINE) {
                prefetch::ask(next.wrapping_add(at), LINE);
                // SAFETY: the caller's promise.
                unsafe {
                    let (to, from) = (to.add(at).cast::<__m256i>(), from.add(at).cast::<__m256i>());
                    let halves = [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))];
                    for (half, value) in halves.into_iter().enumerate() {
                        match FAR {
                            true => _mm256_stream_si256(to.add(half), value),
                            false => _mm256_storeu_si256(to.add(half), value),
                        }
                    }
                }
            }
        }
        // SAFETY: the instructions exist; the caller's promise.
        unsafe {
            match isa {
                Isa::Avx512 => avx512::<FAR>(to, from, whole, next),
                Isa::Avx2 => avx::<FAR>(to, from, whole, next),
                Isa::Baseline => {
                    prefetch::ask(next, whole);
                    to.copy_from_nonoverlapping(from, whole);
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        let _ = isa;
        to.copy_from_nonoverlapping(from, whole);
    }
    prefetch::ask(next.wrapping_add(whole), bytes - whole);
    // SAFETY: the caller's promise.
    unsafe {
        to.add(whole)
            .copy_from_nonoverlapping(from.add(whole), bytes - whole);
    }
}
