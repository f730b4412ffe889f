//! A program that lends its own threads. A pool is lent once in a process, so there is one test.

use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::parallel::{self, ForkJoin, Pool};
use thalweg::{Context, Tensor};

/// Pieces that the lent pool has run.
static PIECES: AtomicUsize = AtomicUsize::new(0);

struct Backwards;

impl ForkJoin for Backwards {
    fn threads(&self) -> usize {
        61
    }

    fn run(&self, count: usize, _priority: i32, body: &(dyn Fn(usize) + Sync)) {
        PIECES.fetch_add(count, Ordering::Relaxed);
        (0..count).rev().for_each(body);
    }
}

fn results(cx: &Context) -> thalweg::Result<Vec<Vec<f32>>> {
    let x = Tensor::arange(0, 300 * 301, 1, cx)
        .cast(thalweg::DType::F32)
        .reshape([300, 301])
        .sin();
    let product = x.matmul(&x.t());
    [
        product.clone(),
        product.softmax(1),
        x.sum(),
        x.sum_axes(0),
        x.sort(1, false),
    ]
    .into_iter()
    .map(|result| result.to_vec::<f32>())
    .collect()
}

#[test]
fn a_lent_pool_runs_every_region_and_changes_no_bit() -> thalweg::Result<()> {
    Pool::global().set_threads(1);
    let cx = Context::new("cpu")?;
    let alone = results(&cx)?;
    assert_eq!(PIECES.load(Ordering::Relaxed), 0);

    assert!(parallel::lend(Backwards).is_ok());
    assert!(parallel::lend(Backwards).is_err());
    assert_eq!(results(&cx)?, alone);
    assert!(PIECES.load(Ordering::Relaxed) > 61);

    let refused = Context::builder()
        .device_target("cpu")
        .threads(4)
        .build()
        .unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("4 threads asked, the program lent a pool of 61"),
        "{text}"
    );
    Context::builder().device_target("cpu").threads(61).build()?;
    Ok(())
}
