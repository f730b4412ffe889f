//! The way back through an op that is written with others, as one program.

use super::cache::WordHasher;
use super::composite::Attributes;
use super::eager::{Operand, note, text_of_types};
use super::evaluate::How;
use super::staged::{Piece, Place};
use crate::context::Context;
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::graph::Graph;
use crate::record::recording::TextId;
use crate::record::{clock, switch};
use crate::value::{Repr, Tensor, lazy};
use smallvec::SmallVec;
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

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
    // What recordings say of the operands.
    text: OnceLock<TextId>,
}

impl Back {
    /// Of `operands` for attributes and the wanted ones, a bit for each; traced once for the operands' types. `trace` gives its
    /// graph.
    pub(crate) fn of(
        context: &Context,
        (name, attributes): (&'static str, &dyn Attributes),
        operands: &[&Tensor],
        wanted: u32,
        tag: OpTag,
        trace: &dyn Fn() -> Option<Graph>,
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
        let how = How {
            exact: true,
            again: true,
            ..How::default()
        };
        let piece = trace().map(|graph| Piece::new(graph, how));
        let back = piece.map(|piece| {
            Arc::new(Back {
                piece,
                tag,
                text: OnceLock::new(),
            })
        });
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

    /// What it computes.
    pub(crate) fn graph(&self) -> &Graph {
        self.piece.graph()
    }

    /// The gradients of the wanted operands from the operands and the result's gradient, in the context of the first of them; `None`
    /// where its ops have to be recorded one by one.
    pub(crate) fn call(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let now = |input: &Tensor| {
            input.history.is_none() && matches!(input.repr, Repr::Value(_) | Repr::Constant(_))
        };
        let context = match inputs.iter().find_map(Tensor::context) {
            Some(context) if lazy::tracing() == 0 && inputs.iter().all(now) => context,
            _ => return None,
        };
        let results = self.run(context, inputs).unwrap_or_else(|error| {
            let failed = Tensor::of_error(self.tag, error, Some(context));
            self.graph().outputs().iter().map(|_| failed.clone()).collect()
        });
        Some(results)
    }

    fn run(&self, context: &Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let scoped = context.engine().scoped_lane();
        let tag = OpTag::new("gradient");
        let place = Place {
            context,
            scoped: scoped.as_ref(),
            tag: Some(tag),
        };
        let ops = switch::seen().filter(|on| on.has(switch::OPS));
        let start = ops.map(|on| (on, clock::ticks()));
        let results = self.piece.run(&place, inputs)?;
        if let Some((on, start)) = start {
            let known = self.text.get_or_init(|| {
                let types = inputs.iter().filter_map(|input| input.ty().ok());
                text_of_types(types)
            });
            note(on, start, tag, *known);
        }
        Ok(results)
    }
}
