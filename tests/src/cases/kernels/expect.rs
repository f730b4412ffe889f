//! What each scalar op returns, worked out with the language's own arithmetic and apart from every backend.

use crate::rig::values::{float, from_float, integer, mask, round};
use half::{bf16, f16};
use thalweg_hal::DType;
use thalweg_hal::dtype::Class;
use thalweg_hal::ir::{Rounding, ScalarOp};

/// How many units in the last place a result may be off. The rows of the ops have the limits that OpenCL C sets for
/// full-profile devices; f16 and bf16 compute in f32, so that one unit is left.
pub(super) fn tolerance(op: ScalarOp, dtype: DType) -> u64 {
    let single = match op.rounding() {
        Rounding::Exact => 0,
        Rounding::Ulps(count) => count.into(),
    };
    match dtype {
        DType::F16 | DType::BF16 => single.min(1),
        _ => single,
    }
}

/// The result of an op on arguments of `dtype`.
pub(super) fn scalar(op: ScalarOp, dtype: DType, args: [u64; 3]) -> u64 {
    if op == ScalarOp::Select {
        return if args[0] != 0 { args[1] } else { args[2] };
    }
    match dtype {
        DType::F64 => double(op, args.map(f64::from_bits)),
        DType::F32 => single(op, args.map(|v| f32::from_bits(v as u32)), |v| v.to_bits().into()),
        DType::F16 => single(op, args.map(|v| f16::from_bits(v as u16).to_f32()), |v| {
            f16::from_f32(v).to_bits().into()
        }),
        DType::BF16 => single(op, args.map(|v| bf16::from_bits(v as u16).to_f32()), |v| {
            bf16::from_f32(v).to_bits().into()
        }),
        // They are selected and nothing else.
        DType::F8E4M3 | DType::F8E5M2 => 0,
        DType::Bool => boolean(op, args.map(|v| v != 0)),
        DType::I64 => i64_op(op, args.map(|v| v as i64)),
        DType::I32 => i32_op(op, args.map(|v| v as i32)),
        DType::I16 => i16_op(op, args.map(|v| v as i16)),
        DType::I8 => i8_op(op, args.map(|v| v as i8)),
        DType::U64 => u64_op(op, args),
        DType::U32 => u32_op(op, args.map(|v| v as u32)),
        DType::U16 => u16_op(op, args.map(|v| v as u16)),
        DType::U8 => u8_op(op, args.map(|v| v as u8)),
    }
}

macro_rules! floats {
    ($($name:ident, $type:ident;)*) => { $(
        /// What IEEE 754 defines, in one width; `None` for the other ops.
        fn $name(op: ScalarOp, [a, b, c]: [$type; 3]) -> Option<Result<$type, bool>> {
            let extreme = |first: bool| match () {
                () if a.is_nan() || b.is_nan() => $type::NAN,
                () if a == b => if a.is_sign_negative() == first { b } else { a },
                () => if (a > b) == first { a } else { b },
            };
            Some(Ok(match op {
                ScalarOp::Neg => -a,
                ScalarOp::Abs => a.abs(),
                ScalarOp::Sign if a.is_nan() || a == 0.0 => a,
                ScalarOp::Sign => if a > 0.0 { 1.0 } else { -1.0 },
                ScalarOp::Floor => a.floor(),
                ScalarOp::Ceil => a.ceil(),
                ScalarOp::Trunc => a.trunc(),
                ScalarOp::Round => a.round_ties_even(),
                ScalarOp::Sqrt => a.sqrt(),
                ScalarOp::Add => a + b,
                ScalarOp::Sub => a - b,
                ScalarOp::Mul => a * b,
                ScalarOp::Div => a / b,
                ScalarOp::Rem => a % b,
                ScalarOp::Fma => a.mul_add(b, c),
                ScalarOp::Max => extreme(true),
                ScalarOp::Min => extreme(false),
                ScalarOp::Eq => return Some(Err(a == b)),
                ScalarOp::Ne => return Some(Err(a != b)),
                ScalarOp::Lt => return Some(Err(a < b)),
                ScalarOp::Le => return Some(Err(a <= b)),
                _ => return None,
            }))
        }
    )* };
}

floats! { exact64, f64; exact32, f32; }

/// The functions that no standard defines to the last bit, in f64.
fn elementary(op: ScalarOp, a: f64, b: f64) -> f64 {
    match op {
        ScalarOp::Exp => a.exp(),
        ScalarOp::Expm1 => a.exp_m1(),
        ScalarOp::Log => a.ln(),
        ScalarOp::Log1p => a.ln_1p(),
        ScalarOp::Sin => a.sin(),
        ScalarOp::Cos => a.cos(),
        ScalarOp::Tanh => a.tanh(),
        ScalarOp::Erf => libm::erf(a),
        ScalarOp::Cbrt => a.cbrt(),
        ScalarOp::Pow => a.powf(b),
        ScalarOp::Atan2 => a.atan2(b),
        // All others are in `floats!`.
        _ => f64::NAN,
    }
}

fn double(op: ScalarOp, args: [f64; 3]) -> u64 {
    match exact64(op, args) {
        Some(Ok(value)) => value.to_bits(),
        Some(Err(truth)) => truth.into(),
        None => elementary(op, args[0], args[1]).to_bits(),
    }
}

/// f32, and what computes in it; `narrow` rounds the result to the dtype.
fn single(op: ScalarOp, args: [f32; 3], narrow: impl Fn(f32) -> u64) -> u64 {
    match exact32(op, args) {
        Some(Ok(value)) => narrow(value),
        Some(Err(truth)) => truth.into(),
        None => narrow(elementary(op, args[0].into(), args[1].into()) as f32),
    }
}

fn boolean(op: ScalarOp, [a, b, _]: [bool; 3]) -> u64 {
    u64::from(match op {
        ScalarOp::Not => !a,
        ScalarOp::And | ScalarOp::Min => a && b,
        ScalarOp::Or | ScalarOp::Max => a || b,
        ScalarOp::Xor | ScalarOp::Ne => a != b,
        ScalarOp::Eq => a == b,
        ScalarOp::Lt => !a & b,
        // No other op takes bool.
        _ => a <= b,
    })
}

macro_rules! integers {
    ($($name:ident, $type:ident, $bits:ident, $abs:expr, $sign:expr, $negative:expr;)*) => { $(
        fn $name(op: ScalarOp, [a, b, _]: [$type; 3]) -> u64 {
            // Read without sign, as the shifts do.
            let count = b as $bits;
            let fits = u128::from(count) < u128::from($type::BITS);
            let value: $type = match op {
                ScalarOp::Neg => a.wrapping_neg(),
                ScalarOp::Abs => $abs(a),
                ScalarOp::Sign => $sign(a),
                ScalarOp::Not => !a,
                ScalarOp::Add => a.wrapping_add(b),
                ScalarOp::Sub => a.wrapping_sub(b),
                ScalarOp::Mul => a.wrapping_mul(b),
                ScalarOp::Div => if b == 0 { 0 } else { a.wrapping_div(b) },
                ScalarOp::Rem => if b == 0 { 0 } else { a.wrapping_rem(b) },
                ScalarOp::Max => a.max(b),
                ScalarOp::Min => a.min(b),
                ScalarOp::And => a & b,
                ScalarOp::Or => a | b,
                ScalarOp::Xor => a ^ b,
                ScalarOp::Shl => if fits { a << count } else { 0 },
                ScalarOp::Shr => if fits { a >> count } else if $negative(a) { !0 } else { 0 },
                ScalarOp::Eq => return u64::from(a == b),
                ScalarOp::Ne => return u64::from(a != b),
                ScalarOp::Lt => return u64::from(a < b),
                // No other op takes integers.
                _ => return u64::from(a <= b),
            };
            u64::from(value as $bits)
        }
    )* };
}

integers! {
    i64_op, i64, u64, i64::wrapping_abs, i64::signum, i64::is_negative;
    i32_op, i32, u32, i32::wrapping_abs, i32::signum, i32::is_negative;
    i16_op, i16, u16, i16::wrapping_abs, i16::signum, i16::is_negative;
    i8_op, i8, u8, i8::wrapping_abs, i8::signum, i8::is_negative;
    u64_op, u64, u64, |a| a, |a: u64| a.min(1), |_| false;
    u32_op, u32, u32, |a| a, |a: u32| a.min(1), |_| false;
    u16_op, u16, u16, |a| a, |a: u16| a.min(1), |_| false;
    u8_op, u8, u8, |a| a, |a: u8| a.min(1), |_| false;
}

/// The result of a cast.
pub(super) fn cast(from: DType, to: DType, bits: u64) -> u64 {
    if to == DType::Bool {
        let zero = if from.is_float() {
            float(from, bits) == 0.0
        } else {
            bits == 0
        };
        return u64::from(!zero);
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => from_float(to, float(from, bits)),
        (true, false) => {
            let value = float(from, bits);
            let half = 1_i128 << (8 * to.size() - 1);
            let (least, most) = match to.class() {
                Class::Signed => (-half, half - 1),
                _ => (0, 2 * half - 1),
            };
            // f64 holds no integer that i128 does not, but for those that are out of every dtype's range.
            let whole = if value.is_nan() {
                0
            } else {
                (value.trunc().clamp(-1e30, 1e30) as i128).clamp(least, most)
            };
            whole as u64 & mask(to)
        }
        (false, true) => {
            let value = integer(from, bits);
            round(to, value < 0, value.unsigned_abs(), 0)
        }
        (false, false) => integer(from, bits) as u64 & mask(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(op: ScalarOp, dtype: DType, args: &[f64]) -> f64 {
        let bits = |i: usize| args.get(i).map_or(0, |&v| from_float(dtype, v));
        float(dtype, scalar(op, dtype, [bits(0), bits(1), bits(2)]))
    }

    #[test]
    fn known_values() {
        let erf = |x| of(ScalarOp::Erf, DType::F64, &[x]);
        assert!((erf(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
        assert!((erf(1.0) - 0.842_700_792_949_714_9).abs() < 1e-15);
        assert!((erf(-2.0) + 0.995_322_265_018_952_7).abs() < 1e-15);
        assert_eq!(of(ScalarOp::Rem, DType::F32, &[-7.5, 2.0]), -1.5);
        assert_eq!(of(ScalarOp::Round, DType::F16, &[2.5]), 2.0);
        assert_eq!(of(ScalarOp::Pow, DType::F32, &[1.0, f64::NAN]), 1.0);
        assert!(of(ScalarOp::Max, DType::F32, &[0.0, -0.0]).is_sign_positive());
        assert!(of(ScalarOp::Min, DType::F32, &[0.0, -0.0]).is_sign_negative());
        assert!(of(ScalarOp::Max, DType::F64, &[f64::NAN, 1.0]).is_nan());
        assert!(of(ScalarOp::Sign, DType::BF16, &[-0.0]).is_sign_negative());
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(scalar(ScalarOp::Div, DType::I8, [0x80, 0xff, 0]), 0x80);
        assert_eq!(scalar(ScalarOp::Rem, DType::I32, [5, 0, 0]), 0);
        assert_eq!(scalar(ScalarOp::Shl, DType::U8, [1, 8, 0]), 0);
        assert_eq!(scalar(ScalarOp::Shr, DType::I8, [0x80, 0xff, 0]), 0xff);
        assert_eq!(scalar(ScalarOp::Abs, DType::I16, [0x8000, 0, 0]), 0x8000);
        assert_eq!(scalar(ScalarOp::Mul, DType::U64, [u64::MAX, 2, 0]), u64::MAX - 1);
    }

    #[test]
    fn casts_saturate_and_round_once() {
        let f = |dtype, value| from_float(dtype, value);
        assert_eq!(cast(DType::F32, DType::I8, f(DType::F32, 1e9)), 0x7f);
        assert_eq!(cast(DType::F64, DType::U64, f(DType::F64, -3.0)), 0);
        assert_eq!(cast(DType::F64, DType::U64, f(DType::F64, 1e300)), u64::MAX);
        assert_eq!(cast(DType::F16, DType::I32, f(DType::F16, f64::NAN)), 0);
        assert_eq!(
            cast(DType::I64, DType::F32, 0x7fff_ffff_ffff_ffff),
            f(DType::F32, 2f64.powi(63))
        );
        assert_eq!(cast(DType::I64, DType::BF16, (1 << 62) + (1 << 54) + 1), 0x5e81);
        assert_eq!(cast(DType::F32, DType::Bool, f(DType::F32, -0.0)), 0);
        assert_eq!(cast(DType::F32, DType::Bool, f(DType::F32, f64::NAN)), 1);
        assert_eq!(cast(DType::I8, DType::U32, 0xff), u64::from(u32::MAX));
        assert_eq!(cast(DType::U8, DType::I64, 0xff), 255);
    }
}
