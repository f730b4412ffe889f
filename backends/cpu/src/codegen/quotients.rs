//! Quotients by a value of the row, without a division for each vector.
//!
//! That one product and two fused steps suffice with a correctly rounded reciprocal is Markstein's theorem (Brisebarre, Muller, Raina,
//! Accelerating correctly rounded floating-point division when the divisor is known in advance, 2004), provided that nothing underflows
//! or overflows: nothing does for a divisor in 2^-24..2^24 and a dividend in 2^-100..2^100, and +0 passes. -0 gets its sign, which a
//! positive divisor keeps. A walk that meets another number is walked again with divisions, so it must be one that writes no memory
//! that it reads.

use super::assembler::{Extra, GREATER, LESS, Label, RAX, Rm, UNEQUAL};
use super::body::{Level, Range, Sink};
use super::opcodes::{
    BROADCAST, COMPARE_UNSIGNED, FMA231, FNMA231, GREATEST_UNSIGNED, LEAST_UNSIGNED, MOVE, TEST, TEST_MASKS,
    binary_code,
};
use super::reductions::{Constants, SIGN};
use super::registers::{Manner, Registers};
use super::ssa::{Binary, Id, Op};

/// Bits of 2^-24 and of 2^24 without their signs, doubled.
const LEAST_DIVISOR: i32 = (127 - 24) << 24;
const DIVISORS: i32 = 48 << 24;

/// Dividends that may be.
#[derive(Clone, Copy)]
pub(super) struct Dividends {
    /// Bits of the least minus 1, and of the greatest.
    pub(super) least: u32,
    pub(super) greatest: u32,
}

/// Of dividends that are never below zero.
pub(super) const POSITIVE: Dividends = Dividends {
    least: ((127 - 100) << 23) - 1,
    greatest: ((127 + 100) << 23) - 1,
};
/// The same without signs, doubled.
pub(super) const SIGNED: Dividends = Dividends {
    least: ((127 - 100) << 24) - 1,
    greatest: ((127 + 100) << 24) - 2,
};

/// A value that a walk divides by.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    id: Id,
    /// Bounds that all dividends have.
    range: Range,
}

/// The registers of a walk that divides by one value.
#[derive(Clone, Copy)]
pub(super) struct Quotients {
    divisor: Divisor,
    constants: Constants,
}

const RECIPROCAL: u8 = 0;
/// The least of the dividends' bits minus 1, and the greatest of their bits.
const LOW: u8 = 1;
const HIGH: u8 = 2;
const RESERVED: u32 = 7;

impl Registers<'_> {
    /// The value that the present section divides by, if it may be walked again.
    pub(super) fn divisor(&self, reads_params: bool) -> Option<Divisor> {
        let stores = |&(sink, _): &(Sink, Id)| matches!(sink, Sink::Store(_));
        if reads_params || !self.sinks.iter().all(stores) {
            return None;
        }
        let level = |id: Id| self.body.levels[id as usize];
        let computed = (self.body.insts.iter().zip(&self.uses.computed)).filter(|(_, c)| **c);
        let mut quotients = computed.filter_map(|(inst, _)| match (inst.op, inst.args) {
            (Op::Binary(Binary::Div), [a, b, _])
                if level(a) == Level::Element && level(b) != Level::Element =>
            {
                Some((a, b))
            }
            _ => None,
        });
        let range = |a: Id| self.body.ranges[a as usize];
        let (a, id) = quotients.next()?;
        let others = quotients.filter(|&(_, b)| b == id).map(|(a, _)| range(a));
        let range = others.fold(range(a), |all, range| if all == range { all } else { Range::Any });
        Some(Divisor { id, range })
    }

    /// Begins a walk with quotients, or jumps where the divisor does not allow them.
    pub(super) fn begin_quotients(&mut self, divisor: Divisor, constants: Constants, slow: &mut Label) {
        self.reserved = RESERVED;
        self.start(Manner::default());
        let Some(single) = self.single(divisor.id) else {
            self.reserved = 0;
            return self.asm.jump(slow);
        };
        self.asm.plain32(0x8b, RAX, single);
        if divisor.range == Range::Any {
            self.asm.compare_with(RAX, 0);
            self.asm.jump_if(LESS, slow);
        }
        self.asm.plain32(0x03, RAX, Rm::Reg(RAX));
        self.asm.sub(RAX, LEAST_DIVISOR);
        self.asm.jump_if(LESS, slow);
        self.asm.sub(RAX, DIVISORS);
        self.asm.jump_if(GREATER, slow);
        let plain = Extra::default();
        let mut set = |bits: u32, to: u8| {
            self.asm.vector(BROADCAST, to, 0, constants.single(bits), plain);
        };
        set(1.0_f32.to_bits(), RECIPROCAL);
        set(u32::MAX, LOW);
        let divide = binary_code(Binary::Div);
        let by = self.operand(divisor.id, 0);
        self.asm.vector(divide, RECIPROCAL, RECIPROCAL, by, plain);
        self.asm
            .vector(binary_code(Binary::Xor), HIGH, HIGH, Rm::Reg(HIGH), plain);
        self.unpin();
        self.quotients = Some(Quotients { divisor, constants });
    }

    /// Whether an instruction is a quotient of the present walk.
    pub(super) fn is_quotient(&self, op: Binary, b: Id) -> bool {
        op == Binary::Div && self.quotients.is_some_and(|q| q.divisor.id == b)
    }

    /// `a / b`.
    pub(super) fn quotient(&mut self, id: Id, a: Id, b: Id) {
        let Some(Quotients { constants, divisor }) = self.quotients else {
            return;
        };
        let plain = Extra::default();
        let x = self.register(a);
        let by = self.operand(b, id);
        let (quotient, rest) = (self.allocate(false, 0), self.allocate(false, 0));
        self.asm
            .vector(binary_code(Binary::Mul), quotient, x, Rm::Reg(RECIPROCAL), plain);
        self.asm.vector(MOVE, rest, 0, Rm::Reg(x), plain);
        self.asm.vector(FNMA231, rest, quotient, by, plain);
        self.asm
            .vector(FMA231, quotient, rest, Rm::Reg(RECIPROCAL), plain);
        let wide = self.asm.wide;
        let mut size = x;
        if divisor.range == Range::Any {
            let sign = constants.each(SIGN, wide);
            self.asm.vector(binary_code(Binary::And), rest, x, sign, plain);
            let or = binary_code(Binary::Or);
            self.asm.vector(or, quotient, quotient, Rm::Reg(rest), plain);
            size = rest;
            self.asm
                .vector(binary_code(Binary::IntAdd), size, x, Rm::Reg(x), plain);
        }
        if divisor.range != Range::Unit {
            self.asm
                .vector(GREATEST_UNSIGNED, HIGH, HIGH, Rm::Reg(size), plain);
        }
        let one = constants.each(1, wide);
        self.asm
            .vector(binary_code(Binary::IntSub), rest, size, one, plain);
        self.asm.vector(LEAST_UNSIGNED, LOW, LOW, Rm::Reg(rest), plain);
        [a, b].into_iter().for_each(|x| self.release(x, id));
        self.hold(id, quotient);
        self.unpin();
    }

    /// Ends a walk with quotients, or jumps where it met a dividend that does not allow them.
    pub(super) fn end_quotients(&mut self, slow: &mut Label) {
        let Some(Quotients { constants, divisor }) = self.quotients.take() else {
            return;
        };
        self.reserved = 0;
        let wide = self.asm.wide;
        let all = match divisor.range {
            Range::Any => SIGNED,
            Range::Positive | Range::Unit => POSITIVE,
        };
        let (least, most) = (
            constants.each(all.least, wide),
            constants.each(all.greatest, wide),
        );
        if wide {
            let imm = |imm: u8| Extra {
                imm: Some(imm),
                ..Extra::default()
            };
            let (below, above) = (imm(1), imm(6));
            self.asm.vector(COMPARE_UNSIGNED, 1, LOW, least, below);
            self.asm.vector(COMPARE_UNSIGNED, 2, HIGH, most, above);
            self.asm.vex(TEST_MASKS, 1, 0, Rm::Reg(2), None, false, false);
        } else {
            let plain = Extra::default();
            let xor = binary_code(Binary::Xor);
            self.asm.vector(GREATEST_UNSIGNED, HIGH, HIGH, most, plain);
            self.asm.vector(xor, HIGH, HIGH, most, plain);
            self.asm.vector(GREATEST_UNSIGNED, RECIPROCAL, LOW, least, plain);
            self.asm.vector(xor, LOW, LOW, Rm::Reg(RECIPROCAL), plain);
            self.asm
                .vector(binary_code(Binary::Or), LOW, LOW, Rm::Reg(HIGH), plain);
            self.asm.vector(TEST, LOW, 0, Rm::Reg(LOW), plain);
        }
        self.asm.jump_if(UNEQUAL, slow);
    }
}
