//! What ticks are in nanoseconds.

use super::{is_counter, now, ticks};
use std::collections::VecDeque;

/// A moment in both measures.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    time: u64,
    /// Nanoseconds of a tick from here on.
    rate: f64,
}

/// What [`ticks`] are in nanoseconds: a line through moments at which both were read.
///
/// Ticks between two of these moments are exact to the error of reading them, some 30 ns, and stay what they are when more moments
/// come. Later ticks are guessed: call [`Scale::refresh`] after the last of the ticks that are to be turned. Then equal ticks have
/// equal times, and later ticks have no earlier ones.
#[derive(Clone, Debug)]
pub struct Scale {
    // At least two, in order of both measures.
    anchors: VecDeque<Anchor>,
}

/// Moments that are kept. Ticks before the first are turned at its rate.
const MOST: usize = 256;
/// The nanoseconds that the first two moments are apart, for ticks that nobody refreshes for.
const APART: u64 = 20_000;
/// Readings of which the quickest is taken: a thread may lose its core in the middle of one.
const TRIES: usize = 5;

/// Ticks and nanoseconds of one moment, and the ticks that reading them took.
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
        let mut scale = Scale {
            anchors: VecDeque::new(),
        };
        scale.refresh();
        if is_counter() {
            let start = now();
            while scale.anchors.len() < 2 {
                if now() - start >= APART {
                    scale.refresh();
                }
            }
        }
        scale
    }

    /// Makes the ticks up to now exact.
    pub fn refresh(&mut self) {
        let (ticks, time, _) = read();
        if let Some(last) = self.anchors.back_mut() {
            // Two calls at once, or a clock that stood still, are one moment.
            if ticks <= last.ticks || time <= last.time {
                return;
            }
            last.rate = (time - last.time) as f64 / (ticks - last.ticks) as f64;
        }
        let rate = self.anchors.back().map_or(1.0, |last| last.rate);
        if self.anchors.len() == MOST {
            self.anchors.pop_front();
        }
        self.anchors.push_back(Anchor { ticks, time, rate });
    }

    /// Ticks as nanoseconds of [`now`], at least 1.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        if !is_counter() {
            return ticks.max(1);
        }
        // Most ticks are behind the last but one.
        let at = match self.anchors.len().checked_sub(2) {
            Some(last) if self.anchors[last].ticks <= ticks => {
                last + usize::from(self.anchors[last + 1].ticks <= ticks)
            }
            _ => (self.anchors.partition_point(|anchor| anchor.ticks <= ticks)).saturating_sub(1),
        };
        let Some(anchor) = self.anchors.get(at) else {
            return ticks.max(1);
        };
        let time = match ticks.checked_sub(anchor.ticks) {
            Some(passed) => anchor.time + (passed as f64 * anchor.rate) as u64,
            None => (anchor.time).saturating_sub(((anchor.ticks - ticks) as f64 * anchor.rate) as u64),
        };
        let most = self.anchors.get(at + 1).map_or(u64::MAX, |next| next.time);
        time.clamp(1, most)
    }
}
