//! The way back through an op that is written with others, as one program.

use super::cache::WordHasher;
use super::composite::Attributes;
use super::eager::Operand;
use super::staged::{Piece, Place};
use crate::context::Context;
use crate::control::{replay, trace};
use crate::error::Result;
use crate::grad::vjp;
use crate::graph::Type;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor, lazy};
use smallvec::SmallVec;
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a thread remembers of the way back through an op.
pub(crate) struct Reverse {
    name: &'static str,
    attributes: Box<dyn Any + Send>,
    operands: SmallVec<[Operand; 2]>,
    wanted: u32,
    // `None` where the body brings values of its own.
    back: Option<Arc<Back>>,
}

/// From the operands and the result's gradient to the gradients of the operands that are wanted. What the op computes on its
/// way is computed again, in the kernels that need it.
pub(crate) struct Back {
    piece: Piece,
    tag: OpTag,
}

impl Back {
    /// Of `operands` for attributes and the wanted ones, a bit for each; traced once for the operands' types. `body` gives the
    /// result, which is of type `result`.
    pub(crate) fn of(
        context: &Context,
        (name, attributes): (&'static str, &dyn Attributes),
        operands: &[&Tensor],
        (wanted, result): (u32, Type),
        tag: OpTag,
        body: &dyn Fn(&[Tensor]) -> Tensor,
    ) -> Option<Arc<Back>> {
        let engine = context.engine();
        let mut hasher = WordHasher::default();
        name.hash(&mut hasher);
        attributes.digest(&mut hasher);
        wanted.hash(&mut hasher);
        for operand in operands {
            Operand::hash(operand, &mut hasher);
        }
        let hash = hasher.finish();
        let fits = |entry: &Reverse| {
            entry.name == name
                && entry.wanted == wanted
                && attributes.equals(&*entry.attributes)
                && entry.operands.len() == operands.len()
                && (entry.operands.iter().zip(operands)).all(|(one, operand)| one.is_of(operand))
        };
        if let Ok(local) = engine.local().try_borrow()
            && let Some(entry) = local.reverses.get(hash, fits)
        {
            return entry.back.clone();
        }
        let back = Back::traced(context, operands, (wanted, result), tag, body).map(Arc::new);
        let entry = Reverse {
            name,
            attributes: attributes.boxed(),
            operands: operands
                .iter()
                .filter_map(|operand| Operand::of(operand))
                .collect(),
            wanted,
            back: back.clone(),
        };
        let old = match engine.local().try_borrow_mut() {
            Ok(mut local) => local.reverses.insert(hash, entry),
            Err(_) => None,
        };
        drop(old);
        back
    }

    fn traced(
        context: &Context,
        operands: &[&Tensor],
        (wanted, result): (u32, Type),
        tag: OpTag,
        body: &dyn Fn(&[Tensor]) -> Tensor,
    ) -> Option<Back> {
        let mut types: Vec<Type> = operands.iter().filter_map(|operand| operand.ty().ok()).collect();
        types.push(result);
        let count = operands.len();
        let trace = trace(types, Some(context), |inputs| {
            let places: Vec<usize> = (0..count).filter(|at| wanted >> at & 1 == 1).collect();
            let variable: Vec<Tensor> = places.iter().map(|&at| inputs[at].clone()).collect();
            let (_, pullback) = vjp(
                |variable: &Vec<Tensor>| {
                    let mut operands = inputs[..count].to_vec();
                    for (&place, tensor) in places.iter().zip(variable) {
                        operands[place] = tensor.clone();
                    }
                    body(&operands)
                },
                &variable,
            );
            pullback.call(&inputs[count])
        });
        let mut captured = Vec::new();
        let graph = trace.ok()?.close_whole(&mut captured).ok()?;
        captured.is_empty().then(|| Back {
            piece: Piece::exact(graph),
            tag,
        })
    }

    /// The gradients of the wanted operands from the operands and the result's gradient, in the context of the first of them.
    pub(crate) fn call(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let now = |input: &Tensor| {
            input.history.is_none() && matches!(input.repr, Repr::Value(_) | Repr::Constant(_))
        };
        let context = match inputs.iter().find_map(Tensor::context) {
            Some(context) if lazy::tracing() == 0 && inputs.iter().all(now) => context,
            _ => return replay(self.piece.graph(), inputs),
        };
        self.run(context, inputs).unwrap_or_else(|error| {
            let failed = Tensor::of_error(self.tag, error, Some(context));
            self.piece
                .graph()
                .outputs()
                .iter()
                .map(|_| failed.clone())
                .collect()
        })
    }

    fn run(&self, context: &Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let scoped = context.engine().scoped_lane();
        let place = Place {
            context,
            scoped: scoped.as_ref(),
            tag: Some(OpTag::new("gradient")),
        };
        self.piece.run(&place, inputs)
    }
}
