//! The place of the greatest of a row, or of the least: the first element that has its bits, or the first that is no number.

use super::assembler::{AT_LEAST, EQUAL, GREATER, Label, RAX, RBX, RCX, RDI, Rm, UNEQUAL};
use super::opcodes::{EQUAL_BITS, LOW_TO_GENERAL, SIGNS, TEST, binary_code};
use super::registers::Registers;
use super::rows::Call;
use super::ssa::Binary;
use std::mem::offset_of;

/// Of unsigned numbers.
const ABOVE: u8 = 7;
/// Bytes of a vector, and of those that are compared before any is looked at.
const VECTOR: i32 = 32;
const STRETCH: i32 = 4 * VECTOR;

impl Registers<'_> {
    /// Writes the place of the value that all lanes of a register have to a slot. `nan` are its bits where it is no number, and `base`
    /// has the address of the row.
    pub(super) fn place(&mut self, register: u8, base: u8, nan: u32, slot: Rm) {
        let vectors = [8, 9, 10, 11];
        let (mut stretch, mut near, mut vector) = <(Label, Label, Label)>::default();
        let (mut rest, mut lone) = <(Label, Label)>::default();
        let (mut nans, mut found, mut done) = <(Label, Label, Label)>::default();
        let element = |offset: i32| Rm::Element { base, offset };
        let asm = &mut *self.asm;
        asm.load(RDI, RBX, offset_of!(Call, bytes) as i32);
        asm.plain(0x33, RCX, Rm::Reg(RCX));
        asm.vex(LOW_TO_GENERAL, register, 0, Rm::Reg(RAX), None, false, false);
        asm.compare_with(RAX, nan);
        asm.jump_if(EQUAL, &mut nans);

        asm.sub(RDI, STRETCH);
        asm.place(&mut stretch);
        asm.compare(RCX, RDI);
        asm.jump_if(GREATER, &mut near);
        for (v, to) in vectors.into_iter().enumerate() {
            let from = element(v as i32 * VECTOR);
            asm.vex(EQUAL_BITS, to, register, from, None, true, false);
        }
        for from in &vectors[1..] {
            let or = binary_code(Binary::Or);
            asm.vex(or, vectors[0], vectors[0], Rm::Reg(*from), None, true, false);
        }
        asm.vex(TEST, vectors[0], 0, Rm::Reg(vectors[0]), None, true, false);
        asm.jump_if(UNEQUAL, &mut near);
        asm.add(RCX, STRETCH);
        asm.jump(&mut stretch);

        asm.place(&mut near);
        asm.add(RDI, STRETCH - VECTOR);
        asm.place(&mut vector);
        asm.compare(RCX, RDI);
        asm.jump_if(GREATER, &mut rest);
        asm.vex(EQUAL_BITS, vectors[0], register, element(0), None, true, false);
        asm.vex(TEST, vectors[0], 0, Rm::Reg(vectors[0]), None, true, false);
        asm.jump_if(UNEQUAL, &mut found);
        asm.add(RCX, VECTOR);
        asm.jump(&mut vector);

        // It is one of these, unless a thread that takes denormals for zeros has made bits that no element has.
        asm.place(&mut rest);
        asm.add(RDI, VECTOR);
        asm.place(&mut lone);
        asm.compare(RCX, RDI);
        asm.jump_if(AT_LEAST, &mut done);
        asm.plain32(0x39, RAX, element(0));
        asm.jump_if(EQUAL, &mut done);
        asm.add(RCX, 4);
        asm.jump(&mut lone);

        asm.place(&mut nans);
        asm.compare(RCX, RDI);
        asm.jump_if(AT_LEAST, &mut done);
        asm.plain32(0x8b, RAX, element(0));
        asm.plain32(0x03, RAX, Rm::Reg(RAX));
        asm.compare_with(RAX, 0xff00_0000);
        asm.jump_if(ABOVE, &mut done);
        asm.add(RCX, 4);
        asm.jump(&mut nans);

        asm.place(&mut found);
        asm.vex(SIGNS, RDI, 0, Rm::Reg(vectors[0]), None, true, false);
        asm.trailing_zeros(RDI);
        let at = Rm::Index {
            base: RCX,
            index: RDI,
            shift: 2,
            offset: 0,
        };
        asm.address_of(RCX, at);
        asm.place(&mut done);
        asm.shift(RCX, false, 2);
        asm.plain(0x89, RCX, slot);
    }
}
