//! U(x) = sum(0.5·k·(x − mu)²) over 1e8 numbers in chunks of 1e6: one kernel, first on one stream, then on two.
//!
//! `cargo run --release --example energy [TARGET]`, with `cpu`, `cuda:1`, … or `auto`.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use thalweg::hal::ir::{self, Access, Level, ReduceOp, Role, ScalarOp};
use thalweg::hal::{self, Buffer, DType, Element, Event, Kernel, Launch, Stream};
use thalweg::random::Mt19937;

const CHUNK: usize = 1_000_000;
const CHUNKS: usize = 100;

fn energy() -> ir::Kernel {
    let mut kernel = ir::Kernel::new("energy", 1, 1);
    let x = kernel.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let u = kernel.param(DType::F64, Role::Out, Level::Row, Access::Contiguous);
    let (k, mu) = (kernel.scalar(DType::F32), kernel.scalar(DType::F32));
    let (half, x) = (kernel.const_f32(0.5), kernel.load(x));
    let distance = kernel.op(ScalarOp::Sub, &[x, mu]);
    let square = kernel.op(ScalarOp::Mul, &[distance, distance]);
    let stiffness = kernel.op(ScalarOp::Mul, &[half, k]);
    let energy = kernel.op(ScalarOp::Mul, &[stiffness, square]);
    let energy = kernel.cast(DType::F64, energy);
    let total = kernel.reduce(ReduceOp::Sum, energy);
    kernel.store(u, total);
    kernel
}

fn main() -> thalweg::Result<()> {
    let device = hal::device(&std::env::args().nth(1).unwrap_or("cpu".into()))?;
    let streams = [Stream::new(&device)?, Stream::new(&device)?];
    let kernel = Kernel::compile(&device, &energy())?;
    let mut numbers = Mt19937::new(0);
    let chunks: Vec<Buffer> = (0..CHUNKS)
        .map(|_| {
            let chunk: Vec<f32> = (0..CHUNK).map(|_| numbers.random() as f32).collect();
            Buffer::from_slice(&streams[0], &chunk)
        })
        .collect::<hal::Result<_>>()?;
    let results = device.alloc((8 * CHUNKS) as u64)?;
    let (k, mu) = (1.0_f32.bits(), 1.0_f32.bits());
    for lanes in [1, 2] {
        let (start, end) = (Event::with_timing(&device)?, Event::with_timing(&device)?);
        start.record(&streams[0])?;
        for (index, chunk) in chunks.iter().enumerate() {
            let args = [chunk.arg(), results.arg().offset(8 * index as u64)];
            streams[index % lanes]
                .launch(&Launch::new(&kernel, &[1, CHUNK as u64], &args).scalars(&[k, mu]))?;
        }
        streams[0].wait_stream(&streams[1])?;
        end.record(&streams[0])?;
        let total: f64 = results.download::<f64>(&streams[0])?.iter().sum();
        println!(
            "{lanes} stream(s): U = {total:.6} in {:.3} ms",
            start.elapsed_time(&end)?
        );
    }
    Ok(())
}
