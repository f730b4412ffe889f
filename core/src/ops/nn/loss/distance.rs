//! Losses of distances between vectors.

use super::{Reduction, joined};
use crate::ops::cast;
use crate::ops::checked::{checked, composite_of, wide};
use crate::ops::nn::distance::norm;
use crate::ops::precision::{self, Class};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// `1 - cos(x, other)` where the target is 1 and `max(cos(x, other) - margin, 0)` where it is -1, the cosine along the last
    /// axis: x and other `[n, d]` or `[d]`, target `[n]` or `[]`.
    #[must_use]
    #[track_caller]
    pub fn cosine_embedding_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: Reduction,
    ) -> Tensor {
        let tag = OpTag::new("cosine_embedding_loss");
        let held = precision::adjusted(Class::Full, tag, [self, other, target]);
        let [this, other, target] = held.operands([self, other, target]);
        checked(tag, [this, other, target], [], |[a, b, _], []| {
            let dtype = joined(a, b)?;
            let key = (margin.to_bits(), reduction);
            let operands = [this, other, target];
            Ok(composite_of(
                "cosine_embedding_loss",
                &key,
                operands,
                [],
                tag,
                |[a, b, target], []| {
                    let (a, b) = (cast(a, wide(dtype), tag), cast(b, wide(dtype), tag));
                    // Inside the root, as in PyTorch: its norms are sqrt(Σx² + ε).
                    let square = |x: &Tensor, y: &Tensor| (x * y).sum_axes(-1);
                    let cosine =
                        square(&a, &b) / ((square(&a, &a) + 1e-12) * (square(&b, &b) + 1e-12)).sqrt();
                    let near = target.eq(1).where_cond(1.0 - &cosine, 0.0);
                    let far = target.eq(-1).where_cond((cosine - margin).maximum(0.0), 0.0);
                    reduction.of(&(near + far), dtype, tag)
                },
            ))
        })
    }

    /// `max(-y·(x - other) + margin, 0)`: y is 1 where x should rank higher, -1 where lower. Operands broadcast.
    #[must_use]
    #[track_caller]
    pub fn margin_ranking_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: Reduction,
    ) -> Tensor {
        let tag = OpTag::new("margin_ranking_loss");
        let held = precision::adjusted(Class::Full, tag, [self, other, target]);
        let [this, other, target] = held.operands([self, other, target]);
        checked(tag, [this, other, target], [], |[a, b, _], []| {
            let dtype = joined(a, b)?;
            let key = (margin.to_bits(), reduction);
            let operands = [this, other, target];
            Ok(composite_of(
                "margin_ranking_loss",
                &key,
                operands,
                [],
                tag,
                |[a, b, y], []| {
                    let difference = cast(a, wide(dtype), tag) - cast(b, wide(dtype), tag);
                    let losses = (margin - difference * cast(y, wide(dtype), tag)).maximum(0.0);
                    reduction.of(&losses, dtype, tag)
                },
            ))
        })
    }

    /// `max(d(x, positive) - d(x, negative) + margin, 0)` with `d = ‖x - y + 1e-6‖ₚ` along the last axis; with `swap` the distance
    /// of positive and negative takes the place of the second one where it is less. Balntas et al., Learning Local Feature
    /// Descriptors with Triplets and Shallow Convolutional Neural Networks (2016).
    #[must_use]
    #[track_caller]
    pub fn triplet_margin_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        margin: f64,
        p: f64,
        swap: bool,
        reduction: Reduction,
    ) -> Tensor {
        let tag = OpTag::new("triplet_margin_loss");
        let held = precision::adjusted(Class::Full, tag, [self, positive, negative]);
        let [this, positive, negative] = held.operands([self, positive, negative]);
        checked(tag, [this, positive, negative], [], |[x, y, z], []| {
            let dtype = joined(x, y)?;
            if x.shape != y.shape || x.shape != z.shape || x.shape.is_empty() || joined(x, z)? != dtype {
                return Err(Refusal::new(format!(
                    "{}, {} and {}: they are alike",
                    x.shape, y.shape, z.shape
                )));
            }
            let last = x.shape.len() - 1;
            let key = (margin.to_bits(), p.to_bits(), swap, reduction);
            let operands = [this, positive, negative];
            Ok(composite_of(
                "triplet_margin_loss",
                &key,
                operands,
                [],
                tag,
                |operands, []| {
                    let [x, y, z] = operands.map(|tensor| cast(tensor, wide(dtype), tag));
                    let distance = |a: &Tensor, b: &Tensor| norm(&(a - b + 1e-6), p, last);
                    let mut far = distance(&x, &z);
                    if swap {
                        far = far.minimum(distance(&y, &z));
                    }
                    let losses = (distance(&x, &y) - far + margin).maximum(0.0);
                    reduction.of(&losses, dtype, tag)
                },
            ))
        })
    }
}
