//! Checks before an op, and ops with operands that may be absent.

use super::cast;
use super::precision::{self, Class};
use crate::composite::composite_any;
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
    match types(&operands, &optional) {
        Ok((required, types)) => settled(body(required, types), tag, &operands, &optional),
        Err(failed) => failed,
    }
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

/// As [`composite`](crate::composite::composite), with operands that may be absent.
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
    let present = together(&operands, &optional);
    let there = there(&optional);
    composite_slice(name, &(attributes.clone(), there), &present, tag, |given| {
        let (required, optional) = apart(given, there);
        body(required, optional)
    })
}

// What follows knows no closure of a caller, so that it is compiled once for each number of operands.

/// The operands that are there.
pub(crate) fn together<'a>(
    operands: &[&'a Tensor],
    optional: &[Option<&'a Tensor>],
) -> SmallVec<[&'a Tensor; 6]> {
    let optional = optional.iter().copied().flatten();
    operands.iter().copied().chain(optional).collect()
}

/// Their types, or a copy of the first that carries an error.
#[inline(never)]
fn types<const N: usize, const M: usize>(
    operands: &[&Tensor; N],
    optional: &[Option<&Tensor>; M],
) -> Result<([Type; N], [Option<Type>; M]), Tensor> {
    let (mut required, mut types) = ([Type::new(Shape::SCALAR, DType::F32); N], [None; M]);
    for (ty, operand) in required.iter_mut().zip(operands) {
        *ty = operand.ty().map_err(|_| (*operand).clone())?;
    }
    for (ty, operand) in types.iter_mut().zip(optional) {
        *ty = match operand {
            Some(operand) => Some(operand.ty().map_err(|_| (*operand).clone())?),
            None => None,
        };
    }
    Ok((required, types))
}

/// The result, which carries a refusal where that is one.
#[inline(never)]
fn settled(
    result: Result<Tensor, Refusal>,
    tag: OpTag,
    operands: &[&Tensor],
    optional: &[Option<&Tensor>],
) -> Tensor {
    result.unwrap_or_else(|refusal| Tensor::refused(tag, refusal, &together(operands, optional)))
}

pub(crate) fn there<const M: usize>(optional: &[Option<&Tensor>; M]) -> [bool; M] {
    optional.map(|operand| operand.is_some())
}

/// What belongs to each operand: to the required ones, then to those optional ones that are there.
#[inline(never)]
pub(crate) fn apart<T, const N: usize, const M: usize>(
    all: &[T],
    there: [bool; M],
) -> ([&T; N], [Option<&T>; M]) {
    let mut at = N;
    let optional = there.map(|there| {
        there.then(|| {
            at += 1;
            &all[at - 1]
        })
    });
    (std::array::from_fn(|i| &all[i]), optional)
}

/// As [`composite`](crate::composite::composite), for any number of operands; more than six run one by one.
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
    if (1..=6).contains(&operands.len()) {
        return composite_any(None, name, attributes, operands, tag, &body);
    }
    let owned: Vec<Tensor> = operands.iter().map(|&operand| operand.clone()).collect();
    tag.scope(|| body(&owned))
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
