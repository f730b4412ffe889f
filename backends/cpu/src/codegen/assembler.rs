//! Machine code: instructions with VEX prefixes for AVX2 and EVEX prefixes for AVX-512, and the few others of a loop.
//!
//! Encodings are those of Intel's manual, volume 2. Registers are numbers: 0..16 of the general ones, 0..16 or 0..32 of vectors,
//! 0..8 of masks.

pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RDX: u8 = 2;
pub(crate) const RBX: u8 = 3;
pub(crate) const RSP: u8 = 4;
pub(crate) const RBP: u8 = 5;
pub(crate) const RSI: u8 = 6;
pub(crate) const RDI: u8 = 7;

/// The opcode map of an instruction.
#[derive(Clone, Copy)]
pub(crate) enum Map {
    M0F = 1,
    M0F38 = 2,
    M0F3A = 3,
}

/// Its mandatory prefix.
#[derive(Clone, Copy)]
pub(crate) enum Prefix {
    None = 0,
    P66 = 1,
    F3 = 2,
    F2 = 3,
}

/// Which instruction.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) Map, pub(crate) Prefix, pub(crate) u8);

/// An operand that may stand in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rm {
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
    /// `[base + (index << shift) + offset]`.
    Index {
        base: u8,
        index: u8,
        shift: u8,
        offset: i32,
    },
}

impl Rm {
    /// `[base + times * step + offset]` for 0 to 3 times; `steps` are the step and three of them.
    pub(crate) fn steps(base: u8, [step, thrice]: [u8; 2], times: i32, offset: i32) -> Rm {
        let (index, shift) = match times {
            0 => return Rm::Base { base, offset },
            1 => (step, 0),
            2 => (step, 1),
            _ => (thrice, 0),
        };
        Rm::Index {
            base,
            index,
            shift,
            offset,
        }
    }

    /// The register of an operand, or the base of an address: the bits that a prefix takes from it.
    fn base(self) -> u8 {
        match self {
            Rm::Reg(base) | Rm::Element { base, .. } | Rm::Base { base, .. } | Rm::Index { base, .. } => base,
            Rm::Pool { .. } | Rm::Stack(_) => 0,
        }
    }

    /// The register that is added to a base.
    fn index(self) -> u8 {
        match self {
            Rm::Index { index, .. } => index,
            Rm::Reg(_) | Rm::Element { .. } | Rm::Base { .. } | Rm::Pool { .. } | Rm::Stack(_) => 0,
        }
    }
}

/// What else an instruction has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extra {
    pub(crate) imm: Option<u8>,
    /// The mask register that says which lanes count; of AVX-512.
    pub(crate) mask: u8,
    /// Lanes that do not count become 0.
    pub(crate) zero: bool,
    /// The bit that says 64 where lanes have 32 bits otherwise.
    pub(crate) long: bool,
    /// Bytes that an address of AVX-512 counts its short offset in; 0 where the offset stays long.
    pub(crate) unit: i32,
    /// Every lane takes the one number in memory; of AVX-512.
    pub(crate) each: bool,
}

/// A place that code jumps to.
#[derive(Default)]
pub(crate) struct Label {
    at: Option<usize>,
    jumps: Vec<usize>,
}

pub(crate) struct Assembler {
    pub(crate) code: Vec<u8>,
    /// Whether vectors are those of AVX-512.
    pub(crate) wide: bool,
    /// Whether of these the half is in use.
    pub(crate) half: bool,
}

impl Assembler {
    /// Bytes of a vector.
    pub(crate) fn width(&self) -> i32 {
        if self.wide && !self.half { 64 } else { 32 }
    }

    /// As [`Assembler::vector`]; `long` is the bit that says 64, and `unit` what a short offset counts in.
    pub(crate) fn lanes(&mut self, code: Code, to: u8, v: u8, rm: Rm, long: bool, unit: i32) {
        let extra = Extra {
            long,
            unit,
            ..Extra::default()
        };
        self.vector(code, to, v, rm, extra);
    }

    fn byte(&mut self, b: u8) {
        self.code.push(b);
    }

    fn word(&mut self, w: i32) {
        self.code.extend_from_slice(&w.to_le_bytes());
    }

    /// The bytes after the opcode; `after` are those that follow them. Offsets that are a multiple of `unit` may take one byte.
    fn operand(&mut self, reg: u8, rm: Rm, after: usize, unit: i32) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.byte(0xc0 | reg | r & 7),
            Rm::Pool { at, .. } => {
                self.byte(reg | 5);
                let next = self.code.len() + 4 + after;
                self.word(at as i32 - next as i32);
            }
            Rm::Stack(offset) => self.address(reg | 4, Some(0x24), offset, unit),
            Rm::Element { base, offset } => self.address(reg | 4, Some(RCX << 3 | base & 7), offset, unit),
            Rm::Base { base, offset } => {
                let sib = (base & 7 == RSP).then_some(0x24);
                self.address(reg | base & 7, sib, offset, unit);
            }
            Rm::Index {
                base,
                index,
                shift,
                offset,
            } => self.address(
                reg | 4,
                Some(shift << 6 | (index & 7) << 3 | base & 7),
                offset,
                unit,
            ),
        }
    }

    fn address(&mut self, bits: u8, sib: Option<u8>, offset: i32, unit: i32) {
        let short = match unit {
            0 => None,
            unit if offset % unit == 0 => i8::try_from(offset / unit).ok(),
            _ => None,
        };
        self.byte(if short.is_some() { 0x40 } else { 0x80 } | bits);
        self.code.extend(sib);
        match short {
            Some(short) => self.byte(short as u8),
            None => self.word(offset),
        }
    }

    /// An instruction on vectors: `reg` is written, `v` and `rm` are read. Stores write `rm`.
    pub(crate) fn vector(&mut self, code: Code, reg: u8, v: u8, rm: Rm, extra: Extra) {
        if self.wide {
            self.evex(code, reg, v, rm, extra);
        } else {
            self.vex(code, reg, v, rm, extra.imm, true, extra.long);
        }
    }

    /// With a VEX prefix, for vectors of 256 bits where `long`.
    #[expect(clippy::too_many_arguments, reason = "the fields of a prefix")]
    pub(crate) fn vex(
        &mut self,
        Code(map, prefix, opcode): Code,
        reg: u8,
        v: u8,
        rm: Rm,
        imm: Option<u8>,
        long: bool,
        w: bool,
    ) {
        let not = |bit: u8, at: u8| (!bit & 1) << at;
        let (x, b) = (rm.index() >> 3, rm.base() >> 3);
        self.byte(0xc4);
        self.byte(not(reg >> 3, 7) | not(x, 6) | not(b, 5) | map as u8);
        self.byte(u8::from(w) << 7 | (!v & 15) << 3 | u8::from(long) << 2 | prefix as u8);
        self.byte(opcode);
        self.operand(reg, rm, usize::from(imm.is_some()), 1);
        if let Some(imm) = imm {
            self.byte(imm);
        }
    }

    /// With an EVEX prefix, for vectors of 512 bits or half of them.
    fn evex(&mut self, Code(map, prefix, opcode): Code, reg: u8, v: u8, rm: Rm, extra: Extra) {
        let x = match rm {
            Rm::Reg(r) => r >> 4,
            _ => rm.index() >> 3,
        };
        let each = extra.each || matches!(rm, Rm::Pool { each: true, .. });
        let not = |bit: u8, at: u8| (!bit & 1) << at;
        self.byte(0x62);
        self.byte(not(reg >> 3, 7) | not(x, 6) | not(rm.base() >> 3, 5) | not(reg >> 4, 4) | map as u8);
        self.byte(u8::from(extra.long) << 7 | (!v & 15) << 3 | 4 | prefix as u8);
        self.byte(
            u8::from(extra.zero) << 7
                | (2 - u8::from(self.half)) << 5
                | u8::from(each) << 4
                | not(v >> 4, 3)
                | extra.mask,
        );
        self.byte(opcode);
        self.operand(reg, rm, usize::from(extra.imm.is_some()), extra.unit);
        if let Some(imm) = extra.imm {
            self.byte(imm);
        }
    }

    /// `op reg, rm` on 64 bits, of the one-byte opcodes.
    pub(crate) fn plain(&mut self, opcode: u8, reg: u8, rm: Rm) {
        self.byte(0x48 | (reg >> 3) << 2 | (rm.index() >> 3) << 1 | rm.base() >> 3);
        self.byte(opcode);
        self.operand(reg, rm, 0, 1);
    }

    /// `reg = [base + offset]`, 64 bits.
    pub(crate) fn load(&mut self, reg: u8, base: u8, offset: i32) {
        self.plain(0x8b, reg, Rm::Base { base, offset });
    }

    /// `to = from`, 64 bits.
    pub(crate) fn copy(&mut self, to: u8, from: u8) {
        self.plain(0x8b, to, Rm::Reg(from));
    }

    /// `reg += value`.
    pub(crate) fn add(&mut self, reg: u8, value: i32) {
        self.plain(0x81, 0, Rm::Reg(reg));
        self.word(value);
    }

    /// `reg -= value`; the position of the value.
    pub(crate) fn sub(&mut self, reg: u8, value: i32) -> usize {
        self.plain(0x81, 5, Rm::Reg(reg));
        self.word(value);
        self.code.len() - 4
    }

    /// Overwrites a value of four bytes.
    pub(crate) fn patch(&mut self, at: usize, value: i32) {
        self.code[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// `op reg, rm` on 32 bits, of the one-byte opcodes.
    pub(crate) fn plain32(&mut self, opcode: u8, reg: u8, rm: Rm) {
        self.byte(0x40 | (reg >> 3) << 2 | (rm.index() >> 3) << 1 | rm.base() >> 3);
        self.byte(opcode);
        self.operand(reg, rm, 0, 1);
    }

    /// Writes the low 16 bits of a register.
    pub(crate) fn store_word(&mut self, reg: u8, to: Rm) {
        self.byte(0x66);
        self.plain32(0x89, reg, to);
    }

    /// Sets the flags of a byte minus `value`.
    pub(crate) fn compare_byte(&mut self, rm: Rm, value: i8) {
        self.byte(0x40 | (rm.index() >> 3) << 1 | rm.base() >> 3);
        self.byte(0x80);
        self.operand(7, rm, 1, 1);
        self.byte(value as u8);
    }

    /// `op rm, value` on 64 bits, with the value in one byte: the ops of opcode 0x83.
    pub(crate) fn small(&mut self, op: u8, rm: Rm, value: i8) {
        self.byte(0x48 | (rm.index() >> 3) << 1 | rm.base() >> 3);
        self.byte(0x83);
        self.operand(op, rm, 1, 1);
        self.byte(value as u8);
    }

    /// `to = from * value`, 64 bits.
    pub(crate) fn multiply(&mut self, to: u8, from: u8, value: i32) {
        self.plain(0x69, to, Rm::Reg(from));
        self.word(value);
    }

    /// `to *= from`, 64 bits.
    pub(crate) fn multiply_by(&mut self, to: u8, from: u8) {
        self.two_bytes(0xaf, to, Rm::Reg(from));
    }

    /// The carry is bit `bit` of a register, modulo 64.
    pub(crate) fn test_bit(&mut self, of: u8, bit: u8) {
        self.two_bytes(0xa3, bit, Rm::Reg(of));
    }

    /// `to = from` where there is no carry, 64 bits.
    pub(crate) fn copy_unless_carry(&mut self, to: u8, from: Rm) {
        self.two_bytes(0x43, to, from);
    }

    /// `op reg, rm` on 64 bits, of the two-byte opcodes.
    fn two_bytes(&mut self, opcode: u8, reg: u8, rm: Rm) {
        self.byte(0x48 | (reg >> 3) << 2 | (rm.index() >> 3) << 1 | rm.base() >> 3);
        self.byte(0x0f);
        self.byte(opcode);
        self.operand(reg, rm, 0, 1);
    }

    /// `to` = the address of an operand.
    pub(crate) fn address_of(&mut self, to: u8, rm: Rm) {
        self.plain(0x8d, to, rm);
    }

    /// Fills up to a multiple of `to` with one instruction of several bytes at a time that does nothing.
    pub(crate) fn align(&mut self, to: usize) {
        const NOP: [u8; 9] = [0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        let mut left = self.code.len().next_multiple_of(to) - self.code.len();
        while left >= NOP.len() {
            self.code.extend_from_slice(&NOP);
            left -= NOP.len();
        }
        self.code.extend_from_slice(match left {
            0 => &[],
            1 => &[0x90],
            2 => &[0x66, 0x90],
            3 => &[0x0f, 0x1f, 0],
            4 => &[0x0f, 0x1f, 0x40, 0],
            5 => &[0x0f, 0x1f, 0x44, 0, 0],
            6 => &[0x66, 0x0f, 0x1f, 0x44, 0, 0],
            7 => &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            _ => &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        });
    }

    /// `reg &= value`.
    pub(crate) fn and(&mut self, reg: u8, value: i32) {
        self.plain(0x81, 4, Rm::Reg(reg));
        self.word(value);
    }

    /// Sets the flags of `a - b`.
    pub(crate) fn compare(&mut self, a: u8, b: u8) {
        self.plain(0x3b, a, Rm::Reg(b));
    }

    /// Sets the flags of the low 32 bits of a register minus `value`.
    pub(crate) fn compare_with(&mut self, reg: u8, value: u32) {
        self.plain32(0x81, 7, Rm::Reg(reg));
        self.code.extend_from_slice(&value.to_le_bytes());
    }

    /// `reg` = the zeros below the lowest one of its low 32 bits.
    pub(crate) fn trailing_zeros(&mut self, reg: u8) {
        self.byte(0xf3);
        self.byte(0x40 | (reg >> 3) << 2 | reg >> 3);
        self.byte(0x0f);
        self.byte(0xbc);
        self.operand(reg, Rm::Reg(reg), 0, 1);
    }

    /// Shifts right (`/5`) or left (`/4`) by a constant.
    pub(crate) fn shift(&mut self, reg: u8, left: bool, by: u8) {
        self.plain(0xc1, if left { 4 } else { 5 }, Rm::Reg(reg));
        self.byte(by);
    }

    pub(crate) fn push(&mut self, reg: u8) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x50 | reg & 7);
    }

    pub(crate) fn pop(&mut self, reg: u8) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x58 | reg & 7);
    }

    /// Asks for the line of an address.
    pub(crate) fn prefetch(&mut self, rm: Rm) {
        self.hint(0x18, 1, rm);
    }

    /// Into the second cache.
    pub(crate) fn prefetch_second(&mut self, rm: Rm) {
        self.hint(0x18, 2, rm);
    }

    /// A line that will be written; a processor without this hint takes it as no operation.
    pub(crate) fn prefetch_to_write(&mut self, rm: Rm) {
        self.hint(0x0d, 1, rm);
    }

    fn hint(&mut self, opcode: u8, hint: u8, rm: Rm) {
        self.byte(0x40 | (rm.index() >> 3) << 1 | rm.base() >> 3);
        self.byte(0x0f);
        self.byte(opcode);
        self.operand(hint, rm, 0, 1);
    }

    pub(crate) fn vzeroupper(&mut self) {
        self.code.extend_from_slice(&[0xc5, 0xf8, 0x77]);
    }

    pub(crate) fn ret(&mut self) {
        self.byte(0xc3);
    }

    /// Jumps where the condition holds: the low nibble of the opcode of `jcc`.
    pub(crate) fn jump_if(&mut self, condition: u8, label: &mut Label) {
        self.byte(0x0f);
        self.byte(0x80 | condition);
        self.target(label);
    }

    pub(crate) fn jump(&mut self, label: &mut Label) {
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
    pub(crate) fn place(&mut self, label: &mut Label) {
        let here = self.code.len();
        label.at = Some(here);
        for at in label.jumps.drain(..) {
            self.code[at..at + 4].copy_from_slice(&(here as i32 - at as i32 - 4).to_le_bytes());
        }
    }
}

/// Conditions of jumps.
pub(crate) const EQUAL: u8 = 4;
/// Of signed numbers.
pub(crate) const GREATER: u8 = 15;
pub(crate) const AT_MOST: u8 = 14;
pub(crate) const LESS: u8 = 12;
pub(crate) const AT_LEAST: u8 = 13;
pub(crate) const UNEQUAL: u8 = 5;
pub(crate) const CARRY: u8 = 2;
/// Of the last result.
pub(crate) const NOT_NEGATIVE: u8 = 9;
