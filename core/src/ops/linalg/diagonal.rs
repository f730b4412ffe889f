//! Diagonals.

use crate::graph::Op;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use smallvec::SmallVec;

/// The elements where two axes of one extent have the same index, along a new last axis in place of both.
pub(super) fn diagonal(x: &Tensor, first: usize, second: usize, tag: OpTag) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let (rank, extent) = (ty.shape.len(), ty.shape[first]);
    let rest: Vec<usize> = (0..rank)
        .filter(|&axis| axis != first && axis != second)
        .collect();
    let order: Vec<i32> = rest
        .iter()
        .chain([&first, &second])
        .map(|&axis| axis as i32)
        .collect();
    let front: Vec<usize> = rest.iter().map(|&axis| ty.shape[axis]).collect();
    let flat = x.permute(order).reshape([&*front, &[extent * extent]].concat());
    // In row-major order the next element of a diagonal is a row and one further.
    let mut step = SmallVec::from_elem(1, rank - 2);
    step.push(extent as i64 + 1);
    let op = Op::Slice {
        start: Shape::of(&[0; 8][..rank - 1]),
        step,
        shape: Shape::of(&[&*front, &[extent]].concat()),
    };
    apply(op, &[&flat], tag)
}
