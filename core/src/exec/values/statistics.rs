//! Figures of a value, computed on the device.

use super::super::executable::{Executable, Values, arg};
use super::numbers;
use crate::error::Result;
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::graph::{Graph, NodeId, Op, Type, rewrite};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::lower::{Given, lower};
use crate::types::shape::{Axes, Shape};
use crate::types::statistics::Statistics;
use crate::value::{Tensor, Value};

fn tag() -> OpTag {
    OpTag {
        op: "statistics",
        ..OpTag::NONE
    }
}

/// Adds the figures of a node as two nodes, `[4]` and i64 `[3]`, for [`Statistics::read`].
pub(super) fn add(graph: &mut Graph, of: NodeId) -> Result<[NodeId; 2], Refusal> {
    let dtype = match graph.node(of).ty.dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let mut sums = Sums { graph };
    let wide = sums.push(Op::Cast(dtype), &[of])?;
    let x = match sums.graph.shape(wide).is_empty() {
        true => sums.push(Op::Reshape(Shape::of(&[1])), &[wide])?,
        false => wide,
    };
    let (zero, least) = (sums.full(x, 0)?, sums.full(x, ReduceOp::Max.identity(dtype))?);
    let greatest = sums.full(x, ReduceOp::Min.identity(dtype))?;
    // NaN for all that is not finite.
    let product = sums.map(ScalarOp::Mul, &[x, zero])?;
    let finite = sums.map(ScalarOp::Eq, &[product, product])?;
    let numbers = sums.map(ScalarOp::Select, &[finite, x, zero])?;
    let squares = sums.map(ScalarOp::Mul, &[numbers, numbers])?;
    let (low, high) = (
        sums.map(ScalarOp::Select, &[finite, x, greatest])?,
        sums.map(ScalarOp::Select, &[finite, x, least])?,
    );
    let (is_nan, is_zero) = (
        sums.map(ScalarOp::Ne, &[x, x])?,
        sums.map(ScalarOp::Eq, &[x, zero])?,
    );
    let figures = [
        sums.reduce(ReduceOp::Min, low)?,
        sums.reduce(ReduceOp::Max, high)?,
        sums.reduce(ReduceOp::Sum, numbers)?,
        sums.reduce(ReduceOp::Sum, squares)?,
    ];
    let counts = [sums.count(finite)?, sums.count(is_nan)?, sums.count(is_zero)?];
    let join = Op::Concat { axis: 0 };
    Ok([sums.push(join.clone(), &figures)?, sums.push(join, &counts)?])
}

struct Sums<'a> {
    graph: &'a mut Graph,
}

impl Sums<'_> {
    fn push(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId, Refusal> {
        self.graph.push(op, inputs, tag())
    }

    fn map(&mut self, op: ScalarOp, inputs: &[NodeId]) -> Result<NodeId, Refusal> {
        self.push(Op::Map(op), inputs)
    }

    fn full(&mut self, like: NodeId, bits: u64) -> Result<NodeId, Refusal> {
        let Type { shape, dtype } = self.graph.node(like).ty;
        self.push(Op::Full { dtype, bits, shape }, &[])
    }

    fn reduce(&mut self, op: ReduceOp, of: NodeId) -> Result<NodeId, Refusal> {
        let axes = Axes::all(self.graph.shape(of).len());
        let reduced = self.push(Op::Reduce { op, axes }, &[of])?;
        self.push(Op::Reshape(Shape::of(&[1])), &[reduced])
    }

    fn count(&mut self, of: NodeId) -> Result<NodeId, Refusal> {
        let ones = self.push(Op::Cast(DType::I64), &[of])?;
        self.reduce(ReduceOp::Sum, ones)
    }
}

impl Statistics {
    /// Of a tensor with a value.
    pub(super) fn of(value: &Value) -> Result<Statistics> {
        let ty = Type::new(value.layout.shape, value.dtype);
        let context = &value.storage.context;
        let engine = context.engine();
        let mut graph = Graph::new();
        let x = graph.input(ty);
        let figures = add(&mut graph, x)?;
        figures.into_iter().for_each(|figure| graph.output(figure));
        let mut layout = value.layout;
        layout.offset = 0;
        let program = lower(&rewrite(&graph), &[Given::Buffer(layout)], &**engine)?;
        let executable = Executable::compile(engine, &program)?;
        let tensor = Tensor::from_value(value.clone());
        let values = executable.submit(context, engine.scoped_lane().as_ref(), &[arg(&tensor)], None)?;
        Statistics::read(ty.shape.elements(), values)
    }

    /// From the values of the nodes that [`add`] made.
    pub(super) fn read(elements: usize, values: Values) -> Result<Statistics> {
        let mut figures = Vec::with_capacity(7);
        for value in values {
            figures.extend(numbers(value)?);
        }
        let &[min, max, sum, squares, finite, nan, zeros] = figures.as_slice() else {
            return Err(Refusal::new("figures are missing; this is a defect of the library").into());
        };
        let count = elements as u64;
        let known = |number: f64| if finite > 0.0 { number } else { f64::NAN };
        Ok(Statistics {
            count,
            min: known(min),
            max: known(max),
            mean: known(sum / finite),
            l2: squares.sqrt(),
            nan: nan as u64,
            infinite: count - finite as u64 - nan as u64,
            zeros: zeros as u64,
        })
    }
}
