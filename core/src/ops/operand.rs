//! What binary ops take: tensors and plain numbers.

use crate::hal::DType;
use crate::hal::{F8E4M3, F8E5M2};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use half::{bf16, f16};
use thalweg_hal::dtype::Class;
use thalweg_hal::narrow;

/// A number in a formula. It has no dtype of its own: it takes that of the tensor that it meets, but a float among integers
/// makes them f32, and a number among truth values makes them numbers (f32 or i64).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer; wide enough for i64 and u64.
    Int(i128),
    /// A real number.
    Float(f64),
}

impl Scalar {
    /// The dtype when it meets nothing that says another.
    pub(crate) const fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
        }
    }

    /// The nearest real number.
    pub(crate) const fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => value as u8 as f64,
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) => value,
        }
    }

    /// The element of `dtype` with this value: floats round, integers must fit.
    pub(crate) fn bits(self, dtype: DType) -> Result<u64, Refusal> {
        let integer = match (self, dtype.class()) {
            (Scalar::Float(value), Class::Float) => return Ok(float_bits(value, dtype)),
            (Scalar::Bool(value), _) => i128::from(value),
            (Scalar::Int(value), _) => value,
            (Scalar::Float(value), _) if value.trunc() == value && value.abs() < 1e18 => value as i128,
            (Scalar::Float(value), _) => {
                return Err(Refusal::new(format!("{value} is no element of {dtype}")));
            }
        };
        let (least, most) = match (dtype.class(), dtype.size() as u32 * 8) {
            (Class::Float, _) => {
                return Ok(match dtype {
                    DType::F32 => (integer as f32).to_bits().into(),
                    DType::F64 => (integer as f64).to_bits(),
                    _ => float_bits(sticky(integer), dtype),
                });
            }
            (Class::Signed, width) => (-(1_i128 << (width - 1)), (1_i128 << (width - 1)) - 1),
            (Class::Unsigned, width) => (0, (1_i128 << width) - 1),
            (Class::Bool, _) => (0, 1),
        };
        if !(least..=most).contains(&integer) {
            return Err(Refusal::new(format!(
                "{integer} does not fit into {dtype}, {least} to {most} do"
            ))
            .help("cast the tensor to a wider dtype"));
        }
        Ok(integer as u64 & (u64::MAX >> (64 - 8 * dtype.size() as u32)))
    }

    /// The value of an element.
    pub(crate) fn from_bits(dtype: DType, bits: u64) -> Scalar {
        let unused = 64 - 8 * dtype.size() as u32;
        match dtype.class() {
            Class::Float => Scalar::Float(narrow::float_value(dtype, bits)),
            Class::Signed => Scalar::Int((((bits << unused) as i64) >> unused).into()),
            Class::Unsigned => Scalar::Int(bits.into()),
            Class::Bool => Scalar::Bool(bits != 0),
        }
    }

    /// The element of `dtype` that [`Op::Cast`](crate::graph::Op::Cast) makes of this value.
    pub(crate) fn cast_bits(self, dtype: DType) -> u64 {
        let mask = u64::MAX >> (64 - 8 * dtype.size() as u32);
        let most = (mask >> 1) as i64;
        match (self, dtype.class()) {
            (Scalar::Float(value), Class::Float) => float_bits(value, dtype),
            (Scalar::Float(value), Class::Signed) => (value as i64).clamp(-most - 1, most) as u64 & mask,
            (Scalar::Float(value), Class::Unsigned) => (value as u64).min(mask),
            (Scalar::Float(value), Class::Bool) => u64::from(value != 0.0),
            (Scalar::Int(value), Class::Bool) => u64::from(value != 0),
            (Scalar::Int(value), Class::Signed | Class::Unsigned) => value as u64 & mask,
            (Scalar::Bool(value), Class::Signed | Class::Unsigned | Class::Bool) => u64::from(value),
            (Scalar::Int(_) | Scalar::Bool(_), Class::Float) => match (self, dtype) {
                (Scalar::Int(value), DType::F32) => (value as f32).to_bits().into(),
                (_, DType::F64) | (Scalar::Float(_) | Scalar::Bool(_), _) => float_bits(self.to_f64(), dtype),
                (Scalar::Int(value), _) => float_bits(sticky(value), dtype),
            },
        }
    }
}

/// An f64 that rounds to any narrower float as `value` does: the bits that it has no room for are one, below the others.
fn sticky(value: i128) -> f64 {
    let size = value.unsigned_abs();
    // As many as leave 54 bits at most, where f64 has 53: the last is set for them only where there are any.
    let less = (128 - size.leading_zeros()).saturating_sub(53);
    let kept = size >> less;
    let rest = u128::from(kept << less != size);
    let exact = (kept | rest) as f64 * 2_f64.powi(less as i32);
    if value < 0 { -exact } else { exact }
}

/// `value` rounded once to a float dtype.
pub(crate) fn float_bits(value: f64, dtype: DType) -> u64 {
    narrow::float_bits(dtype, value)
}

macro_rules! scalars {
    ($($variant:ident: $($type:ty)*;)*) => { $($(
        impl From<$type> for Scalar {
            fn from(value: $type) -> Scalar { Scalar::$variant(value.into()) }
        }

        impl IntoOperand<'_> for $type {
            #[inline]
            fn into_operand(self) -> Operand<'static> { Operand::Scalar(self.into()) }
        }
    )*)* };
}

scalars! {
    Bool: bool;
    Int: i64 i32 i16 i8 u64 u32 u16 u8;
    Float: f64 f32 f16 bf16 F8E4M3 F8E5M2;
}

impl From<usize> for Scalar {
    fn from(value: usize) -> Scalar {
        Scalar::Int(value as i128)
    }
}

impl IntoOperand<'_> for usize {
    fn into_operand(self) -> Operand<'static> {
        Operand::Scalar(self.into())
    }
}

/// One side of a binary op.
#[derive(Clone)]
#[non_exhaustive]
pub enum Operand<'a> {
    /// A tensor.
    Borrowed(&'a Tensor),
    /// A tensor that nobody else needs.
    Owned(Tensor),
    /// A number.
    Scalar(Scalar),
}

/// What a binary op takes: `&Tensor`, `Tensor` and Rust's numbers and truth values.
pub trait IntoOperand<'a> {
    /// As one side of an op.
    fn into_operand(self) -> Operand<'a>;
}

impl<'a> IntoOperand<'a> for Operand<'a> {
    fn into_operand(self) -> Operand<'a> {
        self
    }
}

impl<'a> IntoOperand<'a> for &'a Tensor {
    #[inline]
    fn into_operand(self) -> Operand<'a> {
        Operand::Borrowed(self)
    }
}

impl IntoOperand<'_> for Tensor {
    #[inline]
    fn into_operand(self) -> Operand<'static> {
        Operand::Owned(self)
    }
}

impl IntoOperand<'_> for Scalar {
    fn into_operand(self) -> Operand<'static> {
        Operand::Scalar(self)
    }
}

impl Operand<'_> {
    /// The tensor, unless it is a number.
    #[inline]
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match self {
            Operand::Borrowed(tensor) => Some(tensor),
            Operand::Owned(tensor) => Some(tensor),
            Operand::Scalar(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_must_fit_and_floats_round() {
        assert_eq!(Scalar::from(255).bits(DType::U8).ok(), Some(255));
        assert_eq!(Scalar::from(-1).bits(DType::I16).ok(), Some(0xffff));
        assert_eq!(
            Scalar::from(0.1).bits(DType::F32).ok(),
            Some(u64::from(0.1_f32.to_bits()))
        );
        assert_eq!(Scalar::from(u64::MAX).bits(DType::U64).ok(), Some(u64::MAX));
        for (value, dtype) in [
            (256, DType::U8),
            (-1, DType::U64),
            (2, DType::Bool),
            (128, DType::I8),
        ] {
            assert!(Scalar::from(value).bits(dtype).is_err(), "{value} {dtype}");
        }
        assert!(Scalar::from(0.5).bits(DType::I32).is_err());
        // A tie of bf16 and one more, beyond i64 and in it.
        for (value, bf16, f16) in [
            (1_i128 << 63, 0x5f00, 0x7c00),
            (i128::from(u64::MAX), 0x5f80, 0x7c00),
            ((1 << 63) + (1 << 55), 0x5f00, 0x7c00),
            ((1 << 63) + (1 << 55) + 1, 0x5f01, 0x7c00),
            (-(1 << 62) - (1 << 54) - 1, 0xde81, 0xfc00),
            (i128::MAX, 0x7f00, 0x7c00),
            (i128::MIN, 0xff00, 0xfc00),
            (2049, 0x4500, 0x6800),
            (2051, 0x4500, 0x6802),
            (-3, 0xc040, 0xc200),
            (0, 0, 0),
        ] {
            for (dtype, wanted) in [(DType::BF16, bf16), (DType::F16, f16)] {
                assert_eq!(
                    Scalar::Int(value).bits(dtype).ok(),
                    Some(wanted),
                    "{value} {dtype}"
                );
                assert_eq!(Scalar::Int(value).cast_bits(dtype), wanted, "{value} {dtype}");
            }
        }
    }

    #[test]
    fn casts_saturate_from_floats_and_wrap_from_integers() {
        assert_eq!(Scalar::from(300.7).cast_bits(DType::U8), 255);
        assert_eq!(Scalar::from(f64::NAN).cast_bits(DType::I32), 0);
        assert_eq!(Scalar::from(-1e9).cast_bits(DType::I8), 0x80);
        assert_eq!(Scalar::from(300).cast_bits(DType::U8), 44);
        assert_eq!(Scalar::from(-1).cast_bits(DType::U64), u64::MAX);
        assert_eq!(Scalar::from(0.5).cast_bits(DType::Bool), 1);
        for dtype in DType::ALL {
            let one = Scalar::from(true).cast_bits(dtype);
            assert_eq!(Scalar::from_bits(dtype, one).to_f64(), 1.0, "{dtype}");
        }
    }
}
