//! Many queries: a panel of them at a time, whose scores stay in L1 with a row for each key. Products read what is packed once, and write what
//! the next step reads.

use super::few::Read;
use super::panel::Columns;
use super::weigh::Score;
use super::{Head, KEYS, Matrix, share};
use crate::library::gemm::{OVERRUN, Panel, Scratch, Stored, Strips, pack_panel};
use std::ops::Range;

/// Queries that see the same keys of a causal block, hidden ones with a weight of 0: panels of some instruction sets have fewer.
const ALIKE: usize = 32;

/// Memory of a task.
struct Room<A> {
    /// Panels of queries.
    q: *mut A,
    /// Sums of values: for each panel, a row a place.
    sums: *mut A,
    /// The peaks of each panel's scores, then the sums of their weights.
    state: *mut A,
    /// A block of keys and of values.
    keys: Strips<A>,
    values: Strips<A>,
    /// Scores of a panel and a block of keys, then weights.
    scores: *mut A,
    /// The mask of the scores.
    mask: *mut A,
    /// A panel of the output, a row a query.
    out: *mut A,
}

impl<T: Read> Head<T> {
    /// Computes some panels of queries.
    pub(super) unsafe fn many(&self, panels: Range<usize>) {
        let lanes = self.kernels.columns();
        let rows = panels.start * lanes..self.queries.min(panels.end * lanes);
        let most = KEYS.min(self.keys);
        let lengths = [
            panels.len() * lanes * self.depth + OVERRUN,
            panels.len() * lanes * self.width,
            panels.len() * lanes * 2,
            Strips::<T::Acc>::len(most, self.depth),
            Strips::<T::Acc>::len(self.width, most),
            most * lanes,
            self.mask.map_or(0, |_| most * lanes + OVERRUN),
            lanes * self.width + OVERRUN,
        ];
        let bytes = |len: usize| (len * size_of::<T::Acc>()).next_multiple_of(64);
        let scratch = Scratch::take(lengths.map(bytes).into_iter().sum());
        let mut free = scratch.start();
        let [q, sums, state, keys, values, scores, mask, out] = lengths.map(|len| {
            let start = free.cast::<T::Acc>();
            free = free.wrapping_add(bytes(len));
            start
        });
        let strips = |start, rows, steps| Strips { start, rows, steps };
        let mut room = Room {
            q,
            sums,
            state,
            keys: strips(keys, most, self.depth),
            values: strips(values, self.width, most),
            scores,
            mask,
            out,
        };
        let last = match self.causal {
            true => self.keys.min(rows.end.next_multiple_of(ALIKE)),
            false => self.keys,
        };
        let all = || {
            let starts = rows.clone().step_by(lanes);
            starts.map(|start| start..rows.end.min(start + lanes)).enumerate()
        };
        // SAFETY: every part has the length that was asked for, and the caller vouches for the operands.
        unsafe {
            for (at, queries) in all() {
                self.begin_panel(&room.of(at, lanes, self), &queries);
            }
            for first in (0..last).step_by(KEYS) {
                let count = KEYS.min(last - first);
                let from = |matrix: Matrix<*const T>| matrix.0.wrapping_offset(first as isize * matrix.1);
                (room.keys.rows, room.values.steps) = (count, count);
                room.keys.pack(&self.kernels, (from(self.k), self.k.1, self.k.2));
                room.values
                    .pack(&self.kernels, (from(self.v), self.v.2, self.v.1));
                for (at, queries) in all() {
                    let seen = match self.causal {
                        true => (queries.start / ALIKE * ALIKE + ALIKE).saturating_sub(first),
                        false => count,
                    };
                    if seen > 0 {
                        let keys = first..first + seen.min(count);
                        self.add_block(&room.of(at, lanes, self), queries, keys);
                    }
                }
            }
            for (at, queries) in all() {
                self.finish_panel(&room.of(at, lanes, self), queries);
            }
        }
    }

    /// Packs a panel of queries, for which nothing is summed yet.
    unsafe fn begin_panel(&self, room: &Room<T::Acc>, queries: &Range<usize>) {
        let lanes = self.kernels.columns();
        let q = self.q.0.wrapping_offset(queries.start as isize * self.q.1);
        // SAFETY: the caller vouches for the operands and for room.
        unsafe {
            let extents = (self.depth, queries.len());
            pack_panel(&self.kernels, (q, self.q.2, self.q.1), extents, room.q);
            for lane in 0..lanes {
                *room.state.add(lane) = T::Acc::NOTHING;
                *room.state.add(lanes + lane) = T::Acc::ZERO;
            }
            std::slice::from_raw_parts_mut(room.sums, lanes * self.width).fill(T::Acc::ZERO);
        }
    }

    /// Adds what a panel of queries sees of the first of the keys that are packed.
    unsafe fn add_block(&self, room: &Room<T::Acc>, queries: Range<usize>, keys: Range<usize>) {
        let seen = keys.len();
        // SAFETY: the caller vouches for the operands and for room.
        unsafe {
            let q = room.q.cast_const();
            (room.keys).times(&self.kernels, (seen, self.depth), q, room.scores, false);
            (self.columns)(&Columns {
                scores: room.scores.cast(),
                keys: seen,
                diagonal: match self.causal {
                    true => queries.start as isize - keys.start as isize,
                    false => isize::MAX,
                },
                scale: (&raw const self.scale).cast(),
                mask: self.bring_mask(room, &queries, &keys),
                state: room.state.cast(),
                sums: room.sums.cast(),
                width: self.width,
            });
            let weights = room.scores.cast_const();
            (room.values).times(&self.kernels, (self.width, seen), weights, room.sums, true);
        }
    }

    /// The mask of a panel of queries and some keys, as their scores lie, and whether it is added; zeros behind the last query.
    unsafe fn bring_mask(
        &self,
        room: &Room<T::Acc>,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) -> Option<(*const u8, bool)> {
        let (start, row, column, wide) = self.mask?;
        let place = queries.start as isize * row + keys.start as isize * column;
        // SAFETY: the caller vouches for the mask and for room.
        unsafe {
            if wide {
                let start = start.cast::<T::Acc>().wrapping_offset(place);
                let extents = (keys.len(), queries.len());
                pack_panel(&self.sums, (start, column, row), extents, room.mask);
            } else {
                let start = start.wrapping_offset(place);
                let to = std::slice::from_raw_parts_mut(room.mask, keys.len() * self.kernels.columns());
                for (key, to) in to.chunks_exact_mut(self.kernels.columns()).enumerate() {
                    for (query, to) in to[..queries.len()].iter_mut().enumerate() {
                        let seen = *start.offset(query as isize * row + key as isize * column) != 0;
                        *to = if seen { T::Acc::ONE } else { T::Acc::ZERO };
                    }
                    to[queries.len()..].fill(T::Acc::ZERO);
                }
            }
        }
        Some((room.mask.cast_const().cast(), wide))
    }

    /// Divides the sums by those of the weights, and rounds them into the output.
    unsafe fn finish_panel(&self, room: &Room<T::Acc>, queries: Range<usize>) {
        let lanes = self.kernels.columns();
        // SAFETY: the caller vouches for the output and for room.
        unsafe {
            let shares = std::slice::from_raw_parts_mut(room.state.add(lanes), lanes);
            shares.iter_mut().for_each(|total| *total = share(*total));
            let sums = std::slice::from_raw_parts_mut(room.sums, lanes * self.width);
            for sums in sums.chunks_exact_mut(lanes) {
                for (sum, &share) in sums.iter_mut().zip(&*shares) {
                    *sum = sum.times(share);
                }
            }
            (self.sums.pack[0])(&Panel {
                dst: room.out,
                pitch: self.width,
                src: room.sums,
                width: self.width,
                w_step: lanes as isize,
                k_step: 1,
                kc: queries.len(),
            });
            let rows = std::slice::from_raw_parts(room.out, queries.len() * self.width);
            for (row, query) in rows.chunks_exact(self.width).zip(queries) {
                self.write(query, row);
            }
        }
    }
}

impl<A: Score> Room<A> {
    /// The room of a panel.
    fn of<T: Read<Acc = A>>(&self, panel: usize, lanes: usize, head: &Head<T>) -> Room<A> {
        Room {
            q: self.q.wrapping_add(panel * lanes * head.depth),
            sums: self.sums.wrapping_add(panel * lanes * head.width),
            state: self.state.wrapping_add(panel * lanes * 2),
            ..*self
        }
    }
}
