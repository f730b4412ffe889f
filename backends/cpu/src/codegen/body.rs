//! What a kernel computes, as instructions.

use super::narrow::{Kind, Narrow};
use super::reductions::finds_place;
use super::ssa::{Id, Inst, NONE, Op};
use thalweg_hal::ir::ReduceOp;

/// When a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The same for a launch.
    Launch,
    /// The same for a row: before its walk of that number.
    Row(u32),
    /// Of elements.
    Element,
}

/// What a walk over elements does with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sink {
    /// Takes it into a reduction.
    Reduce(u32),
    /// Writes it for later walks to read; the number is that of the memory.
    Keep(u32),
    /// Writes it to a parameter.
    Store(u32),
}

/// A walk over elements.
#[derive(Default)]
pub(super) struct Section {
    /// In the order in which they happen.
    pub(super) sinks: Vec<(Sink, Id)>,
}

/// Bounds of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    Any,
    /// Never below zero. -0 is below.
    Positive,
    /// The same, and never above 1.
    Unit,
}

/// What a kernel computes.
pub(super) struct Body {
    pub(super) insts: Vec<Inst>,
    pub(super) levels: Vec<Level>,
    /// Values that a sink needs, in whatever way.
    pub(super) needed: Vec<bool>,
    pub(super) sections: Vec<Section>,
    /// Values that are kept, and the walk that computes each.
    pub(super) kept: Vec<(Id, usize)>,
    pub(super) reduces: Vec<ReduceOp>,
    /// Stores of a row's values.
    pub(super) row_stores: Vec<(u32, Id)>,
    /// Bounds of values, unless they are no numbers.
    pub(super) ranges: Vec<Range>,
    /// Parameters whose elements have one or two bytes.
    pub(super) narrow: Vec<Narrow>,
    /// Instructions of elements stand so often, one for each of neighbouring vectors.
    pub(super) copies: usize,
}

impl Body {
    /// The same with each instruction of elements for `copies` vectors, side by side. What is the same for a row is that of the first.
    pub(super) fn interleaved(&self, copies: usize) -> Body {
        let each = |id: Id, copy: usize| match self.levels[id as usize] {
            Level::Element => id * copies as Id + copy as Id,
            Level::Launch | Level::Row(_) => id * copies as Id,
        };
        let mut body = Body {
            insts: Vec::with_capacity(self.insts.len() * copies),
            levels: Vec::with_capacity(self.insts.len() * copies),
            needed: Vec::with_capacity(self.insts.len() * copies),
            sections: Vec::with_capacity(self.sections.len()),
            kept: self.kept.iter().map(|&(id, by)| (each(id, 0), by)).collect(),
            reduces: self.reduces.clone(),
            row_stores: self.row_stores.iter().map(|&(p, id)| (p, each(id, 0))).collect(),
            ranges: (self.ranges.iter())
                .flat_map(|&range| std::iter::repeat_n(range, copies))
                .collect(),
            narrow: self.narrow.clone(),
            copies,
        };
        for ((inst, &level), &needed) in self.insts.iter().zip(&self.levels).zip(&self.needed) {
            for copy in 0..copies {
                let args = inst.args.map(|id| if id == NONE { NONE } else { each(id, copy) });
                body.insts.push(Inst { op: inst.op, args });
                body.levels.push(level);
                body.needed.push(needed && (copy == 0 || level == Level::Element));
            }
        }
        for section in &self.sections {
            let each = |&(sink, id): &(Sink, Id)| (0..copies).map(move |copy| (sink, each(id, copy)));
            let sinks = section.sinks.iter().flat_map(each).collect();
            body.sections.push(Section { sinks });
        }
        body
    }

    /// Whether each value is above elements and needed by others of its level alone.
    pub(super) fn stays(&self) -> Vec<bool> {
        let above = self.insts.iter().zip(&self.levels);
        let above = above.map(|(inst, &level)| level != Level::Element && !matches!(inst.op, Op::Reduced(_)));
        let mut stays: Vec<bool> = above.collect();
        let needed = (0..self.insts.len()).filter(|&i| self.needed[i]);
        for (i, id) in needed.flat_map(|i| self.insts[i].operands().map(move |id| (i, id as usize))) {
            stays[id] &= self.levels[i] == self.levels[id];
        }
        let sinks = self.sections.iter().flat_map(|s| &s.sinks).map(|&(_, id)| id);
        let ends = sinks.chain(self.row_stores.iter().map(|&(_, id)| id));
        ends.for_each(|id| stays[id as usize] = false);
        stays
    }

    /// What the elements of a parameter are, if they have one or two bytes.
    pub(super) fn kind(&self, param: u32) -> Option<Kind> {
        let of = self.narrow.iter().find(|narrow| narrow.param == param);
        of.map(|narrow| narrow.kind)
    }

    /// Which of neighbouring vectors a value of elements belongs to.
    pub(super) fn copy(&self, id: Id) -> usize {
        id as usize % self.copies
    }

    /// Whether two values of elements differ in that alone.
    pub(super) fn alike(&self, a: Id, b: Id) -> bool {
        a as usize / self.copies == b as usize / self.copies
    }

    /// Whether a value is a place of an element, an i64.
    pub(super) fn is_place(&self, id: Id) -> bool {
        match self.insts[id as usize].op {
            Op::Reduced(r) => finds_place(self.reduces[r as usize]),
            _ => false,
        }
    }
}
