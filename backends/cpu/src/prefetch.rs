//! Asking the memory ahead of time.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

macro_rules! asks {
    ($($(#[$doc:meta])* $name:ident: $hint:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(from: *const u8, bytes: usize) {
            for line in 0..bytes.div_ceil(LINE) {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a prefetch never faults; a processor without this one takes it as no operation.
                unsafe {
                    use std::arch::x86_64::{$hint, _mm_prefetch};
                    _mm_prefetch::<$hint>(from.wrapping_add(line * LINE).cast());
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = (from, line);
            }
        }
    )*};
}
asks! {
    /// Asks for the lines of `bytes` bytes that will be written.
    ask_to_write: _MM_HINT_ET0;
    /// Asks for the lines of `bytes` bytes.
    ask: _MM_HINT_T0;
    /// Asks for the lines of `bytes` bytes into the second cache, because they would displace what the first one holds.
    ask_second: _MM_HINT_T1;
}
