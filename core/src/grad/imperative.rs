//! Gradients as in PyTorch: mark, compute, go back.

use super::function::seed;
use super::math::{placed, zeros};
use super::sum::Contribution;
use super::vjp::{no_gradients, without};
use super::walk::{Cotangents, Ends, Extent, Found, contribute, walk};
use crate::error::Result;
use crate::record::recording::SpanKind;
use crate::record::span;
use crate::tensor::Tensor;
use crate::tensor::failure::{Failure, Refusal};
use crate::tensor::tag::OpTag;
use crate::tree::Tree;
use crate::value::{History, Level, Origin, has_gradients};

/// The gradients of one [`Tensor::backward`].
pub struct Gradients(Ends);

impl Tensor {
    /// The same values, marked: what is computed from the result can go back to it with [`Tensor::backward`]. It starts anew: what
    /// led to this tensor is not followed. A mark is not inherited by results of [`no_grad`](super::no_grad).
    ///
    /// A tensor that is no float gives one that carries the error, and so does any in a session for inference.
    ///
    /// ```
    /// use thalweg::{Context, Tensor};
    /// let cx = Context::auto()?;
    /// let w = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx).requires_grad();
    /// let gradients = (&w * &w).sum().backward()?;
    /// assert_eq!(gradients.of(&w).to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn requires_grad(&self) -> Tensor {
        let tag = OpTag::uncounted("requires_grad");
        match self.ty() {
            Err(_) => self.clone(),
            Ok(_) if !has_gradients() => Tensor::refused(tag, no_gradients(), &[self]),
            Ok(ty) if !ty.dtype.is_float() => {
                let refusal = Refusal::new(format!("there is no gradient by {} {}", ty.dtype, ty.shape))
                    .help("gradients are of floats");
                Tensor::refused(tag, refusal, &[self])
            }
            Ok(_) => Tensor {
                repr: self.repr.clone(),
                history: Some(History::new(Level::IMPERATIVE.bit, tag, Origin::Leaf)),
            },
        }
    }

    /// The same values as a constant: no gradient goes back through the result.
    ///
    /// ```
    /// use thalweg::{Context, Tensor, grad};
    /// let cx = Context::auto()?;
    /// let x = Tensor::from_slice(&[3.0_f32], [1], &cx);
    /// let half = grad(|x: &Tensor| (x * x.detach()).sum());
    /// assert_eq!(half.call(&x).to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    pub fn detach(&self) -> Tensor {
        Tensor {
            repr: self.repr.clone(),
            history: None,
        }
    }

    /// The gradients of this tensor, of one element, by all tensors that [`Tensor::requires_grad`] marked. The gradients carry no
    /// history; use [`grad`](super::grad()) for gradients of gradients.
    ///
    /// # Errors
    /// It carries an error, has more than one element, is no float, or depends on no marked tensor.
    #[track_caller]
    pub fn backward(&self) -> Result<Gradients> {
        let tag = OpTag::uncounted("backward");
        let _backward = span::phase(SpanKind::Backward);
        let gradient = seed(self, tag).ok()?;
        let marked = self
            .history
            .as_ref()
            .filter(|history| Level::IMPERATIVE.holds(history));
        let Some(history) = marked else {
            let refusal = Refusal::new("the loss depends on no tensor that was marked")
                .help("mark parameters with `requires_grad` before they are used");
            return Err(Failure {
                op: tag.op.to_owned(),
                location: tag.location(),
                ..Failure::from(refusal)
            }
            .into());
        };
        let mut pending = Cotangents::new();
        contribute(&mut pending, history, 0, Contribution::Whole(gradient));
        let extent = Extent {
            level: Level::IMPERATIVE,
            context: self.context().cloned(),
            stop: &|history| {
                history.levels == Level::IMPERATIVE.bit && matches!(history.origin, Origin::Leaf)
            },
        };
        Ok(Gradients(walk(pending, &extent)))
    }
}

impl Gradients {
    /// The gradient by `tensor`, which [`Tensor::requires_grad`] made; 0 where the loss does not depend on it. Another tensor gives
    /// one that carries an error.
    #[track_caller]
    #[must_use]
    pub fn of(&self, tensor: &Tensor) -> Tensor {
        let tag = OpTag::uncounted("gradient");
        let leaf = tensor.history.as_ref().filter(|history| {
            history.levels == Level::IMPERATIVE.bit && matches!(history.origin, Origin::Leaf)
        });
        match (tensor.ty(), leaf) {
            (Err(_), _) => tensor.clone(),
            (Ok(_), None) => {
                let refusal = Refusal::new("the tensor was not marked")
                    .help("gradients are by what `requires_grad` returned, not by what was computed from it");
                Tensor::refused(tag, refusal, &[tensor])
            }
            (Ok(ty), Some(leaf)) => {
                let found = self.0.get(&leaf.id).and_then(Found::gradient);
                let gradient = found.cloned().unwrap_or_else(|| zeros(ty));
                without(
                    &tag.scope(|| placed(gradient, tensor.context())),
                    Level::IMPERATIVE,
                )
            }
        }
    }
}

/// Tensors as constants: [`Tensor::detach`] for each.
pub fn stop_gradient<T: Tree>(tree: &T) -> T {
    tree.map(&mut Tensor::detach)
}
