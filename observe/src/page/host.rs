//! Rows of threads: calls inside calls lie below each other.

use crate::page::lane::{Lane, Slice};

/// What a thread did, in any order.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    slices: Vec<Slice>,
}

impl Thread {
    pub(crate) fn push(&mut self, slice: Slice) {
        self.slices.push(slice);
    }

    /// Rows, the outermost first. Each slice lies in the first row below all that hold its begin.
    pub(crate) fn rows(mut self) -> Vec<Lane> {
        self.slices
            .sort_by_key(|slice| (slice.start, std::cmp::Reverse(slice.end)));
        let mut rows: Vec<Lane> = Vec::new();
        for slice in self.slices {
            let busy = rows.iter().rposition(|row| row.end() > slice.start);
            let at = busy.map_or(0, |at| at + 1);
            if at == rows.len() {
                rows.push(Lane::default());
            }
            rows[at].push(slice);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_lie_below_what_calls_them() {
        let mut thread = Thread::default();
        // In the order of their ends, as a recording has them.
        for (start, end) in [(20, 30), (30, 40), (10, 50), (60, 70), (0, 100), (100, 110)] {
            thread.push(Slice {
                start,
                end,
                ..Slice::default()
            });
        }
        let rows = thread.rows();
        assert_eq!(rows.iter().map(Lane::end).collect::<Vec<_>>(), [110, 70, 40]);
    }
}
