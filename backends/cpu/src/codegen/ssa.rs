//! A kernel's body as instructions on vectors, each of which defines one value.

use crate::math::Lanes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Index of an instruction and of the value that it defines.
pub(super) type Id = u32;

/// Stands for no argument.
pub(super) const NONE: Id = Id::MAX;

/// An instruction of two operands that every vector set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    And,
    Or,
    Xor,
    /// Of integers, wrapping.
    IntAdd,
    IntSub,
    IntMul,
    /// `a * 2^b`, rounded once; AVX-512 alone.
    Scale,
}

/// An instruction of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unary {
    Sqrt,
    /// To an integral value; the number is that of the instruction.
    Round(u8),
    /// From an integer.
    Float,
    /// To an integer, towards zero.
    Whole,
    ShiftLeft(u8),
    /// Arithmetic.
    ShiftRight(u8),
    /// Zeros come in.
    ShiftRightZeros(u8),
    /// The low words of lanes, one after the other.
    LowWords,
    /// From and to f16 that stand one after the other; rounded to nearest, ties to even.
    FromF16,
    ToF16,
}

/// A comparison. NaN is unequal and not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Compare {
    Equal,
    Unequal,
    Less,
    AtMost,
}

/// An op on masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
}

/// What an instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// The same bits in every lane.
    Const(u32),
    /// A scalar of the launch.
    Scalar(u32),
    /// The single value of a parameter.
    Single(u32),
    /// The single byte of a parameter, in every byte.
    SingleByte(u32),
    /// Elements of a parameter.
    Load(u32),
    /// The value of a parameter that a row has.
    Row(u32),
    /// The result of a reduction over a row.
    Reduced(u32),
    Unary(Unary),
    Binary(Binary),
    /// `a * b + c`, rounded once.
    Fma,
    /// `c - a * b`, rounded once.
    Fnma,
    /// A mask.
    Compare(Compare),
    Logic(Logic),
    /// `a ? b : c`.
    Select,
}

impl Op {
    pub(super) fn is_mask(self) -> bool {
        matches!(self, Op::Compare(_) | Op::Logic(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Inst {
    pub(super) op: Op,
    pub(super) args: [Id; 3],
}

impl Inst {
    /// Its arguments.
    pub(super) fn operands(&self) -> impl Iterator<Item = Id> {
        self.args.into_iter().filter(|id| *id != NONE)
    }
}

/// Records instructions; equal ones once.
pub(super) struct Recorder {
    insts: RefCell<Vec<Inst>>,
    known: RefCell<HashMap<Inst, Id>>,
    /// Whether they are those of AVX-512.
    wide: bool,
}

impl Recorder {
    pub(super) fn new(wide: bool) -> Recorder {
        Recorder {
            insts: RefCell::default(),
            known: RefCell::default(),
            wide,
        }
    }

    pub(super) fn push(&self, op: Op, args: &[Id]) -> Value<'_> {
        let mut all = [NONE; 3];
        all[..args.len()].copy_from_slice(args);
        let inst = Inst { op, args: all };
        let mut insts = self.insts.borrow_mut();
        let next = insts.len() as Id;
        let id = *self.known.borrow_mut().entry(inst).or_insert(next);
        if id == next {
            insts.push(inst);
        }
        Value { recorder: self, id }
    }

    pub(super) fn constant(&self, bits: u32) -> Value<'_> {
        self.push(Op::Const(bits), &[])
    }

    /// The value of an instruction that was recorded.
    pub(super) fn value(&self, id: Id) -> Value<'_> {
        Value { recorder: self, id }
    }

    pub(super) fn len(&self) -> usize {
        self.insts.borrow().len()
    }

    pub(super) fn finish(self) -> Vec<Inst> {
        self.insts.into_inner()
    }
}

/// A value of a recorder.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    recorder: &'a Recorder,
    pub(super) id: Id,
}

impl<'a> Value<'a> {
    /// The instruction that defines it.
    pub(super) fn inst(self) -> Inst {
        self.recorder.insts.borrow()[self.id as usize]
    }

    /// Another value of its recorder.
    pub(super) fn of(self, id: Id) -> Value<'a> {
        self.recorder.value(id)
    }

    pub(super) fn unary(self, op: Unary) -> Value<'a> {
        self.recorder.push(Op::Unary(op), &[self.id])
    }

    pub(super) fn binary(self, op: Binary, b: Value<'a>) -> Value<'a> {
        self.recorder.push(Op::Binary(op), &[self.id, b.id])
    }

    pub(super) fn compare(self, op: Compare, b: Value<'a>) -> Value<'a> {
        self.recorder.push(Op::Compare(op), &[self.id, b.id])
    }

    pub(super) fn logic(self, op: Logic, b: Value<'a>) -> Value<'a> {
        self.recorder.push(Op::Logic(op), &[self.id, b.id])
    }

    pub(super) fn with_bits(self, op: Binary, bits: u32) -> Value<'a> {
        self.binary(op, self.recorder.constant(bits))
    }

    /// The greater as the IR has it: NaN wins, and -0 is below +0.
    pub(super) fn greater(self, b: Value<'a>) -> Value<'a> {
        self.extreme(b, Binary::Max, Binary::And)
    }

    /// The lesser, in the same order.
    pub(super) fn lesser(self, b: Value<'a>) -> Value<'a> {
        self.extreme(b, Binary::Min, Binary::Or)
    }

    /// `choice` gives its second operand where both are zeros or one is NaN.
    fn extreme(self, b: Value<'a>, choice: Binary, zeros: Binary) -> Value<'a> {
        let unlike = self.binary(choice, b);
        let like = Value::choose(self.equals(b), self.binary(zeros, b), unlike);
        Value::choose(self.compare(Compare::Unequal, self), self, like)
    }
}

const SIGN: u32 = 1 << 31;

macro_rules! operators {
    ($($Trait:ident, $method:ident;)*) => {$(
        impl<'a> $Trait for Value<'a> {
            type Output = Value<'a>;
            fn $method(self, b: Value<'a>) -> Value<'a> {
                self.binary(Binary::$Trait, b)
            }
        }
    )*};
}

operators! {
    Add, add;
    Sub, sub;
    Mul, mul;
    Div, div;
}

impl<'a> Neg for Value<'a> {
    type Output = Value<'a>;
    fn neg(self) -> Value<'a> {
        self.with_bits(Binary::Xor, SIGN)
    }
}

impl Lanes for Value<'_> {
    type Bits = Self;
    type Mask = Self;

    fn splat(self, c: f32) -> Self {
        self.recorder.constant(c.to_bits())
    }

    fn mul_add(self, b: Self, c: Self) -> Self {
        self.recorder.push(Op::Fma, &[self.id, b.id, c.id])
    }

    fn taken_from(self, b: Self, c: Self) -> Self {
        self.recorder.push(Op::Fnma, &[self.id, b.id, c.id])
    }

    fn less(self, b: Self) -> Self {
        self.compare(Compare::Less, b)
    }

    fn at_most(self, b: Self) -> Self {
        self.compare(Compare::AtMost, b)
    }

    fn equals(self, b: Self) -> Self {
        self.compare(Compare::Equal, b)
    }

    fn choose(mask: Self, a: Self, b: Self) -> Self {
        let recorder = mask.recorder;
        let asked = recorder.insts.borrow()[mask.id as usize];
        if asked.op == Op::Compare(Compare::Less) {
            if asked.args[..2] == [a.id, b.id] {
                return a.binary(Binary::Min, b);
            }
            if asked.args[..2] == [b.id, a.id] {
                return a.binary(Binary::Max, b);
            }
        }
        recorder.push(Op::Select, &[mask.id, a.id, b.id])
    }

    fn magnitude(self) -> Self {
        self.with_bits(Binary::And, !SIGN)
    }

    fn signed_as(self, sign: Self) -> Self {
        self.binary(Binary::Or, sign.with_bits(Binary::And, SIGN))
    }

    fn bits(self) -> Self {
        self
    }

    fn from_bits(bits: Self) -> Self {
        bits
    }

    fn minus(a: Self, b: Self) -> Self {
        a.binary(Binary::IntSub, b)
    }

    fn minus_constant(a: Self, c: i32) -> Self {
        a.with_bits(Binary::IntSub, c.cast_unsigned())
    }

    fn and_constant(a: Self, c: i32) -> Self {
        a.with_bits(Binary::And, c.cast_unsigned())
    }

    fn shift_left<const N: u8>(a: Self) -> Self {
        a.unary(Unary::ShiftLeft(N))
    }

    fn shift_right<const N: u8>(a: Self) -> Self {
        a.unary(Unary::ShiftRight(N))
    }

    fn float(a: Self) -> Self {
        a.unary(Unary::Float)
    }

    fn scale(self) -> Option<fn(Self, Self) -> Self> {
        self.recorder.wide.then_some(|p, n| p.binary(Binary::Scale, n))
    }
}
