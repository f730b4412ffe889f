//! Bringing operands to one dtype and one shape, by PyTorch's rules.

use super::operand::{Operand, Scalar};
use super::precision::{self, adjusted_operands};
use crate::composite::{chunk, composite_any};
use crate::exec;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::hal::ir::{Mixed, ScalarOp};
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{MAX_RANK, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor, apply};
use smallvec::SmallVec;
use std::borrow::Cow;
use thalweg_hal::dtype::Class;

/// The dtype that holds the values of both: a float beats an integer, an integer a truth value, the wider the
/// narrower; signed and unsigned go to the next wider signed, f16 with bf16 and f8e4m3 with f8e5m2 to f32.
///
/// # Errors
/// u64 with a signed dtype: no integer dtype holds both.
pub fn promote(a: DType, b: DType) -> Result<DType, Refusal> {
    if a == b {
        return Ok(a);
    }
    let wider = |a: DType, b: DType| if a.size() >= b.size() { a } else { b };
    let signed = |width: usize| match width {
        1 => DType::I8,
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    };
    match (a.class(), b.class()) {
        (Class::Float, Class::Float) if a.size() == b.size() => Ok(DType::F32),
        (Class::Float, Class::Float) => Ok(wider(a, b)),
        (Class::Float, _) | (_, Class::Bool) => Ok(a),
        (_, Class::Float) | (Class::Bool, _) => Ok(b),
        (Class::Signed, Class::Signed) | (Class::Unsigned, Class::Unsigned) => Ok(wider(a, b)),
        (Class::Signed, Class::Unsigned) | (Class::Unsigned, Class::Signed) => {
            let (s, u) = if a.class() == Class::Signed {
                (a, b)
            } else {
                (b, a)
            };
            match u {
                DType::U64 => Err(Refusal::new(format!("no integer dtype holds both {a} and {b}"))
                    .help("cast one of them, to i64 if the values fit")),
                _ if s.size() > u.size() => Ok(s),
                _ => Ok(signed(2 * u.size())),
            }
        }
    }
}

/// Of a stronger and a weaker group of operands: the weaker counts only where it is of a higher kind.
fn combine(strong: Option<DType>, weak: Option<DType>) -> Result<Option<DType>, Refusal> {
    let kind = |dtype: DType| match dtype.class() {
        Class::Bool => 0,
        Class::Signed | Class::Unsigned => 1,
        Class::Float => 2,
    };
    match (strong, weak) {
        (Some(strong), Some(weak)) if kind(weak) > kind(strong) => promote(strong, weak).map(Some),
        (Some(strong), _) => Ok(Some(strong)),
        (None, weak) => Ok(weak),
    }
}

/// The shape that all of `shapes` broadcast to, as in NumPy: aligned at the last axis, extents equal or 1.
pub(crate) fn broadcast(shapes: &[Shape]) -> Result<Shape, Refusal> {
    let [first, rest @ ..] = shapes else {
        return Ok(Shape::SCALAR);
    };
    if rest.iter().all(|shape| shape == first) {
        return Ok(*first);
    }
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut extents = [1; MAX_RANK];
    for shape in shapes {
        for (&extent, out) in shape.iter().zip(&mut extents[rank - shape.len()..rank]) {
            match (*out, extent) {
                (1, _) => *out = extent,
                (_, 1) => {}
                (before, now) if before == now => {}
                _ => {
                    let all: Vec<String> = shapes.iter().map(ToString::to_string).collect();
                    return Err(
                        Refusal::new(format!("shapes do not broadcast: {}", all.join(" and ")))
                            .help("extents must be equal or 1, from the last axis on"),
                    );
                }
            }
        }
    }
    Shape::checked(&extents[..rank])
}

/// Why operands were not joined.
pub(crate) enum Stop {
    /// One carries an error.
    Failed(Box<Tensor>),
    /// They do not fit.
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl Stop {
    /// The tensor that carries it.
    pub(crate) fn tensor(self, tag: OpTag, operands: &[Operand<'_>]) -> Tensor {
        match self {
            Stop::Failed(tensor) => *tensor,
            Stop::Refused(refusal) => {
                let tensors: Vec<&Tensor> = operands.iter().filter_map(Operand::tensor).collect();
                Tensor::refused(tag, refusal, &tensors)
            }
        }
    }
}

/// The common dtype and shape of operands. Tensors with axes come before tensors without, those before numbers: the
/// weaker matter to the dtype only where they are of a higher kind.
pub(crate) fn join(operands: &[Operand<'_>]) -> Result<Type, Stop> {
    let mut shapes = SmallVec::<[Shape; 4]>::new();
    let (mut full, mut single, mut number) = (None, None, None);
    for operand in operands {
        let (group, dtype) = match operand {
            Operand::Scalar(scalar) => (&mut number, scalar.default_dtype()),
            Operand::Borrowed(_) | Operand::Owned(_) => {
                let Some(tensor) = operand.tensor() else { continue };
                let ty = tensor.ty().map_err(|_| Stop::Failed(Box::new(tensor.clone())))?;
                shapes.push(ty.shape);
                (
                    if ty.shape.is_empty() {
                        &mut single
                    } else {
                        &mut full
                    },
                    ty.dtype,
                )
            }
        };
        *group = Some(match *group {
            None => dtype,
            Some(before) => promote(before, dtype)?,
        });
    }
    let dtype = combine(full, combine(single, number)?)?;
    Ok(Type::new(broadcast(&shapes)?, dtype.unwrap_or(DType::F32)))
}

/// The operand as a tensor of the type `ty`, to which it broadcasts.
pub(crate) fn brought<'a>(operand: &'a Operand<'_>, ty: Type, tag: OpTag) -> Result<Cow<'a, Tensor>, Stop> {
    let Some(tensor) = operand.tensor() else {
        let Operand::Scalar(scalar) = operand else {
            unreachable!("an operand is a tensor or a number")
        };
        return Ok(Cow::Owned(Tensor::constant(
            ty.shape,
            ty.dtype,
            scalar.bits(ty.dtype)?,
        )));
    };
    match tensor.ty() {
        Ok(known) if known == ty => Ok(Cow::Borrowed(tensor)),
        _ => Ok(Cow::Owned(expanded(&cast(tensor, ty.dtype, tag), ty.shape, tag))),
    }
}

/// A scalar op on every element of operands that are brought to their common shape and to the dtype that `choose` makes of
/// their common one.
pub(crate) fn map<const N: usize>(
    op: ScalarOp,
    operands: [Operand<'_>; N],
    choose: impl Fn(DType) -> Result<DType, Refusal>,
    tag: OpTag,
) -> Tensor {
    let operands = adjusted_operands(precision::Class::of(op.mixed()), tag, operands);
    map_any(op, &operands, &choose, tag)
}

fn map_any(
    op: ScalarOp,
    operands: &[Operand<'_>],
    choose: &dyn Fn(DType) -> Result<DType, Refusal>,
    tag: OpTag,
) -> Tensor {
    let ty = match join(operands).and_then(|ty| Ok(Type::new(ty.shape, choose(ty.dtype)?))) {
        Ok(ty) => ty,
        Err(stop) => return stop.tensor(tag, operands),
    };
    let converts = |operand: &Operand<'_>| {
        (operand.tensor()).is_some_and(|tensor| tensor.ty().is_ok_and(|known| known.dtype != ty.dtype))
    };
    if operands.iter().any(converts) {
        return elementwise_any("map", &(op, ty), operands, ty, tag, &|inputs| {
            apply(Op::Map(op), inputs, tag)
        });
    }
    let mut inputs = SmallVec::<[Cow<'_, Tensor>; 3]>::new();
    for operand in operands {
        match brought(operand, ty, tag) {
            Ok(input) => inputs.push(input),
            Err(stop) => return stop.tensor(tag, operands),
        }
    }
    let inputs: SmallVec<[&Tensor; 3]> = inputs.iter().map(|input| &**input).collect();
    apply(Op::Map(op), &inputs, tag)
}

/// An op on every element of operands that are brought to their common shape and to the dtype that `choose` makes of their
/// common one. With numbers or conversions, eager tensors still run one kernel.
pub(crate) fn elementwise<const N: usize, A>(
    name: &'static str,
    mixed: Mixed,
    attributes: A,
    operands: [Operand<'_>; N],
    choose: impl Fn(DType) -> Result<DType, Refusal>,
    tag: OpTag,
    body: impl Fn(&[&Tensor; N]) -> Tensor,
) -> Tensor
where
    A: std::hash::Hash + Eq + Clone + Send + 'static,
{
    let operands = adjusted_operands(precision::Class::of(mixed), tag, operands);
    let ty = match join(&operands).and_then(|ty| Ok(Type::new(ty.shape, choose(ty.dtype)?))) {
        Ok(ty) => ty,
        Err(stop) => return stop.tensor(tag, &operands),
    };
    elementwise_any(name, &(attributes, ty), &operands, ty, tag, &|inputs| {
        body(chunk(inputs))
    })
}

/// [`elementwise`] without its type parameters, for operands that were joined.
fn elementwise_any(
    name: &'static str,
    attributes: &dyn exec::Attributes,
    operands: &[Operand<'_>],
    ty: Type,
    tag: OpTag,
    body: &dyn Fn(&[&Tensor]) -> Tensor,
) -> Tensor {
    // Numbers become constants of the right dtype before they enter the compiled op: their values are its arguments.
    let mut inputs = SmallVec::<[Cow<'_, Tensor>; 3]>::new();
    for operand in operands {
        inputs.push(match operand.tensor() {
            Some(tensor) => Cow::Borrowed(tensor),
            None => match brought(operand, ty, tag) {
                Ok(constant) => constant,
                Err(stop) => return stop.tensor(tag, operands),
            },
        });
    }
    let inputs: SmallVec<[&Tensor; 3]> = inputs.iter().map(|input| &**input).collect();
    composite_any(None, name, attributes, &inputs, tag, &|inputs| {
        let bring = |input: &Tensor| expanded(&cast(input, ty.dtype, tag), ty.shape, tag);
        let brought: SmallVec<[Tensor; 3]> = inputs.iter().map(bring).collect();
        let brought: SmallVec<[&Tensor; 3]> = brought.iter().collect();
        body(&brought)
    })
}

/// Conversion; the tensor itself where nothing changes.
pub(crate) fn cast(tensor: &Tensor, dtype: DType, tag: OpTag) -> Tensor {
    match &tensor.repr {
        Repr::Constant(constant) if constant.ty.dtype == dtype => tensor.clone(),
        Repr::Constant(constant) => {
            let value = Scalar::from_bits(constant.ty.dtype, constant.bits);
            Tensor::constant(constant.ty.shape, dtype, value.cast_bits(dtype))
        }
        _ if tensor.ty().is_ok_and(|ty| ty.dtype == dtype) => tensor.clone(),
        _ => apply(Op::Cast(dtype), &[tensor], tag),
    }
}

/// The view that broadcasts to `shape`; the tensor itself where it has it.
pub(crate) fn expanded(tensor: &Tensor, shape: Shape, tag: OpTag) -> Tensor {
    match &tensor.repr {
        _ if tensor.ty().is_ok_and(|ty| ty.shape == shape) => tensor.clone(),
        Repr::Constant(constant) if tensor.history.is_none() => {
            Tensor::constant(shape, constant.ty.dtype, constant.bits)
        }
        _ => apply(Op::Expand(shape), &[tensor], tag),
    }
}

/// The dtype of a function of real numbers: integers and truth values become f32.
pub(crate) const fn float_of(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}

/// The dtype in which values are compared: f32 for those for storage, which it holds.
pub(crate) fn compared(dtype: DType) -> Result<DType, Refusal> {
    Ok(if dtype.is_storage() { DType::F32 } else { dtype })
}

/// The dtype as it is.
pub(crate) fn unchanged(dtype: DType) -> Result<DType, Refusal> {
    Ok(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_promote_as_in_pytorch() {
        use DType::*;
        for (a, b, both) in [
            (F32, I64, F32),
            (F16, BF16, F32),
            (F16, F64, F64),
            (F8E4M3, F8E5M2, F32),
            (F8E4M3, F16, F16),
            (F8E5M2, BF16, BF16),
            (I32, F8E4M3, F8E4M3),
            (Bool, U8, U8),
            (U8, I8, I16),
            (U8, I32, I32),
            (U32, I32, I64),
            (U16, I16, I32),
            (I64, U32, I64),
            (U64, F16, F16),
            (U64, U8, U64),
            (Bool, Bool, Bool),
        ] {
            assert_eq!(promote(a, b).ok(), Some(both), "{a} {b}");
            assert_eq!(promote(b, a).ok(), Some(both), "{b} {a}");
        }
        assert!(promote(U64, I8).is_err());
    }

    #[test]
    fn weaker_operands_count_only_by_kind() {
        let tensor = |shape: &[usize], dtype| Operand::Owned(Tensor::constant(Shape::of(shape), dtype, 0));
        let dtype = |operands: &[Operand<'_>]| join(operands).ok().map(|ty| ty.dtype);
        let number = |scalar: Scalar| Operand::Scalar(scalar);
        assert_eq!(
            dtype(&[tensor(&[2], DType::F16), number(1.0.into())]),
            Some(DType::F16)
        );
        assert_eq!(
            dtype(&[tensor(&[2], DType::I8), number(1.0.into())]),
            Some(DType::F32)
        );
        assert_eq!(
            dtype(&[tensor(&[2], DType::I8), number(1.into())]),
            Some(DType::I8)
        );
        assert_eq!(
            dtype(&[tensor(&[2], DType::Bool), number(1.into())]),
            Some(DType::I64)
        );
        assert_eq!(
            dtype(&[tensor(&[2], DType::F16), tensor(&[], DType::F64)]),
            Some(DType::F16)
        );
        assert_eq!(
            dtype(&[tensor(&[2], DType::I8), tensor(&[], DType::F64)]),
            Some(DType::F64)
        );
        assert_eq!(
            dtype(&[tensor(&[], DType::I8), tensor(&[], DType::I32)]),
            Some(DType::I32)
        );
    }

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        let of = |shapes: &[&[usize]]| {
            let shapes: Vec<Shape> = shapes.iter().map(|extents| Shape::of(extents)).collect();
            broadcast(&shapes).ok().map(|shape| shape.to_vec())
        };
        assert_eq!(of(&[&[2, 1], &[3]]), Some(vec![2, 3]));
        assert_eq!(of(&[&[0], &[1, 1]]), Some(vec![1, 0]));
        assert_eq!(of(&[&[4, 1, 2], &[3, 1], &[]]), Some(vec![4, 3, 2]));
        assert_eq!(of(&[&[2], &[3]]), None);
        assert_eq!(of(&[&[2], &[0]]), None);
    }
}
