//! Machine code that reads and writes f16 and bf16.

use super::coded::{REDUCTIONS, has_code, is_coded};
use super::harness::{Rng, check, random_case};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

const HALVES: [DType; 2] = [DType::F16, DType::BF16];

fn cast(k: &mut Kernel, arg: NodeId, dtype: DType) -> NodeId {
    k.push(Node::Cast { arg, dtype })
}

/// Ops of a half, and of f32 with halves of both kinds around them.
fn mixed(dtype: DType, access: Access) -> Kernel {
    let other = HALVES[usize::from(dtype == HALVES[0])];
    let mut k = Kernel::new("mixed", 1, 0);
    let [x, y] = [(); 2].map(|()| k.param(dtype, Role::In, Level::Row, Access::Contiguous));
    let z = k.param(other, Role::In, Level::Row, access);
    let w = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let number = k.scalar(dtype);
    let [x, y, z, w] = [x, y, z, w].map(|p| k.load(p));
    let half = k.push(Node::Const {
        dtype,
        bits: if dtype == DType::F16 { 0x3800 } else { 0x3f00 },
    });
    // Each of these is rounded, but for the last.
    let product = k.op(ScalarOp::Mul, &[x, y]);
    let sum = k.op(ScalarOp::Fma, &[product, half, number]);
    let root = k.op(ScalarOp::Exp, &[sum]);
    let below = k.op(ScalarOp::Lt, &[x, root]);
    let chosen = k.op(ScalarOp::Select, &[below, y, root]);
    let wide = cast(&mut k, chosen, DType::F32);
    let from_other = cast(&mut k, z, DType::F32);
    let difference = k.op(ScalarOp::Sub, &[wide, from_other]);
    let all = k.op(ScalarOp::Mul, &[difference, w]);
    let narrow = cast(&mut k, all, other);
    let least = k.op(ScalarOp::Min, &[narrow, z]);
    let back = cast(&mut k, least, dtype);
    for (dtype, value) in [
        (dtype, chosen),
        (DType::F32, all),
        (other, narrow),
        (dtype, back),
        (other, least),
    ] {
        let out = k.param(dtype, Role::Out, Level::Row, Access::Contiguous);
        k.store(out, value);
    }
    k
}

/// A row of halves less what a reduction gives in f32, and that as a half and as f32.
fn distances(dtype: DType, op: ReduceOp) -> Kernel {
    let mut k = Kernel::new("distances", 1, 1);
    let x = k.param(dtype, Role::In, Level::Element, Access::Contiguous);
    let row = k.param(dtype, Role::In, Level::Row, Access::Strided);
    let one = k.param(dtype, Role::In, Level::Row, Access::Broadcast);
    let out = k.param(dtype, Role::Out, Level::Element, Access::Contiguous);
    let half = k.param(dtype, Role::Out, Level::Row, Access::Strided);
    let whole = k.param(DType::F32, Role::Out, Level::Row, Access::Strided);
    let [x, row, one] = [x, row, one].map(|p| k.load(p));
    let [x, row, one] = [x, row, one].map(|v| cast(&mut k, v, DType::F32));
    let moved = k.op(ScalarOp::Add, &[x, row]);
    let r = k.reduce(op, moved);
    let d = k.op(ScalarOp::Sub, &[x, r]);
    let square = k.op(ScalarOp::Mul, &[d, d]);
    let s = k.reduce(ReduceOp::Sum, square);
    let q = k.op(ScalarOp::Div, &[d, s]);
    let q = k.op(ScalarOp::Mul, &[q, one]);
    let [q, s] = [q, s].map(|v| cast(&mut k, v, dtype));
    k.store(half, s);
    k.store(whole, r);
    k.store(out, q);
    k
}

/// The greatest half of a row, and where the greatest of f32 stands.
fn greatest(dtype: DType) -> Kernel {
    let mut k = Kernel::new("greatest", 1, 1);
    let x = k.param(dtype, Role::In, Level::Element, Access::Contiguous);
    let most = k.param(dtype, Role::Out, Level::Row, Access::Strided);
    let place = k.param(DType::I64, Role::Out, Level::Row, Access::Strided);
    let x = k.load(x);
    let r = k.reduce(ReduceOp::Max, x);
    let wide = cast(&mut k, x, DType::F32);
    let at = k.reduce(ReduceOp::ArgMax, wide);
    k.store(most, r);
    k.store(place, at);
    k
}

fn lengths() -> impl Iterator<Item = u64> {
    (1..=40).chain([63, 64, 65, 127, 256, 1000, 1031, 5000])
}

#[test]
fn maps() {
    let mut rng = Rng(81);
    for dtype in HALVES {
        for access in [Access::Contiguous, Access::Broadcast] {
            let kernel = mixed(dtype, access);
            assert_eq!(is_coded(&kernel), has_code(), "{dtype}");
            for n in lengths() {
                check(&random_case(kernel.clone(), vec![n], &mut rng));
            }
        }
    }
}

#[test]
fn rows() {
    let mut rng = Rng(82);
    for dtype in HALVES {
        for op in REDUCTIONS {
            let kernel = distances(dtype, op);
            assert_eq!(is_coded(&kernel), has_code(), "{dtype} {op}");
            for n in lengths() {
                check(&random_case(kernel.clone(), vec![1 + n % 5, n], &mut rng));
            }
        }
        for n in lengths() {
            check(&random_case(greatest(dtype), vec![1 + n % 5, n], &mut rng));
        }
    }
}

/// Every half, alone and with another of each kind.
#[test]
fn every_half() {
    let mut rng = Rng(83);
    for dtype in HALVES {
        let mut k = Kernel::new("every", 1, 0);
        let [x, y] = [(); 2].map(|()| k.param(dtype, Role::In, Level::Row, Access::Contiguous));
        let [x, y] = [x, y].map(|p| k.load(p));
        let [wide, wide_y] = [x, y].map(|v| cast(&mut k, v, DType::F32));
        let product = k.op(ScalarOp::Mul, &[wide, wide_y]);
        let opposite = k.op(ScalarOp::Neg, &[x]);
        let narrow = cast(&mut k, product, dtype);
        for (dtype, value) in [(dtype, narrow), (dtype, opposite), (DType::F32, product)] {
            let out = k.param(dtype, Role::Out, Level::Row, Access::Contiguous);
            k.store(out, value);
        }
        assert_eq!(is_coded(&k), has_code(), "{dtype}");
        let mut case = random_case(k, vec![1 << 16], &mut rng);
        case.in_place.clear();
        case.buffers[0].origin = 0;
        case.buffers[0].bytes = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        check(&case);
    }
}
