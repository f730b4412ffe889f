//! Order.

use super::axes::axis_in;
use super::promotion::cast;
use crate::composite::composite;
use crate::graph::Op;
use crate::hal::DType;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// Runs `run` with the resolved axis, 0 for that of a scalar.
fn along(
    x: &Tensor,
    axis: i32,
    tag: OpTag,
    run: impl FnOnce(usize, Shape) -> Result<Tensor, Refusal>,
) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    axis_in(axis, &ty.shape)
        .and_then(|axis| run(axis, ty.shape))
        .unwrap_or_else(|refusal| Tensor::refused(tag, refusal, &[x]))
}

/// The indices of the first `count` elements of the order.
fn argsort(x: &Tensor, axis: usize, descending: bool, count: usize, tag: OpTag) -> Tensor {
    apply(
        Op::ArgSort {
            axis: axis as u8,
            descending,
            count,
        },
        &[x],
        tag,
    )
}

fn sorted(x: &Tensor, axis: usize, descending: bool, tag: OpTag) -> Tensor {
    apply(
        Op::Sort {
            axis: axis as u8,
            descending,
        },
        &[x],
        tag,
    )
}

fn picked(x: &Tensor, axis: usize, order: &Tensor, tag: OpTag) -> Tensor {
    apply(Op::Gather { axis: axis as u8 }, &[x, order], tag)
}

impl Tensor {
    /// The i64 indices that sort along `axis`; equal elements keep their order. NaN comes last in both directions (PyTorch
    /// puts it first when descending).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 2], [3], &cx);
    /// assert_eq!(x.argsort(0, false).to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, axis: i32, descending: bool) -> Tensor {
        let tag = OpTag::new("argsort");
        along(self, axis, tag, |axis, shape| {
            Ok(argsort(self, axis, descending, shape[axis], tag))
        })
    }

    /// The elements along `axis` in the order of [`argsort`](Tensor::argsort). Elements alone are sorted faster than with their
    /// indices, which [`sort_with_indices`](Tensor::sort_with_indices) returns too.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 2], [3], &cx);
    /// assert_eq!(x.sort(0, true).to_vec::<i32>()?, [3, 2, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, axis: i32, descending: bool) -> Tensor {
        let tag = OpTag::new("sort");
        along(self, axis, tag, |axis, _| Ok(sorted(self, axis, descending, tag)))
    }

    /// The elements in order along `axis`, and the i64 indices where they were. As [`argsort`](Tensor::argsort).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 2], [3], &cx);
    /// let (sorted, places) = x.sort_with_indices(0, true);
    /// assert_eq!(sorted.to_vec::<i32>()?, [3, 2, 1]);
    /// assert_eq!(places.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn sort_with_indices(&self, axis: i32, descending: bool) -> (Tensor, Tensor) {
        let tag = OpTag::new("sort_with_indices");
        let order = along(self, axis, tag, |axis, shape| {
            Ok(argsort(self, axis, descending, shape[axis], tag))
        });
        let sorted = along(self, axis, tag, |axis, _| Ok(picked(self, axis, &order, tag)));
        (sorted, order)
    }

    /// The `k` greatest (or least) elements along `axis`, in that order, and the i64 indices where they are. NaN comes last
    /// (PyTorch takes it for the greatest).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 2], [3], &cx);
    /// let (values, places) = x.topk(2, 0, true);
    /// assert_eq!(values.to_vec::<i32>()?, [3, 2]);
    /// assert_eq!(places.to_vec::<i64>()?, [0, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than `k` elements.
    #[track_caller]
    pub fn topk(&self, k: usize, axis: i32, greatest: bool) -> (Tensor, Tensor) {
        let tag = OpTag::new("topk");
        let order = along(self, axis, tag, |axis, shape| match shape[axis] {
            extent if k > extent => Err(Refusal::new(format!(
                "{k} of {extent} elements along axis {axis} of {shape}"
            ))),
            _ => Ok(argsort(self, axis, greatest, k, tag)),
        });
        let values = along(self, axis, tag, |axis, _| Ok(picked(self, axis, &order, tag)));
        (values, order)
    }

    /// The middle element along `axis`, which disappears; of an even number the lower one, as in PyTorch (NumPy takes the
    /// mean). NaN if there is one.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 2], [3], &cx);
    /// assert_eq!(x.median(0).item::<i32>()?, 2);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// No elements.
    #[track_caller]
    pub fn median(&self, axis: i32) -> Tensor {
        let tag = OpTag::new("median");
        along(self, axis, tag, |axis, shape| {
            let extent = shape[axis];
            if extent == 0 {
                return Err(Refusal::new(format!(
                    "nothing to choose from along axis {axis} of {shape}"
                )));
            }
            let part = |x: &Tensor, at: usize| tag.scope(|| x.select(axis as i32, at as i64));
            let sorted = sorted(self, axis, false, tag);
            let (middle, last) = (part(&sorted, (extent - 1) / 2), part(&sorted, extent - 1));
            Ok(tag.scope(|| last.isnan().where_cond(&last, middle)))
        })
    }

    /// For each of `values` the number of elements of the sorted vector `self` before it: those less than it, or with `right`
    /// those not greater. As i64, with the shape of `values`. By halving, in log2 steps.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let sorted = Tensor::from_slice(&[1.0_f32, 3.0], [2], &cx);
    /// let x = Tensor::from_slice(&[0.0_f32, 3.0, 4.0], [3], &cx);
    /// assert_eq!(sorted.searchsorted(&x, false).to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// `self` is no vector.
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor {
        let tag = OpTag::new("searchsorted");
        if values.ty().is_err() {
            return values.clone();
        }
        let Ok(ty) = self.ty() else { return self.clone() };
        let [extent] = *ty.shape else {
            return Tensor::refused(tag, Refusal::new(format!("{} is no vector", ty.shape)), &[self]);
        };
        composite("searchsorted", &right, [self, values], tag, |[sorted, values]| {
            let shape = values.shape().unwrap_or(Shape::SCALAR);
            let (mut at, wanted) = (
                Tensor::constant(Shape::of(&[shape.elements()]), DType::I64, 0),
                values.flatten(),
            );
            for bit in (0..usize::BITS - extent.leading_zeros()).rev() {
                let further = &at + (1_i64 << bit);
                let element = picked(sorted, 0, &(&further - 1), tag);
                let before = if right {
                    element.le(&wanted)
                } else {
                    element.lt(&wanted)
                };
                at = before.logical_and(further.le(extent)).where_cond(&further, &at);
            }
            apply(Op::Reshape(shape), &[&cast(&at, DType::I64, tag)], tag)
        })
    }
}
