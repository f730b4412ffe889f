//! Circular and hyperbolic functions that are written with others.
//!
//! Relative errors stay below 8 units in the last place of f64 and f32 where the device's `sin`, `cos`, `exp`, `expm1`,
//! `log1p` and `atan2` stay below 2. Integers become f32; f16 and bf16 are computed in f32. A signed zero stays itself in odd
//! functions.

use super::formula::{formula, formulas};
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;
use std::f64::consts::LN_2;

/// Above it, `sqrt(x² ± 1)` is x in f32 and f64.
const LARGE: f64 = (1_u64 << 28) as f64;

/// An odd function, from its values at 0 and above.
fn odd(x: &Tensor, f: impl Fn(&Tensor) -> Tensor) -> Tensor {
    x.sign() * f(&x.abs())
}

/// `ln(1 + small)`, or `ln(2 x)` where x is large.
fn log1p_or_large(x: &Tensor, small: Tensor) -> Tensor {
    let large = x.gt(LARGE);
    let base = large.where_cond(x - 1.0, small).log1p();
    large.where_cond(&base + LN_2, base)
}

/// `sqrt((1 - x) (1 + x))`, exact to the last digits near ±1.
fn leg(x: &Tensor) -> Tensor {
    ((1.0 - x) * (1.0 + x)).sqrt()
}

fn sinh(x: &Tensor) -> Tensor {
    // e^(|x|/2) - 1 overflows where the result does, far above the bound.
    let bound = match x.dtype() {
        Ok(crate::hal::DType::F64) => 1400.0,
        _ => 170.0,
    };
    odd(x, |x| {
        let m = (x.minimum(bound) * 0.5).expm1();
        let q = &m / (&m + 1.0);
        (&m + &q) * (1.0 + 0.5 * &m * &q)
    })
}

fn cosh(x: &Tensor) -> Tensor {
    let root = (x.abs() * 0.5).exp();
    let half = 0.5 * &root * root;
    &half + 0.25 / &half
}

formulas! {
    /// Tangent of radians.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.tan().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    tan: Full = |x| x.sin() / x.cos(), |_, y| 1.0 + y * y;
    /// Arc sine in radians; NaN outside -1 to 1.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.asin().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    asin: Full = |x| x.atan2(leg(x)), |x, _| 1.0 / leg(x);
    /// Arc cosine in radians; NaN outside -1 to 1.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32], [1], &cx);
    /// assert_eq!(x.acos().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    acos: Full = |x| leg(x).atan2(x), |x, _| -1.0 / leg(x);
    /// Arc tangent in radians.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.atan().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    atan: Narrow = |x| x.atan2(1.0), |x, _| 1.0 / (1.0 + x * x);
    /// Hyperbolic sine.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.sinh().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sinh: Full = sinh, |x, _| cosh(x);
    /// Hyperbolic cosine.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.cosh().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    cosh: Full = cosh, |x, _| sinh(x);
    /// Inverse of the hyperbolic sine.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.asinh().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    asinh: Full = |x| odd(x, |x| {
        let square = x * x;
        log1p_or_large(x, x + &square / (1.0 + (&square + 1.0).sqrt()))
    }), |x, _| 1.0 / x.hypot(1.0);
    /// Inverse of the hyperbolic cosine; NaN below 1.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32], [1], &cx);
    /// assert_eq!(x.acosh().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    acosh: Full = |x| {
        let above = x - 1.0;
        log1p_or_large(x, &above + above.sqrt() * (&above + 2.0).sqrt())
    }, |x, _| 1.0 / ((x - 1.0).sqrt() * (x + 1.0).sqrt());
    /// Inverse of the hyperbolic tangent; ±inf at ±1, NaN outside.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 1.0], [2], &cx);
    /// assert_eq!(x.atanh().to_vec::<f32>()?, [0.0, f32::INFINITY]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    atanh: Narrow = |x| odd(x, |x| 0.5 * (2.0 * x / (1.0 - x)).log1p()), |x, _| 1.0 / ((1.0 - x) * (1.0 + x));
}
