//! Networks as trees of named parameters.

mod containers;
mod walk;

pub use containers::hash;
pub use walk::{
    Entry, map_tensors, named, structure, summary, trainable, trainable_named, visit_tensors, with_trainable,
};
pub(crate) use walk::{any_trainable, trainable_paths};

use elsa::sync::FrozenVec;
use parking_lot::Mutex;
use std::fmt;
use thalweg::Tensor;
use thalweg::observe::parts;

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
        self.note(module);
        module.visit(self);
        self.path.truncate(length);
    }

    /// Tells who asks for names that a part lies here, under the path so far.
    pub(crate) fn note<M>(&self, module: &M) {
        parts::note(module, &self.path);
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
pub struct State {
    first: Tensor,
    // What was set since a value was lent.
    set: Mutex<Option<Tensor>>,
    // A visit of the module by reference hands out references to values that live as long as that: newest last.
    lent: FrozenVec<Box<Tensor>>,
}

impl State {
    /// A state of this value.
    pub fn new(value: Tensor) -> State {
        State {
            first: value,
            set: Mutex::new(None),
            lent: FrozenVec::new(),
        }
    }

    /// The value that was set last.
    pub fn value(&self) -> Tensor {
        match &*self.set.lock() {
            Some(value) => value.clone(),
            None => self.last().clone(),
        }
    }

    /// Sets the value.
    pub fn set(&self, value: Tensor) {
        // The lock is open again when the old value goes.
        let old = self.set.lock().replace(value);
        drop(old);
    }

    /// The value that was set last, which then stays as long as the state.
    pub(crate) fn lend(&self) -> &Tensor {
        match self.set.lock().take() {
            Some(value) => self.lent.push_get(Box::new(value)),
            None => self.last(),
        }
    }

    /// The value that was lent last.
    fn last(&self) -> &Tensor {
        let last = self.lent.len().checked_sub(1);
        last.and_then(|at| self.lent.get(at)).unwrap_or(&self.first)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.value()).finish()
    }
}

impl Clone for State {
    fn clone(&self) -> State {
        State::new(self.value())
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
    use std::sync::Arc;
    use thalweg::Context;

    /// A value that counts itself.
    struct Counted {
        number: [i32; 1],
        _alive: Arc<()>,
    }

    impl AsRef<[i32]> for Counted {
        fn as_ref(&self) -> &[i32] {
            &self.number
        }
    }

    #[test]
    fn a_state_keeps_its_newest_value_and_those_that_were_lent() {
        let cx = Context::new("cpu").unwrap();
        let alive = Arc::new(());
        let value = |number| {
            let owner = Counted {
                number: [number],
                _alive: Arc::clone(&alive),
            };
            Tensor::from_owner(owner, 1, &cx)
        };
        let item = |tensor: &Tensor| tensor.to_vec::<i32>().unwrap()[0];
        let state = State::new(value(0));
        assert_eq!((item(&state.value()), item(state.lend())), (0, 0));
        for number in 1..=100_000 {
            state.set(value(number));
            let values = Arc::strong_count(&alive) - 1;
            assert!(values <= 2, "{values} values after {number}");
        }
        let (newest, again) = (state.lend(), state.lend());
        assert!(std::ptr::eq(newest, again));
        state.set(value(-1));
        assert_eq!(
            (item(newest), item(&state.value()), item(state.lend())),
            (100_000, -1, -1)
        );
        assert_eq!(item(&state.clone().value()), -1);
        assert_eq!(format!("{state:?}"), format!("State({:?})", state.value()));
        // The first, two that were lent.
        assert_eq!(Arc::strong_count(&alive) - 1, 3);
        drop(state);
        assert_eq!(Arc::strong_count(&alive) - 1, 0);
    }

    /// A module that is walked while others set its state sees values whole, and in the end the last.
    #[test]
    fn a_state_may_be_set_by_one_thread_and_lent_to_others() {
        let cx = Context::new("cpu").unwrap();
        let state = State::new(Tensor::scalar(0_i32, &cx));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 1000 {
                        let now = state.lend().item::<i32>().unwrap();
                        assert!(now >= last);
                        last = now;
                    }
                });
            }
            for number in 1..=1000 {
                state.set(Tensor::scalar(number, &cx));
            }
        });
        assert_eq!(state.value().item::<i32>().unwrap(), 1000);
    }
}
