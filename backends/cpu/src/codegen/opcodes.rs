//! Which instruction each op is.

use super::assembler::{Code, Map, Prefix};
use super::ssa::{Binary, Compare, Logic, Unary};

const M0F: Map = Map::M0F;
const M0F38: Map = Map::M0F38;
const M0F3A: Map = Map::M0F3A;
pub(crate) const LOAD: Code = Code(M0F, Prefix::None, 0x10);
pub(crate) const STORE: Code = Code(M0F, Prefix::None, 0x11);
pub(crate) const MOVE: Code = Code(M0F, Prefix::None, 0x28);
pub(crate) const KEEP: Code = Code(M0F, Prefix::None, 0x29);
pub(crate) const STREAM: Code = Code(M0F, Prefix::None, 0x2b);
pub(crate) const BROADCAST: Code = Code(M0F38, Prefix::P66, 0x18);
/// A byte for every byte, and the low bytes of lanes of 32 bits one after the other; of AVX-512.
pub(crate) const BROADCAST_BYTE: Code = Code(M0F38, Prefix::P66, 0x78);
pub(crate) const STORE_BYTES: Code = Code(M0F38, Prefix::F3, 0x31);
/// Bytes without and with a sign as lanes of 32 bits.
pub(crate) const LOAD_BYTES: Code = Code(M0F38, Prefix::P66, 0x31);
pub(crate) const LOAD_SIGNED_BYTES: Code = Code(M0F38, Prefix::P66, 0x21);
/// A word for every word; words as lanes of 32 bits, and the low words of lanes one after the other.
pub(crate) const BROADCAST_WORD: Code = Code(M0F38, Prefix::P66, 0x79);
pub(crate) const LOAD_WORDS: Code = Code(M0F38, Prefix::P66, 0x33);
pub(crate) const LOW_WORDS: Code = Code(M0F38, Prefix::F3, 0x33);
/// The low words of the lanes of two vectors, by halves; quarters in another order.
pub(crate) const PACK_WORDS: Code = Code(M0F38, Prefix::P66, 0x2b);
pub(crate) const PERMUTE_QUARTERS: Code = Code(M0F3A, Prefix::P66, 0x00);
/// To memory, under a mask; of AVX-512.
pub(crate) const STORE_WORDS: Code = Code(M0F, Prefix::F2, 0x7f);
pub(crate) const INSERT_WORD: Code = Code(M0F, Prefix::P66, 0xc4);
pub(crate) const EXTRACT_WORD: Code = Code(M0F3A, Prefix::P66, 0x15);
/// Of lanes of 32 bits by a constant; the field of the result says which way.
pub(crate) const SHIFT: Code = Code(M0F, Prefix::P66, 0x72);
pub(crate) const LEFT: u8 = 6;
pub(crate) const FROM_F16: Code = Code(M0F38, Prefix::P66, 0x13);
pub(crate) const TO_F16: Code = Code(M0F3A, Prefix::P66, 0x1d);
pub(crate) const MASKED_LOAD: Code = Code(M0F38, Prefix::P66, 0x2c);
pub(crate) const MASKED_STORE: Code = Code(M0F38, Prefix::P66, 0x2e);
/// `to = v * to + rm`, `to = v * rm + to` and `to = to * rm + v`.
pub(crate) const FMA213: Code = Code(M0F38, Prefix::P66, 0xa8);
pub(crate) const FMA231: Code = Code(M0F38, Prefix::P66, 0xb8);
pub(crate) const FMA132: Code = Code(M0F38, Prefix::P66, 0x98);
pub(crate) const FNMA213: Code = Code(M0F38, Prefix::P66, 0xac);
/// `to = to - v * rm`.
pub(crate) const FNMA231: Code = Code(M0F38, Prefix::P66, 0xbc);
pub(crate) const FNMA132: Code = Code(M0F38, Prefix::P66, 0x9c);
pub(crate) const XOR: Code = Code(M0F, Prefix::None, 0x57);
pub(crate) const AND: Code = Code(M0F, Prefix::None, 0x54);
pub(crate) const ADD_I32: Code = Code(M0F, Prefix::P66, 0xfe);
pub(crate) const ADD_I64: Code = Code(M0F, Prefix::P66, 0xd4);
/// Sums of neighbours among lanes of 32 bits: those of the first operand, then those of the second, in each half.
pub(crate) const ADD_NEIGHBOURS: Code = Code(M0F38, Prefix::P66, 0x02);
/// Of integers of 32 and of 64 bits.
pub(crate) const MULTIPLY: Code = Code(M0F38, Prefix::P66, 0x40);
/// Sums of two products of 16 bits.
pub(crate) const MULTIPLY_PAIRS: Code = Code(M0F, Prefix::P66, 0xf5);
/// Sums of four products of bytes, and of two of bf16.
pub(crate) const DOT_BYTES: Code = Code(M0F38, Prefix::P66, 0x50);
pub(crate) const DOT_HALVES: Code = Code(M0F38, Prefix::F3, 0x52);
/// Of lanes of 32 bits.
pub(crate) const LEAST_UNSIGNED: Code = Code(M0F38, Prefix::P66, 0x3b);
pub(crate) const GREATEST_UNSIGNED: Code = Code(M0F38, Prefix::P66, 0x3f);
pub(crate) const EQUAL_BITS: Code = Code(M0F, Prefix::P66, 0x76);
/// To a mask register.
pub(crate) const COMPARE_UNSIGNED: Code = Code(M0F3A, Prefix::P66, 0x1e);
/// Sets the flags.
pub(crate) const TEST: Code = Code(M0F38, Prefix::P66, 0x17);
pub(crate) const TEST_MASKS: Code = Code(M0F, Prefix::None, 0x98);
/// To a general register.
pub(crate) const SIGNS: Code = Code(M0F, Prefix::None, 0x50);
pub(crate) const LOW_TO_GENERAL: Code = Code(M0F, Prefix::P66, 0x7e);
/// The parts of a vector to the beginning of another.
pub(crate) const NEXT_HALF: Code = Code(M0F3A, Prefix::P66, 0x1b);
pub(crate) const NEXT_QUARTER: Code = Code(M0F3A, Prefix::P66, 0x19);
pub(crate) const HIGH_TO_LOW: Code = Code(M0F, Prefix::None, 0x12);
pub(crate) const ODD_LANES: Code = Code(M0F, Prefix::F3, 0x16);
/// Quarters of two vectors of AVX-512, and halves of two of AVX2.
pub(crate) const QUARTERS: Code = Code(M0F3A, Prefix::P66, 0x23);
pub(crate) const HALVES: Code = Code(M0F3A, Prefix::P66, 0x06);
pub(crate) const COMPARE: Code = Code(M0F, Prefix::None, 0xc2);
pub(crate) const BLEND: Code = Code(M0F38, Prefix::P66, 0x65);
pub(crate) const BLEND_BY_VECTOR: Code = Code(M0F3A, Prefix::P66, 0x4a);
/// Between a mask register and memory.
pub(crate) const LOAD_MASK: Code = Code(M0F, Prefix::None, 0x90);
pub(crate) const STORE_MASK: Code = Code(M0F, Prefix::None, 0x91);

pub(super) fn binary_code(op: Binary) -> Code {
    match op {
        Binary::Add => Code(M0F, Prefix::None, 0x58),
        Binary::Mul => Code(M0F, Prefix::None, 0x59),
        Binary::Sub => Code(M0F, Prefix::None, 0x5c),
        Binary::Min => Code(M0F, Prefix::None, 0x5d),
        Binary::Div => Code(M0F, Prefix::None, 0x5e),
        Binary::Max => Code(M0F, Prefix::None, 0x5f),
        Binary::And => AND,
        Binary::Or => Code(M0F, Prefix::None, 0x56),
        Binary::Xor => XOR,
        Binary::IntAdd => ADD_I32,
        Binary::IntSub => Code(M0F, Prefix::P66, 0xfa),
        Binary::IntMul => MULTIPLY,
        Binary::Scale => Code(M0F38, Prefix::P66, 0x2c),
    }
}

/// Whether operands may change places; NaN may then have other bits.
pub(super) fn commutes(op: Binary) -> bool {
    match op {
        Binary::Add
        | Binary::Mul
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::IntAdd
        | Binary::IntMul => true,
        Binary::Sub | Binary::Div | Binary::Min | Binary::Max | Binary::IntSub | Binary::Scale => false,
    }
}

/// The predicate of a comparison, and that with its operands in each other's place.
pub(super) fn predicate(op: Compare) -> (u8, u8) {
    match op {
        Compare::Equal => (0, 0),
        Compare::Unequal => (4, 4),
        Compare::Less => (17, 30),
        Compare::AtMost => (18, 29),
    }
}

/// An instruction of one operand, and its constant.
pub(super) fn unary_code(op: Unary) -> (Code, Option<u8>) {
    match op {
        Unary::Sqrt => (Code(M0F, Prefix::None, 0x51), None),
        Unary::Float => (Code(M0F, Prefix::None, 0x5b), None),
        Unary::Whole => (Code(M0F, Prefix::F3, 0x5b), None),
        Unary::Round(mode) => (Code(M0F3A, Prefix::P66, 0x08), Some(mode)),
        Unary::ShiftLeft(by) | Unary::ShiftRight(by) | Unary::ShiftRightZeros(by) => (SHIFT, Some(by)),
        Unary::FromF16 => (FROM_F16, None),
        Unary::ToF16 => (TO_F16, Some(0)),
        Unary::LowWords => (LOW_WORDS, None),
    }
}

/// An op on mask registers.
pub(super) fn mask_code(op: Logic) -> Code {
    let opcode = match op {
        Logic::And => 0x41,
        Logic::Or => 0x45,
        Logic::Xor => 0x47,
    };
    Code(M0F, Prefix::None, opcode)
}

/// The same on masks that fill the lanes of a vector.
pub(super) fn lane_mask_code(op: Logic) -> Code {
    binary_code(match op {
        Logic::And => Binary::And,
        Logic::Or => Binary::Or,
        Logic::Xor => Binary::Xor,
    })
}
