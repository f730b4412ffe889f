//! Slices of a row, none of which overlaps another, in blocks.
//!
//! Ten million slices are seventy megabytes, and no screen shows more than some thousand. So slices are kept as differences, and each
//! block of them has a summary: when it begins and ends, how long it is busy, and with what. The page draws summaries as long as a block
//! is narrower than a pixel, and decodes blocks when it is not.

use crate::page::columns::{Heap, Place, number, signed};
use serde::Serialize;

/// Slices of a block. `web/data.js` knows the same number.
const BLOCK: u64 = 64;

/// A slice of a row: times in nanoseconds since the first recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Number of its label.
    pub(crate) label: u32,
    /// The lower half of the run's correlation, or the number of a span.
    pub(crate) run: u32,
}

/// A row that grows.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    count: u64,
    bytes: Vec<u8>,
    end: u64,
    run: u32,
    starts: Vec<f64>,
    ends: Vec<f64>,
    busy: Vec<f64>,
    offsets: Vec<u32>,
    labels: Vec<u32>,
    first_runs: Vec<u32>,
    last_runs: Vec<u32>,
    longest: u64,
}

/// Where a row lies in the heap.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Blocks {
    /// Number of slices.
    count: u64,
    /// Four numbers a slice: the gap since the end of the one before in its block, duration, label, difference of the runs.
    slices: Place,
    starts: Place,
    ends: Place,
    busy: Place,
    offsets: Place,
    /// The label of each block's longest slice.
    labels: Place,
    first_runs: Place,
    last_runs: Place,
}

impl Lane {
    /// Appends a slice; what begins before the last one ended is moved behind it.
    pub(crate) fn push(&mut self, slice: Slice) {
        let start = slice.start.max(self.end);
        let end = slice.end.max(start);
        let time = end - start;
        if self.count.is_multiple_of(BLOCK) {
            self.starts.push(start as f64);
            self.ends.push(end as f64);
            self.busy.push(0.0);
            // The page takes no more than four gigabytes.
            self.offsets
                .push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
            self.labels.push(slice.label);
            self.first_runs.push(slice.run);
            self.last_runs.push(slice.run);
            (self.end, self.run, self.longest) = (start, 0, 0);
        }
        let at = self.starts.len() - 1;
        self.ends[at] = end as f64;
        self.busy[at] += time as f64;
        self.first_runs[at] = self.first_runs[at].min(slice.run);
        self.last_runs[at] = self.last_runs[at].max(slice.run);
        if time > self.longest {
            (self.longest, self.labels[at]) = (time, slice.label);
        }
        number(&mut self.bytes, start - self.end);
        number(&mut self.bytes, time);
        number(&mut self.bytes, u64::from(slice.label));
        signed(&mut self.bytes, i64::from(slice.run) - i64::from(self.run));
        (self.end, self.run, self.count) = (end, slice.run, self.count + 1);
    }

    /// When the last slice ended.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn put(self, heap: &mut Heap) -> Blocks {
        Blocks {
            count: self.count,
            slices: heap.put(&self.bytes),
            starts: heap.floats(self.starts.into_iter()),
            ends: heap.floats(self.ends.into_iter()),
            busy: heap.floats(self.busy.into_iter()),
            offsets: heap.words(&self.offsets),
            labels: heap.words(&self.labels),
            first_runs: heap.words(&self.first_runs),
            last_runs: heap.words(&self.last_runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::columns::tests::{read, read_signed};
    use proptest::prelude::*;

    fn words(heap: &Heap, place: Place) -> Vec<u32> {
        let bytes = &heap.bytes[place.at..place.at + place.bytes];
        bytes
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    fn floats(heap: &Heap, place: Place) -> Vec<f64> {
        let bytes = &heap.bytes[place.at..place.at + place.bytes];
        bytes
            .chunks(8)
            .map(|word| f64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    /// Reads a row as the page does: each block by itself.
    fn slices(heap: &Heap, blocks: &Blocks) -> Vec<Slice> {
        let bytes = &heap.bytes[blocks.slices.at..][..blocks.slices.bytes];
        let (offsets, starts) = (words(heap, blocks.offsets), floats(heap, blocks.starts));
        let mut all = Vec::new();
        for (at, offset) in offsets.iter().enumerate() {
            let mut rest = &bytes[*offset as usize..];
            let (mut time, mut run) = (starts[at] as u64, 0);
            let left = (blocks.count - all.len() as u64).min(BLOCK);
            for _ in 0..left {
                let start = time + read(&mut rest);
                let end = start + read(&mut rest);
                let label = read(&mut rest) as u32;
                run += read_signed(&mut rest);
                all.push(Slice {
                    start,
                    end,
                    label,
                    run: run as u32,
                });
                time = end;
            }
        }
        all
    }

    proptest! {
        #[test]
        fn slices_come_back(rows in prop::collection::vec((0..1_u64 << 40, 0..1_u64 << 33, 0..300_u32, any::<u32>()), 0..300)) {
            let (mut lane, mut time, mut expected) = (Lane::default(), 0, Vec::new());
            for (gap, duration, label, run) in rows {
                let slice = Slice { start: time + gap, end: time + gap + duration, label, run };
                time = slice.end;
                lane.push(slice);
                expected.push(slice);
            }
            prop_assert_eq!(lane.end(), time);
            let mut heap = Heap::default();
            let blocks = lane.put(&mut heap);
            prop_assert_eq!(slices(&heap, &blocks), expected.clone());
            let busy = floats(&heap, blocks.busy);
            let (first, last) = (words(&heap, blocks.first_runs), words(&heap, blocks.last_runs));
            for (at, block) in expected.chunks(BLOCK as usize).enumerate() {
                prop_assert_eq!(busy[at], block.iter().map(|slice| (slice.end - slice.start) as f64).sum::<f64>());
                prop_assert_eq!(Some(first[at]), block.iter().map(|slice| slice.run).min());
                prop_assert_eq!(Some(last[at]), block.iter().map(|slice| slice.run).max());
            }
        }
    }

    #[test]
    fn what_overlaps_is_moved() {
        let mut lane = Lane::default();
        let slice = |start, end| Slice {
            start,
            end,
            ..Slice::default()
        };
        lane.push(slice(10, 20));
        lane.push(slice(15, 18));
        let mut heap = Heap::default();
        let blocks = lane.put(&mut heap);
        assert_eq!(slices(&heap, &blocks), [slice(10, 20), slice(20, 20)]);
    }
}
