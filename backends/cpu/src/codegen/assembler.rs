//! Machine code: instructions with VEX prefixes for AVX2 and EVEX prefixes for AVX-512, and the few others of a loop.
//!
//! Encodings are those of Intel's manual, volume 2. Registers are numbers: 0..16 of the general ones, 0..16 or 0..32 of vectors,
//! 0..8 of masks.

pub(super) const RAX: u8 = 0;
pub(super) const RCX: u8 = 1;
pub(super) const RDX: u8 = 2;
pub(super) const RBX: u8 = 3;
pub(super) const RSP: u8 = 4;
pub(super) const RBP: u8 = 5;
pub(super) const RSI: u8 = 6;
pub(super) const RDI: u8 = 7;

/// The opcode map of an instruction.
#[derive(Clone, Copy)]
pub(super) enum Map {
    M0F = 1,
    M0F38 = 2,
    M0F3A = 3,
}

/// Its mandatory prefix.
#[derive(Clone, Copy)]
pub(super) enum Prefix {
    None = 0,
    P66 = 1,
}

/// Which instruction.
#[derive(Clone, Copy)]
pub(super) struct Code(pub(super) Map, pub(super) Prefix, pub(super) u8);

/// An operand that may stand in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rm {
    Reg(u8),
    /// A position in the code; where `each`, a value that every lane takes.
    Pool {
        at: usize,
        each: bool,
    },
    /// Bytes from the stack pointer on.
    Stack(i32),
    /// `[base + rcx + offset]`.
    Element {
        base: u8,
        offset: i32,
    },
    /// `[base + offset]`.
    Base {
        base: u8,
        offset: i32,
    },
}

/// What else an instruction has.
#[derive(Clone, Copy, Default)]
pub(super) struct Extra {
    pub(super) imm: Option<u8>,
    /// The mask register that says which lanes count; of AVX-512.
    pub(super) mask: u8,
    /// Lanes that do not count become 0.
    pub(super) zero: bool,
}

/// A place that code jumps to.
#[derive(Default)]
pub(super) struct Label {
    at: Option<usize>,
    jumps: Vec<usize>,
}

pub(super) struct Assembler {
    pub(super) code: Vec<u8>,
    /// Whether vectors are those of AVX-512.
    pub(super) wide: bool,
}

impl Assembler {
    fn byte(&mut self, b: u8) {
        self.code.push(b);
    }

    fn word(&mut self, w: i32) {
        self.code.extend_from_slice(&w.to_le_bytes());
    }

    /// The bytes after the opcode; `after` are those that follow them.
    fn operand(&mut self, reg: u8, rm: Rm, after: usize) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.byte(0xc0 | reg | r & 7),
            Rm::Pool { at, .. } => {
                self.byte(reg | 5);
                let next = self.code.len() + 4 + after;
                self.word(at as i32 - next as i32);
            }
            Rm::Stack(offset) => {
                self.byte(0x80 | reg | 4);
                self.byte(0x24);
                self.word(offset);
            }
            Rm::Element { base, offset } => {
                self.byte(0x80 | reg | 4);
                self.byte(RCX << 3 | base & 7);
                self.word(offset);
            }
            Rm::Base { base, offset } => {
                self.byte(0x80 | reg | base & 7);
                if base & 7 == RSP {
                    self.byte(0x24);
                }
                self.word(offset);
            }
        }
    }

    /// An instruction on vectors: `reg` is written, `v` and `rm` are read. Stores write `rm`.
    pub(super) fn vector(&mut self, code: Code, reg: u8, v: u8, rm: Rm, extra: Extra) {
        if self.wide {
            self.evex(code, reg, v, rm, extra);
        } else {
            self.vex(code, reg, v, rm, extra.imm, true, false);
        }
    }

    /// With a VEX prefix, for vectors of 256 bits where `long`.
    #[expect(clippy::too_many_arguments, reason = "the fields of a prefix")]
    pub(super) fn vex(
        &mut self,
        Code(map, prefix, opcode): Code,
        reg: u8,
        v: u8,
        rm: Rm,
        imm: Option<u8>,
        long: bool,
        w: bool,
    ) {
        let base = match rm {
            Rm::Reg(r) => r,
            Rm::Element { base, .. } | Rm::Base { base, .. } => base,
            Rm::Pool { .. } | Rm::Stack(_) => 0,
        };
        self.byte(0xc4);
        self.byte((!reg >> 3 & 1) << 7 | 1 << 6 | (!base >> 3 & 1) << 5 | map as u8);
        self.byte(u8::from(w) << 7 | (!v & 15) << 3 | u8::from(long) << 2 | prefix as u8);
        self.byte(opcode);
        self.operand(reg, rm, usize::from(imm.is_some()));
        if let Some(imm) = imm {
            self.byte(imm);
        }
    }

    /// With an EVEX prefix, for vectors of 512 bits.
    fn evex(&mut self, Code(map, prefix, opcode): Code, reg: u8, v: u8, rm: Rm, extra: Extra) {
        let (x, b) = match rm {
            Rm::Reg(r) => (r >> 4, r >> 3),
            Rm::Element { base, .. } | Rm::Base { base, .. } => (0, base >> 3),
            Rm::Pool { .. } | Rm::Stack(_) => (0, 0),
        };
        let each = matches!(rm, Rm::Pool { each: true, .. });
        let not = |bit: u8, at: u8| (!bit & 1) << at;
        self.byte(0x62);
        self.byte(not(reg >> 3, 7) | not(x, 6) | not(b, 5) | not(reg >> 4, 4) | map as u8);
        self.byte((!v & 15) << 3 | 4 | prefix as u8);
        self.byte(u8::from(extra.zero) << 7 | 2 << 5 | u8::from(each) << 4 | not(v >> 4, 3) | extra.mask);
        self.byte(opcode);
        self.operand(reg, rm, usize::from(extra.imm.is_some()));
        if let Some(imm) = extra.imm {
            self.byte(imm);
        }
    }

    /// `op reg, rm` on 64 bits, of the one-byte opcodes.
    pub(super) fn plain(&mut self, opcode: u8, reg: u8, rm: Rm) {
        let base = match rm {
            Rm::Reg(r) => r,
            Rm::Element { base, .. } | Rm::Base { base, .. } => base,
            Rm::Pool { .. } | Rm::Stack(_) => 0,
        };
        self.byte(0x48 | (reg >> 3) << 2 | base >> 3);
        self.byte(opcode);
        self.operand(reg, rm, 0);
    }

    /// `reg = [base + offset]`, 64 bits.
    pub(super) fn load(&mut self, reg: u8, base: u8, offset: i32) {
        self.plain(0x8b, reg, Rm::Base { base, offset });
    }

    /// `to = from`, 64 bits.
    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.plain(0x8b, to, Rm::Reg(from));
    }

    /// `reg += value`.
    pub(super) fn add(&mut self, reg: u8, value: i32) {
        self.plain(0x81, 0, Rm::Reg(reg));
        self.word(value);
    }

    /// `reg -= value`; the position of the value.
    pub(super) fn sub(&mut self, reg: u8, value: i32) -> usize {
        self.plain(0x81, 5, Rm::Reg(reg));
        self.word(value);
        self.code.len() - 4
    }

    /// Overwrites a value of four bytes.
    pub(super) fn patch(&mut self, at: usize, value: i32) {
        self.code[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// `reg &= value`.
    pub(super) fn and(&mut self, reg: u8, value: i32) {
        self.plain(0x81, 4, Rm::Reg(reg));
        self.word(value);
    }

    /// Sets the flags of `a - b`.
    pub(super) fn compare(&mut self, a: u8, b: u8) {
        self.plain(0x3b, a, Rm::Reg(b));
    }

    /// Shifts right (`/5`) or left (`/4`) by a constant.
    pub(super) fn shift(&mut self, reg: u8, left: bool, by: u8) {
        self.plain(0xc1, if left { 4 } else { 5 }, Rm::Reg(reg));
        self.byte(by);
    }

    pub(super) fn push(&mut self, reg: u8) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x50 | reg & 7);
    }

    pub(super) fn pop(&mut self, reg: u8) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x58 | reg & 7);
    }

    /// Asks for the line of an element.
    pub(super) fn prefetch(&mut self, base: u8, offset: i32) {
        if base >= 8 {
            self.byte(0x41);
        }
        self.byte(0x0f);
        self.byte(0x18);
        self.operand(1, Rm::Element { base, offset }, 0);
    }

    pub(super) fn vzeroupper(&mut self) {
        self.code.extend_from_slice(&[0xc5, 0xf8, 0x77]);
    }

    pub(super) fn ret(&mut self) {
        self.byte(0xc3);
    }

    /// Jumps where the condition holds: the low nibble of the opcode of `jcc`.
    pub(super) fn jump_if(&mut self, condition: u8, label: &mut Label) {
        self.byte(0x0f);
        self.byte(0x80 | condition);
        self.target(label);
    }

    pub(super) fn jump(&mut self, label: &mut Label) {
        self.byte(0xe9);
        self.target(label);
    }

    fn target(&mut self, label: &mut Label) {
        let next = self.code.len() + 4;
        match label.at {
            Some(at) => self.word(at as i32 - next as i32),
            None => {
                label.jumps.push(self.code.len());
                self.word(0);
            }
        }
    }

    /// The label stands here.
    pub(super) fn place(&mut self, label: &mut Label) {
        let here = self.code.len();
        label.at = Some(here);
        for at in label.jumps.drain(..) {
            self.code[at..at + 4].copy_from_slice(&(here as i32 - at as i32 - 4).to_le_bytes());
        }
    }
}

/// Conditions of jumps.
pub(super) const EQUAL: u8 = 4;
/// Of signed numbers.
pub(super) const GREATER: u8 = 15;
pub(super) const AT_MOST: u8 = 14;
