//! The step back by itself.

use super::math::{placed, zeros};
use super::sum::Contribution;
use super::walk::{Cotangents, Ends, Extent, contribute, walk};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use crate::tree::Tree;
use crate::value::History;
use crate::value::{Level, has_gradients};
use std::collections::HashMap;
use std::sync::Arc;

/// The leaves of one level, in the order of the tensors they stand for.
pub(super) struct Leaves {
    level: Level,
    leaves: Vec<Leaf>,
}

struct Leaf {
    original: Tensor,
    /// `None` for a tensor that can have no gradient.
    history: Option<Arc<History>>,
}

impl Leaves {
    pub(super) fn new(level: Level) -> Leaves {
        Leaves {
            level,
            leaves: Vec::new(),
        }
    }

    /// A leaf in the place of `tensor`.
    pub(super) fn add(&mut self, tensor: &Tensor) -> Tensor {
        let float = tensor.ty().is_ok_and(|ty| ty.dtype.is_float());
        let history = float.then(|| History::leaf(tensor, self.level));
        self.leaves.push(Leaf {
            original: tensor.clone(),
            history: history.clone(),
        });
        Tensor {
            repr: tensor.repr.clone(),
            history,
        }
    }

    /// The gradients of all leaves from those of results.
    pub(super) fn gradients(
        &self,
        seeds: impl IntoIterator<Item = (Tensor, Tensor)>,
        tag: OpTag,
    ) -> Vec<Tensor> {
        let mut pending = Cotangents::new();
        let (mut failed, mut context) = (None, None);
        for (result, gradient) in seeds {
            context = context.or_else(|| result.context().cloned());
            if gradient.ty().is_err() {
                failed.get_or_insert(gradient);
            } else if let Some(history) = result.history.filter(|history| self.level.holds(history)) {
                contribute(&mut pending, &history, 0, Contribution::Whole(gradient));
            }
        }
        if let Some(failed) = failed {
            return self.leaves.iter().map(|_| failed.clone()).collect();
        }
        let ids: HashMap<u64, usize> = (self.leaves.iter().enumerate())
            .filter_map(|(at, leaf)| Some((leaf.history.as_ref()?.id, at)))
            .collect();
        let extent = Extent {
            level: self.level,
            context,
            stop: &|history| ids.contains_key(&history.id),
        };
        let mut ends = walk(pending, &extent);
        let gradient = |leaf: &Leaf| gradient(leaf, &mut ends, self.level, tag);
        self.leaves.iter().map(gradient).collect()
    }
}

fn gradient(leaf: &Leaf, ends: &mut Ends, level: Level, tag: OpTag) -> Tensor {
    let ty = match leaf.original.ty() {
        Ok(ty) => ty,
        Err(_) => return leaf.original.clone(),
    };
    let Some(history) = &leaf.history else {
        let refusal = Refusal::new(format!("there is no gradient by {} {}", ty.dtype, ty.shape))
            .help("gradients are of floats; cast it, or pass it as a later argument");
        return Tensor::refused(tag, refusal, &[&leaf.original]);
    };
    let found = ends.remove(&history.id);
    let gradient = found.and_then(|found| found.gradient().cloned());
    let gradient = gradient.unwrap_or_else(|| zeros(ty));
    without(&tag.scope(|| placed(gradient, leaf.original.context())), level)
}

/// `tensor` without its history where that leads to `level` alone.
pub(super) fn without(tensor: &Tensor, level: Level) -> Tensor {
    Tensor {
        repr: tensor.repr.clone(),
        history: tensor
            .history
            .clone()
            .filter(|history| level.others_hold(history)),
    }
}

/// The tensor of a call that gets no level: it is nested deeper than they are counted, or the process takes no gradients.
pub(super) fn without_level(tag: OpTag) -> Tensor {
    let refusal = match has_gradients() {
        true => Refusal::new("gradients are nested more than 63 deep"),
        false => no_gradients(),
    };
    Tensor::refused(tag, refusal, &[])
}

/// That the session is for inference.
pub(super) fn no_gradients() -> Refusal {
    Refusal::new("the session has graph_run_mode 0, which takes no gradients").help("set it to 1 to train")
}

/// The step back through a call of a function.
pub struct Pullback<In, Out> {
    input: In,
    outputs: Out,
    leaves: Leaves,
    tag: OpTag,
}

/// Calls `function` and returns its result, and the step back: from gradients of the result to those of the argument. Several
/// arguments are a tuple.
///
/// ```
/// use thalweg::{Context, Tensor, vjp};
/// let cx = Context::auto()?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
/// let (y, pullback) = vjp(|x: &Tensor| x * x, &x);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(pullback.call(&Tensor::from_slice(&[1.0_f32, 10.0], [2], &cx)).to_vec::<f32>()?, [2.0, 40.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[track_caller]
pub fn vjp<In: Tree, Out: Tree>(function: impl Fn(&In) -> Out, input: &In) -> (Out, Pullback<In, Out>) {
    let tag = OpTag::uncounted("vjp");
    let run = |level| {
        let mut leaves = Leaves::new(level);
        let marked = input.map(&mut |tensor| leaves.add(tensor));
        (function(&marked), leaves)
    };
    let (outputs, leaves) = Level::enter(run).unwrap_or_else(|| {
        let failed = input.map(&mut |_| without_level(tag));
        let mut leaves = Leaves::new(Level::NONE);
        let _ = input.map(&mut |tensor| leaves.add(tensor));
        (function(&failed), leaves)
    });
    let plain = outputs.map(&mut |tensor| without(tensor, leaves.level));
    let pullback = Pullback {
        input: input.map(&mut Tensor::clone),
        outputs,
        leaves,
        tag,
    };
    (plain, pullback)
}

impl<In: Tree, Out: Tree> Pullback<In, Out> {
    /// The gradient of the argument when `gradient` is that of the result: of one shape and dtype with it, tensor by tensor.
    /// A tensor in another shape gives a gradient that carries the error.
    #[track_caller]
    pub fn call(&self, gradient: &Out) -> In {
        let tag = self.tag;
        let mut given = Vec::new();
        gradient.visit(&mut |tensor| given.push(tensor.clone()));
        let mut results = Vec::new();
        self.outputs.visit(&mut |tensor| results.push(tensor.clone()));
        if given.len() != results.len() {
            let text = format!("{} gradients for {} results", given.len(), results.len());
            let failed = Tensor::refused(tag, Refusal::new(text), &[]);
            return self.input.map(&mut |_| failed.clone());
        }
        let seeds = results.into_iter().zip(given).map(|(result, gradient)| {
            let gradient = checked(&result, gradient, tag);
            (result, gradient)
        });
        let mut gradients = self.leaves.gradients(seeds, tag).into_iter();
        self.input
            .map(&mut |tensor| gradients.next().unwrap_or_else(|| tensor.clone()))
    }
}

/// A gradient that has the type of its result, or what is wrong.
fn checked(result: &Tensor, gradient: Tensor, tag: OpTag) -> Tensor {
    match (result.ty(), gradient.ty()) {
        (Ok(result), Ok(given)) if result == given || !result.dtype.is_float() => gradient,
        (Ok(wanted), Ok(given)) => {
            let refusal = Refusal::new(format!(
                "the gradient of a result of {} {} is {} {}",
                wanted.dtype, wanted.shape, given.dtype, given.shape
            ));
            Tensor::refused(tag, refusal, &[&gradient])
        }
        (Err(_), _) => result.clone(),
        (_, Err(_)) => gradient,
    }
}
