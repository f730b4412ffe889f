//! The sum of what a tensor's uses contribute to its gradient.

use super::math::{add, pad, placed_once, zeros};
use crate::context::Context;
use crate::graph::{Op, Type};
use crate::tensor::shape::{MAX_RANK, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, join};

/// What one use of a tensor contributes to its gradient.
pub(super) enum Contribution {
    /// A gradient of all its elements.
    Whole(Tensor),
    /// A gradient of some of its elements; that of the others is 0.
    Part(Part),
}

/// The gradient of the elements `start..end` along an axis of a tensor of shape `of`.
pub(super) struct Part {
    gradient: Tensor,
    axis: usize,
    start: usize,
    end: usize,
    of: Shape,
}

impl Part {
    /// The part that `op`, of a tensor of shape `of`, took, if it is a range along one axis; `gradient` gives that of its elements.
    pub(super) fn of(op: &Op, of: Shape, gradient: impl FnOnce() -> Tensor) -> Option<Part> {
        let Op::Slice { start, step, shape } = op else {
            return None;
        };
        let mut cut = (0..of.len()).filter(|&axis| shape[axis] != of[axis]);
        let axis = cut.next().filter(|_| cut.next().is_none())?;
        let forward = (0..of.len()).all(|axis| shape[axis] == 1 || step[axis] == 1);
        if !forward || shape.elements() == 0 {
            return None;
        }
        let gradient = gradient();
        gradient.ty().ok()?;
        Some(Part {
            gradient,
            axis,
            start: start[axis],
            end: start[axis] + shape[axis],
            of,
        })
    }

    fn is_beside(&self, other: &Part) -> bool {
        (self.axis, self.start, self.end) == (other.axis, other.start, other.end)
    }
}

/// The contributions so far.
#[derive(Default)]
pub(super) struct Sum {
    whole: Option<Tensor>,
    /// Of different ranges.
    parts: Vec<Part>,
}

impl Sum {
    /// Adds to the gradient of what `tag` made.
    pub(super) fn add(&mut self, contribution: Contribution, tag: OpTag) {
        match contribution {
            Contribution::Whole(gradient) => self.add_whole(gradient, tag),
            Contribution::Part(part) => match self.parts.iter_mut().find(|known| known.is_beside(&part)) {
                Some(known) => {
                    known.gradient = tag.gradient().scope(|| add(&known.gradient, &part.gradient));
                }
                None => self.parts.push(part),
            },
        }
    }

    fn add_whole(&mut self, gradient: Tensor, tag: OpTag) {
        self.whole = Some(match self.whole.take() {
            Some(known) => tag.gradient().scope(|| add(&known, &gradient)),
            None => gradient,
        });
    }

    /// The sum; `None` is 0. Parts that do not overlap are written side by side, once: a sum of tensors of the whole shape for each
    /// would cost their number times the elements.
    pub(super) fn total(mut self, context: Option<&Context>, tag: OpTag) -> Option<Tensor> {
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_by_key(|part| (part.axis, part.start));
        let mut rows: Vec<Vec<Part>> = Vec::new();
        for part in parts {
            let free = |row: &&mut Vec<Part>| {
                (row.last()).is_some_and(|last| last.axis == part.axis && last.end <= part.start)
            };
            match rows.iter_mut().find(free) {
                Some(row) => row.push(part),
                None => rows.push(vec![part]),
            }
        }
        for row in rows {
            let gradient = tag.gradient().scope(|| joined(&row, context));
            self.add_whole(gradient, tag);
        }
        self.whole
    }
}

/// Parts along one axis, in order and without overlaps, with zeros between them.
fn joined(row: &[Part], context: Option<&Context>) -> Tensor {
    let Part {
        gradient,
        axis,
        start,
        of,
        ..
    } = &row[0];
    let (Ok(ty), [_, _, ..]) = (gradient.ty(), row) else {
        let low = Shape::of(&[0; MAX_RANK][..of.len()]).with(*axis, *start);
        return pad(gradient, low, *of, 0.0);
    };
    let mut pieces = Vec::with_capacity(row.len());
    let gap = |extent: usize| {
        let zeros = zeros(Type::new(of.with(*axis, extent), ty.dtype));
        placed_once(&zeros, context)
    };
    let mut at = 0;
    for part in row {
        if part.start > at {
            pieces.push(gap(part.start - at));
        }
        pieces.push(part.gradient.clone());
        at = part.end;
    }
    if of[*axis] > at {
        pieces.push(gap(of[*axis] - at));
    }
    join(pieces, *axis, OpTag::new("gradient"))
}
