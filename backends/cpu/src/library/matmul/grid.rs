//! How a product is cut into blocks, and those into tasks.

use super::{Parallel, Problem, piece};
use std::ops::Range;

/// Multiply-adds of a matrix-vector product, which waits for memory, that are worth a hand-off to another thread.
const GRAIN_VECTOR: usize = 1 << 16;
/// Cost of packing one element in multiply-adds: where lines become columns, and where they stay lines.
pub(super) const PACK_COSTS: [usize; 2] = [11, 4];
/// Cost of packing an element of B before all blocks, which waits for memory.
const FIRST_COST: usize = 13;

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
    /// The blocks of a product, each of which packs its elements of B at `pack_b` multiply-adds. Where it `fills`, the first blocks of rows may
    /// pack B for those behind them.
    pub(super) fn choose(
        p: &Problem,
        threads: usize,
        [most_rows, most_columns]: [usize; 2],
        width: usize,
        (vector, grain): (bool, usize),
        pack_b: usize,
        fills: bool,
    ) -> Self {
        let &Problem { batch, m, n, k } = p;
        let cut = |down: usize, across: usize, group: usize| Self {
            batch,
            m,
            n,
            width,
            down,
            across,
            group,
        };
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
            let cost = |&(down, across): &(usize, usize)| cut(down, across, 1).time(useful, pack_b);
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
        let grid = cut(down, across, blocks.div_ceil(tasks));
        if !fills || useful == 1 || batch > 1 {
            return grid;
        }
        // Threads that pack the columns of their own pack all of A each.
        let down = m.div_ceil(most_rows);
        let own = cut(down, across.next_multiple_of(useful).min(panels), down);
        let first = FIRST_COST * n.div_ceil(useful);
        if own.time(useful, 0) < grid.time(useful, 0) + first {
            own
        } else {
            grid
        }
    }

    /// Multiply-adds for each step of k that the thread with most blocks does, or could do meanwhile.
    fn time(&self, threads: usize, pack_b: usize) -> usize {
        let panels = self.n.div_ceil(self.width);
        let rows = self.m.div_ceil(self.down);
        let cols = (panels.div_ceil(self.across) * self.width).min(self.n);
        self.blocks().div_ceil(threads) * (rows * cols + PACK_COSTS[0] * rows + pack_b * cols)
    }

    /// Whether each block of columns is one task's.
    pub(super) fn owns_columns(&self) -> bool {
        self.tasks() == 1 || self.batch == 1 && self.group.is_multiple_of(self.down)
    }

    fn blocks(&self) -> usize {
        self.batch * self.down * self.across
    }

    /// How many tasks threads share.
    fn tasks(&self) -> usize {
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
