//! Activation functions. Integers become f32, but for [`relu`](Tensor::relu); f16 and bf16 are computed in f32.

use super::formula::{formula, formulas, like};
use super::operand::IntoOperand;
use super::promotion::{map, unchanged};
use crate::composite::{composite, composite_with_gradient};
use crate::hal::ir::{Mixed, ScalarOp};
use crate::ops::precision::{self, Class};
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// Scale and factor of the scaled exponential linear unit (Klambauer et al. 2017).
const SELU_SCALE: f64 = 1.0507009873554805;
const SELU_ALPHA: f64 = 1.6732632423543772;

fn sigmoid(x: &Tensor) -> Tensor {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: &Tensor) -> Tensor {
    x.maximum(0.0) + (-x.abs()).exp().log1p()
}

/// x above 0, `factor * (e^(x / width) - 1)` below.
fn exponential_below(x: &Tensor, factor: f64, width: f64) -> Tensor {
    x.gt(0.0).where_cond(x, factor * (x.minimum(0.0) / width).expm1())
}

/// `value` from `low` to `high`, without the ends, else 0.
fn inside(x: &Tensor, low: f64, high: f64, value: f64) -> Tensor {
    x.le(low).logical_or(x.ge(high)).where_cond(0.0, like(x, value))
}

/// `√(2/π) (x + 0.044715 x³)`.
fn gelu_inner(x: &Tensor) -> Tensor {
    let root = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    x * (root + root * 0.044715 * (x * x))
}

formulas! {
    /// `1 / (1 + e^-x)`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.sigmoid().to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sigmoid: Narrow = sigmoid, |_, y| y * (1.0 - y);
    /// `ln(sigmoid(x))`, without underflow: `min(x, 0) - ln(1 + e^-|x|)`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-200.0_f32], [1], &cx);
    /// assert_eq!(x.logsigmoid().to_vec::<f32>()?, [-200.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    logsigmoid: Narrow = |x| -softplus(&-x), |x, _| sigmoid(&-x);
    /// `ln(1 + e^x)`, exact to the last digits for every x (PyTorch cuts it at 20).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[100.0_f32], [1], &cx);
    /// assert_eq!(x.softplus().to_vec::<f32>()?, [100.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    softplus: Full = softplus, |x, _| sigmoid(x);
    /// `x / (1 + |x|)`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, -1.0], [2], &cx);
    /// assert_eq!(x.softsign().to_vec::<f32>()?, [0.5, -0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    softsign: Narrow = |x| x / (1.0 + x.abs()), |x, _| {
        let divisor = 1.0 + x.abs();
        1.0 / (&divisor * &divisor)
    };
    /// x between 0 and 6.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 3.0, 9.0], [3], &cx);
    /// assert_eq!(x.relu6().to_vec::<f32>()?, [0.0, 3.0, 6.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    relu6: Narrow = |x| x.clamp(0.0, 6.0), |x, _| inside(x, 0.0, 6.0, 1.0);
    /// `relu6(x + 3) / 6`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-3.0_f32, 0.0, 3.0], [3], &cx);
    /// assert_eq!(x.hardsigmoid().to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    hardsigmoid: Narrow = |x| (x + 3.0).clamp(0.0, 6.0) / 6.0, |x, _| inside(x, -3.0, 3.0, 1.0 / 6.0);
    /// `x * relu6(x + 3) / 6` (Howard et al. 2019).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-3.0_f32, 3.0], [2], &cx);
    /// assert_eq!(x.hardswish().to_vec::<f32>()?, [-0.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    hardswish: Narrow = |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0, |x, _| {
        x.lt(-3.0).where_cond(0.0, x.le(3.0).where_cond(x / 3.0 + 0.5, 1.0))
    };
    /// The scaled exponential linear unit (Klambauer et al. 2017).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.selu().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    selu: Narrow = |x| SELU_SCALE * exponential_below(x, SELU_ALPHA, 1.0), |x, y| {
        x.gt(0.0).where_cond(SELU_SCALE, y + SELU_SCALE * SELU_ALPHA)
    };
    /// `x * sigmoid(x)`, also called swish; NaN at -inf, as in PyTorch.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.silu().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    silu: Narrow = |x| x / (1.0 + (-x).exp()), |x, _| {
        let s = sigmoid(x);
        &s * (1.0 + x * (1.0 - &s))
    };
    /// `x * tanh(softplus(x))` (Misra 2019).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.mish().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    mish: Narrow = |x| x * softplus(x).tanh(), |x, _| {
        let t = softplus(x).tanh();
        &t + x * sigmoid(x) * (1.0 - &t * &t)
    };
    /// `x Φ(x)`, with the distribution function Φ of the normal distribution (Hendrycks and Gimpel 2016). The absolute error is
    /// about one unit in the last place of x; small values at x < -2 have fewer digits.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 10.0], [2], &cx);
    /// assert_eq!(x.gelu().to_vec::<f32>()?, [0.0, 10.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    gelu: Narrow = |x| 0.5 * x * (1.0 + (x * FRAC_1_SQRT_2).erf()), |x, _| {
        let density = (-0.5 * x * x).exp() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
        0.5 * (1.0 + (x * FRAC_1_SQRT_2).erf()) + x * density
    };
    /// [`gelu`](Tensor::gelu) as `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`; PyTorch's `approximate="tanh"`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 10.0], [2], &cx);
    /// assert_eq!(x.gelu_tanh().to_vec::<f32>()?, [0.0, 10.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    gelu_tanh: Narrow = |x| 0.5 * x * (1.0 + gelu_inner(x).tanh()), |x, _| {
        let t = gelu_inner(x).tanh();
        let inner = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
        0.5 * (1.0 + &t) + 0.5 * x * (1.0 - &t * &t) * inner
    };
    /// `x - tanh(x)`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.tanhshrink().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    tanhshrink: Narrow = |x| x - x.tanh(), |x, _| {
        let t = x.tanh();
        &t * &t
    };
}

impl Tensor {
    /// x above 0, else 0; NaN stays. Integers stay integers. The gradient at 0 is 0.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.relu().to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        let tag = OpTag::new("relu");
        let held = precision::adjusted(Class::Other, tag, [self]);
        let [this] = held.operands([self]);
        if this.history.is_none() {
            return map(
                ScalarOp::Max,
                [this.into_operand(), 0.into_operand()],
                unchanged,
                tag,
            );
        }
        let value = |[x]: &[Tensor; 1]| {
            map(
                ScalarOp::Max,
                [x.into_operand(), 0.into_operand()],
                unchanged,
                tag,
            )
        };
        composite_with_gradient("relu", &(), [this], tag, value, move |_, y, gradient| {
            let inputs = [y, gradient];
            [Some(composite("relu gradient", &(), inputs, tag, |[y, g]| {
                y.le(0).where_cond(0, g)
            }))]
        })
    }

    /// x above 0, `slope * x` below.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-2.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.leaky_relu(0.5).to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        let value = move |x: &Tensor| x.gt(0.0).where_cond(x, x * slope);
        let tag = OpTag::new("leaky_relu");
        formula(
            "leaky_relu",
            Mixed::Narrow,
            slope.to_bits(),
            self,
            tag,
            value,
            move |x, _| x.gt(0.0).where_cond(1.0, like(x, slope)),
        )
    }

    /// x above 0, `alpha * (e^x - 1)` below.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.elu(1.0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        let value = move |x: &Tensor| exponential_below(x, alpha, 1.0);
        formula(
            "elu",
            Mixed::Narrow,
            alpha.to_bits(),
            self,
            OpTag::new("elu"),
            value,
            move |x, y| x.gt(0.0).where_cond(1.0, y + alpha),
        )
    }

    /// x above 0, `alpha * (e^(x / alpha) - 1)` below.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.celu(1.0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        let value = move |x: &Tensor| exponential_below(x, alpha, alpha);
        formula(
            "celu",
            Mixed::Narrow,
            alpha.to_bits(),
            self,
            OpTag::new("celu"),
            value,
            move |x, y| x.gt(0.0).where_cond(1.0, y / alpha + 1.0),
        )
    }

    /// x between `low` and `high`. The gradient at the ends is 0.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-3.0_f32, 0.5, 2.0], [3], &cx);
    /// assert_eq!(x.hardtanh(-1.0, 1.0).to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn hardtanh(&self, low: f64, high: f64) -> Tensor {
        let attributes = (low.to_bits(), high.to_bits());
        let value = move |x: &Tensor| x.clamp(low, high);
        formula(
            "hardtanh",
            Mixed::Narrow,
            attributes,
            self,
            OpTag::new("hardtanh"),
            value,
            move |x, _| inside(x, low, high, 1.0),
        )
    }

    /// x where `|x| > lambda`, else 0.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.5_f32, 0.75], [2], &cx);
    /// assert_eq!(x.hardshrink(0.5).to_vec::<f32>()?, [0.0, 0.75]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        let value = move |x: &Tensor| x.abs().le(lambda).where_cond(0.0, x);
        let tag = OpTag::new("hardshrink");
        formula(
            "hardshrink",
            Mixed::Narrow,
            lambda.to_bits(),
            self,
            tag,
            value,
            move |x, _| x.abs().le(lambda).where_cond(0.0, like(x, 1.0)),
        )
    }

    /// x moved towards 0 by `lambda`, 0 where it would pass it.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.25_f32, 1.0, -1.0], [3], &cx);
    /// assert_eq!(x.softshrink(0.5).to_vec::<f32>()?, [0.0, 0.5, -0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn softshrink(&self, lambda: f64) -> Tensor {
        let value = move |x: &Tensor| {
            x.gt(lambda)
                .where_cond(x - lambda, x.lt(-lambda).where_cond(x + lambda, x * 0.0))
        };
        let tag = OpTag::new("softshrink");
        formula(
            "softshrink",
            Mixed::Narrow,
            lambda.to_bits(),
            self,
            tag,
            value,
            move |x, _| x.abs().le(lambda).where_cond(0.0, like(x, 1.0)),
        )
    }

    /// x where it is above `threshold`, else `value`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.threshold(1.0, 9.0).to_vec::<f32>()?, [9.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn threshold(&self, threshold: f64, value: f64) -> Tensor {
        let attributes = (threshold.to_bits(), value.to_bits());
        let result = move |x: &Tensor| x.le(threshold).where_cond(value, x);
        formula(
            "threshold",
            Mixed::Narrow,
            attributes,
            self,
            OpTag::new("threshold"),
            result,
            move |x, _| x.le(threshold).where_cond(0.0, like(x, 1.0)),
        )
    }

    /// x above 0, `weight * x` below. A vector of weights goes along axis 1, that of the channels; others broadcast. Weights
    /// have a gradient too.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-4.0_f32, 4.0], [2], &cx);
    /// assert_eq!(x.prelu(&Tensor::scalar(0.25_f32, &cx)).to_vec::<f32>()?, [-1.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        let tag = OpTag::new("prelu");
        let weight = match (self.rank(), weight.rank()) {
            (Ok(rank @ 3..), Ok(1)) => {
                tag.scope(|| (2..rank).fold(weight.clone(), |weight, _| weight.unsqueeze(-1)))
            }
            _ => weight.clone(),
        };
        let operands = [self.into_operand(), weight.into_operand()];
        super::elementwise(
            "prelu",
            Mixed::Narrow,
            (),
            operands,
            unchanged,
            tag,
            |[x, weight]| x.gt(0).where_cond(*x, *weight * *x),
        )
    }
}
