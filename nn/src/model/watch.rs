//! Where the time of a step goes.

use std::time::{Duration, Instant};

/// A clock that tells the time since it was asked last.
pub(super) struct Watch(Instant);

impl Watch {
    pub(super) fn start() -> Watch {
        Watch(Instant::now())
    }

    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}
