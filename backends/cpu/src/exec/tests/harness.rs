//! Random launches, run and compared.

use super::oracle::{Buffer, Case};
use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::parallel::{Parallel, Serial};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role};
use thalweg_hal::narrow::float_value;

/// Threads started per call: slow, simple.
pub(super) struct Threads(pub(super) usize);

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.0 {
                scope.spawn(|| {
                    loop {
                        let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if i >= n {
                            break;
                        }
                        body(i);
                    }
                });
            }
        });
    }
}

pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Bits of a value that is often special.
    pub(super) fn value(&mut self, dtype: DType) -> u64 {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1e-40,
            65504.0,
        ];
        let float = match self.below(8) {
            0 => special[self.below(special.len() as u64) as usize],
            1 => f64::from(f32::from_bits(self.next() as u32)),
            _ => (self.next() as i32) as f64 / 3e8,
        };
        match dtype {
            DType::F64 => float.to_bits(),
            DType::F32 => u64::from((float as f32).to_bits()),
            DType::F16 => half::f16::from_f64(float).to_bits().into(),
            DType::BF16 => half::bf16::from_f64(float).to_bits().into(),
            DType::Bool => self.next() & 1,
            _ => match self.below(4) {
                0 => self.next(),
                1 => u64::MAX << self.below(64),
                _ => (self.below(20) as i64 - 6) as u64,
            },
        }
    }
}

/// Buffers of any layout that the kernel's parameters allow.
pub(super) fn random_case(kernel: Kernel, extents: Vec<u64>, rng: &mut Rng) -> Case {
    let mut buffers: Vec<Buffer> = Vec::new();
    let gathered = |p: usize| {
        kernel
            .nodes
            .iter()
            .any(|n| matches!(n, Node::LoadAt { param, .. } if *param as usize == p))
    };
    for (p, param) in kernel.params.iter().enumerate() {
        let axes = match param.level {
            Level::Row => kernel.outer as usize,
            Level::Element => extents.len(),
        };
        let size = param.dtype.size() as i64;
        let mut order: Vec<usize> = (0..axes).collect();
        for i in (1..axes).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        if rng.below(2) == 0 {
            order = (0..axes).rev().collect();
        }
        let mut strides = vec![0i64; axes];
        let mut step = 1 + i64::from(rng.below(4) == 0);
        for &a in &order {
            strides[a] = step;
            let broadcast = param.role == Role::In && rng.below(5) == 0;
            if broadcast {
                strides[a] = 0;
            } else {
                step *= extents[a].max(1) as i64 + i64::from(rng.below(4) == 0);
            }
            if rng.below(5) == 0 {
                strides[a] = -strides[a];
            }
        }
        if param.access == Access::Broadcast {
            strides.fill(0);
        }
        if param.access == Access::Contiguous {
            let mut step = 1;
            for a in (0..axes).rev() {
                strides[a] = step;
                step *= extents[a] as i64;
            }
        }
        let gather_extent = if gathered(p) { rng.below(5) } else { 0 };
        let gather_stride = rng.below(9) as i64 - 4;
        let (mut low, mut high) = (0i64, 1i64);
        let mut reach = |stride: i64, extent: u64| {
            let end = stride * (extent.max(1) as i64 - 1);
            low += end.min(0);
            high += end.max(0);
        };
        strides.iter().zip(&extents).for_each(|(&s, &e)| reach(s, e));
        reach(gather_stride, gather_extent);
        let mut bytes = Vec::new();
        for _ in low..high {
            bytes.extend_from_slice(&rng.value(param.dtype).to_le_bytes()[..size as usize]);
        }
        let strides = if param.access == Access::Strided {
            strides
        } else {
            Vec::new()
        };
        buffers.push(Buffer {
            bytes,
            origin: (-low * size) as usize,
            strides,
            gather_stride,
            gather_extent,
        });
    }
    let mut in_place = Vec::new();
    for o in 0..kernel.params.len() {
        for i in 0..kernel.params.len() {
            let (out, input) = (kernel.params[o], kernel.params[i]);
            let fits = out.role == Role::Out
                && input.role == Role::In
                && (out.dtype, out.level, out.access) == (input.dtype, input.level, input.access)
                && !gathered(i)
                && !in_place.iter().any(|&(a, b)| a == o || b == i);
            if fits && rng.below(3) == 0 {
                // The input takes the output's place: an output visits no element twice.
                let own = buffers[o].clone();
                buffers[i] = Buffer {
                    gather_extent: 0,
                    ..own
                };
                in_place.push((o, i));
            }
        }
    }
    let scalars = kernel
        .scalars
        .iter()
        .map(|&d| rng.value(d) & (u64::MAX >> (64 - 8 * d.size())))
        .collect();
    Case {
        kernel,
        extents,
        buffers,
        scalars,
        in_place,
    }
}

/// A buffer of finite numbers.
pub(super) fn f32_buffer(n: usize, strides: Vec<i64>, rng: &mut Rng) -> Buffer {
    let values = (0..n).flat_map(|_| ((rng.next() as i32) as f32 / 1e9).to_le_bytes());
    Buffer {
        bytes: values.collect(),
        origin: 0,
        strides,
        gather_stride: 0,
        gather_extent: 0,
    }
}

/// The bytes of every buffer after a run of loops.
pub(super) fn run(case: &Case, isa: Isa, parallel: &dyn Parallel) -> Vec<Vec<u8>> {
    run_program(
        case,
        &Program::compile(&case.kernel, isa).expect("compiles"),
        parallel,
    )
}

/// The same of machine code, where the kernel has some.
pub(super) fn run_generated(case: &Case, isa: Isa, parallel: &dyn Parallel) -> Vec<Vec<u8>> {
    let program = Program::compile(&case.kernel, isa).expect("compiles");
    run_program(case, &program.generate(isa), parallel)
}

pub(super) fn run_program(case: &Case, program: &Program, parallel: &dyn Parallel) -> Vec<Vec<u8>> {
    // SAFETY: buffers cover every element that their strides reach.
    run_by(case, |args| unsafe { program.run(args, parallel) })
}

/// The bytes of every buffer after `run`, which gets them as arguments.
pub(super) fn run_by(case: &Case, run: impl FnOnce(&Args<'_>)) -> Vec<Vec<u8>> {
    let mut after: Vec<Vec<u8>> = case.buffers.iter().map(|b| b.bytes.clone()).collect();
    let addresses: Vec<*mut u8> = after.iter_mut().map(|b| b.as_mut_ptr()).collect();
    let args: Vec<Arg<'_>> = case
        .buffers
        .iter()
        .enumerate()
        .map(|(p, b)| {
            let home = case
                .in_place
                .iter()
                .find(|&&(_, i)| i == p)
                .map_or(p, |&(o, _)| o);
            Arg {
                ptr: addresses[home].wrapping_add(b.origin),
                strides: &b.strides,
                gather_stride: b.gather_stride,
                gather_extent: b.gather_extent,
            }
        })
        .collect();
    let args = Args {
        extents: &case.extents,
        args: &args,
        scalars: &case.scalars,
    };
    run(&args);
    after
}

/// Compares outputs element by element; NaNs are equal.
pub(super) fn compare(case: &Case, expected: &[Vec<u8>], found: &[Vec<u8>], what: &str) {
    for (p, param) in case.kernel.params.iter().enumerate() {
        if param.role == Role::In {
            continue;
        }
        let size = param.dtype.size();
        let read = |bytes: &[u8]| {
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(bytes);
            u64::from_le_bytes(bits)
        };
        for (i, (e, f)) in expected[p].chunks(size).zip(found[p].chunks(size)).enumerate() {
            let (e, f) = (read(e), read(f));
            let number = |bits| match param.dtype.is_float() {
                true => float_value(param.dtype, bits),
                false => bits as f64,
            };
            let nan = |bits| number(bits).is_nan();
            assert!(
                e == f || nan(e) && nan(f),
                "{what}: p{p} element {i}: {f:#x} ({}) instead of {e:#x} ({})\nextents {:?}, in place {:?}, buffers {:?}\n{}",
                number(f),
                number(e),
                case.extents,
                case.in_place,
                case.buffers
                    .iter()
                    .map(|b| (&b.strides, b.gather_stride, b.gather_extent))
                    .collect::<Vec<_>>(),
                case.kernel.to_text()
            );
        }
    }
}

/// Compares a run on this machine's instruction set, on so many threads, with what is expected.
pub(super) fn compare_on(case: &Case, expected: &[Vec<u8>], threads: usize) {
    let parallel: &dyn Parallel = match threads {
        1 => &Serial,
        threads => &Threads(threads),
    };
    let found = run(case, Isa::detect(), parallel);
    compare(case, expected, &found, &format!("threads: {threads}"));
}

/// Compares every instruction set, on one thread and on three, with the oracle.
pub(super) fn check(case: &Case) {
    let expected = case.expected();
    for isa in Isa::ALL.into_iter().filter(|i| i.is_available()) {
        compare(case, &expected, &run(case, isa, &Serial), &format!("{isa:?}"));
        let generated = run_generated(case, isa, &Serial);
        compare(case, &expected, &generated, &format!("{isa:?}, generated"));
    }
    compare_on(case, &expected, 3);
    let generated = run_generated(case, Isa::detect(), &Threads(3));
    compare(case, &expected, &generated, "threads: 3, generated");
}
