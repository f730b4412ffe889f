//! Tensors whose parts are used apart.

use super::numeric::{Given, check, check_twice};
use crate::context::Context;
use crate::grad::vjp;
use crate::ops::step;
use crate::tensor::Tensor;

fn one(name: &str, function: impl Fn(&Tensor) -> Tensor) {
    check_twice(name, |x| function(&x[0]), &[Given::any(5, &[6, 5])]);
}

/// A function of a part that no other part shares.
fn curved(part: &Tensor, factor: f64) -> Tensor {
    (part * part * factor).sum()
}

#[test]
fn ranges_of_one_axis() {
    let rows = |x: &Tensor, ranges: &[(i64, usize)]| {
        let terms = ranges.iter().zip(1_u32..);
        terms
            .map(|(&(start, length), factor)| curved(&x.narrow(0, start, length), factor.into()))
            .reduce(|sum, term| sum + term)
            .unwrap()
    };
    one("side by side", |x| rows(x, &[(0, 2), (2, 1), (3, 3)]));
    one("in another order", |x| rows(x, &[(3, 3), (0, 2), (2, 1)]));
    one("with gaps", |x| rows(x, &[(1, 1), (3, 2)]));
    one("that overlap", |x| rows(x, &[(0, 3), (1, 3), (2, 3), (5, 1)]));
    one("the same twice", |x| rows(x, &[(1, 2), (4, 1), (1, 2)]));
    one("one alone", |x| rows(x, &[(2, 2)]));
    one("beside the whole", |x| rows(x, &[(0, 2), (2, 4), (0, 6)]));
}

#[test]
fn ranges_of_several_axes() {
    one("rows and columns", |x| {
        curved(&x.narrow(0, 0, 2), 1.0)
            + curved(&x.narrow(1, 1, 2), 2.0)
            + curved(&x.narrow(0, 2, 4), 3.0)
            + curved(&x.narrow(1, 3, 2), 4.0)
    });
    one("corners", |x| {
        curved(&x.index((0..2, 0..3)), 1.0) + curved(&x.index((2..6, 3..5)), 2.0)
    });
    one("every second, and backwards", |x| {
        curved(&x.index(step(0..6, 2)), 1.0) + curved(&x.index(step(1..6, 2)), 2.0) + curved(&x.flip(0), 3.0)
    });
    one("selected rows", |x| {
        let rows: Vec<Tensor> = (0..6)
            .map(|row| x.select(0, row).exp() * f64::from(row as i32))
            .collect();
        Tensor::stack(&rows, 1).sum()
    });
}

#[test]
fn more_parts_than_one_op_joins() {
    let function = |x: &[Tensor]| {
        let rows: Vec<Tensor> = (0..300).map(|row| x[0].select(0, row).sin()).collect();
        Tensor::stack(&rows, 0)
    };
    check("parts", function, &[Given::any(5, &[300, 2])]);
}

#[test]
fn parts_keep_the_dtype() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [4], &cx).cast(crate::DType::F16);
    let (y, pullback) = vjp(|x: &Tensor| x.narrow(0, 1, 1) * 2.0 + x.narrow(0, 3, 1) * 3.0, &x);
    let gradient = pullback.call(&Tensor::ones([1], y.dtype().unwrap(), &cx));
    assert_eq!(gradient.dtype().unwrap(), crate::DType::F16);
    let values = gradient.cast(crate::DType::F32).to_vec::<f32>().unwrap();
    assert_eq!(values, [0.0, 2.0, 0.0, 3.0]);
}
