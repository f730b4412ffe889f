//! Loops that end when a condition does.

use super::body::{trace, widen};
use super::record::emit;
use super::{Form, failed, filled, leaves, rebuilt, types};
use crate::exec;
use crate::graph::{Body, Control, Type};
use crate::hal::DType;
use crate::record::calls;
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tree::Tree;

/// `init`, changed by `body` while `condition`, a bool scalar, is true. Each turn waits for the condition.
///
/// ```
/// use thalweg::{Context, Tensor, while_loop};
/// let cx = Context::auto()?;
/// let x = Tensor::scalar(3.0_f32, &cx);
/// let grown = while_loop(|x: &Tensor| x.lt(100.0), |x| &x * &x, x);
/// assert_eq!(grown.item::<f32>()?, 6561.0);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[track_caller]
pub fn while_loop<T: Tree>(condition: impl Fn(&T) -> Tensor, body: impl Fn(T) -> T, init: T) -> T {
    let tag = OpTag::uncounted("while_loop");
    let form = Form::of(&init);
    if exec::tracing() {
        return match traced(condition, body, &init, &form, tag) {
            Ok(carry) => carry,
            Err(failed) => filled(&init, &failed),
        };
    }
    let mut carry = init;
    let count = calls::count();
    loop {
        calls::count_from(count);
        match truth(&condition(&carry), tag) {
            Ok(true) => {}
            Ok(false) => return carry,
            Err(failed) => return filled(&carry, &failed),
        }
        carry = body(carry);
        if let Some(failed) = form.differs(&carry, tag) {
            return filled(&carry, &failed);
        }
    }
}

/// A bool scalar, or why it is none.
pub(super) fn checked(condition: &Tensor, tag: OpTag) -> Result<(), Tensor> {
    match condition.ty() {
        Err(_) => Err(condition.clone()),
        Ok(ty) if ty == Type::new(Shape::SCALAR, DType::Bool) => Ok(()),
        Ok(ty) => {
            let text = format!("the condition is {} {}, not a bool scalar", ty.dtype, ty.shape);
            let refusal = Refusal::new(text).help("reduce it with `all` or `any`");
            Err(Tensor::refused(tag, refusal, &[condition]))
        }
    }
}

/// The value of a condition; waits for it.
pub(super) fn truth(condition: &Tensor, tag: OpTag) -> Result<bool, Tensor> {
    checked(condition, tag)?;
    condition
        .to_scalar()
        .map(|value| value != 0.0)
        .map_err(|error| Tensor::of_error(tag, error, condition.context()))
}

fn traced<T: Tree>(
    condition: impl Fn(&T) -> Tensor,
    body: impl Fn(T) -> T,
    init: &T,
    form: &Form,
    tag: OpTag,
) -> Result<T, Tensor> {
    let carries = leaves(init);
    if let Some(failed) = failed(&carries) {
        return Err(failed);
    }
    let types = types(&carries);
    let context = carries.iter().find_map(|tensor| tensor.context());
    let refuse = |refusal| Tensor::refused(tag, refusal, &[]);
    let test = trace(types.clone(), context, |inputs| {
        let truth = condition(&rebuilt(init, inputs.iter().cloned()));
        match checked(&truth, tag) {
            Ok(()) => vec![truth],
            Err(failed) => vec![failed],
        }
    })?;
    let turn = trace(types, context, |inputs| {
        let next = body(rebuilt(init, inputs.iter().cloned()));
        match form.differs(&next, tag) {
            Some(failed) => vec![failed],
            None => leaves(&next),
        }
    })?;
    let mut captured = Vec::new();
    let mut test = test.close(&mut captured).map_err(refuse)?;
    let turn = turn.close(&mut captured).map_err(refuse)?;
    widen(&mut test, carries.len(), &captured);
    let control = Control::While {
        condition: Body::new(test),
        body: Body::new(turn),
        carries: carries.len(),
    };
    let operands = [carries, captured].concat();
    Ok(rebuilt(init, emit(control, &operands, tag)?))
}
