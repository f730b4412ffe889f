//! The complementary error function and the logit.

use super::formula::{formula, formulas};
use super::operand::IntoOperand;
use super::promotion::{map, unchanged};
use crate::hal::ir::ScalarOp;
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;
use std::f64::consts::FRAC_2_SQRT_PI;

/// `(1 + 2 x) e^(x²) erfc(x)` for x ≥ 0 as a polynomial in `t = (x - 3.75) / (x + 3.75)`, in rising powers. The form is that of
/// M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞" (1981); the
/// coefficients are the Chebyshev series of degree 22 at 60 digits, in powers of t. Truncated terms sum to 1.3e-16.
const ERFC: [f64; 23] = [
    1.2375126308378275,
    -0.14024059858554525,
    0.0035854154854790257,
    0.08227673848999506,
    -0.10880393014244462,
    0.09230432116428125,
    -0.05869339857664934,
    0.02836227737211114,
    -0.009746579683265262,
    0.0017556261651970652,
    0.000293714378044958,
    -0.00029015535246077655,
    5.164652974177416e-05,
    2.2387565714911816e-05,
    -1.1438048033346894e-05,
    -9.792625707303523e-07,
    1.7419821586224816e-06,
    -5.084465378687302e-08,
    -2.4857126248016745e-07,
    1.879082322370048e-08,
    3.197926671666804e-08,
    -1.9551358868985616e-09,
    -2.623107347133476e-09,
];

fn fma(a: &Tensor, b: &Tensor, c: impl IntoOperand<'static>) -> Tensor {
    let operands = [a.into_operand(), b.into_operand(), c.into_operand()];
    map(ScalarOp::Fma, operands, unchanged, OpTag::new("fma"))
}

fn erfc(x: &Tensor) -> Tensor {
    // e^(-900) is 0 in every dtype.
    let size = x.abs().minimum(30.0);
    let t = (&size - 3.75) / (&size + 3.75);
    let [rest @ .., last] = ERFC;
    let start = t.mul(last) + rest[21];
    let polynomial = rest[..21]
        .iter()
        .rev()
        .fold(start, |sum, &coefficient| fma(&sum, &t, coefficient));
    // The rounding error of the square counts x² times as much in its exponential.
    let square = &size * &size;
    let error = fma(&size, &size, -&square);
    let power = (-square).exp();
    let power = &power - &power * error;
    let far = power * (polynomial / (1.0 + 2.0 * &size));
    x.lt(0.0).where_cond(2.0 - &far, far)
}

formulas! {
    /// `1 - erf(x)`, within 8 units in the last place also where that cancels. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 20.0], [2], &cx);
    /// assert_eq!(x.erfc().to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    erfc: Narrow = erfc, |x, _| -FRAC_2_SQRT_PI * (-(x * x)).exp();
    /// `ln(x / (1 - x))`, the inverse of [`sigmoid`](Tensor::sigmoid); ±inf at 1 and 0, NaN outside. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.5_f32, 1.0], [2], &cx);
    /// assert_eq!(x.logit().to_vec::<f32>()?, [0.0, f32::INFINITY]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    logit: Narrow = |x| (x / (1.0 - x)).log(), |x, _| 1.0 / (x * (1.0 - x));
}
