//! What the run tells callbacks.

use super::Model;
use crate::callback::{Callback, Hook, RunContext, Times, call};
use crate::data::Loader;
use crate::error::Result;
use crate::module::Layer;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg::observe::{self, SpanKind};
use thalweg::{Tensor, Tree};

/// What is kept between the calls of callbacks.
#[derive(Default)]
pub(super) struct Told<'a> {
    /// The training data.
    pub(super) data: Option<&'a Loader>,
    pub(super) epoch: u64,
    pub(super) step_in_epoch: u64,
    pub(super) next_step: u64,
    pub(super) batch_num: u64,
    pub(super) epoch_num: u64,
    pub(super) eval_step: u64,
    pub(super) epoch_time: Duration,
    pub(super) times: Times,
    pub(super) learning_rate: Option<f64>,
    pub(super) inputs: Option<Tensor>,
    pub(super) targets: Option<Tensor>,
    pub(super) loss: Option<Tensor>,
    pub(super) output: Option<Tensor>,
    /// Whether norms of gradients are asked for.
    pub(super) norms: bool,
    pub(super) gradient_norms: Option<Tensor>,
    pub(super) metrics: HashMap<String, f64>,
    pub(super) values: HashMap<String, Box<dyn Any + Send>>,
    pub(super) stop: bool,
}

impl<N: Layer + Tree + Send + Sync + 'static> Model<N> {
    /// What callbacks are told outside of training.
    pub(super) fn told_outside(&self) -> Told<'static> {
        Told {
            epoch: self.epoch,
            epoch_num: self.epoch,
            step_in_epoch: self.done,
            ..Told::default()
        }
    }

    /// Calls one function of the callbacks.
    pub(super) fn hook(
        &mut self,
        callbacks: &mut dyn Callback,
        hook: Hook,
        told: &mut Told<'_>,
    ) -> Result<()> {
        let before = hook == Hook::StepBegin;
        let step = if before { told.next_step } else { self.step };
        self.with_run(told, (step, before), |run| {
            let _span = observe::span(SpanKind::Callback, hook.name(), 0);
            call(callbacks, hook, run)
        })
    }

    /// Tells the callbacks of an error that ends the run, which is `ended`.
    pub(super) fn told_of<T>(
        &mut self,
        ended: Result<T>,
        callbacks: &mut dyn Callback,
        told: &mut Told<'_>,
    ) -> Result<T> {
        if let Err(error) = &ended {
            let step = told.next_step.max(self.step);
            self.with_run(told, (step, false), |run| {
                let _span = observe::span(SpanKind::Callback, "failed", 0);
                callbacks.failed(run, error);
            });
        }
        ended
    }

    /// What callbacks see: of step `step`, which is the next one or the last.
    fn with_run<T>(
        &mut self,
        told: &mut Told<'_>,
        (step, is_next): (u64, bool),
        body: impl FnOnce(&mut RunContext<'_>) -> T,
    ) -> T {
        let next_rate = self.learning_rate();
        let mut run = RunContext {
            cur_epoch_num: told.epoch,
            cur_step_num: step,
            cur_step_in_epoch: told.step_in_epoch,
            batch_num: told.batch_num,
            epoch_num: told.epoch_num,
            learning_rate: told.learning_rate.filter(|_| !is_next).unwrap_or(next_rate),
            eval_step: told.eval_step,
            inputs: told.inputs.clone(),
            targets: told.targets.clone(),
            loss: told.loss.clone(),
            net_outputs: told.output.clone(),
            gradient_norms: told.gradient_norms.clone(),
            epoch_time: told.epoch_time,
            times: told.times,
            resumed: self.loaded,
            metrics: std::mem::take(&mut told.metrics),
            values: std::mem::take(&mut told.values),
            loss_fn: Arc::clone(&self.rules.loss),
            optimizer: Arc::clone(self.rules.optimizer()),
            train_dataset: told.data,
            model: self,
            stop: told.stop,
        };
        let result = body(&mut run);
        (told.metrics, told.values, told.stop) = (run.metrics, run.values, run.stop);
        result
    }
}
