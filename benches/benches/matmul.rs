//! Matrix products, with the peak of multiply-adds beside them: `matmul/<case>/<backend>/<threads>`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot start ends")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg::hal;
use thalweg::parallel::Pool;
use thalweg_benches::cases::{self, Limit};
use thalweg_benches::limits;

fn matmul(c: &mut Criterion) {
    let device = hal::device("cpu").expect("the embedded CPU is always there");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut group = c.benchmark_group("matmul");
    group.sample_size(10);
    for threads in [1, cores] {
        group.throughput(Throughput::Elements(limits::multiply_add_round(threads) as u64));
        group.bench_function(format!("limit_multiply_add/host/{threads}"), |b| {
            b.iter(|| limits::multiply_add_round(threads));
        });
    }
    for mut case in cases::products(&device, |_| true).expect("the cases compile") {
        if let Limit::Flops(operations) = case.limit {
            group.throughput(Throughput::Elements(operations as u64));
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

criterion_group!(benches, matmul);
criterion_main!(benches);
