//! The instructions of a section as machine code.

use super::assembler::{Code, Extra, Rm};
use super::opcodes::{
    BLEND, BLEND_BY_VECTOR, COMPARE, FMA132, FMA213, FMA231, FNMA132, FNMA213, FNMA231, FROM_F16, MOVE,
    PACK_WORDS, PERMUTE_QUARTERS, binary_code, commutes, lane_mask_code, mask_code, predicate, unary_code,
};
use super::registers::{OUT, Registers};
use super::ssa::{Id, Op, Unary};

impl Registers<'_> {
    /// One instruction that is not defined by its home.
    pub(super) fn inst(&mut self, i: usize) {
        let inst = self.body.insts[i];
        let (op, [a, b, c]) = (inst.op, inst.args);
        let at = i as u32;
        let plain = Extra::default();
        let finish = |this: &mut Self| {
            inst.operands().for_each(|id| this.release(id, at));
            // Operands are read before the result is written.
            this.unpin();
            let register = this.allocate(this.is_mask(i as Id), at);
            this.hold(i as Id, register);
            this.unpin();
            register
        };
        match op {
            Op::Const(_)
            | Op::Scalar(_)
            | Op::Single(_)
            | Op::SingleByte(_)
            | Op::Load(_)
            | Op::Row(_)
            | Op::Reduced(_) => {}
            Op::Unary(Unary::LowWords) if !self.asm.wide => {
                let from = self.register(a);
                let to = finish(self);
                self.asm.vector(PACK_WORDS, to, from, Rm::Reg(from), plain);
                let halves = Some(0b1000);
                self.asm
                    .vex(PERMUTE_QUARTERS, to, 0, Rm::Reg(to), halves, true, true);
            }
            // The result stands where others have an operand.
            Op::Unary(op @ (Unary::LowWords | Unary::ToF16)) => {
                let from = self.register(a);
                let to = finish(self);
                let (code, imm) = unary_code(op);
                self.asm
                    .vector(code, from, 0, Rm::Reg(to), Extra { imm, ..plain });
            }
            Op::Unary(Unary::FromF16) => {
                let from = self.register(a);
                let to = finish(self);
                self.asm.vector(FROM_F16, to, 0, Rm::Reg(from), plain);
            }
            Op::Unary(op @ (Unary::ShiftLeft(_) | Unary::ShiftRight(_) | Unary::ShiftRightZeros(_))) => {
                let from = self.register(a);
                let to = finish(self);
                let (code, imm) = unary_code(op);
                // The field of the result tells the two apart; the result stands where others have an operand.
                let which = match op {
                    Unary::ShiftLeft(_) => 6,
                    Unary::ShiftRightZeros(_) => 2,
                    _ => 4,
                };
                self.asm
                    .vector(code, which, to, Rm::Reg(from), Extra { imm, ..plain });
            }
            Op::Unary(op) => {
                let from = self.operand(a, at);
                let to = finish(self);
                let (code, imm) = unary_code(op);
                self.asm.vector(code, to, 0, from, Extra { imm, ..plain });
            }
            Op::Binary(op) if self.is_quotient(op, b) => self.quotient(i as Id, a, b),
            Op::Binary(op) => {
                let swap = commutes(op) && self.held[a as usize] == OUT;
                let (a, b) = if swap { (b, a) } else { (a, b) };
                let v = self.register(a);
                let rm = self.operand(b, at);
                let to = finish(self);
                self.asm.vector(binary_code(op), to, v, rm, plain);
            }
            Op::Compare(op) => {
                let swap = self.held[a as usize] == OUT;
                let (a, b) = if swap { (b, a) } else { (a, b) };
                let v = self.register(a);
                let rm = self.operand(b, at);
                let to = finish(self);
                let (straight, swapped) = predicate(op);
                let imm = Some(if swap { swapped } else { straight });
                self.asm.vector(COMPARE, to, v, rm, Extra { imm, ..plain });
            }
            Op::Logic(op) => {
                let (a, b) = (self.register(a), self.register(b));
                let to = finish(self);
                if self.asm.wide {
                    self.asm.vex(mask_code(op), to, a, Rm::Reg(b), None, true, false);
                } else {
                    self.asm.vector(lane_mask_code(op), to, a, Rm::Reg(b), plain);
                }
            }
            Op::Select => {
                let (mask, no) = (self.register(a), self.register(c));
                let yes = self.operand(b, at);
                let to = finish(self);
                if self.asm.wide {
                    self.asm.vector(BLEND, to, no, yes, Extra { mask, ..plain });
                } else {
                    let imm = Some(mask << 4);
                    self.asm
                        .vector(BLEND_BY_VECTOR, to, no, yes, Extra { imm, ..plain });
                }
            }
            Op::Fma => self.fma(i as Id, [a, b, c], [FMA132, FMA213, FMA231]),
            Op::Fnma => self.fma(i as Id, [a, b, c], [FNMA132, FNMA213, FNMA231]),
        }
    }

    /// One of its operands is overwritten: one that has no other use, or a copy.
    fn fma(&mut self, id: Id, [a, b, c]: [Id; 3], [by132, by213, by231]: [Code; 3]) {
        let at = id;
        let once = |x: Id| usize::from(x == a) + usize::from(x == b) + usize::from(x == c) == 1;
        let in_memory = [c, b, a].into_iter().find_map(|x| {
            let rm = if once(x) { self.memory(x, at) } else { None };
            rm.map(|rm| (x, rm))
        });
        let (a, b) = if in_memory.is_some_and(|(x, _)| x == a) {
            (b, a)
        } else {
            (a, b)
        };
        // Values that may be overwritten, and those that the instruction reads then.
        let choices: &[(Id, Code, Id, Id)] = match in_memory {
            Some((x, _)) if x == c => &[(a, by213, b, c), (b, by213, a, c)],
            Some(_) => &[(a, by132, c, b), (c, by231, a, b)],
            None => &[(c, by231, a, b), (a, by213, b, c), (b, by213, a, c)],
        };
        let last = (choices.iter()).find(|&&(x, ..)| self.held[x as usize] != OUT && self.is_last(x, at));
        let absent = choices.iter().find(|&&(x, ..)| self.held[x as usize] == OUT);
        let &(over, code, v, rm) = last.or(absent).unwrap_or(&choices[0]);
        let owned = last.is_some();
        if owned {
            self.register(over);
        }
        let v = self.register(v);
        let rm = match in_memory {
            Some((_, rm)) => rm,
            None => Rm::Reg(self.register(rm)),
        };
        let to = if owned {
            self.held[over as usize]
        } else {
            let to = self.allocate(false, 0);
            match self.held[over as usize] {
                OUT => self.read(over, to),
                from => self.asm.vector(MOVE, to, 0, Rm::Reg(from), Extra::default()),
            }
            to
        };
        self.asm.vector(code, to, v, rm, Extra::default());
        [a, b, c].into_iter().for_each(|x| self.release(x, at));
        self.hold(id, to);
        self.unpin();
    }
}
