//! How near to the definition a scalar op must come.

use thalweg_hal::DType;
use thalweg_hal::ir::ScalarOp;

/// How many units in the last place a result may be off: none for what IEEE 754 defines. For the rest the limits are
/// those that OpenCL C sets for full-profile devices, in single and in double precision; f16 and bf16 compute in f32, so
/// that one unit is left.
pub(super) fn tolerance(op: ScalarOp, dtype: DType) -> u64 {
    let single = match op {
        ScalarOp::Exp | ScalarOp::Expm1 | ScalarOp::Log => 3,
        ScalarOp::Log1p => 2,
        ScalarOp::Sin | ScalarOp::Cos => 4,
        ScalarOp::Tanh => 5,
        ScalarOp::Erf | ScalarOp::Pow => 16,
        ScalarOp::Atan2 => 6,
        ScalarOp::Neg
        | ScalarOp::Abs
        | ScalarOp::Sign
        | ScalarOp::Not
        | ScalarOp::Floor
        | ScalarOp::Ceil
        | ScalarOp::Trunc
        | ScalarOp::Round
        | ScalarOp::Sqrt
        | ScalarOp::Add
        | ScalarOp::Sub
        | ScalarOp::Mul
        | ScalarOp::Div
        | ScalarOp::Rem
        | ScalarOp::Max
        | ScalarOp::Min
        | ScalarOp::And
        | ScalarOp::Or
        | ScalarOp::Xor
        | ScalarOp::Shl
        | ScalarOp::Shr
        | ScalarOp::Eq
        | ScalarOp::Ne
        | ScalarOp::Lt
        | ScalarOp::Le
        | ScalarOp::Fma
        | ScalarOp::Select => 0,
    };
    match dtype {
        DType::F16 | DType::BF16 => single.min(1),
        _ => single,
    }
}
