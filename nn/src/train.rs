//! One training step, as a function of values.

use crate::module::{self, Layer, Module};
use crate::optim::{Clip, Optimizer};
use std::sync::Arc;
use thalweg::{Context, DType, Tensor, Tree, jit, value_and_grad};

/// The loss of outputs and targets.
pub(crate) type LossFunction = Arc<dyn Fn(&Tensor, &Tensor) -> Tensor + Send + Sync>;

/// What a step is given: network, slots of the optimizer, its scalars, inputs and targets.
pub(crate) type Given<N> = ((N, Vec<Tensor>, Tensor), (Tensor, Tensor));
/// What a step makes: network, slots, and then loss and outputs.
pub(crate) type Made<N> = (N, Vec<Tensor>, (Tensor, Tensor));

/// The rules of a step.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) loss: LossFunction,
    pub(crate) optimizer: Arc<dyn Optimizer>,
    pub(crate) clip: Option<Clip>,
    /// The loss is multiplied by this before gradients are taken, and they are divided by it.
    pub(crate) loss_scale: f64,
}

/// A function of values.
type Step<A, B> = Box<dyn Fn(&A) -> B + Send + Sync>;

/// Steps and evaluations of a network, run op by op or compiled.
pub(crate) struct Compiled<N: Layer + Tree> {
    pub(crate) train: Step<Given<N>, Made<N>>,
    pub(crate) eval: Step<(N, (Tensor, Tensor)), (Tensor, Tensor)>,
    pub(crate) predict: Step<(N, Tensor), Tensor>,
}

impl<N: Layer + Tree + Send + Sync + 'static> Compiled<N> {
    /// Op by op.
    pub(crate) fn eager(rules: &Rules) -> Compiled<N> {
        let (train, eval) = (rules.clone(), Arc::clone(&rules.loss));
        Compiled {
            train: Box::new(move |given| train_step(&train, given)),
            eval: Box::new(move |given| eval_step(&eval, given)),
            predict: Box::new(|(net, x): &(N, Tensor)| net.forward(x)),
        }
    }

    /// As one graph each.
    pub(crate) fn graph(rules: &Rules) -> Compiled<N> {
        let (train, eval) = (rules.clone(), Arc::clone(&rules.loss));
        let train = jit(move |given: &Given<N>| train_step(&train, given));
        let eval = jit(move |given: &(N, (Tensor, Tensor))| eval_step(&eval, given));
        let predict = jit(|given: &(N, Tensor)| given.0.forward(&given.1));
        Compiled {
            train: Box::new(move |given| train.call(given)),
            eval: Box::new(move |given| eval.call(given)),
            predict: Box::new(move |given| predict.call(given)),
        }
    }
}

/// Forward, backward, update.
fn train_step<N: Layer + Tree>(rules: &Rules, given: &Given<N>) -> Made<N> {
    let ((net, slots, scalars), (x, y)) = given;
    let values = module::trainable(net);
    let forward = |values: &Vec<Tensor>| {
        let net = module::with_trainable(net, values);
        let output = net.forward(x);
        let loss = (rules.loss)(&output, y);
        let scaled = if rules.loss_scale == 1.0 {
            loss.clone()
        } else {
            &loss * rules.loss_scale
        };
        (scaled, (loss, output, net))
    };
    let ((_, (loss, output, net)), mut grads) = value_and_grad(forward).call(&values);
    if rules.loss_scale != 1.0 {
        grads = grads.iter().map(|grad| grad / rules.loss_scale).collect();
    }
    if let Some(clip) = rules.clip {
        grads = clip.apply(&grads);
    }
    let count = rules.optimizer.slots();
    let (mut new_values, mut new_slots) = (Vec::new(), Vec::new());
    for (at, (value, grad)) in values.iter().zip(&grads).enumerate() {
        let scalars = split(
            scalars,
            value.dtype().unwrap_or(DType::F32),
            rules.optimizer.scalars(1, 0.0).len(),
        );
        let (value, slots) =
            rules
                .optimizer
                .update(value, grad, &slots[at * count..(at + 1) * count], &scalars);
        new_values.push(value);
        new_slots.extend(slots);
    }
    let net = module::with_trainable(&net, &new_values);
    (
        Tree::map(&net, &mut |tensor| tensor.detach()),
        new_slots,
        (loss.detach(), output.detach()),
    )
}

/// The elements of a vector as scalars of a dtype.
fn split(vector: &Tensor, dtype: DType, count: usize) -> Vec<Tensor> {
    (0..count as i64)
        .map(|at| vector.select(0, at).cast(dtype))
        .collect()
}

fn eval_step<N: Layer>(loss: &LossFunction, given: &(N, (Tensor, Tensor))) -> (Tensor, Tensor) {
    let (net, (x, y)) = given;
    let output = net.forward(x);
    (loss(&output, y), output)
}

/// Slots of zeros for the parameters of a network, in the order of [`module::trainable`].
pub(crate) fn slots<N: Module>(net: &N, optimizer: &dyn Optimizer) -> Vec<Tensor> {
    let of = |value: &Tensor| std::iter::repeat_n(value.zeros_like(), optimizer.slots()).collect::<Vec<_>>();
    module::trainable(net).iter().flat_map(of).collect()
}

/// The optimizer's scalars of a step as a tensor.
pub(crate) fn scalars(optimizer: &dyn Optimizer, step: u64, lr: f64, cx: &Context) -> Tensor {
    let scalars: Vec<f32> = optimizer
        .scalars(step, lr)
        .into_iter()
        .map(|scalar| scalar as f32)
        .collect();
    Tensor::from_slice(&scalars, scalars.len(), cx)
}
