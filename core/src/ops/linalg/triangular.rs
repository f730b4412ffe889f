//! Systems with triangular matrices.

use super::diagonal::diagonal;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::ops::checked::{checked_in, composite_of, joined, wide};
use crate::ops::precision::Class;
use crate::ops::{broadcast, cast, expanded, float_of, promote};
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply, apply_in};

impl Tensor {
    /// The x with `tri(self)·x = b` for a matrix `[.., n, n]`, of which only the lower or the `upper` triangle counts, and b
    /// `[.., n, k]`; with `unit` the diagonal counts as 1. The axes in front broadcast. A zero on the diagonal gives infinities
    /// or NaN.
    ///
    /// The inverse is built from those of diagonal blocks, which double log₂ n times in batched products (Higham, Stability
    /// of Parallel Triangular System Solvers, 1995), then applied with one step of refinement: no loop over rows.
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
                    let turned = |x: &Tensor| if upper { x.transpose(1, 2) } else { x.clone() };
                    let lower = system.lower(&turned(&a), tag);
                    let inverse = turned(&system.inverse(&lower, tag));
                    let kept = turned(&lower);
                    let first = inverse.matmul(&b);
                    let rest = b - kept.matmul(&first);
                    cast(&(first + inverse.matmul(&rest)).reshape(system.sides), dtype, tag)
                },
            ))
        })
    }
}

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

    /// Row less column of a matrix of `extent`.
    fn below(&self, like: &Tensor, extent: usize, tag: OpTag) -> Tensor {
        let index = |axis| {
            let shape = Shape::of(&[extent, extent]);
            apply_in(like.context(), Op::Index { axis, shape }, &[], tag)
        };
        index(0) - index(1)
    }

    /// The lower triangle, zeros above.
    fn lower(&self, a: &Tensor, tag: OpTag) -> Tensor {
        let below = self.below(a, self.n, tag);
        let lower = below.ge(0).where_cond(a, 0.0);
        match self.unit {
            true => below.eq(0).where_cond(1.0, &lower),
            false => lower,
        }
    }

    /// The inverse of a lower triangle.
    fn inverse(&self, lower: &Tensor, tag: OpTag) -> Tensor {
        let full = self.n.next_power_of_two();
        let pad = Op::Pad {
            low: Shape::of(&[0, 0, 0]),
            shape: Shape::of(&[self.batch, full, full]),
            bits: 0,
        };
        let padded = if full == self.n {
            lower.clone()
        } else {
            apply(pad, &[lower], tag)
        };
        let mut inverse: Tensor = 1.0 / diagonal(&padded, 1, 2, tag);
        if full != self.n {
            // Behind the matrix lies a unit matrix.
            let shape = Shape::of(&[full]);
            let at = apply_in(lower.context(), Op::Index { axis: 0, shape }, &[], tag);
            inverse = at.lt(self.n).where_cond(&inverse, 1.0);
        }
        let mut inverse = inverse.reshape([self.batch, full, 1, 1]);
        let mut size = 1;
        while size < full {
            let count = full / (2 * size);
            let blocks = padded.reshape([self.batch, count, 2 * size, count, 2 * size]);
            let blocks = diagonal(&blocks, 1, 3, tag).permute([0, 3, 1, 2]);
            let corner = blocks.narrow(2, size as i64, size).narrow(3, 0, size);
            let pairs = inverse.reshape([self.batch, count, 2, size, size]);
            let half = |which: i64| pairs.narrow(2, which, 1).squeeze_axes(2);
            let (first, second) = (half(0), half(1));
            let corner = -second.matmul(&corner.matmul(&first));
            let zeros = Tensor::constant(
                Shape::of(&[self.batch, count, size, size]),
                first.dtype().unwrap_or(DType::F32),
                0,
            );
            let top = joined(&[&first, &zeros], 3, tag);
            let bottom = joined(&[&corner, &second], 3, tag);
            inverse = joined(&[&top, &bottom], 2, tag);
            size *= 2;
        }
        let whole = inverse.reshape([self.batch, full, full]);
        whole.narrow(1, 0, self.n).narrow(2, 0, self.n)
    }
}
