//! Parts of a tensor, as views.

use super::axes::axis_in;
use super::shape::shaped;
use crate::graph::Op;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{MAX_RANK, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use smallvec::SmallVec;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One entry of an index: what is taken along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// One element; the axis disappears. Negative counts from the end.
    Index(i64),
    /// A range; Python's slice. Negative bounds count from the end, bounds outside are moved to the end.
    Range {
        /// First element; by default the first in the direction of the step.
        start: Option<i64>,
        /// Element before which it ends; by default all that are left.
        end: Option<i64>,
        /// Distance, not 0; negative walks backwards.
        step: i64,
    },
    /// A new axis of extent 1.
    NewAxis,
    /// All axes that no other entry is for.
    Ellipsis,
}

/// A new axis of extent 1 in an index.
pub const NEW_AXIS: At = At::NewAxis;

/// All axes that no other entry of an index is for.
pub const ELLIPSIS: At = At::Ellipsis;

/// Every `step`-th element of a range, Python's `start:end:step`; a negative step walks backwards from `start`.
pub fn step(range: impl Into<At>, by: i64) -> At {
    match range.into() {
        At::Range { start, end, step } => At::Range {
            start,
            end,
            step: step * by,
        },
        other => other,
    }
}

impl From<RangeFull> for At {
    fn from(_: RangeFull) -> At {
        At::Range {
            start: None,
            end: None,
            step: 1,
        }
    }
}

/// The number, or the nearest that an index can be.
fn number(index: i128) -> i64 {
    index.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

macro_rules! entries {
    ($($number:ty)*) => { $(
        impl From<$number> for At {
            fn from(index: $number) -> At { At::Index(number(index as i128)) }
        }

        impl From<Range<$number>> for At {
            fn from(range: Range<$number>) -> At {
                At::Range { start: Some(number(range.start as i128)), end: Some(number(range.end as i128)), step: 1 }
            }
        }

        impl From<RangeFrom<$number>> for At {
            fn from(range: RangeFrom<$number>) -> At {
                At::Range { start: Some(number(range.start as i128)), end: None, step: 1 }
            }
        }

        impl From<RangeTo<$number>> for At {
            fn from(range: RangeTo<$number>) -> At {
                At::Range { start: None, end: Some(number(range.end as i128)), step: 1 }
            }
        }

        impl From<RangeInclusive<$number>> for At {
            fn from(range: RangeInclusive<$number>) -> At {
                At::Range { start: Some(number(*range.start() as i128)), end: after(number(*range.end() as i128)), step: 1 }
            }
        }

        impl From<RangeToInclusive<$number>> for At {
            fn from(range: RangeToInclusive<$number>) -> At {
                At::Range { start: None, end: after(number(range.end as i128)), step: 1 }
            }
        }
    )* };
}

entries!(i32 i64 isize usize);

/// The bound behind an element; the last element has none.
fn after(last: i64) -> Option<i64> {
    if last == -1 {
        None
    } else {
        Some(last.saturating_add(1))
    }
}

/// What [`Tensor::index`] takes: one entry, a tuple of entries, a slice of [`At`].
pub trait IntoIndex {
    /// The entries.
    fn into_index(self) -> SmallVec<[At; MAX_RANK]>;
}

impl<T: Into<At>> IntoIndex for T {
    fn into_index(self) -> SmallVec<[At; MAX_RANK]> {
        SmallVec::from_iter([self.into()])
    }
}

impl IntoIndex for &[At] {
    fn into_index(self) -> SmallVec<[At; MAX_RANK]> {
        self.into()
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => { $(
        impl<$($name: Into<At>),*> IntoIndex for ($($name,)*) {
            fn into_index(self) -> SmallVec<[At; MAX_RANK]> {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                SmallVec::from_iter([$($name.into()),*])
            }
        }
    )* };
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

/// First element, step and number of elements of a range along an axis of `extent`; as Python's `slice.indices`.
fn range(
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
    extent: usize,
) -> Result<(usize, i64, usize), Refusal> {
    let extent = extent as i64;
    if step == 0 || step == i64::MIN {
        return Err(Refusal::new(format!("a range with step {step}")));
    }
    let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
    let bound = |at: i64| (if at < 0 { at.saturating_add(extent) } else { at }).clamp(low, high);
    let start = start.map_or(if step > 0 { low } else { high }, bound);
    let end = end.map_or(if step > 0 { high } else { low }, bound);
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance <= 0 {
        0
    } else {
        (distance - 1) / step.abs() + 1
    };
    Ok((if count == 0 { 0 } else { start as usize }, step, count as usize))
}

/// A slice in the making: one entry per axis of the source.
struct Parts {
    start: SmallVec<[usize; MAX_RANK]>,
    step: SmallVec<[i64; MAX_RANK]>,
    extents: SmallVec<[usize; MAX_RANK]>,
    /// The extents of the result, without indexed axes and with new ones.
    result: SmallVec<[usize; MAX_RANK]>,
}

impl Parts {
    fn of(shape: &Shape, entries: &[At]) -> Result<Parts, Refusal> {
        let named = entries
            .iter()
            .filter(|entry| matches!(entry, At::Index(_) | At::Range { .. }))
            .count();
        let ellipses = entries
            .iter()
            .filter(|entry| matches!(entry, At::Ellipsis))
            .count();
        if named > shape.len() || ellipses > 1 {
            return Err(Refusal::new(format!(
                "{named} entries and {ellipses} ellipses for {shape}"
            )));
        }
        let rest = shape.len() - named;
        let mut parts = Parts {
            start: SmallVec::new(),
            step: SmallVec::new(),
            extents: SmallVec::new(),
            result: SmallVec::new(),
        };
        for &entry in entries {
            let axis = parts.start.len();
            match entry {
                At::NewAxis => parts.result.push(1),
                At::Ellipsis => (0..rest).for_each(|at| parts.take(0, 1, shape[axis + at], true)),
                At::Index(index) => {
                    let extent = shape[axis] as i64;
                    let at = if index < 0 {
                        index.saturating_add(extent)
                    } else {
                        index
                    };
                    if !(0..extent).contains(&at) {
                        return Err(Refusal::new(format!("index {index} of axis {axis} of {shape}")));
                    }
                    parts.take(at as usize, 1, 1, false);
                }
                At::Range { start, end, step } => {
                    let (start, step, count) = range(start, end, step, shape[axis])?;
                    parts.take(start, step, count, true);
                }
            }
        }
        for axis in parts.start.len()..shape.len() {
            parts.take(0, 1, shape[axis], true);
        }
        Ok(parts)
    }

    fn take(&mut self, start: usize, step: i64, extent: usize, kept: bool) {
        self.start.push(start);
        self.step.push(step);
        self.extents.push(extent);
        if kept {
            self.result.push(extent);
        }
    }
}

/// The part of each axis given by `(start, step, extent)`.
pub(crate) fn sliced(x: &Tensor, tag: OpTag, make: impl Fn(usize, usize) -> (usize, i64, usize)) -> Tensor {
    shaped(x, tag, |shape| {
        let parts: SmallVec<[(usize, i64, usize); MAX_RANK]> =
            (0..shape.len()).map(|axis| make(axis, shape[axis])).collect();
        let of = |get: fn(&(usize, i64, usize)) -> usize| {
            Shape::of(&parts.iter().map(get).collect::<SmallVec<[usize; MAX_RANK]>>())
        };
        Ok(Op::Slice {
            start: of(|part| part.0),
            step: parts.iter().map(|part| part.1).collect(),
            shape: of(|part| part.2),
        })
    })
}

/// `extent` elements along one axis from `start` on.
pub(crate) fn narrowed(x: &Tensor, axis: usize, start: usize, extent: usize, tag: OpTag) -> Tensor {
    sliced(x, tag, |at, whole| {
        if at == axis {
            (start, 1, extent)
        } else {
            (0, 1, whole)
        }
    })
}

impl Tensor {
    /// A part of the tensor, as a view: a tuple with one entry per axis, as in NumPy. An entry is a number (the axis
    /// disappears), a range, [`step`] of a range, [`NEW_AXIS`] or [`ELLIPSIS`]; axes without an entry are taken whole.
    /// Negative numbers count from the end; ranges that reach outside are cut, as in Python.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// use thalweg::ops::{NEW_AXIS, step};
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// assert_eq!(x.index((.., -1)).to_vec::<f32>()?, [2.0, 4.0]);
    /// assert_eq!(x.index((step(.., -1), 0..1)).to_vec::<f32>()?, [3.0, 1.0]);
    /// assert_eq!(*x.index((NEW_AXIS, 0)).shape()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// A number outside the axis, a step of 0, more entries than axes.
    #[track_caller]
    pub fn index(&self, index: impl IntoIndex) -> Tensor {
        let tag = OpTag::new("index");
        let Ok(ty) = self.ty() else { return self.clone() };
        let parts = match Parts::of(&ty.shape, &index.into_index()) {
            Ok(parts) => parts,
            Err(refusal) => return Tensor::refused(tag, refusal, &[self]),
        };
        let result = match Shape::checked(&parts.result) {
            Ok(shape) => shape,
            Err(refusal) => return Tensor::refused(tag, refusal, &[self]),
        };
        let shape = Shape::of(&parts.extents);
        let part = apply(
            Op::Slice {
                start: Shape::of(&parts.start),
                step: parts.step,
                shape,
            },
            &[self],
            tag,
        );
        if shape == result {
            part
        } else {
            apply(Op::Reshape(result), &[&part], tag)
        }
    }

    /// `length` elements along `axis` from `start` on, as a view. A negative start counts from the end.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.narrow(1, 1, 1);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// They reach outside.
    #[track_caller]
    pub fn narrow(&self, axis: i32, start: i64, length: usize) -> Tensor {
        let tag = OpTag::new("narrow");
        let Ok(ty) = self.ty() else { return self.clone() };
        let (axis, refusal) = match axis_in(axis, &ty.shape) {
            Ok(axis) => {
                let extent = ty.shape[axis] as i64;
                let from = if start < 0 {
                    start.saturating_add(extent)
                } else {
                    start
                };
                if from >= 0 && from.saturating_add(length as i64) <= extent {
                    return narrowed(self, axis, from as usize, length, tag);
                }
                (axis, None)
            }
            Err(refusal) => (0, Some(refusal)),
        };
        let refusal = refusal.unwrap_or_else(|| {
            Refusal::new(format!(
                "{length} elements from {start} on along axis {axis} of {}",
                ty.shape
            ))
        });
        Tensor::refused(tag, refusal, &[self])
    }

    /// Element `index` along `axis`, which disappears: `x.select(0, i)` is `x[i]`. Negative counts from the end.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.select(1, 0);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, axis: i32, index: i64) -> Tensor {
        let tag = OpTag::new("select");
        let Ok(ty) = self.ty() else { return self.clone() };
        match axis_in(axis, &ty.shape) {
            Ok(axis) => {
                let mut entries: SmallVec<[At; MAX_RANK]> = SmallVec::from_elem((..).into(), axis);
                entries.push(At::Index(index));
                tag.scope(|| self.index(entries.as_slice()))
            }
            Err(refusal) => Tensor::refused(tag, refusal, &[self]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::DType;

    fn shape(index: impl IntoIndex) -> Option<Vec<usize>> {
        let x = Tensor::constant(Shape::of(&[4, 5, 6]), DType::F32, 0);
        x.index(index).shape().ok().map(|shape| shape.to_vec())
    }

    #[test]
    fn entries_take_axes_in_order() {
        assert_eq!(shape(1), Some(vec![5, 6]));
        assert_eq!(shape((.., -1)), Some(vec![4, 6]));
        assert_eq!(shape((ELLIPSIS, 2..4)), Some(vec![4, 5, 2]));
        assert_eq!(shape((0, NEW_AXIS, 1..=3, ..2)), Some(vec![1, 3, 2]));
        assert_eq!(shape((step(.., -2), 1..usize::MAX, 3)), Some(vec![2, 4]));
        let (start, end) = (4, 1);
        assert_eq!(shape((start..end, ..)), Some(vec![0, 5, 6]));
        assert_eq!(shape((.., .., 1.., 0)), None);
        assert_eq!(shape(4), None);
        assert_eq!(shape(-5), None);
        assert_eq!(shape(step(.., 0)), None);
        assert_eq!(shape((ELLIPSIS, ELLIPSIS)), None);
    }

    #[test]
    fn ranges_are_those_of_python() {
        // Values of Python's slice(a, b, c).indices(5) and len(range(…)).
        let of = |start, end, step| range(start, end, step, 5).ok();
        assert_eq!(of(None, None, -1), Some((4, -1, 5)));
        assert_eq!(of(Some(-2), None, 1), Some((3, 1, 2)));
        assert_eq!(of(Some(1), Some(-1), 2), Some((1, 2, 2)));
        assert_eq!(of(Some(10), Some(-10), -2), Some((4, -2, 3)));
        assert_eq!(of(Some(3), Some(3), 1), Some((0, 1, 0)));
        assert_eq!(of(None, Some(1), -3), Some((4, -3, 1)));
        assert_eq!(of(Some(-10), Some(2), 1), Some((0, 1, 2)));
    }
}
