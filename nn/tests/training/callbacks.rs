//! Callbacks: their order, what they see, and those that are built in.

use super::{Net, context, loader, model, net, samples, weights};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg::{Mode, Tensor};
use thalweg_nn::callback::{
    BestCheckpoint, Better, Callback, EarlyStopping, LearningRateMonitor, LossMonitor, ModelCheckpoint,
    RunContext, StopAtTime, TimeMonitor,
};
use thalweg_nn::data::{Column, Dataset, Loader};
use thalweg_nn::metrics::Deviation;
use thalweg_nn::optim::Sgd;
use thalweg_nn::schedule::StepDecay;
use thalweg_nn::{Error, Model, Result, Trained, loss};

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
        Record { calls, name, stop_at }
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
    let mut model = Model::new(net(&cx), loss::mse, Sgd::new(1e30), &cx);
    let error = model.train(3, &loader(), LossMonitor::every(1)).unwrap_err();
    assert!(
        matches!(error, Error::Loss { epoch: 1, step, .. } if step > 1),
        "{error}"
    );
    assert!(error.to_string().contains("in epoch 1, step "), "{error}");
    let mut model = Model::new(net(&cx), loss::mse, Sgd::new(0.0), &cx);
    model.train(1, &loader(), ()).unwrap();
    model.change(|net| {
        let nan = Tensor::full([1], f32::NAN, &cx);
        net.second.bias.as_mut().unwrap().set_value(nan);
    });
    let error = model
        .train(3, &loader(), LossMonitor::every(7))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the loss is NaN in epoch 2, step 3 of 4 (step 7); "),
        "{error}"
    );
}

#[test]
fn early_stopping_waits_for_its_patience() {
    let cx = context(Mode::Graph);
    let mut model = Model::new(net(&cx), loss::mse, Sgd::new(0.0), &cx).validate(loader());
    let stop = EarlyStopping::new("loss", Better::Lower, 2).min_delta(10.0);
    model.train(9, &loader(), stop).unwrap();
    assert_eq!(model.steps(), 3 * 4);
    let unknown = EarlyStopping::new("f1", Better::Higher, 2);
    let error = model.train(9, &loader(), unknown).unwrap_err();
    let text = "there is no metric \"f1\" in the evaluation after the epoch; found: loss";
    assert_eq!(error.to_string(), text);
}

/// From every checkpoint of a run, within epochs and at their ends, before and after the callback in the list, also from the last.
#[test]
fn a_resumed_run_stops_where_a_whole_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(Mode::Graph);
    // Uphill after four epochs.
    let make = || -> Model<Net> {
        Model::new(net(&cx), loss::mse, Sgd::new(0.1), &cx)
            .schedule(|step: u64, base: f64| if step < 16 { base } else { -base })
            .validate(loader())
    };
    let stop = || EarlyStopping::new("loss", Better::Lower, 3);
    let save = |name: &str| ModelCheckpoint::to(folder.path().join(name)).keep(99);
    let mut whole = stop();
    let mut model = make();
    let callbacks = (save("before"), save("steps").every(3), &mut whole, save("after"));
    model.train(20, &loader(), callbacks).unwrap();
    let (steps, best) = (model.steps(), whole.best());
    assert!(best.is_some() && (20..40).contains(&steps), "{steps} steps");
    let mut files = 0;
    for name in ["before", "steps", "after"] {
        for file in std::fs::read_dir(folder.path().join(name)).unwrap() {
            let file = file.unwrap().path();
            let (mut model, mut resumed) = (make(), stop());
            model.load(&file).unwrap();
            model.train_to(20, &loader(), &mut resumed).unwrap();
            assert_eq!(
                (model.steps(), resumed.best()),
                (steps, best),
                "{}",
                file.display()
            );
            files += 1;
        }
    }
    assert_eq!(files, steps / 4 * 2 + steps.div_ceil(3));
    // Another model from the start, and the same one once more, are runs of their own.
    let mut other = make();
    other.train(1, &loader(), &mut whole).unwrap();
    assert_eq!(other.steps(), 4);
    model.train(20, &loader(), stop()).unwrap();
    assert!(model.steps() > steps + 4);
}

/// An epoch that a callback broke off is ended by the run that goes on, and counted once.
#[test]
fn early_stopping_counts_an_epoch_once() {
    struct Break(u64);
    impl Callback for Break {
        fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
            if run.cur_step_num == self.0 {
                run.request_stop();
            }
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.safetensors");
    let cx = context(Mode::Graph);
    let make = || -> Model<Net> { Model::new(net(&cx), loss::mse, Sgd::new(0.0), &cx).validate(loader()) };
    let stop = || EarlyStopping::new("loss", Better::Lower, 3).min_delta(10.0);
    let mut model = make();
    for at in [2, 6, 9] {
        if at > 2 {
            model = make();
            model.load(&path).unwrap();
        }
        model.train_to(9, &loader(), (stop(), Break(at))).unwrap();
        assert_eq!(model.steps(), at);
        model.save(&path).unwrap();
    }
    model.load(&path).unwrap();
    model.train_to(9, &loader(), stop()).unwrap();
    assert_eq!(model.steps(), 4 * 4);
}

/// What the run tells: the loss function gives the loss of the outputs, and rates, numbers and data are those of the run.
#[test]
fn a_run_context_tells_the_run() {
    struct Look(u64);
    impl Callback for Look {
        fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
            assert_eq!(
                (run.batch_num, run.epoch_num, run.train_dataset.unwrap().samples()),
                (4, 2, 40)
            );
            assert_eq!(run.optimizer.learning_rate(), 0.25);
            assert_eq!(
                run.learning_rate,
                [0.25, 0.125, 0.0625][(run.cur_step_num - 1) as usize / 3]
            );
            assert_eq!(run.cur_step_in_epoch, (run.cur_step_num - 1) % 4 + 1);
            let output = run.net_outputs.clone().unwrap();
            assert_eq!(output.shape()?.to_vec(), [10, 1]);
            // The loss of outputs as their own targets.
            assert_eq!((run.loss_fn)(&output, &output).to_scalar()?, 0.0);
            self.0 += 1;
            Ok(())
        }
    }
    let cx = context(Mode::Graph);
    let decay = StepDecay {
        every: 3,
        factor: 0.5,
    };
    let mut model = Model::new(net(&cx), loss::mse, Sgd::new(0.25), &cx).schedule(decay);
    let (mut look, mut rates, mut losses) = (Look(0), LearningRateMonitor::new(), LossMonitor::every(3));
    model
        .train(2, &loader(), (&mut look, &mut rates, &mut losses))
        .unwrap();
    assert_eq!(look.0, 8);
    assert_eq!(rates.rates(), [(1, 0.25), (4, 0.125), (7, 0.0625)]);
    let steps: Vec<u64> = losses.losses().iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [3, 4, 6, 8]);
}

/// Only the steps that ran count, also when an epoch ends early, and the evaluation is not part of their time.
#[test]
fn the_time_of_an_epoch_is_that_of_the_steps_that_ran() {
    struct Stop;
    impl Callback for Stop {
        fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
            std::thread::sleep(Duration::from_millis(20));
            if run.cur_step_num == 3 {
                run.request_stop();
            }
            Ok(())
        }
    }
    let cx = context(Mode::Graph);
    let slow = samples().map(|batch| {
        std::thread::sleep(Duration::from_millis(500));
        Ok(batch)
    });
    let mut model = model(&cx).validate(Loader::new(slow, 40));
    let mut time = TimeMonitor::new();
    let begun = Instant::now();
    model.train(9, &loader(), (&mut time, Stop)).unwrap();
    let all = begun.elapsed();
    let (epoch, steps) = time.last_epoch().unwrap();
    assert_eq!(steps, 3);
    assert!(
        epoch >= Duration::from_millis(60) && epoch + Duration::from_millis(500) <= all,
        "{epoch:?} of {all:?}"
    );
    assert_eq!(time.per_step().unwrap(), epoch.div_f64(3.0));
}

#[test]
fn training_stops_at_its_time_and_ends_its_epoch() {
    struct Count(Rc<RefCell<(u64, u64)>>);
    impl Callback for Count {
        fn step_end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
            std::thread::sleep(Duration::from_millis(10));
            self.0.borrow_mut().0 += 1;
            Ok(())
        }

        fn epoch_end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
            self.0.borrow_mut().1 += 1;
            Ok(())
        }
    }
    let cx = context(Mode::Graph);
    let counts = Rc::new(RefCell::new((0, 0)));
    let begun = Instant::now();
    let callbacks = (
        Count(Rc::clone(&counts)),
        StopAtTime::new(Duration::from_millis(100)),
    );
    model(&cx).train(100_000, &loader(), callbacks).unwrap();
    let (steps, epochs) = *counts.borrow();
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert!(
        steps <= 11 && epochs == steps.div_ceil(4),
        "{steps} steps, {epochs} epochs"
    );
}

/// The file is that of the best epoch, and a checkpoint callback that fails ends training with its error.
#[test]
fn the_best_checkpoint_is_that_of_the_best_epoch() {
    /// Keeps figure and weights of the best epoch by itself.
    struct Best(Option<f64>, Vec<(String, Vec<u8>)>);
    impl Callback for Best {
        fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
            let now = run.metrics["mse"];
            if self.0.is_none_or(|best| now < best) {
                let bytes = |tensor| Column::of(&tensor).unwrap().to_le_bytes();
                let named = run.model.named().into_iter();
                *self = Best(
                    Some(now),
                    named.map(|(name, tensor)| (name, bytes(tensor))).collect(),
                );
            }
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/best.safetensors");
    let cx = context(Mode::Graph);
    let (mut best, mut own) = (
        BestCheckpoint::new(&path, "mse", Better::Lower),
        Best(None, Vec::new()),
    );
    // Uphill after half of the steps.
    let mut trained = Model::new(net(&cx), loss::mse, Sgd::new(0.1), &cx)
        .schedule(|step: u64, base: f64| if step < 16 { base } else { -base })
        .metric(Deviation::mse())
        .validate(loader());
    trained.train(8, &loader(), (&mut best, &mut own)).unwrap();
    assert_eq!(best.best(), own.0);
    let mut loaded: Model<Net> = Model::new(net(&cx), loss::mse, Sgd::new(0.1), &cx);
    loaded.load(&path).unwrap();
    assert!(loaded.steps() < 32, "the last epoch was the best");
    assert_eq!(weights(&loaded), own.1);
    // A folder that is a file.
    let blocked = path.join("under");
    let error = trained
        .train(9, &loader(), BestCheckpoint::new(blocked, "mse", Better::Lower))
        .unwrap_err();
    assert!(error.to_string().contains("best.safetensors"), "{error}");
}

/// A run that goes on measures itself by the best figure of its past, and one from the start does not.
#[test]
fn the_best_checkpoint_outlives_a_resumed_run_that_is_worse() {
    let folder = tempfile::tempdir().unwrap();
    let (path, last) = (
        folder.path().join("best.safetensors"),
        folder.path().join("last.safetensors"),
    );
    let cx = context(Mode::Graph);
    let make = |rate: f64| -> Model<Net> {
        Model::new(net(&cx), loss::mse, Sgd::new(rate), &cx)
            .metric(Deviation::mse())
            .validate(loader())
    };
    let watch = || BestCheckpoint::new(&path, "mse", Better::Lower);
    let mut first = make(0.1);
    let mut best = watch();
    first.train(4, &loader(), &mut best).unwrap();
    first.save(&last).unwrap();
    let (figure, file) = (best.best(), std::fs::read(&path).unwrap());
    assert!(figure.is_some());
    let mut uphill = make(-1.0);
    uphill.load(&last).unwrap();
    let mut resumed = watch();
    uphill.train(6, &loader(), &mut resumed).unwrap();
    assert_eq!(resumed.best(), figure);
    assert!(std::fs::read(&path).unwrap() == file, "the better file is gone");
    let mut downhill = make(0.1);
    downhill.load(&last).unwrap();
    let mut resumed = watch();
    downhill.train(30, &loader(), &mut resumed).unwrap();
    assert!(resumed.best() < figure);
    let mut again = watch();
    make(-1.0).train(1, &loader(), &mut again).unwrap();
    assert!(again.best() > figure);
    let mut loaded = make(0.1);
    loaded.load(&path).unwrap();
    assert_eq!(loaded.steps(), 4);
    // The same callback for another model from the start.
    let before = again.best();
    make(0.1).train(8, &loader(), &mut again).unwrap();
    let better = again.best();
    assert!(better < before);
    make(-1.0).train(1, &loader(), &mut again).unwrap();
    assert!(again.best() > better);
}
