//! Ops on the embedded CPU backend, eager and as graphs, against values that come from elsewhere.

mod arithmetic;
mod gradients;
mod index;
mod layout;
mod math;
mod reduce;
mod registry;

use crate::context::{Context, Mode};
use crate::hal::DType;
use crate::tensor::Tensor;

/// A context of each mode.
pub(super) fn contexts() -> [Context; 2] {
    [Mode::Eager, Mode::Graph].map(|mode| {
        let context = Context::new("cpu").unwrap();
        context.set_mode(mode);
        context
    })
}

/// Runs `check` in each mode.
pub(super) fn everywhere(check: impl Fn(&Context)) {
    contexts().iter().for_each(check);
}

/// The elements as f64, with the shape.
pub(super) fn read(tensor: &Tensor) -> (Vec<usize>, Vec<f64>) {
    let tensor = tensor.clone().ok().unwrap();
    (
        tensor.shape().unwrap().to_vec(),
        tensor.cast(DType::F64).to_vec::<f64>().unwrap(),
    )
}

/// The elements as f64.
pub(super) fn values(tensor: &Tensor) -> Vec<f64> {
    read(tensor).1
}

/// The elements as i64, for exact comparisons.
pub(super) fn integers(tensor: &Tensor) -> Vec<i64> {
    tensor.cast(DType::I64).to_vec::<i64>().unwrap()
}

/// The first line of the error that the tensor carries.
pub(super) fn refusal(tensor: Tensor) -> String {
    let error = tensor
        .ok()
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    error.lines().next().unwrap_or_default().to_owned()
}

/// The error of `got` in units in the last place that `wanted` has in `dtype`; 0 for equal values, NaN and signed zeros
/// included.
pub(super) fn ulps(got: f64, wanted: f64, dtype: DType) -> f64 {
    let (digits, least) = match dtype {
        DType::F64 => (52, -1074),
        DType::F32 => (23, -149),
        DType::F16 => (10, -24),
        _ => (7, -133),
    };
    if got.is_nan() && wanted.is_nan() || got == wanted && (got != 0.0 || got.signum() == wanted.signum()) {
        return 0.0;
    }
    if !got.is_finite() || !wanted.is_finite() {
        return f64::INFINITY;
    }
    let exponent = if wanted == 0.0 {
        least
    } else {
        wanted.abs().log2().floor() as i32 - digits
    };
    let unit = 2_f64.powi(exponent.max(least).max(-1022));
    (got - wanted).abs() / unit
}
