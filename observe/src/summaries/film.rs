//! Large values over the steps: histograms and images, as many as there is room for.

use std::collections::BTreeMap;

/// A value at a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame<T> {
    pub(crate) step: i64,
    /// Seconds since 1970.
    pub(crate) time: f64,
    /// What it takes.
    pub(crate) bytes: usize,
    pub(crate) value: T,
}

/// The frames of a tag that are kept.
#[derive(Clone, Debug)]
pub(crate) struct Row<T> {
    pub(crate) frames: Vec<Frame<T>>,
    /// How many came, without those that others replaced.
    pub(crate) seen: usize,
}

/// Frames by tag, spread evenly over the steps.
#[derive(Clone, Debug)]
pub(crate) struct Film<T> {
    pub(crate) tags: BTreeMap<String, Row<T>>,
    /// Most frames of a tag.
    each: usize,
    /// Most bytes of all frames.
    room: usize,
    used: usize,
}

impl<T> Film<T> {
    pub(crate) fn new(each: usize, room: usize) -> Film<T> {
        Film {
            tags: BTreeMap::new(),
            each,
            room,
            used: 0,
        }
    }

    /// Adds a frame. A step that comes again replaces what was there from it on.
    pub(crate) fn push(&mut self, tag: &str, frame: Frame<T>) {
        let row = self.tags.entry(tag.to_owned()).or_insert(Row {
            frames: Vec::new(),
            seen: 0,
        });
        row.seen += 1;
        if frame.bytes > self.room {
            return;
        }
        let frames = &mut row.frames;
        while let Some(last) = frames.pop_if(|last| last.step >= frame.step) {
            self.used -= last.bytes;
            row.seen -= 1;
        }
        self.used += frame.bytes;
        frames.push(frame);
        if frames.len() > self.each {
            self.used -= crowded(frames);
        }
        while self.used > self.room {
            self.make_room();
        }
    }

    /// Takes a frame away from the tag with the most of them, and of those with as many from the one that takes the most bytes.
    fn make_room(&mut self) {
        let bytes = |row: &Row<T>| row.frames.iter().map(|frame| frame.bytes).sum::<usize>();
        let size = |row: &Row<T>| (row.frames.len(), bytes(row));
        let Some(row) = self.tags.values_mut().max_by_key(|row| size(row)) else {
            return;
        };
        self.used -= crowded(&mut row.frames);
    }
}

/// Takes away the frame whose neighbours are the nearest to each other, or the first of two. Returns its bytes.
fn crowded<T>(row: &mut Vec<Frame<T>>) -> usize {
    let gap = |at: &usize| row[at + 1].step.saturating_sub(row[at - 1].step);
    let at = (1..row.len().saturating_sub(1)).min_by_key(gap).unwrap_or(0);
    match at < row.len() {
        true => row.remove(at).bytes,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(step: i64, bytes: usize) -> Frame<()> {
        Frame {
            step,
            time: 0.0,
            bytes,
            value: (),
        }
    }

    fn steps(film: &Film<()>, tag: &str) -> Vec<i64> {
        film.tags[tag].frames.iter().map(|frame| frame.step).collect()
    }

    #[test]
    fn frames_are_spread_over_the_steps() {
        let mut film = Film::new(16, 1000);
        (0..1000).for_each(|step| film.push("a", frame(step, 1)));
        let kept = steps(&film, "a");
        assert_eq!((kept.len(), kept[0], kept[15]), (16, 0, 999));
        let gaps = kept.windows(2).map(|two| two[1] - two[0]);
        assert!(gaps.clone().max().unwrap() <= 200, "{kept:?}");
        assert_eq!(film.tags["a"].seen, 1000);
    }

    #[test]
    fn a_step_that_comes_again_replaces_what_follows_it() {
        let mut film = Film::new(16, 1000);
        for step in [1, 2, 3, 2, 5] {
            film.push("a", frame(step, 10));
        }
        assert_eq!(steps(&film, "a"), [1, 2, 5]);
        assert_eq!((film.used, film.tags["a"].seen), (30, 3));
    }

    #[test]
    fn tags_share_the_room() {
        let mut film = Film::new(100, 10);
        (0..8).for_each(|step| film.push("many", frame(step, 1)));
        (0..2).for_each(|step| film.push("large", frame(step, 4)));
        assert!(film.used <= 10);
        assert_eq!(steps(&film, "large"), [0, 1]);
        assert_eq!(steps(&film, "many").len(), 2);
        film.push("huge", frame(0, 11));
        assert!(steps(&film, "huge").is_empty());
        (0..20).for_each(|tag| film.push(&tag.to_string(), frame(0, 3)));
        assert!(film.used <= 10);
    }
}
