//! Waits that look whether something holds.

use crate::status::{Error, Result, Status};
use std::time::{Duration, Instant};

/// How long a thread spins for new work before it sleeps.
pub const SPIN: Duration = Duration::from_micros(100);

/// Looks `times` times whether `done` holds; whether it did.
pub(super) fn look(times: u32, mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..times {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// Spins for [`SPIN`] until `done` holds; whether it did. From time to time it lets others have the core: with as many threads at
/// work as there are cores, the one that is waited for may be one of them.
pub fn spin_until(mut done: impl FnMut() -> bool) -> bool {
    // Reading the clock costs more than a look at `done`.
    const LOOKS: u32 = 64;
    let start = Instant::now();
    while !look(LOOKS, &mut done) {
        if start.elapsed() >= SPIN {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Waits for `done` by looking: spins as [`spin_until`], then sleeps for a millisecond at most between two looks. A time limit
/// of 0 is one look.
///
/// # Errors
/// [`Status::Timeout`] when `done` does not hold within `timeout`.
pub fn poll_until(timeout: Duration, mut done: impl FnMut() -> bool) -> Result<()> {
    const LONGEST_SLEEP: Duration = Duration::from_millis(1);
    let start = Instant::now();
    if !timeout.is_zero() && spin_until(&mut done) {
        return Ok(());
    }
    let mut sleep = Duration::from_micros(20);
    while !done() {
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(Error::new(
                Status::Timeout,
                format!("the event was not reached within {} ns", timeout.as_nanos()),
            ));
        }
        std::thread::sleep(sleep.min(left));
        sleep = (sleep * 2).min(LONGEST_SLEEP);
    }
    Ok(())
}
