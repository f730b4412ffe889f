//! The clock of all times that cross the contract, and a cheaper counter that is turned into it later.
//!
//! Times are nanoseconds of the system's `CLOCK_MONOTONIC`. Its epoch is the system's, so the host and every plugin of a process
//! mean the same moment by the same number.
//!
//! Reading that clock costs some 30 ns. Where work is measured at both ends and thousands of times, [`ticks`] reads the processor's
//! counter instead, at less than half the cost, and a [`Scale`] turns the numbers into nanoseconds afterwards. A [`Line`] does the same
//! for the clock of a device.
//!
//! ```
//! use thalweg_hal::clock::{Scale, now, ticks};
//! let mut scale = Scale::new();
//! let (before, start, after) = (now(), ticks(), now());
//! scale.refresh();
//! // To a microsecond, and without its own cost.
//! let time = scale.nanoseconds(start);
//! assert!((before.saturating_sub(1_000)..after + 1_000).contains(&time));
//! ```

mod line;
mod scale;

pub use line::Line;
pub use scale::{Scale, together};

use std::sync::atomic::{AtomicU8, Ordering};

/// Nanoseconds of `CLOCK_MONOTONIC`, at least 1.
#[inline]
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable. The clock is there on every system that this is built for, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).max(1)
}

// What `ticks` reads. The first call finds it out, and it stays.
const UNKNOWN: u8 = 0;
const COUNTER: u8 = 1;
const CLOCK: u8 = 2;
static SOURCE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The processor's time stamp counter where it runs at one rate on all cores, otherwise [`now`]. Only a [`Scale`] knows what its
/// numbers mean.
#[inline]
pub fn ticks() -> u64 {
    match is_counter() {
        true => counter(),
        false => now(),
    }
}

/// Whether [`ticks`] reads a counter, not the clock.
#[inline]
fn is_counter() -> bool {
    match SOURCE.load(Ordering::Relaxed) {
        UNKNOWN => detect(),
        source => source == COUNTER,
    }
}

#[cold]
fn detect() -> bool {
    let counter = is_invariant() && kernel_trusts_it();
    SOURCE.store(if counter { COUNTER } else { CLOCK }, Ordering::Relaxed);
    counter
}

/// Whether the kernel has not found the counters of the cores apart. It takes a counter that runs away from the others out of this
/// list, which `cpuid` says nothing about. Without the list `cpuid` alone decides.
fn kernel_trusts_it() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .map_or(true, |list| list.split_whitespace().any(|name| name == "tsc"))
}

/// Whether the counter runs at one rate in every state of the processor.
#[cfg(target_arch = "x86_64")]
fn is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx >> 8 & 1 == 1
}

#[cfg(not(target_arch = "x86_64"))]
fn is_invariant() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    now()
}

#[cfg(test)]
mod tests;
