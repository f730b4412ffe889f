//! From a graph to kernels.
//!
//! Nodes that need a buffer are walked from the last to the first. Each becomes the root of a kernel, which takes in what
//! only it uses, what is cheap to compute again, and reductions over one common inner space; what it reads instead gets a
//! buffer, and so a kernel, in its turn. A value that others need too is stored by the kernel that computes it anyway.

mod attention;
mod channels;
mod cheap;
mod depends;
mod emit;
mod fold;
mod library;
mod order;
mod origin;
mod parts;
mod program;
mod select;
mod sort;
mod view;

use crate::error::failure::Refusal;
use crate::graph::view_layout;
use crate::graph::{Graph, Node, NodeId, Op};
use crate::types::layout::Layout;
use crate::types::shape::Shape;
pub(crate) use origin::Origin;
pub(crate) use parts::{Bounds, in_parts};
pub(crate) use program::*;

use emit::Destination;
use order::order;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use view::View;

/// Lowers a graph whose arguments come as `given` says.
///
/// # Errors
/// What no kernel can express.
pub(crate) fn lower(graph: &Graph, given: &[Given], support: &dyn Support) -> Result<Program, Refusal> {
    if graph
        .nodes()
        .iter()
        .any(|node| matches!(node.op, Op::Control(_) | Op::Result { .. }))
    {
        return Err(Refusal::new("loops and branches are run by the host"));
    }
    // Storing more than one result can make kernels wait for each other in a circle; without that they cannot.
    let lowered = match Lowering::new(graph, given, support, true).run() {
        Some(lowered) => lowered,
        None => Lowering::new(graph, given, support, false)
            .run()
            .ok_or_else(|| Refusal::new("the graph has a circle"))?,
    };
    if lowered.idle.is_empty() {
        return Ok(lowered.program);
    }
    let mut again = Lowering::new(graph, given, support, true);
    again.idle = lowered.idle;
    Ok(again.run().map_or(lowered.program, |again| again.program))
}

/// A program, and what it stores for no one: whether another kernel reads a value or what comes of it is known only when all are
/// selected.
struct Lowered {
    program: Program,
    idle: HashSet<NodeId>,
}

struct Lowering<'a> {
    graph: &'a Graph,
    given: &'a [Given],
    support: &'a dyn Support,
    /// Nodes that use a node, among those that outputs need.
    users: Vec<SmallVec<[NodeId; 4]>>,
    outputs: HashSet<NodeId>,
    /// Nodes that get a buffer.
    marked: Vec<bool>,
    /// Nodes whose buffers have the channels last, and how.
    channels_last: HashMap<NodeId, Layout>,
    /// Buffers of marked nodes.
    locals: RefCell<HashMap<NodeId, u32>>,
    /// Size of each buffer.
    sizes: RefCell<Vec<u64>>,
    extras_allowed: bool,
    /// Nodes that no kernel need store besides its root.
    idle: HashSet<NodeId>,
}

/// Steps that belong together: they make `makes` from `needs`.
struct Group {
    steps: Vec<Step>,
    /// Of the steps; those at the end may be missing.
    origins: Vec<Origin>,
    makes: Vec<NodeId>,
    needs: BTreeSet<NodeId>,
}

impl<'a> Lowering<'a> {
    fn new(
        graph: &'a Graph,
        given: &'a [Given],
        support: &'a dyn Support,
        extras_allowed: bool,
    ) -> Lowering<'a> {
        let count = graph.nodes().len();
        let mut live = vec![false; count];
        for output in graph.outputs() {
            live[output.index()] = true;
        }
        let mut users = vec![SmallVec::new(); count];
        for (at, node) in graph.nodes().iter().enumerate().rev() {
            if !live[at] {
                continue;
            }
            for input in &node.inputs {
                live[input.index()] = true;
                users[input.index()].push(NodeId(at as u32));
            }
        }
        let mut lowering = Lowering {
            graph,
            given,
            support,
            users,
            outputs: graph.outputs().iter().copied().collect(),
            marked: vec![false; count],
            channels_last: HashMap::new(),
            locals: RefCell::default(),
            sizes: RefCell::default(),
            extras_allowed,
            idle: HashSet::new(),
        };
        lowering.channels_last = channels::last(&lowering);
        lowering
    }

    /// The extents over which a kernel walks its root: a reshape walks its operand.
    fn root_space(&self, root: NodeId) -> Shape {
        let mut at = root;
        while let Op::Reshape(_) = self.graph.node(at).op {
            at = self.graph.node(at).inputs[0];
        }
        *self.graph.shape(at)
    }

    /// The node in whose buffer the elements of `id` lie, and how.
    fn resolve(&self, id: NodeId) -> (NodeId, Layout) {
        self.resolve_after(id, &mut HashMap::new())
    }

    /// As [`Lowering::resolve`] of each node: a chain of views is walked once, however many of them are asked for.
    fn resolve_all(&self, ids: &[NodeId]) -> Vec<(NodeId, Layout)> {
        let mut known = HashMap::new();
        ids.iter().map(|&id| self.resolve_after(id, &mut known)).collect()
    }

    /// As [`Lowering::resolve`], where `known` has what was resolved before, and keeps what is resolved now.
    fn resolve_after(&self, id: NodeId, known: &mut HashMap<NodeId, (NodeId, Layout)>) -> (NodeId, Layout) {
        let mut views = Vec::new();
        let mut at = id;
        while self.graph.node(at).op.is_view() && !self.marked[at.index()] && !known.contains_key(&at) {
            views.push(at);
            at = self.graph.node(at).inputs[0];
        }
        let (mut base, mut layout) = known
            .get(&at)
            .copied()
            .unwrap_or_else(|| (at, self.own_layout(at)));
        for view in views.into_iter().rev() {
            let node = self.graph.node(view);
            (base, layout) = match view_layout(&node.op, &layout, node.ty) {
                Some(layout) => (base, layout),
                None => (view, self.own_layout(view)),
            };
            known.insert(view, (base, layout));
        }
        (base, layout)
    }

    /// How the elements of a node lie in its own buffer.
    fn own_layout(&self, id: NodeId) -> Layout {
        self.buffer_layout(id)
            .map_or_else(|| self.made_layout(id), |layout| layout.at_start())
    }

    /// Buffer and layout of a node that has one.
    fn buffer(&self, id: NodeId) -> (Slot, Layout) {
        if let Op::Input(at) = self.graph.node(id).op
            && let Given::Buffer(layout) = self.given[at as usize]
        {
            return (Slot::Input(at), layout.at_start());
        }
        (self.slot(id), self.made_layout(id))
    }

    /// How the elements of a node lie in the buffer that a kernel makes for it.
    fn made_layout(&self, id: NodeId) -> Layout {
        let contiguous = || Layout::contiguous(*self.graph.shape(id));
        self.channels_last.get(&id).copied().unwrap_or_else(contiguous)
    }

    /// Whether a kernel whose points make the elements of a node like this can write them to its buffer.
    fn is_addressed(&self, id: NodeId, view: &View) -> bool {
        (self.channels_last.get(&id)).is_none_or(|layout| view.address(layout).is_some())
    }

    /// The buffer that a kernel makes for a node.
    fn slot(&self, id: NodeId) -> Slot {
        let ty = self.graph.node(id).ty;
        let new = || self.temporary((ty.shape.elements() * ty.dtype.size()) as u64);
        Slot::Local(*self.locals.borrow_mut().entry(id).or_insert_with(new))
    }

    /// A buffer that belongs to no node.
    fn temporary(&self, bytes: u64) -> u32 {
        let mut sizes = self.sizes.borrow_mut();
        sizes.push(bytes);
        sizes.len() as u32 - 1
    }

    fn mark(&mut self, id: NodeId) {
        self.marked[id.index()] = true;
    }

    fn run(mut self) -> Option<Lowered> {
        let mut groups: Vec<Group> = Vec::new();
        let mut made = HashSet::new();
        for (base, _) in self.resolve_all(self.graph.outputs()) {
            self.mark(base);
        }
        for at in (0..self.graph.nodes().len()).rev() {
            let id = NodeId(at as u32);
            let in_buffer = matches!(self.graph.node(id).op, Op::Input(at)
                if matches!(self.given[at as usize], Given::Buffer(_)));
            if !self.marked[at] || in_buffer || made.contains(&id) {
                continue;
            }
            for mut group in self.groups(id) {
                self.complete(&mut group, id);
                for &need in &group.needs {
                    self.mark(need);
                }
                made.extend(group.makes.iter().copied());
                groups.push(group);
            }
        }
        let order = order(&groups, self.graph.nodes().len())?;
        let made = groups.iter().flat_map(|group| &group.makes);
        let idle = made.copied().filter(|made| !self.marked[made.index()]).collect();
        let program = self.program(groups, &order);
        Some(Lowered { program, idle })
    }

    /// The steps that compute one node; where there are several groups, it is there after all of them.
    fn groups(&mut self, id: NodeId) -> Vec<Group> {
        let node = self.graph.node(id);
        let layout = self.made_layout(id);
        let slot = self.slot(id);
        match &node.op {
            Op::Concat { axis } => {
                let axis = usize::from(*axis);
                let mut groups = Vec::new();
                let mut start = vec![0; node.ty.shape.len()];
                for &operand in &node.inputs {
                    let shape = *self.graph.shape(operand);
                    let ones = vec![1; shape.len()];
                    let part = layout.sliced(&start, &ones, shape);
                    let mut group = Group::new(id);
                    self.part(&mut group, operand, Destination { slot, layout: part });
                    groups.push(group);
                    start[axis] += shape[axis];
                }
                groups
            }
            Op::Pad { low, bits, .. } => {
                let mut group = Group::new(id);
                group.fill(slot, node, *bits);
                let shape = *self.graph.shape(node.inputs[0]);
                let part = layout.sliced(low, &vec![1; shape.len()], shape);
                self.part(&mut group, node.inputs[0], Destination { slot, layout: part });
                vec![group]
            }
            Op::Full { bits, .. } => {
                let mut group = Group::new(id);
                group.fill(slot, node, *bits);
                vec![group]
            }
            Op::ConvGradInput(..)
            | Op::ConvGradWeight(..)
            | Op::Scatter { .. }
            | Op::Attention { .. }
            | Op::Scan { .. }
            | Op::Sort { .. }
            | Op::ArgSort { .. } => vec![library::group(self, id)],
            // `lower` refuses graphs with these.
            Op::Control(_) | Op::Result { .. } => Vec::new(),
            Op::Conv(_) if library::walks_backwards(self, node.inputs[0]) => vec![library::group(self, id)],
            Op::Input(_)
            | Op::Index { .. }
            | Op::Map(_)
            | Op::Cast(_)
            | Op::Rand
            | Op::Reduce { .. }
            | Op::Permute(_)
            | Op::Expand(_)
            | Op::Reshape(_)
            | Op::Slice { .. }
            | Op::Indices { .. }
            | Op::Window { .. }
            | Op::Gather { .. }
            | Op::Matmul { .. }
            | Op::Conv(_) => {
                let mut group = Group::new(id);
                self.part(&mut group, id, Destination { slot, layout });
                vec![group]
            }
        }
    }

    /// Says where the steps that make a node come from, as far as that is not known.
    fn complete(&self, group: &mut Group, id: NodeId) {
        let node = self.graph.node(id);
        group.origins.resize_with(group.steps.len(), Origin::default);
        for origin in &mut group.origins {
            if origin.parts.is_empty() {
                let known = origin.bytes;
                *origin = self.origin([id].into_iter(), node.inputs.iter().copied(), [id].into_iter());
                if known > 0 {
                    origin.bytes = known;
                }
                if origin.parts.is_empty() {
                    // A view that needs a copy.
                    origin.parts = Origin::of(node.tag).parts;
                }
            } else if matches!(node.op, Op::Concat { .. } | Op::Pad { .. }) {
                // Their steps write what they join.
                origin.compute(self.graph, id);
            }
        }
    }

    /// A kernel that computes `root` into `to`.
    fn part(&mut self, group: &mut Group, root: NodeId, to: Destination) {
        if self.graph.shape(root).elements() == 0 {
            return;
        }
        // Library ops whose epilogues the device does not have.
        let mut apart = HashSet::new();
        let (selection, (step, nodes)) = loop {
            let selection = self.selection(root, &to, &apart);
            match emit::emit(self, &selection, &to) {
                Ok(emitted) => break (selection, emitted),
                Err(library) => apart.insert(library),
            };
        };
        group.origins.resize_with(group.steps.len(), Origin::default);
        let mut origin = self.origin(
            selection.inline.keys().copied(),
            selection.loads.iter().copied(),
            selection.extras.iter().copied().chain([root]),
        );
        origin.set_nodes(self.graph, &nodes);
        group.origins.push(origin);
        let computed = |load: &NodeId| *load == root && selection.inline.contains_key(load);
        // A number of the launch has no buffer, unless a library op reads it from one.
        let is_number = |load: &NodeId| {
            let op = &self.graph.node(*load).op;
            matches!(op, Op::Input(at) if matches!(self.given[*at as usize], Given::Scalar(_)))
                && self.slot_of(*load).is_none()
        };
        group
            .needs
            .extend((selection.loads.iter().copied()).filter(|load| !computed(load) && !is_number(load)));
        group.makes.extend(&selection.extras);
        group.steps.push(step);
    }

    /// What is computed by the kernel that writes `root` to a place.
    fn selection(&self, root: NodeId, to: &Destination, apart: &HashSet<NodeId>) -> select::Selection {
        let selection = select::select(self, root, apart);
        // A place with gaps wants the root's own axes, and what has a buffer anyway is not computed twice.
        let shared = self.marked[root.index()] || self.users[root.index()].len() > 1;
        let elsewhere = self.slot_of(root) != Some(to.slot);
        let walks_root =
            *selection.space.get(..selection.root_axes()).unwrap_or(&[]) == **self.graph.shape(root);
        if elsewhere && (!(walks_root || to.layout.is_contiguous()) || (shared && !self.is_cheap(root, 3))) {
            return select::copy(self, root);
        }
        selection
    }

    /// The buffer that was given to a node, if one was.
    fn slot_of(&self, id: NodeId) -> Option<Slot> {
        self.locals.borrow().get(&id).map(|&at| Slot::Local(at))
    }

    fn program(self, groups: Vec<Group>, order: &[usize]) -> Program {
        let mut outputs = Vec::new();
        let places = self.resolve_all(self.graph.outputs());
        for (&output, (base, layout)) in self.graph.outputs().iter().zip(places) {
            let (slot, _) = self.buffer(base);
            outputs.push(Output {
                slot,
                layout,
                ty: self.graph.node(output).ty,
                tag: self.graph.node(base).tag,
            });
        }
        let locals = self
            .sizes
            .take()
            .into_iter()
            .map(|bytes| Local { bytes })
            .collect();
        let mut groups: Vec<Option<Group>> = groups.into_iter().map(Some).collect();
        let (mut steps, mut origins) = (Vec::new(), Vec::new());
        let mut there: BTreeMap<NodeId, usize> = BTreeMap::new();
        for group in order.iter().filter_map(|&at| groups[at].take()) {
            steps.extend(group.steps);
            origins.extend(group.origins);
            there.extend(group.makes.iter().map(|&made| (made, steps.len())));
        }
        let places = self.locals.borrow();
        let mut stored: Vec<Stored> = (there.into_iter())
            .filter_map(|(node, after)| {
                let &local = places.get(&node)?;
                Some(Stored { node, local, after })
            })
            .collect();
        stored.sort_by_key(|stored| stored.after);
        Program {
            locals,
            steps,
            origins,
            outputs,
            stored,
        }
    }
}

impl Group {
    fn new(id: NodeId) -> Group {
        Group {
            steps: Vec::new(),
            origins: Vec::new(),
            makes: vec![id],
            needs: BTreeSet::new(),
        }
    }

    fn fill(&mut self, slot: Slot, node: &Node, bits: u64) {
        let bytes = (node.ty.shape.elements() * node.ty.dtype.size()) as u64;
        if bytes > 0 {
            self.steps.push(Step::Fill {
                slot,
                offset: 0,
                bytes,
                pattern: bits,
                pattern_bytes: node.ty.dtype.size() as u32,
                tag: node.tag,
            });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
