//! `grad`, `vjp` and `backward`.

use crate::context::{Context, Mode};
use crate::grad::{grad, no_grad, stop_gradient, value_and_grad, vjp};
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

#[test]
fn value_and_gradient_by_a_structure() {
    let cx = context();
    let parameters = (vector(&[1.0, 2.0], &cx), vec![vector(&[3.0, 4.0], &cx)]);
    let x = vector(&[5.0, 6.0], &cx);
    let loss = |(w, b): &(Tensor, Vec<Tensor>), x: &Tensor| {
        let y = w * x + &b[0];
        (y.sum(), y)
    };
    let ((value, y), (dw, db)) = value_and_grad(loss).call((&parameters, &x));
    assert_eq!(read(&value), [24.0]);
    assert_eq!(read(&y), [8.0, 16.0]);
    assert_eq!(read(&dw), [5.0, 6.0]);
    assert_eq!(read(&db[0]), [1.0, 1.0]);
    // Nothing that is handed out leads back into the call.
    for tensor in [&value, &y, &dw, &db[0]] {
        assert!(tensor.history.is_none());
    }
}

#[test]
fn orders_nest() {
    let cx = context();
    let x = vector(&[2.0], &cx);
    let cube = |x: &Tensor| (x * x * x).sum();
    let first = grad(cube);
    assert_eq!(read(&first.call(&x)), [12.0]);
    let second = grad(|x: &Tensor| grad(cube).call(x).sum());
    assert_eq!(read(&second.call(&x)), [12.0]);
    let third = grad(|x: &Tensor| grad(|x: &Tensor| grad(cube).call(x).sum()).call(x).sum());
    assert_eq!(read(&third.call(&x)), [6.0]);
}

#[test]
fn levels_are_not_confused() {
    let cx = context();
    let (x, y) = (vector(&[3.0], &cx), vector(&[5.0], &cx));
    // d/dx (x · d/dy (x + y)) = 1, not 2.
    let outer = grad(|x: &Tensor, y: &Tensor| {
        let inner = grad(|y: &Tensor| (x + y).sum()).call(y);
        (x * inner).sum()
    });
    assert_eq!(read(&outer.call((&x, &y))), [1.0]);
    // d/dx (x · d/dy (x · y²)) = d/dx (2 x² y) = 4xy, also where y is x's value.
    let outer = grad(|x: &Tensor| {
        let inner = grad(|y: &Tensor| (x * y * y).sum()).call(&x.detach());
        (x * inner).sum()
    });
    assert_eq!(read(&outer.call(&x)), [36.0]);
}

#[test]
fn pullbacks_are_called_in_later_gradients() {
    let cx = context();
    let (x, v) = (vector(&[3.0, 5.0], &cx), vector(&[1.0, 10.0], &cx));
    let pullbacks: Vec<_> = (0..100).map(|_| vjp(|x: &Tensor| x * x, &x).1).collect();
    for (_, pullback) in [0, 99].map(|at| (at, &pullbacks[at])) {
        // v ↦ 2xv is linear.
        let slope = grad(|v: &Tensor| pullback.call(v).sum());
        assert_eq!(read(&slope.call(&v)), [6.0, 10.0]);
        // d/dv Σ (2xv)² = 8x²v, also where a call lies between.
        let slope = grad(|v: &Tensor| grad(|v: &Tensor| (pullback.call(v) * v).sum()).call(v).sum());
        assert_eq!(read(&slope.call(&v)), [12.0, 20.0]);
        let squares = |v: &Tensor| (pullback.call(v) * pullback.call(v)).sum();
        assert_eq!(read(&grad(squares).call(&v)), [72.0, 2000.0]);
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| grad(squares).call(&v)).join());
        assert_eq!(read(&elsewhere.unwrap()), [72.0, 2000.0]);
        assert_eq!(read(&pullback.call(&v)), [6.0, 100.0]);
    }
}

#[test]
fn a_forward_derivative_is_two_pullbacks() {
    let cx = context();
    let (x, t) = (vector(&[0.5, 2.0], &cx), vector(&[1.0, -3.0], &cx));
    let forward = |function: &dyn Fn(&Tensor) -> Tensor, x: &Tensor, t: &Tensor| {
        let (y, pullback) = vjp(|x: &Tensor| function(x), x);
        vjp(|v: &Tensor| pullback.call(v), &y.zeros_like()).1.call(t)
    };
    assert_eq!(read(&forward(&|x| x * x * x, &x, &t)), [0.75, -36.0]);
    // Of the forward derivative by x: 6xt.
    let slope = grad(|x: &Tensor| forward(&|x| x * x * x, x, &t).sum());
    assert_eq!(read(&slope.call(&x)), [3.0, -36.0]);
}

#[test]
fn what_a_function_captures_is_constant_for_it_but_not_outside() {
    let cx = context();
    let x = vector(&[3.0], &cx);
    let outer = grad(|x: &Tensor| {
        let (y, pullback) = vjp(|z: &Tensor| z * x, &x.detach());
        let slope = pullback.call(&y);
        // y = x² as a product of a constant and x; slope = y · x.
        (slope * 1.0).sum()
    });
    // slope = c · x · x with c = 3 as a constant: d/dx = 2 · c · x.
    assert_eq!(read(&outer.call(&x)), [18.0]);
}

#[test]
fn constants_end_a_gradient() {
    let cx = context();
    let x = vector(&[3.0, 4.0], &cx);
    assert_eq!(
        read(&grad(|x: &Tensor| (x * stop_gradient(x)).sum()).call(&x)),
        [3.0, 4.0]
    );
    let half = grad(|x: &Tensor| no_grad(|| x * x).sum() + x.sum());
    assert_eq!(read(&half.call(&x)), [1.0, 1.0]);
    assert_eq!(read(&grad(|x: &Tensor| x.floor().sum()).call(&x)), [0.0, 0.0]);
    let other = vector(&[1.0], &cx);
    let unused = grad(|_: &Tensor, y: &Tensor| y.sum());
    assert_eq!(read(&unused.call((&x, &other))), [0.0, 0.0]);
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let cx = context();
    let x = vector(&[3.0, 4.0], &cx);
    let text = |tensor: &Tensor| tensor.shape().unwrap_err().to_string();
    let error = text(&grad(|x: &Tensor| x * x).call(&x));
    assert!(error.starts_with("grad: the loss has the shape [2]"), "{error}");
    assert!(error.contains("tests/functions.rs"), "{error}");
    let numbers = Tensor::from_slice(&[1_i32, 2], [2], &cx);
    let error = text(&grad(|x: &Tensor| x.sum()).call(&numbers));
    assert!(error.starts_with("grad: the loss is i64"), "{error}");
    let both = (x.clone(), numbers);
    let (dx, dn) = grad(|(x, _): &(Tensor, Tensor)| x.sum()).call(&both);
    assert_eq!(read(&dx), [1.0, 1.0]);
    let error = text(&dn);
    assert!(
        error.starts_with("grad: there is no gradient by i32 [2]"),
        "{error}"
    );
    let (_, pullback) = vjp(|x: &Tensor| x.sum(), &x);
    let error = text(&pullback.call(&x));
    assert!(
        error.starts_with("vjp: the gradient of a result of f64 [] is f64 [2]"),
        "{error}"
    );
    let error = text(&grad(|x: &Tensor| (x + vector(&[1.0, 2.0, 3.0], &cx)).sum()).call(&x));
    assert!(error.starts_with("add: "), "{error}");
}

#[test]
fn marks_and_backward() {
    let cx = context();
    let (w, b) = (
        vector(&[1.0, 2.0], &cx).requires_grad(),
        vector(&[7.0], &cx).requires_grad(),
    );
    let unused = vector(&[1.0], &cx).requires_grad();
    let loss = (&w * &w).sum() * b.sum();
    let gradients = loss.backward().unwrap();
    assert_eq!(read(&gradients.of(&w)), [14.0, 28.0]);
    assert_eq!(read(&gradients.of(&b)), [5.0]);
    assert_eq!(read(&gradients.of(&unused)), [0.0]);
    assert!(gradients.of(&w).history.is_none());
    assert!(gradients.of(&w.detach()).shape().is_err());
    let stepped = no_grad(|| &w - gradients.of(&w) * 0.5);
    assert!(stepped.history.is_none());
    assert!((&w * &w).backward().is_err());
    assert!(w.detach().sum().backward().is_err());
}

#[test]
fn a_mark_inside_a_function_is_seen_by_both() {
    let cx = context();
    let w = vector(&[3.0], &cx).requires_grad();
    let x = vector(&[5.0], &cx);
    let slope = grad(|x: &Tensor| (x * x * &w).sum()).call(&x);
    // 2 x w, still a function of w.
    assert_eq!(read(&slope), [30.0]);
    assert_eq!(read(&slope.sum().backward().unwrap().of(&w)), [10.0]);
}

#[test]
fn modes_agree() {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context();
        cx.set_mode(mode);
        let x = vector(&[0.5, -1.5, 2.0], &cx);
        let second = grad(|x: &Tensor| grad(|x: &Tensor| (x * x * x.sin()).sum()).call(x).sum());
        let exact = |x: f64| 2.0 * x.sin() + 4.0 * x * x.cos() - x * x * x.sin();
        for (got, x) in read(&second.call(&x)).into_iter().zip([0.5, -1.5, 2.0]) {
            assert!((got - exact(x)).abs() < 1e-14, "{mode:?}: {got}, {}", exact(x));
        }
    }
}

#[test]
fn long_chains_neither_overflow_nor_leak() {
    let cx = context();
    let x = vector(&[1.0], &cx);
    let allocated = || cx.device().memory_stats().unwrap().allocated;
    let run = |length: usize| {
        let gradient = grad(|x: &Tensor| {
            let mut y = x.clone();
            for _ in 0..length {
                y *= 1.000_001;
            }
            y.sum()
        });
        read(&gradient.call(&x))[0]
    };
    run(10);
    let before = allocated();
    let got = run(100_000);
    assert!((got - 1.000_001_f64.powi(100_000)).abs() < 1e-9, "{got}");
    assert_eq!(allocated(), before);
    // The chain alone, dropped without a gradient.
    let marked = x.requires_grad();
    let mut y = marked.clone();
    for _ in 0..100_000 {
        y += &marked;
    }
    drop(marked);
    drop(y);
    assert_eq!(allocated(), before);
}
