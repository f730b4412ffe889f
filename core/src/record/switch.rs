//! What is recorded now.

use std::sync::atomic::{AtomicU32, Ordering};

/// Low half: what is on. High half: which session it is on for. Events carry it, so that one that comes late is not taken for one of
/// the next session.
static ON: AtomicU32 = AtomicU32::new(0);

/// Runs of programs, and what the device says of their commands.
pub(crate) const RUNS: u32 = 1 << 0;
/// Calls of ops on the host.
pub(crate) const OPS: u32 = 1 << 1;
/// Memory that is taken and given back.
pub(crate) const MEMORY: u32 = 1 << 2;
/// Stretches and points of time, figures and errors.
pub(crate) const SPANS: u32 = 1 << 3;

/// Ops are named for somebody else than a session.
const NAMES: u32 = 1 << 15;
/// Somebody looks at values.
pub(crate) const VALUES: u32 = 1 << 14;
/// Ops are named for graphs that are saved and for files about kernels.
pub(crate) const GRAPHS: u32 = 1 << 13;
/// What no session changes.
const LASTING: u32 = NAMES | VALUES | GRAPHS;
/// Everything that a session records.
pub(crate) const ALL: u32 = RUNS | OPS | MEMORY | SPANS;

/// What is on, and for which session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct On(u32);

impl On {
    /// Whether this is recorded.
    #[inline]
    pub(crate) fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// The session.
    pub(crate) fn session(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// What is on now. One relaxed load.
#[inline(always)]
pub(crate) fn on() -> On {
    On(ON.load(Ordering::Relaxed))
}

/// What is on now; `None` for nothing.
#[inline(always)]
pub(crate) fn seen() -> Option<On> {
    match ON.load(Ordering::Relaxed) {
        0 => None,
        on => Some(On(on)),
    }
}

/// Whether nothing is recorded.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    ON.load(Ordering::Relaxed) == 0
}

/// Sets what is on for a session; with no bits, nothing is, and there is none.
pub(super) fn set(bits: u32, session: u16) {
    let on = match bits & ALL {
        0 => 0,
        bits => bits | u32::from(session) << 16,
    };
    change(|old| old & LASTING | on);
}

/// Whether ops get names without a session.
pub(super) fn set_names(on: bool) {
    change(|old| if on { old | NAMES } else { old & !NAMES });
}

/// Ops get names from now on, for graphs that are saved and for files about kernels.
pub(crate) fn name_graphs() {
    change(|old| old | GRAPHS);
}

/// Whether somebody looks at values.
pub(super) fn set_values(on: bool) {
    change(|old| if on { old | VALUES } else { old & !VALUES });
}

fn change(to: impl Fn(u32) -> u32) {
    // The change cannot fail, since there is always one.
    let _ = ON.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(to(old)));
}
