//! Traced functions on the embedded CPU backend.

use crate::hal::{Backend, DeviceOptions};
use crate::ops::ConvOptions;
use crate::{Context, DType, Mode, Tensor, jit};
use std::sync::atomic::{AtomicUsize, Ordering};

fn context() -> Context {
    Context::new("cpu").unwrap()
}

fn vector(data: &[f32], cx: &Context) -> Tensor {
    Tensor::from_slice(data, data.len(), cx)
}

#[test]
fn a_function_is_traced_once_for_each_type_and_layout() {
    let cx = context();
    let calls = AtomicUsize::new(0);
    let double = jit(|x: &Tensor| {
        calls.fetch_add(1, Ordering::Relaxed);
        x + x
    });
    let x = vector(&[1.0, 2.0, 3.0, 4.0], &cx);
    for _ in 0..3 {
        assert_eq!(double.call(&x).to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    }
    assert_eq!((calls.load(Ordering::Relaxed), double.cache_len()), (1, 1));
    let square = x.reshape([2, 2]);
    assert_eq!(
        double.call(&square).to_vec::<f32>().unwrap(),
        [2.0, 4.0, 6.0, 8.0]
    );
    assert_eq!(
        double.call(&square.t()).to_vec::<f32>().unwrap(),
        [2.0, 6.0, 4.0, 8.0]
    );
    assert_eq!(double.call(&vector(&[5.0], &cx)).item::<f32>().unwrap(), 10.0);
    let whole = Tensor::from_slice(&[7_i64], 1, &cx);
    assert_eq!(double.call(&whole).item::<i64>().unwrap(), 14);
    assert_eq!((calls.load(Ordering::Relaxed), double.cache_len()), (5, 5));
    double.clear();
    assert_eq!(double.cache_len(), 0);
    let _ = double.call(&x).ok().unwrap();
    assert_eq!((calls.load(Ordering::Relaxed), double.cache_len()), (6, 1));
}

#[test]
fn the_cache_keeps_what_was_used_last() {
    let cx = context();
    let calls = AtomicUsize::new(0);
    let double = jit(|x: &Tensor| {
        calls.fetch_add(1, Ordering::Relaxed);
        x + x
    })
    .cache_limit(2);
    let x: Vec<Tensor> = (1..4).map(|len| Tensor::ones(len, DType::F32, &cx)).collect();
    for (at, traced) in [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4), (2, 5)] {
        assert_eq!(double.call(&x[at]).to_vec::<f32>().unwrap(), vec![2.0; at + 1]);
        assert_eq!(calls.load(Ordering::Relaxed), traced);
        assert!(double.cache_len() <= 2);
    }
}

#[test]
fn trees_go_in_and_come_out() {
    let cx = context();
    let step = jit(|(w, b): &(Tensor, Tensor), xs: &Vec<Tensor>| {
        let moved: Vec<Tensor> = xs.iter().map(|x| x * w + b).collect();
        (moved, [w - b, w.clone()])
    });
    let (w, b) = (vector(&[2.0, 3.0], &cx), vector(&[0.5, 1.0], &cx));
    let xs = vec![vector(&[1.0, 2.0], &cx), vector(&[3.0, 4.0], &cx)];
    for _ in 0..2 {
        let (moved, [difference, same]) = step.call((&(w.clone(), b.clone()), &xs));
        assert_eq!(moved[0].to_vec::<f32>().unwrap(), [2.5, 7.0]);
        assert_eq!(moved[1].to_vec::<f32>().unwrap(), [6.5, 13.0]);
        assert_eq!(difference.to_vec::<f32>().unwrap(), [1.5, 2.0]);
        assert_eq!(same.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    }
    let one = vec![xs[0].clone()];
    assert_eq!(step.call((&(w, b), &one)).0.len(), 1);
    assert_eq!(step.cache_len(), 2);
}

#[test]
fn captured_tensors_and_constants_keep_their_values() {
    let cx = context();
    let scale = {
        let weight = vector(&[10.0, 100.0], &cx);
        jit(move |x: &Tensor| (x * &weight, Tensor::full([3], 7_i32, &context()), weight.clone()))
    };
    for _ in 0..2 {
        let (scaled, sevens, weight) = scale.call(&vector(&[1.0, 2.0], &cx));
        assert_eq!(scaled.to_vec::<f32>().unwrap(), [10.0, 200.0]);
        assert_eq!(sevens.to_vec::<i32>().unwrap(), [7; 3]);
        assert_eq!(weight.to_vec::<f32>().unwrap(), [10.0, 100.0]);
    }
}

/// Checks that captured `weights` give what they give as arguments, are kept in one more form each however many shapes there are,
/// and that the forms go with the function.
fn packed_once(cx: &Context, weights: &Vec<Tensor>, xs: &[Tensor], f: fn(&Tensor, &[Tensor]) -> Tensor) {
    let live = || cx.device().memory_stats().unwrap().live;
    let read = |y: Tensor| y.to_vec::<f32>().unwrap();
    let of_arguments = jit(|x: &Tensor, weights: &Vec<Tensor>| f(x, weights));
    let expected: Vec<Vec<f32>> = (xs.iter())
        .map(|x| read(of_arguments.call((x, weights))))
        .collect();
    let held = live();
    let of_constants = {
        let weights = weights.clone();
        jit(move |x: &Tensor| f(x, &weights))
    };
    for round in 0..2 {
        for (x, expected) in xs.iter().zip(&expected) {
            assert_eq!(&read(of_constants.call(x)), expected, "round {round}");
            assert_eq!(live(), held + weights.len() as u64, "one form of each weight");
        }
    }
    assert_eq!(of_constants.cache_len(), xs.len());
    of_constants.clear();
    assert_eq!(live(), held);
}

/// A context whose device no other test uses.
fn own_context() -> Context {
    let backend: Backend = crate::hal::runtime().backend("cpu").unwrap();
    Context::on(backend.open(&DeviceOptions::new(0)).unwrap())
}

fn numbers(shape: &[usize], cx: &Context) -> Tensor {
    let numbers: Vec<f32> = (0..shape.iter().product())
        .map(|at: usize| ((at * 37) % 101) as f32 / 50.0 - 1.0)
        .collect();
    Tensor::from_slice(&numbers, shape, cx)
}

#[test]
fn captured_matrices_are_packed_once_for_all_shapes_and_given_back() {
    let cx = own_context();
    let weights = vec![
        numbers(&[300, 200], &cx),
        numbers(&[70, 200], &cx).transpose(0, 1),
    ];
    let xs = [40, 3, 130].map(|rows| numbers(&[rows, 300], &cx));
    packed_once(&cx, &weights, &xs, |x, w| x.matmul(&w[0]).relu().matmul(&w[1]));
}

#[test]
fn captured_weights_of_convolutions_are_packed_once_too() {
    let cx = own_context();
    let xs = [[2, 40, 14, 14], [1, 40, 7, 7]].map(|shape| numbers(&shape, &cx));
    packed_once(&cx, &vec![numbers(&[64, 40, 3, 3], &cx)], &xs, |x, w| {
        x.conv2d(&w[0], None, ConvOptions::new().padding(1)).relu()
    });
}

#[test]
fn a_number_as_an_argument_is_not_traced_again() {
    let cx = context();
    let scale = jit(|x: &Tensor, factor: &Tensor| x * factor);
    let x = vector(&[1.0, 2.0], &cx);
    for factor in [2.0_f32, 3.0, 4.0] {
        let factor_everywhere = Tensor::constant(x.shape().unwrap(), DType::F32, factor.to_bits().into());
        let scaled = scale.call((&x, &factor_everywhere));
        assert_eq!(scaled.to_vec::<f32>().unwrap(), [factor, 2.0 * factor]);
    }
    assert_eq!(scale.cache_len(), 1);
}

#[test]
fn values_are_not_known_while_a_function_is_traced() {
    let cx = context();
    let branch =
        jit(|x: &Tensor| match x.sum().item::<f32>() {
            Ok(_) => x.clone(),
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with(
                    "item: the value of a traced tensor is not known while the function is traced"
                ));
                assert!(text.contains("jit/tests.rs"), "{text}");
                x + 1.0
            }
        });
    assert_eq!(branch.call(&vector(&[1.0], &cx)).item::<f32>().unwrap(), 2.0);
    let kept = parking_lot::Mutex::new(None);
    let leak = jit(|x: &Tensor| {
        *kept.lock() = Some(x * 2.0);
        x.clone()
    });
    let _ = leak.call(&vector(&[1.0], &cx)).ok().unwrap();
    let leaked = kept.lock().take().unwrap();
    assert!(
        leaked
            .to_vec::<f32>()
            .unwrap_err()
            .to_string()
            .starts_with("to_vec: the value of a traced")
    );
    let error = jit(|x: &Tensor| x * &leaked)
        .call(&vector(&[1.0], &cx))
        .shape()
        .unwrap_err();
    assert!(error.to_string().contains("traced"), "{error}");
}

#[test]
fn errors_come_out_and_are_not_kept() {
    let cx = context();
    let product = jit(|a: &Tensor, b: &Tensor| (a * b, a + a));
    let (a, b) = (vector(&[1.0, 2.0], &cx), vector(&[1.0, 2.0, 3.0], &cx));
    let (failed, other) = product.call((&a, &b));
    let text = failed.shape().unwrap_err().to_string();
    assert!(
        text.starts_with("mul: ") && text.contains("jit/tests.rs"),
        "{text}"
    );
    assert!(other.shape().unwrap_err().to_string().starts_with("mul: "));
    assert_eq!(product.cache_len(), 0);
    let failed = product.call((&failed, &a)).0;
    assert!(failed.shape().unwrap_err().to_string().starts_with("mul: "));
    let backend: Backend = crate::hal::runtime().backend("cpu").unwrap();
    let other = Context::on(backend.open(&DeviceOptions::new(0)).unwrap());
    let text = product
        .call((&a, &vector(&[1.0, 2.0], &other)))
        .0
        .shape()
        .unwrap_err()
        .to_string();
    assert!(text.contains("two devices"), "{text}");
}

#[test]
fn traced_functions_nest_and_mix_with_modes() {
    let cx = context();
    let inner = jit(|x: &Tensor| x * 2.0);
    let outer = jit(|x: &Tensor| inner.call(x) + 1.0);
    let x = vector(&[1.0, 2.0], &cx);
    assert_eq!(outer.call(&x).to_vec::<f32>().unwrap(), [3.0, 5.0]);
    assert_eq!((inner.cache_len(), outer.cache_len()), (0, 1));
    let graph = outer.graph(&x).unwrap();
    assert_eq!((graph.inputs().len(), graph.outputs().len()), (1, 1));
    cx.set_mode(Mode::Graph);
    let recorded = &x + 1.0;
    assert_eq!(outer.call(&recorded).to_vec::<f32>().unwrap(), [5.0, 7.0]);
    assert_eq!(outer.cache_len(), 1);
}

#[test]
fn devices_do_not_share_what_was_compiled() {
    let backend: Backend = crate::hal::runtime().backend("cpu").unwrap();
    let open = || Context::on(backend.open(&DeviceOptions::new(0)).unwrap());
    let (one, other) = (open(), open());
    let double = jit(|x: &Tensor| x + x);
    for cx in [&one, &other, &one] {
        let y = double.call(&vector(&[4.0], cx));
        assert_eq!(y.context().unwrap().device(), cx.device());
        assert_eq!(y.item::<f32>().unwrap(), 8.0);
    }
    assert_eq!(double.cache_len(), 2);
}

#[test]
fn many_threads_share_a_function() {
    let cx = context();
    let energy = jit(|x: &Tensor| ((x - 1.0) * (x - 1.0)).sum());
    std::thread::scope(|threads| {
        for thread in 0..4_u16 {
            let (cx, energy) = (&cx, &energy);
            threads.spawn(move || {
                for round in 0..200_u16 {
                    let len = usize::from(round % 7 + 1);
                    let value = f32::from(thread * 200 + round);
                    let x = Tensor::full([len], value, cx);
                    let expected = (value - 1.0) * (value - 1.0) * len as f32;
                    assert_eq!(energy.call(&x).item::<f32>().unwrap(), expected);
                }
            });
        }
    });
    assert_eq!(energy.cache_len(), 7);
}
