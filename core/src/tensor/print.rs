//! Tensors as text, laid out as NumPy lays out arrays.
//!
//! More than 1000 elements are shown by the first and last 3 along each axis.

use super::shape::Shape;
use super::tag::OpTag;
use super::{Tensor, apply};
use crate::error::Result;
use crate::graph::Op;
use crate::types::text::{EDGE, described, laid_out};
use std::fmt;

/// Elements that are shown in full.
const THRESHOLD: usize = 1000;

impl fmt::Display for Tensor {
    /// The elements, or the error that the tensor carries. Waits for the elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for Tensor {
    /// Shape, dtype and elements. Waits for the elements, but for those of a traced tensor, which has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = match self.ty() {
            Ok(ty) => ty,
            Err(failure) => return write!(f, "Tensor(error={failure})"),
        };
        match self.shown() {
            Ok(text) => f.write_str(&described(ty.shape, ty.dtype, &text)),
            Err(error) => {
                let (dtype, text) = (ty.dtype.facts().long, error.to_string());
                let first = text.lines().next().unwrap_or_default();
                write!(f, "Tensor(shape={}, dtype={dtype}, value= {first})", ty.shape)
            }
        }
    }
}

impl Tensor {
    fn shown(&self) -> Result<String> {
        let ty = self.ty().map_err(std::sync::Arc::clone)?;
        let cut = ty.shape.elements() > THRESHOLD;
        let shown = if cut { self.edges() } else { self.clone() };
        let shape = shown.shape()?;
        let is_cut = |axis: usize| cut && ty.shape[axis] > 2 * EDGE;
        let elements = shown.bits(OpTag::uncounted("to_vec"))?;
        Ok(laid_out(shape, ty.dtype, &elements, &is_cut))
    }

    /// The first and last elements along every long axis.
    fn edges(&self) -> Tensor {
        let tag = OpTag::uncounted("print");
        let mut shown = self.clone();
        let Ok(shape) = self.shape() else { return shown };
        for axis in (0..shape.len()).filter(|&axis| shape[axis] > 2 * EDGE) {
            let Ok(now) = shown.shape() else { return shown };
            let part = |start: usize| {
                let op = Op::Slice {
                    start: Shape::of(&vec![0; now.len()]).with(axis, start),
                    step: vec![1; now.len()].into(),
                    shape: now.with(axis, EDGE),
                };
                apply(op, &[&shown], tag)
            };
            let (first, last) = (part(0), part(shape[axis] - EDGE));
            shown = apply(Op::Concat { axis: axis as u8 }, &[&first, &last], tag);
        }
        shown
    }
}

#[cfg(test)]
mod tests;
