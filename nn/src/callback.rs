//! Callbacks: what happens around epochs and steps.

mod checkpoint;
mod list;
mod profiler;
mod progress;
mod stop;
mod summary;

pub use checkpoint::{BestCheckpoint, ModelCheckpoint};
pub use profiler::{Profiler, StepTimes};
pub use progress::{LearningRateMonitor, LossMonitor, ProgressBar, TimeMonitor};
pub use stop::{Better, EarlyStopping, StopAtTime};
pub use summary::{SummaryCollector, SummaryMonitor};

use crate::data::Loader;
use crate::error::{Error, Result};
use crate::model::Trained;
use crate::optim::Optimizer;
use crate::train::LossFunction;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg::{DType, Tensor};

/// What callbacks see of a run, and how they stop it.
pub struct RunContext<'a> {
    /// Epoch, counted from 1 over all calls of [`train`](crate::Model::train).
    pub cur_epoch_num: u64,
    /// Step, counted from 1 over all epochs and calls.
    pub cur_step_num: u64,
    /// Step in this epoch, counted from 1; at its begin the steps of it that were done before.
    pub cur_step_in_epoch: u64,
    /// Steps of an epoch.
    pub batch_num: u64,
    /// The last epoch that this call trains, counted like `cur_epoch_num`.
    pub epoch_num: u64,
    /// The learning rate of this step, of parameters that are in no group.
    pub learning_rate: f64,
    /// Batch of the evaluation that runs, counted from 1; 0 where none runs.
    pub eval_step: u64,
    /// Inputs of the step that ended last, until the next one begins. During an evaluation or a prediction, those of its batch.
    pub inputs: Option<Tensor>,
    /// Targets of the step that ended last, until the next one begins. During an evaluation, those of its batch.
    pub targets: Option<Tensor>,
    /// Loss of the step or the evaluated batch that ended last. Reading its value waits for the device.
    pub loss: Option<Tensor>,
    /// What the network returned in the step, the evaluated batch or the prediction that ended last.
    pub net_outputs: Option<Tensor>,
    /// The L2 norm of the gradient of each parameter that is trained, in the step that ended last, `[parameters]`: without the scale of the
    /// loss, and before gradients are clipped. Where a callback [asks for it](Callback::wants_gradient_norms).
    pub gradient_norms: Option<Tensor>,
    /// At an epoch's end, how long the steps of it that ran took, without evaluation.
    pub epoch_time: Duration,
    /// Where the time of this epoch's steps went so far.
    pub times: Times,
    /// Whether the model was loaded from a file and not trained since.
    pub resumed: bool,
    /// Figures of the last evaluation by name.
    pub metrics: HashMap<String, f64>,
    /// Values that callbacks leave for each other.
    pub values: HashMap<String, Box<dyn Any + Send>>,
    /// The loss of outputs and targets.
    pub loss_fn: LossFunction,
    /// The optimizer of parameters that are in no group.
    pub optimizer: Arc<dyn Optimizer>,
    /// The training data; `None` outside of training.
    pub train_dataset: Option<&'a Loader>,
    /// Network, optimizers and their state.
    pub model: &'a mut dyn Trained,
    pub(crate) stop: bool,
}

/// Where the time of an epoch's steps went on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting for data.
    pub data: Duration,
    /// Computing: submitting forward, backward and update, and waiting where the device's queue is full.
    pub compute: Duration,
    /// In callbacks, between a step's begin and its end.
    pub callbacks: Duration,
    /// Waiting for the device at the end of the epoch.
    pub wait: Duration,
    /// Steps that ran.
    pub steps: u64,
    /// Samples of these steps.
    pub samples: u64,
}

impl RunContext<'_> {
    /// Ends training after this step; `epoch_end` and `end` still run.
    pub fn request_stop(&mut self) {
        self.stop = true;
    }

    /// Whether a callback asked to stop.
    pub fn stop_requested(&self) -> bool {
        self.stop
    }

    /// The loss of the last step as a number; waits for the device.
    ///
    /// # Errors
    /// What computing it failed with.
    pub fn loss_value(&self) -> Result<Option<f64>> {
        Ok(self.loss.as_ref().map(Tensor::to_scalar).transpose()?)
    }

    /// Path of each parameter that is trained, and the L2 norm of its gradient in the last step; waits for the device. Nothing where no
    /// callback asked for it.
    ///
    /// # Errors
    /// What computing it failed with.
    pub fn gradient_norms_by_path(&self) -> Result<Vec<(String, f64)>> {
        let Some(norms) = &self.gradient_norms else {
            return Ok(Vec::new());
        };
        let norms = norms.cast(DType::F64).to_vec::<f64>()?;
        let paths = self.model.trainable().into_iter().map(|(path, _)| path);
        Ok(paths.zip(norms).collect())
    }

    /// The value that was left under a name, if it is of this type.
    pub fn value<T: Any>(&self, name: &str) -> Option<&T> {
        self.values.get(name)?.downcast_ref()
    }
}

/// Functions that training, [`eval_with`](crate::Model::eval_with) and [`predict_with`](crate::Model::predict_with) call, in the order of the
/// list of callbacks. An error ends them.
///
/// Tuples, arrays and `Vec`s of callbacks are callbacks, and so is a `&mut` of one, to look at it after training.
///
/// ```
/// use thalweg_nn::callback::{Callback, RunContext};
/// struct Say;
/// impl Callback for Say {
///     fn epoch_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
///         println!("epoch {} of {}", run.cur_epoch_num, run.epoch_num);
///         Ok(())
///     }
/// }
/// ```
#[allow(unused_variables)]
pub trait Callback {
    /// Before the first epoch.
    fn begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Before an epoch's first step.
    fn epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Before a step.
    fn step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After a step was submitted.
    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After a step and the `step_end` of every callback: the step is over, and the next has not begun.
    fn step_done(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After an epoch's last step and the evaluation behind it, where there is one, and before the `epoch_end` of any callback. What
    /// is noted here is in checkpoints of this epoch, wherever in the list the callback is that saves.
    fn evaluated(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After an epoch's last step, and the evaluation behind it.
    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After the last epoch.
    fn end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Before the first batch of an evaluation, also of one behind an epoch.
    fn eval_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Before a batch is evaluated.
    fn eval_step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After a batch was evaluated.
    fn eval_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After an evaluation, whose figures are in `run.metrics`.
    fn eval_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Before a prediction.
    fn predict_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After a prediction was submitted.
    fn predict_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// When training, evaluation or prediction ends by an error, of data, a step, the device or a callback. `end` is not called then. In
    /// a step that failed, `run` has its number, inputs and targets.
    fn failed(&mut self, run: &mut RunContext<'_>, error: &Error) {}

    /// Whether it reads [`RunContext::gradient_norms`]; asked when training begins. Then they are computed in every step.
    fn wants_gradient_norms(&mut self) -> bool {
        false
    }
}

/// Which of a callback's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Begin,
    EpochBegin,
    StepBegin,
    StepEnd,
    StepDone,
    Evaluated,
    EpochEnd,
    End,
    EvalBegin,
    EvalStepBegin,
    EvalStepEnd,
    EvalEnd,
    PredictBegin,
    PredictEnd,
}

impl Hook {
    /// The name of the function.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Hook::Begin => "begin",
            Hook::EpochBegin => "epoch_begin",
            Hook::StepBegin => "step_begin",
            Hook::StepEnd => "step_end",
            Hook::StepDone => "step_done",
            Hook::Evaluated => "evaluated",
            Hook::EpochEnd => "epoch_end",
            Hook::End => "end",
            Hook::EvalBegin => "eval_begin",
            Hook::EvalStepBegin => "eval_step_begin",
            Hook::EvalStepEnd => "eval_step_end",
            Hook::EvalEnd => "eval_end",
            Hook::PredictBegin => "predict_begin",
            Hook::PredictEnd => "predict_end",
        }
    }
}

/// Calls one function of a callback.
pub(crate) fn call(callback: &mut dyn Callback, hook: Hook, run: &mut RunContext<'_>) -> Result<()> {
    match hook {
        Hook::Begin => callback.begin(run),
        Hook::EpochBegin => callback.epoch_begin(run),
        Hook::StepBegin => callback.step_begin(run),
        Hook::StepEnd => callback.step_end(run),
        Hook::StepDone => callback.step_done(run),
        Hook::Evaluated => callback.evaluated(run),
        Hook::EpochEnd => callback.epoch_end(run),
        Hook::End => callback.end(run),
        Hook::EvalBegin => callback.eval_begin(run),
        Hook::EvalStepBegin => callback.eval_step_begin(run),
        Hook::EvalStepEnd => callback.eval_step_end(run),
        Hook::EvalEnd => callback.eval_end(run),
        Hook::PredictBegin => callback.predict_begin(run),
        Hook::PredictEnd => callback.predict_end(run),
    }
}
