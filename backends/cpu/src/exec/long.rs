//! Phases of rows as machine code: of rows longer than a segment, and of rows with parameters that stand still along lines.
//!
//! Each is a kernel of its own, which runs over a segment at a time. Values of the row that it reads are single parameters, and what a
//! reduction makes of the segment is a result. Nothing is kept from one phase to the next, because a row that long does not stay in a
//! cache.
//!
//! A row of several axes has lines along the last. Parameters such as the weights of channels stand still along one. A phase that reduces
//! nothing runs line by line then, and they are values of a line. A phase that reduces reads its segment from scratch, where the lines
//! stand one after the other: its lanes do not begin anew with a line.

use super::arena::Scratch;
use super::frame::Frame;
use super::launch::Launch;
use super::moves::Shape;
use super::phases::{Part, Phases};
use super::plan::Along;
use super::rows::Partial;
use super::space::{MAX_AXES, Space};
use crate::codegen::Rows;
use crate::isa::{self, Isa};
use crate::loops::{Best, Reduction, SEGMENT};
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
    /// The parameters that stand still along a line, a bit each, where rows have lines.
    pub(super) still: Option<u64>,
}

/// Elements of a line that is worth a turn of its own.
const LEAST_LINE: u64 = 16;

/// How a phase reads a segment.
#[derive(Clone, Copy, PartialEq)]
enum Walk {
    /// Where it is.
    Whole,
    /// Line by line, along which these parameters stand still, a bit each.
    Lines(u64),
    /// From scratch, where its lines do not follow each other.
    Joined,
}

/// A parameter's elements of a segment in scratch, one after the other.
pub(super) struct Joined {
    param: usize,
    /// The frame's row, and the segment's first element.
    of: (u64, u64),
    scratch: Scratch,
}

/// Bytes between the beginnings of two such blocks within a page, so that they do not share the sets of a cache.
const APART: usize = 5 * LINE;
/// Within which they begin.
const PAGE: usize = 4096;

impl Joined {
    /// One of `number` that there are.
    fn start(&self, number: usize) -> *mut u8 {
        self.scratch.start().wrapping_add(number * APART % PAGE)
    }
}

/// A phase over a segment.
pub(super) struct Stretch {
    code: Rows,
    sources: Vec<Source>,
    walk: Walk,
    /// Bytes from what is worked on to what is asked for.
    ahead: usize,
}

/// What a parameter of a phase stands for.
#[derive(Clone, Copy)]
enum Source {
    /// A parameter of the kernel, from the segment's first element on.
    Elements(usize),
    /// A parameter of the kernel that stands still along a line.
    Still(usize),
    /// The value of a node that is the same for a row.
    Value(usize),
    /// The result of the phase's reduction of that number.
    Result(usize),
}

impl Long {
    /// For rows whose phases run over segments, or by lines along which the parameters of `still` do not move.
    pub(super) fn new(kernel: &Kernel, part: &Part, isa: Isa, still: Option<u64>) -> Long {
        let Ok(info) = kernel.verify() else {
            return Long::default();
        };
        let phases = Phases::new(kernel, &info, part, Along::Inner, false);
        let reduces = |&i: &usize| matches!(kernel.nodes[i], Node::Reduce { .. });
        let stretch = |members: &Vec<usize>| {
            let walk = match still {
                None => Walk::Whole,
                Some(_) if members.iter().any(reduces) => Walk::Joined,
                Some(still) => Walk::Lines(still),
            };
            Stretch::new(kernel, &info, (&phases, members), isa, walk)
        };
        Long {
            phases: phases.members.iter().map(stretch).collect(),
            still,
        }
    }

    /// The parameters that stand still along the lines of a space, a bit each; `None` where all are in place without lines, or some
    /// move along one in another way.
    pub(super) fn still(kernel: &Kernel, lanes: &Space) -> Option<u64> {
        let last = lanes.rank - 1;
        if last == 0 || lanes.extents[last] < LEAST_LINE || kernel.params.len() > u64::BITS as usize {
            return None;
        }
        let (mut still, mut moved) = (0, false);
        for (p, param) in kernel.params.iter().enumerate() {
            if param.level == Level::Row || param.access == Access::Broadcast {
                continue;
            }
            moved |= !lanes.is_flat(p);
            match lanes.of(p)[last] {
                1 => {}
                0 if param.role == Role::In => still |= 1 << p,
                _ => return None,
            }
        }
        moved.then_some(still)
    }

    /// Whether all phases have code for a space.
    pub(super) fn covers(&self, lanes: &Space) -> bool {
        let mut phases = self.phases.iter();
        phases.all(|phase| {
            phase
                .as_ref()
                .is_some_and(|stretch| stretch.suits(|p| lanes.is_flat(p)))
        })
    }

    /// Whether all phases have code.
    #[cfg(test)]
    pub(super) fn is_whole(&self) -> bool {
        !self.phases.is_empty() && self.phases.iter().all(Option::is_some)
    }

    /// The code of phase `k`, if the launch has what it needs.
    pub(super) fn phase(&self, k: usize, launch: &Launch<'_>) -> Option<&Stretch> {
        let stretch = self.phases.get(k)?.as_ref()?;
        stretch.suits(|p| launch.flat[p]).then_some(stretch)
    }
}

/// Elements `range` of a row, of which `start` is the first.
fn stretch_of<'a>(launch: &'a Launch<'_>, start: &'a [u64; MAX_AXES], range: &Range<u64>) -> Shape<'a> {
    Shape {
        isa: launch.plan.isa,
        space: &launch.lanes,
        start,
        n: (range.end - range.start) as usize,
        tile: None,
    }
}

impl Frame<'_> {
    /// Where a parameter's elements of the present segment stand in scratch.
    fn joined_at(&self, param: usize) -> *mut u8 {
        let number = self.joined.iter().position(|joined| joined.param == param);
        number.map_or(std::ptr::null_mut(), |number| self.joined[number].start(number))
    }
}

impl Stretch {
    fn new(
        kernel: &Kernel,
        info: &Info,
        (phases, members): (&Phases, &[usize]),
        isa: Isa,
        walk: Walk,
    ) -> Option<Stretch> {
        let mut own = Kernel::new(kernel.name.clone(), 1, 1);
        own.scalars.clone_from(&kernel.scalars);
        let (mut sources, mut places) = (Vec::new(), false);
        let mut params: Vec<Option<u32>> = vec![None; kernel.params.len()];
        let mut ids: Vec<Option<NodeId>> = vec![None; kernel.nodes.len()];
        let mut reduces = 0;
        let row = |own: &mut Kernel, dtype, role, access| own.param(dtype, role, Level::Row, access);
        for &i in members {
            for arg in kernel.nodes[i].args().map(|arg| arg.index()) {
                if ids[arg].is_some() {
                    continue;
                }
                let node = match kernel.nodes[arg] {
                    same @ (Node::Const { .. } | Node::Scalar { .. }) => same,
                    _ if info.dtypes[arg] == Some(DType::F32) && !phases.element[arg] => {
                        sources.push(Source::Value(arg));
                        let param = row(&mut own, DType::F32, Role::In, Access::Broadcast);
                        Node::Load { param }
                    }
                    _ => return None,
                };
                ids[arg] = Some(own.push(node));
            }
            let of = |id: NodeId| ids[id.index()];
            let mut elements = |own: &mut Kernel, param: u32| {
                *params[param as usize].get_or_insert_with(|| {
                    if matches!(walk, Walk::Lines(still) if still >> param & 1 == 1) {
                        sources.push(Source::Still(param as usize));
                        let dtype = kernel.params[param as usize].dtype;
                        return row(own, dtype, Role::In, Access::Strided);
                    }
                    sources.push(Source::Elements(param as usize));
                    let mut moving = kernel.params[param as usize];
                    if walk != Walk::Whole && moving.access == Access::Strided {
                        moving.access = Access::Contiguous;
                    }
                    own.params.push(moving);
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
                    let param = row(&mut own, DType::F32, Role::Out, Access::Contiguous);
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
            walk,
            ahead: if isa::follows_pages() { 0 } else { AHEAD },
        })
    }

    /// Whether it runs where these parameters' elements stand one after the other along a row.
    fn suits(&self, flat: impl Fn(usize) -> bool) -> bool {
        let in_place = |source: &Source| match *source {
            Source::Elements(p) => flat(p),
            Source::Still(_) | Source::Value(_) | Source::Result(_) => true,
        };
        self.walk != Walk::Whole || self.sources.iter().all(in_place)
    }

    /// Computes elements `range` of a frame's row, a segment at most, and hands out what the reductions make of them. A place is that of
    /// the segment.
    pub(super) fn run(
        &self,
        frame: &mut Frame<'_>,
        range: Range<u64>,
        reduces: &[u32],
        mut take: impl FnMut(usize, Partial),
    ) {
        if let Walk::Lines(_) = self.walk {
            return self.by_lines(frame, range);
        }
        self.join(frame, &range);
        let frame = &*frame;
        let launch = frame.launch;
        let n = (range.end - range.start) as usize;
        let mut results: SmallVec<[f32; 4]> = SmallVec::from_elem(0.0, reduces.len());
        let mut addresses: SmallVec<[*mut u8; 16]> = (self.sources.iter())
            .map(|source| match *source {
                Source::Elements(p) | Source::Still(p) if launch.flat[p] => frame.element(p, range.start),
                Source::Elements(p) | Source::Still(p) => frame.joined_at(p),
                Source::Value(node) => frame.value(frame.plan.of_node[node]),
                Source::Result(i) => (&raw mut results[i]).cast(),
            })
            .collect();
        for &p in &self.code.ahead {
            addresses.push(addresses[p].wrapping_add(self.ahead));
        }
        let steps: SmallVec<[isize; 16]> = SmallVec::from_elem(0, addresses.len());
        let lined = |&p: &usize| addresses[p].addr().is_multiple_of(LINE);
        let apart = self.apart(launch).any(|(_, written)| written);
        let stream = launch.stream && !apart && self.code.outputs.iter().all(lined);
        // SAFETY: the caller of the launch vouches for the parameters and scalars; their elements stand one after the other.
        unsafe {
            (self.code).run((1, n), &mut addresses, &steps, launch.args.scalars, stream);
        }
        if apart {
            self.part(frame, &range);
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

    /// The parameters whose elements do not stand one after the other along a row, and whether they are written.
    fn apart(&self, launch: &Launch<'_>) -> impl Iterator<Item = (usize, bool)> {
        let sources = self.sources.iter().enumerate();
        sources.filter_map(|(at, source)| match *source {
            Source::Elements(p) if !launch.flat[p] => Some((p, self.code.outputs.contains(&at))),
            _ => None,
        })
    }

    /// Brings what is read of elements `range` together that does not stand so, and makes room for what is written.
    fn join(&self, frame: &mut Frame<'_>, range: &Range<u64>) {
        let launch = frame.launch;
        let of = (frame.row, range.start);
        let start = launch.lanes.index(range.start);
        let shape = stretch_of(launch, &start, range);
        for (p, written) in self.apart(launch) {
            let size = usize::from(launch.sizes[p]);
            let number = frame.joined.iter().position(|joined| joined.param == p);
            let number = number.unwrap_or_else(|| {
                let most = launch.lanes.total.min(SEGMENT as u64) as usize;
                frame.joined.push(Joined {
                    param: p,
                    of: (u64::MAX, 0),
                    scratch: Scratch::new(most * size + PAGE),
                });
                frame.joined.len() - 1
            });
            if frame.joined[number].of == of || written {
                continue;
            }
            let from = frame.element_at(p, launch.lanes.offset(p, &start));
            // SAFETY: the caller of the launch vouches for the elements; the scratch was sized for a segment.
            unsafe { shape.gather(size, frame.joined[number].start(number), from, p) };
            frame.joined[number].of = of;
        }
    }

    /// Takes what was written to scratch to its places.
    fn part(&self, frame: &Frame<'_>, range: &Range<u64>) {
        let launch = frame.launch;
        let start = launch.lanes.index(range.start);
        let shape = stretch_of(launch, &start, range);
        for (p, _) in self.apart(launch).filter(|&(_, written)| written) {
            let to = frame.element_at(p, launch.lanes.offset(p, &start));
            let size = usize::from(launch.sizes[p]);
            // SAFETY: as in `join`.
            unsafe { shape.scatter(size, to, frame.joined_at(p), p, launch.stream) };
        }
    }

    /// Computes elements `range` of a frame's row line by line.
    fn by_lines(&self, frame: &Frame<'_>, range: Range<u64>) {
        let launch = frame.launch;
        let lanes = &launch.lanes;
        let last = lanes.rank - 1;
        let length = lanes.extents[last];
        let of = |source: &Source| match *source {
            Source::Elements(p) | Source::Still(p) => (
                usize::from(launch.sizes[p]) as isize * lanes.of(p)[last - 1] as isize,
                Some(p),
            ),
            Source::Value(_) | Source::Result(_) => (0, None),
        };
        let mut steps: SmallVec<[isize; 16]> = self.sources.iter().map(|source| of(source).0).collect();
        steps.extend(self.code.ahead.iter().map(|&p| of(&self.sources[p]).0));
        let mut addresses: SmallVec<[*mut u8; 16]> = SmallVec::from_elem(std::ptr::null_mut(), steps.len());
        let mut index = [0; MAX_AXES];
        let mut first = range.start;
        while first < range.end {
            lanes.place(first, &mut index);
            let left = range.end - first;
            // Whole lines as far as the axis before goes, or what there is of one.
            let (rows, n) = match index[last] == 0 && left >= length {
                true => (
                    (left / length).min(lanes.extents[last - 1] - index[last - 1]),
                    length,
                ),
                false => (1, left.min(length - index[last])),
            };
            for (to, source) in addresses.iter_mut().zip(&self.sources) {
                *to = match (*source, of(source).1) {
                    (_, Some(p)) => frame.element_at(p, lanes.offset(p, &index)),
                    (Source::Value(node), _) => frame.value(frame.plan.of_node[node]),
                    // A phase by lines reduces nothing.
                    _ => std::ptr::null_mut(),
                };
            }
            for (k, &p) in self.code.ahead.iter().enumerate() {
                addresses[self.sources.len() + k] = addresses[p].wrapping_add(self.ahead);
            }
            let whole = |bytes: usize| bytes.is_multiple_of(LINE);
            let lined = |&p: &usize| whole(addresses[p].addr()) && whole(steps[p].unsigned_abs());
            let stream = launch.stream && whole(4 * n as usize) && self.code.outputs.iter().all(lined);
            // SAFETY: the caller of the launch vouches for the parameters and scalars; along a line their elements stand one after the
            // other or are one.
            unsafe {
                let rows = (rows as usize, n as usize);
                (self.code).run(rows, &mut addresses, &steps, launch.args.scalars, stream);
            }
            first += rows * n;
        }
    }
}
