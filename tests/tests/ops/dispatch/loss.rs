//! Losses.

use crate::case::Attributes;
use thalweg::Tensor;
use thalweg::ops::{ClassLossOptions, Reduction};

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let (Some(x), Some(y)) = (inputs.first(), inputs.get(1)) else {
        return None;
    };
    let reduction = match attributes.text("reduction")? {
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "none" => Reduction::None,
        other => panic!("{other}"),
    };
    let number = |key| attributes.need::<f64>(key);
    let third = inputs.get(2);
    let z = || &inputs[2];
    Some(vec![match name {
        "cross_entropy" => x.cross_entropy(y, classes(inputs, attributes, reduction)),
        "nll_loss" => x.nll_loss(y, classes(inputs, attributes, reduction)),
        "binary_cross_entropy" => x.binary_cross_entropy(y, third, reduction),
        "binary_cross_entropy_with_logits" => {
            x.binary_cross_entropy_with_logits(y, third, inputs.get(3), reduction)
        }
        "mse_loss" => x.mse_loss(y, reduction),
        "l1_loss" => x.l1_loss(y, reduction),
        "smooth_l1_loss" => x.smooth_l1_loss(y, number("beta"), reduction),
        "huber_loss" => x.huber_loss(y, number("delta"), reduction),
        "kl_div" => x.kl_div(y, reduction),
        "kl_div_log_target" => x.kl_div_log_target(y, reduction),
        "poisson_nll_loss" => x.poisson_nll_loss(y, reduction),
        "gaussian_nll_loss" => x.gaussian_nll_loss(y, z(), number("eps"), reduction),
        "soft_margin_loss" => x.soft_margin_loss(y, reduction),
        "hinge_embedding_loss" => x.hinge_embedding_loss(y, number("margin"), reduction),
        "margin_ranking_loss" => x.margin_ranking_loss(y, z(), number("margin"), reduction),
        "cosine_embedding_loss" => x.cosine_embedding_loss(y, z(), number("margin"), reduction),
        "triplet_margin_loss" => x.triplet_margin_loss(
            y,
            z(),
            number("margin"),
            number("p"),
            attributes.flag("swap"),
            reduction,
        ),
        _ => return None,
    }])
}

fn classes<'a>(inputs: &'a [Tensor], attributes: &Attributes, reduction: Reduction) -> ClassLossOptions<'a> {
    let mut options = ClassLossOptions::new().reduction(reduction);
    if attributes.flag("weight") {
        options = options.weight(&inputs[2]);
    }
    if let Some(index) = attributes.get("ignore_index") {
        options = options.ignore_index(index);
    }
    match attributes.get("label_smoothing") {
        Some(smoothing) => options.label_smoothing(smoothing),
        None => options,
    }
}
