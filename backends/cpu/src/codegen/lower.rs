//! From the nodes of a kernel to instructions.

use super::ssa::{Compare, Id, Inst, Logic, Op, Recorder, Unary, Value};
use crate::math::{self, Lanes};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Info, Kernel, Node, NodeId, Role, ScalarOp};

/// The body of a map: what it computes, and the values that it stores.
pub(super) struct Body {
    pub(super) insts: Vec<Inst>,
    /// Parameter and value, in the order of the kernel.
    pub(super) stores: Vec<(u32, Id)>,
}

/// Most instructions of a body.
const MOST: usize = 4096;

/// The modes of a rounding instruction, which raises no flag of inexactness.
const NEAREST: u8 = 8;
const DOWN: u8 = 9;
const UP: u8 = 10;
const TOWARDS_ZERO: u8 = 11;

/// The body of a map on f32 whose parameters are all contiguous or single; `None` where a node has no instructions.
pub(super) fn body(kernel: &Kernel, info: &Info, wide: bool) -> Option<Body> {
    let contiguous = |p: u32| kernel.params[p as usize].access == Access::Contiguous;
    let params_fit = kernel.params.iter().all(|p| {
        p.dtype == DType::F32
            && p.access != Access::Strided
            && (p.role == Role::In || p.access == Access::Contiguous)
    });
    if kernel.inner != 0 || !params_fit {
        return None;
    }
    let recorder = Recorder::new(wide);
    let mut ids = Vec::with_capacity(kernel.nodes.len());
    let mut stores = Vec::new();
    for (i, node) in kernel.nodes.iter().enumerate() {
        let of = |id: NodeId| recorder.value(ids[id.index()]);
        let value = match *node {
            Node::Store { param, value } => {
                let id = ids[value.index()];
                stores.push((param, id));
                ids.push(id);
                continue;
            }
            _ if info.dtypes[i] != Some(DType::F32) && info.dtypes[i] != Some(DType::Bool) => return None,
            Node::Const {
                dtype: DType::F32,
                bits,
            } => recorder.constant(bits as u32),
            Node::Scalar { index } if info.dtypes[i] == Some(DType::F32) => {
                recorder.push(Op::Scalar(index), &[])
            }
            Node::Load { param } if contiguous(param) => recorder.push(Op::Load(param), &[]),
            Node::Load { param } => recorder.push(Op::Single(param), &[]),
            Node::Op { op, args } => {
                let dtype = info.dtypes[args[op.arity() - 1].index()]?;
                scalar(op, dtype, args.map(of))?
            }
            Node::Cast { arg, .. } if info.dtypes[i] == info.dtypes[arg.index()] => of(arg),
            _ => return None,
        };
        if recorder.len() > MOST {
            return None;
        }
        ids.push(value.id);
    }
    let insts = recorder.finish();
    // Memory that is stored as it was might be overwritten by another store first.
    let moved = |&(_, id): &(u32, Id)| matches!(insts[id as usize].op, Op::Load(_));
    if stores.len() > 1 && stores.iter().any(moved) {
        return None;
    }
    Some(Body { insts, stores })
}

/// The instructions of an op.
fn scalar<'a>(op: ScalarOp, dtype: DType, [a, b, c]: [Value<'a>; 3]) -> Option<Value<'a>> {
    if dtype == DType::Bool {
        return Some(match op {
            ScalarOp::And => a.logic(Logic::And, b),
            ScalarOp::Or => a.logic(Logic::Or, b),
            ScalarOp::Xor | ScalarOp::Ne => a.logic(Logic::Xor, b),
            _ => return None,
        });
    }
    let constant = |c: f32| a.splat(c);
    Some(match op {
        ScalarOp::Neg => -a,
        ScalarOp::Abs => a.magnitude(),
        ScalarOp::Sign => {
            let positive = Value::choose(constant(0.0).less(a), constant(1.0), a);
            Value::choose(a.less(constant(0.0)), constant(-1.0), positive)
        }
        ScalarOp::Floor => a.unary(Unary::Round(DOWN)),
        ScalarOp::Ceil => a.unary(Unary::Round(UP)),
        ScalarOp::Trunc => a.unary(Unary::Round(TOWARDS_ZERO)),
        ScalarOp::Round => a.unary(Unary::Round(NEAREST)),
        ScalarOp::Sqrt => a.unary(Unary::Sqrt),
        ScalarOp::Exp => math::exp32(a),
        ScalarOp::Log => math::log32(a),
        ScalarOp::Tanh => math::tanh32(a),
        ScalarOp::Erf => math::erf32(a),
        ScalarOp::Add => a + b,
        ScalarOp::Sub => a - b,
        ScalarOp::Mul => a * b,
        ScalarOp::Div => a / b,
        ScalarOp::Max => a.greater(b),
        ScalarOp::Min => a.lesser(b),
        ScalarOp::Eq => a.equals(b),
        ScalarOp::Ne => a.compare(Compare::Unequal, b),
        ScalarOp::Lt => a.less(b),
        ScalarOp::Le => a.at_most(b),
        ScalarOp::Fma => a.mul_add(b, c),
        ScalarOp::Select => Value::choose(a, b, c),
        _ => return None,
    })
}
