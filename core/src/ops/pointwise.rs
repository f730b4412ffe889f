//! Remainders, bounds, signs and predicates.

use super::operand::{IntoOperand, Operand};
use super::precision::{Class, adjusted, adjusted_operands};
use super::promotion::{brought, elementwise, float_of, join, map, unchanged};
use crate::composite::{composite, composite_with_gradient};
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::{Mixed, ScalarOp};
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

fn number(dtype: DType) -> Result<DType, Refusal> {
    match dtype {
        DType::Bool => Err(Refusal::new("bool has no remainders").help("cast to an integer or a float")),
        _ => Ok(dtype),
    }
}

/// Whether a remainder must move to the other side of 0 to have the divisor's sign.
fn strays(rest: &Tensor, divisor: &Tensor) -> Tensor {
    rest.ne(0).logical_and(rest.lt(0).ne(divisor.lt(0)))
}

/// The remainder with the sign of the divisor.
pub(crate) fn remainder(a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    elementwise("remainder", Mixed::Narrow, (), [a, b], number, tag, |[a, b]| {
        let rest = a.fmod(*b);
        strays(&rest, b).where_cond(&rest + *b, &rest)
    })
}

/// The quotient rounded down.
pub(crate) fn div_floor(a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    elementwise("div_floor", Mixed::Narrow, (), [a, b], number, tag, |[a, b]| {
        let rest = a.fmod(*b);
        let stray = strays(&rest, b);
        if !a.dtype().is_ok_and(DType::is_float) {
            let quotient = map(
                ScalarOp::Div,
                [a.into_operand(), b.into_operand()],
                unchanged,
                tag,
            );
            return stray.where_cond(&quotient - 1, &quotient);
        }
        // As Python: from the exact remainder, so that a quotient just below an integer is not rounded up to it.
        let quotient = (*a - &rest) / *b;
        let quotient = stray.where_cond(&quotient - 1.0, &quotient);
        let floor = quotient.floor();
        let floor = (&quotient - &floor).gt(0.5).where_cond(&floor + 1.0, floor);
        let zero = (*a / *b) * 0.0;
        let result = quotient.eq(0.0).where_cond(zero, floor);
        b.eq(0.0).where_cond(*a / *b, result)
    })
}

/// The greater or lesser of x and a limit; the gradient goes to x at the limit.
fn bound(op: ScalarOp, x: Operand<'_>, limit: Operand<'_>, tag: OpTag) -> Tensor {
    let recorded = |operand: &Operand<'_>| operand.tensor().is_some_and(|tensor| tensor.history.is_some());
    if !recorded(&x) && !recorded(&limit) {
        return map(op, [x, limit], unchanged, tag);
    }
    let operands = adjusted_operands(Class::Other, tag, [x, limit]);
    let ty = match join(&operands) {
        Ok(ty) => ty,
        Err(stop) => return stop.tensor(tag, &operands),
    };
    let (x, limit) = match (brought(&operands[0], ty, tag), brought(&operands[1], ty, tag)) {
        (Ok(x), Ok(limit)) => (x.into_owned(), limit.into_owned()),
        (Err(stop), _) | (_, Err(stop)) => return stop.tensor(tag, &operands),
    };
    let body = |inputs: &[Tensor; 2]| apply(Op::Map(op), &inputs.each_ref(), tag);
    composite_with_gradient(
        "bound",
        &op,
        [&x, &limit],
        tag,
        body,
        move |[x, limit], _, gradient| {
            let outside = if op == ScalarOp::Max {
                x.lt(limit)
            } else {
                x.gt(limit)
            };
            [
                Some(outside.where_cond(0.0, gradient)),
                Some(outside.where_cond(gradient, 0.0)),
            ]
        },
    )
}

impl Tensor {
    /// The remainder of `self / other` with the sign of `self`, as C's `fmod`. By 0 it is NaN for floats and 0 for integers.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[7.0_f32, -7.0], [2], &cx);
    /// assert_eq!(x.fmod(3).to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fmod<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        map(
            ScalarOp::Rem,
            [self.into_operand(), other.into_operand()],
            number,
            OpTag::new("fmod"),
        )
    }

    /// The remainder of `self / other` with the sign of `other`, as Python's `%` (and the operator `%` here). By 0 it is NaN
    /// for floats and 0 for integers.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[7.0_f32, -7.0], [2], &cx);
    /// assert_eq!(x.remainder(3).to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn remainder<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        remainder(self.into_operand(), other.into_operand(), OpTag::new("remainder"))
    }

    /// `self / other` rounded down, as Python's `//`; integers stay integers. By 0 it is ±inf or NaN for floats and 0 for
    /// integers (PyTorch raises an error there).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[7.0_f32, -7.0], [2], &cx);
    /// assert_eq!(x.div_floor(2).to_vec::<f32>()?, [3.0, -4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn div_floor<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        div_floor(self.into_operand(), other.into_operand(), OpTag::new("div_floor"))
    }

    /// `self` moved into `low..=high`: `min(max(x, low), high)`; NaN stays. Bounds broadcast. The gradient is 1 from `low`
    /// to `high`, both included.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 0.5, 3.0], [3], &cx);
    /// assert_eq!(x.clamp(0, 1).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp<'a, 'b>(&self, low: impl IntoOperand<'a>, high: impl IntoOperand<'b>) -> Tensor {
        let tag = OpTag::new("clamp");
        let operands = [self.into_operand(), low.into_operand(), high.into_operand()];
        if operands
            .iter()
            .filter_map(Operand::tensor)
            .any(|tensor| tensor.history.is_some())
        {
            let [x, low, high] = operands;
            let above = bound(ScalarOp::Max, x, low, tag);
            return bound(ScalarOp::Min, Operand::Owned(above), high, tag);
        }
        elementwise(
            "clamp",
            Mixed::Narrow,
            (),
            operands,
            unchanged,
            tag,
            |[x, low, high]| {
                let above = apply(Op::Map(ScalarOp::Max), &[x, low], tag);
                apply(Op::Map(ScalarOp::Min), &[&above, high], tag)
            },
        )
    }

    /// As [`clamp`](Tensor::clamp), under NumPy's name.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 0.5], [2], &cx);
    /// assert_eq!(x.clip(0, 1).to_vec::<f32>()?, [0.0, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn clip<'a, 'b>(&self, low: impl IntoOperand<'a>, high: impl IntoOperand<'b>) -> Tensor {
        self.clamp(low, high)
    }

    /// `self`, at least `low`; NaN stays.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.clamp_min(0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_min<'a>(&self, low: impl IntoOperand<'a>) -> Tensor {
        bound(
            ScalarOp::Max,
            self.into_operand(),
            low.into_operand(),
            OpTag::new("clamp_min"),
        )
    }

    /// `self`, at most `high`; NaN stays.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.clamp_max(0).to_vec::<f32>()?, [-1.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_max<'a>(&self, high: impl IntoOperand<'a>) -> Tensor {
        bound(
            ScalarOp::Min,
            self.into_operand(),
            high.into_operand(),
            OpTag::new("clamp_max"),
        )
    }

    /// `self + weight * (end - self)`, exact at the weights 0 and 1. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 8.0], [2], &cx);
    /// assert_eq!(x.lerp(4.0, 0.25).to_vec::<f32>()?, [1.0, 7.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn lerp<'a, 'b>(&self, end: impl IntoOperand<'a>, weight: impl IntoOperand<'b>) -> Tensor {
        let operands = [self.into_operand(), end.into_operand(), weight.into_operand()];
        let choose = |dtype| Ok(float_of(dtype));
        elementwise(
            "lerp",
            Mixed::Narrow,
            (),
            operands,
            choose,
            OpTag::new("lerp"),
            |[start, end, weight]| {
                let way = *end - *start;
                let near = weight.abs().lt(0.5);
                near.where_cond(*start + *weight * &way, *end - &way * (1.0 - *weight))
            },
        )
    }

    /// The fractional part with the sign of x; NaN for ±inf. Integers give 0.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.5_f32, -2.25], [2], &cx);
    /// assert_eq!(x.frac().to_vec::<f32>()?, [0.5, -0.25]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn frac(&self) -> Tensor {
        let tag = OpTag::new("frac");
        let held = adjusted(Class::Other, tag, [self]);
        composite("frac", &(), held.operands([self]), tag, |[x]| x - x.trunc())
    }

    /// The greater of each pair; of a NaN and a number the number.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[f32::NAN, 2.0], [2], &cx);
    /// assert_eq!(x.fmax(1).to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fmax<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        elementwise(
            "fmax",
            Mixed::Narrow,
            (),
            operands,
            unchanged,
            OpTag::new("fmax"),
            |[a, b]| a.ne(*a).where_cond(*b, b.ne(*b).where_cond(*a, a.maximum(*b))),
        )
    }

    /// The lesser of each pair; of a NaN and a number the number.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[f32::NAN, 2.0], [2], &cx);
    /// assert_eq!(x.fmin(1).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fmin<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        elementwise(
            "fmin",
            Mixed::Narrow,
            (),
            operands,
            unchanged,
            OpTag::new("fmin"),
            |[a, b]| a.ne(*a).where_cond(*b, b.ne(*b).where_cond(*a, a.minimum(*b))),
        )
    }

    /// Whether the sign is negative, of -0 too, as bool; false for NaN.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-0.0_f32, 1.0], [2], &cx);
    /// assert_eq!(x.signbit().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        let tag = OpTag::new("signbit");
        match self.dtype() {
            Ok(dtype) if dtype.is_storage() => tag.scope(|| self.cast(DType::F32).signbit()),
            Ok(dtype) if dtype.is_float() => composite("signbit", &(), [self], tag, |[x]| {
                x.lt(0).logical_or(x.eq(0).logical_and(x.reciprocal().lt(0)))
            }),
            Ok(DType::Bool) => tag.scope(|| self.ne(self)),
            _ => tag.scope(|| self.lt(0)),
        }
    }

    /// `|self|` with the sign of `other`, of -0 too; a NaN counts as positive. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[2.0_f32, -3.0], [2], &cx);
    /// assert_eq!(x.copysign(-1).to_vec::<f32>()?, [-2.0, -3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn copysign<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        let choose = |dtype| Ok(float_of(dtype));
        elementwise(
            "copysign",
            Mixed::Narrow,
            (),
            operands,
            choose,
            OpTag::new("copysign"),
            |[a, b]| a.signbit().ne(b.signbit()).where_cond(-*a, *a),
        )
    }

    /// 0 below 0, 1 above, `at_zero` at 0; 0 for NaN, as in PyTorch (NumPy hands it on).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-2.0_f32, 0.0, 2.0], [3], &cx);
    /// assert_eq!(x.heaviside(0.5).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn heaviside<'a>(&self, at_zero: impl IntoOperand<'a>) -> Tensor {
        let operands = [self.into_operand(), at_zero.into_operand()];
        elementwise(
            "heaviside",
            Mixed::Narrow,
            (),
            operands,
            unchanged,
            OpTag::new("heaviside"),
            |[x, at_zero]| {
                x.eq(0)
                    .where_cond(*at_zero, x.gt(0).cast(x.dtype().unwrap_or(DType::F32)))
            },
        )
    }

    /// Whether an element is NaN, as bool; false for integers.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, f32::NAN], [2], &cx);
    /// assert_eq!(x.isnan().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn isnan(&self) -> Tensor {
        OpTag::new("isnan").scope(|| self.ne(self))
    }

    /// Whether an element is inf or -inf, as bool; false for integers.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, f32::INFINITY], [2], &cx);
    /// assert_eq!(x.isinf().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn isinf(&self) -> Tensor {
        let tag = OpTag::new("isinf");
        match self.dtype() {
            Ok(dtype) if dtype.is_storage() => tag.scope(|| self.cast(DType::F32).isinf()),
            Ok(dtype) if dtype.is_float() => {
                composite("isinf", &(), [self], tag, |[x]| x.abs().eq(f64::INFINITY))
            }
            _ => tag.scope(|| self.ne(self)),
        }
    }

    /// Whether an element is neither inf nor NaN, as bool; true for integers.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, f32::NAN], [2], &cx);
    /// assert_eq!(x.isfinite().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn isfinite(&self) -> Tensor {
        let tag = OpTag::new("isfinite");
        match self.dtype() {
            Ok(dtype) if dtype.is_storage() => tag.scope(|| self.cast(DType::F32).isfinite()),
            Ok(dtype) if dtype.is_float() => {
                composite("isfinite", &(), [self], tag, |[x]| x.abs().lt(f64::INFINITY))
            }
            _ => tag.scope(|| self.eq(self)),
        }
    }

    /// Whether a pair is close: `|self - other| <= atol + rtol * |other|`, or equal; as bool. NaN is close to nothing.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.000001_f32, 1.1], [2], &cx);
    /// assert_eq!(x.isclose(1.0, 1e-5, 1e-8).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn isclose<'a>(&self, other: impl IntoOperand<'a>, rtol: f64, atol: f64) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        let choose = |dtype| Ok(float_of(dtype));
        let attributes = (rtol.to_bits(), atol.to_bits());
        elementwise(
            "isclose",
            Mixed::Narrow,
            attributes,
            operands,
            choose,
            OpTag::new("isclose"),
            |[a, b]| {
                let near = (*a - *b).abs().le(b.abs() * rtol + atol);
                a.eq(*b).logical_or(near.logical_and(b.isfinite()))
            },
        )
    }
}
