//! Phases of rows longer than a segment as machine code.
//!
//! Each is a kernel of its own, which runs over a segment at a time. Values of the row that it reads are single parameters, and what a
//! reduction makes of the segment is a result. Nothing is kept from one phase to the next, because a row that long does not stay in a
//! cache.

use super::frame::Frame;
use super::launch::Launch;
use super::phases::{Part, Phases};
use super::plan::Along;
use super::rows::Partial;
use crate::codegen::Rows;
use crate::isa::{self, Isa};
use crate::loops::{Best, Reduction};
use crate::prefetch::LINE;
use smallvec::SmallVec;
use std::ops::Range;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Info, Kernel, Level, Node, NodeId, ReduceOp, Role};

/// Bytes from what is worked on to what is asked for, where that helps.
const AHEAD: usize = 2048;

/// The phases of a kernel; `None` where one has no machine code.
#[derive(Default)]
pub(super) struct Long {
    phases: Vec<Option<Stretch>>,
}

/// A phase over a segment.
pub(super) struct Stretch {
    code: Rows,
    sources: Vec<Source>,
    /// Bytes from what is worked on to what is asked for.
    ahead: usize,
}

/// What a parameter of a phase stands for.
#[derive(Clone, Copy)]
enum Source {
    /// A parameter of the kernel, from the segment's first element on.
    Elements(usize),
    /// The value of a node that is the same for a row.
    Value(usize),
    /// The result of the phase's reduction of that number.
    Result(usize),
}

impl Long {
    pub(super) fn new(kernel: &Kernel, part: &Part, isa: Isa) -> Long {
        let Ok(info) = kernel.verify() else {
            return Long::default();
        };
        let phases = Phases::new(kernel, &info, part, Along::Inner, false);
        let stretch = |members: &Vec<usize>| Stretch::new(kernel, &info, &phases, members, isa);
        Long {
            phases: phases.members.iter().map(stretch).collect(),
        }
    }

    /// Whether all phases have code.
    #[cfg(test)]
    pub(super) fn is_whole(&self) -> bool {
        !self.phases.is_empty() && self.phases.iter().all(Option::is_some)
    }

    /// The code of phase `k`, if the launch has what it needs.
    pub(super) fn phase(&self, k: usize, launch: &Launch<'_>) -> Option<&Stretch> {
        let in_place = |source: &Source| match *source {
            Source::Elements(p) => launch.flat[p],
            Source::Value(_) | Source::Result(_) => true,
        };
        let stretch = self.phases.get(k)?.as_ref()?;
        stretch.sources.iter().all(in_place).then_some(stretch)
    }
}

impl Stretch {
    fn new(kernel: &Kernel, info: &Info, phases: &Phases, members: &[usize], isa: Isa) -> Option<Stretch> {
        let mut own = Kernel::new(kernel.name.clone(), 1, 1);
        own.scalars.clone_from(&kernel.scalars);
        let (mut sources, mut places) = (Vec::new(), false);
        let mut params: Vec<Option<u32>> = vec![None; kernel.params.len()];
        let mut ids: Vec<Option<NodeId>> = vec![None; kernel.nodes.len()];
        let mut reduces = 0;
        let row = |own: &mut Kernel, role, access| own.param(DType::F32, role, Level::Row, access);
        for &i in members {
            for arg in kernel.nodes[i].args().map(|arg| arg.index()) {
                if ids[arg].is_some() {
                    continue;
                }
                let node = match kernel.nodes[arg] {
                    same @ (Node::Const { .. } | Node::Scalar { .. }) => same,
                    _ if info.dtypes[arg] == Some(DType::F32) && !phases.element[arg] => {
                        sources.push(Source::Value(arg));
                        let param = row(&mut own, Role::In, Access::Broadcast);
                        Node::Load { param }
                    }
                    _ => return None,
                };
                ids[arg] = Some(own.push(node));
            }
            let of = |id: NodeId| ids[id.index()];
            let mut elements = |own: &mut Kernel, param: u32| {
                *params[param as usize].get_or_insert_with(|| {
                    sources.push(Source::Elements(param as usize));
                    own.params.push(kernel.params[param as usize]);
                    own.params.len() as u32 - 1
                })
            };
            let node = match kernel.nodes[i] {
                Node::Load { param } => Node::Load {
                    param: elements(&mut own, param),
                },
                Node::Op { op, args } => Node::Op {
                    op,
                    args: [of(args[0])?, of(args[1])?, of(args[2])?],
                },
                Node::Cast { dtype, arg } => Node::Cast { dtype, arg: of(arg)? },
                Node::Store { param, value } => Node::Store {
                    param: elements(&mut own, param),
                    value: of(value)?,
                },
                Node::Reduce { op, arg } => {
                    let value = match op {
                        ReduceOp::ArgMax => ReduceOp::Max,
                        ReduceOp::ArgMin => ReduceOp::Min,
                        other => other,
                    };
                    places |= value != op;
                    let result = own.reduce(value, of(arg)?);
                    sources.push(Source::Result(reduces));
                    reduces += 1;
                    let param = row(&mut own, Role::Out, Access::Contiguous);
                    own.store(param, result);
                    ids[i] = Some(result);
                    continue;
                }
                Node::Const { .. }
                | Node::Scalar { .. }
                | Node::LoadAt { .. }
                | Node::Index { .. }
                | Node::Rand { .. } => return None,
            };
            ids[i] = Some(own.push(node));
        }
        let info = own.verify().ok()?;
        // Loops look for a place, which would read what was overwritten.
        let writes = |&i: &usize| matches!(kernel.nodes[i], Node::Store { .. });
        if places && members.iter().any(writes) {
            return None;
        }
        let is_store = |i: &usize| matches!(own.nodes[*i], Node::Store { .. });
        let part = Part {
            stores: (0..own.nodes.len()).filter(is_store).collect(),
            merged: false,
        };
        let phases = Phases::new(&own, &info, &part, Along::Inner, false);
        Some(Stretch {
            code: Rows::new(&own, &info, &phases, isa)?,
            sources,
            ahead: if isa::follows_pages() { 0 } else { AHEAD },
        })
    }

    /// Computes elements `range` of a frame's row, a segment at most, and hands out what the reductions make of them. A place is that of
    /// the segment.
    pub(super) fn run(
        &self,
        frame: &Frame<'_>,
        range: Range<u64>,
        reduces: &[u32],
        mut take: impl FnMut(usize, Partial),
    ) {
        let launch = frame.launch;
        let n = (range.end - range.start) as usize;
        let mut results: SmallVec<[f32; 4]> = SmallVec::from_elem(0.0, reduces.len());
        let mut addresses: SmallVec<[*mut u8; 16]> = (self.sources.iter())
            .map(|source| match *source {
                Source::Elements(p) => frame.element(p, range.start),
                Source::Value(node) => frame.value(frame.plan.of_node[node]),
                Source::Result(i) => (&raw mut results[i]).cast(),
            })
            .collect();
        for &p in &self.code.ahead {
            addresses.push(addresses[p].wrapping_add(self.ahead));
        }
        let steps: SmallVec<[isize; 16]> = SmallVec::from_elem(0, addresses.len());
        let lined = |&p: &usize| addresses[p].addr().is_multiple_of(LINE);
        let stream = launch.stream && self.code.outputs.iter().all(lined);
        // SAFETY: the caller of the launch vouches for the parameters and scalars; their elements stand one after the other.
        unsafe {
            (self.code).run((1, n), &mut addresses, &steps, launch.args.scalars, stream);
        }
        for (i, &r) in reduces.iter().enumerate() {
            let partial = match frame.plan.reduces[r as usize].loops {
                Reduction::Fold { .. } => (u64::from(results[i].to_bits()), 0),
                Reduction::Best { row, start, .. } => {
                    let mut best = Best {
                        key: start,
                        index: -1,
                    };
                    // SAFETY: it is one value.
                    unsafe { row(1, &mut best, (&raw const results[i]).cast(), range.start as i64) };
                    (best.key as u64, best.index as u64)
                }
            };
            take(i, partial);
        }
    }
}
