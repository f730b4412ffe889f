//! Tensors on every backend that runs kernels: eagerly, recorded and compiled, all of them with the same bits.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "plugins/context.rs"]
mod context;
mod plugins;

use context::context;
use std::sync::atomic::Ordering::Relaxed;
use thalweg::hal::Stream;
use thalweg::observe::Selector;
use thalweg::{Context, DType, Mode, Tensor, jit};

/// Ops of all kinds on a matrix: maps, sums along either axis, a view, a product of matrices.
fn formula(x: &Tensor) -> [Tensor; 3] {
    let centred = x - x.mean_keepdims([1]);
    let scaled = &centred / (centred.square().mean_keepdims([1]) + 1e-5).sqrt();
    let product = scaled.matmul(&scaled.t());
    [product.sum_axes([0]), (scaled * 0.5).exp().t(), x.sum()]
}

fn bits(outputs: &[Tensor; 3]) -> Vec<Vec<u32>> {
    let bits = |output: &Tensor| {
        output
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .map(|x| x.to_bits())
            .collect()
    };
    outputs.iter().map(bits).collect()
}

fn data(rows: usize, columns: usize) -> Vec<f32> {
    (0..rows * columns)
        .map(|i| ((i * 37 + 11) % 101) as f32 * 0.25 - 7.0)
        .collect()
}

/// The same formula by plain loops in f64.
fn expected(data: &[f32], rows: usize, columns: usize) -> [Vec<f64>; 3] {
    let mut scaled = vec![0.0; rows * columns];
    for row in 0..rows {
        let values: Vec<f64> = (0..columns).map(|i| f64::from(data[row * columns + i])).collect();
        let mean = values.iter().sum::<f64>() / columns as f64;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
        for (column, value) in values.iter().enumerate() {
            scaled[row * columns + column] = (value - mean) / (variance + 1e-5).sqrt();
        }
    }
    let product = |i: usize, j: usize| -> f64 {
        (0..columns)
            .map(|k| scaled[i * columns + k] * scaled[j * columns + k])
            .sum()
    };
    let sums = (0..rows)
        .map(|j| (0..rows).map(|i| product(i, j)).sum())
        .collect();
    let turned = (0..columns * rows)
        .map(|at| (scaled[at % rows * columns + at / rows] * 0.5).exp())
        .collect();
    [sums, turned, vec![data.iter().map(|&x| f64::from(x)).sum()]]
}

fn modes_agree(cx: &Context) {
    for (rows, columns) in [(3, 4), (1, 7), (17, 33)] {
        let data = data(rows, columns);
        let x = Tensor::from_slice(&data, [rows, columns], cx);
        let eager = formula(&x);
        for (output, expected) in eager.iter().zip(expected(&data, rows, columns)) {
            let found = output.to_vec::<f32>().unwrap();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (f64::from(*found) - expected).abs() <= 1e-4 * expected.abs().max(1.0),
                    "{found} {expected}"
                );
            }
        }
        let compiled = jit(formula);
        for _ in 0..2 {
            assert_eq!(bits(&compiled.call(&x)), bits(&eager), "jit, {rows}×{columns}");
        }
        cx.set_mode(Mode::Graph);
        for _ in 0..2 {
            assert_eq!(bits(&formula(&x)), bits(&eager), "graph, {rows}×{columns}");
        }
        cx.set_mode(Mode::Eager);
    }
}

/// A value that an op recorded, read and read again, and one that grows step by step without being read.
fn recorded_values_stay(cx: &Context) {
    cx.set_mode(Mode::Graph);
    let mut w = Tensor::ones([4], DType::F32, cx);
    for step in 1..200_u16 {
        w = &w + 1.0;
        if step % 10 == 0 {
            assert_eq!((&w * 2.0).sum().item::<f32>().unwrap(), 8.0 * f32::from(step + 1));
        }
    }
    let mut deep = w.clone();
    for _ in 0..20_000 {
        deep = -&deep;
    }
    assert_eq!(deep.to_vec::<f32>().unwrap(), [200.0; 4]);
    cx.set_mode(Mode::Eager);
}

/// Tensors wander between streams and threads without an event of the user's.
fn streams_and_threads_never_race(cx: &Context, rounds: u16) {
    let streams = [
        Stream::new(cx.device()).unwrap(),
        Stream::new(cx.device()).unwrap(),
    ];
    let scale = jit(|x: &Tensor| x * 2.0);
    std::thread::scope(|threads| {
        for thread in 0..3_u16 {
            let (streams, scale) = (&streams, &scale);
            threads.spawn(move || {
                for round in 0..rounds {
                    let start = f32::from(thread * rounds + round);
                    let mut x = Tensor::full([3000], start, cx);
                    for step in 0..6_usize {
                        let _on = streams.get((step + usize::from(round)) % 3).map(Stream::enter);
                        x = if step % 2 == 0 { &x + 1.0 } else { scale.call(&x) };
                    }
                    // ((start + 1) * 2 + 1) * 2 + 1) * 2
                    assert!(
                        x.to_vec::<f32>()
                            .unwrap()
                            .iter()
                            .all(|&x| x == start * 8.0 + 14.0)
                    );
                }
            });
        }
    });
}

/// Watching changes no bit, and a NaN has the same birthplace in every mode.
fn values_are_seen(cx: &Context) {
    let x = Tensor::from_slice(&data(37, 19), [37, 19], cx);
    let compiled = jit(formula);
    let plain = bits(&compiled.call(&x));
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&count);
    let watch = cx.watch(Selector::all(), move |value| {
        let finite = value.statistics().unwrap();
        assert_eq!(finite.nan + finite.infinite, 0);
        counted.fetch_add(1, Relaxed);
    });
    assert_eq!(bits(&compiled.call(&x)), plain);
    let traced = count.swap(0, Relaxed);
    assert_eq!(bits(&formula(&x)), plain);
    assert_eq!((traced, count.load(Relaxed)), (12, 12));
    drop(watch);
    cx.check_numerics(true);
    assert_eq!(bits(&compiled.call(&x)), plain);
    let loss = |x: &Tensor| ((x + 7.1).log() * 2.0).sum();
    let compiled = jit(loss);
    let mut bad = data(37, 19);
    bad[3 * 19 + 4] = -8.0;
    let bad = Tensor::from_slice(&bad, [37, 19], cx);
    assert!(compiled.call(&x).item::<f32>().is_ok());
    for result in [loss(&bad), compiled.call(&bad)] {
        let error = result.item::<f32>().unwrap_err();
        let birth = error.numerics().unwrap();
        assert_eq!(
            (birth.op.as_str(), &birth.index[..]),
            ("log", &[3, 4][..]),
            "{error}"
        );
    }
    cx.check_numerics(false);
}

/// An index that its axis does not have is named in every mode, and none of those that it has.
fn indices_are_checked(cx: &Context) {
    let table = Tensor::from_slice(&data(5, 3), [5, 3], cx);
    let words = |last: i64| Tensor::from_slice(&[0, 4, last, 1], [2, 2], cx);
    let rows = |table: &Tensor, words: &Tensor| table.embedding(words, None).sum();
    let compiled = jit(rows);
    let plain = rows(&table, &words(3)).item::<f32>().unwrap();
    cx.check_indices(true);
    for (result, wrong) in [
        (rows(&table, &words(3)), None),
        (compiled.call((&table, &words(3))), None),
        (rows(&table, &words(5)), Some(5)),
        (compiled.call((&table, &words(5))), Some(5)),
        (compiled.call((&table, &words(-1))), Some(-1)),
    ] {
        match (result.item::<f32>(), wrong) {
            (Ok(sum), None) => assert_eq!(sum.to_bits(), plain.to_bits()),
            (Err(error), Some(wrong)) => {
                let found = error.index().unwrap();
                assert_eq!((found.op.as_str(), found.value), ("embedding", wrong), "{error}");
                assert_eq!((&found.at[..], found.high), (&[1, 0][..], 5), "{error}");
            }
            (result, wrong) => panic!("{result:?} for {wrong:?}"),
        }
    }
    cx.check_indices(false);
    assert!(rows(&table, &words(5)).item::<f32>().is_ok());
}

macro_rules! backends {
    ($($name:ident = $target:literal, $plugin:literal, $rounds:literal;)*) => { $(
        mod $name {
            #[test]
            fn modes_agree() {
                if let Some(cx) = super::context($target, $plugin) {
                    super::modes_agree(&cx);
                }
            }

            #[test]
            fn values_are_seen() {
                if let Some(cx) = super::context($target, $plugin) {
                    super::values_are_seen(&cx);
                }
            }

            #[test]
            fn indices_are_checked() {
                if let Some(cx) = super::context($target, $plugin) {
                    super::indices_are_checked(&cx);
                }
            }

            #[test]
            fn recorded_values_stay() {
                if let Some(cx) = super::context($target, $plugin) {
                    super::recorded_values_stay(&cx);
                }
            }

            #[test]
            fn streams_and_threads_never_race() {
                if let Some(cx) = super::context($target, $plugin) {
                    super::streams_and_threads_never_race(&cx, $rounds);
                }
            }
        }
    )* };
}

backends! {
    cpu_embedded = "cpu", false, 200;
    cpu_plugin = "cpu", true, 200;
    reference_plugin = "reference", true, 20;
    opencl_plugin = "opencl", true, 20;
}
