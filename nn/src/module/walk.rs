//! Walks over whole modules.

use super::{Module, Part, PartMut, State, Visitor, VisitorMut};
use thalweg::{DType, Shape, Tensor};

/// [`Tree::visit`](thalweg::Tree::visit) of a module: values of parameters and newest values of states.
pub fn visit_tensors<'a, M: Module>(module: &'a M, each: &mut dyn FnMut(&'a Tensor)) {
    let mut leaf = |_: &str, part: Part<'a>| match part {
        Part::Parameter(parameter) => each(parameter.value()),
        Part::State(state) => each(state.lend()),
        Part::Setting(_) => {}
    };
    module.visit(&mut Visitor::new(&mut leaf));
}

/// [`Tree::map`](thalweg::Tree::map) of a module.
pub fn map_tensors<M: Module>(module: &M, each: &mut dyn FnMut(&Tensor) -> Tensor) -> M {
    let mut mapped = module.clone();
    let mut leaf = |_: &str, part: PartMut<'_>| match part {
        PartMut::Parameter(parameter) => parameter.set_value(each(parameter.value())),
        PartMut::State(state) => *state = State::new(each(&state.value())),
        PartMut::Training(_) => {}
    };
    mapped.visit_mut(&mut VisitorMut::new(&mut leaf));
    mapped
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
    let entry = |(path, tensor, trainable): (String, Tensor, bool)| {
        Ok(Entry {
            path,
            shape: tensor.shape()?,
            dtype: tensor.dtype()?,
            trainable,
        })
    };
    leaves(module).into_iter().map(entry).collect()
}

/// Path, value, and whether training changes it, of every parameter and state.
fn leaves<M: Module>(module: &M) -> Vec<(String, Tensor, bool)> {
    let mut leaves = Vec::new();
    let mut leaf = |path: &str, part: Part<'_>| {
        let (value, trainable) = match part {
            Part::Parameter(parameter) => (parameter.value().clone(), parameter.is_trainable()),
            Part::State(state) => (state.value(), false),
            Part::Setting(_) => return,
        };
        leaves.push((path.to_owned(), value, trainable));
    };
    module.visit(&mut Visitor::new(&mut leaf));
    leaves
}

/// Path and value of every parameter and state.
pub fn named<M: Module>(module: &M) -> Vec<(String, Tensor)> {
    let leaves = leaves(module).into_iter();
    leaves.map(|(path, value, _)| (path, value)).collect()
}

/// Path and value of what training changes.
pub fn trainable_named<M: Module>(module: &M) -> Vec<(String, Tensor)> {
    let leaves = leaves(module).into_iter().filter(|(_, _, trainable)| *trainable);
    leaves.map(|(path, value, _)| (path, value)).collect()
}

/// Path of what training changes.
pub(crate) fn trainable_paths<M: Module>(module: &M) -> Vec<String> {
    let mut paths = Vec::new();
    let mut leaf = |path: &str, part: Part<'_>| match part {
        Part::Parameter(parameter) if parameter.is_trainable() => paths.push(path.to_owned()),
        _ => {}
    };
    module.visit(&mut Visitor::new(&mut leaf));
    paths
}

/// Whether `which` holds for a value that training changes.
pub(crate) fn any_trainable<M: Module>(module: &M, which: impl Fn(&Tensor) -> bool) -> bool {
    let mut any = false;
    let mut leaf = |_: &str, part: Part<'_>| match part {
        Part::Parameter(parameter) if parameter.is_trainable() => any |= which(parameter.value()),
        _ => {}
    };
    module.visit(&mut Visitor::new(&mut leaf));
    any
}

/// The values that training changes, in the order of the visit.
pub fn trainable<M: Module>(module: &M) -> Vec<Tensor> {
    trainable_named(module)
        .into_iter()
        .map(|(_, value)| value)
        .collect()
}

/// The module with the values that training changes replaced, in the order of [`trainable`]; missing ones stay.
#[must_use]
pub fn with_trainable<M: Module>(module: &M, values: &[Tensor]) -> M {
    let mut values = values.iter();
    let mut replaced = module.clone();
    let mut replace = |_: &str, part: PartMut<'_>| {
        if let PartMut::Parameter(parameter) = part
            && parameter.is_trainable()
            && let Some(value) = values.next()
        {
            parameter.set_value(value.clone());
        }
    };
    replaced.visit_mut(&mut VisitorMut::new(&mut replace));
    replaced
}
