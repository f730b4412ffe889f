//! The steps of scalar ops.

use super::build::{Builder, Made};
use super::plan::{Value, held_size};
use crate::loops::{self, Code, Held};
use thalweg_hal::ir::{NodeId, ScalarOp};
use thalweg_hal::{DType, Error, Result};

impl Builder<'_> {
    pub(super) fn op(&mut self, i: usize, op: ScalarOp, args: [NodeId; 3]) -> Result<Value> {
        // The last argument has the dtype that the op works on.
        let dtype = self.dtype(args[op.arity() - 1].index())?;
        let held = Held::of(dtype);
        let result = self.dtype(i)?;
        let unsupported = || Error::unsupported(format!("{op} on {dtype}"));
        let [a, b, c] = args.map(|id| self.of(id));
        let out = match op.arity() {
            1 => {
                let f = loops::unary(self.isa, op, held).ok_or_else(unsupported)?;
                let out = self.value(held_size(result));
                self.emit(f, out, [a, a, a]);
                if held == Held::F32 {
                    self.make(out, one(op, a));
                }
                out
            }
            2 => self.binary(op, held, result, a, b).ok_or_else(unsupported)?,
            _ => {
                let bit = |v: Value, at: u8| u8::from(self.single(v)) << at;
                let single = bit(a, 0) | bit(b, 1) | bit(c, 2);
                let f = match op {
                    ScalarOp::Select => loops::select(self.isa, held.size(), single),
                    _ => loops::fma(self.isa, held, single).ok_or_else(unsupported)?,
                };
                let out = self.value(held_size(result));
                self.emit(f, out, [a, b, c]);
                out
            }
        };
        let only_stored = self.users(i) == self.stores_of(i);
        match loops::round_half(self.isa, result) {
            Some(f) if op.rounds() && !only_stored => {
                let rounded = self.value(4);
                self.emit(f, rounded, [out, out, out]);
                Ok(rounded)
            }
            _ => Ok(out),
        }
    }

    fn binary(&mut self, op: ScalarOp, held: Held, result: DType, a: Value, b: Value) -> Option<Value> {
        let (mut a, mut b) = (a, b);
        if self.single(a) && self.single(b) {
            a = self.block(a);
        }
        if self.single(a) && op.commutes() {
            (a, b) = (b, a);
        }
        let single = u8::from(self.single(a)) | u8::from(self.single(b)) << 1;
        let f = loops::binary(self.isa, op, held, single)?;
        let out = self.value(held_size(result));
        self.emit(f, out, [a, b, b]);
        if held == Held::F32 {
            let made = two(op, (a, self.single(a)), (b, self.single(b)));
            self.make(out, made);
        }
        Some(out)
    }
}

/// The link of an op of one argument.
fn one(op: ScalarOp, a: Value) -> Made {
    Made {
        hand: a,
        operand: a,
        code: (op == ScalarOp::Exp).then_some(Code::Exp),
        commutes: false,
    }
}

/// The link of an op of two arguments.
fn two(op: ScalarOp, (a, a_single): (Value, bool), (b, b_single): (Value, bool)) -> Made {
    let blocks = !a_single && !b_single;
    let code = match op {
        ScalarOp::Sub if b_single => Some(Code::SubSingle),
        ScalarOp::Div if b_single => Some(Code::DivSingle),
        ScalarOp::Mul if b_single => Some(Code::MulSingle),
        ScalarOp::Mul if blocks && a == b => Some(Code::Square),
        ScalarOp::Mul if blocks => Some(Code::Mul),
        // A value is in hand or in memory, not both.
        ScalarOp::Add if blocks && a != b => Some(Code::Add),
        _ => None,
    };
    Made {
        hand: a,
        operand: b,
        code: code.filter(|_| !a_single),
        commutes: matches!(code, Some(Code::Mul | Code::Add)),
    }
}
