//! Optimizers, limits on gradients and schedules against PyTorch's.

use super::{close, distance, numbers, stored};
use std::sync::Arc;
use thalweg::{Context, DType, Mode, Tensor, jit};
use thalweg_nn::optim::{Adagrad, Adam, Clip, Lion, LossScale, Optimizer, RmsProp, Sgd, Update};
use thalweg_nn::schedule::{
    Cosine, CosineRestarts, Exponential, OneCycle, Piecewise, Polynomial, Schedule, StepDecay, Warmup,
};
use thalweg_nn::{Layer, Model, Module, Parameter, loss, module};

/// Parameters after each step.
fn steps(rule: &dyn Optimizer, start: &Tensor, grads: &Tensor, compiled: bool) -> Vec<Tensor> {
    let (cx, dtype) = (start.context().unwrap(), start.dtype().unwrap());
    let update = |value: &Tensor, grad: &Tensor, slots: &Vec<Tensor>, (step, lr): &(Tensor, Tensor)| {
        rule.update(&Update {
            value,
            grad,
            slots,
            scalars: &rule.scalars(step, lr),
        })
    };
    let compile = jit(update);
    let mut slots = vec![start.zeros_like(); rule.slots()];
    let (mut value, mut after) = (start.clone(), Vec::new());
    for at in 0..grads.shape().unwrap()[0] {
        let scalar = |number: f64| Tensor::scalar(number, cx).cast(dtype);
        let scalars = (scalar(at as f64 + 1.0), scalar(rule.learning_rate()));
        let grad = grads.select(0, at as i64);
        (value, slots) = if compiled {
            compile.call((&value, &grad, &slots, &scalars))
        } else {
            update(&value, &grad, &slots, &scalars)
        };
        after.push(value.clone());
    }
    after
}

#[test]
fn optimizers_step_as_those_of_pytorch() {
    let rules: [(&str, &dyn Optimizer); 12] = [
        ("sgd", &Sgd::new(0.1)),
        ("sgd_decay", &Sgd::new(0.1).weight_decay(0.05)),
        (
            "momentum",
            &Sgd::new(0.1).momentum(0.9).dampening(0.3).weight_decay(0.05),
        ),
        ("nesterov", &Sgd::new(0.1).momentum(0.8).nesterov(true)),
        ("adam", &Adam::new(0.05).beta1(0.8).beta2(0.95).eps(1e-6)),
        ("adam_decay", &Adam::new(0.05).weight_decay(0.1)),
        ("adamw", &Adam::w(0.05).weight_decay(0.2)),
        ("rmsprop", &RmsProp::new(0.02).alpha(0.9).weight_decay(0.1)),
        (
            "rmsprop_centered",
            &RmsProp::new(0.02).alpha(0.9).momentum(0.7).centered(true),
        ),
        ("adagrad", &Adagrad::new(0.1).lr_decay(0.05).weight_decay(0.1)),
        ("lion", &Lion::new(0.01)),
        (
            "lion_decay",
            &Lion::new(0.01).beta1(0.8).beta2(0.9).weight_decay(0.3),
        ),
    ];
    let cx = Context::new("cpu").unwrap();
    let file = stored("optimizers", &cx);
    for (name, rule) in rules {
        let wanted = &file.tensors[&format!("{name}/step")];
        for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
            let given = |name: &str| file.tensors[name].cast(dtype);
            for compiled in [false, true] {
                let found = steps(rule, &given("start"), &given("grads"), compiled);
                let found = Tensor::stack(&found.iter().collect::<Vec<_>>(), 0);
                close(
                    &format!("{name}, {dtype}, compiled: {compiled}"),
                    &found,
                    wanted,
                    tolerance,
                );
            }
        }
    }
}

#[test]
fn limits_hold_as_those_of_pytorch() {
    let cx = Context::new("cpu").unwrap();
    let file = stored("optimizers", &cx);
    let grads = [0, 1].map(|at| file.tensors["grads"].select(0, at).cast(DType::F32));
    for (name, clip) in [
        ("clip_norm", Clip::Norm(1.5)),
        ("clip_loose_norm", Clip::Norm(99.0)),
        ("clip_value", Clip::Value(0.4)),
    ] {
        let limited = clip.apply(&grads);
        let limited = Tensor::stack(&limited.iter().collect::<Vec<_>>(), 0);
        close(name, &limited, &file.tensors[name], 1e-6);
        let wide = [0, 1].map(|at| file.tensors["grads"].select(0, at));
        let limited = clip.apply(&wide);
        let limited = Tensor::stack(&limited.iter().collect::<Vec<_>>(), 0);
        close(name, &limited, &file.tensors[name], 1e-12);
    }
}

/// A parameter whose gradient is the input.
#[derive(Clone, Module)]
struct Linear {
    weight: Parameter,
}

impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        (self.weight.value() * x).sum()
    }
}

#[test]
fn a_loss_scale_changes_as_that_of_pytorch() {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = Context::new("cpu").unwrap();
        cx.set_mode(mode);
        let file = stored("optimizers", &cx);
        let weight = Parameter::new(file.tensors["start"].cast(DType::F32));
        let rule = LossScale::dynamic().start(64.0).interval(3);
        let sum = |output: &Tensor, _: &Tensor| output.clone();
        let mut model = Model::new(Linear { weight }, sum, Sgd::new(0.1).momentum(0.9), &cx).loss_scale(rule);
        let (wanted, scales) = (
            &file.tensors["scaler/step"],
            numbers(&file.tensors["scaler/scale"]),
        );
        for (at, scale) in scales.iter().enumerate() {
            let mut x = file.tensors["grads"]
                .select(0, at as i64)
                .cast(DType::F32)
                .to_vec::<f32>()
                .unwrap();
            if [2, 3, 8].contains(&at) {
                x[0] = f32::INFINITY;
            }
            let x = Tensor::from_vec(x, 7, &cx);
            model.train_step(&x, &x).unwrap();
            let what = format!("{mode:?}, step {at}");
            close(
                &what,
                model.net().weight.value(),
                &wanted.select(0, at as i64),
                1e-6,
            );
            assert_eq!(model.current_loss_scale().unwrap(), Some(*scale), "{what}");
        }
    }
}

/// Steps that are left out are no steps of the optimizer, as PyTorch's `GradScaler` has it: what comes is what PyTorch has without
/// them. The first of all is left out, too.
#[test]
fn steps_that_are_left_out_do_not_count() {
    let rules: [(&str, Arc<dyn Optimizer>); 4] = [
        ("adam", Arc::new(Adam::new(0.05).beta1(0.8).beta2(0.95).eps(1e-6))),
        ("adamw", Arc::new(Adam::w(0.05).weight_decay(0.2))),
        (
            "momentum",
            Arc::new(Sgd::new(0.1).momentum(0.9).dampening(0.3).weight_decay(0.05)),
        ),
        (
            "adagrad",
            Arc::new(Adagrad::new(0.1).lr_decay(0.05).weight_decay(0.1)),
        ),
    ];
    for (mode, (name, rule)) in [Mode::Eager, Mode::Graph]
        .into_iter()
        .flat_map(|mode| rules.iter().map(move |rule| (mode, rule)))
    {
        let cx = Context::new("cpu").unwrap();
        cx.set_mode(mode);
        let file = stored("optimizers", &cx);
        let weight = Parameter::new(file.tensors["start"].cast(DType::F32));
        let sum = |output: &Tensor, _: &Tensor| output.clone();
        let scale = LossScale::dynamic().start(1024.0).interval(3);
        let mut model = Model::new(Linear { weight }, sum, Of(Arc::clone(rule)), &cx).loss_scale(scale);
        let bad = Tensor::full(7, f32::NAN, &cx);
        for at in 0..12 {
            let grad = file.tensors["grads"].select(0, at).cast(DType::F32);
            if [0, 1, 5, 6, 11].contains(&at) {
                model.train_step(&bad, &bad).unwrap();
            }
            model.train_step(&grad, &grad).unwrap();
            let wanted = file.tensors[&format!("{name}/step")].select(0, at);
            let what = format!("{name}, {mode:?}, step {at}");
            close(&what, model.net().weight.value(), &wanted, 1e-5);
        }
        assert_eq!(model.steps(), 17);
    }
}

/// An optimizer that is shared.
struct Of(Arc<dyn Optimizer>);

impl Optimizer for Of {
    fn learning_rate(&self) -> f64 {
        self.0.learning_rate()
    }

    fn slots(&self) -> usize {
        self.0.slots()
    }

    fn scalars(&self, step: &Tensor, lr: &Tensor) -> Vec<Tensor> {
        self.0.scalars(step, lr)
    }

    fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>) {
        self.0.update(given)
    }
}

/// The scale stays where f32 can hold it, above and below, and goes on from there.
#[test]
fn a_loss_scale_stays_in_its_range() {
    let cx = Context::new("cpu").unwrap();
    let (good, bad) = (Tensor::zeros(7, DType::F32, &cx), Tensor::full(7, f32::NAN, &cx));
    let model = |start: f64| {
        let weight = Parameter::new(Tensor::zeros(7, DType::F32, &cx));
        let rule = LossScale::dynamic().start(start).interval(1);
        let sum = |output: &Tensor, _: &Tensor| output.clone();
        Model::new(Linear { weight }, sum, Sgd::new(0.1), &cx).loss_scale(rule)
    };
    let (top, bottom) = (2.0_f64.powi(127), f64::from(f32::MIN_POSITIVE));
    let mut high = model(top / 2.0);
    for (x, scale) in [(&good, top), (&good, top), (&bad, top / 2.0), (&good, top)] {
        high.train_step(x, x).unwrap();
        assert_eq!(high.current_loss_scale().unwrap(), Some(scale));
    }
    let mut low = model(bottom * 2.0);
    for (x, scale) in [(&bad, bottom), (&bad, bottom), (&good, bottom * 2.0)] {
        low.train_step(x, x).unwrap();
        assert_eq!(low.current_loss_scale().unwrap(), Some(scale));
    }
}

/// Gradients that f16 holds only with the scale reach the parameter: it moves by what exact arithmetic says.
#[test]
fn gradients_of_f16_survive_their_scale() {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = Context::new("cpu").unwrap();
        cx.set_mode(mode);
        let steps: Vec<f64> = (0..7).map(|k| f64::from(k - 3)).collect();
        let of = |numbers: Vec<f64>| Tensor::from_vec(numbers, 7, &cx).cast(DType::F16);
        let x = of(steps.iter().map(|step| step * 2.0_f64.powi(-22)).collect());
        // The gradient is `x / 256`, at most 3 · 2^-30; the smallest number of f16 is 2^-24.
        let loss = |output: &Tensor, _: &Tensor| output.cast(DType::F32) / 256.0;
        let weight = || Parameter::new(of(vec![1.0; 7]));
        let scale = LossScale::fixed(4096.0);
        let mut plain =
            Model::new(Linear { weight: weight() }, loss, Sgd::new(2.0_f64.powi(25)), &cx).loss_scale(scale);
        plain.train_step(&x, &x).unwrap();
        let wanted: Vec<f64> = steps.iter().map(|step| 1.0 - step / 32.0).collect();
        assert_eq!(numbers(&plain.net().weight), wanted, "{mode:?}");
        assert_eq!(plain.net().weight.dtype().unwrap(), DType::F16);
        // The squares, 2^-56 and less, are kept, and Adam's first step has its rate's length.
        let adam = Adam::new(0.25).eps(1e-16);
        let mut model = Model::new(Linear { weight: weight() }, loss, adam, &cx).loss_scale(scale);
        model.train_step(&x, &x).unwrap();
        let wanted: Vec<f64> = steps
            .iter()
            .map(|step| 1.0 - if *step == 0.0 { 0.0 } else { step.signum() / 4.0 })
            .collect();
        assert_eq!(numbers(&model.net().weight), wanted, "{mode:?}");
    }
}

#[test]
fn schedules_follow_those_of_pytorch() {
    let cx = Context::new("cpu").unwrap();
    let file = stored("schedules", &cx);
    let pieces = vec![(4, 0.1), (9, 0.01)];
    let schedules: [(&str, &dyn Schedule); 8] = [
        (
            "step",
            &StepDecay {
                every: 3,
                factor: 0.5,
            },
        ),
        ("exponential", &Exponential { factor: 0.9 }),
        ("cosine", &Cosine { steps: 12, end: 0.05 }),
        (
            "restarts",
            &CosineRestarts {
                steps: 4,
                factor: 2,
                end: 0.05,
            },
        ),
        (
            "polynomial",
            &Polynomial {
                steps: 10,
                end: 0.0,
                power: 2.0,
            },
        ),
        ("piecewise", &Piecewise { pieces }),
        (
            "warmup",
            &Warmup {
                steps: 5,
                then: |_: u64, base: f64| base,
            },
        ),
        (
            "one_cycle",
            &OneCycle {
                steps: 20,
                up: 0.3,
                start_divisor: 10.0,
                end_divisor: 100.0,
            },
        ),
    ];
    for (name, schedule) in schedules {
        let wanted = numbers(&file.tensors[name]);
        let found: Vec<f64> = (0..wanted.len() as u64)
            .map(|step| schedule.rate(step, 0.4))
            .collect();
        let distance = distance(&found, &wanted);
        assert!(
            distance < 1e-12,
            "{name}: off by {distance:e}\n{found:?}\n{wanted:?}"
        );
    }
}

/// Each group goes its own way, what is frozen stays, and a parameter that is freed makes its first step as any other.
#[test]
fn groups_have_rules_of_their_own_and_frozen_parameters_stay() {
    #[derive(Clone, Module)]
    struct Net {
        first: Linear,
        second: Linear,
        third: Linear,
        fourth: Linear,
    }
    impl Layer for Net {
        fn forward(&self, x: &Tensor) -> Tensor {
            let outputs =
                [&self.first, &self.second, &self.third, &self.fourth].map(|layer| layer.forward(x));
            Tensor::stack(&outputs, 0).sum()
        }
    }
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = Context::new("cpu").unwrap();
        cx.set_mode(mode);
        let file = stored("optimizers", &cx);
        let start = file.tensors["start"].cast(DType::F32);
        let linear = || Linear {
            weight: Parameter::new(start.clone()),
        };
        let mut net = Net {
            first: linear(),
            second: linear(),
            third: linear(),
            fourth: linear(),
        };
        net.set_trainable(false, |path| {
            path.starts_with("third") || path.starts_with("fourth")
        });
        let sum = |output: &Tensor, _: &Tensor| output.clone();
        let dampened = Sgd::new(0.1).momentum(0.9).dampening(0.3).weight_decay(0.05);
        let mut model = Model::new(net, sum, Adam::w(0.05).weight_decay(0.2), &cx)
            .group(
                |path| path.starts_with("second"),
                Sgd::new(0.1).momentum(0.8).nesterov(true),
            )
            .group(|path| path.starts_with("fourth"), dampened)
            .schedule(|_: u64, base: f64| base);
        let wanted = |name: &str, at: i64| file.tensors[&format!("{name}/step")].select(0, at);
        let grad = |at: i64| file.tensors["grads"].select(0, at).cast(DType::F32);
        for at in 0..12 {
            model.train_step(&grad(at), &grad(at)).unwrap();
            let net = model.net();
            close("first", net.first.weight.value(), &wanted("adamw", at), 1e-5);
            close("second", net.second.weight.value(), &wanted("nesterov", at), 1e-5);
            assert_eq!(numbers(&net.third.weight), numbers(&start));
            assert_eq!(numbers(&net.fourth.weight), numbers(&start));
        }
        model.change(|net| net.set_trainable(true, |_| true));
        for at in 0..12 {
            model.train_step(&grad(at), &grad(at)).unwrap();
            let net = model.net();
            close("third", net.third.weight.value(), &wanted("adamw", at), 1e-5);
            close("fourth", net.fourth.weight.value(), &wanted("momentum", at), 1e-5);
        }
        assert_eq!(module::trainable(model.net()).len(), 4);
    }
}

#[test]
fn losses_are_the_ops_of_their_names() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[0.1_f32, 0.7, 0.4, 0.9], [2, 2], &cx);
    let y = Tensor::from_slice(&[0.0_f32, 1.0, 1.0, 0.5], [2, 2], &cx);
    let classes = Tensor::from_slice(&[1_i64, 0], 2, &cx);
    // By hand: means over the elements, or over the rows.
    let (a, b) = ((-0.6_f64).exp().ln_1p(), (0.5_f64).exp().ln_1p());
    for (name, loss, wanted) in [
        ("mse", loss::mse(&x, &y), (0.01 + 0.09 + 0.36 + 0.16) / 4.0),
        ("mae", loss::mae(&x, &y), (0.1 + 0.3 + 0.6 + 0.4) / 4.0),
        ("huber", loss::huber(&x, &y), (0.01 + 0.09 + 0.36 + 0.16) / 8.0),
        ("cross_entropy", loss::cross_entropy(&x, &classes), (a + b) / 2.0),
        ("nll", loss::nll(&x, &classes), -(0.7 + 0.4) / 2.0),
    ] {
        let found = loss.to_scalar().unwrap();
        assert!((found - wanted).abs() < 1e-6, "{name}: {found}, {wanted}");
    }
}
