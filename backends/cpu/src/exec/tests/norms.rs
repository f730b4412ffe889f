//! Rows that are normalized: of any length, with row-level parameters, in place and past the caches.

use super::harness::{Rng, check, compare, compare_on, f32_buffer, random_case, run};
use super::oracle::{Buffer, Case};
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role, ScalarOp};

/// (x - max) - log(sum).
fn log_softmax(access: Access) -> Kernel {
    let mut k = Kernel::new("log_softmax", 2, 1);
    let x = k.param(DType::F32, Role::In, Level::Element, access);
    let y = k.param(DType::F32, Role::Out, Level::Element, access);
    let x = k.load(x);
    let max = k.reduce(ReduceOp::Max, x);
    let shifted = k.op(ScalarOp::Sub, &[x, max]);
    let e = k.op(ScalarOp::Exp, &[shifted]);
    let sum = k.reduce(ReduceOp::Sum, e);
    let log = k.op(ScalarOp::Log, &[sum]);
    let p = k.op(ScalarOp::Sub, &[shifted, log]);
    k.store(y, p);
    k
}

/// x·(gain·scalar·single / sqrt(sum of squares))·w, and the sum of squares: parameters of every level.
fn scaled(access: Access) -> Kernel {
    let mut k = Kernel::new("scaled", 2, 1);
    let x = k.param(DType::F32, Role::In, Level::Element, access);
    let w = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let gain = k.param(DType::F32, Role::In, Level::Row, access);
    let single = k.param(DType::F32, Role::In, Level::Row, Access::Broadcast);
    let sum_out = k.param(DType::F32, Role::Out, Level::Row, access);
    let y = k.param(DType::F32, Role::Out, Level::Element, access);
    let scalar = k.scalar(DType::F32);
    let (x, w, gain, single) = (k.load(x), k.load(w), k.load(gain), k.load(single));
    let square = k.op(ScalarOp::Mul, &[x, x]);
    let sum = k.reduce(ReduceOp::Sum, square);
    let root = k.op(ScalarOp::Sqrt, &[sum]);
    let factor = k.op(ScalarOp::Mul, &[scalar, single]);
    let factor = k.op(ScalarOp::Mul, &[gain, factor]);
    let factor = k.op(ScalarOp::Div, &[factor, root]);
    let normal = k.op(ScalarOp::Mul, &[x, factor]);
    let result = k.op(ScalarOp::Mul, &[normal, w]);
    k.store(sum_out, sum);
    k.store(y, result);
    k
}

#[test]
fn rows_have_the_bits_of_the_definition() {
    let mut rng = Rng(21);
    for extents in [
        [1, 1, 30],
        [2, 37, 100],
        [5, 3, 128],
        [3, 17, 300],
        [1, 2, 768],
        [2, 5, 1024],
        [1, 3, 4096],
        [1, 33, 4097],
        [0, 3, 100],
        [40, 1, 25],
    ] {
        for _ in 0..4 {
            for access in [Access::Contiguous, Access::Strided] {
                check(&random_case(log_softmax(access), extents.to_vec(), &mut rng));
                check(&random_case(scaled(access), extents.to_vec(), &mut rng));
            }
        }
    }
}

/// Outputs large enough to be written past the caches, with rows that begin with a line and rows that do not.
#[test]
fn large_rows() {
    for (length, origin) in [(1024, 48), (1024, 4), (1030, 48)] {
        let rows = 2100u64;
        let elements = (rows * length) as usize;
        let x = f32_buffer(elements, vec![], &mut Rng(length));
        // A large vector begins 16 bytes after a page.
        let y = Buffer {
            bytes: vec![0; elements * 4 + origin],
            origin,
            ..x.clone()
        };
        let case = Case {
            kernel: log_softmax(Access::Contiguous),
            extents: vec![3, rows / 3, length],
            buffers: vec![x, y],
            scalars: vec![],
            in_place: vec![],
        };
        let expected = run(&case, Isa::Baseline, &Serial);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            compare(&case, &expected, &run(&case, isa, &Serial), &format!("{isa:?}"));
        }
        compare_on(&case, &expected, 3);
    }
}
