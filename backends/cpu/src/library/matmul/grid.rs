//! How a product is cut into blocks, and those into tasks.

use super::{Parallel, Problem, piece};
use std::ops::Range;

/// Multiply-adds of a matrix-vector product, which waits for memory, that are worth a hand-off to another thread.
const GRAIN_VECTOR: usize = 1 << 16;
/// Cost of packing one element in multiply-adds: where lines become columns, and where they stay lines.
pub(super) const PACK_COSTS: [usize; 2] = [11, 4];

/// How C is cut: each matrix into `down` x `across` blocks, `group` consecutive blocks a task.
pub(super) struct Grid {
    batch: usize,
    m: usize,
    n: usize,
    width: usize,
    down: usize,
    across: usize,
    group: usize,
}

impl Grid {
    pub(super) fn choose(
        p: &Problem,
        threads: usize,
        [most_rows, most_columns]: [usize; 2],
        width: usize,
        (vector, grain): (bool, usize),
        pack_b: usize,
    ) -> Self {
        let &Problem { batch, m, n, k } = p;
        let panels = n.div_ceil(width);
        let work = batch.saturating_mul(m).saturating_mul(n).saturating_mul(k.max(1));
        let (mut down, mut across) = (m.div_ceil(most_rows), panels.div_ceil(most_columns / width));
        let grain = if vector { GRAIN_VECTOR } else { grain };
        let useful = threads.min(work / grain).max(1);
        if vector {
            (down, across) = (1, useful.div_ceil(batch).min(panels));
        } else if useful > 1 {
            // The cheapest of a few grids by the time of the thread with most blocks.
            let few = useful.min(8);
            let cost = |&(d, a): &(usize, usize)| {
                let (rows, cols) = (m.div_ceil(d), (panels.div_ceil(a) * width).min(n));
                (batch * d * a).div_ceil(useful) * (rows * cols + PACK_COSTS[0] * rows + pack_b * cols)
            };
            let candidates = (down..(down + few).min(m) + 1)
                .flat_map(|d| (across..(across + few).min(panels) + 1).map(move |a| (d, a)));
            (down, across) = candidates.min_by_key(cost).unwrap_or((down, across));
        }
        let blocks = batch * down * across;
        let tasks = if useful == 1 {
            1
        } else {
            (work / grain).clamp(1, blocks).min(useful * 8)
        };
        Self {
            batch,
            m,
            n,
            width,
            down,
            across,
            group: blocks.div_ceil(tasks),
        }
    }

    fn blocks(&self) -> usize {
        self.batch * self.down * self.across
    }

    /// How many of [`Parallel::run`]'s there are.
    pub(super) fn tasks(&self) -> usize {
        self.blocks().div_ceil(self.group)
    }

    /// Runs all blocks, those of a block of columns from the first rows to the last.
    pub(super) fn run(
        &self,
        parallel: &dyn Parallel,
        body: &(dyn Fn(usize, Range<usize>, Range<usize>) + Sync),
    ) {
        let per_matrix = self.down * self.across;
        let blocks = self.blocks();
        let panels = self.n.div_ceil(self.width);
        let task = |i: usize| {
            for block in i * self.group..((i + 1) * self.group).min(blocks) {
                let (batch, at) = (block / per_matrix, block % per_matrix);
                let rows = piece(self.m, self.down, at % self.down);
                let cols = piece(panels, self.across, at / self.down);
                body(
                    batch,
                    rows,
                    cols.start * self.width..(cols.end * self.width).min(self.n),
                );
            }
        };
        match self.tasks() {
            1 => task(0),
            tasks => parallel.run(tasks, &task),
        }
    }
}
