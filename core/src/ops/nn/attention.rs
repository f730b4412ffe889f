//! Attention. Vaswani et al., Attention Is All You Need (2017).

use crate::grad::attention_weights;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::ops::Key;
use crate::ops::checked::{checked, composite_of, wide};
use crate::ops::precision::{self, Class};
use crate::ops::{broadcast, cast, expanded};
use crate::options;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// What queries may see: everything, scaled by `1 / sqrt(width)`, unless said otherwise.
#[derive(Clone, Copy, Default)]
pub struct AttentionOptions<'a> {
    mask: Option<&'a Tensor>,
    causal: bool,
    scale: Option<f64>,
    dropout: Option<(f64, &'a Key)>,
}

options! { AttentionOptions<'a> {
    /// A tensor that broadcasts to `[.., queries, keys]`: bool, true where a query sees a key, or numbers that are added to
    /// the scores.
    mask: &'a Tensor,
    /// Query i sees keys 0 to i.
    causal: bool,
    /// What the products of queries and keys are multiplied by.
    scale: f64,
} }

impl<'a> AttentionOptions<'a> {
    /// The defaults.
    pub fn new() -> AttentionOptions<'a> {
        AttentionOptions::default()
    }

    /// Sets weights to 0 with probability `p`, and divides the others by `1 - p`; the same key drops the same weights.
    #[must_use]
    pub fn dropout(mut self, p: f64, key: &'a Key) -> AttentionOptions<'a> {
        self.dropout = Some((p, key));
        self
    }
}

impl Tensor {
    /// `softmax(scale · q · kᵀ + mask) · v`: queries (this tensor) `[.., i, d]`, keys `[.., j, d]`, values `[.., j, e]`, result
    /// `[.., i, e]`; the axes in front broadcast. Scores of f16 and bf16 are f32. A query that sees no key gets zeros. A device that has
    /// the op keeps neither scores nor weights, so memory grows with positions, not with their square, but for dropout and in
    /// gradients, which compute the weights again.
    ///
    /// ```no_run
    /// # use thalweg::{ops::AttentionOptions, Tensor};
    /// # fn f(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    /// q.scaled_dot_product_attention(k, v, AttentionOptions::new().causal(true))
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        keys: &Tensor,
        values: &Tensor,
        options: AttentionOptions<'_>,
    ) -> Tensor {
        let tag = OpTag::new("scaled_dot_product_attention");
        let held = precision::adjusted(Class::Matrix, tag, [self, keys, values]);
        let [this, keys, values] = held.operands([self, keys, values]);
        let operands = [this, keys, values];
        let result = checked(tag, operands, [options.mask], |[q, k, v], [mask]| {
            let sizes = Sizes::new(q, k, v, mask)?;
            let scale = options.scale.unwrap_or(1.0 / (sizes.depth as f64).sqrt());
            let attributes = (options.causal, scale.to_bits());
            if let Some((p, key)) = options.dropout {
                let name = "attention_weights";
                let body = |[q, k]: [&Tensor; 2], [mask]: [Option<&Tensor>; 1]| {
                    let [q, k] =
                        [(q, sizes.q), (k, sizes.k)].map(|(operand, shape)| expanded(operand, shape, tag));
                    let mask = mask.map(|mask| expanded(&masking(mask, sizes.dtype, tag), sizes.mask, tag));
                    let weights = attention_weights(&q, &k, mask.as_ref(), options.causal, scale);
                    cast(&weights, sizes.dtype, tag)
                };
                let weights = composite_of(name, &attributes, [this, keys], [options.mask], tag, body);
                return Ok(tag.scope(|| weights.dropout(p, key).matmul(values)));
            }
            let op = Op::Attention {
                causal: options.causal,
                scale: scale.to_bits(),
            };
            let body = |[q, k, v]: [&Tensor; 3], [mask]: [Option<&Tensor>; 1]| {
                let [q, k, v] = [(q, sizes.q), (k, sizes.k), (v, sizes.v)]
                    .map(|(operand, shape)| expanded(operand, shape, tag));
                match mask {
                    None => apply(op.clone(), &[&q, &k, &v], tag),
                    Some(mask) => {
                        let mask = expanded(&masking(mask, sizes.dtype, tag), sizes.mask, tag);
                        apply(op.clone(), &[&q, &k, &v, &mask], tag)
                    }
                }
            };
            Ok(composite_of(
                "attention",
                &attributes,
                operands,
                [options.mask],
                tag,
                body,
            ))
        });
        held.result(result, tag)
    }

    /// Attention of `heads` heads over projected queries (this tensor) `[b, i, heads·d]`, keys `[b, j, heads·d]` and values
    /// `[b, j, heads·e]`: `[b, i, heads·e]`. A mask broadcasts to `[b, heads, i, j]`.
    #[must_use]
    #[track_caller]
    pub fn multi_head_attention(
        &self,
        keys: &Tensor,
        values: &Tensor,
        heads: usize,
        options: AttentionOptions<'_>,
    ) -> Tensor {
        let tag = OpTag::new("multi_head_attention");
        let held = precision::adjusted(Class::Matrix, tag, [self, keys, values]);
        let [this, keys, values] = held.operands([self, keys, values]);
        let result = checked(tag, [this, keys, values], [options.mask], |types, [_]| {
            for ty in types {
                let fits = ty.shape.len() == 3 && heads > 0 && ty.shape[2].is_multiple_of(heads);
                if !fits {
                    return Err(Refusal::new(format!(
                        "{} in {heads} heads; it is [b, positions, width]",
                        ty.shape
                    )));
                }
            }
            let [q, _, v] = types.map(|ty| ty.shape);
            Ok(tag.scope(|| {
                let split = |x: &Tensor| match x.ty() {
                    Ok(Type { shape, .. }) => x
                        .reshape([shape[0], shape[1], heads, shape[2] / heads])
                        .transpose(1, 2),
                    Err(_) => x.clone(),
                };
                split(this)
                    .scaled_dot_product_attention(&split(keys), &split(values), options)
                    .transpose(1, 2)
                    .reshape([q[0], q[1], v[2]])
            }))
        });
        held.result(result, tag)
    }
}

/// The shapes that the op takes, with the axes in front broadcast.
struct Sizes {
    q: Shape,
    k: Shape,
    v: Shape,
    mask: Shape,
    depth: usize,
    dtype: DType,
}

impl Sizes {
    fn new(q: Type, k: Type, v: Type, mask: Option<Type>) -> Result<Sizes, Refusal> {
        let split = |shape: &Shape| {
            shape
                .split_last_chunk::<2>()
                .map(|(front, &last)| (Shape::of(front), last))
        };
        let (
            Some((q_front, [queries, depth])),
            Some((k_front, [keys, k_depth])),
            Some((v_front, [rows, width])),
        ) = (split(&q.shape), split(&k.shape), split(&v.shape))
        else {
            return Err(Refusal::new(
                "queries, keys and values are [.., positions, width]",
            ));
        };
        let shapes = || {
            Refusal::new(format!(
                "queries {}, keys {}, values {}",
                q.shape, k.shape, v.shape
            ))
        };
        if k_depth != depth || rows != keys {
            return Err(
                shapes().help("queries and keys have one width, keys and values one number of positions")
            );
        }
        if q.dtype != k.dtype || q.dtype != v.dtype || !q.dtype.is_float() || q.dtype.is_storage() {
            return Err(Refusal::new(format!(
                "queries {}, keys {}, values {}",
                q.dtype, k.dtype, v.dtype
            ))
            .help("cast them to one of f32, f16, bf16 and f64"));
        }
        let mut fronts = vec![q_front, k_front, v_front];
        if let Some(mask) = mask {
            if mask.dtype != DType::Bool && (!mask.dtype.is_float() || mask.dtype.is_storage()) {
                return Err(Refusal::new(format!("mask of {}", mask.dtype)).help("it is bool or floating"));
            }
            let (front, last) = mask.shape.split_at(mask.shape.len().saturating_sub(2));
            let fits = broadcast(&[Shape::of(last), Shape::of(&[queries, keys])])
                .is_ok_and(|shape| *shape == [queries, keys]);
            if !fits {
                return Err(Refusal::new(format!(
                    "a mask {} for {queries} queries and {keys} keys",
                    mask.shape
                ))
                .help("it broadcasts to [.., queries, keys]"));
            }
            fronts.push(Shape::of(front));
        }
        let front = broadcast(&fronts).map_err(|_| {
            let mask = mask.map_or_else(String::new, |mask| format!(", mask {}", mask.shape));
            Refusal::new(format!(
                "queries {}, keys {}, values {}{mask}",
                q.shape, k.shape, v.shape
            ))
            .help("the axes in front broadcast")
        })?;
        let with = |rows: usize, columns: usize| Shape::checked(&[&*front, &[rows, columns]].concat());
        Ok(Sizes {
            q: with(queries, depth)?,
            k: with(keys, depth)?,
            v: with(keys, width)?,
            mask: with(queries, keys)?,
            depth,
            dtype: q.dtype,
        })
    }
}

/// A mask in a dtype that the op takes.
fn masking(mask: &Tensor, dtype: DType, tag: OpTag) -> Tensor {
    match mask.dtype() {
        Ok(DType::Bool) | Err(_) => mask.clone(),
        Ok(_) => cast(mask, wide(dtype), tag),
    }
}
