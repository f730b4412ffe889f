//! Systems with triangular matrices.

use super::diagonal::diagonal;
use crate::composite::with_rule;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::ops::checked::{checked_in, composite_of, joined, wide};
use crate::ops::precision::Class;
use crate::ops::{PadMode, broadcast, cast, expanded, float_of, promote};
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply_in};
use smallvec::smallvec;
use std::ops::Range;

impl Tensor {
    /// The x with `tri(self)·x = b` for a matrix `[.., n, n]`, of which only the lower or the `upper` triangle counts, and b
    /// `[.., n, k]`; with `unit` the diagonal counts as 1. The axes in front broadcast. A zero on the diagonal gives infinities
    /// or NaN.
    ///
    /// Rows are solved in blocks of 128, one after the other, by the inverses of the blocks on the diagonal and one step of refinement. All
    /// inverses are built at once from those of smaller blocks, which double in batched products (Higham, Stability of Parallel Triangular
    /// System Solvers, 1995): no loop over rows.
    #[must_use]
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, upper: bool, unit: bool) -> Tensor {
        let tag = OpTag::new("solve_triangular");
        checked_in(Class::Other, tag, [self, b], |operands, [a_ty, b_ty]| {
            let dtype = float_of(promote(a_ty.dtype, b_ty.dtype)?);
            let system = System::new(a_ty, b_ty, unit)?;
            let key = (upper, unit);
            Ok(composite_of(
                "solve_triangular",
                &key,
                operands,
                [],
                tag,
                |[a, b], []| {
                    let a = expanded(&cast(a, wide(dtype), tag), system.matrix, tag).reshape([
                        system.batch,
                        system.n,
                        system.n,
                    ]);
                    let b = expanded(&cast(b, wide(dtype), tag), system.sides, tag).reshape([
                        system.batch,
                        system.n,
                        system.k,
                    ]);
                    let found = with_rule(
                        &[&a, &b],
                        tag,
                        |given| system.either(&given[0], &given[1], upper, tag),
                        move |given, _, gradient| {
                            let x = system.either(&given[0], &given[1], upper, tag);
                            let turned = given[0].transpose(1, 2);
                            let sides = system.either(&turned, gradient, !upper, tag);
                            let matrix = -sides.matmul(&x.transpose(1, 2));
                            let edge = i64::from(unit);
                            let matrix = match upper {
                                true => matrix.triu(edge),
                                false => matrix.tril(-edge),
                            };
                            smallvec![Some(matrix), Some(sides)]
                        },
                    );
                    cast(&found.reshape(system.sides), dtype, tag)
                },
            ))
        })
    }
}

/// Rows of a block.
const BLOCK: usize = 128;

#[derive(Clone, Copy)]
struct System {
    matrix: Shape,
    sides: Shape,
    batch: usize,
    n: usize,
    k: usize,
    unit: bool,
}

impl System {
    fn new(a: Type, b: Type, unit: bool) -> Result<System, Refusal> {
        let last = |ty: Type| {
            ty.shape
                .split_last_chunk::<2>()
                .map(|(front, &last)| (Shape::of(front), last))
        };
        let refuse = || {
            Refusal::new(format!(
                "{} with sides {}: they are [.., n, n] and [.., n, k]",
                a.shape, b.shape
            ))
        };
        let (Some((a_front, [n, columns])), Some((b_front, [rows, k]))) = (last(a), last(b)) else {
            return Err(refuse());
        };
        if n != columns || n != rows {
            return Err(refuse());
        }
        let front = broadcast(&[a_front, b_front])?;
        Ok(System {
            matrix: Shape::checked(&[&*front, &[n, n]].concat())?,
            sides: Shape::checked(&[&*front, &[n, k]].concat())?,
            batch: front.elements(),
            n,
            k,
            unit,
        })
    }

    /// The solution for a triangle `[batch, n, n]` and sides `[batch, n, k]`.
    fn either(&self, a: &Tensor, b: &Tensor, upper: bool, tag: OpTag) -> Tensor {
        match upper {
            // Rows and columns are read from the end on.
            true => self.solve(&a.flip([1, 2]), &b.flip(1), tag).flip(1),
            false => self.solve(a, b, tag),
        }
    }

    /// The solution for a lower triangle `[batch, n, n]` and sides `[batch, n, k]`.
    fn solve(&self, a: &Tensor, b: &Tensor, tag: OpTag) -> Tensor {
        let size = self.n.next_power_of_two().min(BLOCK);
        let count = self.n.div_ceil(size);
        if count == 0 {
            return b.clone();
        }
        let of_block = |at: usize| at * size..self.n.min((at + 1) * size);
        let diagonal_blocks: Vec<Tensor> = (0..count)
            .map(|at| self.block(a, of_block(at), size, tag))
            .collect();
        let blocks = joined(&diagonal_blocks.iter().collect::<Vec<_>>(), 0, tag);
        let inverses = inverse(&blocks, count * self.batch, size, tag);
        let mut found: Vec<Tensor> = Vec::new();
        for (at, block) in diagonal_blocks.iter().enumerate() {
            let rows = of_block(at);
            let (start, height) = (rows.start as i64, rows.len());
            let mut sides = b.narrow(1, start, height);
            if at > 0 {
                let before = a.narrow(1, start, height).narrow(2, 0, rows.start);
                let known = joined(&found.iter().collect::<Vec<_>>(), 1, tag);
                sides -= before.matmul(&known);
            }
            let whole = |x: &Tensor| x.narrow(1, 0, height).narrow(2, 0, height);
            let own = inverses.narrow(0, (at * self.batch) as i64, self.batch);
            let (own, block) = (whole(&own), whole(block));
            let first = own.matmul(&sides);
            let rest = sides - block.matmul(&first);
            found.push(first + own.matmul(&rest));
        }
        joined(&found.iter().collect::<Vec<_>>(), 1, tag)
    }

    /// The lower triangle of a block on the diagonal, zeros above, and a unit matrix behind it where it ends before `size`.
    fn block(&self, a: &Tensor, rows: Range<usize>, size: usize, tag: OpTag) -> Tensor {
        let (start, height) = (rows.start as i64, rows.len());
        let block = a.narrow(1, start, height).narrow(2, start, height);
        let block = match height == size {
            true => block,
            false => block.pad(
                &[(0, 0), (0, size - height), (0, size - height)],
                PadMode::Constant(0.into()),
            ),
        };
        let index = |axis| {
            let shape = Shape::of(&[size, size]);
            apply_in(a.context(), Op::Index { axis, shape }, &[], tag)
        };
        let (row, below) = (index(0), index(0) - index(1));
        let lower = below.ge(0).where_cond(&block, 0.0);
        let ones = match self.unit {
            true => below.eq(0),
            false if height == size => return lower,
            false => below.eq(0).logical_and(row.ge(height as i64)),
        };
        ones.where_cond(1.0, &lower)
    }
}

/// The inverses of `batch` lower triangles of `full` rows, a power of two.
fn inverse(lower: &Tensor, batch: usize, full: usize, tag: OpTag) -> Tensor {
    let mut inverse = (1.0 / diagonal(lower, 1, 2, tag)).reshape([batch, full, 1, 1]);
    let mut size = 1;
    while size < full {
        let count = full / (2 * size);
        let blocks = lower.reshape([batch, count, 2 * size, count, 2 * size]);
        let blocks = diagonal(&blocks, 1, 3, tag).permute([0, 3, 1, 2]);
        let corner = blocks.narrow(2, size as i64, size).narrow(3, 0, size);
        let pairs = inverse.reshape([batch, count, 2, size, size]);
        let half = |which: i64| pairs.narrow(2, which, 1).squeeze_axes(2);
        let (first, second) = (half(0), half(1));
        let corner = -second.matmul(&corner.matmul(&first));
        let zeros = Tensor::constant(
            Shape::of(&[batch, count, size, size]),
            first.dtype().unwrap_or(DType::F32),
            0,
        );
        let top = joined(&[&first, &zeros], 3, tag);
        let bottom = joined(&[&corner, &second], 3, tag);
        inverse = joined(&[&top, &bottom], 2, tag);
        size *= 2;
    }
    inverse.reshape([batch, full, full])
}
