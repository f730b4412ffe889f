//! Functions that are computed again on the way back.

use super::body::trace;
use super::record::emit;
use super::{failed, filled, leaves, rebuilt, types};
use crate::graph::{Body, Control};
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;
use crate::tree::{Arguments, Function};
use std::cell::RefCell;
use std::marker::PhantomData;

/// A function that keeps its arguments alone for gradients: see [`checkpoint`].
pub struct Checkpoint<F, A> {
    function: F,
    arguments: PhantomData<fn(A)>,
}

/// `function` with less memory in training: what it computes on the way is not kept for its gradient but computed again on the way
/// back, from the arguments and the tensors that it captures. Results and gradients keep every bit, random numbers among them
/// included. Griewank and Walther, Algorithm 799: revolve (2000); Chen et al., Training Deep Nets with Sublinear Memory Cost (2016).
///
/// The function is recorded and compiled as one, by itself, also when called eagerly; so it cannot look at values.
///
/// ```
/// use thalweg::{Context, Tensor, checkpoint, grad};
/// let cx = Context::auto()?;
/// let x = Tensor::from_slice(&[0.5_f32, 2.0], 2, &cx);
/// let block = |x: &Tensor| x.tanh().exp() * x;
/// let plain = grad(|x: &Tensor| block(x).sum()).call(&x);
/// let lean = grad(|x: &Tensor| checkpoint(block).call(x).sum()).call(&x);
/// assert_eq!(plain.to_vec::<f32>()?, lean.to_vec::<f32>()?);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn checkpoint<F, A>(function: F) -> Checkpoint<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    Checkpoint {
        function,
        arguments: PhantomData,
    }
}

impl<F, A> Checkpoint<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    /// The result for `arguments`: `&x` for a function of one argument, `(&x, &y)` of two.
    ///
    /// # Errors
    /// The tensors of the result carry the first error of the function or an argument.
    #[track_caller]
    pub fn call(&self, arguments: A::Given<'_>) -> F::Output {
        self.run(&arguments, OpTag::uncounted("checkpoint"))
    }

    fn run(&self, arguments: &A::Given<'_>, tag: OpTag) -> F::Output {
        let mut given = Vec::new();
        A::visit(arguments, &mut |tensor| given.push(tensor.clone()));
        if failed(&given).is_some() {
            return self.function.call(&A::map(arguments, &mut Tensor::clone));
        }
        let context = given.iter().find_map(|tensor| tensor.context());
        let output = RefCell::new(None);
        let traced = trace(types(&given), context, |inputs| {
            let mut inputs = inputs.iter().cloned();
            let arguments = A::map(arguments, &mut |tensor| {
                inputs.next().unwrap_or_else(|| tensor.clone())
            });
            let result = self.function.call(&arguments);
            let outputs = leaves(&result);
            output.replace(Some(result));
            outputs
        });
        let Some(output) = output.into_inner() else {
            unreachable!("the function returned")
        };
        let results = traced.and_then(|traced| {
            let mut captured = Vec::new();
            let body = traced
                .close(&mut captured)
                .map_err(|refusal| Tensor::refused(tag, refusal, &[]))?;
            let control = Control::Call {
                body: Body::new(body),
            };
            emit(control, &[given, captured].concat(), tag)
        });
        match results {
            Ok(results) => rebuilt(&output, results),
            Err(failed) => filled(&output, &failed),
        }
    }
}

impl<F, A> Function<A> for Checkpoint<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    type Output = F::Output;

    fn call(&self, arguments: &A) -> F::Output {
        self.run(&arguments.given(), OpTag::uncounted("checkpoint"))
    }
}
