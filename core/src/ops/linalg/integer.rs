//! Products of integers of 8 bits.

use super::matmul::product;
use crate::hal::DType;
use crate::ops::cast;
use crate::ops::checked::{checked, composite_of, summed};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;

impl Tensor {
    /// The product of matrices of i8 or u8, alike or mixed, with the sums in full: `[.., m, k] × [.., k, n]` gives `[.., m, n]` of i32,
    /// the axes in front broadcast. ONNX's MatMulInteger.
    ///
    /// The zero points are the integers that stand for 0, and are taken off each element first: `zero` off those of this tensor,
    /// one for all or one for each row (`[.., m, 1]`); `other_zero` off those of the other one, one for all or one for each column
    /// (`[n]` or `[.., 1, n]`). They cost a sum along k, and are best left out where they are 0.
    ///
    /// Sums are exact modulo 2³²: u8 times i8 can overflow i32 from 65,794 terms on, and wraps.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[130_u8, 255], [1, 2], &cx);
    /// let w = Tensor::from_slice(&[100_i8, -128], [2, 1], &cx);
    /// assert_eq!(x.matmul_integer(&w, None, None).to_vec::<i32>()?, [13_000 - 32_640]);
    /// let zero = Tensor::scalar(128_u8, &cx);
    /// assert_eq!(x.matmul_integer(&w, &zero, None).to_vec::<i32>()?, [200 - 16_256]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn matmul_integer<'a, 'b>(
        &self,
        other: &Tensor,
        zero: impl Into<Option<&'a Tensor>>,
        other_zero: impl Into<Option<&'b Tensor>>,
    ) -> Tensor {
        let tag = OpTag::new("matmul_integer");
        let zeros: [Option<&Tensor>; 2] = [zero.into(), other_zero.into()];
        checked(tag, [self, other], zeros, |[a, b], [a_zero, b_zero]| {
            let bytes = |dtype| matches!(dtype, DType::I8 | DType::U8);
            if !bytes(a.dtype) || !bytes(b.dtype) {
                return Err(Refusal::new(format!("operands of {} and {}", a.dtype, b.dtype))
                    .help("both are i8 or u8; `quantize` makes them of floats"));
            }
            if a.shape.len() < 2 || b.shape.len() < 2 {
                return Err(
                    Refusal::new(format!("{} × {}: both are matrices", a.shape, b.shape))
                        .help("add an axis to a vector with `unsqueeze`"),
                );
            }
            let (rows, columns) = (a.shape[a.shape.len() - 2], b.shape[b.shape.len() - 1]);
            let given = [(a_zero, false, a, [rows, 1]), (b_zero, true, b, [1, columns])];
            for (zero, each_column, of, extents) in given {
                let Some(zero) = zero else { continue };
                if !zero.dtype.is_integer() || !fits(&zero.shape, each_column, extents) {
                    return Err(Refusal::new(format!(
                        "zero points {} {} of an operand {}",
                        zero.dtype, zero.shape, of.shape
                    ))
                    .help("they are integers: one, or one for each row of the first and each column of the second operand"));
                }
            }
            let k = b.shape[b.shape.len() - 2];
            Ok(composite_of(
                "matmul_integer",
                &(),
                [self, other],
                zeros,
                tag,
                |[a, b], [a_zero, b_zero]| {
                    let whole = |t: &Tensor| cast(t, DType::I32, tag);
                    // The sums along k, which stay as an axis of one element; counted from the last axis.
                    let sums = |t: &Tensor, rank: usize, last: usize| {
                        let sum = summed(&whole(t), Axes::one(rank - last), DType::I32, tag);
                        sum.unsqueeze(-(last as i32))
                    };
                    let mut out = product(a, b, DType::I8, DType::I32, tag);
                    if let Some(zero) = a_zero {
                        out -= whole(zero) * sums(b, rank_of(b), 2);
                    }
                    if let Some(zero) = b_zero {
                        out -= whole(zero) * sums(a, rank_of(a), 1);
                    }
                    match (a_zero, b_zero) {
                        (Some(one), Some(two)) => out + whole(one) * whole(two) * (k as i32),
                        _ => out,
                    }
                },
            ))
        })
    }
}

fn rank_of(tensor: &Tensor) -> usize {
    tensor.ty().map_or(2, |ty| ty.shape.len())
}

/// Whether zero points of this shape are one number, or one for each row (or, of columns, each column) of matrices of `extents`.
fn fits(shape: &Shape, columns: bool, extents: [usize; 2]) -> bool {
    match &shape[..] {
        [] | [1] => true,
        [each] => columns && *each == extents[1],
        [.., 1, 1] => true,
        [.., rows, each] => [*rows, *each] == extents,
    }
}
