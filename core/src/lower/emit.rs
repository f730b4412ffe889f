//! From a selection to a kernel in the IR and its launch.

mod gather;

use super::origin::Emitted;
use super::select::Selection;
use super::view::{Affine, View};
use super::{Argument, Given, Launch, Lowering, Scalar, Slot, Source, Step, library};
use crate::graph::{Node, NodeId, Op};
use crate::hal::DType;
use crate::hal::ir::{self, Access, Kernel, Level, ReduceOp, Role, ScalarOp};
use crate::types::layout::Layout;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Where a kernel puts its root.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) slot: Slot,
    pub(super) layout: Layout,
}

/// One buffer parameter: which elements it reaches from each point of the space.
#[derive(Clone, Debug, PartialEq)]
struct Binding {
    slot: Slot,
    dtype: DType,
    role: Role,
    address: Affine,
    gather: (i64, u64),
}

/// Writes down the kernel of `selection`, or says which library op the device has, but not with this epilogue.
pub(super) fn emit(
    lowering: &Lowering<'_>,
    selection: &Selection,
    to: &Destination,
) -> Result<Emitted, NodeId> {
    let emitter = Emitter::new(lowering, selection, to);
    match selection.library {
        Some(library) => emitter.library(library, to).ok_or(library),
        None => Ok(emitter.kernel(to)),
    }
}

struct Emitter<'a> {
    lowering: &'a Lowering<'a>,
    selection: &'a Selection,
    /// The kernel; indices refer to `axes` until the space is folded.
    kernel: Kernel,
    /// Axes of the selection's space, outer ones first.
    axes: SmallVec<[usize; 16]>,
    outer: usize,
    /// Level of each node of the kernel.
    levels: Vec<Level>,
    bindings: Vec<Binding>,
    scalars: Vec<Scalar>,
    made: HashMap<(NodeId, View), ir::NodeId>,
    known: HashMap<ir::Node, ir::NodeId>,
    /// The value of the library op.
    sum: Option<ir::NodeId>,
    /// The node of the graph that is being written down, and that of each node of the kernel.
    at: NodeId,
    of: Vec<NodeId>,
}

impl<'a> Emitter<'a> {
    fn new(lowering: &'a Lowering<'a>, selection: &'a Selection, to: &Destination) -> Emitter<'a> {
        let keeps = |axis: &usize| selection.library.is_some() || selection.space[*axis] != 1;
        let mut axes: SmallVec<[usize; 16]> = (0..selection.space.len())
            .filter(|axis| !selection.inner.contains(axis))
            .filter(keeps)
            .collect();
        if selection.library.is_none() && !to.layout.is_contiguous() {
            // The elements of the root are written one after the other.
            let (view, _) = selection.root_view(lowering.graph.shape(selection.root));
            let address = view.address(&to.layout).unwrap_or_default();
            axes.sort_by_key(|&axis| Reverse(address.coefficient(axis)));
        }
        let outer = axes.len();
        axes.extend(selection.inner.iter().copied().filter(keeps));
        if axes.len() == outer {
            // A reduction over extents of 1 is one over an inner axis all the same.
            axes.extend(selection.inner.first().copied());
        }
        let name = kernel_name(lowering, selection);
        Emitter {
            lowering,
            selection,
            kernel: Kernel::new(name, outer as u32, (axes.len() - outer) as u32),
            outer,
            axes,
            levels: Vec::new(),
            bindings: Vec::new(),
            scalars: Vec::new(),
            made: HashMap::new(),
            known: HashMap::new(),
            sum: None,
            at: selection.root,
            of: Vec::new(),
        }
    }

    /// The values of root and extra outputs, stored.
    fn body(&mut self, to: &Destination) {
        let (graph, selection) = (self.lowering.graph, self.selection);
        let root = selection.root;
        let (view, _) = selection.root_view(graph.shape(root));
        let value = self.express(root, &view);
        for &extra in &selection.extras {
            let view = &selection.inline[&extra];
            let value = self.express(extra, view);
            let to = Destination {
                slot: self.lowering.slot(extra),
                layout: self.lowering.made_layout(extra),
            };
            self.store(extra, view, value, &to);
        }
        self.store(root, &view, value, to);
    }

    fn store(&mut self, id: NodeId, view: &View, value: ir::NodeId, to: &Destination) {
        // The selection saw to it that stored views are affine.
        let Some(address) = view.address(&to.layout) else {
            return;
        };
        let param = self.bind(
            Binding {
                slot: to.slot,
                dtype: self.lowering.graph.dtype(id),
                role: Role::Out,
                address,
                gather: (0, 0),
            },
            self.levels[value.index()],
        );
        self.kernel.store(param, value);
        self.levels.push(Level::Row);
        self.of.push(id);
    }

    fn bind(&mut self, binding: Binding, least: Level) -> u32 {
        if binding.role == Role::In
            && let Some(at) = self.bindings.iter().position(|other| *other == binding)
        {
            return at as u32;
        }
        let inner = binding
            .address
            .terms()
            .any(|(axis, _)| self.axes[self.outer..].contains(&axis));
        let level = if inner { Level::Element } else { least };
        // The access class follows when the space is folded.
        let param = self
            .kernel
            .param(binding.dtype, binding.role, level, Access::Strided);
        self.bindings.push(binding);
        param
    }

    fn push(&mut self, node: ir::Node) -> ir::NodeId {
        if let Some(&id) = self.known.get(&node) {
            return id;
        }
        let level = self.level(&node);
        let id = self.kernel.push(node);
        self.levels.push(level);
        self.of.push(self.at);
        self.known.insert(node, id);
        id
    }

    fn level(&self, node: &ir::Node) -> Level {
        let own = match *node {
            ir::Node::Load { param } | ir::Node::LoadAt { param, .. } => {
                self.kernel.params[param as usize].level
            }
            ir::Node::Index { axis } if axis as usize >= self.outer => Level::Element,
            ir::Node::Reduce { .. } => return Level::Row,
            ir::Node::Index { .. }
            | ir::Node::Const { .. }
            | ir::Node::Scalar { .. }
            | ir::Node::Op { .. }
            | ir::Node::Cast { .. }
            | ir::Node::Rand { .. }
            | ir::Node::Store { .. } => Level::Row,
        };
        node.args()
            .map(|arg| self.levels[arg.index()])
            .fold(own, Level::max)
    }

    fn op(&mut self, op: ScalarOp, args: &[ir::NodeId]) -> ir::NodeId {
        let at = |i: usize| args.get(i).copied().unwrap_or(args[0]);
        self.push(ir::Node::Op {
            op,
            args: [at(0), at(1), at(2)],
        })
    }

    fn constant(&mut self, dtype: DType, bits: u64) -> ir::NodeId {
        self.push(ir::Node::Const { dtype, bits })
    }

    /// An index of the space as i64.
    fn index(&mut self, affine: &Affine) -> ir::NodeId {
        let mut sum = None;
        for (axis, coefficient) in affine.terms() {
            let Some(at) = self.axes.iter().position(|&kept| kept == axis) else {
                continue;
            };
            let mut term = self.push(ir::Node::Index { axis: at as u32 });
            if coefficient != 1 {
                let factor = self.constant(DType::I64, coefficient as u64);
                term = self.op(ScalarOp::Mul, &[term, factor]);
            }
            sum = Some(match sum {
                None => term,
                Some(sum) => self.op(ScalarOp::Add, &[sum, term]),
            });
        }
        match (sum, affine.offset) {
            (None, offset) => self.constant(DType::I64, offset as u64),
            (Some(sum), 0) => sum,
            (Some(sum), offset) => {
                let offset = self.constant(DType::I64, offset as u64);
                self.op(ScalarOp::Add, &[sum, offset])
            }
        }
    }

    /// The value of a node at the points of the space that the view says.
    fn express(&mut self, id: NodeId, view: &View) -> ir::NodeId {
        let graph = self.lowering.graph;
        let mut key = (id, view.clone());
        // Chains of views may be long.
        while graph.node(key.0).op.is_view() && self.selection.inline.contains_key(&key.0) {
            let node = graph.node(key.0);
            let operand = node.inputs[0];
            let (through, _) = key
                .1
                .through(&node.op, &self.selection.space, graph.shape(operand));
            key = (operand, through);
        }
        if let Some(&made) = self.made.get(&key) {
            return made;
        }
        let value = self.compute(key.0, &key.1);
        self.made.insert(key, value);
        value
    }

    fn compute(&mut self, id: NodeId, view: &View) -> ir::NodeId {
        let node = self.lowering.graph.node(id);
        if self.selection.library == Some(id)
            && let Some(sum) = self.sum
        {
            return sum;
        }
        // What is read, and a constant, belong to what uses them.
        if !self.selection.inline.contains_key(&id) {
            return self.load(id, view);
        }
        if let Op::Full { dtype, bits, .. } = node.op {
            return self.constant(dtype, bits);
        }
        let before = std::mem::replace(&mut self.at, id);
        let value = self.formula(id, node, view);
        self.at = before;
        value
    }

    fn formula(&mut self, id: NodeId, node: &Node, view: &View) -> ir::NodeId {
        let graph = self.lowering.graph;
        match &node.op {
            Op::Index { axis, .. } => match &view.axes[usize::from(*axis)] {
                Some(affine) => self.index(&affine.clone()),
                // The selection reads such a node from a buffer.
                None => self.load(id, view),
            },
            Op::Map(op) => {
                let args: SmallVec<[ir::NodeId; 3]> = node
                    .inputs
                    .iter()
                    .map(|&input| self.express(input, view))
                    .collect();
                self.op(*op, &args)
            }
            Op::Cast(dtype) => {
                let arg = self.express(node.inputs[0], view);
                if graph.dtype(node.inputs[0]) == *dtype {
                    return arg;
                }
                self.push(ir::Node::Cast { dtype: *dtype, arg })
            }
            Op::Rand => {
                let key = self.express(node.inputs[0], view);
                let counter = self.express(node.inputs[1], view);
                self.push(ir::Node::Rand { key, counter })
            }
            Op::Reduce { op, axes } => {
                let operand = node.inputs[0];
                let (space, inner) = (&self.selection.space, &self.selection.inner);
                match view.reduced(*axes, graph.shape(operand), space, inner) {
                    Some(through) => {
                        let arg = self.express(operand, &through);
                        self.reduce(*op, arg)
                    }
                    None => self.load(id, view),
                }
            }
            Op::Gather { axis } => {
                let index = self.express(node.inputs[1], view);
                self.gather(node.inputs[0], usize::from(*axis), view, index)
            }
            Op::Pad { .. } => self.padded(id, view),
            // Views were walked before; everything else is never inside a kernel.
            _ => self.load(id, view),
        }
    }

    fn reduce(&mut self, op: ReduceOp, arg: ir::NodeId) -> ir::NodeId {
        let mut arg = arg;
        if self.levels[arg.index()] == Level::Row {
            // The IR reduces what changes along the inner space; this makes a constant look so.
            let index = self.push(ir::Node::Index {
                axis: self.outer as u32,
            });
            let zero = self.constant(DType::I64, 0);
            let below = self.op(ScalarOp::Lt, &[index, zero]);
            arg = self.op(ScalarOp::Select, &[below, arg, arg]);
        }
        self.push(ir::Node::Reduce { op, arg })
    }

    fn load(&mut self, id: NodeId, view: &View) -> ir::NodeId {
        let graph = self.lowering.graph;
        let dtype = graph.dtype(id);
        if let Op::Input(at) = graph.node(id).op
            && let Given::Scalar(scalar) = self.lowering.given[at as usize]
        {
            let scalar = Scalar::Argument(scalar);
            let index = match self.scalars.iter().position(|other| *other == scalar) {
                Some(at) => at,
                None => {
                    self.kernel.scalars.push(dtype);
                    self.scalars.push(scalar);
                    self.scalars.len() - 1
                }
            };
            return self.push(ir::Node::Scalar { index: index as u32 });
        }
        let (slot, layout) = self.lowering.buffer(id);
        let address = view.address(&layout).unwrap_or_default();
        let param = self.bind(
            Binding {
                slot,
                dtype,
                role: Role::In,
                address,
                gather: (0, 0),
            },
            Level::Row,
        );
        self.push(ir::Node::Load { param })
    }

    /// The launch of a kernel of its own.
    fn kernel(mut self, to: &Destination) -> Emitted {
        self.body(to);
        let extents: Vec<u64> = self
            .axes
            .iter()
            .map(|&axis| self.selection.space[axis] as u64)
            .collect();
        let strides = self.strides();
        let folded = super::fold::fold(&mut self.kernel, extents, strides);
        let arguments = self.arguments(&folded.strides);
        let step = self.launch(Source::Kernel(self.kernel.clone()), folded.extents, arguments);
        (step, self.of)
    }

    /// Of each binding along the axes of the space.
    fn strides(&self) -> Vec<Vec<i64>> {
        let along = |binding: &Binding| {
            let axes = self.axes.iter();
            axes.map(|&axis| binding.address.coefficient(axis)).collect()
        };
        self.bindings.iter().map(along).collect()
    }

    /// One argument for each binding, with strides where the parameter is strided.
    fn arguments(&self, strides: &[Vec<i64>]) -> Vec<Argument> {
        (self.bindings.iter().zip(strides).zip(&self.kernel.params))
            .map(|((binding, strides), param)| Argument {
                slot: binding.slot,
                offset: (binding.address.offset * binding.dtype.size() as i64) as u64,
                strides: (param.access == Access::Strided).then(|| strides.clone()),
                gather: binding.gather,
            })
            .collect()
    }

    fn launch(&self, source: Source, extents: Vec<u64>, arguments: Vec<Argument>) -> Step {
        let node = self.lowering.graph.node(self.selection.root);
        Step::Launch {
            source: Arc::new(source),
            launch: Launch {
                extents,
                arguments,
                scalars: self.scalars.clone(),
            },
            tag: node.tag,
        }
    }

    /// The launch of a library op with this kernel as its epilogue, or of its definition; `None` where the device has the op
    /// without the epilogue alone.
    fn library(mut self, id: NodeId, to: &Destination) -> Option<Emitted> {
        self.at = id;
        let (mut op, mut launch) = library::call(self.lowering, id);
        // Parameter 0 of the epilogue is the sum.
        let (accumulate, output) = (op.epilogue_dtype()?, self.lowering.graph.dtype(id));
        let sum = self
            .kernel
            .param(accumulate, Role::In, Level::Row, Access::Strided);
        self.bindings.push(Binding {
            slot: to.slot,
            dtype: accumulate,
            role: Role::In,
            address: Affine::default(),
            gather: (0, 0),
        });
        let mut value = self.push(ir::Node::Load { param: sum });
        if accumulate != output {
            value = self.push(ir::Node::Cast {
                dtype: output,
                arg: value,
            });
        }
        self.sum = Some(value);
        self.at = self.selection.root;
        self.body(to);
        let plain = self.kernel.nodes.len() == 2 + usize::from(accumulate != output);
        if !plain {
            let with = op.with_epilogue(self.kernel.clone())?;
            let support = self.lowering.support;
            if !support.library(&with) && support.library(&op) {
                return None;
            }
            op = with;
        }
        let rest = self.arguments(&self.strides());
        launch.arguments.extend(rest.into_iter().skip(1));
        launch.scalars.append(&mut self.scalars);
        let tag = self.lowering.graph.node(self.selection.root).tag;
        let step = library::step((op, launch), self.lowering.support, tag);
        Some((step, self.of))
    }
}

/// A name that tells what is in the kernel.
fn kernel_name(lowering: &Lowering<'_>, selection: &Selection) -> String {
    let mut ids: Vec<NodeId> = selection.inline.keys().copied().collect();
    ids.sort_unstable();
    let mut name = String::new();
    for id in ids {
        let op = &lowering.graph.node(id).op;
        if op.is_view() && id != selection.root || matches!(op, Op::Full { .. } | Op::Input(_)) {
            continue;
        }
        if name.len() + op.name().len() + 1 > 64 {
            name.push_str("_etc");
            break;
        }
        if !name.is_empty() {
            name.push('_');
        }
        name.push_str(op.name());
    }
    if name.is_empty() { "copy".into() } else { name }
}
