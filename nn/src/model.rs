//! Training, evaluation and prediction.

use crate::callback::{Callback, Hook, RunContext, call};
use crate::checkpoint::{self, Named};
use crate::data::Loader;
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::module::{self, Layer, Leaf, Mapper, Module};
use crate::optim::{Clip, Optimizer};
use crate::schedule::{Constant, Schedule};
use crate::train::{self, Compiled, LossFunction, Rules};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use thalweg::{Context, Mode, Tensor, Tree};

/// What callbacks can do with a model.
pub trait Trained {
    /// Saves network, optimizer and position. The file is replaced as a whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written; reading a tensor failed.
    fn save(&self, path: &Path) -> Result<()>;

    /// Path and value of every parameter and state.
    fn named(&self) -> Vec<(String, Tensor)>;

    /// Waits for all work of the device.
    ///
    /// # Errors
    /// The first error of the work.
    fn synchronize(&self) -> Result<()>;
}

/// A network with what it takes to train it.
///
/// The mode of the context decides how: in graph mode forward, backward and update of a step are one compiled graph, in
/// eager mode the same code runs op by op.
pub struct Model<N: Layer + Tree> {
    net: N,
    rules: Rules,
    schedule: Box<dyn Schedule>,
    metrics: Vec<Box<dyn Metric>>,
    cx: Context,
    slots: Vec<Tensor>,
    step: u64,
    eager: Compiled<N>,
    graph: Compiled<N>,
    validation: Option<Loader>,
}

impl<N: Layer + Tree + Send + Sync + 'static> Model<N> {
    /// A model on the device of `cx`, where the network's parameters are.
    pub fn new(
        net: N,
        loss: impl Fn(&Tensor, &Tensor) -> Tensor + Send + Sync + 'static,
        optimizer: impl Optimizer + 'static,
        cx: &Context,
    ) -> Model<N> {
        let loss: LossFunction = Arc::new(loss);
        let rules = Rules {
            loss,
            optimizer: Arc::new(optimizer),
            clip: None,
            loss_scale: 1.0,
        };
        Model {
            slots: train::slots(&net, &*rules.optimizer),
            net,
            eager: Compiled::eager(&rules),
            graph: Compiled::graph(&rules),
            rules,
            schedule: Box::new(Constant),
            metrics: Vec::new(),
            cx: cx.clone(),
            step: 0,
            validation: None,
        }
    }

    fn with_rules(mut self, change: impl FnOnce(&mut Rules)) -> Model<N> {
        change(&mut self.rules);
        self.eager = Compiled::eager(&self.rules);
        self.graph = Compiled::graph(&self.rules);
        self
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

    /// Multiplies the loss by `scale` before gradients are taken and divides them by it, so that small ones survive in f16.
    #[must_use]
    pub fn loss_scale(self, scale: f64) -> Model<N> {
        self.with_rules(|rules| rules.loss_scale = scale)
    }

    /// Evaluates on this data after each epoch, before callbacks hear of the epoch's end.
    #[must_use]
    pub fn validate(mut self, data: Loader) -> Model<N> {
        self.validation = Some(data);
        self
    }

    /// The network.
    pub fn net(&self) -> &N {
        &self.net
    }

    /// Steps that were done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    fn compiled(&self) -> &Compiled<N> {
        match self.cx.mode() {
            Mode::Eager => &self.eager,
            Mode::Graph => &self.graph,
        }
    }

    /// Does one step and returns loss and outputs; the device may still be at work on them.
    pub fn train_step(&mut self, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
        let lr = self.learning_rate();
        self.step += 1;
        let scalars = train::scalars(&*self.rules.optimizer, self.step, lr, &self.cx);
        let given = (
            (self.net.clone(), std::mem::take(&mut self.slots), scalars),
            (x.clone(), y.clone()),
        );
        let (net, slots, made) = (self.compiled().train)(&given);
        (self.net, self.slots) = (net, slots);
        made
    }

    /// The learning rate of the next step.
    pub fn learning_rate(&self) -> f64 {
        self.schedule
            .rate(self.step, self.rules.optimizer.learning_rate())
    }

    /// Trains up to the end of epoch `epochs`, counted from 1. A model that was loaded goes on where it was saved.
    ///
    /// Callbacks are called in the order of the list; the first error of one ends training.
    ///
    /// # Errors
    /// What data, device or a callback fail with.
    pub fn train<'c>(
        &mut self,
        epochs: u64,
        data: &Loader,
        callbacks: impl IntoIterator<Item = Box<dyn Callback + 'c>>,
    ) -> Result<()> {
        let mut callbacks: Vec<Box<dyn Callback + 'c>> = callbacks.into_iter().collect();
        let batches = data.batches() as u64;
        if batches == 0 {
            return Err(Error::NoData {
                samples: data.samples(),
            });
        }
        let mut told = Told {
            epoch_num: epochs,
            batch_num: batches,
            train_samples: data.samples(),
            ..Told::default()
        };
        self.hook(&mut callbacks, Hook::Begin, &mut told)?;
        while self.step < epochs * batches && !told.stop {
            let epoch = self.step / batches;
            let first = self.step % batches;
            told.epoch = epoch + 1;
            self.net.set_training(true);
            self.hook(&mut callbacks, Hook::EpochBegin, &mut told)?;
            for (batch, at) in data.epoch(epoch, first as usize, &self.cx).zip(first..) {
                let batch = batch?;
                told.step_in_epoch = at + 1;
                told.next_step = self.step + 1;
                self.hook(&mut callbacks, Hook::StepBegin, &mut told)?;
                let (loss, output) = self.train_step(&batch.x, &batch.y);
                (told.loss, told.output) = (Some(loss), Some(output));
                self.hook(&mut callbacks, Hook::StepEnd, &mut told)?;
                if told.stop {
                    break;
                }
            }
            if let Some(data) = self.validation.clone() {
                told.metrics = self.eval(&data)?.into_iter().collect();
            }
            self.hook(&mut callbacks, Hook::EpochEnd, &mut told)?;
        }
        self.hook(&mut callbacks, Hook::End, &mut told)
    }

    fn hook(&mut self, callbacks: &mut [Box<dyn Callback + '_>], hook: Hook, told: &mut Told) -> Result<()> {
        let learning_rate = self.learning_rate();
        let mut run = RunContext {
            cur_epoch_num: told.epoch,
            cur_step_num: if hook == Hook::StepBegin {
                told.next_step
            } else {
                self.step
            },
            cur_step_in_epoch: told.step_in_epoch,
            batch_num: told.batch_num,
            epoch_num: told.epoch_num,
            learning_rate,
            loss: told.loss.clone(),
            net_outputs: told.output.clone(),
            train_samples: told.train_samples,
            metrics: std::mem::take(&mut told.metrics),
            values: std::mem::take(&mut told.values),
            model: self,
            stop: told.stop,
        };
        let result = call(callbacks, hook, &mut run);
        (told.metrics, told.values, told.stop) = (run.metrics, run.values, run.stop);
        result
    }

    /// Loss and metrics over all batches of `data`, by name.
    ///
    /// # Errors
    /// What data or device fail with; outputs that a metric does not take.
    pub fn eval(&mut self, data: &Loader) -> Result<BTreeMap<String, f64>> {
        if data.batches() == 0 {
            return Err(Error::NoData {
                samples: data.samples(),
            });
        }
        let mut metrics = std::mem::take(&mut self.metrics);
        let result = self.eval_with(data, &mut metrics);
        self.metrics = metrics;
        result
    }

    fn eval_with(&mut self, data: &Loader, metrics: &mut [Box<dyn Metric>]) -> Result<BTreeMap<String, f64>> {
        let net = self.evaluating();
        metrics.iter_mut().for_each(|metric| metric.clear());
        let (mut sum, mut samples) = (0.0, 0.0);
        for batch in data.epoch(0, 0, &self.cx) {
            let batch = batch?;
            let (loss, output) = (self.compiled().eval)(&(net.clone(), (batch.x, batch.y.clone())));
            let loss = loss.to_scalar()?;
            let count = batch.y.shape()?.first().copied().unwrap_or(1) as f64;
            (sum, samples) = (sum + loss * count, samples + count);
            for metric in &mut *metrics {
                metric.update(&output, &batch.y, Some(loss))?;
            }
        }
        let mut figures = BTreeMap::from([("loss".to_owned(), sum / samples)]);
        for metric in metrics {
            figures.insert(metric.name().to_owned(), metric.eval()?);
        }
        Ok(figures)
    }

    /// The network's outputs, without what only training does.
    pub fn predict(&self, x: &Tensor) -> Tensor {
        (self.compiled().predict)(&(self.evaluating(), x.clone()))
    }

    fn evaluating(&self) -> N {
        let mut net = self.net.clone();
        net.set_training(false);
        net
    }

    /// Loads what [`Trained::save`] saved of a model of the same structure: network, optimizer and position.
    ///
    /// # Errors
    /// A file that cannot be read or is of another network: the first name, shape or dtype that differs is told. The model is
    /// as before then.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let file = checkpoint::load(path, &self.cx)?;
        let misfit = |message: String| Error::Checkpoint {
            path: path.to_owned(),
            message,
        };
        let mut tensors: HashMap<String, Tensor> = file.tensors.into_iter().collect();
        let mut take = |name: &str, like: &Tensor| -> Result<Tensor> {
            let found = tensors
                .remove(name)
                .ok_or_else(|| misfit(format!("there is no tensor {name:?}")))?;
            let (wanted, given) = ((like.shape()?, like.dtype()?), (found.shape()?, found.dtype()?));
            if wanted != given {
                let text = format!(
                    "{name} is {} {}, the network's is {} {}",
                    given.1, given.0, wanted.1, wanted.0
                );
                return Err(misfit(text));
            }
            Ok(found)
        };
        let mut first_error = None;
        let mut replace = |name: &str, leaf: Leaf<'_>| match take(name, leaf.value()) {
            Ok(tensor) => tensor,
            Err(error) => {
                first_error.get_or_insert(error);
                leaf.value().clone()
            }
        };
        let net = Module::map(&self.net, &mut Mapper::new(&mut replace));
        if let Some(error) = first_error {
            return Err(error);
        }
        let slots: Vec<Tensor> = self
            .slots
            .iter()
            .enumerate()
            .map(|(at, slot)| take(&slot_name(at), slot))
            .collect::<Result<_>>()?;
        if let Some(name) = tensors.keys().min() {
            return Err(misfit(format!(
                "it has a tensor {name:?} that the network has not"
            )));
        }
        let step = file.metadata.get("step").and_then(|step| step.parse().ok());
        let step = step.ok_or_else(|| misfit("it does not say after which step it was saved".into()))?;
        (self.net, self.slots, self.step) = (net, slots, step);
        Ok(())
    }
}

fn slot_name(at: usize) -> String {
    format!("optimizer.{at}")
}

/// What the run tells callbacks, kept between calls.
#[derive(Default)]
struct Told {
    epoch: u64,
    step_in_epoch: u64,
    next_step: u64,
    batch_num: u64,
    epoch_num: u64,
    train_samples: usize,
    loss: Option<Tensor>,
    output: Option<Tensor>,
    metrics: HashMap<String, f64>,
    values: HashMap<String, Box<dyn std::any::Any + Send>>,
    stop: bool,
}

impl<N: Layer + Tree + Send + Sync + 'static> Trained for Model<N> {
    fn save(&self, path: &Path) -> Result<()> {
        let mut tensors: Vec<Named> = Trained::named(self);
        tensors.extend(
            self.slots
                .iter()
                .enumerate()
                .map(|(at, slot)| (slot_name(at), slot.clone())),
        );
        checkpoint::save(
            path,
            &tensors,
            &BTreeMap::from([("step".to_owned(), self.step.to_string())]),
        )
    }

    fn named(&self) -> Vec<(String, Tensor)> {
        let mut tensors = Vec::new();
        // Collecting cannot fail.
        let _ = module::named(&self.net, |path, tensor, _| {
            tensors.push((path.to_owned(), tensor.clone()));
            Ok(())
        });
        tensors
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.cx.device().synchronize().map_err(thalweg::Error::from)?)
    }
}
