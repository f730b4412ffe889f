//! Products of vectors, and contractions over named axes.

use super::matmul::{inner, output_of, product, product_dtype};
use crate::composite::composite;
use crate::ops::checked::{checked, checked_in, joined};
use crate::ops::precision::{self, Class};
use crate::ops::{IntoAxes, axis_of};
use crate::ops::{broadcast, cast, promote};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// `Σ a·b` of two vectors of one length; dtypes as [`Tensor::matmul`].
    #[must_use]
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        dot(self, other, OpTag::new("dot"))
    }

    /// As [`Tensor::dot`]: there are no complex dtypes whose first operand would be conjugated.
    #[must_use]
    #[track_caller]
    pub fn vdot(&self, other: &Tensor) -> Tensor {
        dot(self, other, OpTag::new("vdot"))
    }

    /// `out[i, j] = a[i] · b[j]` of two vectors; of the promoted dtype.
    #[must_use]
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        let tag = OpTag::new("outer");
        checked_in(Class::Other, tag, [self, other], |operands, [a, b]| {
            if a.shape.len() != 1 || b.shape.len() != 1 {
                return Err(Refusal::new(format!(
                    "{} and {}: both are vectors",
                    a.shape, b.shape
                )));
            }
            Ok(composite("outer", &(), operands, tag, |[a, b]| {
                a.unsqueeze(1) * b.unsqueeze(0)
            }))
        })
    }

    /// The vector product along an axis of extent 3: `(a₁b₂ - a₂b₁, a₂b₀ - a₀b₂, a₀b₁ - a₁b₀)`. The other axes broadcast.
    #[must_use]
    #[track_caller]
    pub fn cross(&self, other: &Tensor, axis: i32) -> Tensor {
        let tag = OpTag::new("cross");
        checked_in(Class::Other, tag, [self, other], |operands, [a, b]| {
            let shape = broadcast(&[a.shape, b.shape])?;
            let at = axis_of(axis, shape.len())?;
            if shape[at] != 3 || a.shape.len() != b.shape.len() || a.shape[at] != b.shape[at] {
                return Err(
                    Refusal::new(format!("{} × {} along axis {axis}", a.shape, b.shape))
                        .help("both have the extent 3 there, and as many axes"),
                );
            }
            Ok(composite("cross", &at, operands, tag, |[a, b]| {
                let part = |x: &Tensor, i: usize| x.narrow(at as i32, i as i64 % 3, 1);
                let component = |i: usize| part(a, i + 1) * part(b, i + 2) - part(a, i + 2) * part(b, i + 1);
                joined(&[&component(0), &component(1), &component(2)], at, tag)
            }))
        })
    }

    /// The sum of products over pairs of axes, `ours[i]` of this tensor with `theirs[i]` of the other; the remaining axes of
    /// this tensor come first in the result, then those of the other. Dtypes as [`Tensor::matmul`].
    #[must_use]
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, ours: impl IntoAxes, theirs: impl IntoAxes) -> Tensor {
        let tag = OpTag::new("tensordot");
        let held = precision::adjusted(Class::Matrix, tag, [self, other]);
        let [this, other] = held.operands([self, other]);
        let result = checked(tag, [this, other], [], |[a, b], []| {
            let ours = ours.into_axes(a.shape.len())?;
            let theirs = theirs.into_axes(b.shape.len())?;
            let fits = ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(&theirs)
                    .all(|(&ours, &theirs)| a.shape[ours] == b.shape[theirs]);
            if !fits {
                return Err(Refusal::new(format!(
                    "axes {ours:?} of {} with axes {theirs:?} of {}: extents differ",
                    a.shape, b.shape
                )));
            }
            let dtype = product_dtype(a.dtype, b.dtype)?;
            let free = |rank: usize, summed: &[usize]| -> Vec<usize> {
                (0..rank).filter(|axis| !summed.contains(axis)).collect()
            };
            let (ours_free, theirs_free) = (free(a.shape.len(), &ours), free(b.shape.len(), &theirs));
            let extents = |shape: &Shape, axes: &[usize]| -> Vec<usize> {
                axes.iter().map(|&axis| shape[axis]).collect()
            };
            let (rows, columns) = (extents(&a.shape, &ours_free), extents(&b.shape, &theirs_free));
            let out = Shape::checked(&[rows.clone(), columns.clone()].concat())?;
            let sums: usize = ours.iter().map(|&axis| a.shape[axis]).product();
            let (m, n) = (rows.iter().product::<usize>(), columns.iter().product::<usize>());
            let order = |first: &[usize], then: &[usize]| -> Vec<i32> {
                first.iter().chain(then).map(|&axis| axis as i32).collect()
            };
            let key = (ours.to_vec(), theirs.to_vec());
            Ok(composite("tensordot", &key, [this, other], tag, |[a, b]| {
                let a = cast(a, dtype, tag)
                    .permute(order(&ours_free, &ours))
                    .reshape([m, sums]);
                let b = cast(b, dtype, tag)
                    .permute(order(&theirs, &theirs_free))
                    .reshape([sums, n]);
                product(&a, &b, dtype, output_of(dtype), tag).reshape(out)
            }))
        });
        held.result(result, tag)
    }
}

fn dot(a: &Tensor, b: &Tensor, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::Matrix, tag, [a, b]);
    let [a, b] = held.operands([a, b]);
    let result = checked(tag, [a, b], [], |[a_ty, b_ty], []| {
        if a_ty.shape.len() != 1 || b_ty.shape.len() != 1 {
            return Err(Refusal::new(format!(
                "{} and {}: both are vectors",
                a_ty.shape, b_ty.shape
            )));
        }
        let dtype = promote(a_ty.dtype, b_ty.dtype).and_then(|dtype| product_dtype(dtype, dtype))?;
        Ok(composite("dot", &(), [a, b], tag, |[a, b]| {
            inner(a, b, dtype, output_of(dtype), tag)
        }))
    });
    held.result(result, tag)
}
