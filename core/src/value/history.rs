//! How a tensor was computed from values that gradients are wanted for.

use super::level::Level;
use super::{Repr, Saves, Tensor, saves};
use crate::error::failure::{Failure, Refusal};
use crate::error::tag::OpTag;
use crate::graph::{Op, Type};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One value's origin. Inputs and output are kept only as far as the op's rule reads them. A history refers to earlier ones
/// alone, so there are no cycles.
pub(crate) struct History {
    /// Grows with time: a history has a greater number than those it refers to.
    pub(crate) id: u64,
    /// The levels whose leaves it depends on: bit 0 for `requires_grad`, bit n for the n-th enclosing `grad`; see [`Level`].
    pub(crate) levels: u64,
    pub(crate) tag: OpTag,
    pub(crate) origin: Origin,
}

// An op is the common case, and is not put behind one more pointer.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Origin {
    /// Gradients are wanted for this value.
    Leaf,
    /// The leaf of a level over a value that depends on outer ones.
    Alias(Arc<History>),
    /// A result of an op.
    Op {
        op: Op,
        inputs: SmallVec<[Edge; 3]>,
        output: Saved,
    },
    /// A computation with several results.
    Many {
        inputs: Vec<Edge>,
        /// Results that the rule reads.
        saved: Vec<(usize, Saved)>,
        results: usize,
        rule: Arc<ManyRule>,
    },
    /// A result of [`Origin::Many`].
    Result(Arc<History>, usize),
    /// A result that has a rule of its own.
    Custom {
        inputs: SmallVec<[Edge; 3]>,
        output: Saved,
        rule: Arc<AnyRule>,
    },
}

/// Of a computation with several results: the gradients of the operands from the operands, the results that were saved, and
/// the results' gradients.
pub(crate) type ManyRule = dyn Fn(&Many<'_>) -> Vec<Option<Tensor>> + Send + Sync;

/// What a [`ManyRule`] is given.
pub(crate) struct Many<'a> {
    pub(crate) inputs: &'a [Tensor],
    /// Which operands want gradients.
    pub(crate) wanted: &'a [bool],
    pub(crate) saved: &'a [Tensor],
    /// Gradients of the results; `None` is 0.
    pub(crate) gradients: &'a [Option<Tensor>],
}

/// The gradients of operands; `None` for those that have none.
pub(crate) type Gradients = SmallVec<[Option<Tensor>; 3]>;

/// The gradients of an op's operands from the operands, the result and its gradient.
pub(crate) type AnyRule = dyn Fn(&[Tensor], &Tensor, &Tensor) -> Gradients + Send + Sync;

/// An operand.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) saved: Saved,
    /// `None` where no gradient flows.
    pub(crate) history: Option<Arc<History>>,
}

/// What is kept of a value: the type always.
#[derive(Clone)]
pub(crate) struct Saved {
    pub(crate) ty: Type,
    pub(crate) value: Option<Repr>,
}

impl Saved {
    fn new(tensor: &Tensor, ty: Type, keep: bool) -> Saved {
        Saved {
            ty,
            value: keep.then(|| tensor.repr.clone()),
        }
    }

    /// The value, with a history.
    pub(crate) fn tensor(&self, history: Option<Arc<History>>) -> Tensor {
        match &self.value {
            Some(repr) => Tensor {
                repr: repr.clone(),
                history,
            },
            // An error only where a rule reads it.
            None => {
                let text = "its rule reads a value that was not kept; this is a defect of the library";
                let failure = Failure::tagged(Refusal::new(text), OpTag::uncounted("gradient"), None);
                Tensor {
                    repr: Repr::Failed(Arc::new(failure)),
                    history: None,
                }
            }
        }
    }
}

impl Edge {
    /// The operand for a rule of `level`, with its history where that leads to other levels.
    pub(crate) fn tensor(&self, level: Level) -> Tensor {
        let history = self.history.as_ref().filter(|history| level.others_hold(history));
        self.saved.tensor(history.cloned())
    }

    /// Whether a gradient at `level` is wanted.
    pub(crate) fn wants(&self, level: Level) -> bool {
        self.history.as_ref().is_some_and(|history| level.holds(history))
    }
}

impl History {
    /// Greater than all numbers before.
    pub(crate) fn number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn new(levels: u64, tag: OpTag, origin: Origin) -> Arc<History> {
        Arc::new(History {
            id: History::number(),
            levels,
            tag,
            origin,
        })
    }

    /// A leaf of a level over `tensor`, whose own history leads on to outer levels.
    pub(crate) fn leaf(tensor: &Tensor, level: Level) -> Arc<History> {
        match &tensor.history {
            Some(outer) => {
                let origin = Origin::Alias(Arc::clone(outer));
                History::new(level.bit | outer.levels, OpTag::NONE, origin)
            }
            None => History::new(level.bit, OpTag::NONE, Origin::Leaf),
        }
    }

    fn drain(&mut self, into: &mut Vec<Arc<History>>) {
        match &mut self.origin {
            Origin::Leaf => {}
            Origin::Alias(_) | Origin::Result(..) => {
                let origin = std::mem::replace(&mut self.origin, Origin::Leaf);
                if let Origin::Alias(outer) | Origin::Result(outer, _) = origin {
                    into.push(outer);
                }
            }
            Origin::Many { inputs, .. } => {
                into.extend(inputs.iter_mut().filter_map(|edge| edge.history.take()));
            }
            Origin::Op { inputs, .. } | Origin::Custom { inputs, .. } => {
                into.extend(inputs.iter_mut().filter_map(|edge| edge.history.take()));
            }
        }
    }
}

impl Drop for History {
    /// Long chains end without recursion.
    fn drop(&mut self) {
        let mut rest = Vec::new();
        self.drain(&mut rest);
        while let Some(history) = rest.pop() {
            if let Some(mut last) = Arc::into_inner(history) {
                last.drain(&mut rest);
            }
        }
    }
}

thread_local! {
    static OFF: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` without recording histories on this thread: for updates of parameters, and for evaluation.
///
/// ```
/// # use thalweg::{Context, Tensor, no_grad};
/// # fn update(w: &Tensor, gradient: &Tensor) -> Tensor {
/// no_grad(|| w - gradient * 0.1)
/// # }
/// ```
pub fn no_grad<R>(body: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            OFF.set(self.0);
        }
    }
    let _restore = Restore(OFF.replace(true));
    body()
}

/// Whether histories are recorded on this thread.
pub(crate) fn is_recording() -> bool {
    !OFF.get()
}

/// The history of `output = op(inputs)`, of which at least one has a history; `None` where nothing differentiable leads on.
pub(crate) fn record_op(op: &Op, inputs: &[&Tensor], output: &Tensor, tag: OpTag) -> Option<Arc<History>> {
    let ty = output.ty().ok().filter(|ty| ty.dtype.is_float())?;
    if OFF.get() {
        return None;
    }
    let mut tracked = 0_u32;
    let mut levels = 0;
    for (at, input) in inputs.iter().enumerate() {
        if let Some(history) = &input.history {
            tracked |= 1_u32.checked_shl(at as u32).unwrap_or(0);
            levels |= history.levels;
        }
    }
    let Saves {
        inputs: kept,
        output: keep_output,
    } = saves(op, tracked)?;
    let edges = inputs.iter().enumerate().filter_map(|(at, input)| {
        let keep = kept.checked_shr(at as u32).unwrap_or(0) & 1 == 1;
        Some(Edge {
            saved: Saved::new(input, input.ty().ok()?, keep),
            history: input.history.clone(),
        })
    });
    let origin = Origin::Op {
        op: op.clone(),
        inputs: edges.collect(),
        output: Saved::new(output, ty, keep_output),
    };
    Some(History::new(levels, tag, origin))
}

/// The levels at which some of the tensors are wanted.
fn levels<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> u64 {
    let histories = tensors.into_iter().filter_map(|tensor| tensor.history.as_ref());
    histories.fold(0, |levels, history| levels | history.levels)
}

/// Operands that a rule reads whole.
fn edges<'a, C: FromIterator<Edge>>(inputs: impl IntoIterator<Item = &'a Tensor>) -> C {
    let edge = |input: &Tensor| {
        Some(Edge {
            saved: Saved::new(input, input.ty().ok()?, true),
            history: input.history.clone(),
        })
    };
    inputs.into_iter().filter_map(edge).collect()
}

/// The history of an output that has a rule of its own; at least one of `inputs` has a history.
pub(crate) fn record_with(
    inputs: &[&Tensor],
    output: &Tensor,
    tag: OpTag,
    rule: Arc<AnyRule>,
) -> Option<Arc<History>> {
    let ty = output.ty().ok().filter(|ty| ty.dtype.is_float())?;
    if OFF.get() {
        return None;
    }
    let origin = Origin::Custom {
        inputs: edges(inputs.iter().copied()),
        output: Saved::new(output, ty, true),
        rule,
    };
    Some(History::new(levels(inputs.iter().copied()), tag, origin))
}

/// Whether gradients of the tensors are wanted at one level at most.
pub(crate) fn is_first_order(tensors: &[&Tensor]) -> bool {
    levels(tensors.iter().copied()).count_ones() <= 1
}

/// The history of an output with a rule for any number of operands that reads no output; at least one of `inputs` has a history.
pub(crate) fn record_back(
    inputs: &[&Tensor],
    output: &Tensor,
    tag: OpTag,
    rule: Arc<AnyRule>,
) -> Option<Arc<History>> {
    let ty = output.ty().ok()?;
    let origin = Origin::Custom {
        inputs: edges(inputs.iter().copied()),
        output: Saved::new(output, ty, false),
        rule,
    };
    Some(History::new(levels(inputs.iter().copied()), tag, origin))
}

/// Gives the results of a computation with several their histories; at least one of `inputs` has a history. The rule is given
/// the results at `saved`.
pub(crate) fn record_many(
    inputs: &[Tensor],
    results: Vec<Tensor>,
    saved: std::ops::Range<usize>,
    tag: OpTag,
    rule: Arc<ManyRule>,
) -> Vec<Tensor> {
    if OFF.get() {
        return results;
    }
    let levels = levels(inputs);
    let keep = |tensor: &Tensor| Some(Saved::new(tensor, tensor.ty().ok()?, true));
    let origin = Origin::Many {
        inputs: edges(inputs),
        saved: saved
            .filter_map(|at| Some((at, keep(results.get(at)?)?)))
            .collect(),
        results: results.len(),
        rule,
    };
    let many = History::new(levels, tag, origin);
    let with_history = |(at, result): (usize, Tensor)| {
        let float = result.ty().is_ok_and(|ty| ty.dtype.is_float());
        let origin = || Origin::Result(Arc::clone(&many), at);
        let history = float.then(|| History::new(levels, tag, origin()));
        Tensor { history, ..result }
    };
    results.into_iter().enumerate().map(with_history).collect()
}
