//! Training, resuming, saving and callbacks.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use thalweg::{Context, Mode, Tensor};
use thalweg_nn::callback::{Better, Callback, EarlyStopping, LossMonitor, ModelCheckpoint, RunContext};
use thalweg_nn::data::{Column, InMemory, Loader};
use thalweg_nn::metrics::Deviation;
use thalweg_nn::optim::{Adam, Clip, Sgd};
use thalweg_nn::{BatchNorm, Dense, Error, Layer, Model, Module, Result, Trained};

#[derive(Clone, Module)]
struct Net {
    first: Dense,
    norm: BatchNorm,
    second: Dense,
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.second
            .forward(&self.norm.forward(&self.first.forward(x)).tanh())
    }
}

fn context(mode: Mode) -> Context {
    let cx = Context::new("cpu").unwrap();
    cx.set_seed(3);
    cx.set_mode(mode);
    cx
}

fn net(cx: &Context) -> Net {
    Net {
        first: Dense::new(3, 8, cx).unwrap(),
        norm: BatchNorm::new(8, cx).unwrap(),
        second: Dense::new(8, 1, cx).unwrap(),
    }
}

fn mse(output: &Tensor, target: &Tensor) -> Tensor {
    ((output - target) * (output - target)).mean()
}

/// Samples of a smooth function.
fn samples() -> InMemory {
    let x: Vec<f32> = (0..120).map(|i| ((i * 37 % 100) as f32) / 50.0 - 1.0).collect();
    let y = x.chunks(3).map(|x| x[0] * x[1] + 0.5 * x[2]).collect();
    InMemory::new(Column::F32(x), &[3], Column::F32(y), &[1]).unwrap()
}

fn loader() -> Loader {
    Loader::new(samples(), 10).shuffle(5)
}

fn model(cx: &Context) -> Model<Net> {
    Model::new(net(cx), mse, Adam::new(0.02), cx).clip(Clip::Norm(5.0))
}

fn weights(model: &Model<Net>) -> Vec<(String, Vec<f32>)> {
    model
        .named()
        .into_iter()
        .map(|(name, tensor)| (name, tensor.to_vec().unwrap()))
        .collect()
}

fn none<'a>() -> Vec<Box<dyn Callback + 'a>> {
    Vec::new()
}

#[test]
fn training_lowers_the_loss_and_both_modes_give_the_same_bits() {
    let mut results = Vec::new();
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let mut model = model(&cx).metric(Deviation::mse());
        let before = model.eval(&loader()).unwrap();
        model.train(10, &loader(), none()).unwrap();
        let after = model.eval(&loader()).unwrap();
        assert!(after["loss"] < before["loss"] * 0.5, "{before:?} {after:?}");
        assert!((after["loss"] - after["mse"]).abs() < 1e-6);
        results.push(weights(&model));
    }
    assert_eq!(results[0], results[1]);
    let names: Vec<&str> = results[0].iter().map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "first.weight",
        "first.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "second.weight",
        "second.bias",
    ];
    assert_eq!(names, wanted);
    // Running statistics have moved.
    assert!(results[0][4].1.iter().any(|&mean| mean != 0.0));
}

#[test]
fn a_resumed_run_has_the_bits_of_one_that_ran_through() {
    /// Saves after a step in the middle of an epoch and stops.
    struct SaveAndStop<'a>(&'a Path);
    impl Callback for SaveAndStop<'_> {
        fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
            if run.cur_step_num == 5 {
                run.model.save(self.0)?;
                run.request_stop();
            }
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.safetensors");
    let cx = context(Mode::Graph);
    let mut whole = model(&cx);
    whole.train(4, &loader(), none()).unwrap();
    let cx = context(Mode::Graph);
    let mut first = model(&cx);
    first
        .train(4, &loader(), [Box::new(SaveAndStop(&path)) as Box<dyn Callback>])
        .unwrap();
    assert_eq!(first.steps(), 5);
    // Another start, replaced by what was saved.
    cx.set_seed(99);
    let mut second = model(&cx);
    second.load(&path).unwrap();
    second.train(4, &loader(), none()).unwrap();
    assert_eq!(
        (second.steps(), weights(&second)),
        (whole.steps(), weights(&whole))
    );
}

/// Writes down each call, and asks to stop.
struct Record {
    calls: Rc<RefCell<Vec<String>>>,
    name: &'static str,
    stop_at: u64,
}

impl Record {
    fn note(&self, hook: &str, run: &RunContext<'_>) -> Result<()> {
        let (epoch, step) = (run.cur_epoch_num, run.cur_step_num);
        self.calls
            .borrow_mut()
            .push(format!("{}.{hook} {epoch}/{step}", self.name));
        Ok(())
    }
}

impl Callback for Record {
    fn begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        run.values.insert(self.name.into(), Box::new(7_u32));
        self.note("begin", run)
    }

    fn epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.note("epoch_begin", run)
    }

    fn step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.note("step_begin", run)
    }

    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        assert!(run.loss_value()?.is_some() && run.net_outputs.is_some());
        if run.cur_step_num == self.stop_at {
            run.request_stop();
        }
        self.note("step_end", run)
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.note("epoch_end", run)
    }

    fn end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        assert_eq!(run.values["a"].downcast_ref(), Some(&7_u32));
        self.note("end", run)
    }
}

#[test]
fn callbacks_run_in_order_and_a_stop_still_ends_epoch_and_run() {
    let cx = context(Mode::Graph);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let record = |name, stop_at| {
        let calls = Rc::clone(&calls);
        Box::new(Record { calls, name, stop_at }) as Box<dyn Callback>
    };
    model(&cx)
        .train(9, &loader(), [record("a", 0), record("b", 2)])
        .unwrap();
    let hooks = [
        "begin 0/0",
        "epoch_begin 1/0",
        "step_begin 1/1",
        "step_end 1/1",
        "step_begin 1/2",
        "step_end 1/2",
        "epoch_end 1/2",
        "end 1/2",
    ];
    let wanted: Vec<String> = hooks
        .iter()
        .flat_map(|hook| ["a", "b"].map(|name| format!("{name}.{hook}")))
        .collect();
    assert_eq!(*calls.borrow(), wanted);
}

#[test]
fn a_loss_that_is_no_number_stops_with_its_place() {
    let cx = context(Mode::Graph);
    let mut model = Model::new(net(&cx), mse, Sgd::new(1e30), &cx);
    let monitor = Box::new(LossMonitor::every(1)) as Box<dyn Callback>;
    let error = model.train(3, &loader(), [monitor]).unwrap_err();
    assert!(
        matches!(error, Error::Loss { epoch: 1, step, .. } if step > 1),
        "{error}"
    );
    assert!(error.to_string().contains("in epoch 1, step "), "{error}");
}

#[test]
fn early_stopping_waits_for_its_patience() {
    let cx = context(Mode::Graph);
    let mut model = Model::new(net(&cx), mse, Sgd::new(0.0), &cx).validate(loader());
    let stop = EarlyStopping::new("loss", Better::Lower, 2).min_delta(10.0);
    model
        .train(9, &loader(), [Box::new(stop) as Box<dyn Callback>])
        .unwrap();
    assert_eq!(model.steps(), 3 * 4);
    let unknown = EarlyStopping::new("f1", Better::Higher, 2);
    let error = model
        .train(9, &loader(), [Box::new(unknown) as Box<dyn Callback>])
        .unwrap_err();
    let text = "there is no metric \"f1\" in the evaluation after the epoch; found: loss";
    assert_eq!(error.to_string(), text);
}

#[test]
fn checkpoints_are_kept_by_number_and_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(Mode::Graph);
    let keep = ModelCheckpoint::to(folder.path()).every(3).keep(2);
    let mut trained = model(&cx);
    trained
        .train(3, &loader(), [Box::new(keep) as Box<dyn Callback>])
        .unwrap();
    let mut files: Vec<_> = (std::fs::read_dir(folder.path()).unwrap())
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["step-00000009.safetensors", "step-00000012.safetensors"]);

    let before = weights(&trained);
    let whole = std::fs::read(folder.path().join(&files[1])).unwrap();
    let path = folder.path().join("bad.safetensors");
    for end in [0, 7, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..end]).unwrap();
        assert!(trained.load(&path).is_err(), "{end}");
    }
    let mut other = Model::new(Dense::new(3, 8, &cx).unwrap(), mse, Adam::new(0.1), &cx);
    let error = other.load(folder.path().join(&files[1])).unwrap_err().to_string();
    assert!(error.contains("there is no tensor \"weight\""), "{error}");
    assert!(trained.load(folder.path().join("none")).is_err());
    assert_eq!(weights(&trained), before);
}

/// A child process that saves again and again is killed 50 times; what is under the name is always a whole checkpoint.
#[test]
fn killing_a_process_leaves_the_last_good_checkpoint() {
    const CHILD: &str = "THALWEG_TEST_SAVES_TO";
    let cx = context(Mode::Graph);
    if let Some(path) = std::env::var_os(CHILD) {
        let model = model(&cx);
        loop {
            model.save(Path::new(&path)).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let mut reader = model(&cx);
    reader.save(&path).unwrap();
    let before = weights(&reader);
    let program = std::env::current_exe().unwrap();
    for round in 0..50 {
        let mut child = std::process::Command::new(&program)
            .args([
                "--exact",
                "killing_a_process_leaves_the_last_good_checkpoint",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(15 + round % 10));
        child.kill().unwrap();
        child.wait().unwrap();
        reader.load(&path).unwrap();
        assert_eq!(weights(&reader), before);
    }
}
