use super::*;
use half::{bf16, f16};
use proptest::prelude::*;

const F32: DType = DType::F32;

fn f32s(op: ScalarOp, args: &[f32]) -> f32 {
    let at = |i: usize| u64::from(args.get(i).unwrap_or(&args[0]).to_bits());
    f32::from_bits(eval(op, F32, [at(0), at(1), at(2)]) as u32)
}

fn ints(op: ScalarOp, dtype: DType, a: i64, b: i64) -> i64 {
    let bits = |v: i64| v as u64 & mask(dtype);
    whole(dtype, eval(op, dtype, [bits(a), bits(b), bits(a)])) as i64
}

#[test]
fn integers_at_their_edges() {
    use ScalarOp::*;
    let cases = [
        (Add, DType::I8, 127, 1, -128),
        (Sub, DType::U8, 0, 1, 255),
        (Mul, DType::I16, 300, 300, 24464),
        (Mul, DType::U64, -1, -1, 1),
        (Neg, DType::I8, -128, 0, -128),
        (Neg, DType::U8, 1, 0, 255),
        (Abs, DType::I64, i64::MIN, 0, i64::MIN),
        (Sign, DType::I32, -7, 0, -1),
        (Sign, DType::U8, 255, 0, 1),
        (Div, DType::I32, -7, 2, -3),
        (Div, DType::I32, 5, 0, 0),
        (Div, DType::I8, -128, -1, -128),
        (Div, DType::I64, i64::MIN, -1, i64::MIN),
        (Rem, DType::I32, -7, 2, -1),
        (Rem, DType::U16, 7, 0, 0),
        (Rem, DType::I64, i64::MIN, -1, 0),
        (Shl, DType::U8, 0x81, 1, 2),
        (Shl, DType::I32, 1, 32, 0),
        (Shl, DType::I32, 1, -1, 0),
        (Shr, DType::I8, -128, 3, -16),
        (Shr, DType::I8, -128, -1, -1),
        (Shr, DType::I64, i64::MIN, 64, -1),
        (Shr, DType::U8, 0x80, 8, 0),
        (Not, DType::U8, 0x0f, 0, 0xf0),
        (Not, DType::Bool, 1, 0, 0),
        (Xor, DType::Bool, 1, 1, 0),
        (Max, DType::I8, -1, 1, 1),
        (Max, DType::U8, -1, 1, 255),
        (Min, DType::Bool, 1, 0, 0),
        (Lt, DType::I8, -1, 1, 1),
        (Lt, DType::U8, -1, 1, 0),
    ];
    for (op, dtype, a, b, expected) in cases {
        let found = ints(op, dtype, a, b);
        assert_eq!(found, expected, "{op} {dtype} {a} {b}");
    }
}

#[test]
fn floats_at_their_edges() {
    use ScalarOp::*;
    let nan = f32::NAN;
    for op in [Max, Min] {
        assert!(
            f32s(op, &[nan, 1.0]).is_nan() && f32s(op, &[1.0, nan]).is_nan(),
            "{op}"
        );
    }
    assert!(f32s(Max, &[-0.0, 0.0]).is_sign_positive() && f32s(Max, &[0.0, -0.0]).is_sign_positive());
    assert!(f32s(Min, &[-0.0, 0.0]).is_sign_negative() && f32s(Min, &[0.0, -0.0]).is_sign_negative());
    assert!(f32s(Sign, &[nan]).is_nan() && f32s(Sign, &[-0.0]).is_sign_negative());
    assert_eq!(
        (f32s(Sign, &[-3.0]), f32s(Round, &[2.5]), f32s(Round, &[-3.5])),
        (-1.0, 2.0, -4.0)
    );
    assert_eq!(
        (
            f32s(Rem, &[-7.5, 2.0]),
            f32s(Trunc, &[-7.5]),
            f32s(Atan2, &[1.0, 0.0])
        ),
        (-1.5, -7.0, 1.570_796_4)
    );
    // The product is 2^24 + 1, a tie; what is added, however little, decides it.
    assert_eq!(f32s(Fma, &[24929.0, 673.0, 1e-30]), 16_777_218.0);
    assert_eq!(f32s(Fma, &[24929.0, 673.0, -1e-30]), 16_777_216.0);
    let bits = |v: f32| u64::from(v.to_bits());
    let compare = |op, a, b| eval(op, F32, [bits(a), bits(b), bits(a)]);
    assert_eq!([Eq, Ne, Lt, Le].map(|op| compare(op, nan, nan)), [0, 1, 0, 0]);
    assert_eq!([Eq, Ne, Lt, Le].map(|op| compare(op, -0.0, 0.0)), [1, 0, 0, 1]);
    assert_eq!(eval(Select, F32, [0, 5, 9]), 9);
    assert_eq!(eval(Select, F32, [1, 5, 9]), 5);
}

#[test]
fn halves_round_after_each_op() {
    let half = |v: f32| u64::from(f16::from_f32(v).to_bits());
    let sum = eval(ScalarOp::Add, DType::F16, [half(2048.0), half(1.0), 0]);
    assert_eq!(f16::from_bits(sum as u16).to_f32(), 2048.0);
    let overflow = eval(ScalarOp::Mul, DType::F16, [half(300.0), half(300.0), 0]);
    assert_eq!(f16::from_bits(overflow as u16), f16::INFINITY);
    let brain = |v: f32| u64::from(bf16::from_f32(v).to_bits());
    let third = eval(ScalarOp::Div, DType::BF16, [brain(1.0), brain(3.0), 0]);
    assert_eq!(third, brain(1.0 / 3.0));
}

#[test]
fn casts() {
    let f = |v: f64| v.to_bits();
    let cases = [
        (DType::F64, DType::I8, f(-200.0), 0x80),
        (DType::F64, DType::I8, f(-1.9), 0xff),
        (DType::F64, DType::U8, f(-1.0), 0),
        (DType::F64, DType::U8, f(1e9), 255),
        (DType::F64, DType::I64, f(1e30), i64::MAX as u64),
        (DType::F64, DType::I64, f(-1e30), i64::MIN as u64),
        (DType::F64, DType::U64, f(f64::NAN), 0),
        (DType::F64, DType::Bool, f(f64::NAN), 1),
        (DType::F64, DType::Bool, f(-0.0), 0),
        (DType::F64, DType::F32, f(0.1), u64::from(0.1f32.to_bits())),
        (
            DType::F64,
            DType::F16,
            f(1.0 + 2f64.powi(-11) + 2f64.powi(-40)),
            0x3c01,
        ),
        (DType::I8, DType::I32, 0xff, 0xffff_ffff),
        (DType::I8, DType::U64, 0xff, u64::MAX),
        (DType::U8, DType::I32, 0xff, 0xff),
        (DType::I32, DType::U8, 0x1ff, 0xff),
        (DType::I32, DType::Bool, 0x100, 1),
        (DType::Bool, DType::F64, 1, f(1.0)),
        (
            DType::I64,
            DType::F32,
            (1 << 24) + 1,
            u64::from(16_777_216f32.to_bits()),
        ),
        (DType::I64, DType::F64, u64::MAX, f(-1.0)),
        (DType::U64, DType::F64, u64::MAX, f(2f64.powi(64))),
        (DType::U64, DType::BF16, u64::MAX, 0x5f80),
        (DType::I64, DType::BF16, (1 << 62) + (1 << 54) + 1, 0x5e81),
        (DType::I64, DType::F16, 65520, 0x7c00),
        (DType::F64, DType::F8E4M3, f(-464.0), 0xfe),
        (DType::F64, DType::F8E4M3, f(464.0 + 2f64.powi(-40)), 0x7f),
        (DType::F64, DType::F8E5M2, f(1.125 + 2f64.powi(-40)), 0x3d),
        (DType::F64, DType::F8E5M2, f(f64::NEG_INFINITY), 0xfc),
        (DType::I64, DType::F8E4M3, u64::MAX, 0xb8),
        (DType::U64, DType::F8E4M3, u64::MAX, 0x7f),
        (DType::U64, DType::F8E5M2, u64::MAX, 0x7c),
        (DType::I32, DType::F8E5M2, 61439, 0x7b),
        (DType::F8E4M3, DType::F8E5M2, 0x77, 0x5c),
        (DType::F8E4M3, DType::Bool, 0x80, 0),
        (DType::F8E5M2, DType::I8, 0xfc, 0x80),
        (DType::F8E5M2, DType::F32, 1, u64::from(2f32.powi(-16).to_bits())),
    ];
    for (from, to, bits, expected) in cases {
        assert_eq!(cast(from, to, bits), expected, "{from} {bits:#x} to {to}");
    }
}

#[test]
fn philox_known_answers() {
    let ones = u32::MAX;
    assert_eq!(
        philox([0; 4], [0; 2]),
        [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
    );
    assert_eq!(
        philox([ones; 4], [ones; 2]),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
    assert_eq!(
        philox(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0]
        ),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn reductions() {
    let reduce = |op, values: &[f32]| {
        let mut state = Reduction::new(op, F32);
        values.iter().for_each(|v| state.take(u64::from(v.to_bits())));
        state.finish()
    };
    let float = |op, values: &[f32]| f32::from_bits(reduce(op, values) as u32);
    assert_eq!(float(ReduceOp::Sum, &[1e8, 1.0, -1e8]), 1.0);
    assert_eq!(float(ReduceOp::Prod, &[2.0, 3.0]), 6.0);
    assert_eq!(float(ReduceOp::Max, &[]), f32::NEG_INFINITY);
    assert_eq!(float(ReduceOp::Min, &[]), f32::INFINITY);
    assert_eq!(
        (float(ReduceOp::Sum, &[]), float(ReduceOp::Prod, &[])),
        (0.0, 1.0)
    );
    assert!(float(ReduceOp::Max, &[1.0, f32::NAN, 2.0]).is_nan());
    let index = |op, values: &[f32]| reduce(op, values) as i64;
    assert_eq!(index(ReduceOp::ArgMax, &[1.0, 3.0, 3.0]), 1);
    assert_eq!(index(ReduceOp::ArgMax, &[1.0, f32::NAN, 9.0, f32::NAN]), 1);
    assert_eq!(index(ReduceOp::ArgMin, &[1.0, f32::NAN, f32::NEG_INFINITY]), 1);
    assert_eq!(index(ReduceOp::ArgMax, &[-0.0, 0.0]), 1);
    assert_eq!(index(ReduceOp::ArgMax, &[f32::NEG_INFINITY]), 0);
    assert_eq!(index(ReduceOp::ArgMin, &[]), -1);

    let empty = |op, dtype| Reduction::new(op, dtype).finish();
    assert_eq!(empty(ReduceOp::Max, DType::I8), 0x80);
    assert_eq!(empty(ReduceOp::Min, DType::I64), i64::MAX as u64);
    assert_eq!(
        (empty(ReduceOp::Max, DType::U8), empty(ReduceOp::Min, DType::U8)),
        (0, 255)
    );
    assert_eq!(
        (
            empty(ReduceOp::Max, DType::Bool),
            empty(ReduceOp::Min, DType::Bool)
        ),
        (0, 1)
    );

    let mut product = Reduction::new(ReduceOp::Prod, DType::I32);
    (0..40).for_each(|_| product.take(u64::from((-3i32) as u32)));
    assert_eq!(product.finish() as u32 as i32, (-3i32).wrapping_pow(40));
}

#[test]
fn stored_values_of_erf() {
    let erf = |x: f64| f64::from_bits(eval(ScalarOp::Erf, DType::F64, [x.to_bits(), 0, 0]));
    assert!((erf(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
    assert!((erf(1.0) - 0.842_700_792_949_714_9).abs() < 1e-15);
    assert!((erf(-2.0) + 0.995_322_265_018_952_7).abs() < 1e-15);
}

/// The bits of an op's result and those of the language's: equal, or two NaN.
fn same(op: ScalarOp, dtype: DType, args: [u64; 3], expected: u64) {
    let found = eval(op, dtype, args);
    let nan = |bits| dtype.is_float() && float_value(dtype, bits).is_nan();
    assert!(
        found == expected || nan(found) && nan(expected),
        "{op} {dtype} of {args:x?} is {found:#x}, not {expected:#x}"
    );
}

/// What no standard defines to the last bit: within four units of what the platform's library has.
fn near(op: ScalarOp, dtype: DType, args: [u64; 3], expected: f64, epsilon: f64) {
    let found = float_value(dtype, eval(op, dtype, args));
    let close =
        (found - expected).abs() <= 4.0 * epsilon * expected.abs() + 2.0 * f64::from(f32::MIN_POSITIVE);
    assert!(
        found == expected || close || found.is_nan() && expected.is_nan(),
        "{op} {dtype} of {args:x?} is {found:e}, not {expected:e}"
    );
}

/// Each float against the language: ops in `$wide`, rounded to the dtype by `$round`.
macro_rules! floats {
    ($($test:ident $dtype:ident $wide:ident $round:expr;)*) => { proptest! { $(
        #[test]
        fn $test(a: u64, b: u64, c: u64, small: bool) {
            use ScalarOp::*;
            let dtype = DType::$dtype;
            // Any bits, or numbers near one.
            let bits = |bits: u64| if small { float_bits(dtype, (bits as i32) as f64 / 1e8) } else { bits & mask(dtype) };
            let args = [a, b, c].map(bits);
            let [x, y, z] = args.map(|bits| float_value(dtype, bits) as $wide);
            let round: fn($wide) -> u64 = $round;
            for (op, expected) in [
                (Neg, -x), (Abs, x.abs()), (Floor, x.floor()), (Ceil, x.ceil()), (Trunc, x.trunc()),
                (Round, x.round_ties_even()), (Sqrt, x.sqrt()), (Add, x + y), (Sub, x - y), (Mul, x * y), (Div, x / y),
                (Rem, x % y), (Fma, x.mul_add(y, z)),
            ] {
                same(op, dtype, args, round(expected));
            }
            for (op, expected) in [(Eq, x == y), (Ne, x != y), (Lt, x < y), (Le, x <= y)] {
                prop_assert_eq!(eval(op, dtype, args), u64::from(expected), "{}", op);
            }
            let [x, y] = [x as f64, y as f64];
            let epsilon = 2_f64.powi(-(dtype.facts().mantissa as i32));
            for (op, expected) in [
                (Exp, x.exp()), (Expm1, x.exp_m1()), (Log, x.ln()), (Log1p, x.ln_1p()), (Sin, x.sin()), (Cos, x.cos()),
                (Tanh, x.tanh()), (Pow, x.powf(y)), (Atan2, x.atan2(y)),
                (Cbrt, x.cbrt()),
            ] {
                near(op, dtype, args, float_value(dtype, float_bits(dtype, expected)), epsilon);
            }
            prop_assert_eq!(cast(dtype, DType::I8, args[0]), u64::from(x as i8 as u8));
            prop_assert_eq!(cast(dtype, DType::I64, args[0]), x as i64 as u64);
            prop_assert_eq!(cast(dtype, DType::U32, args[0]), u64::from(x as u32));
            prop_assert_eq!(cast(dtype, DType::U64, args[0]), x as u64);
        }
    )* } };
}

floats! {
    f64_is_the_languages F64 f64 f64::to_bits;
    f32_is_the_languages F32 f32 |x| x.to_bits().into();
    f16_is_f32_rounded F16 f32 |x| f16::from_f32(x).to_bits().into();
    bf16_is_f32_rounded BF16 f32 |x| bf16::from_f32(x).to_bits().into();
}

/// Each integer against the language.
macro_rules! integers {
    ($($test:ident $dtype:ident $type:ident;)*) => { proptest! { $(
        #[test]
        fn $test(x: $type, y: $type, shift in 0_u32..80) {
            use ScalarOp::*;
            let dtype = DType::$dtype;
            let bits = |value: $type| value as u64 & mask(dtype);
            let args = [bits(x), bits(y), 0];
            for (op, expected) in [
                (Add, x.wrapping_add(y)), (Sub, x.wrapping_sub(y)), (Mul, x.wrapping_mul(y)),
                (Div, if y == 0 { 0 } else { x.wrapping_div(y) }), (Rem, if y == 0 { 0 } else { x.wrapping_rem(y) }),
                (Neg, x.wrapping_neg()), (Not, !x), (And, x & y), (Or, x | y), (Xor, x ^ y), (Max, x.max(y)), (Min, x.min(y)),
            ] {
                same(op, dtype, args, bits(expected));
            }
            for (op, expected) in [(Eq, x == y), (Ne, x != y), (Lt, x < y), (Le, x <= y)] {
                same(op, dtype, args, expected.into());
            }
            let by = [bits(x), u64::from(shift), 0];
            same(Shl, dtype, by, bits(x.checked_shl(shift).unwrap_or(0)));
            same(Shr, dtype, by, bits(x >> shift.min($type::BITS - 1) >> u32::from(shift >= $type::BITS)));
            for (to, expected) in [
                (DType::F64, (x as f64).to_bits()), (DType::F32, (x as f32).to_bits().into()), (DType::Bool, u64::from(x != 0)),
                (DType::I64, x as i64 as u64), (DType::U16, u64::from(x as u16)), (DType::I8, u64::from(x as i8 as u8)),
            ] {
                prop_assert_eq!(cast(dtype, to, bits(x)), expected, "{} to {}", x, to);
            }
        }
    )* } };
}

integers! {
    i64_wraps I64 i64;
    i32_wraps I32 i32;
    i16_wraps I16 i16;
    i8_wraps I8 i8;
    u64_wraps U64 u64;
    u32_wraps U32 u32;
    u16_wraps U16 u16;
    u8_wraps U8 u8;
}
