//! Integers that stand for real numbers.

use crate::case::Attributes;
use thalweg::ops::ConvOptions;
use thalweg::{DType, Tensor};

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let x = inputs.first()?;
    Some(match name {
        "matmul_integer" => vec![x.matmul_integer(&inputs[1], inputs.get(2), inputs.get(3))],
        "conv_integer" => {
            let number = |key, usual| attributes.get::<usize>(key).unwrap_or(usual);
            let options = ConvOptions::new()
                .stride(number("stride", 1))
                .padding(number("padding", 0))
                .dilation(number("dilation", 1))
                .groups(number("groups", 1));
            vec![x.conv_integer(&inputs[1], inputs.get(2), inputs.get(3), options)]
        }
        "quantize" => {
            let dtype: DType = attributes.need("dtype");
            vec![x.quantize(&inputs[1], inputs.get(2), dtype)]
        }
        "dequantize" => vec![x.dequantize(&inputs[1], inputs.get(2))],
        "quantize_dynamic" => {
            let (scale, zero) = Tensor::quantization(&x.min(), &x.max(), DType::U8);
            vec![x.quantize(&scale, &zero, DType::U8), scale, zero]
        }
        _ => return None,
    })
}
