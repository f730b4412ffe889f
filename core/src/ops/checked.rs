//! Checks before an op, and ops with operands that may be absent.

use super::cast;
use super::precision::{self, Class};
use crate::composite::composite;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::hal::ir::ReduceOp;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use smallvec::SmallVec;
use std::hash::Hash;

/// The result of `body`, which gets the operands' types. An operand's error is passed on; a refusal becomes the result's.
pub(crate) fn checked<const N: usize, const M: usize>(
    tag: OpTag,
    operands: [&Tensor; N],
    optional: [Option<&Tensor>; M],
    body: impl FnOnce([Type; N], [Option<Type>; M]) -> Result<Tensor, Refusal>,
) -> Tensor {
    let all: SmallVec<[&Tensor; 6]> = operands
        .into_iter()
        .chain(optional.into_iter().flatten())
        .collect();
    let mut types = SmallVec::<[Type; 6]>::new();
    for operand in &all {
        match operand.ty() {
            Ok(ty) => types.push(ty),
            Err(_) => return (*operand).clone(),
        }
    }
    let mut types = types.into_iter();
    let mut next = || types.next().unwrap_or(Type::new(Shape::SCALAR, DType::F32));
    let required = operands.map(|_| next());
    let optional = optional.map(|operand| operand.map(|_| next()));
    body(required, optional).unwrap_or_else(|refusal| Tensor::refused(tag, refusal, &all))
}

/// As [`checked`], in the precision that the mode gives to an op of `class`; `body` gets the operands too.
pub(crate) fn checked_in<const N: usize>(
    class: Class,
    tag: OpTag,
    operands: [&Tensor; N],
    body: impl FnOnce([&Tensor; N], [Type; N]) -> Result<Tensor, Refusal>,
) -> Tensor {
    let held = precision::adjusted(class, tag, operands);
    let operands = held.operands(operands);
    let result = checked(tag, operands, [], |types, []| body(operands, types));
    held.result(result, tag)
}

/// As [`composite`], with operands that may be absent.
pub(crate) fn composite_of<const N: usize, const M: usize, A>(
    name: &'static str,
    attributes: &A,
    operands: [&Tensor; N],
    optional: [Option<&Tensor>; M],
    tag: OpTag,
    body: impl Fn([&Tensor; N], [Option<&Tensor>; M]) -> Tensor,
) -> Tensor
where
    A: Hash + Eq + Clone + Send + 'static,
{
    let present: SmallVec<[&Tensor; 6]> = operands
        .into_iter()
        .chain(optional.into_iter().flatten())
        .collect();
    let there = optional.map(|operand| operand.is_some());
    composite_slice(name, &(attributes.clone(), there), &present, tag, |given| {
        let mut at = N;
        let required = std::array::from_fn(|i| &given[i]);
        let optional = there.map(|there| {
            there.then(|| {
                at += 1;
                &given[at - 1]
            })
        });
        body(required, optional)
    })
}

/// As [`composite`], for any number of operands; more than six run one by one.
pub(crate) fn composite_slice<A>(
    name: &'static str,
    attributes: &A,
    operands: &[&Tensor],
    tag: OpTag,
    body: impl Fn(&[Tensor]) -> Tensor,
) -> Tensor
where
    A: Hash + Eq + Clone + Send + 'static,
{
    match *operands {
        [a] => composite(name, attributes, [a], tag, |t| body(t)),
        [a, b] => composite(name, attributes, [a, b], tag, |t| body(t)),
        [a, b, c] => composite(name, attributes, [a, b, c], tag, |t| body(t)),
        [a, b, c, d] => composite(name, attributes, [a, b, c, d], tag, |t| body(t)),
        [a, b, c, d, e] => composite(name, attributes, [a, b, c, d, e], tag, |t| body(t)),
        [a, b, c, d, e, f] => composite(name, attributes, [a, b, c, d, e, f], tag, |t| body(t)),
        _ => {
            let owned: Vec<Tensor> = operands.iter().map(|&operand| operand.clone()).collect();
            tag.scope(|| body(&owned))
        }
    }
}

/// The dtype in which sums of `dtype` are computed; none are of those for storage.
pub(crate) const fn wide(dtype: DType) -> DType {
    dtype.facts().summed
}

/// The sum along axes, computed in [`wide`] of `dtype` and rounded or wrapped to it; the tensor itself along none.
pub(crate) fn summed(tensor: &Tensor, axes: Axes, dtype: DType, tag: OpTag) -> Tensor {
    if axes.is_empty() {
        return cast(tensor, dtype, tag);
    }
    let op = Op::Reduce {
        op: ReduceOp::Sum,
        axes,
    };
    let sum = apply(op, &[&cast(tensor, wide(dtype), tag)], tag);
    cast(&sum, dtype, tag)
}

/// Tensors of one dtype, one after the other along an axis.
pub(crate) fn joined(parts: &[&Tensor], axis: usize, tag: OpTag) -> Tensor {
    apply(Op::Concat { axis: axis as u8 }, parts, tag)
}
