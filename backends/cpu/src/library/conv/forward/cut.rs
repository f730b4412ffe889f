//! How many tasks a launch is for its threads: so few that each is worth its hand-off, so many that a late thread costs little, and as
//! even as lines of the result and tiles of its rows allow.

use crate::library::conv::geometry::{AXES, Pass};

/// Products in the time of a task's hand-off, of its epilogue's set-up and of all else that it begins with.
const TASK: usize = 1 << 16;
/// What a tile of rows takes that has no other beside it, in tenths of half of what two take together.
const SINGLE: usize = 12;
/// The part of a task that a thread waits for another one at the end.
const LATE: usize = 10;
/// Bytes of packed weights that stay in L2, and positions in whose time a task reads its weights from there and from beyond.
const NEAR: usize = 512 << 10;
const READ: [usize; 2] = [2, 13];
/// Tasks of a thread that are tried.
const EACH: [usize; 6] = [1, 2, 3, 4, 6, 8];

/// What is cut.
pub(super) struct Work<'a> {
    pub(super) pass: &'a Pass,
    /// Positions of a block that caches allow.
    pub(super) block: [usize; AXES],
    /// Positions that a block keeps.
    pub(super) least: usize,
    /// Samples and groups, each with blocks of its own.
    pub(super) outer: usize,
    /// Tiles of rows, and how many are computed together.
    pub(super) tiles: usize,
    pub(super) at_once: usize,
    /// Products of a position with a tile, and bytes of all weights.
    pub(super) products: usize,
    pub(super) weights: usize,
    /// Products in the time in which what a position takes from is copied.
    pub(super) copied: usize,
}

/// How it is cut: blocks of positions, and parts of the rows of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) block: [usize; AXES],
    pub(super) parts: usize,
}

impl Work<'_> {
    /// The cut for so many threads.
    pub(super) fn cut(&self, threads: usize) -> Cut {
        let whole = Cut {
            block: self.block,
            parts: 1,
        };
        if threads <= 1 {
            return whole;
        }
        let count = self.pass.count();
        let axis = (0..AXES).find(|&axis| self.block[axis] > 1).unwrap_or(AXES - 1);
        let others: usize = (0..AXES)
            .filter(|&other| other != axis)
            .map(|other| self.block[other])
            .product();
        let fewest = count[axis].div_ceil(self.block[axis]);
        let most = (count[axis] * others / self.least.max(1)).clamp(fewest, count[axis].max(1));
        // Blocks along the axes that are not cut further.
        let outer = (0..AXES)
            .filter(|&other| other != axis)
            .fold(self.outer, |all, other| {
                all * count[other].div_ceil(self.block[other])
            });
        let (mut best, mut cut) = ((usize::MAX, 0), whole);
        for wanted in EACH.map(|each| each * threads) {
            let blocks = wanted.div_ceil(outer).clamp(fewest, most);
            let even = blocks / threads * threads;
            let tried = [fewest, blocks, even];
            for (at, &blocks) in tried.iter().enumerate() {
                if blocks < fewest || tried[..at].contains(&blocks) {
                    continue;
                }
                let lines = count[axis].div_ceil(blocks);
                let blocks = count[axis].div_ceil(lines);
                let parts = wanted
                    .div_ceil(outer * blocks)
                    .min(self.tiles.div_ceil(self.at_once))
                    .max(1);
                let takes = self.takes([axis, lines, others], [outer * blocks * parts, parts], threads);
                if (takes, parts) < best {
                    best = (takes, parts);
                    cut = Cut {
                        block: self.block,
                        parts,
                    };
                    cut.block[axis] = lines;
                }
            }
        }
        cut
    }

    /// The products that fit into the time until the last thread is done.
    fn takes(&self, [axis, lines, others]: [usize; 3], [tasks, parts]: [usize; 2], threads: usize) -> usize {
        let axis = &self.pass.axes[axis];
        // Neighbouring blocks copy what both of them meet.
        let met = (lines * axis.step + axis.span).min(axis.extent);
        let copied = met.saturating_mul(others).saturating_mul(self.copied);
        let tiles = self.tiles.div_ceil(parts);
        let tiles = match self.at_once {
            1 => tiles * 10,
            _ => tiles / 2 * 20 + tiles % 2 * SINGLE,
        };
        let read = READ[usize::from(self.weights > NEAR)];
        let positions = lines.saturating_mul(others).saturating_add(read);
        let products = positions.saturating_mul(self.products).saturating_mul(tiles) / 10;
        let task = products.saturating_add(copied).saturating_add(TASK);
        tasks
            .div_ceil(threads)
            .saturating_mul(task)
            .saturating_add(task / LATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::conv::geometry::{Axis, Window};

    /// An image of `lines` lines of `line` places, with tiles of 32 rows.
    fn cut(lines: usize, line: usize, tiles: usize, channels: usize, samples: usize, threads: usize) -> Cut {
        let axes = [1, lines, line].map(|count| {
            Axis::forward(&Window {
                input: count,
                output: count,
                taps: 1,
                stride: 1,
                dilation: 1,
                padding: 0,
            })
        });
        let pass = Pass { axes };
        let work = Work {
            pass: &pass,
            block: pass.count(),
            least: 16,
            outer: samples,
            tiles,
            at_once: 2,
            products: 32 * channels,
            weights: 128 * tiles * channels,
            copied: 0,
        };
        work.cut(threads)
    }

    #[test]
    fn threads_have_as_many_lines_or_tiles() {
        let of = |cut: Cut| (cut.block[1], cut.parts);
        // Lines alone, whatever the number of tiles.
        assert_eq!(of(cut(14, 14, 18, 96, 1, 2)).0, 7);
        assert_eq!(56 % of(cut(56, 56, 1, 144, 1, 2)).0, 0);
        // One block, whose ten tiles are two fives.
        assert_eq!(of(cut(7, 7, 10, 960, 1, 2)), (7, 2));
        // One thread takes all of it.
        assert_eq!(of(cut(56, 56, 8, 64, 1, 1)), (56, 1));
    }

    #[test]
    fn large_weights_are_read_by_one_thread_each() {
        let large = cut(7, 7, 16, 4608, 1, 2);
        assert_eq!((large.block[1], large.parts % 2), (7, 0), "{large:?}");
        let small = cut(7, 7, 1, 1152, 1, 2);
        assert_eq!((small.block[1], small.parts), (4, 1));
    }

    #[test]
    fn many_samples_are_not_cut() {
        assert_eq!(
            cut(28, 28, 4, 128, 16, 2),
            Cut {
                block: [1, 28, 28],
                parts: 1
            }
        );
    }

    #[test]
    fn large_launches_are_many_tasks() {
        let large = cut(112, 112, 4, 1024, 1, 4);
        let tasks = 112_usize.div_ceil(large.block[1]) * large.parts;
        assert!(tasks >= 16 && tasks.is_multiple_of(4), "{large:?}");
    }
}
