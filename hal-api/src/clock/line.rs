//! A line from one clock to another.

use std::collections::VecDeque;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Moment {
    own: u64,
    time: u64,
    /// Nanoseconds of a tick of the own clock from here on.
    rate: f64,
}

/// What a clock shows in nanoseconds of [`now`](super::now): a line through moments at which both were read.
///
/// Between two of these moments the line stays what it is when more come. What lies behind the last is guessed, by the rate of the last
/// piece; of a clock that was read once, by one nanosecond a tick. Later ticks never have earlier times.
///
/// ```
/// use thalweg_hal::clock::Line;
/// let mut line = Line::new();
/// line.add(1_000, 50_000);
/// line.add(2_000, 50_500);
/// assert_eq!(line.at(1_400), 50_200);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Line {
    // In order of both clocks.
    moments: VecDeque<Moment>,
}

/// Moments that are kept. What lies before the first is turned at its rate.
const MOST: usize = 256;

impl Line {
    /// A line without a moment: both clocks are taken for the same.
    pub const fn new() -> Line {
        Line {
            moments: VecDeque::new(),
        }
    }

    /// How many moments it goes through.
    pub(super) fn len(&self) -> usize {
        self.moments.len()
    }

    /// Adds a moment; one that is not later than the last by both clocks is passed over.
    pub fn add(&mut self, own: u64, time: u64) {
        let mut rate = 1.0;
        if let Some(last) = self.moments.back_mut() {
            if own <= last.own || time <= last.time {
                return;
            }
            last.rate = (time - last.time) as f64 / (own - last.own) as f64;
            rate = last.rate;
        }
        if self.moments.len() == MOST {
            self.moments.pop_front();
        }
        self.moments.push_back(Moment { own, time, rate });
    }

    /// Nanoseconds of what the clock shows, at least 1.
    pub fn at(&self, own: u64) -> u64 {
        // Most are behind the last moment but one.
        let at = match self.moments.len().checked_sub(2) {
            Some(last) if self.moments[last].own <= own => {
                last + usize::from(self.moments[last + 1].own <= own)
            }
            _ => (self.moments.partition_point(|moment| moment.own <= own)).saturating_sub(1),
        };
        let Some(moment) = self.moments.get(at) else {
            return own.max(1);
        };
        let span = |ticks: u64| (ticks as f64 * moment.rate) as u64;
        let time = match own.checked_sub(moment.own) {
            Some(passed) => moment.time.saturating_add(span(passed)),
            None => moment.time.saturating_sub(span(moment.own - own)),
        };
        let most = self.moments.get(at + 1).map_or(u64::MAX, |next| next.time);
        time.clamp(1, most)
    }
}
