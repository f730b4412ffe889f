//! Loops and branches over tensors.
//!
//! Outside of [`jit`](crate::jit()) they are Rust's: a body runs once for each turn, on values. While a function is traced the body is
//! traced once and becomes a part of the graph, which runs it as often as it must; loops of up to [`UNROLL`] turns are
//! unrolled. All of them have gradients. The way back through a `fori_loop` or a `scan` keeps the carries of every turn. The way
//! back through a traced `while_loop` runs the loop again and keeps its carries then; it has no second derivatives there.
//!
//! Carries keep their shapes and dtypes from turn to turn; where they do not, the result carries an error that names the carry
//! and both types.

mod back;
mod body;
mod branch;
mod checkpoint;
pub(crate) mod effect;
mod record;
mod repeat;
#[cfg(test)]
mod tests;
mod unbounded;

pub(crate) use body::trace;
pub use branch::cond;
pub use checkpoint::{Checkpoint, checkpoint};
pub(crate) use record::replay;
pub use repeat::{fori_loop, scan};
pub use unbounded::while_loop;

use crate::graph::Type;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};
use crate::tree::Tree;

/// Traced loops of no more turns than this become a part of the surrounding graph, turn by turn.
pub const UNROLL: usize = 8;

fn leaves<T: Tree>(tree: &T) -> Vec<Tensor> {
    let mut leaves = Vec::new();
    tree.visit(&mut |tensor| leaves.push(tensor.clone()));
    leaves
}

/// The structure with other tensors.
fn rebuilt<T: Tree>(tree: &T, tensors: impl IntoIterator<Item = Tensor>) -> T {
    let mut tensors = tensors.into_iter();
    tree.map(&mut |tensor| tensors.next().unwrap_or_else(|| tensor.clone()))
}

fn filled<T: Tree>(tree: &T, tensor: &Tensor) -> T {
    tree.map(&mut |_| tensor.clone())
}

/// The first tensor that carries an error.
fn failed(tensors: &[Tensor]) -> Option<Tensor> {
    tensors
        .iter()
        .find(|tensor| matches!(tensor.repr, Repr::Failed(_)))
        .cloned()
}

fn types(tensors: &[Tensor]) -> Vec<Type> {
    tensors.iter().filter_map(|tensor| tensor.ty().ok()).collect()
}

/// What a structure is, to be compared with the next turn's or the other branch's.
struct Form {
    structure: Vec<u64>,
    types: Vec<Type>,
}

impl Form {
    fn of<T: Tree>(tree: &T) -> Form {
        let mut structure = Vec::new();
        tree.structure(&mut structure);
        Form {
            structure,
            types: types(&leaves(tree)),
        }
    }

    /// The error of a turn that returned something else; the first error that it carries.
    fn differs<T: Tree>(&self, next: &T, tag: OpTag) -> Option<Tensor> {
        self.unlike(next, tag, |at, before, after| match at {
            None => Refusal::new("the body returns another structure than it takes"),
            Some(at) => Refusal::new(format!(
                "carry {at} is {before} before the body and {after} after it"
            ))
            .help("a carry keeps its shape and dtype; cast it, or expand the initial value"),
        })
    }

    fn unlike<T: Tree>(
        &self,
        next: &T,
        tag: OpTag,
        refusal: impl Fn(Option<usize>, String, String) -> Refusal,
    ) -> Option<Tensor> {
        let tensors = leaves(next);
        if let Some(failed) = failed(&tensors) {
            return Some(failed);
        }
        let form = Form::of(next);
        let text = |ty: Type| format!("{} {}", ty.dtype, ty.shape);
        let refusal = if form.structure != self.structure || form.types.len() != self.types.len() {
            refusal(None, String::new(), String::new())
        } else {
            let at = (self.types.iter().zip(&form.types)).position(|(before, after)| before != after)?;
            refusal(Some(at), text(self.types[at]), text(form.types[at]))
        };
        let operands: Vec<&Tensor> = tensors.iter().collect();
        Some(Tensor::refused(tag, refusal, &operands))
    }
}
