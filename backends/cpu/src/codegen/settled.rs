//! What loops over a section decide before they begin: vectors side by side, and the values that keep a register.

use super::body::Level;
use super::function::SHORT;
use super::registers::{MASKS, Registers, TAIL_VECTOR};
use super::ssa::Id;
use super::uses::NEVER;
use std::cmp::Reverse;

/// Most registers that one instruction, or one vector of a reduction, holds at once.
const PINNED: usize = 6;

impl Registers<'_> {
    /// Begins loops over a section. It is computed for several vectors side by side: an instruction of one needs the result of the one
    /// before, so that a core does others meanwhile. Values that are the same for all of them get the registers that are left.
    pub(super) fn settle(&mut self) {
        let (body, count) = (self.body, self.body.insts.len());
        let (mut last, mut times) = (vec![0; count], vec![0; count]);
        for (i, inst) in body
            .insts
            .iter()
            .enumerate()
            .filter(|(i, _)| self.uses.computed[*i])
        {
            for id in inst.operands() {
                last[id as usize] = i;
                times[id as usize] += 1;
            }
        }
        self.sinks.iter().for_each(|&(_, id)| last[id as usize] = count);
        // Registers that one vector needs at most, for values or for masks.
        let most = |masks: bool| {
            let (mut live, mut most) = (0, 0);
            let mut ends = vec![0; count + 1];
            for i in (0..count).step_by(body.copies) {
                live -= ends[i];
                if self.uses.computed[i] && self.is_mask(i as Id) == masks {
                    live += 1;
                    ends[last[i]] += 1;
                }
                most = usize::max(most, live);
            }
            most
        };
        let free = (0..if self.asm.wide { 32 } else { TAIL_VECTOR }).filter(|r| self.reserved & 1 << r == 0);
        let free: Vec<u8> = free.rev().collect();
        let each = most(false) + 1;
        let fit = (free.len() / each).min(MASKS.count_ones() as usize / most(true).max(1));
        // A power of two. Short ones wait for memory alone.
        self.abreast = match self.weight() <= SHORT {
            true => 1,
            false => 1 << fit.clamp(1, body.copies).ilog2(),
        };

        let shared = |&i: &usize| times[i] > 0 && body.levels[i] != Level::Element && !self.is_mask(i as Id);
        let mut shared: Vec<usize> = (0..count).filter(shared).collect();
        shared.sort_by_key(|&i| Reverse(times[i]));
        let left = free.len().saturating_sub(usize::max(each * self.abreast, PINNED));
        self.settled = shared.into_iter().map(|i| i as Id).zip(free).take(left).collect();
        for (id, register) in self.settled.clone() {
            self.read(id, register);
        }
    }

    /// Whether a value keeps its register in all loops.
    fn is_settled(&self, id: Id) -> bool {
        self.settled.iter().any(|&(settled, _)| settled == id)
    }

    /// Whether nothing reads a value's register after `at`.
    pub(super) fn is_last(&mut self, id: Id, at: u32) -> bool {
        self.uses.next(id, at) == NEVER && !self.is_settled(id)
    }
}
