//! Functions that were traced.

use super::cache::WordHasher;
use super::composite::placeholder;
use super::donation::{Donated, Donations};
use super::eager::Operand;
use super::evaluate::{How, compile, evaluate};
use super::executable::{Arg, Executable, Values, arg};
use super::linear::Linear;
use crate::context::Context;
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::graph::{Graph, Type};
use crate::hal::DType;
use crate::lower::Given;
use crate::types::shape::Shape;
use crate::value::{Repr, Tensor, Value, lazy};
use smallvec::SmallVec;
use std::hash::Hasher;
use std::sync::Arc;

/// A traced function, compiled for arguments of some types and strides on one device.
pub(crate) struct Traced {
    hash: u64,
    operands: SmallVec<[Operand; 2]>,
    context: Context,
    /// Values that the function captured: constants of the executable.
    captured: Vec<Value>,
    executable: Executable,
    donations: Donations,
}

/// What a trace returns, and what it does beside.
pub(crate) type Roots<'a> = (&'a [&'a Tensor], &'a [Tensor]);

fn linear(
    trace: u64,
    leaves: &[&Tensor],
    (outputs, effects): Roots<'_>,
    tag: OpTag,
) -> Result<(Linear, Graph, Vec<Given>)> {
    let operands: SmallVec<[Operand; 4]> = leaves.iter().filter_map(|leaf| Operand::of(leaf)).collect();
    let types: SmallVec<[Type; 4]> = leaves.iter().filter_map(|leaf| leaf.ty().ok()).collect();
    let linear = Linear::of(outputs, effects, trace, tag)?;
    let (graph, captured) = linear.graph(&types, &[])?;
    let mut given: Vec<Given> = operands
        .iter()
        .zip(0..)
        .map(|(operand, number)| operand.given(number))
        .collect();
    given.extend(captured);
    Ok((linear, graph, given))
}

impl Traced {
    /// Compiles what the function `name` returns and does, as recorded in `trace`, of `leaves`, which are values or constants.
    pub(crate) fn compile(
        trace: u64,
        leaves: &[&Tensor],
        roots: Roots<'_>,
        hash: u64,
        (name, tag): (&'static str, OpTag),
    ) -> Result<Traced> {
        let (mut linear, graph, given) = linear(trace, leaves, roots, tag)?;
        let context = leaves.iter().find_map(|leaf| leaf.context()).cloned();
        let context = match context.or_else(|| linear.context.take()) {
            Some(context) => context,
            None => Context::auto()?,
        };
        let how = How {
            captured: leaves.len() as u32,
            name: Some(name),
            ..How::default()
        };
        let executable = compile(&context, graph, &given, how)?;
        Ok(Traced {
            hash,
            operands: leaves.iter().filter_map(|leaf| Operand::of(leaf)).collect(),
            context,
            captured: std::mem::take(&mut linear.values),
            executable: executable.named(name),
            donations: Donations::default(),
        })
    }

    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Whether the arguments have the types and strides that it was compiled for, and lie on its device.
    #[inline]
    pub(crate) fn fits(&self, leaves: &[&Tensor]) -> bool {
        let here = |leaf: &Tensor| match &leaf.repr {
            Repr::Value(value) => {
                let context = &value.storage.context;
                Arc::ptr_eq(context.engine(), self.context.engine())
                    && context.settings() == self.context.settings()
            }
            Repr::Constant(_) => true,
            Repr::Lazy(_) | Repr::Failed(_) => false,
        };
        self.operands.len() == leaves.len()
            && (self.operands.iter().zip(leaves)).all(|(operand, leaf)| operand.is_of(leaf) && here(leaf))
    }

    /// The context of the results: that of the first argument that has one.
    #[inline]
    fn place<'a>(&'a self, leaves: &[&'a Tensor]) -> &'a Context {
        leaves
            .iter()
            .find_map(|leaf| leaf.context())
            .unwrap_or(&self.context)
    }

    /// As [`Traced::run`] where there is one result, which is new; `None` elsewhere.
    #[inline]
    pub(crate) fn run_only(&self, leaves: &[&Tensor]) -> Option<Result<Value>> {
        let arg = |number: u32| match leaves.get(number as usize) {
            Some(leaf) => self::arg(leaf),
            None => Arg::Value(&self.captured[number as usize - leaves.len()]),
        };
        self.executable.run_only(self.place(leaves), arg)
    }

    /// Submits it for arguments that it fits.
    #[inline]
    pub(crate) fn run(&self, leaves: &[&Tensor]) -> Result<Values> {
        let context = self.place(leaves);
        self.executable.run(
            context,
            context.engine().scoped_lane().as_ref(),
            &self.args(leaves),
            None,
        )
    }

    /// As [`Traced::run`] with results in the memory of arguments that nobody else holds; `None` where there are none.
    pub(crate) fn run_donating(&self, leaves: &[&Tensor]) -> Option<Result<Donated>> {
        (self.donations).run(&self.executable, self.place(leaves), leaves, &self.args(leaves))
    }

    fn args<'a>(&'a self, leaves: &[&'a Tensor]) -> SmallVec<[Arg<'a>; 8]> {
        let given = leaves.iter().map(|leaf| arg(leaf));
        given.chain(self.captured.iter().map(Arg::Value)).collect()
    }
}

/// The graph that [`Traced::compile`] would compile.
pub(crate) fn graph_of(trace: u64, leaves: &[&Tensor], roots: Roots<'_>, tag: OpTag) -> Result<Graph> {
    Ok(linear(trace, leaves, roots, tag)?.1)
}

/// Whether ops on this thread are recorded for a trace.
#[inline]
pub(crate) fn tracing() -> bool {
    lazy::tracing() != 0
}

/// What the innermost trace does beside computing so far, in the order of calls; it is forgotten.
pub(crate) fn take_effects() -> Vec<Tensor> {
    lazy::take_effects()
}

/// Runs `body` with every op on this thread recorded under a new trace id.
pub(crate) fn trace<R>(body: impl FnOnce(u64) -> R) -> R {
    lazy::trace(body)
}

/// What stands for `leaf`, argument `number`, while a function is traced; itself where it carries an error.
pub(crate) fn placeholder_for(leaf: &Tensor, number: u32, trace: u64) -> Tensor {
    match leaf.ty() {
        Ok(ty) => placeholder(number, ty, leaf.context(), trace),
        Err(_) => leaf.clone(),
    }
}

/// A tensor that is never looked at.
pub(crate) fn stand_in() -> Tensor {
    Tensor::constant(Shape::SCALAR, DType::Bool, 0)
}

/// The tensor as a value, or with the error.
pub(crate) fn evaluated(tensor: &Tensor, tag: OpTag) -> Tensor {
    match &tensor.repr {
        Repr::Lazy(_) => match evaluate(tensor, tag) {
            Ok(value) => Tensor::from_value(value),
            Err(error) => Tensor::of_error(tag, error, tensor.context()),
        },
        Repr::Value(_) | Repr::Constant(_) | Repr::Failed(_) => tensor.clone(),
    }
}

/// A hash of the types and strides of arguments.
#[inline]
pub(crate) fn hash_of(leaves: &[&Tensor]) -> u64 {
    let mut hasher = WordHasher::default();
    for leaf in leaves {
        Operand::hash(leaf, &mut hasher);
    }
    hasher.finish()
}
