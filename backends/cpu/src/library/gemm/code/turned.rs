//! Squares of lanes that are transposed in registers.

use crate::codegen::assembler::{Assembler, Code, Extra, Map, Prefix, Rm};
use crate::codegen::opcodes::{HALVES, QUARTERS};
use std::ops::Range;

const UNPACK: [Code; 2] = [
    Code(Map::M0F, Prefix::None, 0x14),
    Code(Map::M0F, Prefix::None, 0x15),
];
const UNPACK_LONG: [Code; 2] = [
    Code(Map::M0F, Prefix::P66, 0x14),
    Code(Map::M0F, Prefix::P66, 0x15),
];

/// Transposes as many rows of lanes of `1 << shift` bytes as a vector has, from the register 0 on. Returns the registers that have the columns;
/// others below 32, or below 16 with AVX2, are lost.
pub(in crate::library) fn transpose(asm: &mut Assembler, shift: u8) -> Range<u8> {
    let wide = asm.wide;
    let mut square = Square { asm };
    match (wide, shift) {
        (true, 2) => square.transpose_16(),
        (true, _) => square.transpose_8_long(),
        (false, 2) => square.transpose_8(),
        (false, _) => square.transpose_4_long(),
    }
}

struct Square<'a> {
    asm: &'a mut Assembler,
}

impl Square<'_> {
    fn unpack(&mut self, long: bool, high: usize, to: u8, a: u8, b: u8) {
        let code = if long { UNPACK_LONG[high] } else { UNPACK[high] };
        let extra = Extra {
            // The prefix of AVX2 ignores it.
            long: long && self.asm.wide,
            ..Extra::default()
        };
        self.asm.vector(code, to, a, Rm::Reg(b), extra);
    }

    fn quarters(&mut self, long: bool, imm: u8, to: u8, a: u8, b: u8) {
        let extra = Extra {
            imm: Some(imm),
            long,
            ..Extra::default()
        };
        self.asm.vector(QUARTERS, to, a, Rm::Reg(b), extra);
    }

    fn halves(&mut self, imm: u8, to: u8, a: u8, b: u8) {
        let extra = Extra {
            imm: Some(imm),
            ..Extra::default()
        };
        self.asm.vector(HALVES, to, a, Rm::Reg(b), extra);
    }

    /// Sixteen rows of 16 lanes in the registers 0 to 15; those that have the columns.
    fn transpose_16(&mut self) -> Range<u8> {
        let (r, t) = (|i: u8| i, |i: u8| 16 + i);
        for i in 0..8 {
            for high in 0..2 {
                self.unpack(false, high, t(2 * i + high as u8), r(2 * i), r(2 * i + 1));
            }
        }
        // Register 4 i + j: column 4 lane + j of rows 4 i .. 4 i + 4.
        for i in 0..4 {
            for h in 0..2 {
                for high in 0..2 {
                    let to = r(4 * i + 2 * h + high as u8);
                    self.unpack(true, high, to, t(4 * i + h), t(4 * i + 2 + h));
                }
            }
        }
        for j in 0..4 {
            let (low, high, low2, high2) = (t(j), t(4 + j), t(8 + j), t(12 + j));
            self.quarters(false, 0x44, low, r(j), r(4 + j));
            self.quarters(false, 0xee, high, r(j), r(4 + j));
            self.quarters(false, 0x44, low2, r(8 + j), r(12 + j));
            self.quarters(false, 0xee, high2, r(8 + j), r(12 + j));
            self.quarters(false, 0x88, r(j), low, low2);
            self.quarters(false, 0xdd, r(4 + j), low, low2);
            self.quarters(false, 0x88, r(8 + j), high, high2);
            self.quarters(false, 0xdd, r(12 + j), high, high2);
        }
        0..16
    }

    /// Eight rows of 8 lanes of 64 bits.
    fn transpose_8_long(&mut self) -> Range<u8> {
        let (r, t) = (|i: u8| i, |i: u8| 16 + i);
        for i in 0..4 {
            for high in 0..2 {
                self.unpack(true, high, t(2 * i + high as u8), r(2 * i), r(2 * i + 1));
            }
        }
        for j in 0..2 {
            let (low, high, low2, high2) = (8 + 4 * j, 9 + 4 * j, 10 + 4 * j, 11 + 4 * j);
            self.quarters(true, 0x44, low, t(j), t(2 + j));
            self.quarters(true, 0xee, high, t(j), t(2 + j));
            self.quarters(true, 0x44, low2, t(4 + j), t(6 + j));
            self.quarters(true, 0xee, high2, t(4 + j), t(6 + j));
            self.quarters(true, 0x88, r(j), low, low2);
            self.quarters(true, 0xdd, r(2 + j), low, low2);
            self.quarters(true, 0x88, r(4 + j), high, high2);
            self.quarters(true, 0xdd, r(6 + j), high, high2);
        }
        0..8
    }

    /// Eight rows of 8 lanes. The last register is taken last, which may have the mask of what was loaded.
    fn transpose_8(&mut self) -> Range<u8> {
        let (r, t) = (|i: u8| i, |i: u8| 8 + i);
        for i in 0..4 {
            for high in 0..2 {
                self.unpack(false, high, t(2 * i + high as u8), r(2 * i), r(2 * i + 1));
            }
        }
        // Register 4 i + j: columns j and 4 + j of rows 4 i .. 4 i + 4.
        for i in 0..2 {
            for h in 0..2 {
                for high in 0..2 {
                    let to = r(4 * i + 2 * h + high as u8);
                    self.unpack(true, high, to, t(4 * i + h), t(4 * i + 2 + h));
                }
            }
        }
        for j in 0..4 {
            self.halves(0x20, t(j), r(j), r(4 + j));
            self.halves(0x31, t(4 + j), r(j), r(4 + j));
        }
        8..16
    }

    /// Four rows of 4 lanes of 64 bits.
    fn transpose_4_long(&mut self) -> Range<u8> {
        for i in 0..2 {
            for high in 0..2 {
                self.unpack(true, high, 4 + 2 * i + high as u8, 2 * i, 2 * i + 1);
            }
        }
        for j in 0..2 {
            self.halves(0x20, j, 4 + j, 6 + j);
            self.halves(0x31, 2 + j, 4 + j, 6 + j);
        }
        0..4
    }
}
