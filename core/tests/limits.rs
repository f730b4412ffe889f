//! Numbers that are too large, and memory that is too small: each is an error that says so, and leaves no mark.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../tests/tests/plugins/tried.rs"]
mod tried;

use std::cell::Cell;
use std::time::{Duration, Instant};
use thalweg::graph::{Graph, NodeId, Op, Type};
use thalweg::hal::ir::ScalarOp;
use thalweg::hal::{DeviceOptions, Status, runtime};
use thalweg::ops::{FoldOptions, PoolOptions};
use thalweg::parallel::{MAX_THREADS, Pool};
use thalweg::tensor::tag::OpTag;
use thalweg::{Context, DType, Shape, Tensor, jit};

fn cpu() -> Context {
    Context::new("cpu").unwrap()
}

thread_local! {
    /// Calls of this test that were refused.
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// The error is of the op, and says this.
#[track_caller]
fn refused(x: &Tensor, part: &str) {
    REFUSED.set(REFUSED.get() + 1);
    let error = x.shape().unwrap_err().to_string();
    assert!(error.contains(part), "`{part}` is not in: {error}");
}

const HUGE: [usize; 4] = [usize::MAX, usize::MAX / 2 + 2, 1 << 62, 1 << 33];

#[test]
fn windows_that_overflow_are_refused() {
    let cx = cpu();
    let (line, image) = (
        Tensor::ones([1, 1, 6], DType::F32, &cx),
        Tensor::ones([1, 1, 6, 6], DType::F32, &cx),
    );
    for huge in HUGE {
        let most = format!("{huge}: it is at most 2147483648");
        for options in [
            PoolOptions::new(huge),
            PoolOptions::new(2).stride(huge),
            PoolOptions::new(2).padding(huge),
            PoolOptions::new(2).dilation(huge),
            PoolOptions::new(2).stride(huge).ceil_mode(true),
        ] {
            refused(&line.max_pool1d(options), &most);
            refused(&image.max_pool2d(options), &most);
            refused(&image.avg_pool2d(options), &most);
        }
        for options in [
            FoldOptions::new(huge),
            FoldOptions::new(2).stride(huge),
            FoldOptions::new(2).padding(huge),
            FoldOptions::new(2).dilation(huge),
        ] {
            refused(&image.unfold2d(options), &most);
            refused(
                &Tensor::ones([1, 4, 25], DType::F32, &cx).fold2d([6, 6], options),
                &most,
            );
        }
        refused(&line.adaptive_avg_pool1d(huge), &most);
        refused(&image.adaptive_max_pool2d([2, huge]), &most);
    }
    // Each number is possible, their products are not.
    let large = 1 << 31;
    refused(
        &image.unfold2d(FoldOptions::new([1, 1]).padding(large)),
        "is too large",
    );
    let columns = Tensor::ones([1, 1, 1], DType::F32, &cx);
    refused(
        &columns.fold2d([1 << 60, 1 << 60], FoldOptions::new(1)),
        "too many elements",
    );
    refused(
        &columns.fold2d([1 << 59, 1], FoldOptions::new(1).padding(large)),
        "is too large",
    );
    let wide = Tensor::ones([1, 1, 1], DType::F32, &cx).broadcast_to([1, 1, 1 << 40]);
    refused(&wide.adaptive_max_pool1d(1 << 30), "their product is too large");
    tried::tried(REFUSED.get());
}

#[test]
fn counts_of_the_greatest_numbers_are_refused() {
    let cx = cpu();
    for greatest in [i64::MAX, i64::MAX - 1, 1 << 61] {
        let x = Tensor::from_slice(&[0, greatest], 2, &cx);
        refused(&x.bincount(0), "has too many elements");
    }
    let negative = Tensor::from_slice(&[-3_i64, -1], 2, &cx);
    assert_eq!(*negative.bincount(0).shape().unwrap(), [0]);
    assert_eq!(*negative.bincount(2).shape().unwrap(), [2]);
}

#[test]
fn an_operand_of_another_graph_is_refused() {
    let mut graph = Graph::new();
    let ty = Type {
        shape: Shape::new(&[2]).unwrap(),
        dtype: DType::F32,
    };
    let x = graph.input(ty);
    let add = Op::Map(ScalarOp::Add);
    let refusal = graph.push(add.clone(), &[x, NodeId(7)], OpTag::NONE).unwrap_err();
    assert_eq!(refusal.message, "node 7 of a graph of 1 nodes");
    assert_eq!(graph.push(add, &[x, x], OpTag::NONE).unwrap(), NodeId(1));
}

#[test]
fn threads_have_a_bound() {
    let error = Context::builder()
        .device_target("cpu")
        .threads(usize::MAX)
        .build()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!(
            "{} threads, at most {MAX_THREADS} are possible",
            usize::MAX
        )),
        "{error}"
    );
    let pool = Pool::new(usize::MAX);
    assert_eq!(pool.threads(), MAX_THREADS);
    pool.set_threads(usize::MAX);
    assert_eq!(pool.threads(), MAX_THREADS);
    assert_eq!(
        Tensor::ones([4096], DType::F32, &cpu())
            .sum()
            .item::<f32>()
            .unwrap(),
        4096.0
    );
}

#[test]
fn many_tensors_are_joined_in_time() {
    let cx = cpu();
    let numbers: Vec<f32> = (0..100_000_u32).map(|i| i as f32).collect();
    let parts: Vec<Tensor> = numbers
        .iter()
        .map(|&number| Tensor::from_slice(&[number], 1, &cx))
        .collect();
    let begun = Instant::now();
    assert_eq!(Tensor::concat(&parts, 0).to_vec::<f32>().unwrap(), numbers);
    let rows = Tensor::stack(&parts[..1000], 0);
    assert_eq!(*rows.shape().unwrap(), [1000, 1]);
    assert_eq!(rows.to_vec::<f32>().unwrap(), numbers[..1000]);
    // A few tenths of a second alone on a machine; it was a minute without optimisation.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Neither of a tensor that does not fit, nor of one whose result fits and whose scratch memory does not.
#[test]
fn memory_that_could_not_be_had_is_no_peak() {
    let backend = runtime().backend("cpu").unwrap();
    let options = DeviceOptions::new(0)
        .memory_limit(100 << 20)
        .block_size(100 << 20);
    let cx = Context::on(backend.open(&options).unwrap());
    let held = Tensor::ones([1000], DType::F32, &cx);
    held.to_vec::<f32>().unwrap();
    let before = cx.device().memory_stats().unwrap();
    for elements in [100_000_000_i64, 10_000_000, 13_000_000] {
        let x = Tensor::arange(0, elements, 1, &cx);
        let read = x.sort(0, false).to_vec::<i64>().map(drop);
        let error = read.unwrap_err();
        assert_eq!(error.status(), Some(Status::OutOfMemory), "{error}");
        drop(x);
        let after = cx.device().memory_stats().unwrap();
        assert_eq!(
            (after.allocated, after.live),
            (before.allocated, before.live),
            "{elements}"
        );
        assert!(after.max_allocated <= 100 << 20, "{elements}: {after:?}");
        if elements * 8 > 100 << 20 {
            assert_eq!(after.max_allocated, before.max_allocated, "{elements}");
        }
    }
}

/// A program that needs two buffers of 800 MB finds the first in what the pool had reserved before the limit was set.
#[test]
fn the_half_of_a_run_that_could_be_had_is_no_peak() {
    let backend = runtime().backend("cpu").unwrap();
    let cx = Context::on(backend.open(&DeviceOptions::new(0)).unwrap());
    let held = Tensor::ones([100, 100], DType::F32, &cx);
    assert_eq!(held.sum().item::<f32>().unwrap(), 10_000.0);
    cx.device().set_memory_limit(100 << 20).unwrap();
    let before = cx.device().memory_stats().unwrap();
    let twice = jit(|x: &Tensor| {
        let wide = x.cast(DType::F64).expand([10_000, 100, 100]);
        (&wide + 1.0, wide * 2.0)
    });
    let (sum, double) = twice.call(&held);
    let error = sum.to_vec::<f64>().map(drop).unwrap_err();
    assert_eq!(error.status(), Some(Status::OutOfMemory), "{error}");
    drop((sum, double));
    let after = cx.device().memory_stats().unwrap();
    assert_eq!(
        (after.allocated, after.live, after.max_allocated),
        (before.allocated, before.live, before.max_allocated)
    );
    assert!(after.max_allocated < 1 << 20, "{after:?}");
}
