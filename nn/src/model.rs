//! Training, evaluation and prediction.

mod eval;
mod persist;
mod seen;
mod told;
mod watch;

pub use persist::Trained;
pub use seen::Described;

use crate::callback::{Callback, Hook, Times};
use crate::data::Loader;
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::module::{self, Layer};
use crate::optim::{Clip, LossScale, Optimizer};
use crate::schedule::{Constant, Schedule};
use crate::summary::noted::Asked;
use crate::summary::record;
use crate::train::{Compiled, Given, Kept, LossFunction, Rules};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use thalweg::observe::{self, SpanKind};
use thalweg::{Context, Mode, Tensor, Tree};
use told::Told;
use watch::Watch;

/// A network with what it takes to train it.
///
/// The mode of the context decides how: in graph mode forward, backward and update of a step are one compiled graph, in
/// eager mode the same code runs op by op.
///
/// ```
/// use thalweg::{Context, Mode};
/// use thalweg_nn::data::{Loader, Rows, Samples};
/// use thalweg_nn::{Dense, Model, callback::EarlyStopping, callback::Better, loss, optim::Sgd};
///
/// let cx = Context::new("cpu")?;
/// cx.set_mode(Mode::Graph);
/// let (x, y) = (vec![0.0_f32, 1.0, 2.0, 3.0], vec![1.0_f32, 3.0, 5.0, 7.0]);
/// let data = Loader::new(Samples::new(Rows::new(x, &[1])?, Rows::new(y, &[1])?)?, 4);
/// let mut model = Model::new(Dense::new(1, 1, &cx)?, loss::mse, Sgd::new(0.1), &cx).validate(data.clone());
/// model.train(200, &data, (EarlyStopping::new("loss", Better::Lower, 5),))?;
/// assert!((model.net().weight.to_vec::<f32>()?[0] - 2.0).abs() < 0.1);
/// # Ok::<(), thalweg_nn::Error>(())
/// ```
pub struct Model<N: Layer + Tree> {
    given: Given<N>,
    rules: Rules,
    schedule: Box<dyn Schedule>,
    metrics: Vec<Box<dyn Metric>>,
    cx: Context,
    step: u64,
    // Whole epochs that were trained, and steps of the one that follows.
    epoch: u64,
    done: u64,
    notes: BTreeMap<String, String>,
    loaded: bool,
    // Whether steps note nothing, which is known after the first that was asked.
    silent: bool,
    eager: Compiled<N>,
    graph: Compiled<N>,
    validation: Option<Loader>,
}

impl<N: Layer + Tree + Send + Sync + 'static> Model<N> {
    /// A model on the device of `cx`, where the network's parameters are. [`loss`](mod@crate::loss) has the usual losses.
    pub fn new(
        net: N,
        loss: impl Fn(&Tensor, &Tensor) -> Tensor + Send + Sync + 'static,
        optimizer: impl Optimizer + 'static,
        cx: &Context,
    ) -> Model<N> {
        let name = std::any::type_name_of_val(&loss);
        let loss: LossFunction = Arc::new(loss);
        let rules = Rules::new((loss, name), Arc::new(optimizer));
        Model {
            given: Given {
                kept: Kept::start(&rules, &net, cx),
                net,
                fed: None,
                asked: Asked::default(),
            },
            eager: Compiled::eager(&rules),
            graph: Compiled::graph(&rules),
            rules,
            schedule: Box::new(Constant),
            metrics: Vec::new(),
            cx: cx.clone(),
            step: 0,
            epoch: 0,
            done: 0,
            notes: BTreeMap::new(),
            loaded: false,
            silent: false,
            validation: None,
        }
    }

    fn with_rules(mut self, change: impl FnOnce(&mut Rules)) -> Model<N> {
        change(&mut self.rules);
        self.eager = Compiled::eager(&self.rules);
        self.graph = Compiled::graph(&self.rules);
        self
    }

    /// Updates the parameters whose path `which` picks by an optimizer of their own, with its own rate, decay and so on. Of
    /// several groups that pick a parameter the last counts; the schedule applies to each group's rate. In a model that was trained or
    /// loaded, what the optimizer keeps starts at zero for these parameters, and goes on for others.
    ///
    /// ```
    /// use thalweg::Context;
    /// use thalweg_nn::{Dense, Model, loss, optim::Adam};
    /// let cx = Context::new("cpu")?;
    /// let model = Model::new(Dense::new(3, 2, &cx)?, loss::mse, Adam::w(1e-3), &cx)
    ///     .group(|path| path.ends_with("bias"), Adam::w(1e-3).weight_decay(0.0));
    /// # let _ = model;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    pub fn group(
        self,
        which: impl Fn(&str) -> bool + Send + Sync + 'static,
        optimizer: impl Optimizer + 'static,
    ) -> Model<N> {
        let (which, before) = (Arc::new(which), module::trainable_paths(&self.given.net));
        let picked = Arc::clone(&which);
        let mut model = self.with_rules(|rules| rules.group(picked, Arc::new(optimizer)));
        let of = (&model.rules, &model.given.net, &model.cx);
        model.given.kept = model.given.kept.carried(&before, |path| !which(path), of);
        model
    }

    /// Figures that [`Model::eval`] gives, besides the loss.
    #[must_use]
    pub fn metric(mut self, metric: impl Metric + 'static) -> Model<N> {
        self.metrics.push(Box::new(metric));
        self
    }

    /// The learning rate of each step.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Schedule + 'static) -> Model<N> {
        self.schedule = Box::new(schedule);
        self
    }

    /// Limits gradients.
    #[must_use]
    pub fn clip(self, clip: Clip) -> Model<N> {
        self.with_rules(|rules| rules.clip = Some(clip))
    }

    /// Scales the loss, for gradients in f16; the scale starts here.
    #[must_use]
    pub fn loss_scale(self, scale: LossScale) -> Model<N> {
        let mut model = self.with_rules(|rules| rules.scale = Some(scale));
        model.given.kept.scale = Some(scale.state(&model.cx));
        model
    }

    /// Evaluates on this data after each epoch, before callbacks hear of the epoch's end.
    #[must_use]
    pub fn validate(mut self, data: Loader) -> Model<N> {
        self.validation = Some(data);
        self
    }

    /// The network.
    pub fn net(&self) -> &N {
        &self.given.net
    }

    /// Changes the network, for example which parameters are trained. What optimizers keep goes on for parameters that were
    /// trained before under the same path, shape and dtype, and starts at zero for others.
    pub fn change(&mut self, change: impl FnOnce(&mut N)) {
        let before = module::trainable_paths(&self.given.net);
        change(&mut self.given.net);
        let of = (&self.rules, &self.given.net, &self.cx);
        self.given.kept = self.given.kept.carried(&before, |_| true, of);
    }

    /// Steps that were done, also those that a [`LossScale`] left without effect.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Whole epochs that were trained, over all calls and files.
    pub fn epochs(&self) -> u64 {
        self.epoch
    }

    /// The scale of the next step's loss, if it is scaled.
    ///
    /// # Errors
    /// What computing it failed with.
    pub fn current_loss_scale(&self) -> Result<Option<f64>> {
        let scale = self
            .given
            .kept
            .scale
            .as_ref()
            .map(|state| state.select(0, 0).to_scalar());
        Ok(scale.transpose()?)
    }

    fn compiled(&self) -> &Compiled<N> {
        match self.cx.mode() {
            Mode::Eager => &self.eager,
            Mode::Graph => &self.graph,
        }
    }

    /// Does one step and returns loss and outputs; the device may still be at work on them.
    ///
    /// # Errors
    /// The first error that loss, outputs or the changed network carry, such as that of a batch whose shape does not fit. Network,
    /// optimizers and position are as before then. What goes wrong on the device later, tensors tell when they are read.
    pub fn train_step(&mut self, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
        let (loss, output, _) = self.step(x, y, false)?;
        Ok((loss, output))
    }

    /// As [`Model::train_step`], with the norms of gradients where they are asked for.
    fn step(&mut self, x: &Tensor, y: &Tensor, norms: bool) -> Result<(Tensor, Tensor, Option<Tensor>)> {
        let asked = self.asked(norms);
        self.given.asked = asked;
        self.given.fed = Some(self.fed(x, y));
        let compiled = match self.cx.mode() {
            Mode::Eager => &self.eager,
            Mode::Graph => &self.graph,
        };
        let made = (compiled.train)(&mut self.given);
        self.given.fed = None;
        let mut failed = None;
        let mut look = |tensor: &Tensor| {
            if failed.is_none() {
                failed = tensor.dtype().err();
            }
        };
        Tree::visit(&made.2, &mut look);
        Tree::visit(&made.0, &mut look);
        Tree::visit(&made.1, &mut look);
        if let Some(error) = failed {
            return Err(error.into());
        }
        let (net, kept, shown, seen) = made;
        (self.given.net, self.given.kept) = (net, kept);
        self.step += 1;
        self.silent = asked.notes && seen.is_empty();
        record::deliver(seen);
        Ok(shown)
    }

    /// The learning rate of the next step, of parameters in no group.
    pub fn learning_rate(&self) -> f64 {
        self.schedule
            .rate(self.step, self.rules.optimizer().learning_rate())
    }

    /// Trains `epochs` more epochs: each call goes on where the last one ended.
    ///
    /// Epochs and steps are counted over all calls. Schedules, the order of samples and callbacks go by these counts. A model
    /// that was loaded has the counts of its file. An epoch that was broken off is ended first and counts as one.
    ///
    /// Callbacks are called in the order of the list, which may be a tuple, an array, a `Vec`, or `()` for none; the first error
    /// of one ends training.
    ///
    /// ```
    /// use thalweg::Context;
    /// use thalweg_nn::data::{Loader, Rows, Samples};
    /// use thalweg_nn::{Dense, Model, loss, optim::Sgd};
    /// let cx = Context::new("cpu")?;
    /// let (x, y) = (vec![0.0_f32, 1.0, 2.0, 3.0], vec![1.0_f32, 3.0, 5.0, 7.0]);
    /// let data = Loader::new(Samples::new(Rows::new(x, &[1])?, Rows::new(y, &[1])?)?, 2);
    /// let mut model = Model::new(Dense::new(1, 1, &cx)?, loss::mse, Sgd::new(0.1), &cx);
    /// model.train(2, &data, ())?;
    /// model.train(2, &data, ())?;
    /// assert_eq!((model.epochs(), model.steps()), (4, 8));
    /// # Ok::<(), thalweg_nn::Error>(())
    /// ```
    ///
    /// # Errors
    /// What data, device or a callback fail with; [`Error::DataChanged`] where the number of samples does not stay the same.
    pub fn train(&mut self, epochs: u64, data: &Loader, callbacks: impl Callback) -> Result<()> {
        let batches = self.batches(data)?;
        self.run(self.epoch.saturating_add(epochs), batches, data, callbacks)
    }

    /// Trains up to the end of epoch `last`, counted from 1 over all calls and files.
    ///
    /// A run that may go on from a checkpoint asks for its end in this way: the same call begins it, ends it after it was broken
    /// off, and does nothing when it is over, which the log says.
    ///
    /// # Errors
    /// As of [`Model::train`].
    pub fn train_to(&mut self, last: u64, data: &Loader, callbacks: impl Callback) -> Result<()> {
        let batches = self.batches(data)?;
        self.run(last, batches, data, callbacks)
    }

    /// Batches of an epoch. An epoch that was broken off and is no longer than what was done of it is over.
    fn batches(&mut self, data: &Loader) -> Result<u64> {
        let batches = data.batches() as u64;
        if batches == 0 {
            return Err(Error::NoData {
                samples: data.samples(),
            });
        }
        if self.done >= batches {
            (self.epoch, self.done) = (self.epoch + 1, 0);
        }
        Ok(batches)
    }

    fn run(&mut self, last: u64, batches: u64, data: &Loader, mut callbacks: impl Callback) -> Result<()> {
        let mut told = Told {
            data: Some(data),
            epoch_num: last,
            batch_num: batches,
            step_in_epoch: self.done,
            norms: callbacks.wants_gradient_norms(),
            ..Told::default()
        };
        let ended = self.epochs_to(last, batches, data, &mut callbacks, &mut told);
        self.told_of(ended, &mut callbacks, &mut told)
    }

    fn epochs_to(
        &mut self,
        last: u64,
        batches: u64,
        data: &Loader,
        callbacks: &mut dyn Callback,
        told: &mut Told<'_>,
    ) -> Result<()> {
        if self.epoch < last {
            tracing::info!(from = self.epoch + 1, to = last, batches, "training");
        } else {
            let done = self.epoch;
            tracing::warn!(
                done,
                last,
                "nothing is trained: the epochs up to the last one are done"
            );
        }
        self.hook(callbacks, Hook::Begin, told)?;
        self.loaded = false;
        while self.epoch < last && !told.stop {
            let (epoch, first) = (self.epoch, self.done);
            (told.epoch, told.step_in_epoch) = (epoch + 1, first);
            self.given.net.set_training(true);
            self.hook(callbacks, Hook::EpochBegin, told)?;
            told.times = Times::default();
            let begun = Instant::now();
            let of_epoch = observe::span(SpanKind::Epoch, "", epoch + 1);
            let mut read = data.epoch(epoch, first as usize, &self.cx);
            if read.batches() as u64 != batches {
                return Err(Error::DataChanged {
                    epoch: epoch + 1,
                    expected: batches as usize,
                    found: read.batches(),
                });
            }
            for at in first..batches {
                let of_step = observe::span(SpanKind::Step, "", self.step + 1);
                let mut watch = Watch::start();
                let batch = {
                    let _data = observe::span(SpanKind::Data, "", 0);
                    read.next()
                };
                told.times.data += watch.lap();
                let Some(batch) = batch.transpose()? else { break };
                told.step_in_epoch = at + 1;
                told.next_step = self.step + 1;
                self.hook(callbacks, Hook::StepBegin, told)?;
                told.times.callbacks += watch.lap();
                told.learning_rate = Some(self.learning_rate());
                (told.inputs, told.targets) = (Some(batch.x.clone()), Some(batch.y.clone()));
                let (loss, output, norms) = self.step(&batch.x, &batch.y, told.norms)?;
                told.gradient_norms = norms;
                told.times.compute += watch.lap();
                told.times.steps += 1;
                told.times.samples += batch.x.shape()?.first().copied().unwrap_or(1) as u64;
                (told.loss, told.output) = (Some(loss), Some(output));
                self.done = at + 1;
                if self.done == batches {
                    (self.epoch, self.done) = (epoch + 1, 0);
                }
                self.hook(callbacks, Hook::StepEnd, told)?;
                told.times.callbacks += watch.lap();
                drop(of_step);
                self.hook(callbacks, Hook::StepDone, told)?;
                (told.inputs, told.targets) = (None, None);
                if told.stop {
                    break;
                }
            }
            // Steps are submitted ahead of the device; the epoch's time ends when the last is done.
            let mut watch = Watch::start();
            self.synchronize()?;
            told.times.wait = watch.lap();
            drop(of_epoch);
            told.epoch_time = begun.elapsed();
            if let Some(data) = self.validation.clone() {
                self.evaluate(&data, callbacks, told)?;
            }
            self.hook(callbacks, Hook::Evaluated, told)?;
            self.hook(callbacks, Hook::EpochEnd, told)?;
        }
        self.hook(callbacks, Hook::End, told)
    }
}
