//! Rewrites that may change bits, for who asked for speed.

use super::{Graph, Node, NodeId, Op};
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::types::shape::Shape;
use half::{bf16, f16};
use smallvec::{SmallVec, smallvec};

/// Ops that have a fast form beside the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FastOps(u8);

/// These ops, in the order of their bits; the one behind them is the convolution's.
const MAPS: [ScalarOp; 4] = [ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Div];

impl FastOps {
    /// None of them.
    pub const NONE: FastOps = FastOps(0);
    /// All of them.
    pub const ALL: FastOps = FastOps::CONV.with(FastOps(FastOps::CONV.0 - 1));
    /// Convolutions, and their gradients with respect to the input.
    const CONV: FastOps = FastOps(1 << MAPS.len());

    /// Their names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MAPS.iter().map(|op| op.name()).chain(["conv"])
    }

    /// The one of a name; `None` for an op with one form.
    ///
    /// ```
    /// use thalweg::graph::FastOps;
    /// assert!(FastOps::named("div").is_some_and(|div| FastOps::ALL.without(div) != FastOps::ALL));
    /// assert_eq!(FastOps::named("exp"), None);
    /// ```
    pub fn named(name: &str) -> Option<FastOps> {
        let at = FastOps::names().position(|known| known == name)?;
        Some(FastOps(1 << at))
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: FastOps) -> FastOps {
        FastOps(self.0 | other.0)
    }

    /// Those that `other` has not.
    #[must_use]
    pub const fn without(self, other: FastOps) -> FastOps {
        FastOps(self.0 & !other.0)
    }

    fn has_conv(self) -> bool {
        self.0 & FastOps::CONV.0 != 0
    }

    fn has(self, op: ScalarOp) -> bool {
        (MAPS.iter().position(|&known| known == op)).is_some_and(|at| self.0 & 1 << at != 0)
    }
}

/// As [`fast_math_of`], for all ops.
///
/// # Panics
/// Never for a graph that was made by [`Graph::push`].
#[must_use]
pub fn fast_math(graph: &Graph) -> Graph {
    fast_math_of(graph, FastOps::ALL)
}

/// The graph with quotients by constants as products, constants of nested sums and products joined, and a product that only a sum
/// uses rounded together with it. Convolutions are marked: a backend may compute them faster. Of floats, and of these ops; nothing else
/// changes.
///
/// # Panics
/// Never for a graph that was made by [`Graph::push`].
#[must_use]
pub fn fast_math_of(graph: &Graph, ops: FastOps) -> Graph {
    let mut uses = vec![0_u32; graph.nodes().len()];
    let used = graph.nodes().iter().flat_map(|node| &node.inputs);
    used.chain(graph.outputs()).for_each(|id| uses[id.index()] += 1);
    let mut fast = Fast {
        graph: Graph::new(),
        uses: Vec::with_capacity(uses.len()),
        exact: Vec::with_capacity(uses.len()),
    };
    let mut moved: Vec<NodeId> = Vec::with_capacity(uses.len());
    for (node, uses) in graph.nodes().iter().zip(uses) {
        let inputs: SmallVec<[NodeId; 3]> = node.inputs.iter().map(|input| moved[input.index()]).collect();
        let id = match node.op {
            Op::Input(_) => fast.graph.input(node.ty),
            Op::Map(op) if node.ty.dtype.is_float() && ops.has(op) => fast.map(op, &inputs, node),
            Op::Conv(mut how) if node.ty.dtype.is_float() && ops.has_conv() => {
                how.fast = true;
                let op = Op::Conv(how);
                fast.copy(&Node { op, ..node.clone() }, inputs)
            }
            Op::ConvGradInput(mut how, shape) if node.ty.dtype.is_float() && ops.has_conv() => {
                how.fast = true;
                let op = Op::ConvGradInput(how, shape);
                fast.copy(&Node { op, ..node.clone() }, inputs)
            }
            _ => fast.copy(node, inputs),
        };
        fast.exact.resize(fast.graph.nodes().len(), false);
        fast.uses.resize(fast.graph.nodes().len(), 0);
        // A node that another one became counts for both.
        fast.uses[id.index()] += uses;
        moved.push(id);
    }
    for output in graph.outputs() {
        fast.graph.output(moved[output.index()]);
    }
    fast.graph.pruned()
}

struct Fast {
    graph: Graph,
    // Of each node, by the nodes of the first graph.
    uses: Vec<u32>,
    // Of each of its own nodes: whether it is no part of another one's fast form.
    exact: Vec<bool>,
}

impl Fast {
    /// A node as it is.
    fn copy(&mut self, node: &Node, inputs: SmallVec<[NodeId; 3]>) -> NodeId {
        let id = self.graph.copy(node, inputs);
        self.exact.resize(id.index(), false);
        self.exact.push(true);
        id
    }

    fn map(&mut self, op: ScalarOp, inputs: &[NodeId], like: &Node) -> NodeId {
        match *inputs {
            [a, b] => self.two(op, a, b, like),
            _ => self.graph.copy(like, inputs.into()),
        }
    }

    fn two(&mut self, op: ScalarOp, a: NodeId, b: NodeId, like: &Node) -> NodeId {
        let constant = |id: NodeId| self.constant(id);
        let (left, right) = (constant(a), constant(b));
        match (op, left, right) {
            (ScalarOp::Div, None, Some(by)) if is_normal(1.0 / by, like.ty.dtype) => {
                let by = self.full(1.0 / by, like);
                return self.two(ScalarOp::Mul, a, by, like);
            }
            (ScalarOp::Sub, None, Some(less)) => {
                let more = self.full(-less, like);
                return self.two(ScalarOp::Add, a, more, like);
            }
            (ScalarOp::Add | ScalarOp::Mul, Some(_), None) => return self.two(op, b, a, like),
            (ScalarOp::Add | ScalarOp::Mul, None, Some(outer)) => {
                let inner = self.graph.node(a);
                if inner.op == Op::Map(op)
                    && !self.is_exact(a)
                    && let Some(first) = self.constant(inner.inputs[1])
                {
                    let x = inner.inputs[0];
                    let dtype = like.ty.dtype;
                    let (both, holds) = if op == ScalarOp::Add {
                        (first + outer, (first + outer).abs() <= range(dtype).1)
                    } else {
                        (first * outer, is_normal(first * outer, dtype))
                    };
                    if holds {
                        let (inner, both) = (inner.clone(), self.full(both, like));
                        let joined = self.put(op, &[x, both], like);
                        self.graph.merge(joined, &inner);
                        return joined;
                    }
                }
            }
            _ => {}
        }
        if op == ScalarOp::Add {
            for (product, addend) in [(a, b), (b, a)] {
                let inner = self.graph.node(product);
                let once = self.uses[product.index()] == 1 && !self.is_exact(product);
                if inner.op == Op::Map(ScalarOp::Mul) && once {
                    let (inner, x, y) = (inner.clone(), inner.inputs[0], inner.inputs[1]);
                    let joined = self.put(ScalarOp::Fma, &[x, y, addend], like);
                    self.graph.merge(joined, &inner);
                    return joined;
                }
            }
        }
        self.put(op, &[a, b], like)
    }

    fn is_exact(&self, id: NodeId) -> bool {
        self.exact.get(id.index()).copied().unwrap_or(false)
    }

    fn put(&mut self, op: ScalarOp, inputs: &[NodeId], like: &Node) -> NodeId {
        let node = Node {
            op: Op::Map(op),
            ..like.clone()
        };
        self.graph.copy(&node, inputs.into())
    }

    /// The number that a node is everywhere.
    fn constant(&self, id: NodeId) -> Option<f64> {
        let Op::Full { dtype, bits, .. } = self.graph.node(id).op else {
            return None;
        };
        match dtype {
            DType::F64 => Some(f64::from_bits(bits)),
            DType::F32 => Some(f32::from_bits(bits as u32).into()),
            DType::F16 => Some(f16::from_bits(bits as u16).into()),
            DType::BF16 => Some(bf16::from_bits(bits as u16).into()),
            _ => None,
        }
    }

    /// A constant of the type of `like`.
    fn full(&mut self, value: f64, like: &Node) -> NodeId {
        let dtype = like.ty.dtype;
        let bits = match dtype {
            DType::F64 => value.to_bits(),
            DType::F16 => f16::from_f64(value).to_bits().into(),
            DType::BF16 => bf16::from_f64(value).to_bits().into(),
            _ => (value as f32).to_bits().into(),
        };
        let shape: Shape = like.ty.shape;
        let node = Node {
            op: Op::Full { dtype, bits, shape },
            inputs: smallvec![],
            ty: like.ty,
            tag: like.tag,
            others: Vec::new(),
        };
        let id = self.graph.copy(&node, smallvec![]);
        self.uses.resize(self.graph.nodes().len(), 0);
        id
    }
}

/// The least and the greatest positive number with all digits.
fn range(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (f64::MIN_POSITIVE, f64::MAX),
        DType::F16 => (f16::MIN_POSITIVE.to_f64(), f16::MAX.to_f64()),
        DType::BF16 => (bf16::MIN_POSITIVE.to_f64(), bf16::MAX.to_f64()),
        _ => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
    }
}

/// Whether a number keeps its digits in a dtype.
fn is_normal(value: f64, dtype: DType) -> bool {
    let (least, most) = range(dtype);
    (least..=most).contains(&value.abs())
}
