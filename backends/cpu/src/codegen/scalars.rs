//! Ops on one element as instructions.

use super::ssa::{Binary, Compare, Inst, Logic, Op, Unary, Value};
use crate::math::{self, Lanes};
use thalweg_hal::DType;
use thalweg_hal::ir::ScalarOp;

/// The modes of a rounding instruction, which raises no flag of inexactness.
const NEAREST: u8 = 8;
const DOWN: u8 = 9;
const UP: u8 = 10;
const TOWARDS_ZERO: u8 = 11;

/// An i32 as the integer of another dtype that its low bits are.
pub(super) fn wrapped(of: Value<'_>, dtype: DType) -> Value<'_> {
    match dtype {
        DType::U8 => of.with_bits(Binary::And, 0xff),
        DType::I8 => of.unary(Unary::ShiftLeft(24)).unary(Unary::ShiftRight(24)),
        _ => of,
    }
}

/// The integer in each lane to which a cast takes f32: towards zero, saturated, and 0 for NaN.
pub(super) fn whole(of: Value<'_>, dtype: DType) -> Option<Value<'_>> {
    let (least, most) = match dtype {
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        _ => return None,
    };
    // The greater of NaN and 0 is 0.
    let number = match dtype {
        DType::U8 => of,
        _ => Value::choose(of.compare(Compare::Unequal, of), of.splat(0.0), of),
    };
    let above = number.binary(Binary::Max, of.splat(least));
    Some(above.binary(Binary::Min, of.splat(most)).unary(Unary::Whole))
}

/// The nearest number of a narrower float, ties to even.
pub(super) fn rounded(of: Value<'_>, dtype: DType) -> Value<'_> {
    match dtype {
        DType::F16 => of.unary(Unary::ToF16).unary(Unary::FromF16),
        DType::BF16 => nearest(of).with_bits(Binary::And, HIGH_WORD),
        _ => of,
    }
}

/// The same as words, one after the other.
pub(super) fn packed(of: Value<'_>, dtype: DType) -> Value<'_> {
    // One that was rounded stays as it is.
    match (dtype, of.inst()) {
        (
            DType::F16,
            Inst {
                op: Op::Unary(Unary::FromF16),
                args: [words, ..],
            },
        ) => of.of(words),
        (DType::F16, _) => of.unary(Unary::ToF16),
        (
            _,
            Inst {
                op: Op::Binary(Binary::And),
                args: [whole, mask, _],
            },
        ) if of.of(mask).inst().op == Op::Const(HIGH_WORD) => high_words(of.of(whole)),
        _ => high_words(nearest(of)),
    }
}

const HIGH_WORD: u32 = 0xffff_0000;

/// The nearest bf16 in the high word of each lane.
fn nearest(of: Value<'_>) -> Value<'_> {
    const QUIET: u32 = 0x0040_0000;
    let lowest = of.unary(Unary::ShiftRightZeros(16)).with_bits(Binary::And, 1);
    let up = lowest
        .with_bits(Binary::IntAdd, 0x7fff)
        .binary(Binary::IntAdd, of);
    let nan = of.with_bits(Binary::Or, QUIET);
    Value::choose(of.compare(Compare::Unequal, of), nan, up)
}

fn high_words(of: Value<'_>) -> Value<'_> {
    of.unary(Unary::ShiftRightZeros(16)).unary(Unary::LowWords)
}

/// The instructions of an op.
pub(super) fn scalar<'a>(op: ScalarOp, dtype: DType, [a, b, c]: [Value<'a>; 3]) -> Option<Value<'a>> {
    if dtype == DType::Bool {
        return Some(match op {
            ScalarOp::And => a.logic(Logic::And, b),
            ScalarOp::Or => a.logic(Logic::Or, b),
            ScalarOp::Xor | ScalarOp::Ne => a.logic(Logic::Xor, b),
            _ => return None,
        });
    }
    let constant = |c: f32| a.splat(c);
    Some(match op {
        ScalarOp::Neg => -a,
        ScalarOp::Abs => a.magnitude(),
        ScalarOp::Sign => {
            let positive = Value::choose(constant(0.0).less(a), constant(1.0), a);
            Value::choose(a.less(constant(0.0)), constant(-1.0), positive)
        }
        ScalarOp::Floor => a.unary(Unary::Round(DOWN)),
        ScalarOp::Ceil => a.unary(Unary::Round(UP)),
        ScalarOp::Trunc => a.unary(Unary::Round(TOWARDS_ZERO)),
        ScalarOp::Round => a.unary(Unary::Round(NEAREST)),
        ScalarOp::Sqrt => a.unary(Unary::Sqrt),
        ScalarOp::Exp => math::exp32(a),
        ScalarOp::Log => math::log32(a),
        ScalarOp::Tanh => math::tanh32(a),
        ScalarOp::Erf => math::erf32(a),
        ScalarOp::Add => a + b,
        ScalarOp::Sub => a - b,
        ScalarOp::Mul => a * b,
        ScalarOp::Div => a / b,
        ScalarOp::Max => a.greater(b),
        ScalarOp::Min => a.lesser(b),
        ScalarOp::Eq => a.equals(b),
        ScalarOp::Ne => a.compare(Compare::Unequal, b),
        ScalarOp::Lt => a.less(b),
        ScalarOp::Le => a.at_most(b),
        ScalarOp::Fma => a.mul_add(b, c),
        ScalarOp::Select => Value::choose(a, b, c),
        _ => return None,
    })
}
