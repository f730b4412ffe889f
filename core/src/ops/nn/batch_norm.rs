//! Batch normalization. Ioffe and Szegedy, Batch Normalization (2015).

use crate::ops::checked::{checked, composite_of, wide};
use crate::ops::precision::{self, Class};
use crate::ops::{cast, float_of};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;

/// What batch normalization yields while it trains.
#[derive(Clone)]
pub struct BatchNorm {
    /// The normalized input.
    pub output: Tensor,
    /// Mean of each channel, `[c]`.
    pub mean: Tensor,
    /// Variance of each channel, divided by the number of elements, `[c]`.
    pub variance: Tensor,
    /// Elements of a channel.
    pub elements: usize,
}

impl BatchNorm {
    /// The running mean and variance after this batch: `(1 - momentum)·running + momentum·batch`, with the variance
    /// divided by one less than the number of elements.
    #[must_use]
    #[track_caller]
    pub fn running(&self, mean: &Tensor, variance: &Tensor, momentum: f64) -> (Tensor, Tensor) {
        let unbiased = self.elements as f64 / (self.elements as f64 - 1.0);
        (
            mean * (1.0 - momentum) + &self.mean * momentum,
            variance * (1.0 - momentum) + &self.variance * (momentum * unbiased),
        )
    }
}

impl Tensor {
    /// `(x - mean) / sqrt(variance + eps) · weight + bias` per channel, with statistics that are given: x `[n, c, space..]`, the
    /// others `[c]`. Keeps shape and dtype; f16 and bf16 are computed in f32.
    #[must_use]
    #[track_caller]
    pub fn batch_norm<'a>(
        &self,
        mean: &Tensor,
        variance: &Tensor,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'a Tensor>>,
        eps: f64,
    ) -> Tensor {
        let tag = OpTag::new("batch_norm");
        let held = precision::adjusted(Class::Full, tag, [self]);
        let [this] = held.operands([self]);
        let scales = [weight.into(), bias.into()];
        checked(
            tag,
            [this, mean, variance],
            scales,
            |[ty, mean_ty, var_ty], [weight_ty, bias_ty]| {
                let channels = channels(&ty.shape)?;
                let named = [
                    ("mean", Some(mean_ty)),
                    ("variance", Some(var_ty)),
                    ("weight", weight_ty),
                    ("bias", bias_ty),
                ];
                for (what, given) in named {
                    match given {
                        Some(given) if *given.shape != [channels] => {
                            return Err(Refusal::new(format!(
                                "{what} {} for {channels} channels",
                                given.shape
                            )));
                        }
                        _ => {}
                    }
                }
                let dtype = float_of(ty.dtype);
                let space = ty.shape.len() - 2;
                let operands = [this, mean, variance];
                Ok(composite_of(
                    "batch_norm",
                    &eps.to_bits(),
                    operands,
                    scales,
                    tag,
                    |[x, mean, var], scales| {
                        let channel = |tensor: &Tensor| {
                            let tensor = cast(tensor, wide(dtype), tag);
                            (0..space).fold(tensor, |tensor, _| tensor.unsqueeze(-1))
                        };
                        let [weight, bias] = scales.map(|scale| scale.map(channel));
                        let mut factor = (channel(var) + eps).rsqrt();
                        if let Some(weight) = weight {
                            factor *= weight;
                        }
                        let mut out = (cast(x, wide(dtype), tag) - channel(mean)) * factor;
                        if let Some(bias) = bias {
                            out += bias;
                        }
                        cast(&out, dtype, tag)
                    },
                ))
            },
        )
    }

    /// As [`Tensor::batch_norm`] with the mean and variance of the input itself, over the batch and all of space.
    /// The statistics are f32 for f16 and bf16. Less than two elements in a channel are refused.
    #[must_use]
    #[track_caller]
    pub fn batch_norm_train<'a>(
        &self,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'a Tensor>>,
        eps: f64,
    ) -> BatchNorm {
        let tag = OpTag::new("batch_norm_train");
        let held = precision::adjusted(Class::Full, tag, [self]);
        let [this] = held.operands([self]);
        let mut elements = 0;
        let mean = checked(tag, [this], [], |[ty], []| {
            let channels = channels(&ty.shape)?;
            elements = ty.shape.elements() / channels.max(1);
            if elements < 2 {
                return Err(
                    Refusal::new(format!("{elements} elements in a channel of {}", ty.shape))
                        .help("statistics need at least two"),
                );
            }
            let dtype = float_of(ty.dtype);
            let axes = reduced(ty.shape.len());
            Ok(composite_of("batch_mean", &(), [this], [], tag, |[x], []| {
                cast(x, wide(dtype), tag).mean_axes(&axes)
            }))
        });
        let variance = checked(tag, [this, &mean], [], |[ty, _], []| {
            let dtype = wide(float_of(ty.dtype));
            let axes = reduced(ty.shape.len());
            Ok(composite_of(
                "batch_variance",
                &(),
                [this, &mean],
                [],
                tag,
                |[x, mean], []| {
                    let mean = (2..ty.shape.len()).fold(mean.clone(), |mean, _| mean.unsqueeze(-1));
                    let centred = cast(x, dtype, tag) - mean;
                    (&centred * &centred).mean_axes(&axes)
                },
            ))
        });
        let output = tag.scope(|| this.batch_norm(&mean, &variance, weight, bias, eps));
        BatchNorm {
            output,
            mean,
            variance,
            elements,
        }
    }
}

fn channels(shape: &[usize]) -> Result<usize, Refusal> {
    shape.get(1).copied().ok_or_else(|| {
        Refusal::new(format!(
            "{shape:?} has no channels; it is batch, channels, then space"
        ))
    })
}

/// All axes but the channels.
fn reduced(rank: usize) -> Vec<i32> {
    (0..rank as i32).filter(|&axis| axis != 1).collect()
}
