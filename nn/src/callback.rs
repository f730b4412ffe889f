//! Callbacks: what happens around epochs and steps.

mod checkpoint;
mod progress;
mod stop;

pub use checkpoint::{BestCheckpoint, ModelCheckpoint};
pub use progress::{LearningRateMonitor, LossMonitor, ProgressBar, TimeMonitor};
pub use stop::{Better, EarlyStopping, StopAtTime};

use crate::error::Result;
use crate::model::Trained;
use std::any::Any;
use std::collections::HashMap;
use thalweg::Tensor;

/// What callbacks see of a run, and how they stop it.
pub struct RunContext<'a> {
    /// Epoch, counted from 1.
    pub cur_epoch_num: u64,
    /// Step over all epochs, counted from 1.
    pub cur_step_num: u64,
    /// Step in this epoch, counted from 1.
    pub cur_step_in_epoch: u64,
    /// Steps of an epoch.
    pub batch_num: u64,
    /// Epochs that were asked for.
    pub epoch_num: u64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// Loss of the step that ended last. Reading its value waits for the device.
    pub loss: Option<Tensor>,
    /// What the network returned in the step that ended last.
    pub net_outputs: Option<Tensor>,
    /// Samples of the training data.
    pub train_samples: usize,
    /// Figures of the last evaluation by name.
    pub metrics: HashMap<String, f64>,
    /// Values that callbacks leave for each other.
    pub values: HashMap<String, Box<dyn Any + Send>>,
    /// Network, optimizer and their state.
    pub model: &'a mut dyn Trained,
    pub(crate) stop: bool,
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
}

/// Functions that training calls, in the order of the list of callbacks. An error ends training.
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

    /// After an epoch's last step.
    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After the last epoch.
    fn end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        Ok(())
    }
}

/// Which of a callback's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Begin,
    EpochBegin,
    StepBegin,
    StepEnd,
    EpochEnd,
    End,
}

/// Calls one function of every callback, in order.
pub(crate) fn call(
    callbacks: &mut [Box<dyn Callback + '_>],
    hook: Hook,
    run: &mut RunContext<'_>,
) -> Result<()> {
    for callback in callbacks {
        match hook {
            Hook::Begin => callback.begin(run),
            Hook::EpochBegin => callback.epoch_begin(run),
            Hook::StepBegin => callback.step_begin(run),
            Hook::StepEnd => callback.step_end(run),
            Hook::EpochEnd => callback.epoch_end(run),
            Hook::End => callback.end(run),
        }?;
    }
    Ok(())
}
