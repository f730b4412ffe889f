//! Windows and rows of several runs of memory over elements that the same kernel computes and stores, as those of a pool behind a bias and
//! an activation: what is stored is computed as a map in the order of memory, and then read. Windows come part after part of the launch.

use super::launch::SPLIT;
use super::plan::Along;
use super::program::{Arg, Args, Program};
use super::slabs::{Extents, Slabs, moved};
use super::space::{Strides, full_strides};
use crate::isa::Isa;
use crate::parallel::{Parallel, Serial};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::OnceLock;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Info, Kernel, Level, Node, NodeId, Role};

/// Bytes of a part's stored elements: of the second-level cache.
const PART: u64 = 64 << 10;
/// Elements that two kernels instead of one are worth.
const LEAST: u64 = 4 << 10;
/// Parts for each thread, so that none waits long for the last one.
const PARTS: u64 = 4;

/// The two kernels that such a kernel is.
pub(super) struct Stored {
    /// The output whose elements are reduced.
    param: usize,
    map: Kernel,
    reduced: Kernel,
    isa: Isa,
    /// Made when a launch first needs them.
    made: OnceLock<Option<[Program; 2]>>,
}

/// Keeps some nodes of a kernel.
fn only(kernel: &Kernel, keep: impl Fn(usize) -> Option<Node>) -> Kernel {
    let mut numbers = vec![NodeId(0); kernel.nodes.len()];
    let mut part = Kernel {
        nodes: Vec::new(),
        ..kernel.clone()
    };
    for (i, number) in (0..kernel.nodes.len()).filter_map(|i| Some((i, keep(i)?))) {
        numbers[i] = part.push(number.map_args(|arg| numbers[arg.index()]));
    }
    let part = part.without_unused();
    let touched = |p: u32| {
        part.nodes.iter().any(|node| match *node {
            Node::Load { param } | Node::Store { param, .. } => param == p,
            _ => false,
        })
    };
    let mut params = part.params.clone();
    for (p, param) in params.iter_mut().enumerate() {
        if !touched(p as u32) {
            (param.role, param.level, param.access) = (Role::In, Level::Row, Access::Broadcast);
        }
    }
    Kernel { params, ..part }
}

impl Stored {
    /// The kernels that one kernel is; `None` for others.
    pub(super) fn of(kernel: &Kernel, info: &Info, isa: Isa) -> Option<Stored> {
        let nodes = &kernel.nodes;
        let other =
            |node: &Node| matches!(node, Node::Index { .. } | Node::LoadAt { .. } | Node::Rand { .. });
        let mut reduces = nodes.iter().filter_map(|node| match *node {
            Node::Reduce { arg, .. } => Some(arg.index()),
            _ => None,
        });
        let (Some(value), None) = (reduces.next(), reduces.next()) else {
            return None;
        };
        if nodes.iter().any(other) || matches!(nodes[value], Node::Load { .. }) {
            return None;
        }
        let param = nodes.iter().find_map(|node| match *node {
            Node::Store { param, value: of } if of.index() == value => Some(param as usize),
            _ => None,
        })?;
        if info.dtypes[value] != Some(DType::F32) || kernel.params[param].level != Level::Element {
            return None;
        }
        let mut after = vec![false; nodes.len()];
        for (i, node) in nodes.iter().enumerate() {
            after[i] = matches!(node, Node::Reduce { .. }) || node.args().any(|arg| after[arg.index()]);
        }
        let is_store = |i: usize| matches!(nodes[i], Node::Store { .. });
        let element = |i: usize| info.levels[i] == Level::Element;
        if (0..nodes.len()).any(|i| is_store(i) && after[i] && element(i)) {
            return None;
        }
        let mut map = only(kernel, |i| {
            (!after[i] && (element(i) || !is_store(i))).then_some(nodes[i])
        });
        (map.outer, map.inner) = (kernel.outer + kernel.inner, 0);
        for param in map
            .params
            .iter_mut()
            .filter(|param| param.access != Access::Broadcast)
        {
            (param.level, param.access) = (Level::Row, Access::Strided);
        }
        let load = Node::Load { param: param as u32 };
        let mut reduced = only(kernel, |i| match i {
            i if i == value => Some(load),
            i => (!element(i)).then_some(nodes[i]),
        });
        (reduced.params[param].role, reduced.params[param].access) = (Role::In, Access::Strided);
        Some(Stored {
            param,
            map,
            reduced,
            isa,
            made: OnceLock::new(),
        })
    }

    /// The axes in the order in which the stored elements lie in memory, if they are dense and no row is a run of memory, and whether
    /// neighbours in memory are of different rows.
    fn order(
        &self,
        outer: usize,
        extents: &[u64],
        strides: &Strides,
    ) -> Option<(SmallVec<[usize; 16]>, bool)> {
        let own = &strides[self.param * extents.len()..][..extents.len()];
        let mut order: SmallVec<[usize; 16]> = (0..extents.len()).collect();
        order.sort_by_key(|&axis| (extents[axis] != 1, Reverse(own[axis].unsigned_abs())));
        let long = || order.iter().copied().filter(|&axis| extents[axis] != 1);
        let mut step = 1_i64;
        for axis in long().rev() {
            if own[axis] != step {
                return None;
            }
            step = step.wrapping_mul(extents[axis] as i64);
        }
        let mut inner = long().map(|axis| axis >= outer);
        let apart = long().next_back().is_some_and(|axis| axis < outer);
        let several = inner.by_ref().any(|inner| inner) && (apart || inner.any(|inner| !inner));
        several.then_some((order, apart))
    }

    /// Runs the kernels of `program` where a launch has such windows; whether it did.
    ///
    /// # Safety
    /// As [`Program::run`].
    pub(super) unsafe fn run(&self, program: &Program, args: &Args<'_>, parallel: &dyn Parallel) -> bool {
        let (extents, rank) = (args.extents, args.extents.len());
        let outer = program.kernel.outer as usize;
        let total = extents
            .iter()
            .fold(1_u64, |total, &extent| total.saturating_mul(extent));
        let strides = full_strides(&program.kernel, args);
        let [part] = &program.parts[..] else { return false };
        if total < LEAST {
            return false;
        }
        let Some((order, apart)) = self.order(outer, extents, &strides) else {
            return false;
        };
        let make = |kernel: &Kernel| Some(Program::compile(kernel, self.isa).ok()?.generate(self.isa));
        let made = self
            .made
            .get_or_init(|| Some([make(&self.map)?, make(&self.reduced)?]));
        let Some([map, reduced]) = made else { return false };
        let threads = match program.cost(extents) < SPLIT {
            true => 1,
            false => parallel.threads(),
        };
        let sorted: Strides = (strides.chunks(rank))
            .flat_map(|own| order.iter().map(|&axis| own[axis]))
            .collect();
        let in_order = |extents: &[u64]| -> Extents { order.iter().map(|&axis| extents[axis]).collect() };
        let (bytes, wanted) = (total.saturating_mul(4), PARTS * threads as u64);
        let each = |count: u64, body: &(dyn Fn(u64) + Sync)| match count {
            count if threads == 1 => (0..count).for_each(body),
            count => parallel.run(count as usize, &|number| body(number as u64)),
        };
        let launch = |(part, strides): (&Program, &Strides), moved: &[Arg<'_>], extents: &[u64], parallel| {
            let params = moved.iter().zip(&part.kernel.params).enumerate();
            let moved: SmallVec<[Arg<'_>; 8]> = params
                .map(|(p, (arg, param))| {
                    let axes = match (param.access, param.level) {
                        (Access::Contiguous | Access::Broadcast, _) => 0,
                        (Access::Strided, Level::Row) => part.kernel.outer as usize,
                        (Access::Strided, Level::Element) => rank,
                    };
                    let strides = &strides[p * rank..][..axes];
                    Arg { strides, ..*arg }
                })
                .collect();
            let args = Args {
                extents,
                args: &moved,
                scalars: args.scalars,
            };
            // SAFETY: the caller's promise, for a part of the space.
            unsafe { part.run(&args, parallel) };
        };
        if !apart && program.direction(part, args, &strides) == Along::Outer {
            let slabs = slabs(&extents[..outer], bytes, wanted);
            each(slabs.count, &|number| {
                let (start, own) = slabs.slab(number, extents);
                let moved = moved(args.args, &start, &strides, &program.sizes);
                launch((map, &sorted), &moved, &in_order(&own), &Serial);
                launch((reduced, &strides), &moved, &own, &Serial);
            });
            return true;
        }
        let all = in_order(extents);
        // Rows that lie apart from others, such as those of an image: what is stored is still near when it is reduced.
        let whole = order.iter().take_while(|&&axis| axis < outer).count();
        if let Some(last) = whole.checked_sub(1)
            && apart
            && all[..whole].iter().product::<u64>() >= threads as u64
        {
            let slabs = Slabs::new(&all, last, 1);
            each(slabs.count, &|number| {
                let (start, own) = slabs.slab(number, &all);
                let (mut from, mut part) = (start.clone(), own.clone());
                for (at, &axis) in order.iter().enumerate() {
                    (from[axis], part[axis]) = (start[at], own[at]);
                }
                let sizes = &program.sizes;
                launch(
                    (map, &sorted),
                    &moved(args.args, &start, &sorted, sizes),
                    &own,
                    &Serial,
                );
                launch(
                    (reduced, &strides),
                    &moved(args.args, &from, &strides, sizes),
                    &part,
                    &Serial,
                );
            });
            return true;
        }
        let slabs = slabs(&all, bytes, wanted);
        each(slabs.count, &|number| {
            let (start, own) = slabs.slab(number, &all);
            let moved = moved(args.args, &start, &sorted, &program.sizes);
            launch((map, &sorted), &moved, &own, &Serial);
        });
        launch((reduced, &strides), args.args, extents, parallel);
        true
    }
}

#[cfg(test)]
impl Stored {
    /// Whether there are programs.
    pub(super) fn is_made(&self) -> bool {
        matches!(self.made.get(), Some(Some(_)))
    }
}

/// Slabs of a space, of `bytes` bytes together, that are small, or at least `wanted`.
fn slabs(extents: &[u64], bytes: u64, wanted: u64) -> Slabs {
    let mut slabs = Slabs::new(extents, 0, extents[0]);
    let mut before = 1_u64;
    for (axis, &extent) in extents.iter().enumerate() {
        let point = bytes / (before * extent);
        let small = (PART / point.max(1)).clamp(1, extent);
        let width = small.min((before * extent / wanted).clamp(1, extent));
        slabs = Slabs::new(extents, axis, width);
        before *= extent;
        if point <= PART && before >= wanted {
            break;
        }
    }
    slabs
}
