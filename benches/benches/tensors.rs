//! What tensors cost: `tensors/<case>/<backend>`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot start ends")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg::{Context, Tensor, jit};
use thalweg_benches::cases::Limit;
use thalweg_benches::tensors::{NODES, Network, energies};

fn calls(c: &mut Criterion) {
    let cx = Context::new("cpu").expect("the embedded CPU is always there");
    let one = |value: f32| Tensor::from_slice(&[value], 1, &cx);
    let (a, b) = (one(1.0), one(2.0));
    let double = jit(|x: &Tensor| x + x);
    let mut group = c.benchmark_group("tensors");
    group.throughput(Throughput::Elements(1));
    group.bench_function("eager_add/cpu", |bencher| bencher.iter(|| &a + &b));
    group.bench_function("eager_add_number/cpu", |bencher| bencher.iter(|| &a + 1.0));
    group.bench_function("jit_call/cpu", |bencher| bencher.iter(|| double.call(&a)));
    group.finish();
}

fn energy(c: &mut Criterion) {
    let cx = Context::new("cpu").expect("the embedded CPU is always there");
    let mut group = c.benchmark_group("tensors");
    group.sample_size(10);
    for mut case in energies(&cx).expect("memory for 1e8 numbers") {
        if let Limit::Bytes(bytes) = case.limit {
            group.throughput(Throughput::Bytes(bytes as u64));
        }
        group.bench_function(format!("{}/cpu", case.name), |bencher| {
            bencher.iter(|| (case.run)().expect("the energy"));
        });
    }
    group.finish();
}

fn compile(c: &mut Criterion) {
    let mut group = c.benchmark_group("tensors");
    group.sample_size(10);
    group.throughput(Throughput::Elements(NODES as u64));
    group.bench_function("compile_500_nodes/cpu", |bencher| {
        bencher.iter_custom(|times| {
            (0..times)
                .map(|_| {
                    let network = Network::new("cpu").expect("the embedded CPU is always there");
                    network.compile().expect("the network")
                })
                .sum()
        });
    });
    group.finish();
}

criterion_group!(benches, calls, compile, energy);
criterion_main!(benches);
