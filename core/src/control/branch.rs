//! Branches.

use super::body::{trace, widen};
use super::record::emit;
use super::unbounded::{checked, truth};
use super::{Form, failed, filled, leaves, rebuilt, types};
use crate::exec;
use crate::graph::{Body, Control};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use crate::tree::Tree;
use std::cell::RefCell;

/// `then(arguments)` where `condition`, a bool scalar, is true, else `otherwise(arguments)`. One of the two runs, which waits for the
/// condition; to choose element by element use [`Tensor::where_cond`]. Traced, both return the same structure and types.
///
/// ```
/// use thalweg::{Context, Tensor, cond, jit};
/// let cx = Context::auto()?;
/// let clipped = jit(|x: &Tensor| cond(&x.sum().lt(0.0), |x: &Tensor| x * 0.0, |x: &Tensor| x * 2.0, x));
/// let x = Tensor::from_slice(&[1.0_f32, -3.0], [2], &cx);
/// assert_eq!(clipped.call(&x).to_vec::<f32>()?, [0.0, 0.0]);
/// assert_eq!(clipped.call(&-x).to_vec::<f32>()?, [-2.0, 6.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[track_caller]
pub fn cond<A: Tree, T: Tree>(
    condition: &Tensor,
    then: impl Fn(&A) -> T,
    otherwise: impl Fn(&A) -> T,
    arguments: &A,
) -> T {
    let tag = OpTag::uncounted("cond");
    if exec::tracing() {
        return match traced(condition, &then, &otherwise, arguments, tag) {
            Ok(result) => result,
            Err(failed) => {
                let result = then(&filled(arguments, &failed));
                filled(&result, &failed)
            }
        };
    }
    match truth(condition, tag) {
        Ok(true) => then(arguments),
        Ok(false) => otherwise(arguments),
        Err(failed) => {
            let result = then(&filled(arguments, &failed));
            filled(&result, &failed)
        }
    }
}

fn traced<A: Tree, T: Tree>(
    condition: &Tensor,
    then: &impl Fn(&A) -> T,
    otherwise: &impl Fn(&A) -> T,
    arguments: &A,
    tag: OpTag,
) -> Result<T, Tensor> {
    checked(condition, tag)?;
    let given = leaves(arguments);
    if let Some(failed) = failed(&given) {
        return Err(failed);
    }
    let types = types(&given);
    let context = condition.context();
    let refuse = |refusal| Tensor::refused(tag, refusal, &[]);
    let first = RefCell::new(None);
    let one = trace(types.clone(), context, |inputs| {
        let result = then(&rebuilt(arguments, inputs.iter().cloned()));
        let outputs = leaves(&result);
        first.replace(Some((Form::of(&result), result)));
        outputs
    })?;
    let Some((form, result)) = first.into_inner() else {
        return Err(refuse(Refusal::new("the branch was not traced")));
    };
    let other = trace(types, context, |inputs| {
        let result = otherwise(&rebuilt(arguments, inputs.iter().cloned()));
        let unlike = form.unlike(&result, tag, |at, one, other| match at {
            None => Refusal::new("the branches return different structures"),
            Some(at) => Refusal::new(format!(
                "result {at} is {one} of one branch and {other} of the other"
            ))
            .help("cast or expand one of them"),
        });
        match unlike {
            Some(failed) => vec![failed],
            None => leaves(&result),
        }
    })?;
    let mut captured = Vec::new();
    let mut then = one.close(&mut captured).map_err(refuse)?;
    let otherwise = other.close(&mut captured).map_err(refuse)?;
    widen(&mut then, given.len(), &captured);
    let control = Control::Cond {
        then: Body::new(then),
        otherwise: Body::new(otherwise),
    };
    let operands = [vec![condition.clone()], given, captured].concat();
    Ok(rebuilt(&result, emit(control, &operands, tag)?))
}
