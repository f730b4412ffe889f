//! What each op does to one scalar: bits in, bits out.

use crate::dtype::{Class, DType};
use crate::ir::{ReduceOp, ScalarOp};
use crate::narrow::{bf16_from_i64, bf16_from_u64, f16_from_i64, f16_from_u64, float_bits, float_value};
use std::cmp::Ordering;

/// The bits of a value of `dtype`.
pub fn mask(dtype: DType) -> u64 {
    match dtype {
        DType::Bool => 1,
        _ => u64::MAX >> (64 - 8 * dtype.size()),
    }
}

/// The value of a float; exact.
fn real(dtype: DType, bits: u64) -> f64 {
    float_value(dtype, bits)
}

/// The value of an integer or bool.
pub fn whole(dtype: DType, bits: u64) -> i128 {
    let unused = 64 - 8 * dtype.size() as u32;
    match dtype.class() {
        Class::Signed => (((bits << unused) as i64) >> unused).into(),
        Class::Unsigned | Class::Bool | Class::Float => bits.into(),
    }
}

/// A result of an op: rounded to f32 first.
fn rounded(dtype: DType, value: f64) -> u64 {
    let single = f64::from(value as f32);
    narrowed(dtype, if dtype == DType::F64 { value } else { single })
}

/// A result of a cast: rounded once.
fn narrowed(to: DType, float: f64) -> u64 {
    float_bits(to, float)
}

/// [`ScalarOp`] on arguments of `dtype`; a condition is 0 or 1.
pub fn eval(op: ScalarOp, dtype: DType, bits: [u64; 3]) -> u64 {
    let float = dtype.is_float();
    let [a, b, c] = bits;
    let [x, y, z] = bits.map(|v| if float { real(dtype, v) } else { 0.0 });
    let [i, j, _] = bits.map(|v| if float { 0 } else { whole(dtype, v) });
    let f = |value: f64| rounded(dtype, value);
    let n = |value: i128| value as u64 & mask(dtype);
    let number = |value: f64, integer: i128| if float { f(value) } else { n(integer) };
    let pick = |first: bool, a: u64, b: u64| if first { a } else { b };
    let order = if float { x.partial_cmp(&y) } else { Some(i.cmp(&j)) };
    match op {
        ScalarOp::Neg => number(-x, -i),
        ScalarOp::Abs => number(x.abs(), i.abs()),
        // `signum` of a zero is 1.
        ScalarOp::Sign if float && x == 0.0 => a,
        ScalarOp::Sign => number(x.signum(), i.signum()),
        ScalarOp::Not => !a & mask(dtype),
        ScalarOp::Floor => f(x.floor()),
        ScalarOp::Ceil => f(x.ceil()),
        ScalarOp::Trunc => f(x.trunc()),
        ScalarOp::Round => f(x.round_ties_even()),
        ScalarOp::Sqrt => f(x.sqrt()),
        ScalarOp::Exp => f(libm::exp(x)),
        ScalarOp::Expm1 => f(libm::expm1(x)),
        ScalarOp::Log => f(libm::log(x)),
        ScalarOp::Log1p => f(libm::log1p(x)),
        ScalarOp::Sin => f(libm::sin(x)),
        ScalarOp::Cos => f(libm::cos(x)),
        ScalarOp::Tanh => f(libm::tanh(x)),
        ScalarOp::Erf => f(libm::erf(x)),
        ScalarOp::Cbrt => f(libm::cbrt(x)),
        ScalarOp::Add => number(x + y, i + j),
        ScalarOp::Sub => number(x - y, i - j),
        ScalarOp::Mul => number(x * y, i.wrapping_mul(j)),
        ScalarOp::Div => number(x / y, i.checked_div(j).unwrap_or(0)),
        ScalarOp::Rem => number(x % y, i.checked_rem(j).unwrap_or(0)),
        ScalarOp::Pow => f(libm::pow(x, y)),
        ScalarOp::Atan2 => f(libm::atan2(x, y)),
        ScalarOp::Max => pick(wins(dtype, Ordering::Greater, a, b), a, b),
        ScalarOp::Min => pick(wins(dtype, Ordering::Less, a, b), a, b),
        ScalarOp::And => a & b,
        ScalarOp::Or => a | b,
        ScalarOp::Xor => a ^ b,
        ScalarOp::Shl => n(if b < 64 { i << b } else { 0 }),
        ScalarOp::Shr => n(i >> b.min(64)),
        ScalarOp::Eq => u64::from(order == Some(Ordering::Equal)),
        ScalarOp::Ne => u64::from(order != Some(Ordering::Equal)),
        ScalarOp::Lt => u64::from(order == Some(Ordering::Less)),
        ScalarOp::Le => u64::from(matches!(order, Some(Ordering::Less | Ordering::Equal))),
        ScalarOp::Fma if dtype == DType::F64 => x.mul_add(y, z).to_bits(),
        // f64 would round a second time.
        ScalarOp::Fma => f((x as f32).mul_add(y as f32, z as f32).into()),
        ScalarOp::Select => pick(a != 0, b, c),
    }
}

/// Whether `a` comes first when the extreme in the direction of `wanted` is looked for: a NaN before all else, and -0
/// counts as less than +0.
fn wins(dtype: DType, wanted: Ordering, a: u64, b: u64) -> bool {
    if !dtype.is_float() {
        return whole(dtype, a).cmp(&whole(dtype, b)) == wanted;
    }
    let (x, y) = (real(dtype, a), real(dtype, b));
    !y.is_nan() && (x.is_nan() || x.total_cmp(&y) == wanted)
}

/// [`crate::ir::Node::Cast`].
pub fn cast(from: DType, to: DType, bits: u64) -> u64 {
    let most = mask(to) >> 1;
    if from.is_float() {
        let x = real(from, bits);
        return match to.class() {
            Class::Float => narrowed(to, x),
            Class::Unsigned => (x as u64).min(mask(to)),
            Class::Signed => (x as i64).clamp(-(most as i64) - 1, most as i64) as u64 & mask(to),
            Class::Bool => u64::from(x != 0.0),
        };
    }
    let n = whole(from, bits);
    match to {
        DType::F64 => (n as f64).to_bits(),
        DType::F32 => (n as f32).to_bits().into(),
        DType::F16 if n < 0 => f16_from_i64(n as i64).to_bits().into(),
        DType::F16 => f16_from_u64(n as u64).to_bits().into(),
        DType::BF16 if n < 0 => bf16_from_i64(n as i64).to_bits().into(),
        DType::BF16 => bf16_from_u64(n as u64).to_bits().into(),
        DType::Bool => u64::from(n != 0),
        // What f64 does not hold is far beyond the range of floats for storage.
        _ if to.is_float() => float_bits(to, n as f64),
        _ => n as u64 & mask(to),
    }
}

/// A reduction on its way through the inner space.
pub struct Reduction {
    op: ReduceOp,
    dtype: DType,
    taken: u64,
    /// Sum or product of floats.
    float: f64,
    /// Sum or product of integers; the low bits count.
    integer: i128,
    /// Extreme so far and where it was.
    best: u64,
    at: i64,
}

impl Reduction {
    /// The result for all values of a row.
    pub fn of(op: ReduceOp, dtype: DType, values: &[u64]) -> u64 {
        let mut reduction = Reduction::new(op, dtype);
        values.iter().for_each(|&bits| reduction.take(bits));
        reduction.finish()
    }

    /// A reduction over nothing.
    fn new(op: ReduceOp, dtype: DType) -> Reduction {
        let start = if op == ReduceOp::Prod { 1 } else { 0 };
        let least = matches!(op, ReduceOp::Max | ReduceOp::ArgMax);
        let infinity = if least { f64::NEG_INFINITY } else { f64::INFINITY };
        let best = match dtype.class() {
            Class::Float => rounded(dtype, infinity),
            Class::Signed => (mask(dtype) >> 1) + u64::from(least),
            Class::Unsigned | Class::Bool if least => 0,
            Class::Unsigned | Class::Bool => mask(dtype),
        };
        let (float, integer) = (start.into(), start.into());
        Reduction {
            op,
            dtype,
            taken: 0,
            float,
            integer,
            best,
            at: -1,
        }
    }

    /// One more value.
    fn take(&mut self, bits: u64) {
        let dtype = self.dtype;
        match self.op {
            ReduceOp::Sum if dtype.is_float() => self.float += real(dtype, bits),
            ReduceOp::Sum => self.integer = self.integer.wrapping_add(whole(dtype, bits)),
            ReduceOp::Prod if dtype.is_float() => self.float *= real(dtype, bits),
            ReduceOp::Prod => self.integer = self.integer.wrapping_mul(whole(dtype, bits)),
            ReduceOp::Max | ReduceOp::ArgMax => self.extreme(Ordering::Greater, bits),
            ReduceOp::Min | ReduceOp::ArgMin => self.extreme(Ordering::Less, bits),
        }
        self.taken += 1;
    }

    fn extreme(&mut self, wanted: Ordering, bits: u64) {
        if self.taken == 0 || wins(self.dtype, wanted, bits, self.best) {
            self.best = bits;
            self.at = self.taken as i64;
        }
    }

    /// The result.
    fn finish(self) -> u64 {
        match self.op {
            ReduceOp::Sum | ReduceOp::Prod if self.dtype.is_float() => rounded(self.dtype, self.float),
            ReduceOp::Sum | ReduceOp::Prod => self.integer as u64 & mask(self.dtype),
            ReduceOp::Max | ReduceOp::Min => self.best,
            ReduceOp::ArgMax | ReduceOp::ArgMin => self.at as u64,
        }
    }
}

/// [`crate::ir::Node::Rand`].
pub fn random_word(key: u64, counter: u64) -> u32 {
    let halves = |n: u64| [n as u32, (n >> 32) as u32];
    let [low, high] = halves(counter / 4);
    philox([low, high, 0, 0], halves(key))[(counter % 4) as usize]
}

/// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        let [a, b, c, d] = counter;
        let (left, right) = (u64::from(a) * 0xd251_1f53, u64::from(c) * 0xcd9e_8d57);
        counter = [
            (right >> 32) as u32 ^ b ^ key[0],
            right as u32,
            (left >> 32) as u32 ^ d ^ key[1],
            left as u32,
        ];
    }
    counter
}

#[cfg(test)]
mod tests;
