//! Networks as trees of named parameters.

use std::sync::OnceLock;
use thalweg::{DType, Shape, Tensor};

/// A part of a network: parameters, state, and settings, each under a name. `#[derive(Module)]` writes it.
///
/// A module is a value: a training step takes one and gives another, so that it can run as one compiled graph.
pub trait Module: Clone {
    /// Tells the visitor each part.
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>);

    /// The same module with every tensor replaced.
    #[must_use]
    fn map(&self, mapper: &mut Mapper<'_>) -> Self;

    /// Switches what behaves differently in training, such as dropout.
    fn set_training(&mut self, training: bool);
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
    /// A setting, as bits.
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

/// Makes a module from another, tensor by tensor.
pub struct Mapper<'m> {
    path: String,
    each: &'m mut dyn FnMut(&str, Leaf<'_>) -> Tensor,
}

/// What a mapper replaces.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<'a> {
    /// A parameter's value.
    Parameter(&'a Parameter),
    /// A state's newest value.
    State(&'a State),
}

impl Leaf<'_> {
    /// The tensor.
    pub fn value(&self) -> &Tensor {
        match self {
            Leaf::Parameter(parameter) => parameter.value(),
            Leaf::State(state) => state.newest(),
        }
    }
}

impl<'m> Mapper<'m> {
    /// A mapper that asks `each` for the tensor in a leaf's place.
    pub fn new(each: &'m mut dyn FnMut(&str, Leaf<'_>) -> Tensor) -> Mapper<'m> {
        Mapper {
            path: String::new(),
            each,
        }
    }

    /// Maps a part that has a name.
    pub fn child<M: Module>(&mut self, name: &str, module: &M) -> M {
        let length = push(&mut self.path, name);
        let mapped = module.map(self);
        self.path.truncate(length);
        mapped
    }

    /// The tensor in a leaf's place.
    pub fn leaf(&mut self, leaf: Leaf<'_>) -> Tensor {
        (self.each)(&self.path, leaf)
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

    fn map(&self, mapper: &mut Mapper<'_>) -> Parameter {
        Parameter {
            value: mapper.leaf(Leaf::Parameter(self)),
            trainable: self.trainable,
        }
    }

    fn set_training(&mut self, _: bool) {}
}

/// A tensor that a forward pass in training replaces, such as a running mean or the state of a random generator. What a pass
/// sets is read by nobody in the same pass; it is the value for the next one.
#[derive(Debug)]
pub struct State {
    value: Tensor,
    next: OnceLock<Tensor>,
}

impl State {
    /// A state of this value.
    pub fn new(value: Tensor) -> State {
        State {
            value,
            next: OnceLock::new(),
        }
    }

    /// The value before the pass.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// Sets the value for the next pass. A layer that runs twice in a pass keeps the first.
    pub fn set(&self, value: Tensor) {
        // A second value of one pass is dropped as documented.
        let _ = self.next.set(value);
    }

    /// The value that was set, or the one before.
    pub fn newest(&self) -> &Tensor {
        self.next.get().unwrap_or(&self.value)
    }
}

impl Clone for State {
    fn clone(&self) -> State {
        State::new(self.newest().clone())
    }
}

impl Module for State {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.leaf(Part::State(self));
    }

    fn map(&self, mapper: &mut Mapper<'_>) -> State {
        State::new(mapper.leaf(Leaf::State(self)))
    }

    fn set_training(&mut self, _: bool) {}
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

    fn map(&self, _: &mut Mapper<'_>) -> Training {
        *self
    }

    fn set_training(&mut self, training: bool) {
        self.0 = training;
    }
}

macro_rules! settings {
    ($($type:ty: |$value:ident| $bits:expr;)*) => { $(
        impl Module for $type {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
                let $value = *self;
                visitor.leaf(Part::Setting($bits));
            }

            fn map(&self, _: &mut Mapper<'_>) -> $type {
                *self
            }

            fn set_training(&mut self, _: bool) {}
        }
    )* };
}

settings! {
    bool: |value| u64::from(value);
    usize: |value| value as u64;
    u64: |value| value;
    u32: |value| u64::from(value);
    i64: |value| value as u64;
    i32: |value| value as u64;
    f64: |value| value.to_bits();
    f32: |value| u64::from(value.to_bits());
}

impl<T: Module> Module for Option<T> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.leaf(Part::Setting(u64::from(self.is_some())));
        if let Some(part) = self {
            part.visit(visitor);
        }
    }

    fn map(&self, mapper: &mut Mapper<'_>) -> Option<T> {
        self.as_ref().map(|part| part.map(mapper))
    }

    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
}

impl<T: Module> Module for Vec<T> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.leaf(Part::Setting(self.len() as u64));
        for (at, part) in self.iter().enumerate() {
            visitor.child(&at.to_string(), part);
        }
    }

    fn map(&self, mapper: &mut Mapper<'_>) -> Vec<T> {
        (self.iter().enumerate())
            .map(|(at, part)| mapper.child(&at.to_string(), part))
            .collect()
    }

    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
}

impl<T: Module, const N: usize> Module for [T; N] {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        for (at, part) in self.iter().enumerate() {
            visitor.child(&at.to_string(), part);
        }
    }

    fn map(&self, mapper: &mut Mapper<'_>) -> [T; N] {
        std::array::from_fn(|at| mapper.child(&at.to_string(), &self[at]))
    }

    fn set_training(&mut self, training: bool) {
        self.iter_mut().for_each(|part| part.set_training(training));
    }
}

macro_rules! tuples {
    ($($($name:ident $at:tt),+;)*) => { $(
        impl<$($name: Module),+> Module for ($($name,)+) {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
                $(visitor.child(stringify!($at), &self.$at);)+
            }

            fn map(&self, mapper: &mut Mapper<'_>) -> Self {
                ($(mapper.child(stringify!($at), &self.$at),)+)
            }

            fn set_training(&mut self, training: bool) {
                $(self.$at.set_training(training);)+
            }
        }
    )* };
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
}

/// [`Tree::visit`](thalweg::Tree::visit) of a module: values of parameters and newest values of states.
pub fn visit_tensors<'a, M: Module>(module: &'a M, each: &mut dyn FnMut(&'a Tensor)) {
    let mut leaf = |_: &str, part: Part<'a>| match part {
        Part::Parameter(parameter) => each(parameter.value()),
        Part::State(state) => each(state.newest()),
        Part::Setting(_) => {}
    };
    module.visit(&mut Visitor::new(&mut leaf));
}

/// [`Tree::map`](thalweg::Tree::map) of a module.
pub fn map_tensors<M: Module>(module: &M, each: &mut dyn FnMut(&Tensor) -> Tensor) -> M {
    module.map(&mut Mapper::new(&mut |_, leaf| each(leaf.value())))
}

/// [`Tree::structure`](thalweg::Tree::structure) of a module: its settings.
pub fn structure<M: Module>(module: &M, into: &mut Vec<u64>) {
    let mut leaf = |_: &str, part: Part<'_>| match part {
        Part::Parameter(parameter) => into.push(u64::from(parameter.is_trainable())),
        Part::State(_) => {}
        Part::Setting(bits) => into.push(bits),
    };
    module.visit(&mut Visitor::new(&mut leaf));
}

/// One line of [`summary`].
#[derive(Clone, Debug)]
pub struct Entry {
    /// Names of fields, joined by points.
    pub path: String,
    /// Extents.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// Whether training changes it.
    pub trainable: bool,
}

/// Path, shape and dtype of every parameter and state.
///
/// # Errors
/// The first error that one of them carries.
pub fn summary<M: Module>(module: &M) -> thalweg::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    named(module, |path, tensor, trainable| {
        entries.push(Entry {
            path: path.to_owned(),
            shape: tensor.shape()?,
            dtype: tensor.dtype()?,
            trainable,
        });
        Ok(())
    })?;
    Ok(entries)
}

/// Calls `each` with path and value of every parameter and state, and whether training changes it.
///
/// # Errors
/// The first error of `each`.
pub fn named<M: Module>(
    module: &M,
    mut each: impl FnMut(&str, &Tensor, bool) -> thalweg::Result<()>,
) -> thalweg::Result<()> {
    let mut result = Ok(());
    let mut leaf = |path: &str, part: Part<'_>| {
        let told = match part {
            Part::Parameter(parameter) => each(path, parameter.value(), parameter.is_trainable()),
            Part::State(state) => each(path, state.newest(), false),
            Part::Setting(_) => Ok(()),
        };
        if result.is_ok() {
            result = told;
        }
    };
    module.visit(&mut Visitor::new(&mut leaf));
    result
}

/// The values that training changes, in the order of the paths' visit.
pub fn trainable<M: Module>(module: &M) -> Vec<Tensor> {
    let mut values = Vec::new();
    let mut leaf = |_: &str, part: Part<'_>| {
        if let Part::Parameter(parameter) = part
            && parameter.is_trainable()
        {
            values.push(parameter.value().clone());
        }
    };
    module.visit(&mut Visitor::new(&mut leaf));
    values
}

/// The module with the values that training changes replaced, in the order of [`trainable`]; missing ones stay.
#[must_use]
pub fn with_trainable<M: Module>(module: &M, values: &[Tensor]) -> M {
    let mut values = values.iter();
    let mut replace = |_: &str, leaf: Leaf<'_>| match leaf {
        Leaf::Parameter(parameter) if parameter.is_trainable() => {
            values.next().unwrap_or(parameter.value()).clone()
        }
        leaf => leaf.value().clone(),
    };
    module.map(&mut Mapper::new(&mut replace))
}
