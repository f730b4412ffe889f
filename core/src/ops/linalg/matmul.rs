//! Matrix products.

use crate::composite::composite;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::ops::checked::{checked, composite_of, summed, wide};
use crate::ops::precision::{self, Class};
use crate::ops::{broadcast, cast, expanded, promote};
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

impl Tensor {
    /// The matrix product as in PyTorch and NumPy: `[.., m, k] × [.., k, n]` gives `[.., m, n]`, the axes in front broadcast; a
    /// vector on the left is a row, on the right a column, and disappears from the result; two vectors give a scalar.
    ///
    /// Operands of different dtypes are promoted. f16 and bf16 are summed in f32 and rounded once, narrow integers in 32 bits
    /// and wrapped; of f8e4m3 or f8e5m2 the sums in f32 are the result. Over an empty inner axis the result is 0.
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        let tag = OpTag::new("matmul");
        let held = precision::adjusted(Class::Matrix, tag, [self, other]);
        let [this, other] = held.operands([self, other]);
        let result = checked(tag, [this, other], [], |[a, b], []| {
            let shapes = [a.shape, b.shape];
            if let Some(scalar) = shapes.iter().find(|shape| shape.is_empty()) {
                return Err(
                    Refusal::new(format!("{scalar} is a scalar: {} × {}", a.shape, b.shape))
                        .help("multiply by a scalar with *"),
                );
            }
            let dtype = product_dtype(a.dtype, b.dtype)?;
            Ok(composite("matmul", &(), [this, other], tag, |[a, b]| {
                product(
                    &cast(a, dtype, tag),
                    &cast(b, dtype, tag),
                    dtype,
                    output_of(dtype),
                    tag,
                )
            }))
        });
        held.result(result, tag)
    }

    /// The product of matrices `[b, n, m] × [b, m, p]`, without broadcasting; otherwise as [`Tensor::matmul`].
    #[must_use]
    #[track_caller]
    pub fn bmm(&self, other: &Tensor) -> Tensor {
        let tag = OpTag::new("bmm");
        let held = precision::adjusted(Class::Matrix, tag, [self, other]);
        let [this, other] = held.operands([self, other]);
        let result = checked(tag, [this, other], [], |[a, b], []| {
            if a.shape.len() != 3 || b.shape.len() != 3 || a.shape[0] != b.shape[0] {
                return Err(Refusal::new(format!(
                    "{} × {}: both are [b, rows, columns]",
                    a.shape, b.shape
                )));
            }
            Ok(tag.scope(|| this.matmul(other)))
        });
        held.result(result, tag)
    }

    /// `x · weightᵀ + bias`: x `[.., k]`, weight `[n, k]`, bias `[n]`, result `[.., n]`. Dtypes as [`Tensor::matmul`].
    #[must_use]
    #[track_caller]
    pub fn linear<'a>(&self, weight: &Tensor, bias: impl Into<Option<&'a Tensor>>) -> Tensor {
        let tag = OpTag::new("linear");
        let held = precision::adjusted(Class::Matrix, tag, [self, weight]);
        let [this, weight] = held.operands([self, weight]);
        let bias: Option<&Tensor> = bias.into();
        let held_bias = bias.map(|bias| precision::adjusted(Class::Matrix, tag, [bias]));
        let bias = precision::optional(&held_bias, bias);
        let result = checked(tag, [this, weight], [bias], |[x, w], [bias_ty]| {
            let fits = match *w.shape {
                [_, k] => x.shape.last() == Some(&k),
                [k] => x.shape.last() == Some(&k) && bias_ty.is_none_or(|bias| bias.shape.is_empty()),
                _ => false,
            };
            if !fits {
                return Err(
                    Refusal::new(format!("input {} with weights {}", x.shape, w.shape))
                        .help("the weights are [outputs, inputs]"),
                );
            }
            if let Some(bias) = bias_ty
                && *bias.shape != w.shape[..w.shape.len() - 1]
            {
                return Err(Refusal::new(format!(
                    "bias {} with weights {}",
                    bias.shape, w.shape
                )));
            }
            let dtype = product_dtype(x.dtype, w.dtype)?;
            Ok(composite_of(
                "linear",
                &(),
                [this, weight],
                [bias],
                tag,
                |[x, w], [bias]| {
                    let w = if w.ty().is_ok_and(|w| w.shape.len() == 1) {
                        w.clone()
                    } else {
                        w.transpose(0, 1)
                    };
                    let out = product(
                        &cast(x, dtype, tag),
                        &cast(&w, dtype, tag),
                        dtype,
                        output_of(dtype),
                        tag,
                    );
                    match bias {
                        Some(bias) => out + bias,
                        None => out,
                    }
                },
            ))
        });
        held.result(result, tag)
    }

    /// `beta · self + alpha · (a × b)` for matrices a and b; `self` broadcasts to the product's shape, and does not count, NaN
    /// included, where `beta` is 0.
    #[must_use]
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor {
        let tag = OpTag::new("addmm");
        let held = precision::adjusted(Class::Matrix, tag, [self, a, b]);
        let [this, a, b] = held.operands([self, a, b]);
        let result = checked(tag, [this, a, b], [], |[_, a_ty, b_ty], []| {
            if a_ty.shape.len() != 2 || b_ty.shape.len() != 2 {
                return Err(Refusal::new(format!(
                    "{} × {}: both are matrices",
                    a_ty.shape, b_ty.shape
                )));
            }
            let factor = |factor: f64| match factor.fract() == 0.0 {
                true => crate::ops::Scalar::from(factor as i64),
                false => crate::ops::Scalar::from(factor),
            };
            let key = (beta.to_bits(), alpha.to_bits());
            Ok(composite("addmm", &key, [this, a, b], tag, |[base, a, b]| {
                let product = a.matmul(b);
                let scaled = if alpha == 1.0 {
                    product
                } else {
                    product * factor(alpha)
                };
                if beta == 0.0 {
                    return scaled;
                }
                let base = if beta == 1.0 {
                    base.clone()
                } else {
                    base * factor(beta)
                };
                scaled + base
            }))
        });
        held.result(result, tag)
    }
}

/// The dtype of a product, checked for having sums.
pub(super) fn product_dtype(a: DType, b: DType) -> Result<DType, Refusal> {
    match promote(a, b)? {
        DType::Bool => Err(Refusal::new("no product of bool").help("cast one operand to an integer dtype")),
        dtype => Ok(dtype),
    }
}

/// The dtype that products of `dtype` are summed in.
pub(super) const fn sum_of(dtype: DType) -> DType {
    if dtype.is_storage() {
        DType::F32
    } else {
        wide(dtype)
    }
}

/// The dtype of a product of operands of `dtype`: their own, but the sum's of those for storage.
pub(super) const fn output_of(dtype: DType) -> DType {
    if dtype.is_storage() { DType::F32 } else { dtype }
}

/// The product of operands of one dtype and at least one axis each, given in it or in [`sum_of`] it.
pub(crate) fn product(a: &Tensor, b: &Tensor, dtype: DType, output: DType, tag: OpTag) -> Tensor {
    let (a_ty, b_ty) = match (a.ty(), b.ty()) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(_), _) => return a.clone(),
        (_, Err(_)) => return b.clone(),
    };
    if a_ty.shape.len() == 1 && b_ty.shape.len() == 1 {
        return inner(a, b, dtype, output, tag);
    }
    let (row, column) = (a_ty.shape.len() == 1, b_ty.shape.len() == 1);
    let a = if row { a.unsqueeze(0) } else { a.clone() };
    let b = if column { b.unsqueeze(-1) } else { b.clone() };
    let out = matrices(&a, &b, dtype, output, tag);
    let out = if column { out.squeeze_axes(-1) } else { out };
    if row {
        out.squeeze_axes(if column { -1 } else { -2 })
    } else {
        out
    }
}

/// `Σ a·b` of two vectors.
pub(super) fn inner(a: &Tensor, b: &Tensor, dtype: DType, output: DType, tag: OpTag) -> Tensor {
    match (a.ty(), b.ty()) {
        (Ok(a), Ok(b)) if a.shape != b.shape => Tensor::refused(
            tag,
            Refusal::new(format!(
                "vectors of different lengths: {} and {}",
                a.shape, b.shape
            )),
            &[],
        ),
        _ => {
            let sum = sum_of(dtype);
            let products = cast(a, sum, tag) * cast(b, sum, tag);
            cast(&summed(&products, Axes::one(0), sum, tag), output, tag)
        }
    }
}

fn matrices(a: &Tensor, b: &Tensor, dtype: DType, output: DType, tag: OpTag) -> Tensor {
    let (Ok(a_ty), Ok(b_ty)) = (a.ty(), b.ty()) else {
        return if a.ty().is_err() { a.clone() } else { b.clone() };
    };
    let op = Op::Matmul {
        accumulate: sum_of(dtype),
        output,
    };
    let (a_rank, b_rank) = (a_ty.shape.len(), b_ty.shape.len());
    if a_rank > 2 && b_rank == 2 {
        // One product of many rows instead of many products.
        let rows: usize = a_ty.shape[..a_rank - 1].iter().product();
        let flat = a.reshape([rows, a_ty.shape[a_rank - 1]]);
        let out = apply(op, &[&flat, b], tag);
        return out.reshape(a_ty.shape.with(a_rank - 1, b_ty.shape[1]));
    }
    match batches(a_ty, b_ty) {
        Ok([a_shape, b_shape]) => apply(op, &[&expanded(a, a_shape, tag), &expanded(b, b_shape, tag)], tag),
        Err(refusal) => Tensor::refused(tag, refusal, &[a, b]),
    }
}

/// The shapes of both operands with their axes in front broadcast.
fn batches(a: Type, b: Type) -> Result<[Shape; 2], Refusal> {
    let split = |ty: Type| {
        let (front, matrix) = ty.shape.split_at(ty.shape.len() - 2);
        (Shape::of(front), [matrix[0], matrix[1]])
    };
    let ((a_front, a_matrix), (b_front, b_matrix)) = (split(a), split(b));
    let front = broadcast(&[a_front, b_front])
        .map_err(|_| Refusal::new(format!("batches do not broadcast: {} × {}", a.shape, b.shape)))?;
    let with = |matrix: [usize; 2]| Shape::checked(&[&*front, &matrix].concat());
    Ok([with(a_matrix)?, with(b_matrix)?])
}
