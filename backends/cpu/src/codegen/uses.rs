//! Which values are needed, and where.

use super::lower::Body;
use super::ssa::{Id, Op};

/// No use any more.
pub(super) const NEVER: u32 = u32::MAX;

/// What a body's values are used for. Positions are those of instructions, and then of stores.
pub(super) struct Uses {
    /// Values that a store needs.
    pub(super) live: Vec<bool>,
    /// Those that are the same for all elements.
    pub(super) uniform: Vec<bool>,
    /// Of each value in turn, its uses by stores and by instructions that are not uniform.
    positions: Vec<u32>,
    /// Where those of a value begin.
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Uses {
    pub(super) fn of(body: &Body) -> Uses {
        let count = body.insts.len();
        let mut live = vec![false; count];
        body.stores.iter().for_each(|&(_, id)| live[id as usize] = true);
        for (i, inst) in body.insts.iter().enumerate().rev() {
            if live[i] {
                inst.operands().for_each(|id| live[id as usize] = true);
            }
        }
        let mut uniform = vec![false; count];
        let mut used: Vec<(Id, u32)> = Vec::new();
        for (i, inst) in body.insts.iter().enumerate() {
            uniform[i] = !matches!(inst.op, Op::Load(_)) && inst.operands().all(|id| uniform[id as usize]);
            if live[i] && !uniform[i] {
                used.extend(inst.operands().map(|id| (id, i as u32)));
            }
        }
        let stores = body.stores.iter().enumerate();
        used.extend(stores.map(|(k, &(_, id))| (id, (count + k) as u32)));
        used.sort_unstable();
        let mut first = vec![0; count + 1];
        used.iter().for_each(|&(id, _)| first[id as usize + 1] += 1);
        for i in 0..count {
            first[i + 1] += first[i];
        }
        Uses {
            live,
            uniform,
            positions: used.into_iter().map(|(_, at)| at).collect(),
            next: first.clone(),
            first,
        }
    }

    /// Begins a walk over the body.
    pub(super) fn restart(&mut self) {
        self.next.copy_from_slice(&self.first);
    }

    /// Position of the next use after `at`, which does not go back in a walk.
    pub(super) fn next(&mut self, id: Id, at: u32) -> u32 {
        let end = self.first[id as usize + 1];
        let next = &mut self.next[id as usize];
        while *next < end && self.positions[*next as usize] <= at {
            *next += 1;
        }
        if *next < end {
            self.positions[*next as usize]
        } else {
            NEVER
        }
    }
}
