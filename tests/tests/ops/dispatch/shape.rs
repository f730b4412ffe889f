//! Views, and elements in other places.

use crate::case::Attributes;
use thalweg::Tensor;
use thalweg::ops::{PadMode, step};

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let x = inputs.first()?;
    let axis = || attributes.need::<i32>("axis");
    let number = |key| attributes.need::<i64>(key);
    let count = |key| attributes.need::<usize>(key);
    let axes = |key| attributes.list::<i32>(key).unwrap();
    let extents = || attributes.list::<i64>("shape").unwrap();
    Some(vec![match name {
        "reshape" => match attributes.list::<i32>("permute") {
            Some(order) => x.permute(order).reshape(extents()),
            None => x.reshape(extents()),
        },
        "permute" => x.permute(axes("axes")),
        "transpose" => x.transpose(attributes.need("a"), attributes.need("b")),
        "t" => x.t(),
        "movedim" => x.movedim(axes("source"), axes("to")),
        "squeeze" => x.squeeze(),
        "squeeze_axes" => x.squeeze_axes(axes("axes")),
        "unsqueeze" => x.unsqueeze(axis()),
        "expand" => x.expand(extents()),
        "flatten" => x.flatten(),
        "flatten_axes" => x.flatten_axes(attributes.need("a"), attributes.need("b")),
        "unflatten" => x.unflatten(axis(), extents()),
        "narrow" => x.narrow(axis(), number("start"), count("length")),
        "select" => x.select(axis(), number("at")),
        "slice" => x.index(step(number("start")..number("end"), number("step"))),
        "flip" => x.flip(axes("axes")),
        "roll" => x.roll(number("shift"), axis()),
        "tile" => x.tile(&attributes.list::<usize>("repeats").unwrap()),
        "repeat_interleave" => x.repeat_interleave(count("count"), axis()),
        "concat" => Tensor::concat(inputs, axis()),
        "stack" => Tensor::stack(inputs, axis()),
        "split" => return Some(x.split(count("size"), axis())),
        "chunk" => return Some(x.chunk(count("count"), axis())),
        "pad" => pad(x, attributes),
        "tril" => x.tril(number("k")),
        "triu" => x.triu(number("k")),
        "diagonal" => x.diagonal(number("k"), attributes.need("a"), attributes.need("b")),
        "diag" => x.diag(number("k")),
        "trace" => x.trace(),
        _ => return None,
    }])
}

fn pad(x: &Tensor, attributes: &Attributes) -> Tensor {
    let numbers = attributes.list::<usize>("widths").unwrap();
    let widths: Vec<(usize, usize)> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let mode = match attributes.text("mode").unwrap() {
        "constant" => PadMode::Constant(attributes.need::<f64>("value").into()),
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Replicate,
        "circular" => PadMode::Circular,
        other => panic!("{other}"),
    };
    x.pad(&widths, mode)
}
