//! Which values a section needs, and where it uses each of them next.

use super::ssa::{Id, Inst};

/// No use any more.
pub(super) const NEVER: u32 = u32::MAX;

/// What the values of a section are used for. Positions are those of instructions, and then of sinks.
pub(super) struct Uses {
    /// Values that the section computes.
    pub(super) computed: Vec<bool>,
    /// Of each value in turn, its uses.
    positions: Vec<u32>,
    /// Where those of a value begin.
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Uses {
    /// Of a section that ends in `sinks` and computes what they need as far as `computes` says; the rest has a home.
    pub(super) fn of(insts: &[Inst], sinks: &[Id], computes: impl Fn(usize) -> bool) -> Uses {
        let count = insts.len();
        let mut computed = vec![false; count];
        sinks.iter().for_each(|&id| computed[id as usize] = true);
        for (i, inst) in insts.iter().enumerate().rev() {
            computed[i] &= computes(i);
            if computed[i] {
                inst.operands().for_each(|id| computed[id as usize] = true);
            }
        }
        let mut used: Vec<(Id, u32)> = Vec::new();
        for (i, inst) in insts.iter().enumerate().filter(|(i, _)| computed[*i]) {
            used.extend(inst.operands().map(|id| (id, i as u32)));
        }
        used.extend(sinks.iter().enumerate().map(|(k, &id)| (id, (count + k) as u32)));
        used.sort_unstable();
        let mut first = vec![0; count + 1];
        used.iter().for_each(|&(id, _)| first[id as usize + 1] += 1);
        for i in 0..count {
            first[i + 1] += first[i];
        }
        Uses {
            computed,
            positions: used.into_iter().map(|(_, at)| at).collect(),
            next: first.clone(),
            first,
        }
    }

    /// Begins a walk over the section.
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
