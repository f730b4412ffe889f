//! Pools over windows: their bytes are the limit.

mod last;

use crate::cases::{Case, Limit};
use crate::networks::{hal_error, numbers};
use thalweg::hal::DType;
use thalweg::ops::PoolOptions;
use thalweg::{Context, Result, Tensor};

type Pool = fn(&Tensor, PoolOptions) -> Tensor;

const CASES: [(&str, usize, DType, Pool); 4] = [
    ("maxpool_1x64x112", 1, DType::F32, Tensor::max_pool2d),
    ("maxpool_8x64x112", 8, DType::F32, Tensor::max_pool2d),
    ("maxpool_u8_8x64x112", 8, DType::U8, Tensor::max_pool2d),
    ("avgpool_8x64x112", 8, DType::F32, Tensor::avg_pool2d),
];

/// The cases whose names are wanted: windows of 3 by 3, two apart, over images of 112 by 112 with one element around.
///
/// # Errors
/// Those of the ops.
pub fn cases(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let options = PoolOptions::new(3).stride(2).padding(1);
    let chosen = CASES.into_iter().filter(|(name, ..)| wanted(name));
    let mut cases: Vec<Case> = chosen
        .map(|(name, batch, dtype, pool)| {
            let x = (numbers(&[batch, 64, 112, 112], cx) * 100.0).cast(dtype);
            x.shape()?;
            let elements = (batch * 64 * (112 * 112 + 56 * 56)) as f64;
            let device = cx.device().clone();
            let run = move || {
                pool(&x, options).shape().map_err(hal_error)?;
                device.synchronize()
            };
            Ok(Case {
                name: name.into(),
                limit: Limit::Bytes(elements * dtype.size() as f64),
                run: Box::new(run),
            })
        })
        .collect::<Result<_>>()?;
    cases.extend(last::cases(cx.device(), wanted)?);
    Ok(cases)
}
