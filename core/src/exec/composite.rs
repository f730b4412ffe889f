//! Ops that are written with others, as one program.

use super::cache::WordHasher;
use super::eager::{Operand, note, text_of};
use super::evaluate::{How, compile};
use super::executable::{Arg, Executable, arg};
use super::linear::Linear;
use crate::context::Context;
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::error::{Error, Result};
use crate::graph::{Op, Type};
use crate::record::recording::TextId;
use crate::record::{clock, switch};
use crate::value::lazy::{self, Lazy};
use crate::value::{Repr, Tensor};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::cell::Cell;
use std::hash::{Hash, Hasher};

/// The plan of an op for attributes and operands.
pub(crate) struct Composite {
    name: &'static str,
    attributes: Box<dyn Any + Send>,
    operands: SmallVec<[Operand; 2]>,
    // `None` where the body must run op by op: it brings values of its own.
    plan: Option<Executable>,
    // What recordings say of the operands; 0 until they do.
    text: Cell<TextId>,
}

fn owned(inputs: &[&Tensor]) -> SmallVec<[Tensor; 4]> {
    inputs.iter().map(|&input| input.clone()).collect()
}

/// The placeholder of argument `number`.
pub(super) fn placeholder(number: u32, ty: Type, context: Option<&Context>, trace: u64) -> Tensor {
    let (op, tag) = (Op::Input(number), OpTag::NONE);
    Tensor::from_lazy(Lazy::new(op, SmallVec::new(), ty, tag, context.cloned(), trace))
}

/// What an op depends on besides its operands, of any type, so that one copy of the code below serves all ops.
pub(crate) trait Attributes {
    /// As [`Hash::hash`], with the type.
    fn digest(&self, hasher: &mut dyn Hasher);
    /// As [`PartialEq::eq`].
    fn equals(&self, other: &dyn Any) -> bool;
    /// A copy to keep.
    fn boxed(&self) -> Box<dyn Any + Send>;
}

impl<A: Hash + Eq + Clone + Send + 'static> Attributes for A {
    fn digest(&self, mut hasher: &mut dyn Hasher) {
        TypeId::of::<A>().hash(&mut hasher);
        Hash::hash(self, &mut hasher);
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<A>() == Some(self)
    }

    fn boxed(&self) -> Box<dyn Any + Send> {
        Box::new(self.clone())
    }
}

/// Runs an op that is written with others now; `body` is traced once for each name, attributes and operands' types.
pub(crate) fn eager_composite(
    context: &Context,
    name: &'static str,
    attributes: &dyn Attributes,
    inputs: &[&Tensor],
    tag: OpTag,
    body: &dyn Fn(&[Tensor]) -> Tensor,
) -> Result<Tensor> {
    let now = || body(&owned(inputs));
    let engine = context.engine();
    let mut hasher = WordHasher::default();
    name.hash(&mut hasher);
    attributes.digest(&mut hasher);
    for input in inputs {
        Operand::hash(input, &mut hasher);
    }
    let hash = hasher.finish();
    let scoped = engine.scoped_lane();
    let args: SmallVec<[Arg<'_>; 4]> = inputs.iter().map(|input| arg(input)).collect();
    let run = |plan: &Executable, known: &Cell<TextId>, operands: &[Operand]| {
        let ops = switch::seen().filter(|on| on.has(switch::OPS));
        let start = ops.map(|on| (on, clock::ticks()));
        let values = plan.run(context, scoped.as_ref(), &args, Some(tag))?;
        if let Some((on, start)) = start {
            note(on, start, tag, text_of(known, operands));
        }
        let value = values.into_iter().next();
        let value = value.ok_or_else(|| Error::from(Refusal::new("the program has no output")))?;
        Ok(Tensor::from_value(value))
    };
    let fits = |entry: &Composite| {
        entry.name == name
            && attributes.equals(&*entry.attributes)
            && entry.operands.len() == inputs.len()
            && entry
                .operands
                .iter()
                .zip(inputs)
                .all(|(operand, input)| operand.is_of(input))
    };
    if let Ok(local) = engine.local().try_borrow()
        && let Some(entry) = local.composites.get(hash, fits)
    {
        match &entry.plan {
            Some(plan) => return run(plan, &entry.text, &entry.operands),
            None => {
                drop(local);
                return Ok(now());
            }
        }
    }
    let operands: SmallVec<[Operand; 2]> = inputs.iter().filter_map(|input| Operand::of(input)).collect();
    let (id, output) = lazy::trace(|id| {
        let mut numbers = 0..;
        let placeholder = |&input: &&Tensor| {
            let ty = Operand::of(input).map(|operand| operand.ty());
            match (ty, numbers.next()) {
                (Some(ty), Some(number)) => placeholder(number, ty, Some(context), id),
                _ => input.clone(),
            }
        };
        let placeholders: SmallVec<[Tensor; 4]> = inputs.iter().map(placeholder).collect();
        (id, body(&placeholders))
    });
    if matches!(output.repr, Repr::Failed(_)) {
        return Ok(output);
    }
    let linear = Linear::of(&[&output], &[], id, tag)?;
    let plan = if linear.values.is_empty() {
        let types: SmallVec<[Type; 4]> = operands.iter().map(Operand::ty).collect();
        let given: SmallVec<[_; 4]> = (operands.iter().zip(0..))
            .map(|(operand, number)| operand.given(number))
            .collect();
        let (graph, _) = linear.graph(&types, &[])?;
        let how = How {
            exact: true,
            ..How::default()
        };
        Some(compile(context, graph, &given, how)?)
    } else {
        None
    };
    let entry = Composite {
        name,
        attributes: attributes.boxed(),
        operands,
        plan,
        text: Cell::new(0),
    };
    let result = match &entry.plan {
        Some(plan) => run(plan, &entry.text, &entry.operands),
        None => Ok(now()),
    };
    let old = match engine.local().try_borrow_mut() {
        Ok(mut local) => local.composites.insert(hash, entry),
        Err(_) => None,
    };
    drop(old);
    result
}
