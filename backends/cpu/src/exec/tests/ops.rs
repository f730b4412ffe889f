//! Every op on every dtype it takes, for every kind of operand.

use super::harness::{Rng, check, random_case};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Returns, Role, ScalarOp};

const ACCESS: [Access; 3] = [Access::Contiguous, Access::Broadcast, Access::Strided];

fn out_dtype(returns: Returns, dtype: DType) -> DType {
    match returns {
        Returns::Same => dtype,
        Returns::Bool => DType::Bool,
        Returns::Index => DType::I64,
    }
}

#[test]
fn scalar_ops() {
    let mut rng = Rng(1);
    for &op in ScalarOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&d| op.accepts().takes(d)) {
            // Each argument in turn is a block, a single value or strided.
            for pattern in 0..3usize.pow(op.arity() as u32) {
                let mut kernel = Kernel::new("op", 1, 0);
                let args: Vec<NodeId> = (0..op.arity())
                    .map(|i| {
                        let access = ACCESS[pattern / 3usize.pow(i as u32) % 3];
                        let bool = op == ScalarOp::Select && i == 0;
                        let param = kernel.param(
                            if bool { DType::Bool } else { dtype },
                            Role::In,
                            Level::Row,
                            access,
                        );
                        kernel.load(param)
                    })
                    .collect();
                let result = kernel.op(op, &args);
                let out = kernel.param(
                    out_dtype(op.returns(), dtype),
                    Role::Out,
                    Level::Row,
                    Access::Contiguous,
                );
                kernel.store(out, result);
                let extent = [203, 64, 1][pattern % 3];
                check(&random_case(kernel, vec![extent], &mut rng));
            }
        }
    }
}

#[test]
fn casts() {
    let mut rng = Rng(2);
    for from in DType::ALL {
        for to in DType::ALL {
            let mut kernel = Kernel::new("cast", 1, 0);
            let param = kernel.param(from, Role::In, Level::Row, Access::Contiguous);
            let x = kernel.load(param);
            let y = kernel.cast(to, x);
            let out = kernel.param(to, Role::Out, Level::Row, Access::Contiguous);
            kernel.store(out, y);
            // Used by an op, too, so that the held form is seen.
            let y = if to.is_storage() {
                kernel.cast(DType::F32, y)
            } else {
                y
            };
            let z = kernel.op(ScalarOp::Eq, &[y, y]);
            let flag = kernel.param(DType::Bool, Role::Out, Level::Row, Access::Contiguous);
            kernel.store(flag, z);
            check(&random_case(kernel, vec![2100], &mut rng));
        }
    }
}

#[test]
fn reductions() {
    let mut rng = Rng(3);
    for &op in ReduceOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&d| op.takes(d)) {
            for access in [Access::Contiguous, Access::Strided, Access::Broadcast] {
                for extents in [[3, 1031], [70, 3], [5, 0], [2, 1], [67, 300]] {
                    let mut kernel = Kernel::new("reduce", 1, 1);
                    let param = kernel.param(dtype, Role::In, Level::Element, access);
                    let x = kernel.load(param);
                    let y = kernel.reduce(op, x);
                    let to = out_dtype(op.returns(), dtype);
                    let out = kernel.param(to, Role::Out, Level::Row, Access::Contiguous);
                    kernel.store(out, y);
                    check(&random_case(kernel, extents.to_vec(), &mut rng));
                }
            }
        }
    }
}

#[test]
fn random_words() {
    let mut rng = Rng(4);
    for base in [0, 1, 3, u64::MAX - 100, 1 << 33] {
        for contiguous in [true, false] {
            let mut kernel = Kernel::new("rand", 1, 0);
            let key = kernel.scalar(DType::U64);
            let index = kernel.push(Node::Index { axis: 0 });
            let index = kernel.cast(DType::U64, index);
            let step = if contiguous { 1 } else { 3 };
            let step = kernel.push(Node::Const {
                dtype: DType::U64,
                bits: step,
            });
            let base = kernel.push(Node::Const {
                dtype: DType::U64,
                bits: base,
            });
            let scaled = kernel.op(ScalarOp::Mul, &[index, step]);
            let counter = kernel.op(ScalarOp::Add, &[scaled, base]);
            let words = kernel.push(Node::Rand { key, counter });
            let out = kernel.param(DType::U32, Role::Out, Level::Row, Access::Contiguous);
            kernel.store(out, words);
            check(&random_case(kernel, vec![1500], &mut rng));
        }
    }
}
