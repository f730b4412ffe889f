//! Shape and dtype of every op: the only place where operands are checked.

use super::op::{ConvAttributes, Op, ScatterMode};
use crate::error::failure::Refusal;
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, Returns, ScalarOp};
use crate::types::shape::{Axes, MAX_RANK, Shape};

/// Shape and dtype of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// Extents.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

impl Type {
    /// A type.
    pub const fn new(shape: Shape, dtype: DType) -> Type {
        Type { shape, dtype }
    }
}

type Result<T> = std::result::Result<T, Refusal>;

fn refuse<T>(message: String) -> Result<T> {
    Err(Refusal::new(message))
}

/// A dtype that `what` is not computed in.
fn untaken<T>(what: impl std::fmt::Display, dtype: DType) -> Result<T> {
    let refusal = Refusal::new(format!("{what} does not take {dtype}"));
    Err(match dtype.is_storage() {
        true => refusal.help(format!(
            "{dtype} is for storage and matrix products: cast it to f32 or bf16 first"
        )),
        false => refusal,
    })
}

/// The type of `op` on operands of the types `inputs`; [`Op::Input`] has none of its own.
///
/// # Errors
/// What does not fit, with the shapes.
pub fn infer(op: &Op, inputs: &[Type]) -> Result<Type> {
    let arity = match op {
        Op::Input(_) | Op::Full { .. } | Op::Index { .. } => 0,
        Op::Map(op) => op.arity(),
        Op::Rand
        | Op::Gather { .. }
        | Op::Matmul { .. }
        | Op::Conv(_)
        | Op::ConvGradInput(..)
        | Op::ConvGradWeight(..) => 2,
        Op::Scatter { .. } => 3,
        Op::Attention { .. } => inputs.len().clamp(3, 4),
        Op::Concat { .. } => inputs.len().max(1),
        Op::Control(_) => inputs.len(),
        _ => 1,
    };
    if inputs.len() != arity {
        return refuse(format!("{} operands, it takes {arity}", inputs.len()));
    }
    let first = inputs
        .first()
        .copied()
        .unwrap_or(Type::new(Shape::SCALAR, DType::F32));
    let typed = |shape| Ok(Type::new(shape, first.dtype));
    match op {
        Op::Input(_) => refuse("an input has the type that it was declared with".into()),
        Op::Full { dtype, shape, .. } => Ok(Type::new(*shape, *dtype)),
        Op::Index { axis, shape } => {
            check_axis(*axis, shape)?;
            Ok(Type::new(*shape, DType::I64))
        }
        Op::Map(op) => map(*op, inputs),
        Op::Cast(dtype) => Ok(Type::new(first.shape, *dtype)),
        Op::Rand => {
            for input in inputs {
                wants(*input, DType::U64, "key and counter")?;
            }
            same_shapes(inputs)?;
            Ok(Type::new(first.shape, DType::U32))
        }
        Op::Reduce { op, axes } => reduce(*op, *axes, first),
        Op::Permute(axes) => {
            let distinct: Axes = axes
                .iter()
                .map(|&axis| usize::from(axis))
                .filter(|&a| a < MAX_RANK)
                .collect();
            if axes.len() != first.shape.len() || distinct != Axes::all(axes.len()) {
                return refuse(format!("{axes:?} is no order of the axes of {}", first.shape));
            }
            let extents: Vec<usize> = axes.iter().map(|&axis| first.shape[usize::from(axis)]).collect();
            typed(Shape::of(&extents))
        }
        Op::Expand(shape) => {
            let new = shape.len().wrapping_sub(first.shape.len());
            let fits = shape.len() >= first.shape.len()
                && (first.shape.iter().zip(&shape[new..])).all(|(&from, &to)| from == to || from == 1);
            if !fits {
                return refuse(format!("{} does not expand to {shape}", first.shape));
            }
            typed(*shape)
        }
        Op::Reshape(shape) => {
            if shape.elements() != first.shape.elements() {
                return refuse(format!(
                    "{} has {} elements, {shape} has {}",
                    first.shape,
                    first.shape.elements(),
                    shape.elements()
                ));
            }
            typed(*shape)
        }
        Op::Slice { start, step, shape } => {
            let rank = first.shape.len();
            if start.len() != rank || step.len() != rank || shape.len() != rank {
                return refuse(format!("a slice with {} axes of {}", shape.len(), first.shape));
            }
            for axis in 0..rank {
                let last = start[axis] as i128 + (shape[axis] as i128 - 1) * i128::from(step[axis]);
                let inside = |at: i128| (0..first.shape[axis] as i128).contains(&at);
                if step[axis] == 0 || (shape[axis] > 0 && !(inside(start[axis] as i128) && inside(last))) {
                    return refuse(format!(
                        "elements {} to {last} by {} of axis {axis} of {}",
                        start[axis], step[axis], first.shape
                    ));
                }
            }
            typed(*shape)
        }
        Op::Indices { .. } => {
            wants(first, DType::I64, "the index")?;
            Ok(first)
        }
        Op::Window {
            axis,
            size,
            step,
            dilation,
        } => {
            check_axis(*axis, &first.shape)?;
            let axis = usize::from(*axis);
            let extent = first.shape[axis];
            if *size == 0 || *step == 0 || *dilation == 0 || first.shape.len() == MAX_RANK {
                return refuse(format!(
                    "windows of {size} by {step} and {dilation} of {}",
                    first.shape
                ));
            }
            let span = (size - 1).saturating_mul(*dilation).saturating_add(1);
            let windows = if extent < span {
                0
            } else {
                (extent - span) / step + 1
            };
            let mut extents = first.shape.with(axis, windows).to_vec();
            extents.push(*size);
            typed(Shape::checked(&extents)?)
        }
        Op::Pad { low, shape, .. } => {
            let fits = low.len() == first.shape.len()
                && shape.len() == first.shape.len()
                && (0..shape.len()).all(|axis| low[axis].saturating_add(first.shape[axis]) <= shape[axis]);
            if !fits {
                return refuse(format!("{} at {low} does not fit into {shape}", first.shape));
            }
            typed(*shape)
        }
        Op::Concat { axis } => concat(*axis, inputs),
        Op::Gather { axis } => {
            wants(inputs[1], DType::I64, "the index")?;
            agree_but(*axis, &inputs[0].shape, &inputs[1].shape)?;
            Ok(Type::new(inputs[1].shape, first.dtype))
        }
        Op::Scatter { axis, mode } => {
            wants(inputs[1], DType::I64, "the index")?;
            agree_but(*axis, &inputs[0].shape, &inputs[1].shape)?;
            if inputs[1].shape != inputs[2].shape || inputs[2].dtype != first.dtype {
                return refuse(format!(
                    "updates {} {} for indices {} and a base of {}",
                    inputs[2].dtype, inputs[2].shape, inputs[1].shape, first.dtype
                ));
            }
            if *mode != ScatterMode::Set && first.dtype.is_storage() {
                return untaken(format_args!("scatter by {}", mode.name()), first.dtype);
            }
            Ok(first)
        }
        Op::Matmul { accumulate, output } => matmul(*accumulate, *output, inputs[0], inputs[1]),
        Op::Attention { .. } => attention(inputs),
        Op::Conv(attributes) => conv(attributes, inputs[0], inputs[1]),
        Op::ConvGradInput(attributes, shape) => {
            let (grad, weight) = (inputs[0], inputs[1]);
            let forward = conv(attributes, Type::new(*shape, grad.dtype), weight)?;
            gradient(forward, grad, *shape)
        }
        Op::ConvGradWeight(attributes, shape) => {
            let (input, grad) = (inputs[0], inputs[1]);
            let forward = conv(attributes, input, Type::new(*shape, grad.dtype))?;
            gradient(forward, grad, *shape)
        }
        Op::Scan { op, axis, .. } => {
            check_axis(*axis, &first.shape)?;
            if !op.takes(first.dtype) || op.returns() == Returns::Index {
                return untaken(format_args!("a running {op}"), first.dtype);
            }
            Ok(first)
        }
        Op::Sort { axis, .. } => {
            ordered(*axis, first)?;
            Ok(first)
        }
        Op::ArgSort { axis, count, .. } => {
            ordered(*axis, first)?;
            let (axis, shape) = (usize::from(*axis), first.shape);
            if *count > shape[axis] {
                return refuse(format!(
                    "{count} of {} elements along axis {axis} of {shape}",
                    shape[axis]
                ));
            }
            Ok(Type::new(shape.with(axis, *count), DType::I64))
        }
        Op::Control(control) => {
            control.results(inputs)?;
            Ok(Type::new(Shape::SCALAR, DType::Bool))
        }
        Op::Result { ty, .. } => Ok(*ty),
    }
}

fn ordered(axis: u8, of: Type) -> Result<()> {
    check_axis(axis, &of.shape)?;
    if !ScalarOp::Lt.accepts().takes(of.dtype) {
        return untaken("an order", of.dtype);
    }
    Ok(())
}

fn check_axis(axis: u8, shape: &Shape) -> Result<()> {
    if usize::from(axis) < shape.len() {
        return Ok(());
    }
    refuse(format!("there is no axis {axis} in {shape}"))
}

fn wants(input: Type, dtype: DType, what: &str) -> Result<()> {
    if input.dtype == dtype {
        return Ok(());
    }
    Err(Refusal::new(format!("{what} is {}, not {dtype}", input.dtype)).help(format!("cast it to {dtype}")))
}

fn same_shapes(inputs: &[Type]) -> Result<()> {
    match inputs.iter().find(|input| input.shape != inputs[0].shape) {
        None => Ok(()),
        Some(other) => refuse(format!("shapes differ: {} and {}", inputs[0].shape, other.shape)),
    }
}

fn agree_but(axis: u8, one: &Shape, other: &Shape) -> Result<()> {
    check_axis(axis, one)?;
    let axis = usize::from(axis);
    if one.len() != other.len() || (0..one.len()).any(|at| at != axis && one[at] != other[at]) {
        return refuse(format!(
            "{one} and {other} differ elsewhere than along axis {axis}"
        ));
    }
    Ok(())
}

fn map(op: ScalarOp, inputs: &[Type]) -> Result<Type> {
    same_shapes(inputs)?;
    let values = if op == ScalarOp::Select {
        wants(inputs[0], DType::Bool, "the condition")?;
        &inputs[1..]
    } else {
        inputs
    };
    let dtype = values[0].dtype;
    if let Some(other) = values.iter().find(|value| value.dtype != dtype) {
        return Err(
            Refusal::new(format!("dtypes differ: {dtype} and {}", other.dtype)).help("cast one of them"),
        );
    }
    if !op.accepts().takes(dtype) {
        return untaken(op, dtype);
    }
    let dtype = match op.returns() {
        Returns::Same => dtype,
        Returns::Bool => DType::Bool,
        Returns::Index => DType::I64,
    };
    Ok(Type::new(inputs[0].shape, dtype))
}

fn reduce(op: ReduceOp, axes: Axes, input: Type) -> Result<Type> {
    if axes.is_empty() || axes.iter().any(|axis| axis >= input.shape.len()) {
        return refuse(format!("{op} along {axes:?} of {}", input.shape));
    }
    if !op.takes(input.dtype) {
        return untaken(op, input.dtype);
    }
    let dtype = match op.returns() {
        Returns::Index => DType::I64,
        Returns::Same | Returns::Bool => input.dtype,
    };
    Ok(Type::new(input.shape.without(axes), dtype))
}

fn concat(axis: u8, inputs: &[Type]) -> Result<Type> {
    let first = inputs[0];
    check_axis(axis, &first.shape)?;
    let mut extent = 0_usize;
    for input in inputs {
        agree_but(axis, &first.shape, &input.shape)?;
        if input.dtype != first.dtype {
            return Err(
                Refusal::new(format!("dtypes differ: {} and {}", first.dtype, input.dtype))
                    .help("cast one of them"),
            );
        }
        extent = input.shape[usize::from(axis)].saturating_add(extent);
    }
    let shape = Shape::checked(&first.shape.with(usize::from(axis), extent))?;
    Ok(Type::new(shape, first.dtype))
}

fn matmul(accumulate: DType, output: DType, a: Type, b: Type) -> Result<Type> {
    let rank = a.shape.len();
    if rank < 2 || b.shape.len() != rank || a.shape[..rank - 2] != b.shape[..rank - 2] {
        return refuse(format!("{} × {}", a.shape, b.shape));
    }
    let (m, k, n) = (a.shape[rank - 2], a.shape[rank - 1], b.shape[rank - 1]);
    if k != b.shape[rank - 2] {
        let refusal = Refusal::new(format!(
            "inner sizes differ: {} × {} ({k} ≠ {})",
            a.shape,
            b.shape,
            b.shape[rank - 2]
        ));
        return Err(match () {
            () if k == n => refusal.help("the second operand would fit transposed"),
            () if m == b.shape[rank - 2] => refusal.help("the first operand would fit transposed"),
            () => refusal,
        });
    }
    let bytes = |dtype| matches!(dtype, DType::U8 | DType::I8);
    let meet = bytes(a.dtype) && bytes(b.dtype) && output == accumulate;
    if a.dtype != b.dtype && !meet {
        return Err(
            Refusal::new(format!("dtypes differ: {} and {}", a.dtype, b.dtype)).help("cast one of them"),
        );
    }
    let fits = match a.dtype.is_storage() {
        true => accumulate == DType::F32 && output.is_float() && output.size() < 8 && !output.is_storage(),
        false => ReduceOp::Sum.takes(accumulate) && (output == a.dtype || output == accumulate),
    };
    if !fits {
        return refuse(format!(
            "{} does not accumulate in {accumulate} to {output}",
            a.dtype
        ));
    }
    Ok(Type::new(Shape::checked(&a.shape.with(rank - 1, n))?, output))
}

fn attention(inputs: &[Type]) -> Result<Type> {
    let [q, k, v, mask @ ..] = inputs else {
        return refuse(format!("{} operands", inputs.len()));
    };
    let shapes = || format!("queries {}, keys {}, values {}", q.shape, k.shape, v.shape);
    let rank = q.shape.len();
    if rank < 2 || k.shape.len() != rank || v.shape.len() != rank {
        return refuse(shapes());
    }
    let (queries, keys, depth) = (q.shape[rank - 2], k.shape[rank - 2], q.shape[rank - 1]);
    let of = |rows: usize, columns: usize| q.shape.with(rank - 2, rows).with(rank - 1, columns);
    let out = of(queries, v.shape[rank - 1]);
    if k.shape != of(keys, depth) || v.shape != of(keys, v.shape[rank - 1]) {
        return refuse(shapes());
    }
    if k.dtype != q.dtype || v.dtype != q.dtype || !q.dtype.is_float() || q.dtype.is_storage() {
        return refuse(format!(
            "queries {}, keys {}, values {}",
            q.dtype, k.dtype, v.dtype
        ));
    }
    let sums = if q.dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    match mask {
        [mask] if mask.shape != of(queries, keys) => refuse(format!(
            "a mask {} for {queries} queries and {keys} keys of {}",
            mask.shape, q.shape
        )),
        [mask] if mask.dtype != DType::Bool && mask.dtype != sums => {
            refuse(format!("a mask of {}; it is bool or {sums}", mask.dtype))
        }
        _ => Ok(Type::new(Shape::checked(&out)?, q.dtype)),
    }
}

fn conv(attributes: &ConvAttributes, x: Type, w: Type) -> Result<Type> {
    let spatial = x.shape.len().wrapping_sub(2);
    if !(1..=3).contains(&spatial) || w.shape.len() != x.shape.len() {
        return refuse(format!("input {} with weights {}", x.shape, w.shape));
    }
    if x.dtype == w.dtype && x.dtype.is_storage() {
        return untaken("a convolution", x.dtype);
    }
    let bytes = |dtype| matches!(dtype, DType::I8 | DType::U8);
    let dtype = match bytes(x.dtype) && bytes(w.dtype) {
        true => DType::I32,
        false if x.dtype == w.dtype && x.dtype.is_float() => x.dtype,
        false => return refuse(format!("input of {} with weights of {}", x.dtype, w.dtype)),
    };
    let groups = attributes.groups;
    if groups == 0 || !w.shape[0].is_multiple_of(groups) || x.shape[1] != w.shape[1].saturating_mul(groups) {
        return refuse(format!(
            "input {} has {} channels, weights {} in {groups} groups take {}",
            x.shape,
            x.shape[1],
            w.shape,
            w.shape[1].saturating_mul(groups)
        ));
    }
    let mut extents = vec![x.shape[0], w.shape[0]];
    for axis in 0..spatial {
        let around = attributes.low[axis].saturating_add(attributes.high[axis]);
        let padded = x.shape[axis + 2].saturating_add(around);
        let (stride, dilation) = (attributes.stride[axis], attributes.dilation[axis]);
        if stride == 0 || dilation == 0 || w.shape[axis + 2] == 0 {
            return refuse(format!(
                "stride {stride}, dilation {dilation}, weights {}",
                w.shape
            ));
        }
        let span = (w.shape[axis + 2] - 1).saturating_mul(dilation).saturating_add(1);
        if padded < span {
            return refuse(format!(
                "weights span {span} elements, the padded input {} has {padded} along axis {}",
                x.shape,
                axis + 2
            ));
        }
        extents.push((padded - span) / stride + 1);
    }
    Ok(Type::new(Shape::checked(&extents)?, dtype))
}

fn gradient(forward: Type, grad: Type, shape: Shape) -> Result<Type> {
    if forward.shape != grad.shape {
        return refuse(format!("gradient {} of an output {}", grad.shape, forward.shape));
    }
    if !grad.dtype.is_float() {
        return untaken("a gradient of a convolution", grad.dtype);
    }
    Ok(Type::new(shape, grad.dtype))
}
