//! Kernels of the cases.

use thalweg::hal::DType;
use thalweg::hal::ir::{Access, Kernel, Level, NodeId, ReduceOp, Role, ScalarOp};

const F32: DType = DType::F32;

fn input(kernel: &mut Kernel, level: Level, access: Access) -> NodeId {
    let param = kernel.param(F32, Role::In, level, access);
    kernel.load(param)
}

fn output(kernel: &mut Kernel, level: Level, access: Access, value: NodeId) {
    let param = kernel.param(F32, Role::Out, level, access);
    kernel.store(param, value);
}

/// No parameters, no nodes.
pub fn empty() -> Kernel {
    Kernel::new("empty", 0, 0)
}

/// `x * factor`, with the factor in the kernel.
pub fn scaled(factor: f32) -> Kernel {
    let mut kernel = Kernel::new("scaled", 1, 0);
    let x = input(&mut kernel, Level::Row, Access::Contiguous);
    let factor = kernel.const_f32(factor);
    let scaled = kernel.op(ScalarOp::Mul, &[x, factor]);
    output(&mut kernel, Level::Row, Access::Contiguous, scaled);
    kernel
}

/// `sum(0.5·k·(x − mu)²)` over the inner space, with k and mu as scalars.
pub fn energy() -> Kernel {
    let mut kernel = Kernel::new("energy", 0, 1);
    let x = input(&mut kernel, Level::Element, Access::Contiguous);
    let (k, mu, half) = (kernel.scalar(F32), kernel.scalar(F32), kernel.const_f32(0.5));
    let distance = kernel.op(ScalarOp::Sub, &[x, mu]);
    let square = kernel.op(ScalarOp::Mul, &[distance, distance]);
    let stiffness = kernel.op(ScalarOp::Mul, &[half, k]);
    let energy = kernel.op(ScalarOp::Mul, &[stiffness, square]);
    let total = kernel.reduce(ReduceOp::Sum, energy);
    output(&mut kernel, Level::Row, Access::Contiguous, total);
    kernel
}

/// Softmax of each row.
pub fn softmax() -> Kernel {
    let mut kernel = Kernel::new("softmax", 1, 1);
    let x = input(&mut kernel, Level::Element, Access::Contiguous);
    let max = kernel.reduce(ReduceOp::Max, x);
    let shifted = kernel.op(ScalarOp::Sub, &[x, max]);
    let exp = kernel.op(ScalarOp::Exp, &[shifted]);
    let sum = kernel.reduce(ReduceOp::Sum, exp);
    let result = kernel.op(ScalarOp::Div, &[exp, sum]);
    output(&mut kernel, Level::Element, Access::Contiguous, result);
    kernel
}

/// Layer norm of each row of `n` elements with scale and shift.
pub fn layer_norm(n: usize) -> Kernel {
    let mut kernel = Kernel::new("layer_norm", 1, 1);
    let x = input(&mut kernel, Level::Element, Access::Contiguous);
    let scale = input(&mut kernel, Level::Element, Access::Strided);
    let shift = input(&mut kernel, Level::Element, Access::Strided);
    let (inverse, epsilon, one) = (
        kernel.const_f32(1.0 / n as f32),
        kernel.const_f32(1e-5),
        kernel.const_f32(1.0),
    );
    let sum = kernel.reduce(ReduceOp::Sum, x);
    let mean = kernel.op(ScalarOp::Mul, &[sum, inverse]);
    let distance = kernel.op(ScalarOp::Sub, &[x, mean]);
    let square = kernel.op(ScalarOp::Mul, &[distance, distance]);
    let squares = kernel.reduce(ReduceOp::Sum, square);
    let variance = kernel.op(ScalarOp::Mul, &[squares, inverse]);
    let variance = kernel.op(ScalarOp::Add, &[variance, epsilon]);
    let deviation = kernel.op(ScalarOp::Sqrt, &[variance]);
    let factor = kernel.op(ScalarOp::Div, &[one, deviation]);
    let normal = kernel.op(ScalarOp::Mul, &[distance, factor]);
    let scaled = kernel.op(ScalarOp::Mul, &[normal, scale]);
    let result = kernel.op(ScalarOp::Add, &[scaled, shift]);
    output(&mut kernel, Level::Element, Access::Contiguous, result);
    kernel
}

/// `a + b`, element by element.
pub fn add() -> Kernel {
    let mut kernel = Kernel::new("add", 1, 0);
    let a = input(&mut kernel, Level::Row, Access::Contiguous);
    let b = input(&mut kernel, Level::Row, Access::Contiguous);
    let sum = kernel.op(ScalarOp::Add, &[a, b]);
    output(&mut kernel, Level::Row, Access::Contiguous, sum);
    kernel
}

/// `x·(1 + erf(x/√2))/2`.
pub fn gelu() -> Kernel {
    let mut kernel = Kernel::new("gelu", 1, 0);
    let x = input(&mut kernel, Level::Row, Access::Contiguous);
    let (root, half, one) = (
        kernel.const_f32(std::f32::consts::FRAC_1_SQRT_2),
        kernel.const_f32(0.5),
        kernel.const_f32(1.0),
    );
    let scaled = kernel.op(ScalarOp::Mul, &[x, root]);
    let erf = kernel.op(ScalarOp::Erf, &[scaled]);
    let factor = kernel.op(ScalarOp::Add, &[erf, one]);
    let halved = kernel.op(ScalarOp::Mul, &[x, half]);
    let result = kernel.op(ScalarOp::Mul, &[halved, factor]);
    output(&mut kernel, Level::Row, Access::Contiguous, result);
    kernel
}

/// The sum over the inner axis of a strided input.
pub fn sum() -> Kernel {
    let mut kernel = Kernel::new("sum", 1, 1);
    let x = input(&mut kernel, Level::Element, Access::Strided);
    let sum = kernel.reduce(ReduceOp::Sum, x);
    output(&mut kernel, Level::Row, Access::Contiguous, sum);
    kernel
}

/// The index of the greatest element.
pub fn argmax() -> Kernel {
    let mut kernel = Kernel::new("argmax", 0, 1);
    let x = input(&mut kernel, Level::Element, Access::Contiguous);
    let index = kernel.reduce(ReduceOp::ArgMax, x);
    let param = kernel.param(DType::I64, Role::Out, Level::Row, Access::Contiguous);
    kernel.store(param, index);
    kernel
}

/// A copy of a strided input.
pub fn copy() -> Kernel {
    let mut kernel = Kernel::new("copy", 2, 0);
    let x = input(&mut kernel, Level::Row, Access::Strided);
    output(&mut kernel, Level::Row, Access::Contiguous, x);
    kernel
}
