//! Elements by index, and by order.

use crate::case::Attributes;
use thalweg::Tensor;

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let x = inputs.first()?;
    let index = || &inputs[1];
    let source = || &inputs[2];
    let axis = || attributes.need::<i32>("axis");
    let pair = |(values, indices): (Tensor, Tensor)| Some(vec![values, indices]);
    Some(vec![match name {
        "gather" => x.gather(axis(), index()),
        "index_select" => x.index_select(axis(), index()),
        "take" => x.take(index()),
        "scatter" => x.scatter(axis(), index(), source()),
        "scatter_add" => x.scatter_add(axis(), index(), source()),
        "scatter_max" => x.scatter_max(axis(), index(), source()),
        "scatter_min" => x.scatter_min(axis(), index(), source()),
        "index_add" => x.index_add(axis(), index(), source()),
        "index_copy" => x.index_copy(axis(), index(), source()),
        "one_hot" => x.one_hot(attributes.need("classes")),
        "masked_fill" => x.masked_fill(index(), attributes.need::<f64>("value")),
        "masked_select" => x.masked_select(index()),
        "nonzero" => x.nonzero(),
        "unique" => x.unique(),
        "unique_counts" => {
            let (values, inverse, counts) = x.unique_counts();
            return Some(vec![values, inverse, counts]);
        }
        "bincount" => x.bincount(attributes.need("least")),
        "argsort" => x.argsort(axis(), attributes.flag("descending")),
        "sort" => x.sort(axis(), attributes.flag("descending")),
        "sort_with_indices" => return pair(x.sort_with_indices(axis(), attributes.flag("descending"))),
        "topk" => return pair(x.topk(attributes.need("k"), axis(), attributes.flag("greatest"))),
        "median" => x.median(axis()),
        "searchsorted" => x.searchsorted(index(), attributes.flag("right")),
        _ => return None,
    }])
}
