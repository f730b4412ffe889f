//! Fused kernels and reductions, with the reading of memory beside them: `kernels/<case>/<backend>/<threads>`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot start ends")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg::hal;
use thalweg::parallel::Pool;
use thalweg_benches::cases::{self, Limit};
use thalweg_benches::limits::{FAR, Memory};

fn kernels(c: &mut Criterion) {
    let device = hal::device("cpu").expect("the embedded CPU is always there");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut group = c.benchmark_group("kernels");
    group.sample_size(10);
    let far = Memory::new(&device, FAR).expect("memory for the probe");
    for threads in [1, cores] {
        group.throughput(Throughput::Bytes(FAR as u64));
        group.bench_function(format!("limit_read/host/{threads}"), |b| {
            b.iter(|| far.read(FAR, threads))
        });
    }
    for mut case in cases::kernels(&device, |_| true).expect("the cases compile") {
        if let Limit::Bytes(bytes) = case.limit {
            group.throughput(Throughput::Bytes(bytes as u64));
        }
        for threads in [1, cores] {
            Pool::global().set_threads(threads);
            group.bench_function(format!("{}/cpu/{threads}", case.name), |b| {
                b.iter(|| (case.run)())
            });
        }
    }
    group.finish();
}

criterion_group!(benches, kernels);
criterion_main!(benches);
