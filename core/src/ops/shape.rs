//! The same elements under other axes. All are views that copy nothing, but for a reshape that strides cannot express.

use super::axes::{IntoAxes, axis_in, axis_of};
use super::promotion::expanded;
use crate::graph::Op;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, IntoShape, MAX_RANK, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use smallvec::SmallVec;

/// Extents of which some may be left open with -1: arrays and slices of numbers, and shapes.
pub trait IntoExtents {
    /// The extents.
    fn into_extents(self) -> SmallVec<[i64; MAX_RANK]>;
}

macro_rules! extents {
    ($($number:ty)*) => { $(
        impl IntoExtents for &[$number] {
            fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> {
                self.iter().map(|&extent| (extent as i128).min(i64::MAX.into()) as i64).collect()
            }
        }

        impl<const N: usize> IntoExtents for [$number; N] {
            fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> { self.as_slice().into_extents() }
        }

        impl<const N: usize> IntoExtents for &[$number; N] {
            fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> { self.as_slice().into_extents() }
        }

        impl IntoExtents for Vec<$number> {
            fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> { self.as_slice().into_extents() }
        }

        impl IntoExtents for &Vec<$number> {
            fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> { self.as_slice().into_extents() }
        }
    )* };
}

extents!(i32 i64 isize usize);

impl IntoExtents for Shape {
    fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> {
        self.as_ref().into_extents()
    }
}

impl IntoExtents for &Shape {
    fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> {
        self.as_ref().into_extents()
    }
}

impl IntoExtents for () {
    fn into_extents(self) -> SmallVec<[i64; MAX_RANK]> {
        SmallVec::new()
    }
}

/// A shape of `extents` in which `open(i)` stands for -1.
fn filled(extents: &[i64], open: impl Fn(usize) -> Option<usize>) -> Result<Shape, Refusal> {
    let mut known = SmallVec::<[usize; MAX_RANK]>::new();
    for (at, &extent) in extents.iter().enumerate() {
        let extent = match extent {
            -1 => open(at),
            _ => usize::try_from(extent).ok(),
        };
        known.push(extent.ok_or_else(|| Refusal::new(format!("{extents:?} is no shape")))?);
    }
    Shape::checked(&known)
}

fn reshaped(from: &Shape, extents: &[i64]) -> Result<Shape, Refusal> {
    if extents.iter().filter(|&&extent| extent == -1).count() > 1 {
        return Err(Refusal::new(format!(
            "{extents:?} leaves more than one extent open"
        )));
    }
    let known: i64 = extents.iter().filter(|&&extent| extent != -1).product();
    let elements = from.elements() as i64;
    filled(extents, |_| match known {
        1.. if elements % known == 0 => Some((elements / known) as usize),
        _ => None,
    })
    .map_err(|refusal| match extents.contains(&-1) {
        true => Refusal::new(format!(
            "{from} has {elements} elements, which {extents:?} cannot have"
        )),
        false => refusal,
    })
}

/// Applies the op that `make` finds for the tensor's shape.
pub(crate) fn shaped(x: &Tensor, tag: OpTag, make: impl FnOnce(&Shape) -> Result<Op, Refusal>) -> Tensor {
    match x.ty() {
        Err(_) => x.clone(),
        Ok(ty) => made(x, tag, make(&ty.shape)),
    }
}

fn made(x: &Tensor, tag: OpTag, op: Result<Op, Refusal>) -> Tensor {
    match op {
        Ok(op) => apply(op, &[x], tag),
        Err(refusal) => Tensor::refused(tag, refusal, &[x]),
    }
}

/// [`Tensor::permute`] by resolved axes.
pub(crate) fn permuted(x: &Tensor, axes: impl IntoIterator<Item = usize>, tag: OpTag) -> Tensor {
    apply(
        Op::Permute(axes.into_iter().map(|axis| axis as u8).collect()),
        &[x],
        tag,
    )
}

impl Tensor {
    /// The same elements in row-major order under another shape; one extent may be -1 and follows from the others. A view
    /// where strides allow it, else a copy (so it is PyTorch's `view` too, but never fails for strides).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.reshape([-1]);
    /// assert_eq!(*y.shape()?, [4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// The number of elements differs.
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoExtents) -> Tensor {
        let extents = shape.into_extents();
        shaped(self, OpTag::new("reshape"), |from| {
            Ok(Op::Reshape(reshaped(from, &extents)?))
        })
    }

    /// Axis `i` of the result is axis `axes[i]`; all axes must be named.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.permute([1, 0]);
    /// assert_eq!(*y.shape()?, [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn permute(&self, axes: impl IntoAxes) -> Tensor {
        shaped(self, OpTag::new("permute"), |shape| {
            let axes = axes.into_axes(shape.len())?;
            Ok(Op::Permute(axes.into_iter().map(|axis| axis as u8).collect()))
        })
    }

    /// Swaps two axes.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.transpose(0, -1);
    /// assert_eq!(*y.shape()?, [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose(&self, a: i32, b: i32) -> Tensor {
        shaped(self, OpTag::new("transpose"), |shape| {
            let mut axes: SmallVec<[u8; MAX_RANK]> = (0..shape.len() as u8).collect();
            axes.swap(axis_in(a, shape)?, axis_in(b, shape)?);
            Ok(Op::Permute(axes))
        })
    }

    /// As [`transpose`](Tensor::transpose), under NumPy's name.
    #[track_caller]
    pub fn swapaxes(&self, a: i32, b: i32) -> Tensor {
        self.transpose(a, b)
    }

    /// The transposed matrix; tensors of fewer than two axes stay as they are.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.t();
    /// assert_eq!(*y.shape()?, [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two axes.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        shaped(self, OpTag::new("t"), |shape| match shape.len() {
            0..=2 => Ok(Op::Permute((0..shape.len() as u8).rev().collect())),
            _ => Err(Refusal::new(format!("{shape} is no matrix"))
                .help("use `transpose(-2, -1)` for a stack of matrices")),
        })
    }

    /// Moves the axes `from` to the places `to`; the others keep their order.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.movedim(0, 1);
    /// assert_eq!(*y.shape()?, [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn movedim(&self, from: impl IntoAxes, to: impl IntoAxes) -> Tensor {
        shaped(self, OpTag::new("movedim"), |shape| {
            let (from, to) = (from.into_axes(shape.len())?, to.into_axes(shape.len())?);
            if from.len() != to.len() {
                return Err(Refusal::new(format!(
                    "{} axes for {} places",
                    from.len(),
                    to.len()
                )));
            }
            let moved: Axes = from.iter().copied().collect();
            let mut rest = (0..shape.len()).filter(|&axis| !moved.has(axis));
            let order = (0..shape.len()).filter_map(|place| match to.iter().position(|&at| at == place) {
                Some(which) => Some(from[which] as u8),
                None => rest.next().map(|axis| axis as u8),
            });
            Ok(Op::Permute(order.collect()))
        })
    }

    /// Without its axes of extent 1.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.sum_keepdims(0).squeeze();
    /// assert_eq!(*y.shape()?, [2]);
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 6.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze(&self) -> Tensor {
        self.squeezed(.., OpTag::new("squeeze"))
    }

    /// Without those of `axes` that have extent 1; the others stay.
    #[track_caller]
    pub fn squeeze_axes(&self, axes: impl IntoAxes) -> Tensor {
        self.squeezed(axes, OpTag::new("squeeze"))
    }

    fn squeezed(&self, axes: impl IntoAxes, tag: OpTag) -> Tensor {
        shaped(self, tag, |shape| {
            let axes = axes.into_axes(shape.len())?;
            Ok(Op::Reshape(shape.without(
                axes.into_iter().filter(|&axis| shape[axis] == 1).collect(),
            )))
        })
    }

    /// With a new axis of extent 1 before `axis`; -1 puts it last.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.unsqueeze(0);
    /// assert_eq!(*y.shape()?, [1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, axis: i32) -> Tensor {
        shaped(self, OpTag::new("unsqueeze"), |shape| {
            if shape.len() == MAX_RANK {
                return Err(Refusal::new(format!("{shape} has {MAX_RANK} axes already")));
            }
            Ok(Op::Reshape(shape.inserted(axis_of(axis, shape.len() + 1)?, 1)))
        })
    }

    /// Repeats extents of 1 without a copy, and adds axes in front; -1 keeps an extent.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.index(0).expand([2, -1]);
    /// assert_eq!(*y.shape()?, [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// An extent that is not 1 would change.
    #[track_caller]
    pub fn expand(&self, shape: impl IntoExtents) -> Tensor {
        let extents = shape.into_extents();
        shaped(self, OpTag::new("expand"), |from| {
            let new = extents.len().wrapping_sub(from.len());
            Ok(Op::Expand(filled(&extents, |at| {
                from.get(at.wrapping_sub(new)).copied()
            })?))
        })
    }

    /// As [`expand`](Tensor::expand) to a complete shape, under NumPy's name.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.index(0).broadcast_to([2, 2]);
    /// assert_eq!(*y.shape()?, [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl IntoShape) -> Tensor {
        let tag = OpTag::new("broadcast_to");
        match shape.into_shape() {
            Ok(shape) => expanded(self, shape, tag),
            Err(refusal) => Tensor::refused(tag, refusal, &[self]),
        }
    }

    /// One axis of all elements; a scalar becomes one element.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.flatten();
    /// assert_eq!(*y.shape()?, [4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn flatten(&self) -> Tensor {
        shaped(self, OpTag::new("flatten"), |shape| {
            Ok(Op::Reshape(Shape::checked(&[shape.elements()])?))
        })
    }

    /// The axes from `first` to `last`, both included, as one.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.flatten_axes(0, 1);
    /// assert_eq!(*y.shape()?, [4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn flatten_axes(&self, first: i32, last: i32) -> Tensor {
        shaped(self, OpTag::new("flatten"), |shape| {
            let (first, last) = (axis_in(first, shape)?, axis_in(last, shape)?);
            if first > last {
                return Err(Refusal::new(format!("axes {first} to {last}")));
            }
            let mut extents: SmallVec<[usize; MAX_RANK]> = shape[..first].into();
            extents.push(shape[first..=last].iter().product());
            extents.extend_from_slice(&shape[last + 1..]);
            Ok(Op::Reshape(Shape::checked(&extents)?))
        })
    }

    /// One axis as several of the same product; one of them may be -1. The opposite of
    /// [`flatten_axes`](Tensor::flatten_axes).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.unflatten(1, [2, 1]);
    /// assert_eq!(*y.shape()?, [2, 2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn unflatten(&self, axis: i32, extents: impl IntoExtents) -> Tensor {
        let extents = extents.into_extents();
        shaped(self, OpTag::new("unflatten"), |shape| {
            let axis = axis_in(axis, shape)?;
            let inner = reshaped(&Shape::of(&shape[axis..=axis]), &extents)?;
            Ok(Op::Reshape(Shape::checked(
                &[&shape[..axis], &inner, &shape[axis + 1..]].concat(),
            )?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::DType;

    fn of(extents: &[usize]) -> Tensor {
        Tensor::constant(Shape::of(extents), DType::F32, 0)
    }

    fn shape(tensor: Tensor) -> Option<Vec<usize>> {
        tensor.shape().ok().map(|shape| shape.to_vec())
    }

    #[test]
    fn shapes_follow_pytorch() {
        let x = of(&[2, 3, 4]);
        assert_eq!(shape(x.reshape([-1, 2])), Some(vec![12, 2]));
        assert_eq!(shape(of(&[0, 3]).reshape([3, -1])), Some(vec![3, 0]));
        assert_eq!(shape(x.permute([2, 0, 1])), Some(vec![4, 2, 3]));
        assert_eq!(shape(x.transpose(0, -1)), Some(vec![4, 3, 2]));
        assert_eq!(shape(x.movedim([0, 1], [-1, 0])), Some(vec![3, 4, 2]));
        assert_eq!(shape(x.movedim(2, 0)), Some(vec![4, 2, 3]));
        assert_eq!(shape(of(&[1, 3, 1]).squeeze()), Some(vec![3]));
        assert_eq!(shape(of(&[1, 3, 1]).squeeze_axes([0, 1])), Some(vec![3, 1]));
        assert_eq!(shape(x.unsqueeze(-1)), Some(vec![2, 3, 4, 1]));
        assert_eq!(shape(of(&[3, 1]).expand([2, -1, 4])), Some(vec![2, 3, 4]));
        assert_eq!(shape(x.flatten()), Some(vec![24]));
        assert_eq!(shape(of(&[]).flatten()), Some(vec![1]));
        assert_eq!(shape(x.flatten_axes(1, -1)), Some(vec![2, 12]));
        assert_eq!(shape(x.unflatten(-1, [2, -1])), Some(vec![2, 3, 2, 2]));
        assert_eq!(shape(of(&[2, 3]).t()), Some(vec![3, 2]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let x = of(&[2, 3, 4]);
        for wrong in [
            x.reshape([5, -1]),
            x.reshape([-1, -1]),
            x.reshape([0, -1]),
            x.reshape([-2, 12]),
            x.reshape([2, 3]),
            x.permute([0, 1]),
            x.transpose(0, 3),
            x.movedim([0, 1], 0),
            x.expand([2, 3, 5]),
            x.expand([-1, 2, 3, 4]),
            x.t(),
            x.flatten_axes(2, 0),
            of(&[1; 8]).unsqueeze(0),
        ] {
            assert!(wrong.shape().is_err());
        }
    }
}
