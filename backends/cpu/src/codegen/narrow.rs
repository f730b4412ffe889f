//! Elements of one and two bytes that are read and written beside f32.

use super::assembler::{AT_MOST, Extra, Label, RCX, RDI, RSI, Rm};
use super::opcodes::{
    BROADCAST_WORD, EXTRACT_WORD, FROM_F16, INSERT_WORD, LEFT, LOAD_BYTES, LOAD_SIGNED_BYTES, LOAD_WORDS,
    SHIFT, STORE, STORE_BYTES, STORE_WORDS, STREAM, XOR,
};
use super::registers::{Registers, TAIL_MASK};
use super::ssa::Id;
use thalweg_hal::DType;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A byte without a sign.
    Byte,
    SignedByte,
    BF16,
    F16,
}

impl Kind {
    pub(super) fn of(dtype: DType) -> Option<Kind> {
        match dtype {
            DType::I8 => Some(Kind::SignedByte),
            DType::U8 | DType::Bool => Some(Kind::Byte),
            DType::BF16 => Some(Kind::BF16),
            DType::F16 => Some(Kind::F16),
            _ => None,
        }
    }

    pub(super) fn is_half(self) -> bool {
        matches!(self, Kind::BF16 | Kind::F16)
    }

    /// Bytes of an element.
    fn size(self) -> i32 {
        if self.is_half() { 2 } else { 1 }
    }
}

/// A parameter of such elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow {
    pub(super) param: u32,
    pub(super) kind: Kind,
}

impl Registers<'_> {
    /// Puts the place of the elements at hand into `rsi`, which holds nothing while they are walked.
    pub(super) fn count_elements(&mut self) {
        if !self.body.narrow.is_empty() {
            self.asm.copy(RSI, RCX);
            self.asm.shift(RSI, false, 2);
        }
    }

    /// Writes the low byte of each lane, or the words that an instruction has packed.
    pub(super) fn write_narrow(&mut self, (id, copy): (Id, usize), base: u8, kind: Kind, stream: bool) {
        let from = self.register(id);
        let (to, extra) = self.narrow_elements(base, copy, kind);
        match (kind.is_half(), self.asm.wide, self.manner.masked) {
            (false, ..) => self.asm.vector(STORE_BYTES, from, 0, to, extra),
            (true, true, masked) => {
                let code = match (masked, stream) {
                    (true, _) => STORE_WORDS,
                    (false, true) => STREAM,
                    (false, false) => STORE,
                };
                let extra = Extra {
                    long: masked,
                    ..extra
                };
                self.asm.half = true;
                self.asm.vector(code, from, 0, to, extra);
                self.asm.half = false;
            }
            (true, false, false) => {
                let code = if stream { STREAM } else { STORE };
                self.asm.vex(code, from, 0, to, None, false, false);
            }
            (true, false, true) => self.each_word(to, |this, to, k| {
                this.asm.vex(EXTRACT_WORD, from, 0, to, Some(k), false, false);
            }),
        }
    }

    /// Reads an element for each lane.
    pub(super) fn read_narrow(&mut self, (id, to): (Id, u8), base: u8, kind: Kind) {
        let (mut from, mut extra) = self.narrow_elements(base, self.body.copy(id), kind);
        extra.zero = self.manner.masked;
        if kind.is_half() && self.manner.masked && !self.asm.wide {
            self.asm.vex(XOR, to, to, Rm::Reg(to), None, true, false);
            self.each_word(from, |this, from, k| {
                this.asm.vex(INSERT_WORD, to, to, from, Some(k), false, false);
            });
            from = Rm::Reg(to);
        }
        let code = match kind {
            Kind::Byte => LOAD_BYTES,
            Kind::SignedByte => LOAD_SIGNED_BYTES,
            Kind::BF16 => LOAD_WORDS,
            Kind::F16 => FROM_F16,
        };
        self.asm.vector(code, to, 0, from, extra);
        if kind == Kind::BF16 {
            self.raise_words(to);
        }
    }

    /// Repeats the one half at an address in every lane.
    pub(super) fn repeat_half(&mut self, to: u8, from: Rm, kind: Kind) {
        self.asm.vector(BROADCAST_WORD, to, 0, from, Extra::default());
        match kind {
            Kind::F16 => self.asm.vector(FROM_F16, to, 0, Rm::Reg(to), Extra::default()),
            _ => self.raise_words(to),
        }
    }

    fn raise_words(&mut self, register: u8) {
        let extra = Extra {
            imm: Some(16),
            ..Extra::default()
        };
        self.asm.vector(SHIFT, LEFT, register, Rm::Reg(register), extra);
    }

    /// The elements at hand.
    fn narrow_elements(&mut self, base: u8, copy: usize, kind: Kind) -> (Rm, Extra) {
        let lane = self.manner.offset + copy as i32 * self.asm.width();
        let at = Rm::Index {
            base,
            index: RSI,
            shift: u8::from(kind.is_half()),
            offset: lane / 4 * kind.size(),
        };
        let extra = Extra {
            mask: if self.manner.masked { TAIL_MASK } else { 0 },
            ..Extra::default()
        };
        (at, extra)
    }

    /// Of a tail of AVX2, each word that is there: `rdi` has what is left, in bytes of f32.
    fn each_word(&mut self, first: Rm, one: impl Fn(&mut Self, Rm, u8)) {
        let mut end = Label::default();
        for k in 0..8 {
            let left = self.manner.offset + 4 * i32::from(k);
            self.asm.small(7, Rm::Reg(RDI), left as i8);
            self.asm.jump_if(AT_MOST, &mut end);
            let at = match first {
                Rm::Index {
                    base,
                    index,
                    shift,
                    offset,
                } => Rm::Index {
                    base,
                    index,
                    shift,
                    offset: offset + 2 * i32::from(k),
                },
                other => other,
            };
            one(self, at, k);
        }
        self.asm.place(&mut end);
    }
}
