//! Batch normalization. Ioffe and Szegedy, Batch Normalization (2015).

use crate::composite::with_rule;
use crate::hal::DType;
use crate::ops::checked::{apart, checked, composite_of, there, together, wide};
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
        normalized(
            this,
            [mean, variance],
            [weight.into(), bias.into()],
            (eps, None),
            tag,
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
        let output = normalized(
            this,
            [&mean, &variance],
            [weight.into(), bias.into()],
            (eps, Some(elements)),
            tag,
        );
        BatchNorm {
            output,
            mean,
            variance,
            elements,
        }
    }
}

/// `x` less the mean, by the standard deviation, times weight and with bias. With `elements` in a channel, the statistics are those
/// of `x`, and the gradient by `x` counts what they change.
fn normalized(
    x: &Tensor,
    statistics: [&Tensor; 2],
    scales: [Option<&Tensor>; 2],
    (eps, elements): (f64, Option<usize>),
    tag: OpTag,
) -> Tensor {
    let [mean, variance] = statistics;
    checked(
        tag,
        [x, mean, variance],
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
            let norm = Norm {
                dtype: float_of(ty.dtype),
                space: ty.shape.len() - 2,
                eps,
                tag,
            };
            let name = elements.map_or("batch_norm", |_| "batch_norm_train");
            Ok(composite_of(
                name,
                &(eps.to_bits(), elements),
                [x, mean, variance],
                scales,
                tag,
                |operands, scales| match elements {
                    None => norm.of(operands, scales),
                    Some(elements) => norm.of_own(operands, scales, elements),
                },
            ))
        },
    )
}

/// What the formulas of the op know besides operands.
#[derive(Clone, Copy)]
struct Norm {
    dtype: DType,
    /// Axes behind the channels.
    space: usize,
    eps: f64,
    tag: OpTag,
}

impl Norm {
    fn wide(self, x: &Tensor) -> Tensor {
        cast(x, wide(self.dtype), self.tag)
    }

    /// `[c]` beside `[n, c, space..]`.
    fn channel(self, x: &Tensor) -> Tensor {
        (0..self.space).fold(self.wide(x), |x, _| x.unsqueeze(-1))
    }

    fn of(self, [x, mean, variance]: [&Tensor; 3], scales: [Option<&Tensor>; 2]) -> Tensor {
        let [weight, bias] = scales.map(|scale| scale.map(|scale| self.channel(scale)));
        let mut factor = (self.channel(variance) + self.eps).rsqrt();
        if let Some(weight) = weight {
            factor *= weight;
        }
        let mut out = (self.wide(x) - self.channel(mean)) * factor;
        if let Some(bias) = bias {
            out += bias;
        }
        cast(&out, self.dtype, self.tag)
    }

    /// As [`Norm::of`] by the statistics of `x`. Its gradient goes to `x`, weight and bias by two sums for each channel, and none to
    /// the statistics.
    fn of_own(self, operands: [&Tensor; 3], scales: [Option<&Tensor>; 2], elements: usize) -> Tensor {
        let there = there(&scales);
        let body = |given: &[Tensor]| {
            let (operands, scales) = apart(given, there);
            self.of(operands, scales)
        };
        let rule = move |given: &[Tensor], _: &Tensor, gradient: &Tensor| {
            let ([x, mean, variance], scales) = apart(given, there);
            let [by_x, by_scales @ ..] = self.back([x, mean, variance], scales[0], gradient, elements);
            let scales = scales.into_iter().zip(by_scales);
            let by_scales = scales.filter_map(|(scale, by)| Some(cast(&by, scale?.dtype().ok()?, self.tag)));
            let dtype = x.dtype().unwrap_or(self.dtype);
            [Some(cast(&by_x, dtype, self.tag)), None, None]
                .into_iter()
                .chain(by_scales.map(Some))
                .collect()
        };
        with_rule(&together(&operands, &scales), self.tag, body, rule)
    }

    /// The gradients by `x`, weight and bias.
    fn back(
        self,
        [x, mean, variance]: [&Tensor; 3],
        weight: Option<&Tensor>,
        gradient: &Tensor,
        elements: usize,
    ) -> [Tensor; 3] {
        let axes = reduced(self.space + 2);
        let (gradient, centred) = (self.wide(gradient), self.wide(x) - self.channel(mean));
        let by_bias = gradient.sum_axes(&axes);
        let products = (&gradient * &centred).sum_axes(&axes);
        let inverse = (self.wide(variance) + self.eps).rsqrt();
        let by_weight = &products * &inverse;
        let share = 1.0 / elements as f64;
        let slope = self.channel(&(&by_weight * &inverse * share));
        let factor = match weight {
            Some(weight) => &inverse * self.wide(weight),
            None => inverse,
        };
        let by_x = (gradient - self.channel(&(&by_bias * share)) - centred * slope) * self.channel(&factor);
        [by_x, by_weight, by_bias]
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
