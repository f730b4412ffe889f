//! Functions of elements.

use crate::case::Attributes;
use thalweg::ops::NamedOp;
use thalweg::{DType, Tensor};

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let operands: Vec<&Tensor> = inputs.iter().collect();
    let named = NamedOp::find(name).and_then(|op| op.call(&operands));
    let number = |key| attributes.need::<f64>(key);
    let output = named.or_else(|| match inputs {
        [x] => parametric(name, x, attributes),
        [x, y] if name == "isclose" => Some(x.isclose(y, number("rtol"), number("atol"))),
        [x, y, z] => match name {
            "lerp" => Some(x.lerp(y, z)),
            "where_cond" => Some(x.where_cond(y, z)),
            _ => None,
        },
        _ => None,
    });
    Some(vec![output?])
}

fn parametric(name: &str, x: &Tensor, attributes: &Attributes) -> Option<Tensor> {
    let number = |key| attributes.need::<f64>(key);
    Some(match name {
        "leaky_relu" => x.leaky_relu(number("slope")),
        "elu" => x.elu(number("alpha")),
        "celu" => x.celu(number("alpha")),
        "hardtanh" => x.hardtanh(number("low"), number("high")),
        "hardshrink" => x.hardshrink(number("lambda")),
        "softshrink" => x.softshrink(number("lambda")),
        "threshold" => x.threshold(number("threshold"), number("value")),
        "clamp" => x.clamp(number("low"), number("high")),
        "clamp_min" => x.clamp_min(number("low")),
        "clamp_max" => x.clamp_max(number("high")),
        "cast" => x.cast(attributes.need::<DType>("dtype")),
        "pow_scalar" => x.pow(number("value")),
        "add_scalar" => match attributes.text("value")?.parse::<i64>() {
            Ok(value) => x + value,
            Err(_) => x + number("value"),
        },
        "mul_scalar" => x * attributes.need::<i64>("value"),
        "div_scalar" => x / attributes.need::<i64>("value"),
        _ => return None,
    })
}
