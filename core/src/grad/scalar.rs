//! Rules of the scalar ops.
//!
//! Where a function has no derivative the choice is PyTorch's: `abs` and `sign` 0 at 0; `max` and `min` of equal numbers
//! half to each; `sqrt` and `cbrt` infinite at 0; `pow` by its base 0 where the exponent is 0, by its exponent 0 where the base is 0 and
//! the exponent is not negative; `rem` as if the quotient's integral part were constant; rounding ops 0. Where neither of two
//! numbers is the lesser because one is NaN, `max` and `min` pass the gradient to both.

use super::math::{add, div, like, map1, map2, masked, mul, neg, plus, select, sub, times, unless};
use super::rule::{Gradients, Passed, negative};
use crate::hal::ir::ScalarOp;
use crate::tensor::Tensor;
use smallvec::smallvec;
use std::f64::consts::FRAC_2_SQRT_PI;

/// One row an op, as in [`super::rule::rule`]. What a rule reads is kept by [`saves`](crate::value::saves).
macro_rules! rules {
    (
        ($passed:ident, $g:ident)
        flat: $($flat:ident),*;
        $($op:ident => $rule:expr;)*
    ) => {
        pub(super) fn rule(op: ScalarOp, $passed: &Passed<'_>, $g: &Tensor) -> Gradients {
            match op {
                $(ScalarOp::$flat)|* => smallvec![],
                $(ScalarOp::$op => $rule,)*
            }
        }
    };
}

rules! {
    (at, g)
    flat: Sign, Not, Floor, Ceil, Trunc, Round, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le;
    Neg => one(neg(g));
    Abs => one(mul(g, &map1(ScalarOp::Sign, &at.input(0))));
    Sqrt => one(div(&times(g, 0.5), &at.output()));
    Exp => one(mul(g, &at.output()));
    Expm1 => one(mul(g, &plus(&at.output(), 1.0)));
    Log => one(div(g, &at.input(0)));
    Log1p => one(div(g, &plus(&at.input(0), 1.0)));
    Sin => one(mul(g, &map1(ScalarOp::Cos, &at.input(0))));
    Cos => one(neg(&mul(g, &map1(ScalarOp::Sin, &at.input(0)))));
    Tanh => one(mul(g, &one_less_square(&at.output())));
    Erf => one(mul(g, &times(&bell(&at.input(0)), FRAC_2_SQRT_PI)));
    Cbrt => one(div(&div(g, &times(&at.output(), 3.0)), &at.output()));
    Add => smallvec![Some(g.clone()), Some(g.clone())];
    Sub => smallvec![Some(g.clone()), negative(at.wants(1), g)];
    Mul => factors(at, g);
    Fma => {
        let mut gradients = factors(at, g);
        gradients.push(Some(g.clone()));
        gradients
    };
    Div => {
        let by_numerator = div(g, &at.input(1));
        let by_denominator = at.wants(1).then(|| neg(&mul(&by_numerator, &at.output())));
        smallvec![Some(by_numerator), by_denominator]
    };
    Rem => {
        let by_divisor = || {
            let quotient = map1(ScalarOp::Trunc, &div(&at.input(0), &at.input(1)));
            neg(&mul(g, &quotient))
        };
        smallvec![Some(g.clone()), at.wants(1).then(by_divisor)]
    };
    Pow => pow(at, g);
    Atan2 => {
        let (a, b) = (at.input(0), at.input(1));
        let scaled = div(g, &add(&mul(&a, &a), &mul(&b, &b)));
        smallvec![
            at.wants(0).then(|| mul(&scaled, &b)),
            at.wants(1).then(|| neg(&mul(&scaled, &a))),
        ]
    };
    Max => extreme(at, g, |a, b| map2(ScalarOp::Lt, a, b));
    Min => extreme(at, g, |a, b| map2(ScalarOp::Lt, b, a));
    Select => {
        let condition = at.input(0);
        smallvec![
            None,
            at.wants(1).then(|| masked(&condition, g)),
            at.wants(2).then(|| unless(&condition, g)),
        ]
    };
}

fn one(gradient: Tensor) -> Gradients {
    smallvec![Some(gradient)]
}

/// `1 - y²`.
fn one_less_square(y: &Tensor) -> Tensor {
    sub(&like(y, 1.0), &mul(y, y))
}

/// `exp(-x²)`.
fn bell(x: &Tensor) -> Tensor {
    map1(ScalarOp::Exp, &neg(&mul(x, x)))
}

/// The gradients of a maximum or minimum; `loses` says where its first number loses to its second.
fn extreme(passed: &Passed<'_>, g: &Tensor, loses: impl Fn(&Tensor, &Tensor) -> Tensor) -> Gradients {
    let (a, b) = (passed.input(0), passed.input(1));
    let half = || (map2(ScalarOp::Eq, &a, &b), times(g, 0.5));
    smallvec![
        passed.wants(0).then(|| share(half(), &loses(&a, &b), g)),
        passed.wants(1).then(|| share(half(), &loses(&b, &a), g)),
    ]
}

fn factors(passed: &Passed<'_>, g: &Tensor) -> Gradients {
    smallvec![
        passed.wants(0).then(|| mul(g, &passed.input(1))),
        passed.wants(1).then(|| mul(g, &passed.input(0))),
    ]
}

/// Half where equal, nothing where `lost`, else all.
fn share((equal, half): (Tensor, Tensor), lost: &Tensor, g: &Tensor) -> Tensor {
    select(&equal, &half, &unless(lost, g))
}

fn pow(passed: &Passed<'_>, g: &Tensor) -> Gradients {
    let (base, exponent) = (passed.input(0), passed.input(1));
    let zero = like(&exponent, 0.0);
    let by_base = || {
        let lower = map2(ScalarOp::Pow, &base, &plus(&exponent, -1.0));
        let flat = map2(ScalarOp::Eq, &exponent, &zero);
        unless(&flat, &mul(g, &mul(&exponent, &lower)))
    };
    let by_exponent = || {
        // 0 to a power that is not negative stays what it is.
        let at_zero = map2(ScalarOp::Eq, &base, &like(&base, 0.0));
        let grows = map2(ScalarOp::Le, &zero, &exponent);
        let flat = map2(ScalarOp::And, &at_zero, &grows);
        unless(
            &flat,
            &mul(g, &mul(&passed.output(), &map1(ScalarOp::Log, &base))),
        )
    };
    smallvec![passed.wants(0).then(by_base), passed.wants(1).then(by_exponent)]
}
