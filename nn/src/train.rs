//! One training step, as a function of values.

mod given;
mod kept;

pub(crate) use given::{Fed, Given};
pub(crate) use kept::{Kept, wide};

use crate::module::{self, Layer, Module, PartMut, State, Visitor, VisitorMut};
use crate::optim::{Clip, LossScale, Optimizer, Update};
use crate::summary::noted::{self, Noted};
use std::sync::Arc;
use thalweg::observe::{self, SpanKind, parts};
use thalweg::{Context, DType, Tensor, Tree, jit, value_and_grad};

/// The loss of outputs and targets.
pub type LossFunction = Arc<dyn Fn(&Tensor, &Tensor) -> Tensor + Send + Sync>;

/// What a step makes: network, what its rules keep, loss, outputs and the norms of gradients where they are asked for, and what was noted.
pub(crate) type Made<N> = (N, Kept, (Tensor, Tensor, Option<Tensor>), Noted);

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
    /// The name of its type.
    pub(crate) loss_name: &'static str,
    pub(crate) clip: Option<Clip>,
    pub(crate) scale: Option<LossScale>,
    /// The first takes every parameter that no later one takes.
    groups: Vec<Group>,
}

impl Rules {
    pub(crate) fn new(
        (loss, loss_name): (LossFunction, &'static str),
        optimizer: Arc<dyn Optimizer>,
    ) -> Rules {
        let mut rules = Rules {
            loss,
            loss_name,
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

    /// The optimizer of a parameter.
    fn optimizer_of(&self, path: &str) -> &dyn Optimizer {
        &*self.groups[self.group_of(path)].optimizer
    }

    /// The optimizer of parameters that are in no other group.
    pub(crate) fn optimizer(&self) -> &Arc<dyn Optimizer> {
        &self.groups[0].optimizer
    }

    /// Each group's learning rate as `rate` makes it from its own, `[groups]`, f64 where a parameter is.
    pub(crate) fn rates<N: Module>(&self, net: &N, rate: impl Fn(f64) -> f64, cx: &Context) -> Tensor {
        let rates = self
            .groups
            .iter()
            .map(|group| rate(group.optimizer.learning_rate()));
        if module::any_trainable(net, |value| value.dtype().is_ok_and(|dtype| dtype == DType::F64)) {
            return Tensor::from_vec(rates.collect::<Vec<f64>>(), self.groups.len(), cx);
        }
        Tensor::from_vec(
            rates.map(|rate| rate as f32).collect::<Vec<f32>>(),
            self.groups.len(),
            cx,
        )
    }

    /// New values and slots of the parameters that training changes. `steps` counts the updates of each, this one included.
    fn update<N: Module>(
        &self,
        net: &N,
        grads: &[Tensor],
        slots: &[Vec<Tensor>],
        steps: &Tensor,
        rates: &Tensor,
    ) -> (Vec<Tensor>, Vec<Vec<Tensor>>) {
        let steps = like(steps, rates);
        let of_group = |(group, at): (&Group, i64)| group.optimizer.scalars(&steps, &rates.select(0, at));
        let scalars: Vec<Vec<Tensor>> = self.groups.iter().zip(0..).map(of_group).collect();
        let mut updated = (Vec::new(), Vec::new());
        for (at, (path, value)) in module::trainable_named(net).into_iter().enumerate() {
            let _scope = observe::update_scope(&path);
            let (group, grad) = (self.group_of(&path), &grads[at]);
            let mine = |scalar: &Tensor| match scalar.rank() {
                Ok(1) => like(&scalar.select(0, at as i64), grad),
                _ => like(scalar, grad),
            };
            let (new, kept) = self.groups[group].optimizer.update(&Update {
                value: &like(&value, grad),
                grad,
                slots: &slots[at],
                scalars: &scalars[group].iter().map(mine).collect::<Vec<_>>(),
            });
            updated.0.push(like(&new, &value));
            updated.1.push(kept);
        }
        updated
    }
}

/// `tensor` in the dtype of another one.
fn like(tensor: &Tensor, other: &Tensor) -> Tensor {
    match other.dtype() {
        Ok(dtype) => tensor.cast(dtype),
        Err(_) => other.clone(),
    }
}

/// `tensor` in the dtype that parameters of its own are updated in.
fn widened(tensor: &Tensor) -> Tensor {
    match tensor.dtype() {
        Ok(dtype) => tensor.cast(wide(dtype)),
        Err(_) => tensor.clone(),
    }
}

/// A function of values.
type Step<A, B> = Box<dyn Fn(&A) -> B + Send + Sync>;
/// A function that may write its result into the memory of what it is given.
type Taking<A, B> = Box<dyn Fn(&mut A) -> B + Send + Sync>;

/// Steps and evaluations of a network, run op by op or compiled.
pub(crate) struct Compiled<N: Layer + Tree> {
    pub(crate) train: Taking<Given<N>, Made<N>>,
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
            predict: Box::new(|(net, x): &(N, Tensor)| {
                observe::restart_calls();
                noted::muted(|| forward(net, x))
            }),
        }
    }

    /// As one graph each.
    pub(crate) fn graph(rules: &Rules) -> Compiled<N> {
        let eager = Compiled::eager(rules);
        let train = rules.clone();
        let train = jit(move |given: &Given<N>| train_step(&train, given)).named("train step");
        let (eval, predict) = (
            jit(eager.eval).named("eval step"),
            jit(eager.predict).named("predict"),
        );
        Compiled {
            train: Box::new(move |given| train.call_donating(given)),
            eval: Box::new(move |given| eval.call(given)),
            predict: Box::new(move |given| predict.call(given)),
        }
    }
}

/// Forward, backward, update.
pub(crate) fn train_step<N: Layer + Tree>(rules: &Rules, given: &Given<N>) -> Made<N> {
    let Given {
        net: before,
        kept,
        fed: Some(Fed { rates, x, y }),
        asked,
    } = given
    else {
        unreachable!("a step has a batch")
    };
    observe::restart_calls();
    let forward = |values: &Vec<Tensor>| {
        let _forward = observe::phase(SpanKind::Forward);
        let net = module::with_trainable(before, values);
        let ((output, loss), seen) = noted::during(*asked, || {
            let output = forward(&net, x);
            let loss = loss_of(&rules.loss, &output, y);
            (output, loss)
        });
        let scaled = match &kept.scale {
            Some(state) => LossScale::scale(&loss, state),
            None => loss.clone(),
        };
        (scaled, (loss, output, net, seen))
    };
    let ((_, (loss, output, net, seen)), grads) = value_and_grad(forward).call(&module::trainable(before));
    let _update = observe::phase(SpanKind::Update);
    let _scope = observe::update_scope("");
    let mut grads: Vec<Tensor> = grads.iter().map(widened).collect();
    let mut scaled = None;
    if let (Some(rule), Some(state)) = (rules.scale, &kept.scale) {
        let (unscaled, finite, next) = rule.unscale(&grads, state);
        grads = unscaled;
        scaled = Some((finite, next));
    }
    let norms = (asked.norms && !grads.is_empty()).then(|| norms(&grads, rates));
    if let Some(clip) = rules.clip {
        grads = clip.apply(&grads);
    }
    let steps = &kept.steps + 1;
    let (values, slots) = rules.update(&net, &grads, &kept.slots, &steps, rates);
    let scale = scaled.as_ref().map(|(_, next)| next.clone());
    let mut made = (
        module::with_trainable(&net, &values),
        Kept { steps, slots, scale },
    );
    if let Some((finite, _)) = scaled {
        made.0 = net_if(&finite, &made.0, before);
        let mut old = Vec::new();
        kept.visit(&mut |tensor| old.push(tensor));
        // The scale comes last, and changes in any case.
        let mut old = old.into_iter().take(1 + kept.slots.iter().flatten().count());
        made.1 = made.1.map(&mut |new| match old.next() {
            Some(old) => finite.where_cond(new, old),
            None => new.clone(),
        });
    }
    (
        Tree::map(&made.0, &mut |tensor| tensor.detach()),
        made.1,
        (loss.detach(), output.detach(), norms),
        Tree::map(&seen, &mut |tensor| tensor.detach()),
    )
}

/// The L2 norm of each gradient, `[parameters]`.
fn norms(grads: &[Tensor], rates: &Tensor) -> Tensor {
    let norm = |grad: &Tensor| like(&grad.square().sum().sqrt(), rates);
    Tensor::stack(&grads.iter().map(norm).collect::<Vec<_>>(), 0)
}

/// What training changes and what forward passes change of `new` where `finite` holds, of `old` elsewhere.
fn net_if<N: Module>(finite: &Tensor, new: &N, old: &N) -> N {
    let mut before = Vec::new();
    module::visit_tensors(old, &mut |tensor| before.push(tensor));
    let mut before = before.into_iter();
    let mut net = new.clone();
    net.visit_mut(&mut VisitorMut::new(&mut |_, part| {
        if let PartMut::Training(_) = part {
            return;
        }
        match (part, before.next()) {
            (PartMut::Parameter(parameter), Some(old)) if parameter.is_trainable() => {
                let value = finite.where_cond(parameter.value(), old);
                parameter.set_value(value);
            }
            (PartMut::State(state), Some(old)) => *state = State::new(finite.where_cond(state.value(), old)),
            _ => {}
        }
    }));
    net
}

fn eval_step<N: Layer>(loss: &LossFunction, given: &(N, (Tensor, Tensor))) -> (Tensor, Tensor) {
    let (net, (x, y)) = given;
    observe::restart_calls();
    noted::muted(|| {
        let output = forward(net, x);
        (loss_of(loss, &output, y), output)
    })
}

/// The network's output. Its parts have names in it.
fn forward<N: Layer>(net: &N, x: &Tensor) -> Tensor {
    let noted = || net.visit(&mut Visitor::new(&mut |_, _| {}));
    parts::with(noted, || net.forward(x))
}

/// The loss, in a scope of its own.
fn loss_of(loss: &LossFunction, output: &Tensor, y: &Tensor) -> Tensor {
    let _scope = parts::child(|| "loss".to_owned());
    loss(output, y)
}
