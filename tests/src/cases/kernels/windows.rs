//! Windows of images with padding around them, whose channels lie first or last in memory.

use super::seed;
use crate::kit::{Case, Check};
use crate::rig::Subject;
use crate::rig::run::{Argument, Job};
use crate::rig::values::Random;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

const SAMPLES: u64 = 2;
const SIDE: u64 = 9;
const CHANNELS: u64 = 20;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
        for (layout, last) in [("channels_first", false), ("channels_last", true)] {
            let name = format!("windows.{op}.{layout}");
            let seed = seed(&name);
            cases.push(Case::new("kernels", name, move |subject| {
                windows(subject, op, last, seed)
            }));
        }
    }
    cases
}

fn number(kernel: &mut Kernel, value: i64) -> NodeId {
    kernel.push(Node::Const {
        dtype: DType::I64,
        bits: value as u64,
    })
}

/// Windows of 3 by 3, two apart, with one element around. The first outer axis of the windows is `rows`.
fn kernel(op: ReduceOp, rows: u32) -> Kernel {
    let mut k = Kernel::new("windows", 4, 2);
    let x = k.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let y = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let (mut bounds, mut places) = (Vec::new(), Vec::new());
    for axis in 0..2 {
        let [outer, inner] = [rows + axis, 4 + axis].map(|axis| k.push(Node::Index { axis }));
        let [step, before, zero] = [2, -1, 0].map(|value| number(&mut k, value));
        let outer = k.op(ScalarOp::Mul, &[outer, step]);
        let sum = k.op(ScalarOp::Add, &[outer, inner]);
        let at = k.op(ScalarOp::Add, &[sum, before]);
        let [stride, end] = [k.scalar(DType::I64), k.scalar(DType::I64)];
        places.push(k.op(ScalarOp::Mul, &[at, stride]));
        bounds.extend([k.op(ScalarOp::Le, &[zero, at]), k.op(ScalarOp::Lt, &[at, end])]);
    }
    let place = k.op(ScalarOp::Add, &places);
    let rows_inside = k.op(ScalarOp::And, &bounds[..2]);
    let rows_inside = k.op(ScalarOp::And, &[rows_inside, bounds[2]]);
    let inside = k.op(ScalarOp::And, &[rows_inside, bounds[3]]);
    let outside = number(&mut k, -1);
    let index = k.op(ScalarOp::Select, &[inside, place, outside]);
    let value = k.push(Node::LoadAt { param: x, index });
    let padding = k.const_f32(match op {
        ReduceOp::Max => f32::NEG_INFINITY,
        ReduceOp::Min => f32::INFINITY,
        _ => 0.0,
    });
    let value = k.op(ScalarOp::Select, &[inside, value, padding]);
    let result = k.reduce(op, value);
    k.store(y, result);
    k
}

/// Of whole numbers, whose sums are exact in any order.
fn windows(subject: &Subject, op: ReduceOp, last: bool, seed: u64) -> Check {
    let mut random = Random::new(seed);
    let plane = SIDE * SIDE;
    let count = SAMPLES * CHANNELS * plane;
    let values: Vec<u64> = (0..count)
        .map(|_| u64::from((random.below(2000) as f32 - 1000.0).to_bits()))
        .collect();
    let out = SIDE.div_ceil(2);
    // Outer axes are in the order in which the result lies.
    let (rows, extents, strides, [row, column]) = match last {
        true => (
            1,
            [SAMPLES, out, out, CHANNELS],
            [CHANNELS * plane, 0, 0, 1],
            [SIDE * CHANNELS, CHANNELS],
        ),
        false => (
            2,
            [SAMPLES, CHANNELS, out, out],
            [CHANNELS * plane, plane, 0, 0],
            [SIDE, 1],
        ),
    };
    let strides = strides.map(|stride| stride as i64);
    let reach = (SIDE - 1) * (row + column) + 1;
    let job = Job {
        kernel: kernel(op, rows),
        extents: [&extents[..], &[3, 3]].concat(),
        arguments: vec![
            Argument::of(DType::F32, &values)
                .strided(DType::F32, 0, &strides)
                .gathered(1, reach),
            Argument::room(DType::F32, (SAMPLES * CHANNELS * out * out) as usize),
        ],
        scalars: vec![row, SIDE, column, SIDE],
    };
    job.check(subject, 0)?;
    Ok(())
}
