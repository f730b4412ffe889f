//! Kernels as the graph makes them, on shapes that reach every way to walk them.

use super::harness::{Rng, Threads, check, compare_on, f32_buffer, random_case, run};
use super::oracle::{Buffer, Case};
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role, ScalarOp};

/// e^(x - max) / sum.
pub(super) fn softmax(inner: u32, access: Access) -> Kernel {
    let mut k = Kernel::new("softmax", 1, inner);
    let x = k.param(DType::F32, Role::In, Level::Element, access);
    let y = k.param(DType::F32, Role::Out, Level::Element, access);
    let x = k.load(x);
    let max = k.reduce(ReduceOp::Max, x);
    let shifted = k.op(ScalarOp::Sub, &[x, max]);
    let e = k.op(ScalarOp::Exp, &[shifted]);
    let sum = k.reduce(ReduceOp::Sum, e);
    let p = k.op(ScalarOp::Div, &[e, sum]);
    k.store(y, p);
    k
}

pub(super) fn layer_norm() -> Kernel {
    let mut k = Kernel::new("layer_norm", 1, 1);
    let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let w = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let mean_out = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let y = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
    let x = k.load(x);
    let w = k.load(w);
    let inverse = k.const_f32(1.0 / 768.0);
    let sum = k.reduce(ReduceOp::Sum, x);
    let mean = k.op(ScalarOp::Mul, &[sum, inverse]);
    let d = k.op(ScalarOp::Sub, &[x, mean]);
    let square = k.op(ScalarOp::Mul, &[d, d]);
    let var = k.reduce(ReduceOp::Sum, square);
    let var = k.op(ScalarOp::Mul, &[var, inverse]);
    let epsilon = k.const_f32(1e-5);
    let var = k.op(ScalarOp::Add, &[var, epsilon]);
    let deviation = k.op(ScalarOp::Sqrt, &[var]);
    let normal = k.op(ScalarOp::Div, &[d, deviation]);
    let scaled = k.op(ScalarOp::Mul, &[normal, w]);
    k.store(mean_out, mean);
    k.store(y, scaled);
    k
}

/// The same values in both layouts give the same bits.
#[test]
fn layouts_agree() {
    let mut rng = Rng(7);
    for (rows, length) in [(40usize, 300usize), (64, 7), (33, 1), (3, 200), (100, 2000)] {
        let data = f32_buffer(rows * length, vec![], &mut rng);
        let out = Buffer {
            bytes: vec![0; rows * length * 4],
            ..data.clone()
        };
        let wide = Case {
            kernel: softmax(1, Access::Contiguous),
            extents: vec![rows as u64, length as u64],
            buffers: vec![data.clone(), out],
            scalars: vec![],
            in_place: vec![],
        };
        let strides = vec![1, rows as i64];
        let mut transposed = vec![0u8; rows * length * 4];
        for r in 0..rows {
            for j in 0..length {
                let (from, to) = ((r * length + j) * 4, (j * rows + r) * 4);
                transposed[to..to + 4].copy_from_slice(&data.bytes[from..from + 4]);
            }
        }
        let out = Buffer {
            bytes: vec![0; rows * length * 4],
            strides: strides.clone(),
            ..data.clone()
        };
        let tall = Case {
            kernel: softmax(1, Access::Strided),
            extents: wide.extents.clone(),
            buffers: vec![
                Buffer {
                    bytes: transposed,
                    strides,
                    ..data
                },
                out,
            ],
            scalars: vec![],
            in_place: vec![],
        };
        compare_on(&wide, &wide.expected(), 1);
        compare_on(&tall, &tall.expected(), 1);
        let (a, b) = (
            run(&wide, Isa::detect(), &Serial),
            run(&tall, Isa::detect(), &Threads(2)),
        );
        for r in 0..rows {
            for j in 0..length {
                let (from, to) = ((r * length + j) * 4, (j * rows + r) * 4);
                assert_eq!(a[1][from..from + 4], b[1][to..to + 4]);
            }
        }
    }
}

#[test]
fn norm_and_softmax_of_many_shapes() {
    let mut rng = Rng(8);
    for extents in [
        [4, 768],
        [1, 5],
        [70, 10],
        [2, 20_000],
        [300, 33],
        [0, 4],
        [4, 0],
        [1, 1],
    ] {
        check(&random_case(layer_norm(), extents.to_vec(), &mut rng));
        check(&random_case(
            softmax(1, Access::Contiguous),
            extents.to_vec(),
            &mut rng,
        ));
        check(&random_case(
            softmax(1, Access::Strided),
            extents.to_vec(),
            &mut rng,
        ));
        let three = vec![extents[0], extents[1] / 4, 4];
        check(&random_case(softmax(2, Access::Strided), three, &mut rng));
    }
}

/// Sums of long columns cross chunks and segments.
#[test]
fn long_columns() {
    let mut rng = Rng(10);
    let long = [(40usize, 70_000usize), (33, 200_000), (48, 131_072)];
    let short = [
        (1, 5),
        (64, 1),
        (70, 16),
        (129, 33),
        (64, 256),
        (600, 257),
        (1100, 1000),
    ];
    for (rows, length) in long.into_iter().chain(short) {
        let mut k = Kernel::new("sum", 1, 1);
        let x = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
        let y = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
        let x = k.load(x);
        let sum = k.reduce(ReduceOp::Sum, x);
        k.store(y, sum);
        let x = f32_buffer(rows * length, vec![1, rows as i64], &mut rng);
        let y = Buffer {
            bytes: vec![0; rows * 4],
            strides: vec![],
            ..x.clone()
        };
        let case = Case {
            kernel: k,
            extents: vec![rows as u64, length as u64],
            buffers: vec![x, y],
            scalars: vec![],
            in_place: vec![],
        };
        let expected = case.expected();
        compare_on(&case, &expected, 1);
        compare_on(&case, &expected, 2);
    }
}

/// Outputs large enough to be written past the caches, at addresses that are not aligned.
#[test]
fn large_outputs() {
    let n = 2_200_003usize;
    let mut k = Kernel::new("add", 1, 0);
    let a = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let out = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let x = k.load(a);
    let y = k.op(ScalarOp::Add, &[x, x]);
    k.store(out, y);
    let a = f32_buffer(n, vec![], &mut Rng(11));
    let out = Buffer {
        bytes: vec![0; n * 4 + 4],
        origin: 4,
        ..a.clone()
    };
    let case = Case {
        kernel: k,
        extents: vec![n as u64],
        buffers: vec![a, out],
        scalars: vec![],
        in_place: vec![],
    };
    let expected = case.expected();
    compare_on(&case, &expected, 1);
    compare_on(&case, &expected, 3);
}

/// Copies between layouts, among them transposes larger than a tile.
#[test]
fn transposed_copies() {
    let mut rng = Rng(12);
    for dtype in [DType::F32, DType::U8, DType::F16, DType::F64] {
        for (extents, strides) in [
            (vec![70u64, 130u64], vec![1i64, 70i64]),
            (vec![300, 5], vec![1, 300]),
            (vec![3, 40, 50], vec![2000, 1, 40]),
            (vec![7, 6, 5, 4], vec![1, 7, 42, 210]),
            (vec![1000, 33], vec![33, 1]),
        ] {
            check(&transposed_copy(&mut rng, dtype, extents, strides));
        }
    }
}

/// Transposes that are written past the caches: rows of whole lines of the cache, and rows that begin within one.
#[test]
fn transposes_past_the_caches() {
    let mut rng = Rng(21);
    for (dtype, rows, columns) in [
        (DType::F32, 1470, 1456),
        (DType::F32, 1449, 1451),
        (DType::U8, 2885, 2944),
        (DType::F64, 1025, 1032),
    ] {
        check(&transposed_copy(
            &mut rng,
            dtype,
            vec![rows, columns],
            vec![1, rows as i64],
        ));
    }
}

fn transposed_copy(rng: &mut Rng, dtype: DType, extents: Vec<u64>, strides: Vec<i64>) -> Case {
    let mut k = Kernel::new("copy", extents.len() as u32, 0);
    let x = k.param(dtype, Role::In, Level::Row, Access::Strided);
    let y = k.param(dtype, Role::Out, Level::Row, Access::Contiguous);
    let v = k.load(x);
    k.store(y, v);
    let total: u64 = extents.iter().product();
    let bytes: Vec<u8> = (0..total as usize * dtype.size())
        .map(|_| rng.next() as u8)
        .collect();
    let x = Buffer {
        bytes,
        origin: 0,
        strides,
        gather_stride: 0,
        gather_extent: 0,
    };
    let y = Buffer {
        bytes: vec![0; x.bytes.len()],
        strides: vec![],
        ..x.clone()
    };
    Case {
        kernel: k,
        extents,
        buffers: vec![x, y],
        scalars: vec![],
        in_place: vec![],
    }
}

/// An output in the place of an input that a later phase reads again.
#[test]
fn in_place_stores_wait_for_the_last_load() {
    let mut rng = Rng(13);
    for (rows, length) in [(3usize, 50usize), (40, 9), (64, 300), (1, 150_000), (33, 20_000)] {
        let mut k = Kernel::new("in_place", 1, 1);
        let p = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
        let doubled = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
        let shifted = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
        let x = k.load(p);
        let y = k.op(ScalarOp::Add, &[x, x]);
        k.store(doubled, y);
        let sum = k.reduce(ReduceOp::Sum, x);
        let z = k.op(ScalarOp::Sub, &[x, sum]);
        k.store(shifted, z);
        let data = f32_buffer(rows * length, vec![], &mut rng);
        let z = Buffer {
            bytes: vec![0; data.bytes.len()],
            ..data.clone()
        };
        check(&Case {
            kernel: k,
            extents: vec![rows as u64, length as u64],
            buffers: vec![data.clone(), data, z],
            scalars: vec![],
            in_place: vec![(1, 0)],
        });
    }
}

/// Two outputs trade places with the inputs that they are copied from.
#[test]
fn swapped_in_place() {
    let mut rng = Rng(14);
    for n in [1usize, 100, 5000] {
        let mut k = Kernel::new("swap", 1, 0);
        let param = |k: &mut Kernel, role| k.param(DType::F32, role, Level::Row, Access::Contiguous);
        let (a, b) = (param(&mut k, Role::In), param(&mut k, Role::In));
        let (c, d) = (param(&mut k, Role::Out), param(&mut k, Role::Out));
        let (x, y) = (k.load(a), k.load(b));
        k.store(c, y);
        k.store(d, x);
        let (one, two) = (f32_buffer(n, vec![], &mut rng), f32_buffer(n, vec![], &mut rng));
        check(&Case {
            kernel: k,
            extents: vec![n as u64],
            buffers: vec![one.clone(), two.clone(), one, two],
            scalars: vec![],
            in_place: vec![(2, 0), (3, 1)],
        });
    }
}

/// A value that an op takes twice, behind each op that may hand it on in a register.
#[test]
fn both_arguments_are_what_the_op_before_made() {
    let mut rng = Rng(14);
    for op in [
        ScalarOp::Add,
        ScalarOp::Sub,
        ScalarOp::Mul,
        ScalarOp::Div,
        ScalarOp::Max,
    ] {
        let mut k = Kernel::new("twice", 1, 1);
        let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
        let w = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
        let out = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
        let x = k.load(x);
        let w = k.load(w);
        let square = k.op(ScalarOp::Mul, &[x, x]);
        let sum = k.reduce(ReduceOp::Sum, square);
        let scale = k.op(ScalarOp::Sqrt, &[sum]);
        let scaled = k.op(ScalarOp::Mul, &[x, scale]);
        let weighted = k.op(ScalarOp::Mul, &[scaled, w]);
        let both = k.op(op, &[weighted, weighted]);
        k.store(out, both);
        let (rows, length) = (5usize, 777usize);
        let data = f32_buffer(rows * length, vec![], &mut rng);
        let weight = f32_buffer(length, vec![0, 1], &mut rng);
        let out = Buffer {
            bytes: vec![0; data.bytes.len()],
            ..data.clone()
        };
        check(&Case {
            kernel: k,
            extents: vec![rows as u64, length as u64],
            buffers: vec![data, weight, out],
            scalars: vec![],
            in_place: vec![],
        });
    }
}
