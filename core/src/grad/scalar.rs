//! Rules of the scalar ops.
//!
//! Where a function has no derivative the choice is PyTorch's: `abs` and `sign` 0 at 0; `max` and `min` of equal numbers
//! half to each; `sqrt` infinite at 0; `pow` by its base 0 where the exponent is 0, by its exponent 0 where the base is 0 and
//! the exponent is not negative; `rem` as if the quotient's integral part were constant; rounding ops 0. Where neither of two
//! numbers is the lesser because one is NaN, `max` and `min` pass the gradient to both.

use super::math::{add, div, like, map1, map2, masked, mul, neg, plus, select, sub, times, unless};
use super::rule::{Gradients, Passed, negative};
use crate::hal::ir::ScalarOp;
use crate::tensor::Tensor;
use smallvec::smallvec;
use std::f64::consts::FRAC_2_SQRT_PI;

/// As [`super::rule::rule`].
pub(super) fn rule(op: ScalarOp, passed: &Passed<'_>, g: &Tensor) -> Gradients {
    let x = || passed.input(0);
    let y = || passed.output();
    let one = |gradient: Tensor| -> Gradients { smallvec![Some(gradient)] };
    match op {
        ScalarOp::Sign
        | ScalarOp::Not
        | ScalarOp::Floor
        | ScalarOp::Ceil
        | ScalarOp::Trunc
        | ScalarOp::Round
        | ScalarOp::And
        | ScalarOp::Or
        | ScalarOp::Xor
        | ScalarOp::Shl
        | ScalarOp::Shr
        | ScalarOp::Eq
        | ScalarOp::Ne
        | ScalarOp::Lt
        | ScalarOp::Le => smallvec![],
        ScalarOp::Neg => one(neg(g)),
        ScalarOp::Abs => one(mul(g, &map1(ScalarOp::Sign, &x()))),
        ScalarOp::Sqrt => one(div(&times(g, 0.5), &y())),
        ScalarOp::Exp => one(mul(g, &y())),
        ScalarOp::Expm1 => one(mul(g, &plus(&y(), 1.0))),
        ScalarOp::Log => one(div(g, &x())),
        ScalarOp::Log1p => one(div(g, &plus(&x(), 1.0))),
        ScalarOp::Sin => one(mul(g, &map1(ScalarOp::Cos, &x()))),
        ScalarOp::Cos => one(neg(&mul(g, &map1(ScalarOp::Sin, &x())))),
        ScalarOp::Tanh => {
            let y = y();
            one(mul(g, &sub(&like(&y, 1.0), &mul(&y, &y))))
        }
        ScalarOp::Erf => {
            let x = x();
            let bell = map1(ScalarOp::Exp, &neg(&mul(&x, &x)));
            one(mul(g, &times(&bell, FRAC_2_SQRT_PI)))
        }
        ScalarOp::Add => smallvec![Some(g.clone()), Some(g.clone())],
        ScalarOp::Sub => smallvec![Some(g.clone()), negative(passed.wants(1), g)],
        ScalarOp::Mul => factors(passed, g),
        ScalarOp::Fma => {
            let mut gradients = factors(passed, g);
            gradients.push(Some(g.clone()));
            gradients
        }
        ScalarOp::Div => {
            let by_numerator = div(g, &passed.input(1));
            let by_denominator = passed.wants(1).then(|| neg(&mul(&by_numerator, &y())));
            smallvec![Some(by_numerator), by_denominator]
        }
        ScalarOp::Rem => {
            let by_divisor = || {
                let quotient = map1(ScalarOp::Trunc, &div(&x(), &passed.input(1)));
                neg(&mul(g, &quotient))
            };
            smallvec![Some(g.clone()), passed.wants(1).then(by_divisor)]
        }
        ScalarOp::Pow => pow(passed, g),
        ScalarOp::Atan2 => {
            let (a, b) = (x(), passed.input(1));
            let scaled = div(g, &add(&mul(&a, &a), &mul(&b, &b)));
            smallvec![
                passed.wants(0).then(|| mul(&scaled, &b)),
                passed.wants(1).then(|| neg(&mul(&scaled, &a))),
            ]
        }
        ScalarOp::Max => {
            let (a, b) = (x(), passed.input(1));
            let half = || (map2(ScalarOp::Eq, &a, &b), times(g, 0.5));
            smallvec![
                passed
                    .wants(0)
                    .then(|| share(half(), &map2(ScalarOp::Lt, &a, &b), g)),
                passed
                    .wants(1)
                    .then(|| share(half(), &map2(ScalarOp::Lt, &b, &a), g)),
            ]
        }
        ScalarOp::Min => {
            let (a, b) = (x(), passed.input(1));
            let half = || (map2(ScalarOp::Eq, &a, &b), times(g, 0.5));
            smallvec![
                passed
                    .wants(0)
                    .then(|| share(half(), &map2(ScalarOp::Lt, &b, &a), g)),
                passed
                    .wants(1)
                    .then(|| share(half(), &map2(ScalarOp::Lt, &a, &b), g)),
            ]
        }
        ScalarOp::Select => {
            let condition = x();
            smallvec![
                None,
                passed.wants(1).then(|| masked(&condition, g)),
                passed.wants(2).then(|| unless(&condition, g)),
            ]
        }
    }
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
