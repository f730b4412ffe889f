//! What calls cost: `launch/<case>/<backend>`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot start ends")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg::hal::{self, Buffer, Graph, Kernel, Launch, Node, Packet, Stream};
use thalweg_benches::kernels;

fn launch(c: &mut Criterion) {
    let device = hal::device("cpu").expect("the embedded CPU is always there");
    let stream = Stream::new(&device).expect("a stream");
    let mut group = c.benchmark_group("launch");
    group.throughput(Throughput::Elements(1));

    let empty = Kernel::compile(&device, &kernels::empty()).expect("an empty kernel");
    let nothing = Launch::new(&empty, &[], &[]);
    group.bench_function("empty/cpu", |b| b.iter(|| stream.launch(&nothing)));

    let add = Kernel::compile(&device, &kernels::add()).expect("a + b");
    let one = |value: f32| Buffer::from_slice(&stream, &[value]).expect("a buffer");
    let (x, y) = (one(1.0), one(2.0));
    group.bench_function("eager_add/cpu", |b| {
        b.iter(|| {
            let out = device.alloc(4)?;
            stream.launch(&Launch::new(&add, &[1], &[x.arg(), y.arg(), out.arg()]))
        });
    });
    group.bench_function("alloc_512/cpu", |b| b.iter(|| device.alloc(512).map(drop)));
    group.bench_function("alloc_4MB/cpu", |b| b.iter(|| device.alloc(4_000_000).map(drop)));

    let nodes: Vec<Node<'_>> = (0..1000)
        .map(|_| Node::new(Packet::Launch(nothing), &[]))
        .collect();
    let graph = Graph::new(&device, &nodes).expect("a graph");
    group.throughput(Throughput::Elements(1000));
    group.bench_function("graph_1000/cpu", |b| {
        b.iter(|| graph.launch(&stream).and_then(|()| stream.synchronize()));
    });
    group.finish();
}

criterion_group!(benches, launch);
criterion_main!(benches);
