//! Times the executor against the memory's limits, probed in the same run: `exec_probe [case…]`.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use thalweg_backend_cpu::exec::{Arg, Args, Program};
use thalweg_backend_cpu::parallel::{Parallel, Serial};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, NodeId, ReduceOp, Role, ScalarOp};

/// A second thread that spins between the regions.
struct Pair {
    job: std::sync::Mutex<Option<(usize, usize)>>,
    round: AtomicUsize,
    done: AtomicUsize,
    next: AtomicUsize,
    stop: AtomicBool,
}

type Body<'a> = dyn Fn(usize) + Sync + 'a;

impl Pair {
    const fn new() -> Pair {
        Pair {
            job: std::sync::Mutex::new(None),
            round: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn work(&self, n: usize, body: &Body<'_>) {
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                break;
            }
            body(i);
        }
    }

    fn spin(&self) {
        let mut seen = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let round = self.round.load(Ordering::Acquire);
            if round == seen {
                std::hint::spin_loop();
                continue;
            }
            seen = round;
            let (n, body) = self.job.lock().unwrap().unwrap();
            // SAFETY: the body outlives the round, whose end waits for `done`.
            let body: &&Body<'_> = unsafe { &*(body as *const &Body<'_>) };
            self.work(n, *body);
            self.done.store(seen, Ordering::Release);
        }
    }
}

impl Parallel for Pair {
    fn threads(&self) -> usize {
        2
    }

    fn run(&self, n: usize, body: &Body<'_>) {
        let round = self.round.load(Ordering::Relaxed) + 1;
        self.next.store(0, Ordering::Relaxed);
        *self.job.lock().unwrap() = Some((n, &raw const body as usize));
        self.round.store(round, Ordering::Release);
        self.work(n, body);
        while self.done.load(Ordering::Acquire) != round {
            std::hint::spin_loop();
        }
    }
}

/// Memory in huge pages, touched.
struct Huge {
    start: *mut u8,
    bytes: usize,
}

impl Huge {
    fn new(bytes: usize) -> Huge {
        let bytes = bytes.next_multiple_of(2 << 20);
        // SAFETY: an anonymous mapping of our own.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let all = libc::mmap(
                std::ptr::null_mut(),
                bytes + (2 << 20),
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            assert!(all != libc::MAP_FAILED);
            let start = all.cast::<u8>().add(all.cast::<u8>().align_offset(2 << 20));
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
            let huge = Huge { start, bytes };
            let mut state = 1u32;
            for i in 0..bytes / 4 {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                start.cast::<f32>().add(i).write((state >> 8) as f32 / 8e6 - 1.0);
            }
            huge
        }
    }

    fn floats(&self) -> *mut f32 {
        self.start.cast()
    }
}

// SAFETY: the probe's threads share plain numbers.
unsafe impl Sync for Huge {}

fn best(rounds: usize, mut f: impl FnMut()) -> f64 {
    f();
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

/// Seconds per byte of the memory.
type Limit = fn(&dyn Parallel, &[Huge; 3]) -> f64;

/// Bytes of each stream of a limit.
const STREAM: usize = 400_000_000;

fn chunks(parallel: &dyn Parallel, bytes: usize, body: &(dyn Fn(usize, usize) + Sync)) {
    let tasks = parallel.threads() * 4;
    let step = bytes / tasks / 4096 * 4096;
    parallel.run(tasks, &|t| body(t * step, step));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn read(from: &[f32]) -> f32 {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_ps(); 8];
    for (i, line) in from.chunks_exact(128).enumerate() {
        // SAFETY: the line has 128 floats; prefetches never fault.
        unsafe {
            for (k, sum) in sums.iter_mut().enumerate() {
                _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().wrapping_add(i * 128 + k * 16 + 1024).cast());
                *sum = _mm512_add_ps(*sum, _mm512_loadu_ps(line.as_ptr().add(k * 16)));
            }
        }
    }
    sums.into_iter().map(|s| _mm512_reduce_add_ps(s)).sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn streamed(to: *mut f32, a: *const f32, b: *const f32, n: usize, two: bool) {
    use std::arch::x86_64::*;
    for i in (0..n).step_by(16) {
        // SAFETY: n is a multiple of 16 and all sides hold n floats.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(i + 1024).cast());
            let mut x = _mm512_loadu_ps(a.add(i));
            if two {
                _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(i + 1024).cast());
                x = _mm512_add_ps(x, _mm512_loadu_ps(b.add(i)));
            }
            _mm512_stream_ps(to.add(i), x);
        }
    }
    _mm_sfence();
}

fn read_limit(parallel: &dyn Parallel, [a, ..]: &[Huge; 3]) -> f64 {
    let address = a.start as usize;
    let seconds = best(3, || {
        chunks(parallel, STREAM, &|at, n| {
            // SAFETY: the range lies in the buffer.
            let part =
                unsafe { std::slice::from_raw_parts((address as *const f32).wrapping_byte_add(at), n / 4) };
            // SAFETY: the machine has AVX-512, as this probe asks for.
            std::hint::black_box(unsafe { read(part) });
        });
    });
    seconds / STREAM as f64
}

fn write_limit(parallel: &dyn Parallel, [a, b, c]: &[Huge; 3], two: bool) -> f64 {
    let addresses = [a.start as usize, b.start as usize, c.start as usize];
    let seconds = best(3, || {
        chunks(parallel, STREAM, &|at, n| {
            let [a, b, c] = addresses.map(|x| (x as *mut f32).wrapping_byte_add(at));
            // SAFETY: the ranges lie in the buffers; the machine has AVX-512.
            unsafe { streamed(c, a, b, n / 4, two) };
        });
    });
    seconds / STREAM as f64 / if two { 3.0 } else { 2.0 }
}

fn copy_limit(parallel: &dyn Parallel, buffers: &[Huge; 3]) -> f64 {
    write_limit(parallel, buffers, false)
}

fn triad_limit(parallel: &dyn Parallel, buffers: &[Huge; 3]) -> f64 {
    write_limit(parallel, buffers, true)
}

struct Bench {
    name: &'static str,
    kernel: Kernel,
    extents: Vec<u64>,
    /// Per parameter: elements, and strides of strided ones.
    params: Vec<(usize, Vec<i64>)>,
    /// Bytes that must move, and whether the result is as large as an input.
    bytes: f64,
    kind: Limit,
}

fn input(k: &mut Kernel, level: Level, access: Access) -> NodeId {
    let p = k.param(DType::F32, Role::In, level, access);
    k.load(p)
}

fn output(k: &mut Kernel, dtype: DType, level: Level, value: NodeId) {
    let p = k.param(dtype, Role::Out, level, Access::Contiguous);
    k.store(p, value);
}

fn energy() -> Bench {
    let mut k = Kernel::new("energy", 0, 1);
    let x = input(&mut k, Level::Element, Access::Contiguous);
    let mu = k.const_f32(0.25);
    let half = k.const_f32(0.5 * 3.0);
    let d = k.op(ScalarOp::Sub, &[x, mu]);
    let s = k.op(ScalarOp::Mul, &[d, d]);
    let e = k.op(ScalarOp::Mul, &[s, half]);
    let sum = k.reduce(ReduceOp::Sum, e);
    output(&mut k, DType::F32, Level::Row, sum);
    let n = 100_000_000;
    Bench {
        name: "energy 1e8",
        kernel: k,
        extents: vec![n],
        params: vec![(n as usize, vec![]), (1, vec![])],
        bytes: 4e8,
        kind: read_limit,
    }
}

fn softmax(rows: u64, length: u64) -> Bench {
    let mut k = Kernel::new("softmax", 1, 1);
    let x = input(&mut k, Level::Element, Access::Contiguous);
    let max = k.reduce(ReduceOp::Max, x);
    let d = k.op(ScalarOp::Sub, &[x, max]);
    let e = k.op(ScalarOp::Exp, &[d]);
    let sum = k.reduce(ReduceOp::Sum, e);
    let one = k.const_f32(1.0);
    let r = k.op(ScalarOp::Div, &[one, sum]);
    let y = k.op(ScalarOp::Mul, &[e, r]);
    output(&mut k, DType::F32, Level::Element, y);
    let n = (rows * length) as usize;
    Bench {
        name: if length > 100 {
            "softmax 1024x1024"
        } else {
            "softmax 65536x10"
        },
        kernel: k,
        extents: vec![rows, length],
        params: vec![(n, vec![]), (n, vec![])],
        bytes: n as f64 * 8.0,
        kind: copy_limit,
    }
}

fn layer_norm() -> Bench {
    let mut k = Kernel::new("layer_norm", 1, 1);
    let x = input(&mut k, Level::Element, Access::Contiguous);
    let w = input(&mut k, Level::Element, Access::Strided);
    let b = input(&mut k, Level::Element, Access::Strided);
    let inv = k.const_f32(1.0 / 768.0);
    let sum = k.reduce(ReduceOp::Sum, x);
    let mean = k.op(ScalarOp::Mul, &[sum, inv]);
    let d = k.op(ScalarOp::Sub, &[x, mean]);
    let s = k.op(ScalarOp::Mul, &[d, d]);
    let var = k.reduce(ReduceOp::Sum, s);
    let var = k.op(ScalarOp::Mul, &[var, inv]);
    let eps = k.const_f32(1e-5);
    let var = k.op(ScalarOp::Add, &[var, eps]);
    let dev = k.op(ScalarOp::Sqrt, &[var]);
    let one = k.const_f32(1.0);
    let r = k.op(ScalarOp::Div, &[one, dev]);
    let y = k.op(ScalarOp::Mul, &[d, r]);
    let y = k.op(ScalarOp::Mul, &[y, w]);
    let y = k.op(ScalarOp::Add, &[y, b]);
    output(&mut k, DType::F32, Level::Element, y);
    let n = 4096 * 768;
    Bench {
        name: "layer norm 4096x768",
        kernel: k,
        extents: vec![4096, 768],
        params: vec![(n, vec![]), (768, vec![0, 1]), (768, vec![0, 1]), (n, vec![])],
        bytes: n as f64 * 8.0,
        kind: copy_limit,
    }
}

fn add(n: u64) -> Bench {
    let mut k = Kernel::new("add", 1, 0);
    let a = input(&mut k, Level::Row, Access::Contiguous);
    let b = input(&mut k, Level::Row, Access::Contiguous);
    let c = k.op(ScalarOp::Add, &[a, b]);
    output(&mut k, DType::F32, Level::Row, c);
    let name = if n == 1 { "one a+b" } else { "a+b 1e7" };
    let params = vec![(n as usize, vec![]); 3];
    Bench {
        name,
        kernel: k,
        extents: vec![n],
        params,
        bytes: n as f64 * 12.0,
        kind: triad_limit,
    }
}

fn gelu() -> Bench {
    let mut k = Kernel::new("gelu", 1, 0);
    let x = input(&mut k, Level::Row, Access::Contiguous);
    let c = k.const_f32(std::f32::consts::FRAC_1_SQRT_2);
    let half = k.const_f32(0.5);
    let one = k.const_f32(1.0);
    let s = k.op(ScalarOp::Mul, &[x, c]);
    let e = k.op(ScalarOp::Erf, &[s]);
    let e = k.op(ScalarOp::Add, &[e, one]);
    let h = k.op(ScalarOp::Mul, &[x, half]);
    let y = k.op(ScalarOp::Mul, &[h, e]);
    output(&mut k, DType::F32, Level::Row, y);
    let n = 10_000_000;
    let params = vec![(n as usize, vec![]); 2];
    Bench {
        name: "gelu 1e7",
        kernel: k,
        extents: vec![n],
        params,
        bytes: n as f64 * 8.0,
        kind: copy_limit,
    }
}

fn sum(axis: usize) -> Bench {
    let mut k = Kernel::new("sum", 1, 1);
    let x = input(&mut k, Level::Element, Access::Strided);
    let s = k.reduce(ReduceOp::Sum, x);
    output(&mut k, DType::F32, Level::Row, s);
    let n = 4096usize;
    let strides = if axis == 0 {
        vec![1, n as i64]
    } else {
        vec![n as i64, 1]
    };
    Bench {
        name: if axis == 0 {
            "sum axis 0 of 4096^2"
        } else {
            "sum axis 1 of 4096^2"
        },
        kernel: k,
        extents: vec![n as u64, n as u64],
        params: vec![(n * n, strides), (n, vec![])],
        bytes: (n * n) as f64 * 4.0,
        kind: read_limit,
    }
}

fn argmax() -> Bench {
    let mut k = Kernel::new("argmax", 0, 1);
    let x = input(&mut k, Level::Element, Access::Contiguous);
    let s = k.reduce(ReduceOp::ArgMax, x);
    output(&mut k, DType::I64, Level::Row, s);
    let n = 10_000_000;
    Bench {
        name: "argmax 1e7",
        kernel: k,
        extents: vec![n],
        params: vec![(n as usize, vec![]), (2, vec![])],
        bytes: n as f64 * 4.0,
        kind: read_limit,
    }
}

fn transpose() -> Bench {
    let mut k = Kernel::new("transpose", 2, 0);
    let x = input(&mut k, Level::Row, Access::Strided);
    output(&mut k, DType::F32, Level::Row, x);
    let n = 4096usize;
    Bench {
        name: "transpose 4096^2",
        kernel: k,
        extents: vec![n as u64, n as u64],
        params: vec![(n * n, vec![1, n as i64]), (n * n, vec![])],
        bytes: (n * n) as f64 * 8.0,
        kind: copy_limit,
    }
}

fn bias() -> Bench {
    let mut k = Kernel::new("bias_relu", 2, 0);
    let x = input(&mut k, Level::Row, Access::Contiguous);
    let b = input(&mut k, Level::Row, Access::Strided);
    let y = k.op(ScalarOp::Add, &[x, b]);
    let zero = k.const_f32(0.0);
    let y = k.op(ScalarOp::Max, &[y, zero]);
    output(&mut k, DType::F32, Level::Row, y);
    Bench {
        name: "bias+relu 100000x100",
        kernel: k,
        extents: vec![100_000, 100],
        params: vec![(10_000_000, vec![]), (100, vec![0, 1]), (10_000_000, vec![])],
        bytes: 8e7,
        kind: copy_limit,
    }
}

/// One op over one block that stays in the first-level cache.
fn one_block(name: &'static str, op: ScalarOp) -> Bench {
    let mut k = Kernel::new("block", 1, 0);
    let a = input(&mut k, Level::Row, Access::Contiguous);
    let args = [a; 3];
    let y = k.op(op, &args[..op.arity()]);
    output(&mut k, DType::F32, Level::Row, y);
    Bench {
        name,
        kernel: k,
        extents: vec![1024],
        params: vec![(1024, vec![]); 2],
        bytes: 80.0,
        kind: read_limit,
    }
}

/// One reduction over rows that stay in the second-level cache.
fn rows_of(name: &'static str, op: ReduceOp) -> Bench {
    let mut k = Kernel::new("rows", 1, 1);
    let x = input(&mut k, Level::Element, Access::Contiguous);
    let s = k.reduce(op, x);
    output(&mut k, DType::F32, Level::Row, s);
    Bench {
        name,
        kernel: k,
        extents: vec![16, 1024],
        params: vec![(16 * 1024, vec![]), (16, vec![])],
        bytes: 80.0,
        kind: read_limit,
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let buffers = [
        Huge::new(404_000_000),
        Huge::new(404_000_000),
        Huge::new(404_000_000),
    ];
    let pair = Pair::new();
    std::thread::scope(|scope| {
        let pools: [&dyn Parallel; 2] = [&Serial, &pair];
        scope.spawn(|| pair.spin());
        let benches = [
            energy(),
            softmax(1024, 1024),
            softmax(65_536, 10),
            layer_norm(),
            add(10_000_000),
            gelu(),
            sum(0),
            sum(1),
            argmax(),
            transpose(),
            bias(),
            add(1),
            one_block("block: add", ScalarOp::Add),
            one_block("block: div", ScalarOp::Div),
            one_block("block: exp", ScalarOp::Exp),
            one_block("block: log", ScalarOp::Log),
            one_block("block: tanh", ScalarOp::Tanh),
            one_block("block: erf", ScalarOp::Erf),
            one_block("block: sin", ScalarOp::Sin),
            rows_of("16 rows: max", ReduceOp::Max),
            rows_of("16 rows: sum", ReduceOp::Sum),
        ];
        println!(
            "{:22} {:>10} {:>7} {:>10} {:>7}",
            "case", "1T ms", "limit%", "2T ms", "limit%"
        );
        for bench in benches {
            if !wanted.is_empty() && !wanted.iter().any(|w| bench.name.contains(w.as_str())) {
                continue;
            }
            let program = Program::compile(&bench.kernel).unwrap();
            let mut used = [0usize; 3];
            let args: Vec<Arg<'_>> = bench
                .params
                .iter()
                .enumerate()
                .map(|(p, (elements, strides))| {
                    // Each parameter takes the buffer with most room left.
                    let b = if bench.params.len() <= 3 { p } else { p % 3 };
                    let ptr = buffers[b].floats().wrapping_add(used[b]).cast();
                    used[b] += elements.next_multiple_of(4096);
                    assert!(used[b] * 4 <= buffers[b].bytes);
                    Arg {
                        ptr,
                        strides,
                        gather_stride: 0,
                        gather_extent: 0,
                    }
                })
                .collect();
            let args = Args {
                extents: &bench.extents,
                args: &args,
                scalars: &[],
            };
            print!("{:22}", bench.name);
            for pool in pools {
                let repeat = if bench.bytes < 100.0 { 100_000 } else { 1 };
                let rounds = if bench.bytes > 2e8 { 9 } else { 41 };
                // The memory's speed drifts: its limit is taken before and after.
                let before = (bench.kind)(pool, &buffers);
                let t = best(rounds, || {
                    for _ in 0..repeat {
                        // SAFETY: the buffers hold every element.
                        unsafe { program.run(std::hint::black_box(&args), pool) };
                    }
                }) / repeat as f64;
                let after = (bench.kind)(pool, &buffers);
                let limit = (before + after) / 2.0;
                print!(
                    " {:>11.6} {:>5.1} {:>5.0}%",
                    t * 1e3,
                    1e-9 / limit,
                    limit * bench.bytes / t * 100.0
                );
            }
            println!();
        }
        pair.stop.store(true, Ordering::Relaxed);
    });
}
