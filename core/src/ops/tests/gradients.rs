//! Derivatives of formulas against central differences in f64, first and second.

use super::{contexts, everywhere, integers, values};
use crate::Tensor;
use crate::grad::grad;
use crate::hal::DType;

type Unary = fn(&Tensor) -> Tensor;

const STEP: f64 = 1e-5;

/// The differences `(Σ f(x + h) - Σ f(x - h)) / 2h`, for each element of x.
fn difference(f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor) -> Vec<f64> {
    let numbers = values(x);
    let sum = |at: usize, step: f64| {
        let mut moved = numbers.clone();
        moved[at] += step;
        let moved = Tensor::from_slice(&moved, [moved.len()], x.context().unwrap());
        values(&f(&moved).sum())[0]
    };
    (0..numbers.len())
        .map(|at| (sum(at, STEP) - sum(at, -STEP)) / (2.0 * STEP))
        .collect()
}

fn near(name: &str, got: &[f64], wanted: &[f64], tolerance: f64) {
    for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let error = (got - wanted).abs() / wanted.abs().max(1.0);
        assert!(error < tolerance, "{name} at {at}: {got}, not {wanted}");
    }
}

fn check(name: &str, f: &dyn Fn(&Tensor) -> Tensor, numbers: &[f64]) {
    everywhere(|cx| {
        let x = Tensor::from_slice(numbers, [numbers.len()], cx);
        let slope = |x: &Tensor| grad(|x: &Tensor| f(x).sum()).call(x);
        near(name, &values(&slope(&x)), &difference(f, &x), 1e-7);
        near(
            name,
            &values(&grad(|x: &Tensor| slope(x).sum()).call(&x)),
            &difference(&slope, &x),
            1e-6,
        );
    });
}

#[test]
fn functions_on_the_whole_line() {
    let line = [-7.3, -2.1, -0.6, -0.01, 0.02, 0.7, 1.9, 6.5];
    let functions: [(&str, Unary); 20] = [
        ("tan", Tensor::tan),
        ("atan", Tensor::atan),
        ("sinh", Tensor::sinh),
        ("cosh", Tensor::cosh),
        ("asinh", Tensor::asinh),
        ("exp2", |x| (x * 0.5).exp2()),
        ("erfc", Tensor::erfc),
        ("sigmoid", Tensor::sigmoid),
        ("logsigmoid", Tensor::logsigmoid),
        ("softplus", Tensor::softplus),
        ("softsign", Tensor::softsign),
        ("selu", Tensor::selu),
        ("silu", Tensor::silu),
        ("mish", Tensor::mish),
        ("gelu", Tensor::gelu),
        ("gelu_tanh", Tensor::gelu_tanh),
        ("tanhshrink", Tensor::tanhshrink),
        ("hardswish", Tensor::hardswish),
        ("elu", |x| x.elu(0.7)),
        ("celu", |x| x.celu(1.3)),
    ];
    for (name, f) in functions {
        // The differences of tan are rough near its poles.
        let numbers: &[f64] = if name == "tan" { &line[2..6] } else { &line };
        let numbers = if matches!(name, "sinh" | "cosh") {
            &line[1..7]
        } else {
            numbers
        };
        check(name, &f, numbers);
    }
}

#[test]
fn functions_on_parts_of_the_line() {
    let inner = [-0.83, -0.2, -0.01, 0.03, 0.4, 0.9];
    let positive = [0.11, 0.5, 1.01, 2.5, 40.0];
    let both = [-3.0, -0.4, 0.6, 8.0];
    check("asin", &Tensor::asin, &inner);
    check("acos", &Tensor::acos, &inner);
    check("atanh", &Tensor::atanh, &inner);
    check("acosh", &Tensor::acosh, &[1.3, 2.0, 30.0]);
    check("logit", &Tensor::logit, &[0.1, 0.5, 0.8]);
    check("rsqrt", &Tensor::rsqrt, &positive);
    check("log2", &Tensor::log2, &positive);
    check("log10", &Tensor::log10, &positive);
    check("cbrt", &Tensor::cbrt, &both);
    check("reciprocal", &Tensor::reciprocal, &both);
    check("pow 3", &|x| x.pow(3), &both);
    check("relu6", &Tensor::relu6, &both);
    check("hardsigmoid", &Tensor::hardsigmoid, &[-4.0, -1.0, 2.0, 5.0]);
    check("hardtanh", &|x| x.hardtanh(-1.0, 2.0), &both);
    check("leaky_relu", &|x| x.leaky_relu(0.1), &both);
    check("softshrink", &|x| x.softshrink(0.5), &both);
    check("hardshrink", &|x| x.hardshrink(0.5), &both);
    check("threshold", &|x| x.threshold(0.5, 3.0), &both);
    check("norm", &|x| x.norm(2.0), &both);
    check("norm 3", &|x| x.norm(3.0), &both);
    check("norm of rows", &|x| x.reshape([2, 2]).norm_axes(0, 2.0), &both);
    check("logsumexp", &|x| x.reshape([2, 2]).logsumexp_axes(1), &both);
    check("var", &|x| x.var(1), &both);
    check("std", &|x| x.std(0), &both);
    check("clamp", &|x| x.clamp(-1.0, x * 0.0 + 2.0), &both);
    check("prod", &|x| x.prod(), &both);
    check("cumsum", &|x| x.cumsum(0).pow(2), &both);
}

#[test]
fn functions_of_two_numbers() {
    let (a, b) = ([1.5, -0.7, 3.0, 0.2], [0.4, 2.0, 1.1, 5.0]);
    type Binary = fn(&Tensor, &Tensor) -> Tensor;
    let functions: [(&str, Binary); 7] = [
        ("hypot", |a, b| a.hypot(b)),
        ("logaddexp", |a, b| a.logaddexp(b)),
        ("xlogy", |a, b| a.xlogy(b)),
        ("atan2", |a, b| a.atan2(b)),
        ("lerp", |a, b| a.lerp(b, 0.3)),
        ("prelu", |a, b| a.prelu(b)),
        ("remainder", |a, b| a % b),
    ];
    for (name, f) in functions {
        everywhere(|cx| {
            let [a, b] = [a, b].map(|values| Tensor::from_slice(&values, [4], cx));
            let by_a = grad(|x: &Tensor| f(x, &b).sum()).call(&a);
            near(name, &values(&by_a), &difference(&|x| f(x, &b), &a), 1e-7);
            let by_b = grad(|x: &Tensor| f(&a, x).sum()).call(&b);
            near(name, &values(&by_b), &difference(&|x| f(&a, x), &b), 1e-7);
            // A broadcast operand collects what its copies get.
            let one = b.index(1..2);
            let by_one = grad(|x: &Tensor| f(&a, x).sum()).call(&one);
            near(
                name,
                &values(&by_one),
                &[values(&grad(|x: &Tensor| f(&a, x).sum()).call(&one.expand([4])))
                    .iter()
                    .sum()],
                1e-12,
            );
        });
    }
}

#[test]
fn kinks_and_edges_are_pytorchs() {
    let slopes = |f: &dyn Fn(&Tensor) -> Tensor, numbers: &[f64]| {
        let [cx, _] = contexts();
        let x = Tensor::from_slice(numbers, [numbers.len()], &cx);
        values(&grad(|x: &Tensor| f(x).sum()).call(&x))
    };
    assert_eq!(slopes(&Tensor::relu, &[-1.0, 0.0, 1.0]), [0.0, 0.0, 1.0]);
    assert_eq!(
        slopes(&|x| x.clamp(-1, 1), &[-2.0, -1.0, 0.0, 1.0, 2.0]),
        [0.0, 1.0, 1.0, 1.0, 0.0]
    );
    assert_eq!(slopes(&Tensor::relu6, &[0.0, 3.0, 6.0]), [0.0, 1.0, 0.0]);
    assert_eq!(slopes(&|x| x.norm(2.0), &[0.0, 0.0]), [0.0, 0.0]);
    assert_eq!(slopes(&Tensor::asinh, &[0.0, 1e200]), [1.0, 1e-200]);
    assert_eq!(slopes(&Tensor::sinh, &[0.0, -0.0]), [1.0, 1.0]);
    assert_eq!(slopes(&|x| x.logsumexp(), &[f64::NEG_INFINITY, 0.0]), [0.0, 1.0]);
    assert_eq!(slopes(&|x| x.xlogy(0.0), &[0.0]), [0.0]);
}

#[test]
fn narrow_dtypes_keep_theirs() {
    everywhere(|cx| {
        let x = Tensor::from_slice(&[0.5_f32, -1.0], [2], cx).cast(DType::BF16);
        let slope = grad(|x: &Tensor| x.gelu().sum()).call(&x);
        assert_eq!(slope.dtype().unwrap(), DType::BF16);
        near("gelu", &values(&slope), &[0.867, -0.0833], 1e-2);
        let i = Tensor::from_slice(&[-3_i32, 4], [2], cx);
        assert_eq!(
            (i.relu().dtype().unwrap(), integers(&i.relu())),
            (DType::I32, vec![0, 4])
        );
    });
}
