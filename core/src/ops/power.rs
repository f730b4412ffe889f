//! Powers, roots and logarithms.

use super::binary::arithmetic;
use super::formula::{formula, formula2};
use super::operand::{IntoOperand, Operand, Scalar};
use super::precision::{Class, adjusted, adjusted_operands};
use super::promotion::{elementwise, float_of, join, map, unchanged};
use crate::hal::DType;
use crate::hal::ir::{Mixed, ScalarOp};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use std::f64::consts::{LN_2, LN_10, LOG2_E, LOG10_E};

/// The power `exponent` of integers by repeated squaring, modulo their width; negative powers as the integer part of the
/// real ones.
fn integer_power(base: &Tensor, exponent: &Tensor, dtype: DType) -> Tensor {
    let (mut square, mut rest) = (base.clone(), exponent.clone());
    let mut power: Option<Tensor> = None;
    let bits = 8 * dtype.size() - usize::from(dtype.class() == thalweg_hal::dtype::Class::Signed);
    for bit in 0..bits {
        let odd = (&rest & 1).ne(0);
        power = Some(match power {
            None => odd.where_cond(&square, square.eq(&square).cast(dtype)),
            Some(power) => odd.where_cond(&power * &square, power),
        });
        if bit + 1 < bits {
            square = &square * &square;
            rest = &rest >> 1;
        }
    }
    let power = power.unwrap_or_else(|| base.clone());
    if dtype.class() != thalweg_hal::dtype::Class::Signed {
        return power;
    }
    // 1/1 and 1/-1 are integers; 1/0 is 0 as every division by 0 here.
    let reciprocal = base.abs().eq(1).where_cond(&power, 0);
    exponent.lt(0).where_cond(reciprocal, power)
}

/// `a` to the power `b`.
pub(crate) fn power(a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    let [a, b] = adjusted_operands(Class::Full, tag, [a, b]);
    let dtype = match join(&[a.clone(), b.clone()]) {
        Ok(ty) => ty.dtype,
        Err(stop) => return stop.tensor(tag, &[a, b]),
    };
    if let (Some(x), Operand::Scalar(exponent)) = (a.tensor(), &b)
        && let Some(result) = small_power(x, *exponent, dtype, tag)
    {
        return result;
    }
    if dtype.is_float() {
        return map(ScalarOp::Pow, [a, b], unchanged, tag);
    }
    let choose = |dtype| match dtype {
        DType::Bool => Err(Refusal::new("bool has no powers").help("cast to an integer or a float")),
        _ => Ok(dtype),
    };
    elementwise("power", Mixed::Narrow, (), [a, b], choose, tag, |[a, b]| {
        integer_power(a, b, dtype)
    })
}

/// Powers that are products.
fn small_power(x: &Tensor, exponent: Scalar, dtype: DType, tag: OpTag) -> Option<Tensor> {
    if x.dtype().ok()? != dtype || dtype == DType::Bool {
        return None;
    }
    let product = |a: &Tensor, b: &Tensor| arithmetic(ScalarOp::Mul, a.into_operand(), b.into_operand(), tag);
    match exponent.to_f64() {
        1.0 => Some(x.clone()),
        2.0 => Some(product(x, x)),
        3.0 => {
            Some(tag.scope(|| {
                crate::composite::composite("cube", &(), [x], tag, |[x]| product(&product(x, x), x))
            }))
        }
        _ => None,
    }
}

/// `estimate` of a logarithm, made exact where x is the power `base^n` of an integer n.
fn logarithm(x: &Tensor, base: f64, factor: f64) -> Tensor {
    let estimate = x.log() * factor;
    let nearest = estimate.round();
    let exact = power(base.into_operand(), (&nearest).into_operand(), OpTag::new("log")).eq(x);
    exact.where_cond(nearest, estimate)
}

fn hypot(a: &Tensor, b: &Tensor) -> Tensor {
    let (a, b) = (a.abs(), b.abs());
    let (most, least) = (a.maximum(&b), a.minimum(&b));
    let ratio = &least / most.eq(0.0).where_cond(1.0, &most);
    let length = &most * (1.0 + &ratio * &ratio).sqrt();
    let infinite = a.eq(f64::INFINITY).logical_or(b.eq(f64::INFINITY));
    infinite.where_cond(f64::INFINITY, length)
}

fn logaddexp(a: &Tensor, b: &Tensor) -> Tensor {
    let equal = a.eq(b);
    let distance = equal.where_cond(0.0, (a - b).abs());
    a.maximum(b) + (-distance).exp().log1p()
}

impl Tensor {
    /// `self` to the power `exponent`, as C's `pow` for floats: `x^0` is 1 for every x, negative x to a power that is no
    /// integer NaN. Integers to integers stay integers and wrap; a negative power of an integer is 0, but of 1 and -1
    /// (PyTorch too for tensors; it refuses negative numbers, NumPy both).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[2.0_f32, -1.0], [2], &cx);
    /// assert_eq!(x.pow(3).to_vec::<f32>()?, [8.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn pow<'a>(&self, exponent: impl IntoOperand<'a>) -> Tensor {
        power(self.into_operand(), exponent.into_operand(), OpTag::new("pow"))
    }

    /// `x * x`; dtypes as [`mul`](Tensor::mul).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[2.0_f32, -3.0], [2], &cx);
    /// assert_eq!(x.square().to_vec::<f32>()?, [4.0, 9.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn square(&self) -> Tensor {
        arithmetic(
            ScalarOp::Mul,
            self.into_operand(),
            self.into_operand(),
            OpTag::new("square"),
        )
    }

    /// `1 / x`; integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[2.0_f32, 4.0], [2], &cx);
    /// assert_eq!(x.reciprocal().to_vec::<f32>()?, [0.5, 0.25]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn reciprocal(&self) -> Tensor {
        let tag = OpTag::new("reciprocal");
        let held = adjusted(Class::Full, tag, [self]);
        let [x] = held.operands([self]);
        super::binary::divide(Operand::Scalar(1.0.into()), x.into_operand(), tag)
    }

    /// `1 / √x`, within 1.5 units in the last place; inf at 0, NaN below. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 4.0], [2], &cx);
    /// assert_eq!(x.rsqrt().to_vec::<f32>()?, [1.0, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn rsqrt(&self) -> Tensor {
        formula(
            "rsqrt",
            Mixed::Full,
            (),
            self,
            OpTag::new("rsqrt"),
            |x| 1.0 / x.sqrt(),
            |_, y| -0.5 * y * y * y,
        )
    }

    /// 2^x; exact for integral x where the device's `pow` is. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3.0_f32, -1.0], [2], &cx);
    /// assert_eq!(x.exp2().to_vec::<f32>()?, [8.0, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn exp2(&self) -> Tensor {
        formula(
            "exp2",
            Mixed::Full,
            (),
            self,
            OpTag::new("exp2"),
            |x| power(2.0.into_operand(), x.into_operand(), OpTag::new("exp2")),
            |_, y| y * LN_2,
        )
    }

    /// Binary logarithm within 3 units in the last place, and exact for powers of 2; -inf at 0, NaN below. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[8.0_f32, 0.5], [2], &cx);
    /// assert_eq!(x.log2().to_vec::<f32>()?, [3.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn log2(&self) -> Tensor {
        let value = |x: &Tensor| logarithm(x, 2.0, LOG2_E);
        formula(
            "log2",
            Mixed::Full,
            (),
            self,
            OpTag::new("log2"),
            value,
            |x, _| 1.0 / (x * LN_2),
        )
    }

    /// Decimal logarithm within 3 units in the last place, and exact for powers of 10; -inf at 0, NaN below. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1000.0_f32, 1.0], [2], &cx);
    /// assert_eq!(x.log10().to_vec::<f32>()?, [3.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn log10(&self) -> Tensor {
        let value = |x: &Tensor| logarithm(x, 10.0, LOG10_E);
        formula(
            "log10",
            Mixed::Full,
            (),
            self,
            OpTag::new("log10"),
            value,
            |x, _| 1.0 / (x * LN_10),
        )
    }

    /// `√(self² + other²)` without overflow on the way, within 2 units in the last place; inf with an inf, even beside NaN.
    /// Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3.0_f32], [1], &cx);
    /// assert_eq!(x.hypot(4.0).to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn hypot<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let tag = OpTag::new("hypot");
        formula2(
            "hypot",
            Mixed::Narrow,
            self.into_operand(),
            other.into_operand(),
            tag,
            hypot,
            |a, b, y| {
                let divisor = y.eq(0.0).where_cond(1.0, y);
                [a / &divisor, b / divisor]
            },
        )
    }

    /// `ln(e^self + e^other)` without overflow. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32], [1], &cx);
    /// assert_eq!(x.logaddexp(f64::NEG_INFINITY).to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let tag = OpTag::new("logaddexp");
        formula2(
            "logaddexp",
            Mixed::Full,
            self.into_operand(),
            other.into_operand(),
            tag,
            logaddexp,
            |a, b, y| [(a - y).exp(), (b - y).exp()],
        )
    }

    /// `self * ln(other)`, and 0 where `self` is 0, unless `other` is NaN. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.xlogy(0.0).to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn xlogy<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let tag = OpTag::new("xlogy");
        let value = |x: &Tensor, y: &Tensor| {
            let defined = x.eq(0.0).logical_and(y.eq(y));
            defined.where_cond(0.0, x * y.log())
        };
        formula2(
            "xlogy",
            Mixed::Full,
            self.into_operand(),
            other.into_operand(),
            tag,
            value,
            |x, y, _| {
                let nothing = x.eq(0.0).logical_and(y.le(0.0));
                [nothing.where_cond(0.0, y.log()), x / y]
            },
        )
    }

    /// The angle of the point `(other, self)` in radians, from -π to π, as C's `atan2`. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.atan2(1.0).to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn atan2<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let choose = |dtype| Ok(float_of(dtype));
        map(
            ScalarOp::Atan2,
            [self.into_operand(), other.into_operand()],
            choose,
            OpTag::new("atan2"),
        )
    }
}
