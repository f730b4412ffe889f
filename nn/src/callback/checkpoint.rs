//! Callbacks that save.

use super::stop::{Better, figure};
use super::{Callback, RunContext};
use crate::checkpoint;
use crate::error::Result;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

/// Saves network, optimizers and position every epoch, or every so many steps, and at the end, and keeps the newest files.
#[derive(Clone, Debug)]
pub struct ModelCheckpoint {
    folder: PathBuf,
    steps: Option<u64>,
    keep: usize,
    saved: VecDeque<PathBuf>,
    // The step of this run that was saved last.
    last: Option<u64>,
}

impl ModelCheckpoint {
    /// Saves after each epoch to `folder`, which is made if it is missing; keeps 5.
    pub fn to(folder: impl Into<PathBuf>) -> ModelCheckpoint {
        ModelCheckpoint {
            folder: folder.into(),
            steps: None,
            keep: 5,
            saved: VecDeque::new(),
            last: None,
        }
    }

    /// Saves every `steps` steps instead.
    #[must_use]
    pub fn every(mut self, steps: u64) -> ModelCheckpoint {
        self.steps = Some(steps.max(1));
        self
    }

    /// Keeps the newest `count` files of this run.
    #[must_use]
    pub fn keep(mut self, count: usize) -> ModelCheckpoint {
        self.keep = count.max(1);
        self
    }

    fn save(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if self.last == Some(run.cur_step_num) {
            return Ok(());
        }
        let path = self
            .folder
            .join(format!("step-{:08}.safetensors", run.cur_step_num));
        run.model.save(&path)?;
        self.last = Some(run.cur_step_num);
        // A model that went back comes to its steps again.
        self.saved.retain(|earlier| *earlier != path);
        self.saved.push_back(path);
        while self.saved.len() > self.keep {
            if let Some(old) = self.saved.pop_front()
                && let Err(error) = std::fs::remove_file(&old)
            {
                tracing::warn!("{} cannot be removed: {error}", old.display());
            }
        }
        Ok(())
    }
}

impl Callback for ModelCheckpoint {
    fn begin(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.last = None;
        Ok(())
    }

    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        match self.steps {
            Some(steps) if run.cur_step_num.is_multiple_of(steps) => self.save(run),
            _ => Ok(()),
        }
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if self.steps.is_none() {
            self.save(run)
        } else {
            Ok(())
        }
    }

    fn end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.save(run)
    }
}

/// Saves when a metric of the evaluation after an epoch is the best so far. The figure is saved too: training that a model goes on
/// with, as one that was loaded does, goes on from the figure in the file. Training from the first step replaces the file.
#[derive(Clone, Debug)]
pub struct BestCheckpoint {
    path: PathBuf,
    metric: String,
    better: Better,
    best: Option<f64>,
}

impl BestCheckpoint {
    /// Watches `metric` and saves to the file `path`.
    pub fn new(path: impl Into<PathBuf>, metric: impl Into<String>, better: Better) -> BestCheckpoint {
        BestCheckpoint {
            path: path.into(),
            metric: metric.into(),
            better,
            best: None,
        }
    }

    /// The best figure so far.
    pub fn best(&self) -> Option<f64> {
        self.best
    }

    /// The name of the figure in the file.
    fn key(&self) -> String {
        format!("best/{}", self.metric)
    }
}

impl Callback for BestCheckpoint {
    fn begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if run.cur_step_num == 0 {
            self.best = None;
        } else if self.best.is_none() && self.path.exists() {
            let texts = checkpoint::metadata(&self.path)?;
            self.best = texts.get(&self.key()).and_then(|figure| figure.parse().ok());
        }
        Ok(())
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let now = figure(run, &self.metric)?;
        if self.better.beats(now, self.best, 0.0) {
            let figure = BTreeMap::from([(self.key(), now.to_string())]);
            run.model.save_with(&self.path, &figure)?;
            self.best = Some(now);
        }
        Ok(())
    }
}
