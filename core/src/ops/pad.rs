//! Elements around a tensor, and elements in another order.

use super::axes::{IntoAxes, axis_in};
use super::operand::Scalar;
use super::slice::{narrowed, sliced};
use crate::composite::composite;
use crate::graph::Op;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, MAX_RANK, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use smallvec::SmallVec;

/// What [`Tensor::pad`] puts around the elements.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PadMode {
    /// One number.
    Constant(Scalar),
    /// The elements mirrored at the first and the last, which are not repeated: `c b | a b c | b a`. At most one less than the
    /// extent on a side.
    Reflect,
    /// The first and the last element; NumPy's `edge`.
    Replicate,
    /// The elements from the other side; NumPy's `wrap`. At most the extent on a side.
    Circular,
}

/// `x` with the elements of a mode other than constant around it along one axis.
fn surrounded(x: &Tensor, axis: usize, low: usize, high: usize, mode: PadMode, tag: OpTag) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let extent = ty.shape[axis];
    let most = match mode {
        PadMode::Reflect => extent.saturating_sub(1),
        PadMode::Circular => extent,
        PadMode::Replicate if extent == 0 => 0,
        PadMode::Replicate | PadMode::Constant(_) => usize::MAX,
    };
    if low.max(high) > most {
        let message = format!(
            "{low} and {high} elements around axis {axis} of {}; at most {most} are there",
            ty.shape
        );
        return Tensor::refused(tag, Refusal::new(message), &[x]);
    }
    let part = |start: usize, size: usize| narrowed(x, axis, start, size, tag);
    let edge = |at: usize, size: usize| apply(Op::Expand(ty.shape.with(axis, size)), &[&part(at, 1)], tag);
    let mut parts = SmallVec::<[Tensor; 3]>::new();
    let around = [low, high].map(|size| size > 0);
    if around[0] {
        parts.push(match mode {
            PadMode::Reflect => flipped(&part(1, low), Axes::one(axis), tag),
            PadMode::Circular => part(extent - low, low),
            PadMode::Replicate | PadMode::Constant(_) => edge(0, low),
        });
    }
    parts.push(x.clone());
    if around[1] {
        parts.push(match mode {
            PadMode::Reflect => flipped(&part(extent - 1 - high, high), Axes::one(axis), tag),
            PadMode::Circular => part(0, high),
            PadMode::Replicate | PadMode::Constant(_) => edge(extent - 1, high),
        });
    }
    match parts.as_slice() {
        [only] => only.clone(),
        _ => apply(
            Op::Concat { axis: axis as u8 },
            &parts.iter().collect::<SmallVec<[&Tensor; 3]>>(),
            tag,
        ),
    }
}

fn flipped(x: &Tensor, axes: Axes, tag: OpTag) -> Tensor {
    sliced(x, tag, |axis, extent| match axes.has(axis) {
        true => (extent.saturating_sub(1), -1, extent),
        false => (0, 1, extent),
    })
}

impl Tensor {
    /// More elements before and behind: `widths[i]` says how many along axis `i` (NumPy's order; PyTorch counts from the last
    /// axis). Axes without an entry stay.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// use thalweg::ops::PadMode;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.pad(&[(2, 1)], PadMode::Reflect).to_vec::<f32>()?, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// More entries than axes; more elements than the mode can give; a number that the dtype does not hold.
    #[track_caller]
    pub fn pad(&self, widths: &[(usize, usize)], mode: PadMode) -> Tensor {
        let tag = OpTag::new("pad");
        let Ok(ty) = self.ty() else { return self.clone() };
        if widths.len() > ty.shape.len() {
            let message = format!("widths of {} axes for {}", widths.len(), ty.shape);
            return Tensor::refused(tag, Refusal::new(message), &[self]);
        }
        let PadMode::Constant(number) = mode else {
            let attributes = (
                SmallVec::<[(usize, usize); MAX_RANK]>::from(widths),
                std::mem::discriminant(&mode),
            );
            return composite("pad", &attributes, [self], tag, |[x]| {
                let along = |x: Tensor, (axis, &(low, high)): (usize, &(usize, usize))| {
                    surrounded(&x, axis, low, high, mode, tag)
                };
                widths.iter().enumerate().fold(x.clone(), along)
            });
        };
        let mut extents: SmallVec<[usize; MAX_RANK]> = ty.shape[..].into();
        let mut low: SmallVec<[usize; MAX_RANK]> = SmallVec::from_elem(0, extents.len());
        for (axis, &(before, behind)) in widths.iter().enumerate() {
            low[axis] = before;
            extents[axis] = extents[axis].saturating_add(before).saturating_add(behind);
        }
        match Shape::checked(&extents).and_then(|shape| Ok((shape, number.bits(ty.dtype)?))) {
            Ok((shape, bits)) => apply(
                Op::Pad {
                    low: Shape::of(&low),
                    shape,
                    bits,
                },
                &[self],
                tag,
            ),
            Err(refusal) => Tensor::refused(tag, refusal, &[self]),
        }
    }

    /// The elements in opposite order along `axes`, as a view.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.flip(0);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn flip(&self, axes: impl IntoAxes) -> Tensor {
        let tag = OpTag::new("flip");
        match super::reduce::resolved(self, axes, tag) {
            Ok(axes) => flipped(self, axes, tag),
            Err(failed) => *failed,
        }
    }

    /// The elements moved by `shift` places along `axis`; those that leave at one end enter at the other.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.roll(1, 0).to_vec::<f32>()?, [3.0, 1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shift: i64, axis: i32) -> Tensor {
        let tag = OpTag::new("roll");
        let Ok(ty) = self.ty() else { return self.clone() };
        let axis = match axis_in(axis, &ty.shape) {
            Ok(axis) => axis,
            Err(refusal) => return Tensor::refused(tag, refusal, &[self]),
        };
        let extent = ty.shape[axis];
        let shift = shift.checked_rem_euclid(extent as i64).unwrap_or(0) as usize;
        if shift == 0 {
            return self.clone();
        }
        let tail = narrowed(self, axis, extent - shift, shift, tag);
        let head = narrowed(self, axis, 0, extent - shift, tag);
        apply(Op::Concat { axis: axis as u8 }, &[&tail, &head], tag)
    }
}
