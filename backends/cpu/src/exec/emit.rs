//! The steps of scalar ops.

use super::build::Builder;
use super::plan::{Value, held_size};
use crate::isa::Isa;
use crate::loops::{self, Held, LoopFn};
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
        if self.single(a) && !self.single(b) && op.commutes() {
            (a, b) = (b, a);
        }
        self.two(
            |isa, single| loops::binary(isa, op, held, single),
            held_size(result),
            a,
            b,
        )
    }

    /// A loop of two arguments, which is asked for by which of them are single values.
    pub(super) fn two(
        &mut self,
        f: impl FnOnce(Isa, u8) -> Option<LoopFn>,
        size: usize,
        a: Value,
        b: Value,
    ) -> Option<Value> {
        let a = if self.single(b) { self.block(a) } else { a };
        let f = f(self.isa, u8::from(self.single(a)) | u8::from(self.single(b)) << 1)?;
        let out = self.value(size);
        self.emit(f, out, [a, b, b]);
        Some(out)
    }
}
