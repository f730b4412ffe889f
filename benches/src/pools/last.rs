//! Pools of images whose channels lie last, as compiled graphs launch them.

use crate::cases::{Case, Limit, filled};
use thalweg::hal::ir::{Access, Kernel as Ir, Level, Node, NodeId, ReduceOp, Role, ScalarOp};
use thalweg::hal::{DType, Device, Kernel, Launch, Result};

const CHANNELS: usize = 64;
const SIDE: usize = 112;
const WINDOW: u64 = 3;

const POOLS: [(&str, usize, ReduceOp); 4] = [
    ("maxpool_last_1x64x112", 1, ReduceOp::Max),
    ("maxpool_last_8x64x112", 8, ReduceOp::Max),
    ("avgpool_last_1x64x112", 1, ReduceOp::Sum),
    ("avgpool_last_8x64x112", 8, ReduceOp::Sum),
];

/// Means over images: samples, channels, places.
const MEANS: [(&str, bool, [usize; 3]); 4] = [
    ("meanpool_1x512x7", false, [1, 512, 49]),
    ("meanpool_8x512x7", false, [8, 512, 49]),
    ("meanpool_last_1x512x7", true, [1, 512, 49]),
    ("meanpool_last_8x512x7", true, [8, 512, 49]),
];

pub(super) fn cases(device: &Device, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, samples, op) in POOLS.into_iter().filter(|(name, ..)| wanted(name)) {
        cases.push(pool(device, name, samples, op)?);
    }
    for (name, last, extents) in MEANS.into_iter().filter(|(name, ..)| wanted(name)) {
        cases.push(mean(device, name, last, extents)?);
    }
    Ok(cases)
}

fn number(ir: &mut Ir, value: i64) -> NodeId {
    ir.push(Node::Const {
        dtype: DType::I64,
        bits: value as u64,
    })
}

/// Windows of 3 by 3, two apart, with one element around: outer axes are samples, rows, columns and channels.
fn windows(op: ReduceOp) -> Ir {
    let mut ir = Ir::new("pool_last", 4, 2);
    let x = ir.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let (mut bounds, mut places) = (Vec::new(), Vec::new());
    for axis in 0..2 {
        let (outer, inner) = (
            ir.push(Node::Index { axis: 1 + axis }),
            ir.push(Node::Index { axis: 4 + axis }),
        );
        let [step, before] = [2, -1].map(|value| number(&mut ir, value));
        let outer = ir.op(ScalarOp::Mul, &[outer, step]);
        let sum = ir.op(ScalarOp::Add, &[outer, inner]);
        let at = ir.op(ScalarOp::Add, &[sum, before]);
        let stride = ir.scalar(DType::I64);
        places.push(ir.op(ScalarOp::Mul, &[at, stride]));
        let (zero, end) = (number(&mut ir, 0), ir.scalar(DType::I64));
        bounds.extend([ir.op(ScalarOp::Le, &[zero, at]), ir.op(ScalarOp::Lt, &[at, end])]);
    }
    let place = ir.op(ScalarOp::Add, &places);
    let mut both = |inside, &bound| ir.op(ScalarOp::And, &[inside, bound]);
    let inside = bounds[1..].iter().fold(bounds[0], &mut both);
    let outside = number(&mut ir, -1);
    let index = ir.op(ScalarOp::Select, &[inside, place, outside]);
    let mut value = ir.push(Node::LoadAt { param: x, index });
    if op == ReduceOp::Max {
        let least = ir.const_f32(f32::NEG_INFINITY);
        value = ir.op(ScalarOp::Select, &[inside, value, least]);
    }
    let mut result = ir.reduce(op, value);
    if op == ReduceOp::Sum {
        let share = ir.const_f32(1.0 / (WINDOW * WINDOW) as f32);
        result = ir.op(ScalarOp::Mul, &[result, share]);
    }
    let y = ir.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    ir.store(y, result);
    ir
}

fn pool(device: &Device, name: &str, samples: usize, op: ReduceOp) -> Result<Case> {
    let stream = device.create_stream()?;
    let kernel = Kernel::compile(device, &windows(op))?;
    let out = SIDE / 2;
    let x = filled(&stream, samples * SIDE * SIDE * CHANNELS)?;
    let (line, image) = (SIDE * CHANNELS, SIDE * SIDE * CHANNELS);
    let strides = [image as i64, 0, 0, 1];
    let scalars = [line, SIDE, CHANNELS, SIDE].map(|scalar| scalar as u64);
    let reach = ((SIDE - 1) * (line + CHANNELS) + 1) as u64;
    let extents = [
        samples as u64,
        out as u64,
        out as u64,
        CHANNELS as u64,
        WINDOW,
        WINDOW,
    ];
    let (owner, bytes) = (device.clone(), 4 * samples * out * out * CHANNELS);
    let run = move || {
        let y = owner.alloc(bytes as u64)?;
        let args = [x.arg().strides(&strides).gather(1, reach), y.arg()];
        stream.launch(&Launch::new(&kernel, &extents, &args).scalars(&scalars))?;
        stream.synchronize()
    };
    Ok(Case {
        name: name.into(),
        limit: Limit::Bytes((4 * samples * image + bytes) as f64),
        run: Box::new(run),
    })
}

/// The mean of each channel's image.
fn mean(device: &Device, name: &str, last: bool, [samples, channels, places]: [usize; 3]) -> Result<Case> {
    let stream = device.create_stream()?;
    let mut ir = Ir::new("mean", 2, 1);
    let x = ir.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let x = ir.load(x);
    let sum = ir.reduce(ReduceOp::Sum, x);
    let share = ir.const_f32(1.0 / places as f32);
    let mean = ir.op(ScalarOp::Mul, &[sum, share]);
    let y = ir.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    ir.store(y, mean);
    let kernel = Kernel::compile(device, &ir)?;
    let elements = samples * channels * places;
    let x = filled(&stream, elements)?;
    let strides = match last {
        true => [channels * places, 1, channels],
        false => [channels * places, places, 1],
    };
    let strides = strides.map(|stride| stride as i64);
    let extents = [samples, channels, places].map(|extent| extent as u64);
    let (owner, bytes) = (device.clone(), 4 * samples * channels);
    let run = move || {
        let y = owner.alloc(bytes as u64)?;
        let args = [x.arg().strides(&strides), y.arg()];
        stream.launch(&Launch::new(&kernel, &extents, &args))?;
        stream.synchronize()
    };
    Ok(Case {
        name: name.into(),
        limit: Limit::Bytes((4 * elements + bytes) as f64),
        run: Box::new(run),
    })
}
