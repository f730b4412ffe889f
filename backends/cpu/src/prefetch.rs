//! Asking the memory ahead of time.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Asks for the lines of `bytes` bytes that will be written.
#[inline(always)]
pub(crate) fn ask_to_write(to: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch never faults; a processor without this one takes it as no operation.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(to.wrapping_add(line * LINE).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (to, line);
    }
}

/// Asks for the lines of `bytes` bytes.
#[inline(always)]
pub(crate) fn ask(from: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch never faults.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line * LINE).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (from, line);
    }
}
