//! Maps that gather whole lines as machine code: where a line begins is known before, so that a gather is a load.

use super::launch::Launch;
use super::plan::Plan;
use super::space::MAX_AXES;
use super::still::Still;
use crate::codegen::Rows;
use crate::isa::Isa;
use smallvec::SmallVec;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, Param};

/// The code of a map over a line.
pub(super) struct Gathered {
    code: Rows,
    /// What each parameter of the code is.
    sources: Vec<Source>,
    /// The parameters that move along a line, a bit each; the others stand still there.
    moving: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A parameter of the kernel.
    Param(usize),
    /// The line of the gather of that number, from a parameter.
    Line(usize, usize),
}

/// Parameters that move by one element along the last axis of a launch, a bit each; `None` where some move otherwise.
pub(super) fn moving(launch: &Launch<'_>) -> Option<u64> {
    let (lanes, params) = (&launch.lanes, launch.args.args.len());
    let of = |p: usize| match lanes.of(p)[lanes.rank - 1] {
        0 => Some(0),
        1 => Some(1 << p),
        _ => None,
    };
    match params <= u64::BITS as usize {
        true => (0..params).try_fold(0, |all, p| Some(all | of(p)?)),
        false => None,
    }
}

impl Gathered {
    /// `None` where the map has no code, gathers otherwise too, or uses an index as a value.
    pub(super) fn new(
        kernel: &Kernel,
        plan: &Plan,
        still: &Still<'_>,
        moving: u64,
        isa: Isa,
    ) -> Option<Gathered> {
        let mut wanted = vec![false; kernel.nodes.len()];
        for (i, node) in kernel.nodes.iter().enumerate().rev() {
            wanted[i] |= matches!(node, Node::Store { .. });
            if wanted[i] && !matches!(node, Node::LoadAt { .. }) {
                node.args().for_each(|arg| wanted[arg.index()] = true);
            }
        }
        let mut own = Kernel::new(kernel.name.clone(), 1, 1);
        own.scalars.clone_from(&kernel.scalars);
        let mut sources: Vec<Source> = Vec::new();
        let mut ids: Vec<Option<NodeId>> = vec![None; kernel.nodes.len()];
        let mut param = |own: &mut Kernel, source: Source| {
            let p = match source {
                Source::Param(p) | Source::Line(_, p) => p,
            };
            let known = sources.iter().position(|&other| other == source);
            known.unwrap_or_else(|| {
                sources.push(source);
                let Param { dtype, role, .. } = kernel.params[p];
                let (level, access) = match moving >> p & 1 {
                    1 => (Level::Element, Access::Contiguous),
                    _ => (Level::Row, Access::Strided),
                };
                own.params.push(Param {
                    dtype,
                    role,
                    level,
                    access,
                });
                sources.len() - 1
            }) as u32
        };
        for (i, node) in kernel.nodes.iter().enumerate().filter(|&(i, _)| wanted[i]) {
            let of = |id: NodeId| ids[id.index()];
            let node = match *node {
                Node::Const { .. } | Node::Scalar { .. } => *node,
                Node::Load { param: p } => Node::Load {
                    param: param(&mut own, Source::Param(p as usize)),
                },
                Node::LoadAt { param: p, .. } => {
                    let line = still.gather_of(plan.of_node[i])?;
                    if moving >> p & 1 == 0 {
                        return None;
                    }
                    Node::Load {
                        param: param(&mut own, Source::Line(line, p as usize)),
                    }
                }
                Node::Op { op, args } => Node::Op {
                    op,
                    args: [of(args[0])?, of(args[1])?, of(args[2])?],
                },
                Node::Cast { dtype, arg } => Node::Cast { dtype, arg: of(arg)? },
                Node::Store { param: p, value } => {
                    if moving >> p & 1 == 0 {
                        return None;
                    }
                    Node::Store {
                        param: param(&mut own, Source::Param(p as usize)),
                        value: of(value)?,
                    }
                }
                Node::Index { .. } | Node::Rand { .. } | Node::Reduce { .. } => return None,
            };
            ids[i] = Some(own.push(node));
        }
        let info = own.verify().ok()?;
        Some(Gathered {
            code: Rows::of_map(&own, &info, isa)?,
            sources,
            moving,
        })
    }

    /// Whether it is made for a launch with these parameters that move.
    pub(super) fn suits(&self, moving: u64) -> bool {
        self.moving == moving
    }

    /// Computes `n` elements at a place of a launch. `line` gives the bytes from the beginning of a gather's table to its line, or `None`
    /// beyond it. Whether it did: not where a line is beyond.
    ///
    /// # Safety
    /// As a launch.
    pub(super) unsafe fn run(
        &self,
        launch: &Launch<'_>,
        at: &[u64; MAX_AXES],
        n: usize,
        line: impl Fn(usize) -> Option<isize>,
    ) -> bool {
        let start = |p: usize| {
            launch.args.args[p]
                .ptr
                .wrapping_offset(launch.offset(p, at, &[0; MAX_AXES]))
        };
        let mut addresses: SmallVec<[*mut u8; 16]> = SmallVec::new();
        for source in &self.sources {
            addresses.push(match *source {
                Source::Param(p) => start(p),
                Source::Line(k, p) => match line(k) {
                    Some(offset) => start(p).wrapping_offset(offset),
                    None => return false,
                },
            });
        }
        let steps: SmallVec<[isize; 16]> = SmallVec::from_elem(0, addresses.len());
        // SAFETY: the caller's promise. Code for maps keeps nothing and asks for nothing.
        unsafe {
            self.code
                .run((1, n), &mut addresses, &steps, launch.args.scalars, false)
        };
        true
    }
}
