//! Gradients of functions.

use super::math::full;
use super::vjp::{Leaves, without, without_level};
use crate::graph::Type;
use crate::record::recording::SpanKind;
use crate::record::{parts, span};
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};
use crate::tree::{FirstArgument, Function, Tree};
use crate::value::Level;
use std::marker::PhantomData;

/// What a function that gradients are taken of returns: the loss, a tensor of one element, or the loss and anything else.
pub trait Loss: Tree {
    /// The tensor that gradients are taken of.
    fn loss(&self) -> &Tensor;
}

impl Loss for Tensor {
    fn loss(&self) -> &Tensor {
        self
    }
}

impl<T: Tree> Loss for (Tensor, T) {
    fn loss(&self) -> &Tensor {
        &self.0
    }
}

/// A gradient function: see [`grad`].
pub struct Grad<F, A>(ValueAndGrad<F, A>);

/// A function of value and gradient: see [`value_and_grad`].
pub struct ValueAndGrad<F, A> {
    function: F,
    arguments: PhantomData<fn(A)>,
}

/// The function that gives the gradient of `function` by its first argument, in the structure of that. The first argument may be
/// a tuple, a `Vec` or any [`Tree`]; later ones are constants.
///
/// A wrong call gives gradients that carry the error: the loss has more than one element or is no float, or a tensor of the first
/// argument is no float.
///
/// ```
/// use thalweg::{Context, Tensor, grad};
/// let cx = Context::auto()?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
/// let slope = grad(|x: &Tensor| (x * x * x).sum());
/// assert_eq!(slope.call(&x).to_vec::<f32>()?, [3.0, 12.0]);
/// // Of a gradient too:
/// let curvature = grad(|x: &Tensor| slope.call(x).sum());
/// assert_eq!(curvature.call(&x).to_vec::<f32>()?, [6.0, 12.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn grad<F, A>(function: F) -> Grad<F, A>
where
    A: FirstArgument,
    F: Function<A, Output: Loss>,
{
    Grad(value_and_grad(function))
}

/// The function that gives what `function` returns, and the gradient as [`grad`] does. A function may return more than the loss:
/// `(loss, predictions)`.
///
/// ```
/// use thalweg::{Context, Tensor, value_and_grad};
/// let cx = Context::auto()?;
/// let (w, x) = (Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx), Tensor::from_slice(&[3.0_f32, 4.0], [2], &cx));
/// let loss = |w: &Tensor, x: &Tensor| (w * x).sum();
/// let (value, dw) = value_and_grad(loss).call((&w, &x));
/// assert_eq!((value.item::<f32>()?, dw.to_vec::<f32>()?), (11.0, vec![3.0, 4.0]));
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn value_and_grad<F, A>(function: F) -> ValueAndGrad<F, A>
where
    A: FirstArgument,
    F: Function<A, Output: Loss>,
{
    ValueAndGrad {
        function,
        arguments: PhantomData,
    }
}

impl<F, A> Grad<F, A>
where
    A: FirstArgument,
    F: Function<A, Output: Loss>,
{
    /// The gradient at `arguments`: `&x` for a function of one argument, `(&x, &y)` of two.
    #[track_caller]
    pub fn call(&self, arguments: A::Given<'_>) -> A::First {
        self.0.run(&arguments, OpTag::uncounted("grad")).1
    }
}

impl<F, A> ValueAndGrad<F, A>
where
    A: FirstArgument,
    F: Function<A, Output: Loss>,
{
    /// The result at `arguments`, and the gradient.
    #[track_caller]
    pub fn call(&self, arguments: A::Given<'_>) -> (F::Output, A::First) {
        self.run(&arguments, OpTag::uncounted("value_and_grad"))
    }

    fn run(&self, given: &A::Given<'_>, tag: OpTag) -> (F::Output, A::First) {
        let first = A::first(given);
        let mut count = 0;
        first.visit(&mut |_| count += 1);
        let run = |level| {
            let mut leaves = Leaves::new(level);
            let mut at = 0;
            let arguments = A::map(given, &mut |tensor| {
                at += 1;
                if at <= count {
                    leaves.add(tensor)
                } else {
                    tensor.clone()
                }
            });
            let output = parts::with(
                || A::visit(&arguments.given(), &mut |_| {}),
                || self.function.call(&arguments),
            );
            drop(arguments);
            let seed = (output.loss().clone(), seed(output.loss(), tag));
            let _backward = span::phase(SpanKind::Backward);
            let gradients = leaves.gradients([seed], tag);
            (output.map(&mut |tensor| without(tensor, level)), gradients)
        };
        let (output, gradients) = Level::enter(run).unwrap_or_else(|| {
            let failed = A::map(given, &mut |_| without_level(tag));
            (self.function.call(&failed), vec![without_level(tag); count])
        });
        let mut gradients = gradients.into_iter();
        let gradient = first.map(&mut |tensor| gradients.next().unwrap_or_else(|| tensor.clone()));
        (output, gradient)
    }
}

impl<F, A> Function<A> for Grad<F, A>
where
    A: FirstArgument,
    F: Function<A, Output: Loss>,
{
    type Output = A::First;

    fn call(&self, arguments: &A) -> A::First {
        self.0.run(&arguments.given(), OpTag::uncounted("grad")).1
    }
}

impl<F, A> Function<A> for ValueAndGrad<F, A>
where
    A: FirstArgument,
    F: Function<A, Output: Loss>,
{
    type Output = (F::Output, A::First);

    fn call(&self, arguments: &A) -> (F::Output, A::First) {
        self.run(&arguments.given(), OpTag::uncounted("value_and_grad"))
    }
}

/// The gradient of a loss by itself.
pub(super) fn seed(loss: &Tensor, tag: OpTag) -> Tensor {
    match (loss.ty(), &loss.repr) {
        (_, Repr::Failed(_)) | (Err(_), _) => loss.clone(),
        (Ok(ty), _) if !ty.dtype.is_float() => {
            let refusal = Refusal::new(format!("the loss is {}, gradients are of floats", ty.dtype));
            Tensor::refused(tag, refusal, &[loss])
        }
        (Ok(ty), _) if ty.shape.elements() != 1 => {
            let refusal = Refusal::new(format!(
                "the loss has the shape {}, gradients are of one number",
                ty.shape
            ));
            let help = "reduce it with `sum` or `mean`, or give the gradient of each element to `vjp`";
            Tensor::refused(tag, refusal.help(help), &[loss])
        }
        (Ok(ty), _) => full(Type::new(ty.shape, ty.dtype), 1.0),
    }
}
