//! Networks as trees of named parameters.

mod containers;
mod walk;

pub use containers::hash;
pub use walk::{
    Entry, map_tensors, named, structure, summary, trainable, trainable_named, visit_tensors, with_trainable,
};
pub(crate) use walk::{any_trainable, trainable_paths};

use std::sync::OnceLock;
use thalweg::Tensor;

/// A part of a network: parameters, state, and settings, each under a name. `#[derive(Module)]` writes it.
///
/// A module is a value: a training step takes one and gives another, so that it can run as one compiled graph.
pub trait Module: Clone {
    /// Tells the visitor each part.
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>);

    /// Hands the visitor each part that may be changed, in the order of [`Module::visit`].
    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>);

    /// Switches what behaves differently in training, such as dropout.
    fn set_training(&mut self, training: bool) {
        self.visit_mut(&mut VisitorMut::new(&mut |_, part| {
            if let PartMut::Training(now) = part {
                *now = training;
            }
        }));
    }

    /// Keeps training from changing the parameters whose path `which` picks, or lets it again.
    ///
    /// ```
    /// use thalweg::Context;
    /// use thalweg_nn::{Dense, Module, Relu, Sequential, module};
    /// let cx = Context::new("cpu")?;
    /// let mut net = Sequential::new().then(Dense::new(3, 4, &cx)?).then(Relu).then(Dense::new(4, 2, &cx)?);
    /// net.set_trainable(false, |path| path.starts_with("layers.0."));
    /// assert_eq!(module::trainable(&net).len(), 2);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn set_trainable(&mut self, trainable: bool, which: impl Fn(&str) -> bool) {
        self.visit_mut(&mut VisitorMut::new(&mut |path, part| match part {
            PartMut::Parameter(parameter) if which(path) => parameter.set_trainable(trainable),
            _ => {}
        }));
    }
}

/// A module that makes one tensor from one.
///
/// ```
/// use thalweg::{Context, Tensor};
/// use thalweg_nn::{Dense, Layer, Module};
///
/// #[derive(Clone, Module)]
/// struct Residual {
///     inner: Dense,
///     scale: f64,
/// }
///
/// impl Layer for Residual {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         x + self.inner.forward(x).relu() * self.scale
///     }
/// }
///
/// let cx = Context::new("cpu")?;
/// let layer = Residual { inner: Dense::new(4, 4, &cx)?, scale: 0.5 };
/// let y = layer.forward(&Tensor::ones([2, 4], thalweg::DType::F32, &cx));
/// assert_eq!(*y.shape()?, [2, 4]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub trait Layer: Module {
    /// The output for `x`.
    fn forward(&self, x: &Tensor) -> Tensor;
}

/// What a visitor meets.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A parameter.
    Parameter(&'a Parameter),
    /// State that forward passes change.
    State(&'a State),
    /// A setting, as bits: what else tells this module from others of its type. Compiled graphs serve modules of equal settings.
    Setting(u64),
}

/// Walks a module; paths are the names of fields, joined by points.
pub struct Visitor<'v, 'a> {
    path: String,
    each: &'v mut dyn FnMut(&str, Part<'a>),
}

impl<'v, 'a> Visitor<'v, 'a> {
    /// A visitor that calls `each` with path and part.
    pub fn new(each: &'v mut dyn FnMut(&str, Part<'a>)) -> Visitor<'v, 'a> {
        Visitor {
            path: String::new(),
            each,
        }
    }

    /// Visits a part that has a name.
    pub fn child<M: Module>(&mut self, name: &str, module: &'a M) {
        let length = push(&mut self.path, name);
        module.visit(self);
        self.path.truncate(length);
    }

    /// Tells a leaf.
    pub fn leaf(&mut self, part: Part<'a>) {
        (self.each)(&self.path, part);
    }
}

/// What a visitor may change.
#[derive(Debug)]
pub enum PartMut<'a> {
    /// A parameter.
    Parameter(&'a mut Parameter),
    /// State that forward passes change.
    State(&'a mut State),
    /// Whether a layer is being trained.
    Training(&'a mut bool),
}

/// Walks a module and changes it; paths as for [`Visitor`].
pub struct VisitorMut<'v> {
    path: String,
    each: &'v mut dyn FnMut(&str, PartMut<'_>),
}

impl<'v> VisitorMut<'v> {
    /// A visitor that calls `each` with path and part.
    pub fn new(each: &'v mut dyn FnMut(&str, PartMut<'_>)) -> VisitorMut<'v> {
        VisitorMut {
            path: String::new(),
            each,
        }
    }

    /// Visits a part that has a name.
    pub fn child<M: Module>(&mut self, name: &str, module: &mut M) {
        let length = push(&mut self.path, name);
        module.visit_mut(self);
        self.path.truncate(length);
    }

    /// Hands over a leaf.
    pub fn leaf(&mut self, part: PartMut<'_>) {
        (self.each)(&self.path, part);
    }
}

/// Appends a name and returns the length before.
fn push(path: &mut String, name: &str) -> usize {
    let length = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
    length
}

/// A tensor that training changes.
#[derive(Clone, Debug)]
pub struct Parameter {
    value: Tensor,
    trainable: bool,
}

impl Parameter {
    /// A parameter of this value.
    pub fn new(value: Tensor) -> Parameter {
        Parameter {
            value,
            trainable: true,
        }
    }

    /// Its value.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// Replaces its value.
    pub fn set_value(&mut self, value: Tensor) {
        self.value = value;
    }

    /// Whether training changes it.
    pub fn is_trainable(&self) -> bool {
        self.trainable
    }

    /// Keeps training from changing it, or lets it again.
    pub fn set_trainable(&mut self, trainable: bool) {
        self.trainable = trainable;
    }
}

impl std::ops::Deref for Parameter {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.value
    }
}

impl Module for Parameter {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.leaf(Part::Parameter(self));
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.leaf(PartMut::Parameter(self));
    }
}

/// A tensor that a forward pass in training replaces, such as a running mean or the key of a random generator. A layer that runs
/// twice in a pass meets at the second time what the first one set. A clone starts at the newest value.
#[derive(Debug)]
pub struct State {
    value: Tensor,
    // A pass holds the module by reference, and references to values live as long as that: each value set is one more link.
    next: OnceLock<Box<State>>,
}

impl State {
    /// A state of this value.
    pub fn new(value: Tensor) -> State {
        State {
            value,
            next: OnceLock::new(),
        }
    }

    fn last(&self) -> &State {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    /// The value that was set last.
    pub fn value(&self) -> &Tensor {
        &self.last().value
    }

    /// Sets the value.
    pub fn set(&self, value: Tensor) {
        let mut link = Box::new(State::new(value));
        // Another thread may be first at a link; then this one comes behind it.
        while let Err(back) = self.last().next.set(link) {
            link = back;
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Link by link: a long chain must not be dropped by recursion.
        let mut next = self.next.take();
        while let Some(mut link) = next {
            next = link.next.take();
        }
    }
}

impl Clone for State {
    fn clone(&self) -> State {
        State::new(self.value().clone())
    }
}

impl Module for State {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.leaf(Part::State(self));
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.leaf(PartMut::State(self));
    }
}

/// Whether a layer is being trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training(pub bool);

impl Default for Training {
    fn default() -> Training {
        Training(true)
    }
}

impl Module for Training {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.leaf(Part::Setting(u64::from(self.0)));
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.leaf(PartMut::Training(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::Context;

    #[test]
    fn a_state_set_twice_has_the_second_value_and_a_clone_starts_there() {
        let cx = Context::new("cpu").unwrap();
        let state = State::new(Tensor::scalar(0_i32, &cx));
        let first = state.value();
        for value in 1..100_000 {
            state.set(Tensor::scalar(value, &cx));
            if value == 2 {
                break;
            }
        }
        assert_eq!(first.item::<i32>().unwrap(), 0);
        assert_eq!(state.value().item::<i32>().unwrap(), 2);
        assert_eq!(state.clone().value().item::<i32>().unwrap(), 2);
        // A chain as long as this would end the thread's stack if it were dropped by recursion.
        let (long, value) = (State::new(Tensor::scalar(0_i32, &cx)), Tensor::scalar(1_i32, &cx));
        let mut last = &long;
        for _ in 0..200_000 {
            last = last.next.get_or_init(|| Box::new(State::new(value.clone())));
        }
        drop(long);
    }
}
