//! A plan that is brought to other offsets and scalars is the plan of that launch.
#![allow(clippy::unwrap_used, reason = "a test")]

use thalweg_cstyle::{Dialect, Launch, MatmulConfig, Place, Plan, Routine, Target};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role, ScalarOp};
use thalweg_hal::library::{LibraryOp, Matmul};

const PROCESSOR: Target = Target {
    dialect: Dialect::OpenClC,
    cpu: true,
    ..Target::CUDA
};

/// Extents, and the strides of each parameter.
struct Case {
    routine: Routine,
    extents: Vec<u64>,
    strides: Vec<Vec<i64>>,
    scalars: [Vec<u64>; 2],
}

impl Case {
    fn plan(&self, offsets: &[u64], scalars: &[u64]) -> Plan {
        self.with(offsets, scalars, |launch| self.routine.plan(launch).unwrap())
    }

    fn with<R>(&self, offsets: &[u64], scalars: &[u64], run: impl FnOnce(&Launch<'_>) -> R) -> R {
        let places: Vec<Place<'_>> = (0_u64..)
            .zip(self.strides.iter().zip(offsets))
            .map(|(buffer, (strides, &offset))| Place {
                buffer,
                offset,
                strides,
                gather_stride: 0,
                gather_extent: 0,
            })
            .collect();
        run(&Launch {
            extents: &self.extents,
            places: &places,
            scalars,
        })
    }
}

/// `x * factor` by points.
fn map() -> Kernel {
    let mut kernel = Kernel::new("map", 2, 0);
    let x = kernel.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let y = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let (x, factor) = (kernel.load(x), kernel.scalar(DType::F32));
    let product = kernel.op(ScalarOp::Mul, &[x, factor]);
    kernel.store(y, product);
    kernel
}

/// Sums of rows.
fn rows() -> Kernel {
    let mut kernel = Kernel::new("rows", 1, 1);
    let x = kernel.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let y = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let x = kernel.load(x);
    let sum = kernel.reduce(ReduceOp::Sum, x);
    kernel.store(y, sum);
    kernel
}

fn cases(target: &Target) -> Vec<Case> {
    let product = LibraryOp::Matmul(Matmul {
        batch: 0,
        operands: [DType::F32; 2],
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: None,
    });
    let config = MatmulConfig::candidates(target)[0];
    let none = || [Vec::new(), Vec::new()];
    vec![
        Case {
            routine: Routine::new(&map(), target).unwrap(),
            extents: vec![40, 128],
            strides: vec![vec![256, 1], vec![]],
            scalars: [vec![1], vec![0x3f80_0000]],
        },
        Case {
            routine: Routine::new(&rows(), target).unwrap(),
            extents: vec![7, 100_000],
            strides: vec![vec![100_352, 1], vec![]],
            scalars: none(),
        },
        Case {
            routine: Routine::library(&product, config, target).unwrap(),
            extents: vec![30, 50, 40],
            strides: vec![vec![40, 0, 1], vec![0, 1, 50], vec![50, 1, 0]],
            scalars: none(),
        },
    ]
}

#[test]
fn adapted_is_planned_anew() {
    for target in [Target::CUDA, PROCESSOR] {
        for (number, case) in cases(&target).iter().enumerate() {
            let count = case.strides.len() as u64;
            let before: Vec<u64> = (0..count).map(|param| 512 * param).collect();
            let after: Vec<u64> = (0..count).map(|param| 4096 + 48 * param).collect();
            let [old, new] = &case.scalars;
            let mut plan = case.plan(&before, old);
            let adapted = case.with(&after, new, |launch| {
                case.routine.adapt(&mut plan, (&before, old), launch)
            });
            let expected = case.plan(&after, new);
            assert!(adapted, "case {number}");
            assert_ne!(expected.words, case.plan(&before, old).words);
            assert_eq!(
                (plan.words, plan.variant),
                (expected.words, expected.variant),
                "case {number}"
            );
            assert_eq!(
                (plan.passes, plan.scratch_bytes),
                (expected.passes, expected.scratch_bytes)
            );
        }
    }
}

/// What a vector's alignment may change is planned anew.
#[test]
fn other_alignments_are_not_adapted() {
    let case = &cases(&Target::CUDA)[0];
    let before = [0, 512];
    let mut plan = case.plan(&before, &[1]);
    let adapted = case.with(&[4, 512], &[1], |launch| {
        case.routine.adapt(&mut plan, (&before, &[1]), launch)
    });
    assert!(!adapted);
    assert_ne!(case.plan(&[4, 512], &[1]).variant, plan.variant);
}
