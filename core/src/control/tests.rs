//! Loops and branches: eagerly, recorded, traced, and their gradients.

use super::{checkpoint, cond, fori_loop, scan, while_loop};
use crate::context::{Context, Mode};
use crate::grad::{grad, hessian, jacobian, value_and_grad};
use crate::hal::DType;
use crate::jit::jit;
use crate::tensor::Tensor;

fn context() -> Context {
    Context::new("cpu").unwrap()
}

fn vector(values: &[f64], cx: &Context) -> Tensor {
    Tensor::from_slice(values, [values.len()], cx)
}

fn read(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// The result of `function` for `x`: eagerly, in graph mode, compiled.
fn ways(function: impl Fn(&Tensor) -> Tensor, x: &[f64]) -> [Vec<f64>; 3] {
    let cx = context();
    let eager = read(&function(&vector(x, &cx)));
    let traced = read(&jit(|x: &Tensor| function(x)).call(&vector(x, &cx)));
    let graph = context();
    graph.set_mode(Mode::Graph);
    let recorded = read(&function(&vector(x, &graph)));
    [eager, recorded, traced]
}

fn all(function: impl Fn(&Tensor) -> Tensor, x: &[f64], wanted: &[f64]) {
    for (way, got) in ["eager", "graph", "jit"].into_iter().zip(ways(function, x)) {
        assert_eq!(got.len(), wanted.len(), "{way}");
        for (got, wanted) in got.iter().zip(wanted) {
            assert!(
                (got - wanted).abs() <= 1e-12 * wanted.abs(),
                "{way}: {got}, {wanted}"
            );
        }
    }
}

#[test]
fn doubling_a_few_times() {
    let doubled = |start: i64, end: i64| move |x: &Tensor| fori_loop(start..end, x.clone(), |_, v| &v + &v);
    let ones = [1.0; 10];
    all(doubled(0, 3), &ones, &[8.0; 10]);
    all(doubled(3, 0), &ones, &[1.0; 10]);
    all(doubled(2, 5), &ones, &[8.0; 10]);
    all(doubled(0, 10), &ones, &[1024.0; 10]);
    for (turns, wanted) in [(3, 8.0), (10, 1024.0), (100, 2_f64.powi(100))] {
        let slope = |x: &Tensor| grad(|x: &Tensor| doubled(0, turns)(x).sum()).call(x);
        all(slope, &ones, &[wanted; 10]);
    }
}

#[test]
fn indices_and_several_carries() {
    // The sum and the product of 1..=12, which x scales.
    let both = |x: &Tensor| {
        let init = (x * 0.0, x.clone());
        let (sum, product) = fori_loop(1..13, init, |i, (sum, product)| (sum + i, product * i));
        sum + product
    };
    all(both, &[1.0, 2.0], &[479_001_678.0, 958_003_278.0]);
}

/// x · w^n by a loop that captures w.
fn powers(x: &Tensor, w: &Tensor, turns: i64) -> Tensor {
    fori_loop(0..turns, x.clone(), |_, v| v * w)
}

#[test]
fn gradients_of_what_a_body_captures() {
    for turns in [3, 20] {
        let slope = |w: &Tensor| {
            let x = w.detach() * 0.0 + 2.0;
            grad(|w: &Tensor| powers(&x, w, turns).sum()).call(w)
        };
        let n = turns as f64;
        all(
            slope,
            &[1.1, -0.9],
            &[
                2.0 * n * 1.1_f64.powf(n - 1.0),
                2.0 * n * (-0.9_f64).powi(turns as i32 - 1),
            ],
        );
    }
}

#[test]
fn second_derivatives_of_a_loop() {
    let second = |w: &Tensor| {
        grad(|w: &Tensor| {
            let first = grad(|w: &Tensor| powers(w, w, 19).sum()).call(w);
            first.sum()
        })
        .call(w)
    };
    // w^20
    all(
        second,
        &[1.1, 0.7],
        &[380.0 * 1.1_f64.powi(18), 380.0 * 0.7_f64.powi(18)],
    );
}

#[test]
fn loops_nest() {
    let nested = |x: &Tensor| {
        fori_loop(0..10, x.clone(), |i, v| {
            let inner = fori_loop(0..9, v * 0.0, |j, sum| sum + x * (i * j));
            inner + x
        })
    };
    // The last turn: x + x · 9 · 36.
    all(nested, &[2.0], &[650.0]);
    all(
        |x: &Tensor| grad(|x: &Tensor| nested(x).sum()).call(x),
        &[2.0],
        &[325.0],
    );
}

#[test]
fn a_loop_in_a_loop_of_gradient_steps() {
    // Newton's steps towards the square root of a, each by the gradient of a function that captures a.
    let root = |a: &Tensor| {
        fori_loop(0..30, a.clone(), |_, x| {
            let (value, slope) = value_and_grad(|x: &Tensor| (x * x - a).sum()).call(&x);
            &x - value / slope
        })
    };
    all(root, &[2.0], &[2_f64.sqrt()]);
    all(
        |a: &Tensor| grad(|a: &Tensor| root(a).sum()).call(a),
        &[2.0],
        &[0.5 / 2_f64.sqrt()],
    );
}

#[test]
fn loops_that_end_by_themselves() {
    let grown = |x: &Tensor| while_loop(|v: &Tensor| v.sum().lt(100.0), |v| &v * &v * x, x * 1.0);
    // x^(2^n - 1) with the first above 100.
    all(grown, &[3.0], &[3_f64.powi(7)]);
    all(
        |x: &Tensor| grad(|x: &Tensor| grown(x).sum()).call(x),
        &[3.0],
        &[7.0 * 3_f64.powi(6)],
    );
    let never = |x: &Tensor| while_loop(|v: &Tensor| v.sum().lt(0.0), |v| v * 2.0, x.clone());
    all(never, &[3.0], &[3.0]);
    all(
        |x: &Tensor| grad(|x: &Tensor| never(x).sum()).call(x),
        &[3.0],
        &[1.0],
    );
}

#[test]
fn a_traced_loop_without_end_has_no_second_derivative() {
    let cx = context();
    let grown = |x: &Tensor| while_loop(|v: &Tensor| v.sum().lt(100.0), |v| &v * x, x * 1.0);
    let second = |x: &Tensor| grad(|x: &Tensor| grad(|x: &Tensor| grown(x).sum()).call(x).sum()).call(x);
    let x = vector(&[3.0], &cx);
    assert_eq!(read(&second(&x)), [20.0 * 27.0]);
    let error = jit(|x: &Tensor| second(x))
        .call(&x)
        .shape()
        .unwrap_err()
        .to_string();
    assert!(error.contains("no second derivatives"), "{error}");
}

#[test]
fn branches() {
    let branch = |x: &Tensor| {
        let scale = x * 3.0;
        cond(
            &x.sum().lt(0.0),
            |(x, s): &(Tensor, Tensor)| x * s,
            |(x, _): &(Tensor, Tensor)| x * x * &scale,
            &(x.clone(), scale.clone()),
        )
    };
    all(branch, &[-2.0], &[12.0]);
    all(branch, &[2.0], &[24.0]);
    let slope = |x: &Tensor| grad(|x: &Tensor| branch(x).sum()).call(x);
    all(slope, &[-2.0], &[-12.0]);
    all(slope, &[2.0], &[36.0]);
    all(
        |x: &Tensor| grad(|x: &Tensor| slope(x).sum()).call(x),
        &[2.0],
        &[36.0],
    );
}

#[test]
fn scans() {
    for length in [1, 5, 12] {
        let xs: Vec<f64> = (0..length).map(|i| 1.0 + 0.1 * f64::from(i)).collect();
        let product = |x: &Tensor| {
            let one = x.sum() * 0.0 + 1.0;
            let (last, parts) = scan(
                |carry: Tensor, x: Tensor| {
                    let next = carry * x;
                    (next.clone(), next)
                },
                one,
                x,
            );
            parts + last
        };
        let mut running = 1.0;
        let products: Vec<f64> = xs
            .iter()
            .map(|x| {
                running *= x;
                running
            })
            .collect();
        let wanted: Vec<f64> = products.iter().map(|y| y + running).collect();
        all(product, &xs, &wanted);
        // d/dx[j] (sum of running products + n · the last).
        let slope = |x: &Tensor| grad(|x: &Tensor| product(x).sum()).call(x);
        let wanted: Vec<f64> = (0..xs.len())
            .map(|j| (products[j..].iter().sum::<f64>() + f64::from(length) * running) / xs[j])
            .collect();
        all(slope, &xs, &wanted);
    }
}

#[test]
fn a_scan_over_nothing() {
    let cx = context();
    let none = Tensor::from_slice(&[] as &[f64], [0, 2], &cx);
    let start = vector(&[1.0, 2.0], &cx);
    let (last, parts) = scan(|c: Tensor, x: Tensor| (&c + &x, c * x), start, &none);
    assert_eq!(read(&last), [1.0, 2.0]);
    assert_eq!(*parts.shape().unwrap(), [0, 2]);
}

#[test]
fn wrong_carries_are_named() {
    let cx = context();
    let x = vector(&[1.0, 2.0], &cx);
    let grows = |x: &Tensor| {
        let (_, y) = fori_loop(0..20, (x.clone(), x.clone()), |_, (a, b)| (a, b.sum()));
        y
    };
    for error in [grows(&x), jit(grows).call(&x)].map(|y| y.shape().unwrap_err().to_string()) {
        let wanted = "fori_loop: carry 1 is f64 [2] before the body and f64 [] after it";
        assert!(error.starts_with(wanted), "{error}");
        assert!(error.contains("control/tests.rs"), "{error}");
    }
    let unlike = jit(|x: &Tensor| cond(&x.sum().lt(0.0), |x: &Tensor| x.sum(), |x: &Tensor| x * 1.0, x));
    let error = unlike.call(&x).shape().unwrap_err().to_string();
    assert!(
        error.starts_with("cond: result 0 is f64 [] of one branch and f64 [2] of the other"),
        "{error}"
    );
    let error = while_loop(|x: &Tensor| x.lt(1.0), |x| x, x.clone())
        .shape()
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("while_loop: the condition is bool [2], not a bool scalar"),
        "{error}"
    );
}

#[test]
fn a_checkpoint_keeps_every_bit_and_less_memory() {
    let cx = context();
    let data: Vec<f32> = (0..1 << 16).map(|n| (n as f32 * 0.001).sin()).collect();
    let x = Tensor::from_slice(&data, data.len(), &cx);
    let w = Tensor::from_slice(&data, data.len(), &cx) * 0.5;
    let block = |x: &Tensor, w: &Tensor| {
        let y = (x * w).tanh();
        let z = (&y * &y + x).sin().exp();
        (&z * y).cos()
    };
    let run = |lean: bool| {
        let loss = |w: &Tensor| {
            let inner = |x: &Tensor| block(x, w);
            let step = |x: Tensor| {
                if lean {
                    checkpoint(inner).call(&x)
                } else {
                    inner(&x)
                }
            };
            (0..24).fold(x.clone(), |x, _| step(x)).sum()
        };
        cx.device().reset_peak_memory_stats().unwrap();
        let before = cx.device().memory_stats().unwrap().allocated;
        let (value, gradient) = value_and_grad(loss).call(&w);
        let bits: Vec<u32> = gradient
            .to_vec::<f32>()
            .unwrap()
            .into_iter()
            .map(f32::to_bits)
            .collect();
        let peak = cx.device().memory_stats().unwrap().max_allocated - before;
        (value.item::<f32>().unwrap().to_bits(), bits, peak)
    };
    let (plain, lean) = (run(false), run(true));
    assert_eq!((plain.0, &plain.1), (lean.0, &lean.1));
    assert!(
        2 * lean.2 < plain.2,
        "peak of {} B with checkpoints, {} B without",
        lean.2,
        plain.2
    );
}

#[test]
fn checkpoints_nest_differentiate_twice_and_compile() {
    let cx = context();
    let x = Tensor::from_slice(&[0.3_f64, -0.7, 1.1], 3, &cx);
    let f = |x: &Tensor| (x * x).tanh() * x;
    let lean = |x: &Tensor| {
        checkpoint(|x: &Tensor| checkpoint(f).call(&(x * 2.0)).exp())
            .call(x)
            .sum()
    };
    let plain = |x: &Tensor| f(&(x * 2.0)).exp().sum();
    let bits = |tensor: Tensor| -> Vec<u64> {
        tensor
            .to_vec::<f64>()
            .unwrap()
            .into_iter()
            .map(f64::to_bits)
            .collect()
    };
    assert_eq!(bits(lean(&x)), bits(plain(&x)));
    assert_eq!(bits(grad(lean).call(&x)), bits(grad(plain).call(&x)));
    let compiled = jit(|x: &Tensor| grad(lean).call(x));
    assert_eq!(bits(compiled.call(&x)), bits(grad(plain).call(&x)));
    assert!(compiled.graph(&x).unwrap().to_text().contains("= call "));
    let one = grad(|x: &Tensor| grad(lean).call(x).sum()).call(&x);
    let other = grad(|x: &Tensor| grad(plain).call(x).sum()).call(&x);
    let far = (one - other).abs().max().item::<f64>().unwrap();
    assert!(far < 1e-12, "{far}");
    cx.set_mode(Mode::Graph);
    let x = Tensor::from_slice(&[0.3_f64, -0.7, 1.1], 3, &cx);
    assert_eq!(bits(grad(lean).call(&x)), bits(grad(plain).call(&x)));
    let bad = checkpoint(|x: &Tensor| x.reshape([7])).call(&x);
    let error = bad.ok().unwrap_err().to_string();
    assert!(error.contains("reshape"), "{error}");
}

#[test]
fn jacobians_and_hessians_are_those_of_formulas() {
    let cx = context();
    let x = Tensor::from_slice(&[1.0_f64, 2.0, 3.0], 3, &cx);
    let outer = |x: &Tensor| x.unsqueeze(1) * x.unsqueeze(0);
    let got = jacobian(outer, &x);
    assert_eq!(got.shape().unwrap()[..], [3, 3, 3]);
    let data = [1.0, 2.0, 3.0];
    let mut wanted = Vec::new();
    for (i, j, k) in (0..27).map(|n| (n / 9, n / 3 % 3, n % 3)) {
        let part = |a: usize, b: usize| if a == k { data[b] } else { 0.0 };
        wanted.push(part(i, j) + part(j, i));
    }
    assert_eq!(got.to_vec::<f64>().unwrap(), wanted);
    let second = hessian(|x: &Tensor| x.prod() + x.square().sum(), &x);
    assert_eq!(
        second.to_vec::<f64>().unwrap(),
        [2.0, 3.0, 2.0, 3.0, 2.0, 1.0, 2.0, 1.0, 2.0]
    );
    let compiled = jit(|x: &Tensor| hessian(|x: &Tensor| x.prod(), x)).call(&x);
    assert_eq!(
        compiled.to_vec::<f64>().unwrap(),
        [0.0, 3.0, 2.0, 3.0, 0.0, 1.0, 2.0, 1.0, 0.0]
    );
    let none = jacobian(|x: &Tensor| x.index(..0), &x);
    assert_eq!(none.shape().unwrap()[..], [0, 3]);
    let whole = jacobian(|x: &Tensor| x.cast(DType::I64), &x)
        .ok()
        .unwrap_err()
        .to_string();
    assert!(whole.starts_with("jacobian: the result is i64"), "{whole}");
}
