//! How layers find out where they lie in a network.
//!
//! A module that is walked tells the name of each of its parts by [`note`]; a layer that runs finds its own by [`enter`]. `thalweg-nn`
//! does both. So ops have names, and the code of a network has nothing to do with it.

use super::Scope;
use crate::error::tag;
use crate::record::parts;
use std::panic::Location;

/// Runs `body`, in which [`enter`] finds the parts that `visit` notes, where names are wanted. Elsewhere `visit` is not called.
pub fn with<R>(visit: impl FnOnce(), body: impl FnOnce() -> R) -> R {
    parts::with(visit, body)
}

/// Notes a part under its path: names joined by points. Does nothing outside of the `visit` of [`with`].
#[inline]
pub fn note<T>(part: &T, path: &str) {
    if parts::is_noting() {
        parts::note(std::ptr::from_ref(part).addr(), std::any::type_name::<T>(), path);
    }
}

/// Whether names are wanted and nobody knows the part.
pub fn is_stranger<T>(part: &T) -> bool {
    parts::is_naming() && !parts::is_known(std::ptr::from_ref(part).addr(), std::any::type_name::<T>())
}

/// Enters a scope below that of the code, where names are wanted; `name` is not called elsewhere.
pub fn child(name: impl FnOnce() -> String) -> Option<Scope> {
    parts::is_naming().then(|| super::scope(&name()))
}

/// As [`child`], for a part whose type has this name, which [`ContextBuilder::reserve_class_name_in_scope`] shows.
///
/// [`ContextBuilder::reserve_class_name_in_scope`]: crate::context::ContextBuilder::reserve_class_name_in_scope
pub fn child_of(type_name: &str, name: impl FnOnce() -> String) -> Option<Scope> {
    parts::is_naming().then(|| super::scope(&parts::with_class(name(), type_name)))
}

/// Enters the scope of a part that was noted; `None` for others.
///
/// ```
/// use thalweg::{Context, Tensor, jit, observe::parts};
/// struct Halve;
/// impl Halve {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         let _scope = parts::enter(self);
///         x * 0.5
///     }
/// }
/// let net = [Halve];
/// let half = jit(|x: &Tensor| parts::with(|| parts::note(&net[0], "layers.0"), || net[0].forward(x)));
/// let x = Tensor::from_slice(&[1.0_f32], 1, &Context::new("cpu")?);
/// let graph = half.graph(&x)?;
/// let tag = graph.node(graph.outputs()[0]).tag;
/// assert_eq!(tag.name(), "Default/layers/0/mul-op1");
/// # Ok::<(), thalweg::Error>(())
/// ```
#[inline]
pub fn enter<T>(part: &T) -> Option<Scope> {
    parts::enter(std::ptr::from_ref(part).addr(), std::any::type_name::<T>()).map(Scope::of)
}

/// While it lives, ops of this thread whose line is the caller's count as called at `line`: in errors, recordings and graphs.
///
/// The caller of a function behind a `dyn` pointer is where that function is defined, not the user's line. What keeps such functions
/// can keep the line that the user gave them at.
///
/// ```
/// use std::panic::Location;
/// use thalweg::{Context, Tensor, observe::parts};
///
/// trait Layer {
///     fn forward(&self, x: &Tensor) -> Tensor;
/// }
/// struct Square(&'static Location<'static>);
/// impl Layer for Square {
///     #[track_caller]
///     fn forward(&self, x: &Tensor) -> Tensor {
///         let _line = parts::placed(self.0);
///         x.matmul(x)
///     }
/// }
/// let here = Location::caller();
/// let layer: Box<dyn Layer> = Box::new(Square(here));
/// let x = Tensor::from_slice(&[1.0_f32, 2.0], [1, 2], &Context::new("cpu")?);
/// let error = layer.forward(&x).to_vec::<f32>().unwrap_err();
/// assert!(error.to_string().contains(&format!("{}:{}", here.file(), here.line())));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[must_use]
#[track_caller]
pub fn placed(line: &'static Location<'static>) -> Placed {
    Placed {
        _inner: tag::Placed::new(Location::caller(), line),
    }
}

/// While it lives, a line stands for another; see [`placed`].
#[derive(Debug)]
pub struct Placed {
    _inner: tag::Placed,
}
