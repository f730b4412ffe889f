//! Whether a history of memory is kept.

use super::switch;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Buffers of this size and more are listed: next to filling one, entering it costs nothing.
const LARGE: u64 = 1 << 20;

/// Buffers of this size and more are listed now.
pub(crate) static LISTED: AtomicU64 = AtomicU64::new(LARGE);

/// Changes that are kept for a device; 0 where no history is.
static HISTORY: AtomicUsize = AtomicUsize::new(0);

/// How many changes are kept for a device.
pub(crate) fn history() -> usize {
    HISTORY.load(Ordering::Relaxed)
}

/// Keeps as many changes, and lists every buffer; with 0 none, and the large ones.
pub(crate) fn set_history(changes: usize) {
    HISTORY.store(changes, Ordering::Relaxed);
    LISTED.store(if changes > 0 { 0 } else { LARGE }, Ordering::Relaxed);
    switch::set_names(changes > 0);
}
