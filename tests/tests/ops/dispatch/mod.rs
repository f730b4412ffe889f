//! Names of cases as calls.

mod linalg;
mod loss;
mod nn;

use crate::case::Attributes;
use thalweg::Tensor;

/// The outputs of the op `name`.
pub(crate) fn dispatch(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Vec<Tensor> {
    linalg::call(name, inputs, attributes)
        .or_else(|| nn::call(name, inputs, attributes))
        .or_else(|| loss::call(name, inputs, attributes))
        .unwrap_or_else(|| panic!("no op `{name}`"))
}
