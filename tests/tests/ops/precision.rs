//! Every op in a precision mode.

use crate::case::Case;
use crate::dispatch::dispatch;
use std::collections::HashSet;
use thalweg::Precision;
use thalweg::{Context, DType, Mode, Tensor};

/// Ops that move or choose elements: they keep the dtype in every mode. All others compute.
const MOVES: &[&str] = &[
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "cast",
    "channel_shuffle",
    "chunk",
    "concat",
    "cummax",
    "cummin",
    "diag",
    "diagonal",
    "embedding",
    "expand",
    "flatten",
    "flatten_axes",
    "flip",
    "gather",
    "global_max_pool",
    "index_copy",
    "index_select",
    "masked_fill",
    "masked_select",
    "max",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "median",
    "min",
    "movedim",
    "narrow",
    "pad",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat_interleave",
    "reshape",
    "roll",
    "scatter",
    "scatter_max",
    "scatter_min",
    "select",
    "slice",
    "sort",
    "sort_with_indices",
    "split",
    "squeeze",
    "squeeze_axes",
    "stack",
    "t",
    "take",
    "tile",
    "topk",
    "transpose",
    "tril",
    "triu",
    "unflatten",
    "unfold2d",
    "unique",
    "unique_counts",
    "unsqueeze",
    "where_cond",
];

/// What floats come out as, in a mode where arithmetic on f32 is done in f16 and gives f16.
fn check(file: &str) {
    let contexts = [Mode::Eager, Mode::Graph].map(|mode| {
        let cx = Context::builder().device_target("cpu").mode(mode);
        cx.precision_mode(Precision::ForceFp16).build().unwrap()
    });
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    for case in Case::read(file) {
        let floats = case.inputs.iter().any(|input| input.is_float());
        let nearest = case.header.contains("mode=nearest");
        if !floats || !case.is_for(DType::F32) || !seen.insert((case.name.clone(), nearest)) {
            continue;
        }
        let wanted = if nearest || MOVES.contains(&&*case.name) {
            DType::F32
        } else {
            DType::F16
        };
        for cx in &contexts {
            let inputs: Vec<Tensor> = (case.inputs.iter())
                .map(|input| input.tensor(DType::F32, cx))
                .collect();
            for recorded in [false, true] {
                let inputs: Vec<Tensor> = (inputs.iter())
                    .map(|input| match recorded && input.dtype().unwrap().is_float() {
                        true => input.requires_grad(),
                        false => input.clone(),
                    })
                    .collect();
                let outputs = dispatch(&case.name, &inputs, &case.attributes);
                for (output, stored) in outputs
                    .iter()
                    .zip(&case.outputs)
                    .filter(|(_, stored)| stored.is_float())
                {
                    match output.dtype() {
                        Ok(dtype) if dtype == wanted => assert_eq!(stored.dtype(dtype), dtype),
                        other => wrong.push(format!("{}: {other:?}, not {wanted}", case.header)),
                    }
                }
            }
        }
    }
    wrong.dedup();
    assert!(!seen.is_empty() && wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! files {
    ($($name:ident)*) => { $(#[test] fn $name() { check(stringify!($name)); })* };
}

files! { attention binary convolution indexed linalg loss norm pool reduction shape unary }
