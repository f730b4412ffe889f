//! Central differences.

use crate::context::{Context, Mode};
use crate::grad::vjp;
use crate::tensor::Tensor;

/// An argument: extents and values.
#[derive(Clone, Debug)]
pub(super) struct Given {
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// Numbers of a fixed sequence between `low` and `high`.
pub(super) fn spread(seed: u64, low: f64, high: f64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        low + (high - low) * ((state >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

impl Given {
    pub(super) fn new(shape: &[usize], values: &[f64]) -> Given {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        Given {
            shape: shape.to_vec(),
            values: values.to_vec(),
        }
    }

    /// Values between `low` and `high`, different for every `seed`.
    pub(super) fn between(seed: u64, shape: &[usize], low: f64, high: f64) -> Given {
        let mut next = spread(seed, low, high);
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| next()).collect();
        Given::new(shape, &values)
    }

    /// Values of both signs, all distinct by far more than a difference's step.
    pub(super) fn any(seed: u64, shape: &[usize]) -> Given {
        Given::between(seed, shape, -2.0, 2.0)
    }

    pub(super) fn tensor(&self, cx: &Context) -> Tensor {
        Tensor::from_slice(&self.values, self.shape.clone(), cx)
    }
}

fn tensors(given: &[Given], cx: &Context) -> Vec<Tensor> {
    given.iter().map(|given| given.tensor(cx)).collect()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// Fixed weights of the shape of `y`, so that a sum of results has no symmetries.
fn weights(y: &Tensor, cx: &Context) -> Given {
    let shape = y.shape().unwrap_or_else(|error| panic!("{error}"));
    let given = Given::between(77, &shape, 0.5, 1.5);
    let _ = cx;
    given
}

fn gradients(function: &dyn Fn(&[Tensor]) -> Tensor, given: &[Given], cx: &Context) -> Vec<Vec<f64>> {
    let arguments = tensors(given, cx);
    let (y, pullback) = vjp(|x: &Vec<Tensor>| function(x), &arguments);
    let gradients = pullback.call(&weights(&y, cx).tensor(cx));
    gradients.iter().map(values).collect()
}

/// Compares every gradient of `function` with central differences: the error is below `1e-6 · (1 + |difference|)`, the step
/// `1e-5`; both modes give the same bits.
pub(super) fn check(name: &str, function: impl Fn(&[Tensor]) -> Tensor, given: &[Given]) {
    let cx = Context::new("cpu").unwrap();
    let exact = gradients(&function, given, &cx);
    let total = |given: &[Given]| -> f64 {
        let y = function(&tensors(given, &cx));
        let weights = weights(&y, &cx);
        (values(&y).iter().zip(&weights.values))
            .map(|(y, weight)| y * weight)
            .sum()
    };
    let step = 1e-5;
    for (argument, exact) in exact.iter().enumerate() {
        assert_eq!(
            exact.len(),
            given[argument].values.len(),
            "{name}: argument {argument}"
        );
        for (at, &exact) in exact.iter().enumerate() {
            let moved = |by: f64| {
                let mut given = given.to_vec();
                given[argument].values[at] += by;
                total(&given)
            };
            let difference = (moved(step) - moved(-step)) / (2.0 * step);
            let error = (exact - difference).abs();
            assert!(
                error <= 1e-6 * (1.0 + difference.abs()),
                "{name}: argument {argument}[{at}]: gradient {exact}, difference {difference}, {given:?}"
            );
        }
    }
    let graph = Context::new("cpu").unwrap();
    graph.set_mode(Mode::Graph);
    let recorded = gradients(&function, given, &graph);
    let bits = |all: &[Vec<f64>]| -> Vec<u64> { all.iter().flatten().map(|value| value.to_bits()).collect() };
    assert_eq!(
        bits(&exact),
        bits(&recorded),
        "{name}: {exact:?} eager, {recorded:?} as a graph"
    );
}

/// [`check`] of `function` and of its gradients.
pub(super) fn check_twice(name: &str, function: impl Fn(&[Tensor]) -> Tensor, given: &[Given]) {
    check(name, &function, given);
    for argument in 0..given.len() {
        let gradient = |x: &[Tensor]| {
            let (y, pullback) = vjp(|x: &Vec<Tensor>| function(x), &x.to_vec());
            let cx = x[0].context().unwrap();
            pullback.call(&weights(&y, cx).tensor(cx))[argument].clone()
        };
        check(&format!("{name}, gradient by {argument}"), gradient, given);
    }
}
