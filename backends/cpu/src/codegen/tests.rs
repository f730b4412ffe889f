//! Generated maps against the loops that they stand for.

use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, Role, ScalarOp};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    fn number(&mut self) -> f32 {
        let special = [
            0.0,
            -0.0,
            1.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1e-40,
            -1e30,
        ];
        match self.below(6) {
            0 => special[self.below(special.len())],
            1 => f32::from_bits(self.next() as u32),
            _ => (self.next() as i32) as f32 / 3e8,
        }
    }
}

/// Ops that have code on f32.
pub(crate) const OPS: &[ScalarOp] = &[
    ScalarOp::Neg,
    ScalarOp::Abs,
    ScalarOp::Sign,
    ScalarOp::Floor,
    ScalarOp::Ceil,
    ScalarOp::Trunc,
    ScalarOp::Round,
    ScalarOp::Sqrt,
    ScalarOp::Exp,
    ScalarOp::Log,
    ScalarOp::Tanh,
    ScalarOp::Erf,
    ScalarOp::Add,
    ScalarOp::Sub,
    ScalarOp::Mul,
    ScalarOp::Div,
    ScalarOp::Max,
    ScalarOp::Min,
    ScalarOp::Fma,
];

/// A map of random ops; inputs are contiguous, single, scalars and constants.
fn random_map(rng: &mut Rng, nodes: usize) -> Kernel {
    let mut kernel = Kernel::new("map", 1, 0);
    let mut values: Vec<NodeId> = Vec::new();
    for i in 0..1 + rng.below(4) {
        let single = i > 0 && rng.below(3) == 0;
        let access = if single {
            Access::Broadcast
        } else {
            Access::Contiguous
        };
        let param = kernel.param(DType::F32, Role::In, Level::Row, access);
        values.push(kernel.load(param));
    }
    for _ in 0..rng.below(3) {
        values.push(kernel.scalar(DType::F32));
        let bits = u64::from(rng.number().to_bits());
        values.push(kernel.push(Node::Const {
            dtype: DType::F32,
            bits,
        }));
    }
    for _ in 0..nodes {
        let one = |rng: &mut Rng| {
            // The youngest more often.
            let most = if rng.below(2) == 0 { 3 } else { values.len() };
            let back = 1 + rng.below(most);
            values[values.len().saturating_sub(back)]
        };
        let value = if rng.below(6) == 0 {
            let compare = [ScalarOp::Eq, ScalarOp::Ne, ScalarOp::Lt, ScalarOp::Le];
            let mut mask = kernel.op(compare[rng.below(4)], &[one(rng), one(rng)]);
            if rng.below(2) == 0 {
                let other = kernel.op(compare[rng.below(4)], &[one(rng), one(rng)]);
                let joins = [ScalarOp::And, ScalarOp::Or, ScalarOp::Xor];
                mask = kernel.op(joins[rng.below(3)], &[mask, other]);
            }
            kernel.op(ScalarOp::Select, &[mask, one(rng), one(rng)])
        } else {
            let op = OPS[rng.below(OPS.len())];
            let args: Vec<NodeId> = (0..op.arity()).map(|_| one(rng)).collect();
            kernel.op(op, &args)
        };
        values.push(value);
    }
    for k in 0..1 + rng.below(3) {
        let out = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
        let value = if k == 0 {
            values[values.len() - 1]
        } else {
            values[rng.below(values.len())]
        };
        kernel.store(out, value);
    }
    kernel
}

/// Runs a kernel over copies of `buffers`; `in_place` are pairs of an output and the input whose memory it takes.
fn run(
    program: &Program,
    buffers: &[Vec<f32>],
    n: usize,
    scalars: &[u64],
    in_place: Option<(usize, usize)>,
) -> Vec<Vec<f32>> {
    let mut after: Vec<Vec<f32>> = buffers.iter().map(|_| vec![0.0; n + 17]).collect();
    let starts: Vec<usize> = (after.iter_mut().zip(buffers))
        .map(|(to, from)| {
            // A whole number of lines where n is even.
            let start = to.as_ptr().align_offset(64) + n % 2;
            to[start..start + n].copy_from_slice(from);
            start
        })
        .collect();
    let mut args: Vec<Arg<'_>> = (after.iter_mut().zip(&starts))
        .map(|(b, &start)| Arg {
            ptr: b[start..].as_mut_ptr().cast(),
            strides: &[],
            gather_stride: 0,
            gather_extent: 0,
        })
        .collect();
    if let Some((out, input)) = in_place {
        args[out].ptr = args[input].ptr;
    }
    let args = Args {
        extents: &[n as u64],
        args: &args,
        scalars,
    };
    // SAFETY: every buffer has n elements.
    unsafe { program.run(&args, &Serial) };
    (after.iter().zip(starts))
        .map(|(b, start)| b[start..start + n].to_vec())
        .collect()
}

/// Compares machine code at each instruction set with the loops, bit by bit; how many instruction sets had code.
fn check(kernel: &Kernel, n: usize, in_place: Option<(usize, usize)>, rng: &mut Rng) -> usize {
    let buffers: Vec<Vec<f32>> = (kernel.params.iter())
        .map(|_| (0..n).map(|_| rng.number()).collect())
        .collect();
    let scalars: Vec<u64> = (kernel.scalars.iter())
        .map(|_| u64::from(rng.number().to_bits()))
        .collect();
    let loops = Program::compile(kernel, Isa::Baseline).unwrap();
    let expected = run(&loops, &buffers, n, &scalars, in_place);
    let mut generated = 0;
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let program = Program::compile(kernel, isa).unwrap().generate(isa);
        generated += usize::from(program.is_generated());
        let found = run(&program, &buffers, n, &scalars, in_place);
        for (p, (e, f)) in expected.iter().zip(&found).enumerate() {
            for (i, (e, f)) in e.iter().zip(f).enumerate() {
                assert!(
                    e.to_bits() == f.to_bits() || e.is_nan() && f.is_nan(),
                    "{isa:?}, p{p} element {i} of {n}: {f:e} instead of {e:e}, in place {in_place:?}\n{}",
                    kernel.to_text()
                );
            }
        }
    }
    generated
}

/// Instruction sets that code is made for, of those of this machine.
fn sets() -> usize {
    [Isa::Avx2, Isa::Avx512]
        .into_iter()
        .filter(|isa| isa.is_available())
        .count()
}

#[test]
fn maps_have_the_bits_of_the_loops() {
    let mut rng = Rng(7);
    let mut generated = 0;
    for round in 0..600 {
        let nodes = 1 + rng.below([3, 10, 60, 200][round % 4]);
        let kernel = random_map(&mut rng, nodes);
        let n = [0, 1, 7, 8, 15, 16, 17, 33, 100, 1000, 1031, 5000][rng.below(12)];
        let out = kernel.params.iter().position(|p| p.role == Role::Out).unwrap();
        let in_place = (rng.below(3) == 0).then_some((out, 0));
        generated += check(&kernel, n, in_place, &mut rng);
    }
    // Some store an input as it is, and something else; some need more of the stack than there may be.
    assert!(generated >= 400 * sets(), "{generated} maps were generated");
}

/// Inputs that are asked for ahead of time, and outputs past the caches.
#[test]
fn large_maps() {
    let mut rng = Rng(8);
    for n in [(1 << 18) + 11, (1 << 21) + 12, (1 << 21) + 13] {
        for in_place in [None, Some((1, 0))] {
            let mut kernel = Kernel::new("gelu", 1, 0);
            let input = kernel.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
            let x = kernel.load(input);
            let erf = kernel.op(ScalarOp::Erf, &[x]);
            let y = kernel.op(ScalarOp::Fma, &[erf, x, x]);
            let out = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
            kernel.store(out, y);
            assert_eq!(check(&kernel, n, in_place, &mut rng), sets());
        }
    }
}

/// A parameter needs a register, and there are eleven.
#[test]
fn many_parameters() {
    let mut rng = Rng(9);
    for inputs in [10, 11] {
        let mut kernel = Kernel::new("sum", 1, 0);
        let mut sum = None;
        for _ in 0..inputs {
            let param = kernel.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
            let x = kernel.load(param);
            sum = Some(sum.map_or(x, |sum| kernel.op(ScalarOp::Add, &[sum, x])));
        }
        let out = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
        kernel.store(out, sum.unwrap());
        let generated = check(&kernel, 1000, None, &mut rng);
        assert_eq!(generated, if inputs == 10 { sets() } else { 0 });
    }
}

#[test]
fn what_has_no_code_stays_with_the_loops() {
    for (op, dtype, access) in [
        (ScalarOp::Sin, DType::F32, Access::Contiguous),
        (ScalarOp::Sqrt, DType::F64, Access::Contiguous),
        (ScalarOp::Sqrt, DType::F32, Access::Strided),
    ] {
        let mut kernel = Kernel::new("map", 1, 0);
        let input = kernel.param(dtype, Role::In, Level::Row, access);
        let x = kernel.load(input);
        let y = kernel.op(op, &[x]);
        let out = kernel.param(dtype, Role::Out, Level::Row, Access::Contiguous);
        kernel.store(out, y);
        let program = Program::compile(&kernel, Isa::detect()).unwrap();
        assert!(!program.generate(Isa::detect()).is_generated(), "{op}");
    }
}
