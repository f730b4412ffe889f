//! Functions of a million numbers, one at a time: what an instruction costs, as the numbers stay in the second cache or the third.

use crate::cases::{Case, Limit};
use crate::networks::{hal_error, numbers};
use thalweg::{Context, Result, Tensor};

const M: usize = 1_000_000;

type Function = fn(&Tensor) -> Tensor;

const CASES: [(&str, Function); 14] = [
    ("exp_1e6", Tensor::exp),
    ("log_1e6", Tensor::log),
    ("tanh_1e6", Tensor::tanh),
    ("sin_1e6", Tensor::sin),
    ("cos_1e6", Tensor::cos),
    ("erf_1e6", Tensor::erf),
    ("expm1_1e6", Tensor::expm1),
    ("log1p_1e6", Tensor::log1p),
    ("sqrt_1e6", Tensor::sqrt),
    ("sigmoid_1e6", Tensor::sigmoid),
    ("gelu_1e6", Tensor::gelu),
    ("silu_1e6", Tensor::silu),
    ("tan_1e6", Tensor::tan),
    ("pow_1e6", |x| x.pow(x)),
];

/// The cases whose names are wanted. Arguments are positive.
///
/// # Errors
/// Those of the ops.
pub fn cases(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let chosen = CASES.into_iter().filter(|(name, _)| wanted(name));
    Ok(chosen
        .map(|(name, function)| {
            let x = numbers(&[M], cx).abs() + 0.1;
            let device = cx.device().clone();
            let run = move || {
                function(&x).shape().map_err(hal_error)?;
                device.synchronize()
            };
            Case {
                name: name.into(),
                limit: Limit::Bytes(8.0 * M as f64),
                run: Box::new(run),
            }
        })
        .collect())
}
