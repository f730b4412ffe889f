//! Gradients of traced functions: as without the trace, and compiled.

use super::tests::{context, numbers, own_context};
use crate::control::{checkpoint, cond, fori_loop, scan, while_loop};
use crate::grad::{grad, hessian, no_grad, stop_gradient, value_and_grad, vjp};
use crate::random::Key;
use crate::{Context, DType, Mode, Tensor, jit};
use std::sync::atomic::{AtomicUsize, Ordering};

fn bits(tensor: &Tensor) -> Vec<u32> {
    let values = tensor.to_vec::<f32>().unwrap_or_else(|error| panic!("{error}"));
    values.into_iter().map(f32::to_bits).collect()
}

/// Checks that value and gradient of `f` at `x` have the same bits with `jit` and without, and that one trace does for all calls.
fn same_of(loops: bool, f: impl Fn(&Tensor) -> Tensor, x: &Tensor) {
    let calls = AtomicUsize::new(0);
    let compiled = jit(|x: &Tensor| {
        calls.fetch_add(1, Ordering::Relaxed);
        f(x)
    });
    let (value, gradient) = value_and_grad(|x: &Tensor| f(x)).call(x);
    for _ in 0..2 {
        let (compiled_value, compiled_gradient) = value_and_grad(|x: &Tensor| compiled.call(x)).call(x);
        assert_eq!(bits(&compiled_value), bits(&value));
        assert_eq!(bits(&compiled_gradient), bits(&gradient));
    }
    // Other uses of the argument, before and after the call; a traced loop sums by itself what it captures.
    let around = |call: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| {
        let before = (x * 1.1).sin();
        let y = call(x) * before.sum();
        y + (x.square() * 0.7).sum() + (x * 0.3).exp().sum()
    };
    let slope = grad(|x: &Tensor| around(&f, x));
    let plain = match loops {
        true => jit(|x: &Tensor| slope.call(x)).call(x),
        false => slope.call(x),
    };
    let traced = grad(|x: &Tensor| around(&|x| compiled.call(x), x)).call(x);
    assert_eq!(bits(&traced), bits(&plain));
    assert_eq!((calls.load(Ordering::Relaxed), compiled.cache_len()), (1, 1));
}

fn same(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) {
    same_of(false, f, x);
}

#[test]
fn values_and_gradients_have_the_bits_of_the_ops_one_by_one() {
    let cx = context();
    let x = numbers(&[6, 5], &cx);
    let w = numbers(&[5, 4], &cx);
    same(|x| ((x - 1.0) * (x - 1.0) * 0.5).sum(), &x);
    same(|x| (x.matmul(&w).tanh().matmul(&w.t()) * x.exp()).sum(), &x);
    same(
        |x| (x.softmax(-1) * x + x.log_softmax(0) * 0.3 + x.gelu() + x.silu()).sum(),
        &x,
    );
    same(
        |x| (x.var(1) * 3.0 + (x * x * 0.3).sum() + x.max() + x.norm(2.0)).sum(),
        &x,
    );
    same(|x| x.relu().matmul(&w).relu().square().mean(), &x);
    same(
        |x| x.index(1..4).sin().sum() + x.t().cumsum(0).prod() + x.sort(0, false).0.cos().sum(),
        &x,
    );
    same(|x| (x * stop_gradient(x) + x.detach()).sum(), &x);
    same(
        |x| checkpoint(|x: &Tensor| (x * 2.0).tanh() * x).call(x).sum(),
        &x,
    );
    let key = Key::new(7, &cx);
    same(|x| (x.exp() * key.bernoulli(0.5, [6, 5]) * x).sum(), &x);
    same(
        |x| grad(|x: &Tensor| (x.sin() * x).sum()).call(x).square().sum(),
        &x,
    );
}

#[test]
fn loops_and_branches_have_gradients_too() {
    let cx = context();
    let x = numbers(&[12], &cx);
    let w = numbers(&[12], &cx);
    same_of(
        true,
        |x| fori_loop(0..20, x.clone(), |_, v| (v * &w).sin() + x).sum(),
        &x,
    );
    same_of(
        true,
        |x| while_loop(|v: &Tensor| v.square().sum().lt(100.0), |v| v * 1.5, x * 1.0).sum(),
        &x,
    );
    same_of(
        true,
        |x| {
            cond(
                &x.sum().lt(0.0),
                |x: &Tensor| x.sin().sum(),
                |x: &Tensor| x.cos().sum(),
                x,
            )
        },
        &x,
    );
    let running = |x: &Tensor| {
        let step = |sum: Tensor, x: Tensor| {
            let next = (sum * 0.5 + x).tanh();
            (next.clone(), next)
        };
        let (last, parts) = scan(step, x.sum() * 0.0, x);
        parts.square().sum() + last
    };
    same_of(true, running, &x);
}

#[test]
fn both_ways_run_compiled() {
    let cx = own_context();
    let (x, w) = (numbers(&[8, 5], &cx), numbers(&[5, 3], &cx));
    let loss = jit(|w: &Tensor, x: &Tensor| (x.matmul(w).tanh() * 2.0).square().sum());
    let one_by_one = || cx.engine().local().borrow().eager.len();
    let (_, gradient) = value_and_grad(|w: &Tensor| loss.call((w, &x))).call(&w);
    assert_eq!(*gradient.shape().unwrap(), [5, 3]);
    assert_eq!(one_by_one(), 0);
    let plain = grad(|w: &Tensor| (x.matmul(w).tanh() * 2.0).square().sum()).call(&w);
    assert_eq!(bits(&gradient), bits(&plain));
    assert!(one_by_one() > 0);
}

#[test]
fn gradients_of_gradients() {
    let cx = context();
    let x = numbers(&[4], &cx);
    let f = |x: &Tensor| (x.tanh() * x.exp() + x.square() * x.sum()).sum();
    let compiled = jit(|x: &Tensor| f(x));
    assert_eq!(bits(&hessian(|x| compiled.call(x), &x)), bits(&hessian(f, &x)));
    let third = |g: &dyn Fn(&Tensor) -> Tensor| {
        let first = |x: &Tensor| grad(|x: &Tensor| g(x)).call(x).square().sum();
        grad(|x: &Tensor| grad(first).call(x).sum()).call(&x)
    };
    assert_eq!(bits(&third(&|x| compiled.call(x))), bits(&third(&f)));
    // By what the way back is given.
    let (_, pullback) = vjp(|x: &Tensor| compiled.call(x), &x);
    let (_, plain) = vjp(f, &x);
    let seed = Tensor::scalar(0.7_f32, &cx);
    let by_seed = |pull: &dyn Fn(&Tensor) -> Tensor| grad(|s: &Tensor| pull(s).square().sum()).call(&seed);
    assert_eq!(
        bits(&by_seed(&|s| pullback.call(s))),
        bits(&by_seed(&|s| plain.call(s)))
    );
    let traced = jit(|s: &Tensor| pullback.call(s)).call(&seed);
    assert_eq!(bits(&traced), bits(&plain.call(&seed)));
    // A gradient that was taken before leaves no level behind.
    let steps = AtomicUsize::new(0);
    let counted = jit(|x: &Tensor| {
        steps.fetch_add(1, Ordering::Relaxed);
        f(x)
    });
    for _ in 0..3 {
        let _ = grad(|x: &Tensor| counted.call(&grad(f).call(x))).call(&x);
    }
    assert_eq!(steps.load(Ordering::Relaxed), 1);
}

#[test]
fn captured_tensors_have_gradients() {
    let cx = context();
    let (x, w) = (numbers(&[5], &cx), numbers(&[5], &cx));
    let f = |x: &Tensor, w: &Tensor| (x * w).sin().sum();
    let by_captured = |w: &Tensor| jit(|x: &Tensor| f(x, w)).call(&x);
    let plain = grad(|w: &Tensor| f(&x, w)).call(&w);
    assert_eq!(bits(&grad(by_captured).call(&w)), bits(&plain));
    let both = |x: &Tensor| jit(|y: &Tensor| f(y, x)).call(x);
    let plain_both = grad(|x: &Tensor| f(x, x)).call(&x);
    assert_eq!(bits(&grad(both).call(&x)), bits(&plain_both));
    // Marked before, and kept by the function.
    let marked = w.requires_grad();
    let kept = jit(|x: &Tensor| f(x, &marked));
    for _ in 0..2 {
        let gradient = kept.call(&x).backward().unwrap().of(&marked);
        assert_eq!(bits(&gradient), bits(&plain));
    }
    assert!(no_grad(|| kept.call(&x)).backward().is_err());
    let own = x.requires_grad();
    let loss = kept.call(&own);
    let gradients = loss.backward().unwrap();
    assert_eq!(bits(&gradients.of(&marked)), bits(&plain));
    assert_eq!(
        bits(&gradients.of(&own)),
        bits(&grad(|x: &Tensor| f(x, &w)).call(&x))
    );
    // Of an outer level: gradients by both.
    let outer = |w: &Tensor| {
        grad(|x: &Tensor| jit(|x: &Tensor| f(x, w)).call(x))
            .call(&x)
            .sum()
    };
    let plain_outer = |w: &Tensor| grad(|x: &Tensor| f(x, w)).call(&x).sum();
    assert_eq!(bits(&grad(outer).call(&w)), bits(&grad(plain_outer).call(&w)));
}

#[test]
fn several_arguments_and_results() {
    let cx = context();
    let (a, b) = (numbers(&[5], &cx), numbers(&[5], &cx));
    let f = |(a, b): &(Tensor, Tensor), n: &Tensor| {
        let product = a * b.exp();
        (
            product.sum(),
            vec![a.clone(), product.gt(0.0).cast(DType::I64), b.detach()],
            n + 1,
        )
    };
    let n = Tensor::from_slice(&[3_i64], 1, &cx);
    let compiled = jit(f);
    let pair = (a, b);
    type Call<'a> = &'a dyn Fn(&(Tensor, Tensor)) -> (Tensor, Vec<Tensor>, Tensor);
    let run = |call: Call<'_>| {
        let (results, pullback) = vjp(
            |pair: &(Tensor, Tensor)| {
                let (loss, parts, _) = call(pair);
                (loss, parts[0].clone(), parts[2].clone())
            },
            &pair,
        );
        let seeds = (results.0.ones_like() * 0.3, &results.1 * 0.7, results.2.clone());
        let (a, b) = pullback.call(&seeds);
        [a, b].map(|gradient| bits(&gradient))
    };
    assert_eq!(run(&|pair| compiled.call((pair, &n))), run(&|pair| f(pair, &n)));
    // The same tensor twice.
    let twice = |x: &Tensor| f(&(x.clone(), x.clone()), &n).0;
    let twice_compiled = |x: &Tensor| compiled.call((&(x.clone(), x.clone()), &n)).0;
    assert_eq!(
        bits(&grad(twice_compiled).call(&pair.0)),
        bits(&grad(twice).call(&pair.0))
    );
    let results = value_and_grad(|x: &Tensor| {
        let (loss, parts, n) = compiled.call((&(x.clone(), pair.1.clone()), &n));
        (loss, (parts, n))
    });
    let ((_, (parts, n)), _) = results.call(&pair.0);
    assert_eq!(
        (n.item::<i64>().unwrap(), parts[1].dtype().unwrap()),
        (4, DType::I64)
    );
    // No result depends on it.
    let none = jit(|x: &Tensor| (x.detach() * 2.0).sum());
    assert_eq!(bits(&grad(|x: &Tensor| none.call(x)).call(&pair.0)), [0; 5]);
    assert!(none.call(&pair.0.requires_grad()).backward().is_err());
}

#[test]
fn shapes_levels_and_modes_are_traced_apart() {
    let cx = context();
    let calls = AtomicUsize::new(0);
    let f = jit(|x: &Tensor| {
        calls.fetch_add(1, Ordering::Relaxed);
        x.square().sum()
    });
    let slope = grad(|x: &Tensor| f.call(x));
    for size in [3, 4, 3, 4] {
        let x = numbers(&[size], &cx);
        assert_eq!(bits(&slope.call(&x)), bits(&(&x * 2.0)));
        assert_eq!(f.call(&x).to_vec::<f32>().unwrap().len(), 1);
    }
    assert_eq!((calls.load(Ordering::Relaxed), f.cache_len()), (4, 4));
    let x = numbers(&[3], &cx);
    assert!(no_grad(|| f.call(&x.requires_grad())).backward().is_err());
    assert_eq!(f.cache_len(), 4);
    let graph = Context::builder()
        .device_target("cpu")
        .mode(Mode::Graph)
        .build()
        .unwrap();
    let y = numbers(&[3], &graph);
    assert_eq!(
        bits(&grad(|y: &Tensor| f.call(&(y * 3.0))).call(&y)),
        bits(&(&x * 3.0 * 2.0 * 3.0))
    );
    let inner = jit(|x: &Tensor| x.exp());
    let nested = jit(|x: &Tensor| (inner.call(x) * x).sum());
    let plain = grad(|x: &Tensor| (x.exp() * x).sum()).call(&x);
    assert_eq!(bits(&grad(|x: &Tensor| nested.call(x)).call(&x)), bits(&plain));
    let around = jit(|x: &Tensor| grad(|x: &Tensor| nested.call(x)).call(x));
    assert_eq!(bits(&around.call(&x)), bits(&plain));
}

#[test]
fn memory_goes_with_the_gradient() {
    let cx = own_context();
    let (x, w) = (numbers(&[64, 64], &cx), numbers(&[64, 64], &cx));
    let f = jit(|x: &Tensor, w: &Tensor| (x.matmul(w).relu().matmul(w).tanh() + 1.0).sum());
    let live = || cx.device().memory_stats().unwrap().live;
    let step = || drop(value_and_grad(|w: &Tensor| f.call((&x, w))).call(&w));
    step();
    let before = live();
    step();
    assert_eq!(live(), before);
    let (value, pullback) = vjp(|w: &Tensor| f.call((&x, w)), &w);
    assert!(live() > before + 1, "the products are kept");
    drop((value, pullback));
    assert_eq!(live(), before);
    // What the way back does not read is not kept.
    let shift = jit(|x: &Tensor| x + 1.0);
    let chain = || (0..10).fold(w.requires_grad(), |x, _| shift.call(&x));
    let last = chain();
    assert_eq!(live(), before + 1);
    assert_eq!(last.shape().unwrap()[..], [64, 64]);
}

#[test]
fn errors_name_the_line() {
    let cx = context();
    let x = numbers(&[3], &cx);
    let wrong = jit(|x: &Tensor| (x * Tensor::zeros([2], DType::F32, &context())).sum());
    let text = grad(|x: &Tensor| wrong.call(x))
        .call(&x)
        .shape()
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("mul: ") && text.contains("jit/gradients.rs"),
        "{text}"
    );
    assert_eq!(wrong.cache_len(), 0);
    let fine = jit(|x: &Tensor| x.exp().sum());
    let failed = x.reshape([7]);
    let text = grad(|x: &Tensor| fine.call(x))
        .call(&failed)
        .shape()
        .unwrap_err()
        .to_string();
    assert!(text.starts_with("reshape: "), "{text}");
    let looked = jit(|x: &Tensor| x * x.sum().item::<f32>().unwrap_or(2.0));
    assert_eq!(
        bits(&grad(|x: &Tensor| looked.call(x).sum()).call(&x)),
        bits(&(x.ones_like() * 2.0))
    );
    let seeds = vjp(|x: &Tensor| fine.call(x), &x).1;
    assert!(seeds.call(&x).shape().is_err());
}
