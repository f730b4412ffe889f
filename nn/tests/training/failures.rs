//! What callbacks see of gradients, failures, evaluations and predictions.

use super::{Net, context, loader, model, net, samples, weights};
use thalweg::{Mode, Tensor};
use thalweg_nn::callback::{Callback, RunContext};
use thalweg_nn::data::Loader;
use thalweg_nn::optim::Sgd;
use thalweg_nn::{Error, Model, Result, Trained, loss};

/// Fails in a step, and writes down what it hears of failures.
#[derive(Default)]
struct Failing {
    step: u64,
    heard: Vec<String>,
    ended: bool,
}

impl Callback for Failing {
    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        match run.cur_step_num == self.step {
            true => Err(Error::NoMetric {
                asked: "peace".to_owned(),
                found: "none".to_owned(),
            }),
            false => Ok(()),
        }
    }

    fn end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.ended = true;
        Ok(())
    }

    fn failed(&mut self, run: &mut RunContext<'_>, error: &Error) {
        let rows = run.inputs.as_ref().map(|x| x.shape().unwrap()[0]);
        let place = (run.cur_epoch_num, run.cur_step_in_epoch, run.cur_step_num, rows);
        self.heard
            .push(format!("{place:?} {}", error.to_string().lines().next().unwrap()));
    }
}

#[test]
fn every_callback_hears_of_a_failure_once() {
    let cx = context(Mode::Graph);
    let (mut first, mut second) = (
        Failing::default(),
        Failing {
            step: 6,
            ..Failing::default()
        },
    );
    let mut model = model(&cx);
    model
        .train(3, &loader(), (&mut first, Some(&mut second)))
        .unwrap_err();
    let wanted =
        "(2, 2, 6, Some(10)) there is no metric \"peace\" in the evaluation after the epoch; found: none";
    assert_eq!(
        (first.heard, second.heard),
        (vec![wanted.to_owned()], vec![wanted.to_owned()])
    );
    assert!(!first.ended && !second.ended);
}

#[test]
fn a_step_that_fails_is_told_with_its_inputs() {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let wrong = |output: &Tensor, y: &Tensor| (output - y).reshape([7]).sum();
        let mut model = Model::new(net(&cx), wrong, Sgd::new(0.1), &cx);
        let mut failing = Failing::default();
        model.train(1, &loader(), &mut failing).unwrap_err();
        let [heard] = &failing.heard[..] else {
            panic!("{:?}", failing.heard)
        };
        assert!(heard.starts_with("(1, 1, 1, Some(10)) reshape: "), "{heard}");
        let mut failing = Failing::default();
        model.eval_with(&loader(), &mut failing).unwrap_err();
        assert!(
            failing.heard[0].starts_with("(0, 0, 0, Some(10)) reshape: "),
            "{:?}",
            failing.heard
        );
    }
}

/// Norms of gradients by path, step by step.
#[derive(Default)]
struct Norms(Vec<Vec<(String, f64)>>);

impl Callback for Norms {
    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.0.push(run.gradient_norms_by_path()?);
        Ok(())
    }

    fn wants_gradient_norms(&mut self) -> bool {
        true
    }
}

/// Plain descent changes a parameter by its gradient times the rate.
#[test]
fn norms_of_gradients_are_those_of_the_steps() {
    let mut seen = Vec::new();
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let make = || Model::new(net(&cx), loss::mse, Sgd::new(0.125), &cx);
        let values = |model: &Model<Net>| -> Vec<Vec<f32>> {
            let values = model.trainable().into_iter();
            values.map(|(_, value)| value.to_vec::<f32>().unwrap()).collect()
        };
        let mut model = make();
        let before = values(&model);
        let mut norms = Norms::default();
        model
            .train_to(1, &Loader::new(samples(), 40), &mut norms)
            .unwrap();
        let after = values(&model);
        assert_eq!(norms.0.len(), 1);
        for ((old, new), (path, norm)) in before.iter().zip(&after).zip(&norms.0[0]) {
            let squares = old.iter().zip(new).map(|(old, new)| f64::from(old - new).powi(2));
            let wanted = squares.sum::<f64>().sqrt() / 0.125;
            assert!(
                (norm - wanted).abs() < 1e-4 * wanted.max(0.1),
                "{path}: {norm}, {wanted}"
            );
        }
        let paths: Vec<String> = model.trainable().into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            norms.0[0]
                .iter()
                .map(|(path, _)| path.clone())
                .collect::<Vec<_>>()
        );
        // They change no bit.
        cx.set_seed(3);
        let (mut with, mut without) = (make(), make());
        without.change(|net| *net = with.net().clone());
        let mut norms = Norms::default();
        let random = cx.random_state();
        with.train(2, &loader(), ((), &mut norms)).unwrap();
        cx.set_random_state(random.0, random.1);
        without.train(2, &loader(), ()).unwrap();
        assert_eq!(weights(&with), weights(&without));
        seen.push(norms.0);
    }
    assert_eq!(seen[0].len(), 8);
    assert_eq!(seen[0], seen[1]);
}

#[derive(Default)]
struct Evaluated {
    calls: Vec<String>,
    sum: f64,
}

impl Evaluated {
    fn note(&mut self, hook: &str, run: &RunContext<'_>) -> Result<()> {
        let rows = |tensor: &Option<Tensor>| tensor.as_ref().map_or(0, |x| x.shape().unwrap()[0]);
        let place = (run.eval_step, rows(&run.inputs), rows(&run.targets));
        self.calls.push(format!("{hook} {place:?}"));
        Ok(())
    }
}

impl Callback for Evaluated {
    fn eval_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.note("begin", run)
    }

    fn eval_step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.note("step_begin", run)
    }

    fn eval_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.sum += run.loss_value()?.unwrap();
        self.note("step_end", run)
    }

    fn eval_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        assert!((run.metrics["loss"] - self.sum / 2.0).abs() < 1e-9);
        self.note("end", run)
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        assert_eq!(run.net_outputs.as_ref().unwrap().shape()?.to_vec(), [10, 1]);
        self.note("epoch_end", run)
    }

    fn predict_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.note("predict_begin", run)
    }

    fn predict_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        assert_eq!(run.net_outputs.as_ref().unwrap().shape()?.to_vec(), [3, 1]);
        self.note("predict_end", run)
    }
}

#[test]
fn evaluations_and_predictions_have_callbacks() {
    let cx = context(Mode::Graph);
    let data = Loader::new(samples(), 20);
    let mut model = model(&cx);
    let mut seen = Evaluated::default();
    let figures = model.eval_with(&data, &mut seen).unwrap();
    assert_eq!(figures, model.eval(&data).unwrap());
    let evaluation = [
        "begin (0, 0, 0)",
        "step_begin (1, 20, 20)",
        "step_end (1, 20, 20)",
        "step_begin (2, 20, 20)",
        "step_end (2, 20, 20)",
        "end (0, 20, 20)",
    ];
    assert_eq!(seen.calls, evaluation);
    let mut seen = Evaluated::default();
    model = model.validate(data);
    model.train(1, &loader(), &mut seen).unwrap();
    assert_eq!(seen.calls[..6], evaluation);
    assert_eq!(seen.calls[6..], ["epoch_end (0, 0, 0)"]);
    let mut seen = Evaluated::default();
    let x = Tensor::ones([3, 3], thalweg::DType::F32, &cx);
    let output = model.predict_with(&x, &mut seen).unwrap();
    assert_eq!(
        output.to_vec::<f32>().unwrap(),
        model.predict(&x).to_vec::<f32>().unwrap()
    );
    assert_eq!(seen.calls, ["predict_begin (0, 3, 0)", "predict_end (0, 3, 0)"]);
}
