//! Bytes that are read and written.

use super::assembler::{Extra, RCX, RSI, Rm};
use super::opcodes::{LOAD_BYTES, LOAD_SIGNED_BYTES, STORE_BYTES};
use super::registers::{Registers, TAIL_MASK};
use super::ssa::Id;

impl Registers<'_> {
    /// Writes the low byte of each lane.
    pub(super) fn write_bytes(&mut self, (id, copy): (Id, usize), base: u8) {
        let from = self.register(id);
        let (to, extra) = self.byte_elements(base, copy);
        self.asm.vector(STORE_BYTES, from, 0, to, extra);
    }

    /// Reads a byte for each lane.
    pub(super) fn read_bytes(&mut self, (id, to): (Id, u8), base: u8, signed: bool) {
        let (from, extra) = self.byte_elements(base, self.body.copy(id));
        let code = if signed { LOAD_SIGNED_BYTES } else { LOAD_BYTES };
        let zero = self.manner.masked;
        self.asm.vector(code, to, 0, from, Extra { zero, ..extra });
    }

    /// The bytes at hand. `rsi`, which holds nothing while elements are walked, has their place.
    fn byte_elements(&mut self, base: u8, copy: usize) -> (Rm, Extra) {
        let offset = (self.manner.offset + copy as i32 * self.asm.width()) / 4;
        self.asm.copy(RSI, RCX);
        self.asm.shift(RSI, false, 2);
        let at = Rm::Index {
            base,
            index: RSI,
            shift: 0,
            offset,
        };
        let extra = Extra {
            mask: if self.manner.masked { TAIL_MASK } else { 0 },
            ..Extra::default()
        };
        (at, extra)
    }
}
