//! Reductions and scans.

use crate::case::Attributes;
use thalweg::Tensor;

macro_rules! along {
    ($x:ident, $attributes:ident, $all:ident $axes:ident $keep:ident ($($argument:expr),*)) => {
        match $attributes.list::<i32>("axes") {
            None => $x.$all($($argument),*),
            Some(axes) if $attributes.flag("keep") => $x.$keep(axes, $($argument),*),
            Some(axes) => $x.$axes(axes, $($argument),*),
        }
    };
}

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let [x] = inputs else { return None };
    let axis = || attributes.need::<i32>("axis");
    let correction = || attributes.need::<usize>("correction");
    Some(vec![match name {
        "sum" => along!(x, attributes, sum sum_axes sum_keepdims()),
        "prod" => along!(x, attributes, prod prod_axes prod_keepdims()),
        "mean" => along!(x, attributes, mean mean_axes mean_keepdims()),
        "max" => along!(x, attributes, max max_axes max_keepdims()),
        "min" => along!(x, attributes, min min_axes min_keepdims()),
        "argmax" => along!(x, attributes, argmax argmax_axes argmax_keepdims()),
        "argmin" => along!(x, attributes, argmin argmin_axes argmin_keepdims()),
        "any" => along!(x, attributes, any any_axes any_keepdims()),
        "all" => along!(x, attributes, all all_axes all_keepdims()),
        "count_nonzero" => along!(x, attributes, count_nonzero count_nonzero_axes count_nonzero_keepdims()),
        "logsumexp" => along!(x, attributes, logsumexp logsumexp_axes logsumexp_keepdims()),
        "var" => along!(x, attributes, var var_axes var_keepdims(correction())),
        "std" => along!(x, attributes, std std_axes std_keepdims(correction())),
        "norm" => along!(x, attributes, norm norm_axes norm_keepdims(attributes.need::<f64>("p"))),
        "cumsum" => x.cumsum(axis()),
        "cumprod" => x.cumprod(axis()),
        "cummax" => x.cummax(axis()),
        "cummin" => x.cummin(axis()),
        _ => return None,
    }])
}
