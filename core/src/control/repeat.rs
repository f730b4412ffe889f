//! Loops whose number of turns is known.

use super::body::trace;
use super::record::emit;
use super::{Form, UNROLL, failed, filled, leaves, rebuilt, types};
use crate::exec;
use crate::graph::{Body, Control, Op, Type};
use crate::hal::DType;
use crate::record::calls;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use crate::tree::Tree;
use std::cell::RefCell;
use std::ops::Range;

fn index(at: i64) -> Tensor {
    Tensor::constant(Shape::SCALAR, DType::I64, at as u64)
}

const INDEX: Type = Type::new(Shape::SCALAR, DType::I64);

/// `init`, changed by `body` once for each index of `range`, which is an i64 scalar for the body. An empty range, also one that ends
/// before it starts, gives `init`.
///
/// ```
/// use thalweg::{Context, Tensor, fori_loop, grad};
/// let cx = Context::auto()?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
/// let doubled = |x: &Tensor| fori_loop(0..3, x.clone(), |_, x| &x + &x);
/// assert_eq!(doubled(&x).to_vec::<f32>()?, [8.0, 16.0]);
/// assert_eq!(grad(|x: &Tensor| doubled(x).sum()).call(&x).to_vec::<f32>()?, [8.0, 8.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[track_caller]
pub fn fori_loop<T: Tree>(range: Range<i64>, init: T, body: impl Fn(&Tensor, T) -> T) -> T {
    let tag = OpTag::uncounted("fori_loop");
    let trips = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    let form = Form::of(&init);
    if !exec::tracing() || trips <= UNROLL {
        let mut carry = init;
        let count = calls::count();
        for at in range {
            calls::count_from(count);
            carry = body(&index(at), carry);
            if let Some(failed) = form.differs(&carry, tag) {
                return filled(&carry, &failed);
            }
        }
        return carry;
    }
    let carries = leaves(&init);
    if let Some(failed) = failed(&carries) {
        return filled(&init, &failed);
    }
    let step = |index: &Tensor, carry: T, _: ()| (body(index, carry), ());
    match repeated(range.start, trips, &init, &(), &form, step, tag) {
        Ok((carry, ..)) => carry,
        Err(failed) => filled(&init, &failed),
    }
}

/// A loop over the slices along axis 0 of all tensors of `xs`: from a carry and a slice, `body` makes the next carry and a part. The
/// result is the last carry, and the parts stacked along a new axis 0.
///
/// ```
/// use thalweg::{Context, Tensor, scan};
/// let cx = Context::auto()?;
/// let xs = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
/// let start = Tensor::scalar(0.0_f32, &cx);
/// let (total, sums) = scan(|sum: Tensor, x: Tensor| { let sum = sum + x; (sum.clone(), sum) }, start, &xs);
/// assert_eq!(total.item::<f32>()?, 6.0);
/// assert_eq!(sums.to_vec::<f32>()?, [1.0, 3.0, 6.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// Extents of axis 0 that differ, or a tensor without axes, give results that carry the error; a body that fails before it returned a
/// part once gives its own.
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree>(body: impl Fn(C, X) -> (C, Y), init: C, xs: &X) -> (C, Y) {
    let tag = OpTag::uncounted("scan");
    let form = Form::of(&init);
    let sliced = leaves(xs);
    let length = match length(&sliced, tag) {
        Ok(length) => length,
        Err(failed) => {
            let (carry, part) = body(filled(&init, &failed), filled(xs, &failed));
            return (filled(&carry, &failed), filled(&part, &failed));
        }
    };
    if (!exec::tracing() || length <= UNROLL) && length > 0 {
        return unrolled(body, init, xs, length, &form, tag);
    }
    let step = |_: &Tensor, carry: C, x: X| body(carry, x);
    match repeated(0, length, &init, xs, &form, step, tag) {
        Ok((carry, part, parts)) => {
            let parts = rebuilt(&part, parts);
            (carry, parts)
        }
        Err(failed) => {
            let (carry, part) = body(filled(&init, &failed), filled(xs, &failed));
            (filled(&carry, &failed), filled(&part, &failed))
        }
    }
}

fn length(sliced: &[Tensor], tag: OpTag) -> Result<usize, Tensor> {
    if let Some(failed) = failed(sliced) {
        return Err(failed);
    }
    let refs: Vec<&Tensor> = sliced.iter().collect();
    let refuse = |text: String| Tensor::refused(tag, Refusal::new(text), &refs);
    let mut length = None;
    for ty in types(sliced) {
        match (length, ty.shape.first().copied()) {
            (_, None) => return Err(refuse("a scalar has no axis to go along".into())),
            (None, extent) => length = extent,
            (Some(one), Some(other)) if one != other => {
                return Err(refuse(format!("slices along axes of {one} and {other} elements")));
            }
            (Some(_), Some(_)) => {}
        }
    }
    length.ok_or_else(|| refuse("there is nothing to go along".into()))
}

/// Slice `at` along axis 0.
fn slice(x: &Tensor, at: usize, tag: OpTag) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let zeros = Shape::of(&vec![0; ty.shape.len()]);
    let one = Op::Slice {
        start: zeros.with(0, at),
        step: ty.shape.iter().map(|_| 1).collect(),
        shape: ty.shape.with(0, 1),
    };
    let slice = apply(one, &[x], tag);
    apply(Op::Reshape(ty.shape.without(Axes::one(0))), &[&slice], tag)
}

fn unrolled<C: Tree, X: Tree, Y: Tree>(
    body: impl Fn(C, X) -> (C, Y),
    init: C,
    xs: &X,
    length: usize,
    form: &Form,
    tag: OpTag,
) -> (C, Y) {
    let mut carry = init;
    let mut parts: Vec<Y> = Vec::with_capacity(length);
    let count = calls::count();
    for at in 0..length {
        calls::count_from(count);
        let x = xs.map(&mut |x| slice(x, at, tag));
        let (next, part) = body(carry, x);
        if let Some(failed) = form.differs(&next, tag) {
            return (filled(&next, &failed), filled(&part, &failed));
        }
        carry = next;
        parts.push(part);
    }
    let all: Vec<Vec<Tensor>> = parts.iter().map(leaves).collect();
    let mut place = 0;
    let stacked = parts[0].map(&mut |first| {
        let column: Vec<Tensor> = (all.iter())
            .filter_map(|part| part.get(place))
            .map(|part| match part.ty() {
                Ok(ty) => apply(Op::Reshape(ty.shape.inserted(0, 1)), &[part], tag),
                Err(_) => part.clone(),
            })
            .collect();
        place += 1;
        if first.ty().is_err() {
            return first.clone();
        }
        apply(Op::Concat { axis: 0 }, &column.iter().collect::<Vec<_>>(), tag)
    });
    (carry, stacked)
}

/// The last carry, a part as the traced body returned it, and the stacked parts.
#[allow(clippy::type_complexity)]
fn repeated<C: Tree, X: Tree, Y: Tree>(
    start: i64,
    trips: usize,
    init: &C,
    xs: &X,
    form: &Form,
    body: impl Fn(&Tensor, C, X) -> (C, Y),
    tag: OpTag,
) -> Result<(C, Y, Vec<Tensor>), Tensor> {
    let (carries, slices) = (leaves(init), leaves(xs));
    if let Some(failed) = failed(&carries) {
        return Err(failed);
    }
    let slice_types = types(&slices);
    let slice_types = slice_types
        .iter()
        .map(|ty| Type::new(ty.shape.without(Axes::one(0)), ty.dtype));
    let types: Vec<Type> = [INDEX]
        .into_iter()
        .chain(types(&carries))
        .chain(slice_types)
        .collect();
    let context = carries.iter().chain(&slices).find_map(|tensor| tensor.context());
    let part = RefCell::new(None);
    let traced = trace(types, context, |inputs| {
        let (carried, sliced) = inputs[1..].split_at(carries.len());
        let carry = rebuilt(init, carried.iter().cloned());
        let (next, made) = body(&inputs[0], carry, rebuilt(xs, sliced.iter().cloned()));
        if let Some(failed) = form.differs(&next, tag) {
            return vec![failed];
        }
        let mut outputs = leaves(&next);
        outputs.extend(leaves(&made));
        part.replace(Some(made));
        outputs
    })?;
    let refuse = |refusal| Tensor::refused(tag, refusal, &[]);
    let mut captured = Vec::new();
    let graph = traced.close(&mut captured).map_err(refuse)?;
    let control = Control::Repeat {
        body: Body::new(graph),
        trips,
        start,
        carries: carries.len(),
        slices: slices.len(),
        reverse: false,
    };
    let count = (carries.len(), traced.types().len());
    let operands = [carries, slices, captured].concat();
    let Some(part) = part.into_inner() else {
        return Err(refuse(Refusal::new("the body was not traced")));
    };
    if trips == 0 {
        let empty = |ty: &Type| Tensor::constant(ty.shape.inserted(0, 0), ty.dtype, 0);
        let parts = traced.types()[count.0..].iter().map(empty).collect();
        return Ok((rebuilt(init, operands), part, parts));
    }
    let mut results = emit(control, &operands, tag)?;
    results.truncate(count.1);
    let parts = results.split_off(count.0);
    Ok((rebuilt(init, results), part, parts))
}
