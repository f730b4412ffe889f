//! U(x) = sum(0.5·k·(x − mu)²) in chunks.

use super::{Failure, Outcome, equal, expect};
use std::time::{Duration, Instant};
use thalweg::hal::ir::{self, Access, Level, ReduceOp, Role, ScalarOp};
use thalweg::hal::{
    Backend, Buffer, Capability, DType, Device, DeviceOptions, Element, Error, Event, Kernel, Launch, Stream,
    Tag,
};
use thalweg::parallel::Pool;
use thalweg::random::Mt19937;

/// Elements of a chunk.
const CHUNK: usize = 1_000_000;
/// Chunks of the rows as they are written.
const CHUNKS: usize = 100;
/// U over [`CHUNKS`] chunks of NumPy's sequence of seed 0, rounded to f32.
const TOTAL: f64 = 16_668_921.903_108;

/// Two streams' worth of buffers and the kernel: one launch is U of one chunk, as f64 where the device has it.
struct Energy {
    kernel: Kernel,
    streams: [Stream; 2],
    chunks: [Buffer; 2],
    results: Buffer,
    result: DType,
}

fn kernel(sum: DType) -> ir::Kernel {
    let mut kernel = ir::Kernel::new("energy", 1, 1);
    let x = kernel.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let u = kernel.param(sum, Role::Out, Level::Row, Access::Contiguous);
    let (k, mu) = (kernel.scalar(DType::F32), kernel.scalar(DType::F32));
    let (half, x) = (kernel.const_f32(0.5), kernel.load(x));
    let distance = kernel.op(ScalarOp::Sub, &[x, mu]);
    let square = kernel.op(ScalarOp::Mul, &[distance, distance]);
    let stiffness = kernel.op(ScalarOp::Mul, &[half, k]);
    let mut energy = kernel.op(ScalarOp::Mul, &[stiffness, square]);
    if sum != DType::F32 {
        energy = kernel.cast(sum, energy);
    }
    let total = kernel.reduce(ReduceOp::Sum, energy);
    kernel.store(u, total);
    kernel
}

impl Energy {
    fn new(device: &Device, chunks: usize) -> Result<Energy, Error> {
        let result = if device.capability(Capability::F64) {
            DType::F64
        } else {
            DType::F32
        };
        let streams = [Stream::new(device)?, Stream::new(device)?];
        let tag = Tag::new("energy");
        let chunk = |stream: &Stream| stream.alloc(4 * CHUNK as u64, tag);
        Ok(Energy {
            kernel: Kernel::compile(device, &kernel(result))?,
            chunks: [chunk(&streams[0])?, chunk(&streams[1])?],
            results: streams[0].alloc((result.size() * chunks) as u64, tag)?,
            streams,
            result,
        })
    }

    /// U of a chunk to its place among the results, on stream `lane`.
    fn launch(&self, lane: usize, index: usize) -> Result<(), Error> {
        let offset = (index * self.result.size()) as u64;
        let args = [self.chunks[lane].arg(), self.results.arg().offset(offset)];
        let scalars = [1.0_f32.bits(), 1.0_f32.bits()];
        let tag = Tag::new("energy");
        self.streams[lane].launch(
            &Launch::new(&self.kernel, &[1, CHUNK as u64], &args)
                .scalars(&scalars)
                .tag(tag),
        )
    }

    /// The sum of all results, in the order of the chunks. The first stream waits for the second.
    fn total(&self) -> Result<f64, Error> {
        let done = Event::new(self.results.device())?;
        self.streams[1].record_event(&done)?;
        self.streams[0].wait_event(&done)?;
        Ok(match self.result {
            DType::F64 => self.results.download::<f64>(&self.streams[0])?.iter().sum(),
            _ => self
                .results
                .download::<f32>(&self.streams[0])?
                .iter()
                .map(|&u| f64::from(u))
                .sum(),
        })
    }

    /// The loop over chunks, on one stream or on two by turns.
    fn run(&self, data: &[f32], lanes: usize) -> Result<f64, Error> {
        for (index, chunk) in data.chunks_exact(CHUNK).enumerate() {
            let lane = index % lanes;
            let tag = Tag::new("upload");
            // SAFETY: `data` outlives the synchronize below, which is reached on every path.
            let copied =
                unsafe { self.chunks[lane].upload_async(&self.streams[lane], 0, chunk.as_ptr(), CHUNK, tag) };
            if let Err(error) = copied.and_then(|()| self.launch(lane, index)) {
                // The work so far still reads `data`; the error at hand is the one to report.
                let _ = self
                    .streams
                    .iter()
                    .map(Stream::synchronize)
                    .fold(Ok(()), Result::and);
                return Err(error);
            }
        }
        let total = self.total();
        let done = self
            .streams
            .iter()
            .map(Stream::synchronize)
            .fold(Ok(()), Result::and);
        total.and_then(|total| done.map(|()| total))
    }
}

fn sequence(chunks: usize) -> Vec<f32> {
    let mut numbers = Mt19937::new(0);
    (0..chunks * CHUNK).map(|_| numbers.random() as f32).collect()
}

fn close(what: &str, found: f64, expected: f64) -> Outcome {
    let error = ((found - expected) / expected).abs();
    expect(error <= 1e-7, || {
        format!("{what}: {found:.6}, expected {expected:.6} within 1e-7, off by {error:.1e}")
    })
}

/// U of ones with mu = k = 1, over `chunks` chunks of 1e6: exactly 0.
///
/// # Errors
/// What differs.
pub fn a9(backend: &Backend, chunks: usize) -> Outcome {
    let device = backend.open(&DeviceOptions::new(0).block_size(64 << 20))?;
    let energy = Energy::new(&device, chunks)?;
    energy.chunks[0].fill(&energy.streams[0], 1.0_f32)?;
    for index in 0..chunks {
        energy.launch(0, index)?;
    }
    equal("U of ones", energy.total()?, 0.0)
}

/// The first doubles of NumPy's legacy generator with seed 0.
///
/// # Errors
/// What differs.
pub fn a10() -> Outcome {
    let mut numbers = Mt19937::new(0);
    let found = [0; 3].map(|_| numbers.random());
    equal(
        "MT19937 with seed 0",
        found,
        [0.5488135039273248, 0.7151893663724195, 0.6027633760716439],
    )
}

/// U over the first `chunks` chunks of that sequence: the value, and the same bits from one stream and two and, where the
/// backend computes on the host's threads, from any number of threads.
///
/// # Errors
/// What differs.
pub fn a11(backend: &Backend, chunks: usize) -> Outcome {
    let device = backend.open(&DeviceOptions::new(0).block_size(64 << 20))?;
    let energy = Energy::new(&device, chunks)?;
    let data = sequence(chunks);
    let exact: f64 = data.iter().map(|&x| 0.5 * (f64::from(x) - 1.0).powi(2)).sum();
    let plain = energy.run(&data, 1)?;
    close("U of the sequence", plain, exact)?;
    if chunks == CHUNKS {
        close("U of 1e8 numbers", plain, TOTAL)?;
    }
    let threads = Pool::global().threads();
    let counts = if device.properties().kind == thalweg::hal::Kind::Cpu {
        1..=threads.max(4)
    } else {
        threads..=threads
    };
    for count in counts {
        Pool::global().set_threads(count);
        let totals = (energy.run(&data, 1), energy.run(&data, 2));
        Pool::global().set_threads(threads);
        equal(
            &format!("bits of the plain loop, {count} threads"),
            totals.0?.to_bits(),
            plain.to_bits(),
        )?;
        equal(
            &format!("bits of the two-stream loop, {count} threads"),
            totals.1?.to_bits(),
            plain.to_bits(),
        )?;
    }
    Ok(())
}

/// Best times of the plain loop and of the two-stream loop over `chunks` chunks, taken by turns in `rounds` pairs.
///
/// # Errors
/// Those of the loops; a total that differs between them.
pub fn plain_and_two_streams(
    backend: &Backend,
    chunks: usize,
    rounds: usize,
) -> Result<[Duration; 2], Failure> {
    let device = backend.open(&DeviceOptions::new(0).block_size(64 << 20))?;
    let energy = Energy::new(&device, chunks)?;
    let data = sequence(chunks);
    let total = energy.run(&data, 1)?;
    let mut best = [Duration::MAX; 2];
    for _ in 0..rounds {
        for (best, lanes) in best.iter_mut().zip([1, 2]) {
            let start = Instant::now();
            let found = energy.run(&data, lanes)?;
            *best = start.elapsed().min(*best);
            equal("bits of the total", found.to_bits(), total.to_bits())?;
        }
    }
    Ok(best)
}

/// A device whose limit is below what U over one array of 1e8 needs; the loop over `chunks` chunks fits.
///
/// # Errors
/// What differs.
pub fn a12(backend: &Backend, chunks: usize) -> Outcome {
    const LIMIT: u64 = 64 << 20;
    const WHOLE: u64 = 4 * (CHUNK * CHUNKS) as u64;
    let device = backend.open(&DeviceOptions::new(0).memory_limit(LIMIT).block_size(4 << 20))?;
    let stream = device.default_stream()?;
    let line = line!() + 1;
    match stream.alloc(WHOLE, Tag::new("energy")) {
        Err(Error::OutOfMemory(error)) => {
            equal("device id", error.device_id, 0)?;
            equal("device", error.target.as_str(), device.target())?;
            equal("op", error.op.as_str(), "energy")?;
            equal("bytes asked for", error.bytes, WHOLE)?;
            equal("limit in the pool's state", error.stats.limit, LIMIT)?;
            equal("line of the call", error.location.map(|at| at.line()), Some(line))?;
            let text = error.to_string();
            for part in [
                "energy",
                device.target(),
                "400000000 B",
                "67108864 B",
                "reserved",
                "allocated",
            ] {
                expect(text.contains(part), || format!("`{text}` does not say `{part}`"))?;
            }
        }
        other => {
            return Err(Failure(format!(
                "an allocation of {WHOLE} B under a limit of {LIMIT} B: {other:?}"
            )));
        }
    }
    equal("out-of-memory events", device.memory_stats()?.out_of_memory, 1)?;
    let energy = Energy::new(&device, chunks)?;
    let data = sequence(chunks);
    let exact: f64 = data.iter().map(|&x| 0.5 * (f64::from(x) - 1.0).powi(2)).sum();
    close(
        "U of the sequence after running out of memory",
        energy.run(&data, 2)?,
        exact,
    )
}
