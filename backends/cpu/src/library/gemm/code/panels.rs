//! Packing as machine code: rows are copied, columns become rows by squares of as many rows as a vector has lanes.
//!
//! Vectors of a row are written from right to left. A vector that runs over the end of a row writes what a later one overwrites: the
//! start of the next row, which is in a vector further left.

use super::super::pack::Panel;
use super::turned::transpose;
use crate::codegen::assembler::{
    AT_LEAST, AT_MOST, Assembler, Code, EQUAL, Extra, LESS, Label, Map, Prefix, RAX, RBP, RBX, RCX, RDI, RDX,
    RSI, Rm, UNEQUAL,
};
use crate::codegen::opcodes::{LOAD, MASKED_LOAD, STORE, XOR};
use std::mem::offset_of;

/// Registers: what a panel is, in bytes but for the counts.
const DST: u8 = 8;
const PITCH: u8 = 9;
const SRC: u8 = RSI;
const WIDTH: u8 = RDX;
const W_STEP: u8 = 10;
const K_STEP: u8 = 11;
const KC: u8 = RCX;
/// The bytes of a row that lie left of a vector.
const COLUMN: u8 = RBX;
const TO: u8 = RBP;
const FROM: u8 = 12;
const COUNT: u8 = 13;
const ROWS: u8 = 14;
const STEPS: u8 = 15;
const SAVED: [u8; 6] = [RBX, RBP, 12, 13, 14, 15];

/// Vectors of a row that are asked for ahead of time: the rows are more than the hardware follows.
const AHEAD: i32 = 6;

/// The mask of the lanes that exist: a mask register, or a vector.
const MASK: u8 = 1;
const MASK_VECTOR: u8 = 15;

fn at(base: u8) -> Rm {
    Rm::Base { base, offset: 0 }
}

fn sum(base: u8, index: u8) -> Rm {
    Rm::Index {
        base,
        index,
        shift: 0,
        offset: 0,
    }
}

/// Writes one packing function for elements of `1 << shift` bytes.
pub(super) struct Panels<'a> {
    pub(super) asm: &'a mut Assembler,
    pub(super) shift: u8,
    /// Where the code has eight lanes of ones and then eight of zeros.
    pub(super) masks: usize,
}

impl Panels<'_> {
    fn lanes(&self) -> i32 {
        self.asm.width() >> self.shift
    }

    fn vector(&mut self, code: Code, to: u8, v: u8, rm: Rm) {
        let extra = Extra {
            unit: self.asm.width(),
            ..Extra::default()
        };
        self.asm.vector(code, to, v, rm, extra);
    }

    /// Loads the lanes of the mask, zeros elsewhere.
    fn load_masked(&mut self, to: u8, from: Rm) {
        if self.asm.wide {
            let extra = Extra {
                mask: MASK,
                zero: true,
                unit: self.asm.width(),
                ..Extra::default()
            };
            self.asm.vector(LOAD, to, 0, from, extra);
        } else {
            self.vector(MASKED_LOAD, to, MASK_VECTOR, from);
        }
    }

    /// Makes the mask of as many bytes, at most a vector; `bytes` and `RAX` are lost.
    fn mask(&mut self, bytes: u8) {
        if self.asm.wide {
            self.asm.shift(bytes, false, 2);
            self.asm.plain(0xc7, 0, Rm::Reg(RAX));
            self.asm.code.extend_from_slice(&(-1_i32).to_le_bytes());
            let bzhi = Code(Map::M0F38, Prefix::None, 0xf5);
            self.asm.vex(bzhi, RAX, bytes, Rm::Reg(RAX), None, false, true);
            let to_mask = Code(Map::M0F, Prefix::None, 0x92);
            self.asm.vex(to_mask, MASK, 0, Rm::Reg(RAX), None, false, false);
        } else {
            let at = Rm::Pool {
                at: self.masks + 32,
                each: false,
            };
            self.asm.address_of(RAX, at);
            self.asm.plain(0x2b, RAX, Rm::Reg(bytes));
            self.vector(LOAD, MASK_VECTOR, 0, Rm::Base { base: RAX, offset: 0 });
        }
    }

    /// `to = min(to, value)`.
    fn at_most(&mut self, to: u8, value: i32) {
        let mut less = Label::default();
        self.asm.small(7, Rm::Reg(to), value as i8);
        self.asm.jump_if(AT_MOST, &mut less);
        self.asm.plain(0xc7, 0, Rm::Reg(to));
        self.asm.code.extend_from_slice(&value.to_le_bytes());
        self.asm.place(&mut less);
    }

    /// Appends the function; the position of its first instruction.
    pub(super) fn function(mut self) -> usize {
        self.asm.align(64);
        let entry = self.asm.code.len();
        SAVED.iter().for_each(|&r| self.asm.push(r));
        macro_rules! load {
            ($to:ident, $field:ident, $bytes:literal) => {
                let offset = offset_of!(Panel<f32>, $field) as i32;
                self.asm.load($to, RDI, offset);
                if $bytes {
                    self.asm.shift($to, true, self.shift);
                }
            };
        }
        load!(DST, dst, false);
        load!(PITCH, pitch, true);
        load!(SRC, src, false);
        load!(WIDTH, width, false);
        load!(W_STEP, w_step, true);
        load!(K_STEP, k_step, true);
        load!(KC, kc, false);
        let (mut rows, mut squares, mut end) = <(Label, Label, Label)>::default();
        self.asm.plain(0x85, KC, Rm::Reg(KC));
        self.asm.jump_if(EQUAL, &mut end);
        let lane = 1_i8 << self.shift;
        self.asm.small(7, Rm::Reg(W_STEP), lane);
        self.asm.jump_if(EQUAL, &mut rows);
        self.asm.small(7, Rm::Reg(K_STEP), lane);
        self.asm.jump_if(EQUAL, &mut squares);
        self.elements();
        self.asm.jump(&mut end);
        self.asm.place(&mut rows);
        self.rows(&mut end);
        self.asm.jump(&mut end);
        self.asm.place(&mut squares);
        self.squares();
        self.asm.place(&mut end);
        self.asm.vzeroupper();
        SAVED.iter().rev().for_each(|&r| self.asm.pop(r));
        self.asm.ret();
        entry
    }

    /// Elements that are apart in both directions, one by one.
    fn elements(&mut self) {
        let (mut step, mut one, mut zeros, mut zero, mut next) =
            <(Label, Label, Label, Label, Label)>::default();
        // Moves of 32 or 64 bits.
        let long = self.shift == 3;
        let scalar = |asm: &mut Assembler, opcode: u8, rm: Rm| {
            if long {
                asm.plain(opcode, RAX, rm);
            } else {
                asm.plain32(opcode, RAX, rm);
            }
        };
        self.asm.place(&mut step);
        self.asm.copy(FROM, SRC);
        self.asm.copy(TO, DST);
        self.asm.copy(COUNT, WIDTH);
        self.asm.address_of(ROWS, sum(DST, PITCH));
        self.asm.plain(0x85, COUNT, Rm::Reg(COUNT));
        self.asm.jump_if(EQUAL, &mut zeros);
        self.asm.place(&mut one);
        scalar(self.asm, 0x8b, at(FROM));
        scalar(self.asm, 0x89, at(TO));
        self.asm.plain(0x03, FROM, Rm::Reg(W_STEP));
        self.asm.small(0, Rm::Reg(TO), 1 << self.shift);
        self.asm.small(5, Rm::Reg(COUNT), 1);
        self.asm.jump_if(UNEQUAL, &mut one);
        self.asm.place(&mut zeros);
        self.asm.plain(0x33, RAX, Rm::Reg(RAX));
        self.asm.place(&mut zero);
        self.asm.compare(TO, ROWS);
        self.asm.jump_if(EQUAL, &mut next);
        scalar(self.asm, 0x89, at(TO));
        self.asm.small(0, Rm::Reg(TO), 1 << self.shift);
        self.asm.jump(&mut zero);
        self.asm.place(&mut next);
        self.asm.copy(DST, ROWS);
        self.asm.plain(0x03, SRC, Rm::Reg(K_STEP));
        self.asm.small(5, Rm::Reg(KC), 1);
        self.asm.jump_if(UNEQUAL, &mut step);
    }

    /// Rows that lie side by side.
    fn rows(&mut self, end: &mut Label) {
        let width = self.asm.width();
        self.asm.shift(WIDTH, true, self.shift);
        // Two whole vectors, as panels of B are.
        let (mut other, mut pair) = <(Label, Label)>::default();
        self.asm.plain(0xc7, 0, Rm::Reg(RAX));
        self.asm.code.extend_from_slice(&(2 * width).to_le_bytes());
        for of in [WIDTH, PITCH] {
            self.asm.compare(of, RAX);
            self.asm.jump_if(UNEQUAL, &mut other);
        }
        self.asm.place(&mut pair);
        for offset in [0, width] {
            self.vector(LOAD, (offset / width) as u8, 0, Rm::Base { base: SRC, offset });
        }
        for offset in [0, width] {
            self.vector(STORE, (offset / width) as u8, 0, Rm::Base { base: DST, offset });
        }
        self.asm.plain(0x03, SRC, Rm::Reg(K_STEP));
        self.asm.plain(0x03, DST, Rm::Reg(PITCH));
        self.asm.small(5, Rm::Reg(KC), 1);
        self.asm.jump_if(UNEQUAL, &mut pair);
        self.asm.jump(end);
        self.asm.place(&mut other);

        let (mut column, mut row, mut some) = <(Label, Label, Label)>::default();
        self.last_column();
        self.asm.place(&mut column);
        self.asm.copy(COUNT, WIDTH);
        self.asm.plain(0x2b, COUNT, Rm::Reg(COLUMN));
        self.asm.jump_if(AT_LEAST, &mut some);
        self.asm.plain(0x33, COUNT, Rm::Reg(COUNT));
        self.asm.place(&mut some);
        self.at_most(COUNT, width);
        self.mask(COUNT);
        self.asm.address_of(FROM, sum(SRC, COLUMN));
        self.asm.address_of(TO, sum(DST, COLUMN));
        self.asm.copy(COUNT, KC);
        self.asm.place(&mut row);
        self.load_masked(0, at(FROM));
        self.vector(STORE, 0, 0, at(TO));
        self.asm.plain(0x03, FROM, Rm::Reg(K_STEP));
        self.asm.plain(0x03, TO, Rm::Reg(PITCH));
        self.asm.small(5, Rm::Reg(COUNT), 1);
        self.asm.jump_if(UNEQUAL, &mut row);
        self.asm.small(5, Rm::Reg(COLUMN), width as i8);
        self.asm.jump_if(AT_LEAST, &mut column);
    }

    /// The last vector of a row.
    fn last_column(&mut self) {
        self.asm.address_of(
            COLUMN,
            Rm::Base {
                base: PITCH,
                offset: -1,
            },
        );
        self.asm.small(4, Rm::Reg(COLUMN), -(self.asm.width() as i8));
    }

    /// Columns that lie side by side.
    fn squares(&mut self) {
        let (lanes, shift) = (self.lanes(), self.shift);
        let (mut column, mut square, mut part, mut next, mut some) =
            <(Label, Label, Label, Label, Label)>::default();
        self.last_column();
        self.asm.place(&mut column);
        // Rows of the source that there are, and the first of them.
        self.asm.copy(RAX, COLUMN);
        self.asm.shift(RAX, false, shift);
        self.asm.copy(ROWS, WIDTH);
        self.asm.plain(0x2b, ROWS, Rm::Reg(RAX));
        self.asm.jump_if(AT_LEAST, &mut some);
        self.asm.plain(0x33, ROWS, Rm::Reg(ROWS));
        self.asm.place(&mut some);
        self.at_most(ROWS, lanes);
        self.asm.multiply_by(RAX, W_STEP);
        self.asm.plain(0x03, RAX, Rm::Reg(SRC));
        // RDI is not read any more.
        self.asm.copy(RDI, RAX);
        self.asm.address_of(TO, sum(DST, COLUMN));
        self.asm.copy(COUNT, KC);
        self.asm.place(&mut square);
        self.asm.copy(FROM, RDI);
        self.asm.small(7, Rm::Reg(COUNT), lanes as i8);
        self.asm.jump_if(LESS, &mut part);
        self.square(true);
        self.asm.small(0, Rm::Reg(RDI), self.asm.width() as i8);
        self.asm.small(5, Rm::Reg(COUNT), lanes as i8);
        self.asm.jump_if(UNEQUAL, &mut square);
        self.asm.jump(&mut next);
        self.asm.place(&mut part);
        self.asm.copy(STEPS, COUNT);
        self.asm.shift(COUNT, true, shift);
        self.mask(COUNT);
        self.square(false);
        self.asm.place(&mut next);
        self.asm.small(5, Rm::Reg(COLUMN), self.asm.width() as i8);
        self.asm.jump_if(AT_LEAST, &mut column);
    }

    /// One square from `FROM` to `TO`; all of its steps of k, or the `STEPS` of the mask.
    fn square(&mut self, all: bool) {
        let (lanes, width) = (self.lanes() as u8, self.asm.width());
        let mut loaded = Label::default();
        for register in 0..lanes {
            // The mask has a register of vectors, so the square's own are those below.
            self.asm
                .vex(XOR, register, register, Rm::Reg(register), None, true, false);
        }
        for register in 0..lanes {
            self.asm.small(7, Rm::Reg(ROWS), register as i8);
            self.asm.jump_if(AT_MOST, &mut loaded);
            self.asm.prefetch(Rm::Base {
                base: FROM,
                offset: AHEAD * width,
            });
            if all {
                self.vector(LOAD, register, 0, at(FROM));
            } else {
                self.load_masked(register, at(FROM));
            }
            self.asm.plain(0x03, FROM, Rm::Reg(W_STEP));
        }
        self.asm.place(&mut loaded);
        let rows = transpose(self.asm, self.shift);
        let mut stored = Label::default();
        for (step, register) in rows.enumerate() {
            if !all {
                self.asm.small(7, Rm::Reg(STEPS), step as i8);
                self.asm.jump_if(AT_MOST, &mut stored);
            }
            self.vector(STORE, register, 0, at(TO));
            self.asm.plain(0x03, TO, Rm::Reg(PITCH));
        }
        self.asm.place(&mut stored);
    }
}
