//! Distances and similarities of vectors.

use crate::composite::composite_with_gradient;
use crate::graph::Type;
use crate::hal::DType;
use crate::ops::axis_in;
use crate::ops::checked::{checked, composite_of, joined, wide};
use crate::ops::linalg::product;
use crate::ops::precision::{self, Class};
use crate::ops::{broadcast, cast, float_of, promote};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// `x / max(‖x‖ₚ, eps)` along an axis. Keeps shape and dtype (integers become f32).
    #[must_use]
    #[track_caller]
    pub fn normalize(&self, p: f64, axis: i32, eps: f64) -> Tensor {
        let tag = OpTag::new("normalize");
        let held = precision::adjusted(Class::Full, tag, [self]);
        let [this] = held.operands([self]);
        checked(tag, [this], [], |[ty], []| {
            let at = axis_in(axis, &ty.shape)?;
            let dtype = float_of(ty.dtype);
            let key = (at, p.to_bits(), eps.to_bits());
            Ok(composite_of("normalize", &key, [this], [], tag, |[x], []| {
                let x = cast(x, wide(dtype), tag);
                let norm = norm(&x, p, at).unsqueeze(at as i32);
                cast(&(&x / norm.maximum(eps)), dtype, tag)
            }))
        })
    }

    /// `x·y / (max(‖x‖, eps)·max(‖y‖, eps))` along an axis, which disappears; operands broadcast and are promoted.
    #[must_use]
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: i32, eps: f64) -> Tensor {
        let tag = OpTag::new("cosine_similarity");
        let held = precision::adjusted(Class::Full, tag, [self, other]);
        let [this, other] = held.operands([self, other]);
        checked(tag, [this, other], [], |[a, b], []| {
            let at = axis_in(axis, &broadcast(&[a.shape, b.shape])?)?;
            let dtype = float_of(promote(a.dtype, b.dtype)?);
            let key = (at, eps.to_bits());
            Ok(composite_of(
                "cosine_similarity",
                &key,
                [this, other],
                [],
                tag,
                |[a, b], []| {
                    let (a, b) = (cast(a, wide(dtype), tag), cast(b, wide(dtype), tag));
                    let (a, b) = (&a + b.zeros_like(), &b + a.zeros_like());
                    let along = at as i32;
                    let product = (&a * &b).sum_axes(along);
                    let norms = norm(&a, 2.0, at).maximum(eps) * norm(&b, 2.0, at).maximum(eps);
                    cast(&(product / norms), dtype, tag)
                },
            ))
        })
    }

    /// `‖x - y + eps‖ₚ` along the last axis, which disappears; operands broadcast and are promoted.
    #[must_use]
    #[track_caller]
    pub fn pairwise_distance(&self, other: &Tensor, p: f64, eps: f64) -> Tensor {
        let tag = OpTag::new("pairwise_distance");
        let held = precision::adjusted(Class::Full, tag, [self, other]);
        let [this, other] = held.operands([self, other]);
        checked(tag, [this, other], [], |[a, b], []| {
            let last = axis_in(-1, &broadcast(&[a.shape, b.shape])?)?;
            let dtype = float_of(promote(a.dtype, b.dtype)?);
            let key = (p.to_bits(), eps.to_bits());
            Ok(composite_of(
                "pairwise_distance",
                &key,
                [this, other],
                [],
                tag,
                |[a, b], []| {
                    let difference = cast(a, wide(dtype), tag) - cast(b, wide(dtype), tag) + eps;
                    cast(&norm(&difference, p, last), dtype, tag)
                },
            ))
        })
    }

    /// The p-norm of the difference of each row of x `[.., i, d]` and each row of y `[.., j, d]`: `[.., i, j]`. The axes in front
    /// broadcast. p is at least 0; 0 counts elements that differ. The gradient at distance 0 is 0.
    #[must_use]
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Tensor {
        let tag = OpTag::new("cdist");
        let held = precision::adjusted(Class::Full, tag, [self, other]);
        let [this, other] = held.operands([self, other]);
        checked(tag, [this, other], [], |[a, b], []| {
            let (rows, columns) = (rows(a)?, rows(b)?);
            if rows.1 != columns.1 || p < 0.0 || p.is_nan() {
                return Err(
                    Refusal::new(format!("p {p} of rows of {} and {}", a.shape, b.shape))
                        .help("rows have one width, p is at least 0"),
                );
            }
            let dtype = float_of(promote(a.dtype, b.dtype)?);
            let front = |shape: &Shape| Shape::of(&shape[..shape.len() - 2]);
            let last = broadcast(&[front(&a.shape), front(&b.shape)])?.len() + 2;
            Shape::checked(&vec![1; last + 1])?;
            let body = move |a: &Tensor, b: &Tensor| {
                let a = cast(a, wide(dtype), tag).unsqueeze(-2);
                let difference = a - cast(b, wide(dtype), tag).unsqueeze(-3);
                cast(&norm(&difference, p, last), dtype, tag)
            };
            if p == 2.0 && a.dtype == b.dtype && front(&a.shape) == front(&b.shape) {
                return Ok(composite_with_gradient(
                    "cdist",
                    &(),
                    [this, other],
                    tag,
                    move |[a, b]| body(a, b),
                    move |[a, b], distance, gradient| {
                        euclidean_slopes([a, b], distance, gradient, dtype, tag).map(Some)
                    },
                ));
            }
            Ok(composite_of(
                "cdist_general",
                &p.to_bits(),
                [this, other],
                [],
                tag,
                |[a, b], []| body(a, b),
            ))
        })
    }

    /// The p-norms of the differences of the rows i < j of x `[n, d]`, in the order (0, 1), (0, 2), …: `[n·(n - 1) / 2]`.
    #[must_use]
    #[track_caller]
    pub fn pdist(&self, p: f64) -> Tensor {
        let tag = OpTag::new("pdist");
        let held = precision::adjusted(Class::Full, tag, [self]);
        let [this] = held.operands([self]);
        checked(tag, [this], [], |[ty], []| {
            let [count, _] = *ty.shape else {
                return Err(Refusal::new(format!("rows {}: they are [n, width]", ty.shape)));
            };
            let all = tag.scope(|| this.cdist(this, p));
            Ok(tag.scope(|| {
                let parts: Vec<Tensor> = (0..count.saturating_sub(1))
                    .map(|row| {
                        let others = all.narrow(0, row as i64, 1).squeeze_axes(0);
                        others.narrow(0, row as i64 + 1, count - row - 1)
                    })
                    .collect();
                let parts: Vec<&Tensor> = parts.iter().collect();
                match parts.is_empty() {
                    true => all.reshape([count * count]).narrow(0, 0, 0),
                    false => joined(&parts, 0, tag),
                }
            }))
        })
    }
}

/// Gradients of Euclidean distances `[.., i, j]` of rows, given in `dtype`: with w the gradient over the distance, Σ w·(x - y) is the
/// difference of a row times the sum of its weights and a product of matrices. Rows are taken from their mean on, which changes no
/// distance, so that little is lost to that difference.
fn euclidean_slopes(
    operands: [&Tensor; 2],
    distance: &Tensor,
    gradient: &Tensor,
    dtype: DType,
    tag: OpTag,
) -> [Tensor; 2] {
    let sum = wide(dtype);
    let wider = |x: &Tensor| cast(x, sum, tag);
    let (distance, gradient) = (wider(distance), wider(gradient));
    let nothing = distance.eq(0.0);
    let weights = nothing.where_cond(0.0, gradient / nothing.where_cond(1.0, &distance));
    let middle = wider(&operands[0].detach()).mean_keepdims(-2);
    let [a, b] = operands.map(|rows| wider(rows) - &middle);
    let slope = |weights: &Tensor, of: &Tensor, to: &Tensor| {
        let pulls = product(weights, to, sum, sum, tag);
        cast(&(weights.sum_keepdims(-1) * of - pulls), dtype, tag)
    };
    let turned = weights.swapaxes(-1, -2);
    [slope(&weights, &a, &b), slope(&turned, &b, &a)]
}

fn rows(ty: Type) -> Result<(usize, usize), Refusal> {
    match *ty.shape {
        [.., count, width] => Ok((count, width)),
        _ => Err(Refusal::new(format!(
            "rows {}: they are [.., n, width]",
            ty.shape
        ))),
    }
}

/// The p-norm along an axis, which disappears; its gradient at 0 is 0.
pub(super) fn norm(x: &Tensor, p: f64, axis: usize) -> Tensor {
    let along = axis as i32;
    if p == f64::INFINITY {
        return x.abs().max_axes(along);
    }
    if p == 0.0 {
        return cast_bool(&x.ne(0.0), x).sum_axes(along);
    }
    if p == 1.0 {
        return x.abs().sum_axes(along);
    }
    let sums = match p == 2.0 {
        true => (x * x).sum_axes(along),
        false => x.abs().pow(p).sum_axes(along),
    };
    // Keeps the infinite slope of the root at 0 out of gradients.
    let nothing = sums.eq(0.0);
    let safe = nothing.where_cond(1.0, &sums);
    let root = if p == 2.0 { safe.sqrt() } else { safe.pow(1.0 / p) };
    nothing.where_cond(0.0, &root)
}

fn cast_bool(truth: &Tensor, like: &Tensor) -> Tensor {
    truth.cast(like.dtype().unwrap_or(DType::F32))
}
