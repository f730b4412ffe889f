//! Evaluation and prediction.

use super::Model;
use super::told::Told;
use crate::callback::{Callback, Hook};
use crate::data::Loader;
use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::module::Layer;
use std::collections::BTreeMap;
use thalweg::observe::{self, SpanKind};
use thalweg::{Tensor, Tree};

impl<N: Layer + Tree + Send + Sync + 'static> Model<N> {
    /// Loss and metrics over all batches of `data`, by name.
    ///
    /// # Errors
    /// What data or device fail with; outputs that a metric does not take.
    pub fn eval(&mut self, data: &Loader) -> Result<BTreeMap<String, f64>> {
        self.eval_with(data, ())
    }

    /// As [`Model::eval`], with callbacks: `eval_begin`, `eval_step_begin` and `eval_step_end` for each batch, and `eval_end`.
    ///
    /// ```
    /// use thalweg::Context;
    /// use thalweg_nn::callback::{Callback, RunContext};
    /// use thalweg_nn::data::{Loader, Rows, Samples};
    /// use thalweg_nn::{Dense, Model, loss, optim::Sgd};
    /// struct Worst(f64);
    /// impl Callback for Worst {
    ///     fn eval_step_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
    ///         self.0 = self.0.max(run.loss_value()?.unwrap_or(0.0));
    ///         Ok(())
    ///     }
    /// }
    /// let cx = Context::new("cpu")?;
    /// let (x, y) = (vec![0.0_f32, 1.0, 2.0, 3.0], vec![1.0_f32, 3.0, 5.0, 7.0]);
    /// let data = Loader::new(Samples::new(Rows::new(x, &[1])?, Rows::new(y, &[1])?)?, 2);
    /// let mut model = Model::new(Dense::new(1, 1, &cx)?, loss::mse, Sgd::new(0.1), &cx);
    /// let mut worst = Worst(0.0);
    /// let mean = model.eval_with(&data, &mut worst)?["loss"];
    /// assert!(worst.0 >= mean);
    /// # Ok::<(), thalweg_nn::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Model::eval`]; the first of a callback.
    pub fn eval_with(
        &mut self,
        data: &Loader,
        mut callbacks: impl Callback,
    ) -> Result<BTreeMap<String, f64>> {
        let mut told = self.told_outside();
        let ended = self.evaluate(data, &mut callbacks, &mut told);
        self.told_of(ended, &mut callbacks, &mut told)
    }

    /// Evaluates as a part of a run, whose last step is shown again afterwards.
    pub(super) fn evaluate(
        &mut self,
        data: &Loader,
        callbacks: &mut dyn Callback,
        told: &mut Told<'_>,
    ) -> Result<BTreeMap<String, f64>> {
        let _span = observe::span(SpanKind::Evaluation, "", 0);
        let shown = (told.loss.clone(), told.output.clone());
        let mut metrics = std::mem::take(&mut self.metrics);
        let ended = self.evaluate_batches(data, &mut metrics, callbacks, told);
        self.metrics = metrics;
        let figures = ended?;
        told.eval_step = 0;
        told.metrics = figures.clone().into_iter().collect();
        self.hook(callbacks, Hook::EvalEnd, told)?;
        (told.inputs, told.targets) = (None, None);
        (told.loss, told.output) = shown;
        Ok(figures)
    }

    fn evaluate_batches(
        &mut self,
        data: &Loader,
        metrics: &mut [Box<dyn Metric>],
        callbacks: &mut dyn Callback,
        told: &mut Told<'_>,
    ) -> Result<BTreeMap<String, f64>> {
        metrics.iter_mut().for_each(|metric| metric.clear());
        self.hook(callbacks, Hook::EvalBegin, told)?;
        let net = self.evaluating();
        let (mut sum, mut samples) = (0.0, 0.0);
        let read = data.epoch(0, 0, &self.cx);
        if read.batches() == 0 {
            return Err(Error::NoData {
                samples: data.samples(),
            });
        }
        for batch in read {
            let batch = batch?;
            told.eval_step += 1;
            (told.inputs, told.targets) = (Some(batch.x.clone()), Some(batch.y.clone()));
            self.hook(callbacks, Hook::EvalStepBegin, told)?;
            let (loss, output) = (self.compiled().eval)(&(net.clone(), (batch.x, batch.y.clone())));
            (told.loss, told.output) = (Some(loss.clone()), Some(output.clone()));
            let loss = loss.to_scalar()?;
            let count = batch.y.shape()?.first().copied().unwrap_or(1) as f64;
            (sum, samples) = (sum + loss * count, samples + count);
            for metric in &mut *metrics {
                metric.update(&output, &batch.y, Some(loss))?;
            }
            self.hook(callbacks, Hook::EvalStepEnd, told)?;
        }
        let mut figures = BTreeMap::from([("loss".to_owned(), sum / samples)]);
        for metric in metrics {
            figures.extend(metric.figures()?);
        }
        Ok(figures)
    }

    /// The network's outputs, without what only training does.
    pub fn predict(&self, x: &Tensor) -> Tensor {
        (self.compiled().predict)(&(self.evaluating(), x.clone()))
    }

    /// As [`Model::predict`], with callbacks: `predict_begin`, which sees the inputs, and `predict_end`, which sees the outputs too.
    ///
    /// # Errors
    /// The first error that the outputs carry, or of a callback.
    pub fn predict_with(&mut self, x: &Tensor, mut callbacks: impl Callback) -> Result<Tensor> {
        let mut told = self.told_outside();
        let ended = self.predict_told(x, &mut callbacks, &mut told);
        self.told_of(ended, &mut callbacks, &mut told)
    }

    fn predict_told(
        &mut self,
        x: &Tensor,
        callbacks: &mut dyn Callback,
        told: &mut Told<'_>,
    ) -> Result<Tensor> {
        told.inputs = Some(x.clone());
        self.hook(callbacks, Hook::PredictBegin, told)?;
        let output = self.predict(x).ok()?;
        told.output = Some(output.clone());
        self.hook(callbacks, Hook::PredictEnd, told)?;
        Ok(output)
    }

    fn evaluating(&self) -> N {
        let mut net = self.given.net.clone();
        net.set_training(false);
        net
    }
}
