//! `+ - * / % & | ^ << >> !` on tensors, references to them and numbers. On the left, numbers are f64 or i64: with more types
//! the compiler could not tell which one `1.0 - x` means.

use super::binary::{arithmetic, divide};
use super::bits::bitwise;
use super::operand::{IntoOperand, Operand};
use super::pointwise::remainder;
use crate::hal::ir::ScalarOp;
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;
use std::ops;

macro_rules! operator {
    ($trait:ident::$method:ident, $assign:ident::$assign_method:ident, $name:literal, $f:expr) => {
        impl<'a, T: IntoOperand<'a>> ops::$trait<T> for &Tensor {
            type Output = Tensor;
            #[inline]
            #[track_caller]
            fn $method(self, other: T) -> Tensor {
                $f(Operand::Borrowed(self), other.into_operand(), OpTag::new($name))
            }
        }

        impl<'a, T: IntoOperand<'a>> ops::$trait<T> for Tensor {
            type Output = Tensor;
            #[inline]
            #[track_caller]
            fn $method(self, other: T) -> Tensor {
                $f(Operand::Owned(self), other.into_operand(), OpTag::new($name))
            }
        }

        impl<'a, T: IntoOperand<'a>> ops::$assign<T> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: T) {
                *self = $f(Operand::Borrowed(self), other.into_operand(), OpTag::new($name));
            }
        }

        operator!(@left $trait::$method, $name, $f, f64 i64);
    };
    (@left $trait:ident::$method:ident, $name:literal, $f:expr, $($number:ty)*) => { $(
        impl ops::$trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                $f(self.into_operand(), Operand::Borrowed(other), OpTag::new($name))
            }
        }

        impl ops::$trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                $f(self.into_operand(), Operand::Owned(other), OpTag::new($name))
            }
        }
    )* };
}

operator!(Add::add, AddAssign::add_assign, "add", |a, b, tag| arithmetic(
    ScalarOp::Add,
    a,
    b,
    tag
));
operator!(Sub::sub, SubAssign::sub_assign, "sub", |a, b, tag| arithmetic(
    ScalarOp::Sub,
    a,
    b,
    tag
));
operator!(Mul::mul, MulAssign::mul_assign, "mul", |a, b, tag| arithmetic(
    ScalarOp::Mul,
    a,
    b,
    tag
));
operator!(Div::div, DivAssign::div_assign, "div", divide);
operator!(Rem::rem, RemAssign::rem_assign, "remainder", remainder);
operator!(
    BitAnd::bitand,
    BitAndAssign::bitand_assign,
    "bitwise_and",
    |a, b, tag| bitwise(ScalarOp::And, a, b, tag)
);
operator!(
    BitOr::bitor,
    BitOrAssign::bitor_assign,
    "bitwise_or",
    |a, b, tag| bitwise(ScalarOp::Or, a, b, tag)
);
operator!(
    BitXor::bitxor,
    BitXorAssign::bitxor_assign,
    "bitwise_xor",
    |a, b, tag| bitwise(ScalarOp::Xor, a, b, tag)
);
operator!(
    Shl::shl,
    ShlAssign::shl_assign,
    "bitwise_left_shift",
    |a, b, tag| bitwise(ScalarOp::Shl, a, b, tag)
);
operator!(
    Shr::shr,
    ShrAssign::shr_assign,
    "bitwise_right_shift",
    |a, b, tag| bitwise(ScalarOp::Shr, a, b, tag)
);

impl ops::Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}

impl ops::Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}

impl ops::Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}

impl ops::Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}

#[cfg(test)]
mod tests {
    use crate::hal::DType;
    use crate::tensor::Tensor;
    use crate::tensor::shape::Shape;

    #[test]
    fn operands_that_do_not_fit_give_a_tensor_with_the_error() {
        let tensor = |shape: &[usize], dtype| Tensor::constant(Shape::of(shape), dtype, 0);
        let (a, b) = (tensor(&[2], DType::F32), tensor(&[3], DType::F32));
        let error = (1 - (&a + &b) * 2.0)
            .ok()
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.starts_with("add: shapes do not broadcast: [2] and [3]\n  at "),
            "{error}"
        );
        let error = (tensor(&[2], DType::U8) + 256)
            .ok()
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.starts_with("add: 256 does not fit into u8, 0 to 255 do\n"),
            "{error}"
        );
        let error = (tensor(&[2], DType::Bool) - true)
            .ok()
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(error.starts_with("sub: bool has no difference\n"), "{error}");
    }
}
