//! Values of compiled convolutions, which have their channels last in memory.

use super::{taken, watch};
use thalweg::observe::Selector;
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, Tensor, jit};

fn numbers(shape: &[usize], cx: &Context) -> Tensor {
    let number = |at: usize| (at * 37 % 101) as f32 / 50.0 - 1.0;
    let numbers: Vec<f32> = (0..shape.iter().product()).map(number).collect();
    Tensor::from_slice(&numbers, shape, cx)
}

/// Two convolutions with a pool and a logarithm of what lies around 1 between them.
fn network(x: &Tensor, poison: &Tensor, weights: &[Tensor]) -> (Tensor, u32) {
    let made = x.conv2d(&weights[0], None, ConvOptions::new().padding(1));
    let pooled = made.max_pool2d(PoolOptions::new(3).stride(2).padding(1));
    let around = pooled.tanh() * 0.5 + 1.0;
    let line = line!() + 1;
    let log = (&around * poison).log();
    let made = log.conv2d(&weights[1], None, ConvOptions::new());
    let sum = (made + log).relu();
    (sum.global_avg_pool(), line)
}

fn operands(cx: &Context) -> (Tensor, Vec<Tensor>) {
    let weights = vec![numbers(&[32, 3, 3, 3], cx), numbers(&[32, 32, 1, 1], cx)];
    (numbers(&[2, 3, 9, 7], cx), weights)
}

#[test]
fn watched_images_are_the_eager_ones() {
    let cx = Context::new("cpu").unwrap();
    let (x, weights) = operands(&cx);
    let ones = Tensor::from_slice(&vec![1.0_f32; 2 * 32 * 5 * 4], [2, 32, 5, 4], &cx);
    let compiled = jit(|x: &Tensor, ones: &Tensor, weights: &Vec<Tensor>| network(x, ones, weights).0);
    let (watching, seen) = watch(&cx, Selector::all());
    network(&x, &ones, &weights).0.to_vec::<f32>().unwrap();
    let eager = taken(&seen);
    compiled.call((&x, &ones, &weights)).to_vec::<f32>().unwrap();
    drop(watching);
    let of = |seen: &[super::Seen]| -> Vec<_> {
        seen.iter()
            .map(|seen| (seen.op, seen.port, seen.bits.clone()))
            .collect()
    };
    assert_eq!(of(&taken(&seen)), of(&eager));
    assert!(eager.len() > 8, "{}", eager.len());
}

#[test]
fn a_nan_between_convolutions_is_found_at_its_place() {
    let cx = Context::new("cpu").unwrap();
    cx.check_numerics(true);
    let (x, weights) = operands(&cx);
    let compiled = jit(|x: &Tensor, poison: &Tensor, weights: &Vec<Tensor>| network(x, poison, weights).0);
    let place = [1, 17, 3, 2];
    let at = ((place[0] * 32 + place[1]) * 5 + place[2]) * 4 + place[3];
    for poisoned in [false, true, false] {
        let mut poison = vec![1.0_f32; 2 * 32 * 5 * 4];
        poison[at] = if poisoned { -1.0 } else { 1.0 };
        let poison = Tensor::from_slice(&poison, [2, 32, 5, 4], &cx);
        let line = network(&x, &poison, &weights).1;
        let result = compiled.call((&x, &poison, &weights)).to_vec::<f32>();
        if !poisoned {
            assert!(result.unwrap().iter().all(|number| number.is_finite()));
            continue;
        }
        let error = result.unwrap_err();
        let error = error.numerics().unwrap_or_else(|| panic!("{error}"));
        assert_eq!(
            (error.op.as_str(), error.index.as_slice()),
            ("log", &place[..]),
            "{error}"
        );
        assert_eq!(error.location.map(|at| at.line()), Some(line), "{error}");
        assert!(error.value.is_nan() && error.nan == 1 && error.infinite == 0);
    }
}
