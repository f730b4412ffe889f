//! Training steps and inference of networks: `networks/<case>/<backend>/<threads>`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot start ends")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg::Context;
use thalweg::parallel::Pool;
use thalweg_benches::cases::Limit;
use thalweg_benches::{limits, networks};

fn networks(c: &mut Criterion) {
    let cx = Context::new("cpu").expect("the embedded CPU is always there");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut group = c.benchmark_group("networks");
    group.sample_size(10);
    for threads in [1, cores] {
        group.throughput(Throughput::Elements(limits::multiply_add_round(threads) as u64));
        group.bench_function(format!("limit_multiply_add/host/{threads}"), |b| {
            b.iter(|| limits::multiply_add_round(threads));
        });
    }
    for mut case in networks::cases(&cx, |_| true).expect("the networks are made") {
        if let Limit::Flops(operations) = case.limit {
            group.throughput(Throughput::Elements(operations as u64));
        }
        for threads in [1, cores] {
            Pool::global().set_threads(threads);
            group.bench_function(format!("{}/cpu/{threads}", case.name), |b| {
                b.iter(|| (case.run)().expect("the network runs"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, networks);
criterion_main!(benches);
