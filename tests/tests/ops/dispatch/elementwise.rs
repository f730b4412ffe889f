//! Functions of elements.

use crate::case::Attributes;
use thalweg::{DType, Tensor};

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let output = match inputs {
        [x] => unary(name, x).or_else(|| parametric(name, x, attributes)),
        [x, y] => binary(name, x, y, attributes),
        [x, y, z] => match name {
            "lerp" => Some(x.lerp(y, z)),
            "where_cond" => Some(x.where_cond(y, z)),
            _ => None,
        },
        _ => None,
    };
    Some(vec![output?])
}

fn unary(name: &str, x: &Tensor) -> Option<Tensor> {
    Some(match name {
        "neg" => x.neg(),
        "abs" => x.abs(),
        "sign" => x.sign(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "trunc" => x.trunc(),
        "round" => x.round(),
        "frac" => x.frac(),
        "sqrt" => x.sqrt(),
        "rsqrt" => x.rsqrt(),
        "square" => x.square(),
        "reciprocal" => x.reciprocal(),
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.expm1(),
        "log" => x.log(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.log1p(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        "asinh" => x.asinh(),
        "acosh" => x.acosh(),
        "atanh" => x.atanh(),
        "erf" => x.erf(),
        "erfc" => x.erfc(),
        "logit" => x.logit(),
        "sigmoid" => x.sigmoid(),
        "logsigmoid" => x.logsigmoid(),
        "softplus" => x.softplus(),
        "softsign" => x.softsign(),
        "relu" => x.relu(),
        "relu6" => x.relu6(),
        "hardsigmoid" => x.hardsigmoid(),
        "hardswish" => x.hardswish(),
        "selu" => x.selu(),
        "silu" => x.silu(),
        "mish" => x.mish(),
        "gelu" => x.gelu(),
        "gelu_tanh" => x.gelu_tanh(),
        "tanhshrink" => x.tanhshrink(),
        "isnan" => x.isnan(),
        "isinf" => x.isinf(),
        "isfinite" => x.isfinite(),
        "signbit" => x.signbit(),
        "logical_not" => x.logical_not(),
        "bitwise_not" => x.bitwise_not(),
        _ => return None,
    })
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

fn binary(name: &str, x: &Tensor, y: &Tensor, attributes: &Attributes) -> Option<Tensor> {
    let number = |key| attributes.need::<f64>(key);
    Some(match name {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "div" => x / y,
        "div_floor" => x.div_floor(y),
        "fmod" => x.fmod(y),
        "remainder" => x.remainder(y),
        "pow" => x.pow(y),
        "maximum" => x.maximum(y),
        "minimum" => x.minimum(y),
        "fmax" => x.fmax(y),
        "fmin" => x.fmin(y),
        "atan2" => x.atan2(y),
        "hypot" => x.hypot(y),
        "logaddexp" => x.logaddexp(y),
        "copysign" => x.copysign(y),
        "heaviside" => x.heaviside(y),
        "xlogy" => x.xlogy(y),
        "isclose" => x.isclose(y, number("rtol"), number("atol")),
        "prelu" => x.prelu(y),
        "eq" => x.eq(y),
        "ne" => x.ne(y),
        "lt" => x.lt(y),
        "le" => x.le(y),
        "gt" => x.gt(y),
        "ge" => x.ge(y),
        "logical_and" => x.logical_and(y),
        "logical_or" => x.logical_or(y),
        "logical_xor" => x.logical_xor(y),
        "bitwise_and" => x.bitwise_and(y),
        "bitwise_or" => x.bitwise_or(y),
        "bitwise_xor" => x.bitwise_xor(y),
        "bitwise_left_shift" => x.bitwise_left_shift(y),
        "bitwise_right_shift" => x.bitwise_right_shift(y),
        _ => return None,
    })
}
