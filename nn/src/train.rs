//! One training step, as a function of values.

use crate::module::{self, Layer, Module};
use crate::optim::{Clip, LossScale, Optimizer, Update};
use std::sync::Arc;
use thalweg::{Context, DType, Tensor, Tree, jit, value_and_grad};

/// The loss of outputs and targets.
pub type LossFunction = Arc<dyn Fn(&Tensor, &Tensor) -> Tensor + Send + Sync>;

/// What a step is given: network, what its rules keep, inputs and targets.
pub(crate) type Given<N> = ((N, Kept, Vec<Tensor>), (Tensor, Tensor));
/// What a step makes: network, what its rules keep, and then loss and outputs.
pub(crate) type Made<N> = (N, Kept, (Tensor, Tensor));
/// Slots of each parameter that training changes, and the state of the loss scale.
pub(crate) type Kept = (Vec<Vec<Tensor>>, Option<Tensor>);

/// Parameters with an optimizer of their own.
#[derive(Clone)]
struct Group {
    which: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    optimizer: Arc<dyn Optimizer>,
}

/// The rules of a step.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) loss: LossFunction,
    pub(crate) clip: Option<Clip>,
    pub(crate) scale: Option<LossScale>,
    /// The first takes every parameter that no later one takes.
    groups: Vec<Group>,
}

impl Rules {
    pub(crate) fn new(loss: LossFunction, optimizer: Arc<dyn Optimizer>) -> Rules {
        let mut rules = Rules {
            loss,
            clip: None,
            scale: None,
            groups: Vec::new(),
        };
        rules.group(Arc::new(|_| true), optimizer);
        rules
    }

    pub(crate) fn group(
        &mut self,
        which: Arc<dyn Fn(&str) -> bool + Send + Sync>,
        optimizer: Arc<dyn Optimizer>,
    ) {
        self.groups.push(Group { which, optimizer });
    }

    /// The number of a parameter's group: the last that takes it.
    fn group_of(&self, path: &str) -> usize {
        let taken = self.groups.iter().rposition(|group| (group.which)(path));
        taken.unwrap_or_default()
    }

    /// The optimizer of parameters that are in no other group.
    pub(crate) fn optimizer(&self) -> &Arc<dyn Optimizer> {
        &self.groups[0].optimizer
    }

    /// Slots of zeros, and the loss scale at its start.
    pub(crate) fn start<N: Module>(&self, net: &N, cx: &Context) -> Kept {
        let slots = |(path, value): (String, Tensor)| {
            let count = self.groups[self.group_of(&path)].optimizer.slots();
            vec![value.zeros_like(); count]
        };
        let slots = module::trainable_named(net).into_iter().map(slots).collect();
        (slots, self.scale.map(|scale| scale.state(cx)))
    }

    /// Each group's scalars of a step as a tensor, f64 where a parameter is. `rate` makes a group's rate from its own.
    pub(crate) fn scalars<N: Module>(
        &self,
        net: &N,
        step: u64,
        rate: impl Fn(f64) -> f64,
        cx: &Context,
    ) -> Vec<Tensor> {
        let is_wide = |value: &Tensor| value.dtype().is_ok_and(|dtype| dtype == DType::F64);
        let wide = module::trainable(net).iter().any(is_wide);
        let of = |group: &Group| {
            let scalars = group
                .optimizer
                .scalars(step, rate(group.optimizer.learning_rate()));
            if wide {
                return Tensor::from_slice(&scalars, scalars.len(), cx);
            }
            let scalars: Vec<f32> = scalars.into_iter().map(|scalar| scalar as f32).collect();
            Tensor::from_slice(&scalars, scalars.len(), cx)
        };
        self.groups.iter().map(of).collect()
    }

    /// New values and slots of the parameters that training changes.
    fn update<N: Module>(
        &self,
        net: &N,
        grads: &[Tensor],
        slots: &[Vec<Tensor>],
        scalars: &[Tensor],
    ) -> (Vec<Tensor>, Vec<Vec<Tensor>>) {
        let scalars: Vec<Vec<Tensor>> = scalars.iter().map(elements).collect();
        let named = module::trainable_named(net);
        let update = |((path, value), (grad, slots)): (&(String, Tensor), (&Tensor, &Vec<Tensor>))| {
            let group = self.group_of(path);
            let of_dtype =
                |scalar: &Tensor| value.dtype().map_or_else(|_| scalar.clone(), |d| scalar.cast(d));
            let scalars: Vec<Tensor> = scalars[group].iter().map(of_dtype).collect();
            self.groups[group].optimizer.update(&Update {
                value,
                grad,
                slots,
                scalars: &scalars,
            })
        };
        named.iter().zip(grads.iter().zip(slots)).map(update).unzip()
    }
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
        let eager = Compiled::eager(rules);
        let (train, eval, predict) = (jit(eager.train), jit(eager.eval), jit(eager.predict));
        Compiled {
            train: Box::new(move |given| train.call(given)),
            eval: Box::new(move |given| eval.call(given)),
            predict: Box::new(move |given| predict.call(given)),
        }
    }
}

/// Forward, backward, update.
fn train_step<N: Layer + Tree>(rules: &Rules, given: &Given<N>) -> Made<N> {
    let ((net, (slots, scale), scalars), (x, y)) = given;
    let values = module::trainable(net);
    let forward = |values: &Vec<Tensor>| {
        let net = module::with_trainable(net, values);
        let output = net.forward(x);
        let loss = (rules.loss)(&output, y);
        let scaled = scale
            .as_ref()
            .map_or_else(|| loss.clone(), |state| LossScale::scale(&loss, state));
        (scaled, (loss, output, net))
    };
    let ((_, (loss, output, net)), mut grads) = value_and_grad(forward).call(&values);
    let mut scaled = None;
    if let (Some(rule), Some(state)) = (rules.scale, scale) {
        let (unscaled, finite, next) = rule.unscale(&grads, state);
        grads = unscaled;
        scaled = Some((finite, next));
    }
    if let Some(clip) = rules.clip {
        grads = clip.apply(&grads);
    }
    let (mut new_values, mut new_slots) = rules.update(&net, &grads, slots, scalars);
    if let Some((finite, _)) = &scaled {
        let keep = |new: &mut Tensor, old: &Tensor| *new = finite.where_cond(&*new, old);
        new_values
            .iter_mut()
            .zip(&values)
            .for_each(|(new, old)| keep(new, old));
        let slots = new_slots.iter_mut().flatten().zip(slots.iter().flatten());
        slots.for_each(|(new, old)| keep(new, old));
    }
    let net = module::with_trainable(&net, &new_values);
    (
        Tree::map(&net, &mut |tensor| tensor.detach()),
        (new_slots, scaled.map(|(_, next)| next)),
        (loss.detach(), output.detach()),
    )
}

/// The elements of a vector.
fn elements(vector: &Tensor) -> Vec<Tensor> {
    let count = vector.elements().unwrap_or_default() as i64;
    (0..count).map(|at| vector.select(0, at)).collect()
}

fn eval_step<N: Layer>(loss: &LossFunction, given: &(N, (Tensor, Tensor))) -> (Tensor, Tensor) {
    let (net, (x, y)) = given;
    let output = net.forward(x);
    (loss(&output, y), output)
}
