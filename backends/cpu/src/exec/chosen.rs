//! Kernels that give the place of a window's greatest or least element one value and the others another, as gradients of pools do. Where
//! windows are pairs next to each other, all of it is one pass.

use super::frame::{Frame, Lanes};
use super::phases::{Part, Phases};
use super::plan::Along;
use crate::loops::{ChosenFn, ChosenWindows, chosen_of};
use thalweg_hal::DType;
use thalweg_hal::ir::{Info, Kernel, Level, Node, NodeId, ReduceOp, ScalarOp};

/// What such a kernel is of.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    from: usize,
    to: usize,
    max: bool,
    /// The number of an element in its window, if the kernel compares the place with that.
    number: NodeId,
    /// What the place gets, and what the others get, and whether it is the same for all windows.
    values: [(NodeId, bool); 2],
}

impl Chosen {
    pub(super) fn of(kernel: &Kernel, info: &Info, part: &Part) -> Option<Chosen> {
        let phases = Phases::new(kernel, info, part, Along::Outer, true);
        let node = |id: NodeId| kernel.nodes[id.index()];
        let [store] = part.stores[..] else { return None };
        let Node::Store { param: to, value } = kernel.nodes[store] else {
            return None;
        };
        let Node::Op {
            op: ScalarOp::Select,
            args: [condition, yes, no],
        } = node(value)
        else {
            return None;
        };
        let Node::Op {
            op: ScalarOp::Eq,
            args: [a, b, _],
        } = node(condition)
        else {
            return None;
        };
        let reduced = |id: NodeId| match node(id) {
            Node::Reduce { op, arg } => match (op, node(arg)) {
                (ReduceOp::ArgMax, Node::Load { param }) => Some((true, param as usize, arg)),
                (ReduceOp::ArgMin, Node::Load { param }) => Some((false, param as usize, arg)),
                _ => None,
            },
            _ => None,
        };
        let (number, (max, from, loaded)) = match (reduced(a), reduced(b)) {
            (Some(of), None) => (b, of),
            (None, Some(of)) => (a, of),
            _ => return None,
        };
        let reduces = kernel
            .nodes
            .iter()
            .filter(|node| matches!(node, Node::Reduce { .. }));
        let dtype = |id: NodeId| info.dtypes[id.index()];
        let fits = reduces.count() == 1
            && phases.place[number.index()]
            && dtype(number) == Some(DType::I64)
            && dtype(loaded) == Some(DType::F32)
            && dtype(value) == Some(DType::F32)
            && kernel.params[to as usize].level == Level::Element
            && kernel.params[from].level == Level::Element;
        let values = [yes, no].map(|id| (id, phases.uniform[id.index()]));
        // With one reduction, on which the place depends, a value of a row is known before the first walk.
        let known =
            |&(id, _): &(NodeId, bool)| info.levels[id.index()] == Level::Row && phases.row[id.index()] == 0;
        (fits && values.iter().all(known)).then_some(Chosen {
            from,
            to: to as usize,
            max,
            number,
            values,
        })
    }
}

/// The pass that does what the phases of a block would do.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    chosen: Chosen,
    run: ChosenFn,
}

impl Frame<'_> {
    /// That of a launch; `None` where its windows are of another kind.
    pub(super) fn one_pass(&mut self) -> Option<Pass> {
        let launch = self.launch;
        let chosen = launch.chosen?;
        let (args, lanes) = (&launch.args.args, &launch.lanes);
        // The last windows of a line may be read again when they are written.
        let alike = launch.sheets.pairs(chosen.from, false)? == launch.sheets.pairs(chosen.to, true)?
            && lanes.of(chosen.from) == lanes.of(chosen.to);
        if !alike || args[chosen.from].ptr == args[chosen.to].ptr {
            return None;
        }
        let run = chosen_of(self.plan.isa, chosen.max, lanes.extents[lanes.rank - 1])?;
        let numbers = &self.plan.phases.last()?.place;
        for j in 0..launch.other.total {
            launch.other.place(j, &mut self.other);
            self.run(numbers, Lanes::Point);
            // SAFETY: a single value of 8 bytes.
            let number = unsafe { *self.value(self.plan.of_node[chosen.number.index()]).cast::<i64>() };
            if number != j as i64 {
                return None;
            }
        }
        Some(Pass { chosen, run })
    }

    /// Takes a block of `n` windows, whose values of rows are there.
    pub(super) fn choose(&self, pass: Pass, n: usize) {
        let chosen = pass.chosen;
        let Some(rows) = self.launch.sheets.pairs(chosen.from, false) else {
            return;
        };
        // SAFETY: the table has every parameter.
        let (from, to) = unsafe { (*self.at.add(chosen.from), *self.at.add(chosen.to)) };
        self.shape(n).sheets(chosen.from, |first, lines, offset| {
            let values = chosen.values.map(|(id, single)| {
                let value = self.value(self.plan.of_node[id.index()]).cast::<u32>();
                let first = if single { 0 } else { first };
                (value.wrapping_add(first).cast_const(), single)
            });
            let windows = ChosenWindows {
                from: from.cast::<u32>().wrapping_offset(offset as isize).cast_const(),
                to: to.cast::<u32>().wrapping_offset(offset as isize),
                rows,
                length: lines.length,
                count: lines.count,
                step: lines.step,
                values,
            };
            // SAFETY: the caller of the launch vouches for the elements of the block; values have one, or one for each window.
            unsafe { (pass.run)(&windows) };
        });
    }
}
