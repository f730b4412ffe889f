//! Bytes that are written.

use super::assembler::{Extra, RCX, RSI, Rm};
use super::opcodes::STORE_BYTES;
use super::registers::{Registers, TAIL_MASK};
use super::ssa::Id;

impl Registers<'_> {
    /// Writes the low byte of each lane. `rsi`, which holds nothing while elements are walked, has their place.
    pub(super) fn write_bytes(&mut self, (id, copy): (Id, usize), base: u8) {
        let from = self.register(id);
        let offset = (self.manner.offset + copy as i32 * self.asm.width()) / 4;
        self.asm.copy(RSI, RCX);
        self.asm.shift(RSI, false, 2);
        let to = Rm::Index {
            base,
            index: RSI,
            shift: 0,
            offset,
        };
        let extra = Extra {
            mask: if self.manner.masked { TAIL_MASK } else { 0 },
            ..Extra::default()
        };
        self.asm.vector(STORE_BYTES, from, 0, to, extra);
    }
}
