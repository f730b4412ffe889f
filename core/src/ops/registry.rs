//! Ops by name: each op of elements without attributes is a row, with what mixed precision does with it.

use super::{activation, special, trigonometry, unary};
use crate::hal::ir::{Mixed, ScalarOp};
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug)]
enum Call {
    Unary(fn(&Tensor) -> Tensor),
    Binary(fn(&Tensor, &Tensor) -> Tensor),
}

/// An op of elements that needs tensors alone, as a row of a table: what reads or checks ops by name takes them from here.
///
/// ```
/// use thalweg::{Context, Tensor, ops::NamedOp};
/// let cx = Context::new("cpu")?;
/// let x = Tensor::from_slice(&[1.0_f32, 4.0], [2], &cx);
/// let sqrt = NamedOp::find("sqrt").expect("it is in the table");
/// assert_eq!(sqrt.operands(), 1);
/// assert_eq!(sqrt.call(&[&x]).expect("it takes one operand").to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NamedOp {
    name: &'static str,
    mixed: Mixed,
    call: Call,
}

impl NamedOp {
    pub(super) const fn unary(name: &'static str, mixed: Mixed, call: fn(&Tensor) -> Tensor) -> NamedOp {
        NamedOp {
            name,
            mixed,
            call: Call::Unary(call),
        }
    }

    const fn binary(name: &'static str, mixed: Mixed, call: fn(&Tensor, &Tensor) -> Tensor) -> NamedOp {
        NamedOp {
            name,
            mixed,
            call: Call::Binary(call),
        }
    }

    /// Every row; no name occurs twice.
    pub fn all() -> impl Iterator<Item = &'static NamedOp> {
        let groups = [
            unary::ROWS,
            trigonometry::ROWS,
            special::ROWS,
            activation::ROWS,
            UNARY,
            BINARY,
        ];
        groups.into_iter().flatten()
    }

    /// The op of a name.
    pub fn find(name: &str) -> Option<&'static NamedOp> {
        NamedOp::all().find(|op| op.name == name)
    }

    /// The name of the method of [`Tensor`], which errors and graphs name too.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What mixed precision does with it.
    pub const fn mixed(&self) -> Mixed {
        self.mixed
    }

    /// How many tensors it takes.
    pub const fn operands(&self) -> usize {
        match self.call {
            Call::Unary(_) => 1,
            Call::Binary(_) => 2,
        }
    }

    /// The op on tensors; `None` where it takes another number of them.
    pub fn call(&self, operands: &[&Tensor]) -> Option<Tensor> {
        match (self.call, operands) {
            (Call::Unary(call), [x]) => Some(call(x)),
            (Call::Binary(call), [a, b]) => Some(call(a, b)),
            _ => None,
        }
    }
}

macro_rules! rows {
    ($kind:ident: $($name:ident $mixed:expr, $call:expr;)*) => {
        &[$(NamedOp::$kind(stringify!($name), $mixed, $call),)*]
    };
}

/// Ops of one tensor that have methods of their own.
const UNARY: &[NamedOp] = rows! { unary:
    bitwise_not ScalarOp::Not.mixed(), Tensor::bitwise_not;
    exp2 Mixed::Full, Tensor::exp2;
    frac Mixed::Narrow, Tensor::frac;
    isfinite Mixed::Narrow, Tensor::isfinite;
    isinf Mixed::Narrow, Tensor::isinf;
    isnan Mixed::Narrow, Tensor::isnan;
    log10 Mixed::Full, Tensor::log10;
    log2 Mixed::Full, Tensor::log2;
    logical_not Mixed::Narrow, Tensor::logical_not;
    reciprocal Mixed::Full, Tensor::reciprocal;
    relu Mixed::Narrow, Tensor::relu;
    rsqrt Mixed::Full, Tensor::rsqrt;
    signbit Mixed::Narrow, Tensor::signbit;
    square Mixed::Narrow, Tensor::square;
};

/// Ops of two tensors, which broadcast.
const BINARY: &[NamedOp] = rows! { binary:
    add ScalarOp::Add.mixed(), |a, b| a.add(b);
    atan2 ScalarOp::Atan2.mixed(), |a, b| a.atan2(b);
    bitwise_and ScalarOp::And.mixed(), |a, b| a.bitwise_and(b);
    bitwise_left_shift ScalarOp::Shl.mixed(), |a, b| a.bitwise_left_shift(b);
    bitwise_or ScalarOp::Or.mixed(), |a, b| a.bitwise_or(b);
    bitwise_right_shift ScalarOp::Shr.mixed(), |a, b| a.bitwise_right_shift(b);
    bitwise_xor ScalarOp::Xor.mixed(), |a, b| a.bitwise_xor(b);
    copysign Mixed::Narrow, |a, b| a.copysign(b);
    div ScalarOp::Div.mixed(), |a, b| a.div(b);
    div_floor Mixed::Narrow, |a, b| a.div_floor(b);
    eq ScalarOp::Eq.mixed(), |a, b| a.eq(b);
    fmax Mixed::Narrow, |a, b| a.fmax(b);
    fmin Mixed::Narrow, |a, b| a.fmin(b);
    fmod ScalarOp::Rem.mixed(), |a, b| a.fmod(b);
    ge ScalarOp::Le.mixed(), |a, b| a.ge(b);
    gt ScalarOp::Lt.mixed(), |a, b| a.gt(b);
    heaviside Mixed::Narrow, |a, b| a.heaviside(b);
    hypot Mixed::Narrow, |a, b| a.hypot(b);
    le ScalarOp::Le.mixed(), |a, b| a.le(b);
    logaddexp Mixed::Full, |a, b| a.logaddexp(b);
    logical_and Mixed::Narrow, |a, b| a.logical_and(b);
    logical_or Mixed::Narrow, |a, b| a.logical_or(b);
    logical_xor Mixed::Narrow, |a, b| a.logical_xor(b);
    lt ScalarOp::Lt.mixed(), |a, b| a.lt(b);
    maximum ScalarOp::Max.mixed(), |a, b| a.maximum(b);
    minimum ScalarOp::Min.mixed(), |a, b| a.minimum(b);
    mul ScalarOp::Mul.mixed(), |a, b| a.mul(b);
    ne ScalarOp::Ne.mixed(), |a, b| a.ne(b);
    pow ScalarOp::Pow.mixed(), |a, b| a.pow(b);
    prelu Mixed::Narrow, Tensor::prelu;
    remainder Mixed::Narrow, |a, b| a.remainder(b);
    sub ScalarOp::Sub.mixed(), |a, b| a.sub(b);
    xlogy Mixed::Full, |a, b| a.xlogy(b);
};
