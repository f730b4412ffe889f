//! Which nodes one kernel computes.

mod neighbours;

use super::view::{Split, View};
use super::{Lowering, library};
use crate::graph::{NodeId, Op};
use crate::types::shape::{Axes, MAX_RANK, Shape};
use smallvec::SmallVec;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

/// Most nodes of the graph in one kernel.
const MAX_INLINE: usize = 256;
/// Most views in one kernel.
pub(super) const MAX_VIEWS: usize = 1024;
/// Buffers after which a kernel takes no further node in; well below what the IR allows.
const MAX_BUFFERS: usize = 28;

/// A kernel before it is written down.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) root: NodeId,
    /// Extents of the space; axes of `inner` belong to the inner space, in this order.
    pub(super) space: Vec<usize>,
    pub(super) inner: Vec<usize>,
    /// Nodes that are computed, with the first view of each.
    pub(super) inline: HashMap<NodeId, View>,
    /// Nodes that are read from buffers.
    pub(super) loads: BTreeSet<NodeId>,
    /// Nodes that are stored besides the root.
    pub(super) extras: Vec<NodeId>,
    /// A matrix product or convolution that the kernel is the epilogue of.
    pub(super) library: Option<NodeId>,
    /// How many axes of the space walk the root; reductions add theirs behind them.
    root_axes: usize,
}

/// Why a selection must be done again.
enum Restart {
    /// Over a finer space.
    Split(Split),
    /// Over the space of a library op.
    Space(NodeId),
    /// With a node not stored besides the root.
    Deny(NodeId),
    /// With a node read, not computed.
    Load(NodeId),
}

/// What earlier tries found out.
#[derive(Default)]
struct Findings {
    denied: HashSet<NodeId>,
    loaded: HashSet<NodeId>,
    /// The library op whose space is tried.
    space_of: Option<NodeId>,
    /// Nothing but the root is computed: always possible, the way out when tries lead nowhere.
    root_only: bool,
}

/// Tries of one kernel before only its root is computed.
const MAX_TRIES: usize = 64;

/// The kernel that copies `root` from its buffer.
pub(super) fn copy(lowering: &Lowering<'_>, root: NodeId) -> Selection {
    let space = lowering.graph.shape(root).to_vec();
    Selection {
        root,
        root_axes: space.len(),
        space,
        inner: Vec::new(),
        inline: HashMap::new(),
        loads: BTreeSet::from([root]),
        extras: Vec::new(),
        library: None,
    }
}

/// Selects the kernel that computes `root` into a buffer without gaps, and reads the library ops `apart` from theirs.
pub(super) fn select(lowering: &Lowering<'_>, root: NodeId, apart: &HashSet<NodeId>) -> Selection {
    let mut findings = Findings {
        loaded: apart.clone(),
        ..Findings::default()
    };
    let natural: Vec<usize> = match lowering.graph.node(root).op {
        Op::Conv(_) => library::space(lowering.graph, root),
        _ => lowering.root_space(root).to_vec(),
    };
    let mut space = natural.clone();
    for tries in 1.. {
        findings.root_only = tries > MAX_TRIES;
        let mut selector = Selector {
            lowering,
            findings: &findings,
            heap: BinaryHeap::new(),
            views: HashMap::new(),
            exclusive: HashSet::new(),
            split: None,
            blocked: HashMap::new(),
            before: None,
            views_inside: 0,
            result: Selection {
                root_axes: space.len(),
                root,
                space: space.clone(),
                inner: Vec::new(),
                inline: HashMap::new(),
                loads: BTreeSet::new(),
                extras: Vec::new(),
                library: None,
            },
        };
        match selector.run().and_then(|()| selector.check_extras()) {
            Ok(()) => return selector.result,
            Err(Restart::Split(split)) => {
                space[split.axis] /= split.factor;
                space.insert(split.axis + 1, split.factor);
            }
            Err(Restart::Space(library)) => {
                findings.space_of = Some(library);
                space = library::space(lowering.graph, library);
            }
            Err(Restart::Deny(node)) => {
                findings.denied.insert(node);
            }
            Err(Restart::Load(node)) => {
                // A library op whose space does not suit the rest keeps to itself.
                findings.loaded.insert(findings.space_of.take().unwrap_or(node));
                space.clone_from(&natural);
            }
        }
    }
    unreachable!("the loop ends by a return")
}

struct Selector<'a> {
    lowering: &'a Lowering<'a>,
    findings: &'a Findings,
    heap: BinaryHeap<NodeId>,
    views: HashMap<NodeId, SmallVec<[View; 1]>>,
    /// Nodes that nobody outside this kernel uses.
    exclusive: HashSet<NodeId>,
    /// A split that would make some index affine.
    split: Option<Split>,
    /// The reshape that made the indices of a node other than affine.
    blocked: HashMap<NodeId, NodeId>,
    /// The first library op whose result a node of this kernel takes.
    before: Option<NodeId>,
    views_inside: usize,
    result: Selection,
}

impl Selector<'_> {
    fn run(&mut self) -> Result<(), Restart> {
        let root = self.result.root;
        let shape = *self.lowering.graph.shape(root);
        let (view, split) = self.result.root_view(&shape);
        self.split = split;
        if !self.lowering.is_addressed(root, &view) {
            // The space of a library op that does not walk the root's axes.
            return Err(Restart::Load(root));
        }
        self.push(root, view, None);
        while let Some(node) = self.heap.pop() {
            while self.heap.peek() == Some(&node) {
                self.heap.pop();
            }
            self.visit(node)?;
        }
        Ok(())
    }

    fn push(&mut self, node: NodeId, view: View, blocked: Option<NodeId>) {
        if let Some(reshape) = blocked {
            self.blocked.insert(node, reshape);
        }
        let views = self.views.entry(node).or_default();
        if !views.contains(&view) {
            views.push(view);
        }
        self.heap.push(node);
    }

    fn visit(&mut self, id: NodeId) -> Result<(), Restart> {
        let lowering = self.lowering;
        let node = lowering.graph.node(id);
        let is_root = id == self.result.root;
        let exclusive = is_root
            || (!lowering.outputs.contains(&id)
                && lowering.users[id.index()]
                    .iter()
                    .all(|user| self.exclusive.contains(user)));
        if exclusive {
            self.exclusive.insert(id);
        }
        let views = self.views[&id].clone();
        // What waits in the heap may all become loads.
        let buffers = self.result.loads.len() + self.result.extras.len();
        let full = !is_root
            && (self.findings.root_only
                || self.result.inline.len() >= MAX_INLINE
                || buffers >= MAX_BUFFERS
                || buffers + self.heap.len() >= 2 * MAX_BUFFERS);
        // What a library op, a gather or windows read has a buffer anyway.
        let has_buffer = self.findings.loaded.contains(&id) || self.result.loads.contains(&id);
        let read = !is_root && (has_buffer || self.findings.root_only);
        match &node.op {
            Op::Input(_) => return self.load(id, &views),
            Op::Full { .. } => {}
            Op::Index { axis, .. } => {
                if views.iter().any(|view| view.axes[usize::from(*axis)].is_none()) {
                    return self.unblock(id);
                }
            }
            _ if read => return self.load(id, &views),
            op if op.is_view() => {
                self.views_inside += 1;
                if !is_root && self.views_inside > MAX_VIEWS {
                    return self.load(id, &views);
                }
                let operand = node.inputs[0];
                let shape = lowering.graph.shape(operand);
                for view in &views {
                    let (through, split) = view.through(op, &self.result.space, shape);
                    self.split = self.split.or(split);
                    let lost = view.linear.is_some() && through.axes.iter().any(Option::is_none);
                    let blocked = if lost {
                        Some(id)
                    } else {
                        self.blocked.get(&id).copied()
                    };
                    self.push(operand, through, blocked);
                }
                self.result.inline.insert(id, views[0].clone());
                return Ok(());
            }
            Op::Map(_) | Op::Cast(_) | Op::Rand | Op::Gather { .. } => {
                let kernel = (self.result.root, &self.result.space[..]);
                let alone = exclusive && views.len() == 1 && !lowering.is_repeated(id, &views[0], kernel);
                let again = !lowering.marked[id.index()] && lowering.is_cheap(id, 3);
                let full = full || (!again && self.ends_another(id));
                let inline = is_root || (!full && (alone || again || self.store_too(id, &views)));
                if !inline {
                    return self.load(id, &views);
                }
                for (at, &operand) in node.inputs.iter().enumerate() {
                    if let (Op::Gather { axis }, 0) = (&node.op, at) {
                        // What is gathered from lies in a buffer; the axis is the index's business.
                        for view in &views {
                            self.gathers(id, operand, usize::from(*axis), view)?;
                        }
                        continue;
                    }
                    for view in &views {
                        self.push(operand, view.clone(), self.blocked.get(&id).copied());
                    }
                }
            }
            Op::Reduce { axes, .. } => {
                let operand = node.inputs[0];
                let shape = *lowering.graph.shape(operand);
                let fits = views.len() == 1
                    && self.result.library.is_none()
                    && (exclusive || (!full && !self.is_left(id) && self.may_store(id, &views)));
                let inner = if fits {
                    self.match_inner(&views[0], id, *axes, &shape, is_root)
                } else {
                    None
                };
                let through = inner
                    .as_ref()
                    .and_then(|(space, inner)| views[0].reduced(*axes, &shape, space, inner));
                let (Some((space, inner)), Some(through)) = (inner, through) else {
                    return self.load(id, &views);
                };
                (self.result.space, self.result.inner) = (space, inner);
                if !exclusive && !lowering.idle.contains(&id) {
                    self.result.extras.push(id);
                }
                self.push(operand, through, self.blocked.get(&id).copied());
            }
            Op::Matmul { .. } | Op::Conv(_) => {
                let wanted = library::space(lowering.graph, id);
                let result = &self.result;
                // An epilogue stores one value.
                let alone = exclusive
                    && result.library.is_none()
                    && result.inner.is_empty()
                    && result.extras.is_empty();
                if !alone || views.len() != 1 || !self.covers(&views[0], id) {
                    return self.load(id, &views);
                }
                if self.result.space != wanted {
                    return Err(Restart::Space(id));
                }
                self.result.library = Some(id);
                for &operand in &node.inputs {
                    self.result.loads.insert(lowering.resolve(operand).0);
                }
            }
            // What is padded is read where it lies, because a window reads each element more than once.
            Op::Pad { low, shape, .. } if !is_root && !full && self.are_windows(id, &views, low, shape) => {
                self.result.loads.insert(lowering.resolve(node.inputs[0]).0);
            }
            Op::Pad { .. }
            | Op::Concat { .. }
            | Op::Scatter { .. }
            | Op::Attention { .. }
            | Op::ConvGradInput(..)
            | Op::ConvGradWeight(..)
            | Op::Scan { .. }
            | Op::Sort { .. }
            | Op::ArgSort { .. }
            | Op::Control(_)
            | Op::Result { .. } => return self.load(id, &views),
            Op::Permute(_)
            | Op::Expand(_)
            | Op::Reshape(_)
            | Op::Slice { .. }
            | Op::Indices { .. }
            | Op::Window { .. } => {}
        }
        self.result.inline.insert(id, views[0].clone());
        Ok(())
    }

    /// Whether the space walks all elements of a node in row-major order.
    fn covers(&self, view: &View, id: NodeId) -> bool {
        let shape = self.lowering.graph.shape(id);
        let linear = View::linear(&self.result.space, shape).0.linear;
        view.linear == linear && self.result.space.iter().product::<usize>() == shape.elements()
    }

    /// Reads a node from its buffer.
    fn load(&mut self, id: NodeId, views: &[View]) -> Result<(), Restart> {
        let layout = self.lowering.buffer_layout(id);
        if let Some(layout) = layout
            && views.iter().any(|view| view.address(&layout).is_none())
        {
            return self.unblock(id);
        }
        // The kernel that makes it uses what it is made of.
        self.exclusive.remove(&id);
        self.result.loads.insert(id);
        Ok(())
    }

    fn gathers(&mut self, id: NodeId, operand: NodeId, axis: usize, view: &View) -> Result<(), Restart> {
        let (base, layout) = self.lowering.resolve(operand);
        let others = layout
            .shape
            .iter()
            .enumerate()
            .all(|(at, &extent)| at == axis || extent == 1 || view.axes[at].is_some());
        if !others {
            return self.unblock(id);
        }
        self.result.loads.insert(base);
        Ok(())
    }

    /// An index is not affine: a finer space, or one more buffer.
    fn unblock(&mut self, id: NodeId) -> Result<(), Restart> {
        let reshape = self.blocked.get(&id).copied();
        let apart = reshape.is_some_and(|reshape| reshape != self.result.root && self.is_apart(reshape));
        if let Some(split) = self.split
            && split.axis < self.result.root_axes
            && self.result.root_axes < MAX_RANK
            && !apart
        {
            return Err(Restart::Split(split));
        }
        // The reshape that is in the way gets a buffer of its own.
        Err(Restart::Load(reshape.unwrap_or(id)))
    }

    /// Whether a node can be stored by this kernel besides the root.
    fn may_store(&self, id: NodeId, views: &[View]) -> bool {
        let [view] = views else { return false };
        !self.findings.denied.contains(&id)
            && self.lowering.extras_allowed
            && self.result.library.is_none()
            && self.lowering.is_addressed(id, view)
            && bijective(view, &self.result.space, self.lowering.graph.shape(id))
    }

    fn store_too(&mut self, id: NodeId, views: &[View]) -> bool {
        let may = self.may_store(id, views);
        if may && !self.lowering.idle.contains(&id) {
            self.result.extras.push(id);
        }
        may
    }

    /// The space and its inner axes with which a reduction can be computed here.
    fn match_inner(
        &self,
        view: &View,
        id: NodeId,
        axes: Axes,
        operand: &Shape,
        is_root: bool,
    ) -> Option<(Vec<usize>, Vec<usize>)> {
        let (space, inner) = (&self.result.space, &self.result.inner);
        let unused = view.unused(space, self.lowering.graph.shape(id))?;
        let inner_now: SmallVec<[usize; 8]> =
            inner.iter().copied().filter(|&axis| space[axis] != 1).collect();
        if !inner.is_empty() {
            return (unused == inner_now).then(|| (space.clone(), inner.clone()));
        }
        if unused.is_empty() {
            let mut grown = space.clone();
            grown.extend(axes.iter().map(|axis| operand[axis]));
            let inner = (space.len()..grown.len()).collect();
            let small = is_root || worthwhile(space, axes.iter().map(|axis| operand[axis]).product());
            return (small && grown.len() <= 2 * MAX_RANK).then_some((grown, inner));
        }
        let count: usize = unused.iter().map(|&axis| space[axis]).product();
        let outer: Vec<usize> = (0..space.len())
            .filter(|axis| !unused.contains(axis))
            .map(|axis| space[axis])
            .collect();
        worthwhile(&outer, count).then(|| (space.clone(), unused.to_vec()))
    }

    /// Extra outputs must be whole at their level, and nothing that the kernel reads may depend on them.
    fn check_extras(&self) -> Result<(), Restart> {
        let result = &self.result;
        for &extra in &result.extras {
            let view = &result.inline[&extra];
            let shape = self.lowering.graph.shape(extra);
            let unused = view.unused(&result.space, shape);
            let inner: SmallVec<[usize; 8]> = result
                .inner
                .iter()
                .copied()
                .filter(|&axis| result.space[axis] != 1)
                .collect();
            let whole = unused.is_some_and(|unused| unused.is_empty() || unused == inner);
            if !whole || self.lowering.may_depend(&result.loads, extra) {
                return Err(Restart::Deny(extra));
            }
        }
        Ok(())
    }
}

/// Whether computing a reduction inside a kernel is better than reading its result: rows must be short enough to stay near the
/// core and many enough for all cores.
fn worthwhile(outer: &[usize], inner: usize) -> bool {
    let rows: usize = outer.iter().product();
    inner <= 1024 || (inner <= 65_536 && rows >= 4)
}

/// Whether the points of the space that the view uses meet each element of `shape` once.
fn bijective(view: &View, space: &[usize], shape: &Shape) -> bool {
    let Some(linear) = &view.linear else { return false };
    let mut terms: SmallVec<[(i64, usize); 8]> = linear
        .terms()
        .map(|(axis, coefficient)| (coefficient, space[axis]))
        .collect();
    terms.sort_unstable();
    let mut next = 1;
    for (coefficient, extent) in terms {
        if coefficient != next {
            return false;
        }
        next *= extent as i64;
    }
    linear.offset == 0 && next == shape.elements() as i64
}

impl Selection {
    /// How many axes of the space walk the root; reductions add theirs behind them.
    pub(super) const fn root_axes(&self) -> usize {
        self.root_axes
    }

    /// Which element of the root, of this shape, each point of the space makes. Also what would make one more index affine.
    pub(super) fn root_view(&self, shape: &Shape) -> (View, Option<Split>) {
        View::linear(&self.space[..self.root_axes], shape)
    }
}
