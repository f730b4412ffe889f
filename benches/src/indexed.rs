//! Tensors by index and in order: sorting, the greatest ones, cumulative sums, gathering and scattering; and short rows.

use crate::cases::{Case, Limit};
use crate::networks::{hal_error, numbers};
use thalweg::ops::ClassLossOptions;
use thalweg::{Context, DType, Result, Tensor, grad};

/// What a case computes.
type Compute = Box<dyn Fn() -> Tensor>;
/// Makes a case: what it computes, and how many times four bytes it reads and writes at least.
type Make = fn(&Context) -> (Compute, f64);

const M: usize = 1_000_000;

fn line(cx: &Context) -> Tensor {
    numbers(&[M], cx)
}

fn square(cx: &Context) -> Tensor {
    numbers(&[4096, 4096], cx)
}

/// Indices that lie apart; below a number that is no multiple of 7919 each comes once before one comes again.
fn spread(count: usize, below: i64, cx: &Context) -> Tensor {
    let index: Vec<i64> = (0..count as i64).map(|i| i * 7919 % below).collect();
    Tensor::from_slice(&index, count, cx)
}

fn topk<const K: usize>(cx: &Context) -> (Compute, f64) {
    let x = line(cx);
    (Box::new(move || x.topk(K, 0, true).1), M as f64)
}

fn cumsum<const AXIS: i32>(cx: &Context) -> (Compute, f64) {
    let x = square(cx);
    (Box::new(move || x.cumsum(AXIS)), 2.0 * 4096.0 * 4096.0)
}

/// A table with 30,000 rows of 768, and as many as 4096 of them.
fn words(cx: &Context) -> (Tensor, Tensor) {
    (numbers(&[30_000, 768], cx), spread(4096, 30_000, cx))
}

fn softmax<const COLUMNS: usize>(cx: &Context) -> (Compute, f64) {
    let x = numbers(&[100_000, COLUMNS], cx);
    (Box::new(move || x.softmax(-1)), 2e5 * COLUMNS as f64)
}

fn layer_norm<const COLUMNS: usize>(cx: &Context) -> (Compute, f64) {
    let x = numbers(&[100_000, COLUMNS], cx);
    let [weight, bias] = [0, 1].map(|_| numbers(&[COLUMNS], cx));
    let norm = move || x.layer_norm([COLUMNS], Some(&weight), Some(&bias), 1e-5);
    (Box::new(norm), 2e5 * COLUMNS as f64)
}

fn sums<const COLUMNS: usize>(cx: &Context) -> (Compute, f64) {
    let x = numbers(&[100_000, COLUMNS], cx);
    (Box::new(move || x.sum_axes(-1)), 1e5 * (COLUMNS + 1) as f64)
}

const CASES: [(&str, Make); 35] = [
    ("sort_1e6", |cx| {
        let x = line(cx);
        (Box::new(move || x.sort(0, false)), 2.0 * M as f64)
    }),
    ("argsort_1e6", |cx| {
        let x = line(cx);
        (Box::new(move || x.argsort(0, false)), 3.0 * M as f64)
    }),
    ("sort_1024x1024", |cx| {
        let x = numbers(&[1024, 1024], cx);
        (Box::new(move || x.sort(1, false)), 2.0 * 1024.0 * 1024.0)
    }),
    ("median_1e6", |cx| {
        let x = line(cx);
        (Box::new(move || x.median(0)), M as f64)
    }),
    ("topk1_1e6", topk::<1>),
    ("topk10_1e6", topk::<10>),
    ("topk100_1e6", topk::<100>),
    ("topk1000_1e6", topk::<1000>),
    ("topk5_10000x1000", |cx| {
        let x = numbers(&[10_000, 1000], cx);
        (Box::new(move || x.topk(5, 1, true).1), 1e7)
    }),
    ("argmax_10000x1000", |cx| {
        let x = numbers(&[10_000, 1000], cx);
        (Box::new(move || x.argmax_axes(1)), 1e7)
    }),
    ("cumsum_axis0_4096", cumsum::<0>),
    ("cumsum_axis1_4096", cumsum::<1>),
    ("gather_1e6", |cx| {
        let (x, index) = (line(cx), spread(M, M as i64, cx));
        // Indices have 8 bytes.
        (Box::new(move || x.gather(0, &index)), 4.0 * M as f64)
    }),
    ("gather_axis1_4096", |cx| {
        let (x, index) = (square(cx), spread(4096 * 256, 4096, cx).reshape([4096, 256]));
        (Box::new(move || x.gather(1, &index)), 4.0 * 4096.0 * 256.0)
    }),
    ("index_select_axis0_4096", |cx| {
        let (x, index) = (square(cx), spread(1024, 4096, cx));
        (Box::new(move || x.index_select(0, &index)), 2.0 * 4096.0 * 1024.0)
    }),
    ("index_select_axis1_4096", |cx| {
        let (x, index) = (square(cx), spread(1024, 4096, cx));
        (Box::new(move || x.index_select(1, &index)), 2.0 * 4096.0 * 1024.0)
    }),
    ("embedding_4096x768", |cx| {
        let (table, index) = words(cx);
        let rows = move || table.embedding(&index, None::<usize>);
        (Box::new(rows), 2.0 * 4096.0 * 768.0)
    }),
    ("embedding_grad_4096x768", |cx| {
        let ((table, index), weight) = (words(cx), numbers(&[4096, 768], cx));
        let loss = grad(move |table: &Tensor| (table.embedding(&index, None::<usize>) * &weight).sum());
        (Box::new(move || loss.call(&table)), (30_000.0 + 4096.0) * 768.0)
    }),
    ("scatter_1e6", |cx| {
        let (to, index, updates) = (
            Tensor::zeros(M, DType::F32, cx),
            spread(M, M as i64, cx),
            line(cx),
        );
        (Box::new(move || to.scatter(0, &index, &updates)), 5.0 * M as f64)
    }),
    ("scatter_add_1e6", |cx| {
        let to = Tensor::zeros(100_000, DType::F32, cx);
        let (index, updates) = (spread(M, 100_000, cx), line(cx));
        (
            Box::new(move || to.scatter_add(0, &index, &updates)),
            3.2 * M as f64,
        )
    }),
    ("scatter_add_4096x768", |cx| {
        let (to, index) = (Tensor::zeros([1000, 768], DType::F32, cx), spread(4096, 1000, cx));
        let updates = numbers(&[4096, 768], cx);
        let elements = (4096.0 + 2.0 * 1000.0) * 768.0;
        (Box::new(move || to.index_add(0, &index, &updates)), elements)
    }),
    ("one_hot_4096x1000", |cx| {
        let classes = spread(4096, 1000, cx);
        // Elements have 8 bytes.
        (Box::new(move || classes.one_hot(1000)), 2.0 * 4.096e6)
    }),
    ("cross_entropy_4096x1000", |cx| {
        let (x, classes) = (numbers(&[4096, 1000], cx), spread(4096, 1000, cx));
        let loss = move || x.cross_entropy(&classes, ClassLossOptions::new());
        (Box::new(loss), 4.096e6)
    }),
    // Rows longer than a segment of a sum.
    ("sum_1e7", |cx| {
        let x = numbers(&[10_000_000], cx);
        (Box::new(move || x.sum()), 1e7)
    }),
    ("softmax_1e6", |cx| {
        let x = line(cx);
        (Box::new(move || x.softmax(0)), 2.0 * M as f64)
    }),
    ("logsumexp_1e6", |cx| {
        let x = line(cx);
        (Box::new(move || x.logsumexp()), M as f64)
    }),
    ("softmax_100000x10", softmax::<10>),
    ("softmax_100000x16", softmax::<16>),
    ("softmax_100000x32", softmax::<32>),
    ("layernorm_100000x10", layer_norm::<10>),
    ("layernorm_100000x32", layer_norm::<32>),
    ("sum_100000x10", sums::<10>),
    ("sum_100000x32", sums::<32>),
    ("max_100000x10", |cx| {
        let x = numbers(&[100_000, 10], cx);
        (Box::new(move || x.max_axes(-1)), 1.1e6)
    }),
    ("max_axis0_4096", |cx| {
        let x = square(cx);
        (Box::new(move || x.max_axes(0)), 4096.0 * 4096.0)
    }),
];

/// The cases whose names are wanted. Bytes of operands and results count once.
///
/// # Errors
/// Those of the ops.
pub fn cases(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let chosen = CASES.into_iter().filter(|(name, _)| wanted(name));
    Ok(chosen
        .map(|(name, make)| {
            let (compute, elements) = make(cx);
            let device = cx.device().clone();
            let run = move || {
                compute().shape().map_err(hal_error)?;
                device.synchronize()
            };
            Case {
                name: name.into(),
                limit: Limit::Bytes(4.0 * elements),
                run: Box::new(run),
            }
        })
        .collect())
}
