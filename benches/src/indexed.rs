//! Tensors by index and in order: sorting, cumulative sums, gathering and scattering.

use crate::cases::{Case, Limit};
use crate::networks::{hal_error, numbers};
use thalweg::{Context, DType, Result, Tensor};

/// What a case computes.
type Compute = Box<dyn Fn() -> Tensor>;

/// The cases whose names are wanted. Bytes of operands and results count once.
///
/// # Errors
/// Those of the ops.
pub fn cases(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    const M: usize = 1_000_000;
    let line = || numbers(&[M], cx);
    let square = || numbers(&[4096, 4096], cx);
    let spread = |count: usize, below: i64| {
        let index: Vec<i64> = (0..count as i64).map(|i| i * 7919 % below).collect();
        Tensor::from_slice(&index, count, cx)
    };
    let make = |name: &str| -> Option<(Compute, f64)> {
        Some(match name {
            "sort_1e6" => {
                let x = line();
                (Box::new(move || x.sort(0, false)) as Compute, 2.0 * M as f64)
            }
            "argsort_1e6" => {
                let x = line();
                (Box::new(move || x.argsort(0, false)), 3.0 * M as f64)
            }
            "sort_1024x1024" => {
                let x = numbers(&[1024, 1024], cx);
                (Box::new(move || x.sort(1, false)), 2.0 * 1024.0 * 1024.0)
            }
            "cumsum_axis0_4096" | "cumsum_axis1_4096" => {
                let (x, axis) = (square(), i32::from(name == "cumsum_axis1_4096"));
                (Box::new(move || x.cumsum(axis)), 2.0 * 4096.0 * 4096.0)
            }
            "embedding_4096x768" => {
                let (table, index) = (numbers(&[30_000, 768], cx), spread(4096, 30_000));
                (
                    Box::new(move || table.embedding(&index, None::<usize>)),
                    2.0 * 4096.0 * 768.0,
                )
            }
            "scatter_add_1e6" => {
                let (to, index, updates) =
                    (Tensor::zeros(100_000, DType::F32, cx), spread(M, 100_000), line());
                // Indices have 8 bytes.
                (
                    Box::new(move || to.scatter_add(0, &index, &updates)),
                    3.2 * M as f64,
                )
            }
            "scatter_add_4096x768" => {
                let (to, index) = (Tensor::zeros([1000, 768], DType::F32, cx), spread(4096, 1000));
                let updates = numbers(&[4096, 768], cx);
                let elements = (4096.0 + 2.0 * 1000.0) * 768.0;
                (Box::new(move || to.index_add(0, &index, &updates)), elements)
            }
            _ => return None,
        })
    };
    let names = [
        "sort_1e6",
        "argsort_1e6",
        "sort_1024x1024",
        "cumsum_axis0_4096",
        "cumsum_axis1_4096",
        "embedding_4096x768",
        "scatter_add_1e6",
        "scatter_add_4096x768",
    ];
    let chosen = names.into_iter().filter(|name| wanted(name));
    Ok(chosen
        .filter_map(|name| {
            let (compute, elements) = make(name)?;
            let device = cx.device().clone();
            let run = move || {
                compute().shape().map_err(hal_error)?;
                device.synchronize()
            };
            Some(Case {
                name: name.into(),
                limit: Limit::Bytes(4.0 * elements),
                run: Box::new(run),
            })
        })
        .collect())
}
