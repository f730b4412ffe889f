//! Elements that a mask chooses, and other results whose shape depends on values.

use super::operand::IntoOperand;
use super::promotion::{broadcast, cast, expanded, map};
use crate::composite::composite;
use crate::graph::{Op, ScatterMode};
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor, apply, apply_in};

/// A number of elements that a tensor says.
fn known(count: &Tensor, tag: OpTag) -> Result<usize, Box<Tensor>> {
    if let Repr::Lazy(lazy) = &count.repr
        && lazy.trace != 0
    {
        let refusal = Refusal::new("its shape depends on values, which a traced function does not have yet")
            .help("call it outside of `jit`, or keep the shape with `where_cond`");
        return Err(Box::new(Tensor::refused(tag, refusal, &[count])));
    }
    match count.detach().item::<i64>() {
        Ok(count) => Ok(count.max(0) as usize),
        Err(error) => Err(Box::new(Tensor::of_error(tag, error, count.context()))),
    }
}

/// The row-major indices of the elements that are not 0, as i64.
fn chosen(mask: &Tensor, tag: OpTag) -> Result<Tensor, Box<Tensor>> {
    let flat = tag.scope(|| mask.detach().ne(0).flatten());
    let count = known(&tag.scope(|| flat.sum()), tag)?;
    let shape = Shape::of(&[count]);
    let base = Tensor::constant(shape, DType::I64, 0);
    Ok(composite("chosen", &(), [&flat, &base], tag, |[flat, base]| {
        // Each chosen element writes its index to its place among them; the others write nowhere.
        let place = flat.cumsum(0) - 1;
        let place = flat.where_cond(place, i64::MIN);
        let index = crate::tensor::index_like(flat, 0, tag);
        apply(
            Op::Scatter {
                axis: 0,
                mode: ScatterMode::Set,
            },
            &[base, &place, &index],
            tag,
        )
    }))
}

impl Tensor {
    /// `value` where `mask` (bool) is true, else `self`; the mask broadcasts.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.masked_fill(&x.gt(2), 0);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill<'a>(&self, mask: &Tensor, value: impl IntoOperand<'a>) -> Tensor {
        super::compare::select(
            mask,
            value.into_operand(),
            self.into_operand(),
            OpTag::new("masked_fill"),
        )
    }

    /// The elements where `mask` is true, in row-major order, as a vector; both broadcast. Waits for the mask, since its
    /// values say the shape.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.masked_select(&x.gt(2));
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// A mask that is not bool; inside `jit` the shape is not known.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Tensor {
        let tag = OpTag::new("masked_select");
        let (ty, mask_ty) = match (self.ty(), mask.ty()) {
            (Ok(ty), Ok(mask_ty)) => (ty, mask_ty),
            (Err(_), _) => return self.clone(),
            (_, Err(_)) => return mask.clone(),
        };
        if mask_ty.dtype != DType::Bool {
            let refusal =
                Refusal::new(format!("a mask of {}", mask_ty.dtype)).help("compare it, with `ne(0)` say");
            return Tensor::refused(tag, refusal, &[self]);
        }
        let shape = match broadcast(&[ty.shape, mask_ty.shape]) {
            Ok(shape) => shape,
            Err(refusal) => return Tensor::refused(tag, refusal, &[self]),
        };
        match chosen(&expanded(mask, shape, tag), tag) {
            Ok(index) => {
                let flat = apply(
                    Op::Reshape(Shape::of(&[shape.elements()])),
                    &[&expanded(self, shape, tag)],
                    tag,
                );
                apply(Op::Gather { axis: 0 }, &[&flat, &index], tag)
            }
            Err(failed) => *failed,
        }
    }

    /// The indices of the elements that are not 0, one row each, in row-major order: i64 `[count, axes]`. Waits for the
    /// elements, since they say the shape.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.gt(2).nonzero();
    /// assert_eq!(*y.shape()?, [2, 2]);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 0, 1, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Inside `jit` the shape is not known.
    #[track_caller]
    pub fn nonzero(&self) -> Tensor {
        let tag = OpTag::new("nonzero");
        let Ok(ty) = self.ty() else { return self.clone() };
        let index = match chosen(self, tag) {
            Ok(index) => index,
            Err(failed) => return *failed,
        };
        composite("nonzero", &ty.shape, [&index], tag, |[index]| {
            let rank = ty.shape.len();
            if rank == 0 {
                return index.unsqueeze(1).index((.., 0..0));
            }
            // From the last axis on: an index is never negative, so that quotients are those of the processor.
            let (mut rest, mut coordinates) = (index.clone(), Vec::with_capacity(rank));
            for &extent in ty.shape[1..].iter().rev() {
                let extent = extent.max(1);
                let operands = [(&rest).into_operand(), extent.into_operand()];
                let before = map(ScalarOp::Div, operands, Ok, tag);
                coordinates.push(&rest - &before * extent);
                rest = before;
            }
            coordinates.push(rest);
            coordinates.reverse();
            Tensor::stack(&coordinates, 1)
        })
    }

    /// The distinct elements in ascending order, as a vector. Waits for the elements, since they say the shape. Each NaN counts as
    /// distinct.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 3], [3], &cx);
    /// assert_eq!(x.unique().to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Inside `jit` the shape is not known.
    #[track_caller]
    pub fn unique(&self) -> Tensor {
        let tag = OpTag::new("unique");
        tag.scope(|| match self.flatten().sort(0, false) {
            sorted if sorted.elements().is_ok_and(|count| count == 0) => sorted,
            sorted => sorted.masked_select(&firsts(&sorted, tag)),
        })
    }

    /// [`unique`](Tensor::unique) elements, for each element of `self` the index of its equal among them (i64, the shape of
    /// `self`), and how often each occurs (i64).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 3], [3], &cx);
    /// let (values, inverse, counts) = x.unique_counts();
    /// assert_eq!(values.to_vec::<i32>()?, [1, 3]);
    /// assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1]);
    /// assert_eq!(counts.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`unique`](Tensor::unique).
    #[track_caller]
    pub fn unique_counts(&self) -> (Tensor, Tensor, Tensor) {
        let tag = OpTag::new("unique");
        let shape = match self.ty() {
            Ok(ty) => ty.shape,
            Err(_) => return (self.clone(), self.clone(), self.clone()),
        };
        tag.scope(|| {
            let (sorted, order) = self.flatten().sort_with_indices(0, false);
            if shape.elements() == 0 {
                let none = sorted.cast(DType::I64);
                return (sorted, none.reshape(shape), none);
            }
            let first = firsts(&sorted, tag);
            let values = sorted.masked_select(&first);
            let group = first.cumsum(0) - 1;
            let inverse = group.zeros_like().scatter(0, &order, &group).reshape(shape);
            let count = match values.ty() {
                Ok(ty) => apply_in(
                    values.context(),
                    Op::Full {
                        dtype: DType::I64,
                        bits: 0,
                        shape: ty.shape,
                    },
                    &[],
                    tag,
                ),
                Err(_) => values.clone(),
            };
            (values, inverse, count.scatter_add(0, &group, 1))
        })
    }

    /// How often each of 0, 1, 2, … occurs among non-negative integers: i64, as long as the greatest asks for and at least `least`.
    /// Waits for the elements. Negative ones are not counted (PyTorch raises an error).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_i32, 1, 3], [3], &cx);
    /// assert_eq!(x.bincount(0).to_vec::<i64>()?, [0, 1, 0, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Elements that are no integers; inside `jit` the shape is not known (there `scatter_add` on zeros does the same).
    #[track_caller]
    pub fn bincount(&self, least: usize) -> Tensor {
        let tag = OpTag::new("bincount");
        let Ok(ty) = self.ty() else { return self.clone() };
        if !ty.dtype.is_integer() {
            return Tensor::refused(
                tag,
                Refusal::new(format!("{} is no integer dtype", ty.dtype)),
                &[self],
            );
        }
        let flat = tag.scope(|| cast(&self.detach(), DType::I64, tag).flatten());
        let length = match ty.shape.elements() {
            0 => Ok(least),
            // One more than the greatest of i64 is no i64; its own number is refused as too many elements.
            _ => known(&tag.scope(|| flat.max().minimum(i64::MAX - 1) + 1), tag)
                .map(|length| length.max(least)),
        };
        let length = length.and_then(|length| {
            Shape::checked(&[length]).map_err(|refusal| Box::new(Tensor::refused(tag, refusal, &[self])))
        });
        let shape = match length {
            Ok(shape) => shape,
            Err(failed) => return *failed,
        };
        let base = Tensor::constant(shape, DType::I64, 0);
        let one = Tensor::constant(Shape::of(&[1]), DType::I64, 1);
        let ones = apply(Op::Expand(Shape::of(&[ty.shape.elements()])), &[&one], tag);
        let add = Op::Scatter {
            axis: 0,
            mode: ScatterMode::Add,
        };
        // What is below 0 has no place.
        apply(add, &[&base, &flat, &ones], tag)
    }
}

/// Whether an element of a sorted vector differs from the one before.
fn firsts(sorted: &Tensor, tag: OpTag) -> Tensor {
    composite("firsts", &(), [&sorted.detach()], tag, |[sorted]| {
        let first = sorted.index(..1);
        Tensor::concat(
            &[
                first.eq(&first).logical_or(true),
                sorted.index(1..).ne(sorted.index(..-1)),
            ],
            0,
        )
    })
}
