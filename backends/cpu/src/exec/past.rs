//! Writes past the caches.

use crate::isa::Isa;
use crate::prefetch::LINE;

/// Writes a block past the caches.
///
/// # Safety
/// Both sides hold `bytes` bytes and do not overlap; the machine has the instruction set.
pub(super) unsafe fn stream(isa: Isa, to: *mut u8, from: *const u8, bytes: usize) {
    let head = to.align_offset(LINE).min(bytes);
    let done = head + (bytes - head) / LINE * LINE;
    // SAFETY: the caller's promise; whole lines are written at aligned addresses.
    unsafe {
        if head > 0 {
            to.copy_from_nonoverlapping(from, head);
        }
        stream_lines(isa, (to.add(head), 0), from.add(head), done - head, 1);
        if done < bytes {
            to.add(done)
                .copy_from_nonoverlapping(from.add(done), bytes - done);
        }
    }
}

/// Writes `count` blocks of a dense sheet past the caches, `step` bytes from one to the next.
///
/// # Safety
/// As [`stream`], for each block.
pub(super) unsafe fn stream_sheet(
    isa: Isa,
    (to, step): (*mut u8, isize),
    from: *const u8,
    bytes: usize,
    count: usize,
) {
    let whole = (to as usize | step as usize | bytes).is_multiple_of(LINE);
    // SAFETY: the caller's promise; whole lines are written at aligned addresses.
    unsafe {
        if whole {
            return stream_lines(isa, (to, step), from, bytes, count);
        }
        for block in 0..count {
            stream(
                isa,
                to.offset(block as isize * step),
                from.add(block * bytes),
                bytes,
            );
        }
    }
}

/// Writes blocks of whole lines past the caches.
///
/// # Safety
/// As [`stream_sheet`]; every block is aligned to a line and ends with one.
#[inline]
unsafe fn stream_lines(isa: Isa, (to, step): (*mut u8, isize), from: *const u8, bytes: usize, count: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m256i, _mm256_loadu_si256, _mm256_stream_si256, _mm512_loadu_si512, _mm512_stream_si512,
        };
        #[target_feature(enable = "avx512f")]
        unsafe fn avx512(to: (*mut u8, isize), from: *const u8, bytes: usize, count: usize) {
            each(to, from, bytes, count, 64, |to, from| {
                // SAFETY: the caller's promise.
                unsafe { _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())) };
            });
        }
        #[target_feature(enable = "avx")]
        unsafe fn avx(to: (*mut u8, isize), from: *const u8, bytes: usize, count: usize) {
            each(to, from, bytes, count, 32, |to, from| {
                // SAFETY: the caller's promise.
                unsafe {
                    let value = _mm256_loadu_si256(from.cast::<__m256i>());
                    _mm256_stream_si256(to.cast::<__m256i>(), value);
                }
            });
        }
        // SAFETY: the instructions exist; the caller's promise.
        unsafe {
            match isa {
                Isa::Avx512 => return avx512((to, step), from, bytes, count),
                Isa::Avx2 => return avx((to, step), from, bytes, count),
                Isa::Baseline => {}
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    for block in 0..count {
        let (to, from) = (
            to.wrapping_offset(block as isize * step),
            from.wrapping_add(block * bytes),
        );
        // SAFETY: the caller's promise.
        unsafe { stream_narrow(to, from, bytes) };
    }
}

/// Calls `put` for every `width` bytes of `count` blocks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn each(
    (to, step): (*mut u8, isize),
    from: *const u8,
    bytes: usize,
    count: usize,
    width: usize,
    put: impl Fn(*mut u8, *const u8),
) {
    for block in 0..count {
        let (to, from) = (
            to.wrapping_offset(block as isize * step),
            from.wrapping_add(block * bytes),
        );
        for at in (0..bytes).step_by(width) {
            put(to.wrapping_add(at), from.wrapping_add(at));
        }
    }
}

/// Writes whole lines past the caches with the narrowest registers, where they may be in registers already.
///
/// # Safety
/// As [`stream`]; `to` is aligned to a line, and `bytes` are a multiple of one.
#[inline(always)]
pub(crate) unsafe fn stream_narrow(to: *mut u8, from: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(16) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        // SAFETY: SSE2 is part of the target; the caller's promise.
        unsafe {
            let value = _mm_loadu_si128(from.add(at).cast::<__m128i>());
            _mm_stream_si128(to.add(at).cast::<__m128i>(), value);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(from, bytes);
    }
}

/// Orders streamed writes before what follows.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of the target.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE, fence, stream_sheet};
    use crate::isa::Isa;

    /// Blocks of whole lines, blocks that begin or end within one, and steps that are no lines; nothing between them is written.
    #[test]
    fn sheets_of_every_place() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (shift, step, bytes, count) in [
                (0, 3 * LINE, 2 * LINE, 5),
                (0, LINE, LINE, 1),
                (0, 200, 2 * LINE, 4),
                (16, 4 * LINE, 3 * LINE, 3),
                (7, 300, 250, 3),
                (60, 64, 3, 2),
            ] {
                let from: Vec<u8> = (0..bytes * count).map(|i| (i * 7 + i / 251) as u8).collect();
                let mut to = vec![0xa5; 2 * LINE + step * count];
                let first = to.as_ptr().align_offset(LINE) + shift;
                let mut expected = to.clone();
                for (block, from) in from.chunks_exact(bytes).enumerate() {
                    expected[first + block * step..][..bytes].copy_from_slice(from);
                }
                // SAFETY: both sides hold the blocks, and the machine has the instruction set.
                unsafe {
                    let to = to.as_mut_ptr().add(first);
                    stream_sheet(isa, (to, step as isize), from.as_ptr(), bytes, count);
                }
                fence();
                assert!(to == expected, "{} {shift} {step} {bytes} {count}", isa.name());
            }
        }
    }
}
