//! Names of cases as calls.

mod elementwise;
mod indexed;
mod linalg;
mod loss;
mod nn;
mod quantized;
mod reduction;
mod shape;

use crate::case::Attributes;
use thalweg::Tensor;

/// The outputs of the op `name`.
pub(crate) fn dispatch(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Vec<Tensor> {
    [
        elementwise::call,
        reduction::call,
        shape::call,
        indexed::call,
        linalg::call,
        nn::call,
        loss::call,
        quantized::call,
    ]
    .iter()
    .find_map(|call| call(name, inputs, attributes))
    .unwrap_or_else(|| panic!("no op `{name}`"))
}
