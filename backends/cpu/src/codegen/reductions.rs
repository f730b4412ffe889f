//! Reductions over a row in registers.
//!
//! A sum keeps the order of [`crate::loops`]: 16 lanes add up the elements of a chunk, chunks are added to totals on the stack, and
//! the lanes of the totals are added pairwise. The lesser of two is taken in both orders and the bits are joined, so that -0 is below
//! +0 and NaN stays; the greatest is the negated least of what was negated.

use super::assembler::{Code, Extra, Rm};
use super::opcodes::{
    BLEND_BY_VECTOR, BROADCAST, COMPARE, HIGH_TO_LOW, KEEP, LOAD, NEXT_HALF, NEXT_QUARTER, ODD_LANES,
    binary_code,
};
use super::quotients::{POSITIVE, SIGNED};
use super::registers::{Registers, TAIL_MASK, TAIL_VECTOR};
use super::ssa::{Binary, Compare, Id, Op};
use thalweg_hal::ir::ReduceOp;

/// Vectors that the least is gathered in.
const SIDES: u8 = 4;
/// Registers beside those of what is gathered, at the end of a row.
const SCRATCH: [u8; 3] = [13, 14, 15];
/// Most registers of what is gathered.
const MOST: u8 = 8;

pub(super) const SIGN: u32 = 1 << 31;

/// Where constants stand that reductions need, as vectors of eight.
#[derive(Clone, Copy, Default)]
pub(super) struct Constants {
    at: usize,
}

const CONSTANTS: [u32; 10] = [
    SIGN,
    0x7f80_0000,
    0x3f80_0000,
    0x7fff_ffff,
    0xffff_ffff,
    1,
    POSITIVE.least,
    POSITIVE.greatest,
    SIGNED.least,
    SIGNED.greatest,
];

impl Constants {
    pub(super) fn write(code: &mut Vec<u8>) -> Constants {
        let at = code.len();
        for bits in CONSTANTS {
            (0..8).for_each(|_| code.extend_from_slice(&bits.to_le_bytes()));
        }
        Constants { at }
    }

    /// One of them, and a vector of it.
    pub(super) fn single(self, bits: u32) -> Rm {
        let at = self.of(bits);
        Rm::Pool { at, each: false }
    }

    pub(super) fn each(self, bits: u32, wide: bool) -> Rm {
        let at = self.of(bits);
        Rm::Pool { at, each: wide }
    }

    fn of(self, bits: u32) -> usize {
        let place = CONSTANTS.iter().position(|&c| c == bits);
        debug_assert!(place.is_some(), "{bits:#x} is not among the constants");
        let place = place.unwrap_or(0);
        self.at + place * 32
    }
}

/// What a walk gathers for a reduction.
#[derive(Clone, Copy)]
struct State {
    reduce: u32,
    op: ReduceOp,
    /// The first of its registers, and how many there are.
    first: u8,
    count: u8,
    /// The first slot of its totals.
    totals: u32,
}

/// What a walk gathers.
#[derive(Clone, Default)]
pub(super) struct Gathered {
    states: Vec<State>,
    constants: Constants,
    /// The register of the sign, where one is needed.
    sign: Option<u8>,
}

impl Gathered {
    /// Whether chunks are added up.
    pub(super) fn has_sums(&self) -> bool {
        self.states.iter().any(State::is_fold)
    }
}

/// Whether elements are added up or multiplied.
fn is_fold(op: ReduceOp) -> bool {
    matches!(op, ReduceOp::Sum | ReduceOp::Prod)
}

/// Whether the result is where an element stands.
pub(super) fn finds_place(op: ReduceOp) -> bool {
    matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin)
}

impl State {
    fn is_fold(&self) -> bool {
        is_fold(self.op)
    }

    /// Whether greater is better.
    fn is_greatest(&self) -> bool {
        matches!(self.op, ReduceOp::Max | ReduceOp::ArgMax)
    }

    fn is_place(&self) -> bool {
        finds_place(self.op)
    }

    /// Bits of the result where an element is NaN: those that the loops give.
    fn nan(&self) -> u32 {
        if self.is_greatest() {
            0x7fff_ffff
        } else {
            0xffff_ffff
        }
    }

    fn binary(&self) -> Binary {
        match self.op {
            ReduceOp::Prod => Binary::Mul,
            _ => Binary::Add,
        }
    }

    /// Bits of what changes nothing.
    fn neutral(&self) -> u32 {
        match self.op {
            ReduceOp::Prod => 1.0_f32.to_bits(),
            _ => 0,
        }
    }

    fn register(&self, part: u8) -> u8 {
        self.first + part % self.count
    }
}

impl Registers<'_> {
    /// Begins the reductions of a section; `None` where they need too many registers.
    pub(super) fn begin(
        &mut self,
        reduces: &[(u32, ReduceOp)],
        totals: u32,
        constants: Constants,
    ) -> Option<()> {
        let parts = if self.asm.wide { 1 } else { 2 };
        let extremes = reduces.iter().filter(|(_, op)| !is_fold(*op)).count();
        let sides = if extremes > 1 { 2 } else { SIDES };
        let mut gathered = Gathered {
            states: Vec::new(),
            constants,
            sign: None,
        };
        let (mut next, mut slot) = (0, totals);
        for &(reduce, op) in reduces {
            let mut state = State {
                reduce,
                op,
                first: next,
                count: sides,
                totals: slot,
            };
            if state.is_fold() {
                state.count = parts;
                slot += u32::from(parts);
            }
            next += state.count;
            gathered.states.push(state);
        }
        if gathered.states.iter().any(State::is_greatest) {
            gathered.sign = Some(next);
            next += 1;
        }
        if next > MOST {
            return None;
        }
        self.reserved = (1 << next) - 1;
        if let Some(sign) = gathered.sign {
            self.constant(constants, SIGN, sign);
        }
        self.gathered = gathered;
        for state in self.gathered.states.clone() {
            for part in 0..state.count {
                if state.is_fold() {
                    self.neutral(&state, part);
                    let to = self.slot(state.totals + u32::from(part));
                    self.asm
                        .vector(KEEP, state.register(part), 0, to, Extra::default());
                } else {
                    self.constant(constants, 0x7f80_0000, state.register(part));
                }
            }
        }
        Some(())
    }

    fn constant(&mut self, constants: Constants, bits: u32, to: u8) {
        let from = constants.single(bits);
        self.asm.vector(BROADCAST, to, 0, from, Extra::default());
    }

    fn neutral(&mut self, state: &State, part: u8) {
        let to = state.register(part);
        match state.neutral() {
            0 => self
                .asm
                .vector(binary_code(Binary::Xor), to, to, Rm::Reg(to), Extra::default()),
            bits => self.constant(self.gathered.constants, bits, to),
        }
    }

    /// Takes a vector into a reduction.
    pub(super) fn take(&mut self, (reduce, copy): (u32, u8), id: Id, at: u32) {
        let Some(state) = self.gathered.states.iter().find(|s| s.reduce == reduce).copied() else {
            return;
        };
        let gathered = state.register(self.manner.part + copy);
        let (masked, wide) = (self.manner.masked, self.asm.wide);
        let counts = Extra {
            mask: if masked && wide { TAIL_MASK } else { 0 },
            ..Extra::default()
        };
        if state.is_fold() {
            let code = binary_code(state.binary());
            if !masked {
                let x = self.operand(id, at);
                return self.asm.vector(code, gathered, gathered, x, counts);
            }
            let mut x = self.register(id);
            if !wide {
                let to = self.allocate(false, at);
                match state.neutral() {
                    0 => {
                        let and = binary_code(Binary::And);
                        self.asm
                            .vector(and, to, x, Rm::Reg(TAIL_VECTOR), Extra::default());
                    }
                    bits => {
                        self.constant(self.gathered.constants, bits, to);
                        self.blend(to, to, x);
                    }
                }
                x = to;
            }
            return self.asm.vector(code, gathered, gathered, Rm::Reg(x), counts);
        }
        let mut x = self.register(id);
        let plain = Extra::default();
        if let (true, Some(sign)) = (state.is_greatest(), self.gathered.sign) {
            let to = self.allocate(false, at);
            self.asm
                .vector(binary_code(Binary::Xor), to, x, Rm::Reg(sign), plain);
            x = to;
        }
        if masked && !wide {
            let to = self.allocate(false, at);
            self.blend(to, gathered, x);
            x = to;
        }
        let (one, other) = (self.allocate(false, at), self.allocate(false, at));
        let min = binary_code(Binary::Min);
        self.asm.vector(min, one, gathered, Rm::Reg(x), plain);
        self.asm.vector(min, other, x, Rm::Reg(gathered), plain);
        self.asm
            .vector(binary_code(Binary::Or), gathered, one, Rm::Reg(other), counts);
    }

    /// `to` = `yes` in the lanes that count, and `no` in the others.
    fn blend(&mut self, to: u8, no: u8, yes: u8) {
        let imm = Some(TAIL_VECTOR << 4);
        let extra = Extra {
            imm,
            ..Extra::default()
        };
        self.asm.vector(BLEND_BY_VECTOR, to, no, Rm::Reg(yes), extra);
    }

    /// Adds the lanes of a chunk to the totals; at the end of a row they stay in registers.
    pub(super) fn flush(&mut self, end: bool) {
        for state in self.gathered.states.clone().iter().filter(|s| s.is_fold()) {
            for part in 0..state.count {
                let register = state.register(part);
                let totals = self.slot(state.totals + u32::from(part));
                let code = binary_code(state.binary());
                self.asm
                    .vector(code, register, register, totals, Extra::default());
                if !end {
                    self.asm.vector(KEEP, register, 0, totals, Extra::default());
                    self.neutral(state, part);
                }
            }
        }
    }

    /// Gives each reduction its value.
    pub(super) fn finish(&mut self) {
        for state in self.gathered.states.clone() {
            let to = state.first;
            let mut count = state.count;
            while count > 1 {
                count /= 2;
                for part in 0..count {
                    self.join(&state, to + part, to + part + count, self.asm.wide);
                }
            }
            let [next, ..] = SCRATCH;
            if self.asm.wide {
                let extra = Extra {
                    imm: Some(1),
                    long: true,
                    ..Extra::default()
                };
                self.asm.vector(NEXT_HALF, to, 0, Rm::Reg(next), extra);
                self.join(&state, to, next, false);
            }
            self.asm
                .vex(NEXT_QUARTER, to, 0, Rm::Reg(next), Some(1), true, false);
            self.join(&state, to, next, false);
            self.asm
                .vex(HIGH_TO_LOW, next, to, Rm::Reg(to), None, false, false);
            self.join(&state, to, next, false);
            self.asm.vex(ODD_LANES, next, 0, Rm::Reg(to), None, false, false);
            self.join(&state, to, next, false);
            if !state.is_fold() {
                self.undo(&state);
            }
            self.asm.vector(BROADCAST, to, 0, Rm::Reg(to), Extra::default());
            let result = self
                .body
                .insts
                .iter()
                .position(|inst| inst.op == Op::Reduced(state.reduce));
            let Some(id) = result else { continue };
            match self.single(id as Id) {
                Some(slot) if state.is_place() => {
                    let base = self.argument(state.reduce);
                    self.place(to, base, state.nan(), slot);
                }
                _ => self.put(id as Id, to),
            }
        }
        self.reserved = 0;
        self.settled.clear();
        self.gathered = Gathered::default();
    }

    /// `to` = `to` and `from` together.
    fn join(&mut self, state: &State, to: u8, from: u8, wide: bool) {
        let mut both = |code: Code, reg: u8, v: u8, rm: u8| match wide {
            true => self.asm.vector(code, reg, v, Rm::Reg(rm), Extra::default()),
            false => self.asm.vex(code, reg, v, Rm::Reg(rm), None, true, false),
        };
        if state.is_fold() {
            return both(binary_code(state.binary()), to, to, from);
        }
        let [_, one, other] = SCRATCH;
        both(binary_code(Binary::Min), one, to, from);
        both(binary_code(Binary::Min), other, from, to);
        both(binary_code(Binary::Or), to, one, other);
    }

    /// From the least to the result: the greatest was negated, and NaN has the bits that the loops give it.
    fn undo(&mut self, state: &State) {
        let to = state.first;
        let [nan, mask, _] = SCRATCH;
        if let (true, Some(sign)) = (state.is_greatest(), self.gathered.sign) {
            self.asm
                .vex(binary_code(Binary::Xor), to, to, Rm::Reg(sign), None, true, false);
        }
        let from = self.gathered.constants.single(state.nan());
        self.asm.vex(LOAD, nan, 0, from, None, true, false);
        let (unequal, _) = super::opcodes::predicate(Compare::Unequal);
        self.asm
            .vex(COMPARE, mask, to, Rm::Reg(to), Some(unequal), true, false);
        let imm = Some(mask << 4);
        self.asm
            .vex(BLEND_BY_VECTOR, to, to, Rm::Reg(nan), imm, true, false);
    }
}
