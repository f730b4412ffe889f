//! Slices of a row, none of which overlaps another, in blocks.
//!
//! Ten million slices are fifty megabytes, and no screen shows more than some thousand. So slices are kept as differences, and each
//! block of them has a summary: when it begins and ends, how long it is busy, and with what. The page draws summaries as long as a block
//! is narrower than a pixel, and decodes blocks when it is not. Summaries are a tenth of the bytes and come first, so that the page
//! draws before it has the slices.
//!
//! Kernels come in the same order again and again. The label of a slice is left out where it is the one that first came behind the label
//! of the slice before.

use crate::page::columns::{Heap, Place, number, signed};
use serde::Serialize;

/// Slices of a block. `web/data.js` knows the same number.
const BLOCK: u64 = 64;

/// Most successors of labels that are kept. Labels with the same place share one, which costs bytes and nothing else. `web/data.js` knows
/// the same number.
const SUCCESSORS: u32 = 1 << 12;
/// What is said of a slice in the two lowest bits of its first number: its label is not the expected one, and its run is not that of the
/// slice before.
const OTHER_LABEL: u64 = 1;
const OTHER_RUN: u64 = 2;

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
    label: u32,
    /// By label, the label that first came behind it.
    successors: Vec<Option<u32>>,
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
    /// Two to four numbers a slice: four times the gap since the end of the one before in its block, plus what is said of label and run;
    /// duration; label and difference of the runs, where they are not the expected ones. The first of a block has both. They come late.
    slices: Place,
    /// By label modulo [`SUCCESSORS`], the label that is expected behind it.
    successors: Place,
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
        let first = self.count.is_multiple_of(BLOCK);
        if first {
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
        let other_label = self.expected(slice.label) != slice.label || first;
        let other_run = slice.run != self.run || first;
        // No clock counts to a quarter of these nanoseconds, which are 146 years.
        let gap = (start - self.end).min(u64::MAX >> 2) << 2;
        let said = u64::from(other_label) * OTHER_LABEL + u64::from(other_run) * OTHER_RUN;
        number(&mut self.bytes, gap | said);
        number(&mut self.bytes, time);
        if other_label {
            number(&mut self.bytes, u64::from(slice.label));
        }
        if other_run {
            signed(&mut self.bytes, i64::from(slice.run) - i64::from(self.run));
        }
        (self.end, self.run, self.label, self.count) = (end, slice.run, slice.label, self.count + 1);
    }

    /// The label that is expected behind the last one. Where none came behind that yet, it is `label`, and will be from now on.
    fn expected(&mut self, label: u32) -> u32 {
        if self.count == 0 {
            return label;
        }
        let at = (self.label % SUCCESSORS) as usize;
        if at >= self.successors.len() {
            self.successors.resize(at + 1, None);
        }
        *self.successors[at].get_or_insert(label)
    }

    /// When the last slice ended.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn put(self, heap: &mut Heap) -> Blocks {
        // The place of a label that nothing came behind is never looked at.
        let successors: Vec<u32> = self.successors.iter().map(|next| next.unwrap_or(0)).collect();
        Blocks {
            count: self.count,
            slices: heap.put_late(&self.bytes),
            successors: heap.words(&successors),
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
        let bytes = &heap.late[blocks.slices.at..][..blocks.slices.bytes];
        let (offsets, starts) = (words(heap, blocks.offsets), floats(heap, blocks.starts));
        let successors = words(heap, blocks.successors);
        let mut all = Vec::new();
        for (at, offset) in offsets.iter().enumerate() {
            let mut rest = &bytes[*offset as usize..];
            let (mut time, mut run, mut label) = (starts[at] as u64, 0, 0);
            let left = (blocks.count - all.len() as u64).min(BLOCK);
            for _ in 0..left {
                let first = read(&mut rest);
                let start = time + first / 4;
                let end = start + read(&mut rest);
                label = match first & OTHER_LABEL {
                    0 => successors[(label % SUCCESSORS) as usize],
                    _ => read(&mut rest) as u32,
                };
                if first & OTHER_RUN != 0 {
                    run += read_signed(&mut rest);
                }
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
        fn slices_come_back(rows in prop::collection::vec((0..1_u64 << 40, 0..1_u64 << 33, prop_oneof![0..4_u32, any::<u32>()], prop_oneof![0..3_u32, any::<u32>()]), 0..300)) {
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
    fn what_is_expected_takes_no_bytes() {
        let (mut lane, mut time) = (Lane::default(), 0);
        let mut expected = Vec::new();
        for step in 0..640_u32 {
            for label in [7, 3, 9_000] {
                let slice = Slice {
                    start: time + 5,
                    end: time + 105,
                    label,
                    run: step,
                };
                time = slice.end;
                lane.push(slice);
                expected.push(slice);
            }
        }
        let mut heap = Heap::default();
        let blocks = lane.put(&mut heap);
        assert_eq!(slices(&heap, &blocks), expected);
        // Two numbers of a byte each; a byte more where a run begins; label and run at the begin of a block.
        let most = 2 * expected.len() + 640 + 5 * expected.len() / 64;
        assert!(blocks.slices.bytes <= most, "{} bytes", blocks.slices.bytes);
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
