//! What ticks are in nanoseconds.

use super::{Line, is_counter, now, ticks};

/// What [`ticks`] are in nanoseconds.
///
/// Ticks before the last [`Scale::refresh`] are exact to the error of reading both clocks, some 30 ns, and stay what they are. Later
/// ones are guessed, so refresh after the last of the ticks that are to be turned. Later ticks never have earlier times.
#[derive(Clone, Debug)]
pub struct Scale(Line);

/// The nanoseconds that the first two moments are apart, for ticks that nobody refreshes for.
const APART: u64 = 20_000;
/// Readings of which the quickest is taken: a thread may lose its core in the middle of one.
const TRIES: usize = 5;

/// What a clock shows and nanoseconds of [`now`] at one moment, and how many nanoseconds reading both took: the quickest of several
/// readings. Of a clock that cannot be read it is `None`.
pub fn together(mut read: impl FnMut() -> Option<u64>) -> Option<(u64, u64, u64)> {
    let mut one = || {
        let before = now();
        let own = read()?;
        let width = now() - before;
        Some((own, before + width / 2, width))
    };
    let mut best = one()?;
    for _ in 1..TRIES {
        let next = one()?;
        if next.2 < best.2 {
            best = next;
        }
    }
    Some(best)
}

/// Ticks and nanoseconds of one moment, and the ticks that reading them took. The counter is the quicker one to read, so it stands on
/// both sides.
pub(super) fn read() -> (u64, u64, u64) {
    let one = || {
        let (before, time, after) = (ticks(), now(), ticks());
        let width = after.saturating_sub(before);
        (before + width / 2, time, width)
    };
    (1..TRIES).fold(one(), |best, _| {
        let next = one();
        if next.2 < best.2 { next } else { best }
    })
}

impl Default for Scale {
    fn default() -> Scale {
        Scale::new()
    }
}

impl Scale {
    /// A scale that begins now. Takes some 20 µs.
    pub fn new() -> Scale {
        let mut scale = Scale(Line::new());
        scale.refresh();
        let start = now();
        while scale.0.len() == 1 {
            if now() - start >= APART {
                scale.refresh();
            }
        }
        scale
    }

    /// Makes the ticks up to now exact.
    pub fn refresh(&mut self) {
        // Where ticks are nanoseconds already, a line without moments leaves them as they are.
        if is_counter() {
            let (ticks, time, _) = read();
            self.0.add(ticks, time);
        }
    }

    /// Ticks as nanoseconds of [`now`], at least 1.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        self.0.at(ticks)
    }
}
