//! Tensors together and apart.

use super::axes::{axis_in, axis_of};
use super::promotion::{cast, promote};
use super::slice::narrowed;
use crate::composite::composite;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, join};
use smallvec::SmallVec;
use std::borrow::Borrow;

/// The tensors one after the other along a resolved axis; dtypes are promoted.
fn concat(tensors: &[&Tensor], axis: usize, tag: OpTag) -> Tensor {
    let mut dtype = None;
    for tensor in tensors {
        let Ok(ty) = tensor.ty() else {
            return (*tensor).clone();
        };
        dtype = match dtype.map_or(Ok(ty.dtype), |before| promote(before, ty.dtype)) {
            Ok(dtype) => Some(dtype),
            Err(refusal) => return Tensor::refused(tag, refusal, tensors),
        };
    }
    let Some(dtype) = dtype else {
        return Tensor::refused(tag, Refusal::new("no tensors"), &[]);
    };
    let cast: Vec<Tensor> = tensors.iter().map(|tensor| cast(tensor, dtype, tag)).collect();
    join(cast, axis, tag)
}

/// The parts of `sizes` along `axis`, or what is wrong.
fn parts(
    x: &Tensor,
    axis: i32,
    tag: OpTag,
    sizes: impl FnOnce(usize) -> Result<Vec<usize>, Refusal>,
) -> Vec<Tensor> {
    let Ok(ty) = x.ty() else { return vec![x.clone()] };
    let found = axis_in(axis, &ty.shape).and_then(|axis| Ok((axis, sizes(ty.shape[axis])?)));
    let (axis, sizes) = match found {
        Ok(found) => found,
        Err(refusal) => return vec![Tensor::refused(tag, refusal, &[x])],
    };
    let mut start = 0;
    let part = |size: usize| {
        start += size;
        narrowed(x, axis, start - size, size, tag)
    };
    sizes.into_iter().map(part).collect()
}

/// Lengths of pieces of `size` of `extent`; the last may be shorter. Nothing is one empty piece.
fn pieces(extent: usize, size: usize) -> Vec<usize> {
    let count = extent.div_ceil(size).max(1);
    (0..count).map(|at| size.min(extent - at * size)).collect()
}

impl Tensor {
    /// The tensors one after the other along `axis`; the other extents agree. Dtypes are promoted.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = Tensor::concat(&[&x, &x], 1);
    /// assert_eq!(*y.shape()?, [2, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tensor at all; other extents differ.
    #[track_caller]
    pub fn concat<T: Borrow<Tensor>>(tensors: &[T], axis: i32) -> Tensor {
        let tag = OpTag::new("concat");
        let tensors: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
        let Some(first) = tensors.first().and_then(|tensor| tensor.ty().ok()) else {
            return concat(&tensors, 0, tag);
        };
        match axis_in(axis, &first.shape) {
            Ok(axis) => concat(&tensors, axis, tag),
            Err(refusal) => Tensor::refused(tag, refusal, &tensors),
        }
    }

    /// The tensors side by side along a new axis before `axis`; their shapes agree. Dtypes are promoted.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = Tensor::stack(&[&x, &x], 0);
    /// assert_eq!(*y.shape()?, [2, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tensor at all; shapes differ.
    #[track_caller]
    pub fn stack<T: Borrow<Tensor>>(tensors: &[T], axis: i32) -> Tensor {
        let tag = OpTag::new("stack");
        let tensors: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
        let Some(first) = tensors.first().and_then(|tensor| tensor.ty().ok()) else {
            return concat(&tensors, 0, tag);
        };
        if let Some(other) = tensors
            .iter()
            .filter_map(|tensor| tensor.ty().ok())
            .find(|ty| ty.shape != first.shape)
        {
            let message = format!("shapes differ: {} and {}", first.shape, other.shape);
            return Tensor::refused(tag, Refusal::new(message), &tensors);
        }
        match axis_of(axis, first.shape.len() + 1) {
            Ok(at) => {
                let rows: Vec<Tensor> = tensors
                    .iter()
                    .map(|tensor| tag.scope(|| tensor.unsqueeze(at as i32)))
                    .collect();
                concat(&rows.iter().collect::<Vec<&Tensor>>(), at, tag)
            }
            Err(refusal) => Tensor::refused(tag, refusal, &tensors),
        }
    }

    /// Views of `size` elements along `axis`, the last perhaps shorter. An error makes one tensor that carries it.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = &x.split(1, 1)[1];
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, size: usize, axis: i32) -> Vec<Tensor> {
        parts(self, axis, OpTag::new("split"), |extent| match size {
            0 => Err(Refusal::new("parts of no elements")),
            _ => Ok(pieces(extent, size)),
        })
    }

    /// Views of the given sizes along `axis`, which sum to its extent. An error makes as many tensors that carry it.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = &x.split_sizes(&[0, 2], 0)[1];
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], axis: i32) -> Vec<Tensor> {
        let result = parts(self, axis, OpTag::new("split"), |extent| {
            match sizes.iter().sum::<usize>() == extent {
                true => Ok(sizes.to_vec()),
                false => Err(Refusal::new(format!("parts of {sizes:?} of {extent} elements"))),
            }
        });
        match result.as_slice() {
            [failed] if failed.ty().is_err() => vec![failed.clone(); sizes.len()],
            _ => result,
        }
    }

    /// At most `count` views of one size along `axis`, the last perhaps shorter: as PyTorch, there are fewer where the extent
    /// does not suffice. An error makes `count` tensors that carry it.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = &x.chunk(2, 0)[1];
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn chunk(&self, count: usize, axis: i32) -> Vec<Tensor> {
        let result = parts(self, axis, OpTag::new("chunk"), |extent| match count {
            0 => Err(Refusal::new("no parts")),
            _ => Ok(pieces(extent, extent.div_ceil(count).max(1))),
        });
        match result.as_slice() {
            [failed] if failed.ty().is_err() => vec![failed.clone(); count.max(1)],
            _ => result,
        }
    }

    /// The tensor `repeats[i]` times along axis `i`, aligned at the last axis, as NumPy's `tile` and PyTorch's `repeat`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.tile(&[2]);
    /// assert_eq!(*y.shape()?, [2, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, repeats: &[usize]) -> Tensor {
        let tag = OpTag::new("tile");
        composite(
            "tile",
            &SmallVec::<[usize; 8]>::from(repeats),
            [self],
            tag,
            |[x]| {
                let Ok(ty) = x.ty() else { return x.clone() };
                let rank = ty.shape.len().max(repeats.len());
                let ones = vec![1; rank - ty.shape.len()];
                let mut result = x.reshape([ones.as_slice(), &ty.shape].concat());
                for (axis, &count) in (rank - repeats.len()..rank).zip(repeats) {
                    result = repeated(&result, axis, axis, count, tag);
                }
                result
            },
        )
    }

    /// Each element `count` times in a row along `axis`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.repeat_interleave(2, 1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, count: usize, axis: i32) -> Tensor {
        let tag = OpTag::new("repeat_interleave");
        let Ok(ty) = self.ty() else { return self.clone() };
        match axis_in(axis, &ty.shape) {
            Ok(axis) => composite("repeat_interleave", &(count, axis), [self], tag, |[x]| {
                repeated(x, axis, axis + 1, count, tag)
            }),
            Err(refusal) => Tensor::refused(tag, refusal, &[self]),
        }
    }
}

/// `x` with a new axis of `count` before `place`, merged into `axis`.
pub(super) fn repeated(x: &Tensor, axis: usize, place: usize, count: usize, tag: OpTag) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    if count == 1 {
        return x.clone();
    }
    // The other axes as one before and one behind, so that there is room for the new one.
    let (before, behind) = (
        ty.shape[..axis].iter().product(),
        ty.shape[axis + 1..].iter().product(),
    );
    let (one, many) = match place == axis {
        true => (
            [before, 1, ty.shape[axis], behind],
            [before, count, ty.shape[axis], behind],
        ),
        false => (
            [before, ty.shape[axis], 1, behind],
            [before, ty.shape[axis], count, behind],
        ),
    };
    let result = Shape::checked(&ty.shape.with(axis, ty.shape[axis].saturating_mul(count)));
    match result {
        Ok(shape) => tag.scope(|| x.reshape(one).expand(many).reshape(shape)),
        Err(refusal) => Tensor::refused(tag, refusal, &[x]),
    }
}
