//! Layers.

use crate::case::Attributes;
use thalweg::Tensor;
use thalweg::ops::{
    AttentionOptions, ConvOptions, ConvTransposeOptions, FoldOptions, InterpolateOptions, Interpolation,
    Padding, PerAxis, PoolOptions,
};

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    if let Some(outputs) = several(name, inputs, attributes) {
        return Some(outputs);
    }
    let x = inputs.first()?;
    let (more, again, bias) = (inputs.get(1), inputs.get(2), inputs.get(2));
    let w = || &inputs[1];
    let axis = || attributes.need::<i32>("axis");
    let eps = || attributes.need::<f64>("eps");
    let p = || attributes.need::<f64>("p");
    let size = || per_axis(attributes, "size").unwrap();
    let last = || attributes.list::<usize>("shape").unwrap();
    Some(vec![match name {
        "conv1d" => x.conv1d(w(), bias, conv(attributes)),
        "conv2d" => x.conv2d(w(), bias, conv(attributes)),
        "conv3d" => x.conv3d(w(), bias, conv(attributes)),
        "conv_transpose1d" => x.conv_transpose1d(w(), bias, conv_transpose(attributes)),
        "conv_transpose2d" => x.conv_transpose2d(w(), bias, conv_transpose(attributes)),
        "conv_transpose3d" => x.conv_transpose3d(w(), bias, conv_transpose(attributes)),
        "unfold2d" => x.unfold2d(fold(attributes)),
        "fold2d" => {
            let space = attributes.list::<usize>("space").unwrap();
            x.fold2d([space[0], space[1]], fold(attributes))
        }
        "pixel_shuffle" => x.pixel_shuffle(attributes.need("factor")),
        "pixel_unshuffle" => x.pixel_unshuffle(attributes.need("factor")),
        "channel_shuffle" => x.channel_shuffle(attributes.need("factor")),
        "interpolate" => x.interpolate(interpolate(attributes)),
        "max_pool1d" => x.max_pool1d(pool(attributes)),
        "max_pool2d" => x.max_pool2d(pool(attributes)),
        "max_pool3d" => x.max_pool3d(pool(attributes)),
        "avg_pool1d" => x.avg_pool1d(pool(attributes)),
        "avg_pool2d" => x.avg_pool2d(pool(attributes)),
        "avg_pool3d" => x.avg_pool3d(pool(attributes)),
        "lp_pool1d" => x.lp_pool1d(p(), pool(attributes)),
        "lp_pool2d" => x.lp_pool2d(p(), pool(attributes)),
        "adaptive_avg_pool1d" => x.adaptive_avg_pool1d(size()),
        "adaptive_avg_pool2d" => x.adaptive_avg_pool2d(size()),
        "adaptive_avg_pool3d" => x.adaptive_avg_pool3d(size()),
        "adaptive_max_pool1d" => x.adaptive_max_pool1d(size()),
        "adaptive_max_pool2d" => x.adaptive_max_pool2d(size()),
        "adaptive_max_pool3d" => x.adaptive_max_pool3d(size()),
        "global_avg_pool" => x.global_avg_pool(),
        "global_max_pool" => x.global_max_pool(),
        "softmax" => x.softmax(axis()),
        "log_softmax" => x.log_softmax(axis()),
        "softmin" => x.softmin(axis()),
        "layer_norm" => x.layer_norm(last(), more, again, eps()),
        "rms_norm" => x.rms_norm(last(), more, eps()),
        "group_norm" => x.group_norm(attributes.need("groups"), more, again, eps()),
        "instance_norm" => x.instance_norm(more, again, eps()),
        "batch_norm" => x.batch_norm(w(), &inputs[2], inputs.get(3), inputs.get(4), eps()),
        "batch_norm_train" => x.batch_norm_train(more, again, eps()).output,
        "local_response_norm" => {
            let number = |key| attributes.need::<f64>(key);
            x.local_response_norm(
                attributes.need("size"),
                number("alpha"),
                number("beta"),
                number("k"),
            )
        }
        "normalize" => x.normalize(p(), axis(), eps()),
        "cosine_similarity" => x.cosine_similarity(w(), axis(), eps()),
        "pairwise_distance" => x.pairwise_distance(w(), p(), eps()),
        "cdist" => x.cdist(w(), p()),
        "pdist" => x.pdist(p()),
        "attention" => x.scaled_dot_product_attention(w(), &inputs[2], attention(attributes, inputs)),
        "multi_head_attention" => x.multi_head_attention(
            w(),
            &inputs[2],
            attributes.need("heads"),
            attention(attributes, inputs),
        ),
        "embedding" => x.embedding(w(), attributes.get::<usize>("padding")),
        _ => return None,
    }])
}

fn several(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let x = inputs.first()?;
    let (values, indices) = match name {
        "max_pool1d_with_indices" => x.max_pool1d_with_indices(pool(attributes)),
        "max_pool2d_with_indices" => x.max_pool2d_with_indices(pool(attributes)),
        "max_pool3d_with_indices" => x.max_pool3d_with_indices(pool(attributes)),
        "batch_norm_running" => {
            let batch = x.batch_norm_train(None, None, attributes.need("eps"));
            batch.running(&inputs[1], &inputs[2], attributes.need("momentum"))
        }
        _ => return None,
    };
    Some(vec![values, indices])
}

fn per_axis(attributes: &Attributes, key: &str) -> Option<PerAxis> {
    Some(match *attributes.list::<usize>(key)?.as_slice() {
        [all] if !attributes.text(key)?.contains(',') => all.into(),
        [a] => [a].into(),
        [a, b] => [a, b].into(),
        [a, b, c] => [a, b, c].into(),
        _ => return None,
    })
}

fn conv(attributes: &Attributes) -> ConvOptions {
    let number = |key| per_axis(attributes, key);
    let padding = match attributes.text("padding") {
        Some("same") => Padding::Same,
        Some("valid") | None => Padding::valid(),
        Some(_) => Padding::Sides(number("padding").unwrap(), number("padding").unwrap()),
    };
    ConvOptions::new()
        .stride(number("stride").unwrap_or(1.into()))
        .padding(padding)
        .dilation(number("dilation").unwrap_or(1.into()))
        .groups(attributes.get("groups").unwrap_or(1))
}

fn conv_transpose(attributes: &Attributes) -> ConvTransposeOptions {
    let number = |key, default: usize| per_axis(attributes, key).unwrap_or(default.into());
    ConvTransposeOptions::new()
        .stride(number("stride", 1))
        .padding(number("padding", 0))
        .output_padding(number("output_padding", 0))
        .dilation(number("dilation", 1))
        .groups(attributes.get("groups").unwrap_or(1))
}

fn fold(attributes: &Attributes) -> FoldOptions {
    let number = |key, default: usize| per_axis(attributes, key).unwrap_or(default.into());
    FoldOptions::new(number("kernel_size", 1))
        .stride(number("stride", 1))
        .padding(number("padding", 0))
        .dilation(number("dilation", 1))
}

fn pool(attributes: &Attributes) -> PoolOptions {
    let number = |key| per_axis(attributes, key);
    let mut options = PoolOptions::new(number("kernel_size").unwrap())
        .padding(number("padding").unwrap_or(0.into()))
        .dilation(number("dilation").unwrap_or(1.into()))
        .ceil_mode(attributes.flag("ceil_mode"))
        .count_include_pad(attributes.get("count_include_pad").unwrap_or(true));
    if let Some(stride) = number("stride") {
        options = options.stride(stride);
    }
    match attributes.get("divisor_override") {
        Some(divisor) => options.divisor_override(divisor),
        None => options,
    }
}

fn interpolate(attributes: &Attributes) -> InterpolateOptions {
    let options = match attributes.get("factor") {
        Some(factor) => InterpolateOptions::factor(factor),
        None => InterpolateOptions::size(per_axis(attributes, "size").unwrap()),
    };
    let mode = match attributes.text("mode").unwrap() {
        "nearest" => Interpolation::Nearest,
        "nearest-exact" => Interpolation::NearestExact,
        "linear" | "bilinear" | "trilinear" => Interpolation::Linear,
        "bicubic" => Interpolation::Cubic,
        "area" => Interpolation::Area,
        other => panic!("{other}"),
    };
    options.mode(mode).align_corners(attributes.flag("align"))
}

fn attention<'a>(attributes: &Attributes, inputs: &'a [Tensor]) -> AttentionOptions<'a> {
    let mut options = AttentionOptions::new().causal(attributes.flag("causal"));
    if let Some(scale) = attributes.get("scale") {
        options = options.scale(scale);
    }
    match attributes.flag("mask") {
        true => options.mask(&inputs[3]),
        false => options,
    }
}
