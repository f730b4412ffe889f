//! Order, ends and overlap of batches.

use super::super::{HostBatch, Rows, Samples};
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thalweg::{DType, Event, Mode, Result};

fn numbers(count: usize) -> Samples {
    let x = (0..count * 2).map(|i| i as f32).collect::<Vec<_>>();
    let y = (0..count as i64).collect::<Vec<_>>();
    Samples::new(Rows::new(x, &[2]).unwrap(), Rows::new(y, &[]).unwrap()).unwrap()
}

#[test]
fn every_sample_comes_once_an_epoch_with_its_target() {
    let cx = Context::new("cpu").unwrap();
    for (prefetch, workers) in [(0, 1), (2, 1), (1, 3), (5, 3)] {
        let loader = Loader::new(numbers(10), 4)
            .shuffle(3)
            .prefetch(prefetch)
            .workers(workers);
        assert_eq!(loader.batches(), 3);
        let mut orders = Vec::new();
        for epoch in 0..2 {
            let mut seen = Vec::new();
            for batch in loader.epoch(epoch, 0, &cx) {
                let batch = batch.unwrap();
                let (x, y) = (batch.x.to_vec::<f32>().unwrap(), batch.y.to_vec::<i64>().unwrap());
                for (row, &target) in x.chunks(2).zip(&y) {
                    assert_eq!(row, [target as f32 * 2.0, target as f32 * 2.0 + 1.0]);
                }
                seen.extend(y);
            }
            orders.push(seen.clone());
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<i64>>());
        }
        assert_ne!(orders[0], orders[1]);
        let again: Vec<i64> = loader.order(1).into_iter().map(|i| i as i64).collect();
        assert_eq!(orders[1], again);
        let rest = loader
            .epoch(1, 2, &cx)
            .map(|batch| batch.unwrap().y.elements().unwrap());
        assert_eq!(rest.collect::<Vec<_>>(), [2]);
    }
    let whole = Loader::new(numbers(10), 4).drop_last(true);
    assert_eq!((whole.batches(), whole.epoch(0, 0, &cx).count()), (2, 2));
}

#[test]
fn an_epoch_that_is_left_early_ends_its_readers() {
    let cx = Context::new("cpu").unwrap();
    let loader = Loader::new(numbers(1000), 1).prefetch(3).workers(2);
    assert!(loader.epoch(0, 0, &cx).next().unwrap().is_ok());
}

/// What goes wrong at a sample.
struct Faulty(fn() -> Result<()>);

impl Dataset for Faulty {
    fn len(&self) -> usize {
        6
    }

    fn collect(&self, samples: &[usize]) -> Result<HostBatch> {
        if samples.contains(&3) {
            (self.0)()?;
        }
        numbers(6).collect(samples)
    }
}

#[test]
fn errors_and_panics_of_a_reader_come_in_their_place() {
    let cx = Context::new("cpu").unwrap();
    for prefetch in [0, 1, 3] {
        let loader = Loader::new(Faulty(|| Err(invalid("no disk".into()))), 1)
            .prefetch(prefetch)
            .workers(2);
        let came: Vec<bool> = loader.epoch(0, 0, &cx).map(|batch| batch.is_ok()).collect();
        assert_eq!(came, [true, true, true, false, true, true]);
    }
    let loader = Loader::new(Faulty(|| panic!("a fault of the data")), 1).prefetch(2);
    let came: Vec<crate::Result<Batch>> = loader.epoch(0, 0, &cx).collect();
    assert_eq!(came.len(), 4);
    let error = came[3].as_ref().unwrap_err().to_string();
    assert!(error.contains("reading samples panicked"), "{error}");
}

/// A step is at work on the device while the next batch is read, placed and handed over: by events, not by the clock.
#[test]
fn the_next_batch_is_there_while_the_device_still_works() {
    let cx = Context::new("cpu").unwrap();
    cx.set_mode(Mode::Graph);
    let width = 512;
    let rows = Rows::new(vec![1.0_f32; 4 * width * width], &[width, width]).unwrap();
    let data = Samples::new(rows, Rows::new(vec![0_i64; 4], &[]).unwrap()).unwrap();
    let work = thalweg::jit(|x: &Tensor| (0..40).fold(x.clone(), |x, _| x.matmul(&(&x * 1e-3))));
    let stream = cx.stream().unwrap();
    // Compiled before it counts.
    let first = Tensor::ones([1, width, width], DType::F32, &cx);
    work.call(&first).sum().item::<f32>().unwrap();
    let done = Event::new(cx.device()).unwrap();
    let mut batches = Loader::new(data, 1).prefetch(1).epoch(0, 0, &cx);
    let mut batch = batches.next().unwrap().unwrap();
    let mut overlapped = 0;
    for _ in 0..3 {
        let result = work.call(&batch.x);
        done.record(&stream).unwrap();
        batch = batches.next().unwrap().unwrap();
        overlapped += usize::from(!done.query().unwrap());
        drop(result);
        done.synchronize().unwrap();
    }
    assert_eq!(
        overlapped, 3,
        "the device was done before the next batch was there"
    );
}

/// As many batches as were asked for are read ahead of the one that is used, and no more.
#[test]
fn no_more_is_read_ahead_than_was_asked_for() {
    let cx = Context::new("cpu").unwrap();
    for (prefetch, workers) in [(1, 1), (2, 1), (2, 4), (3, 2), (5, 3)] {
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let data = numbers(20).map(move |batch| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(batch)
        });
        let mut batches = Loader::new(data, 1)
            .prefetch(prefetch)
            .workers(workers)
            .epoch(0, 0, &cx);
        for used in 1..=3 {
            batches.next().unwrap().unwrap();
            while read.load(Ordering::SeqCst) < used + prefetch {
                std::thread::yield_now();
            }
            // Time for one that should not come.
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(
                read.load(Ordering::SeqCst),
                used + prefetch,
                "{prefetch}, {workers}"
            );
        }
    }
}

/// Readers that wait beside each other: as many at once as there are threads.
#[test]
fn several_threads_read_at_once() {
    static READING: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let cx = Context::new("cpu").unwrap();
    let slow = numbers(8).map(|batch| {
        MOST.fetch_max(READING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        READING.fetch_sub(1, Ordering::SeqCst);
        Ok(batch)
    });
    assert_eq!(
        Loader::new(slow, 1)
            .prefetch(4)
            .workers(4)
            .epoch(0, 0, &cx)
            .count(),
        8
    );
    assert!(MOST.load(Ordering::SeqCst) > 1);
}
