//! Models in files.

use super::{Described, Model};
use crate::checkpoint::{self, Named};
use crate::error::{Error, Result};
use crate::module::{self, Layer};
use std::collections::BTreeMap;
use std::path::Path;
use thalweg::graph::Graph;
use thalweg::observe::{self, SpanKind};
use thalweg::{Context, Tensor, Tree};

/// What callbacks can do with a model.
pub trait Trained {
    /// Saves network, optimizers, position and notes, and the context's random state. The file is replaced as a whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written; reading a tensor failed.
    fn save(&self, path: &Path) -> Result<()> {
        self.save_with(path, &BTreeMap::new())
    }

    /// As [`save`](Trained::save), with text beside the tensors; [`checkpoint::metadata`] reads it.
    ///
    /// # Errors
    /// As of `save`.
    fn save_with(&self, path: &Path, metadata: &BTreeMap<String, String>) -> Result<()>;

    /// What callbacks have noted, by name.
    fn notes(&self) -> &BTreeMap<String, String>;

    /// Notes a text under a name, in place of an earlier one. Notes are saved with the model, and a model that is loaded has those of
    /// the file, so that a callback goes on where it was.
    fn note(&mut self, name: String, text: String);

    /// Path and value of every parameter and state.
    fn named(&self) -> Vec<(String, Tensor)>;

    /// Path and value of what training changes.
    fn trainable(&self) -> Vec<(String, Tensor)>;

    /// What it is made of.
    fn described(&self) -> Described;

    /// The graph of a step on these inputs and targets, before it is rewritten, and the names of its inputs.
    ///
    /// # Errors
    /// The first error of the step for these inputs.
    fn step_graph(&self, x: &Tensor, y: &Tensor) -> Result<(Graph, Vec<String>)>;

    /// Waits for all work of the device.
    ///
    /// # Errors
    /// The first error of the work.
    fn synchronize(&self) -> Result<()>;

    /// Where the model is.
    fn context(&self) -> &Context;
}

/// Where it is saved how often each parameter was updated.
const STEPS: &str = "optimizer/steps";
/// Where the scale of the loss is saved.
const LOSS_SCALE: &str = "optimizer/loss_scale";
/// Where steps, seed and number of keys of the context, whole epochs and steps of the next one are saved. A tensor, as files'
/// texts have no order.
const POSITION: &str = "run/position";
/// What names of notes begin with among a file's texts.
const NOTE: &str = "note/";

impl<N: Layer + Tree + Send + Sync + 'static> Model<N> {
    /// What optimizers keep, in the order of the tree that it is: counts, slots by the parameter's path and a number, loss scale. No
    /// path has a `/`.
    pub(super) fn named_slots(&self) -> Vec<Named> {
        let mut named = vec![(STEPS.to_owned(), self.given.kept.steps.clone())];
        for (path, slots) in module::trainable_paths(&self.given.net)
            .iter()
            .zip(&self.given.kept.slots)
        {
            let name = |(at, slot): (usize, &Tensor)| (format!("optimizer/{path}/{at}"), slot.clone());
            named.extend(slots.iter().enumerate().map(name));
        }
        named.extend(
            self.given
                .kept
                .scale
                .clone()
                .map(|state| (LOSS_SCALE.to_owned(), state)),
        );
        named
    }

    /// Loads what [`Trained::save`] saved of a model of the same structure: network, optimizers, position, notes, and the
    /// context's random state.
    ///
    /// # Errors
    /// A file that cannot be read or is of another network: the first name, shape or dtype that differs is told. The model is
    /// as before then.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut file = checkpoint::load(path, &self.cx)?;
        let misfit = |message: String| Error::Checkpoint {
            path: path.to_owned(),
            message,
        };
        let lacks = |name: &str| misfit(format!("there is no tensor {name:?}"));
        let mut net = self.given.net.clone();
        if let Some(name) = file.fill(&mut net)?.first() {
            return Err(lacks(name));
        }
        let mut take = |name: &str, like: &Tensor| file.take(name, like)?.ok_or_else(|| lacks(name));
        let slots: Vec<Tensor> = (self.named_slots().iter())
            .map(|(name, like)| take(name, like))
            .collect::<Result<_>>()?;
        let position = take(POSITION, &self.position())?.to_vec::<u64>()?;
        if let Some(name) = file.tensors.keys().next() {
            return Err(misfit(format!(
                "it has a tensor {name:?} that the network has not"
            )));
        }
        let mut slots = slots.into_iter();
        self.given.kept = (self.given.kept).map(&mut |tensor| slots.next().unwrap_or_else(|| tensor.clone()));
        (self.given.net, self.step) = (net, position[0]);
        (self.epoch, self.done) = (position[3], position[4]);
        let notes = file.metadata.into_iter();
        self.loaded = true;
        self.notes = notes
            .filter_map(|(name, text)| Some((name.strip_prefix(NOTE)?.to_owned(), text)))
            .collect();
        self.cx.set_random_state(position[1], position[2]);
        Ok(())
    }

    fn position(&self) -> Tensor {
        let (seed, keys) = self.cx.random_state();
        Tensor::from_slice(&[self.step, seed, keys, self.epoch, self.done], 5, &self.cx)
    }
}

impl<N: Layer + Tree + Send + Sync + 'static> Trained for Model<N> {
    fn save_with(&self, path: &Path, metadata: &BTreeMap<String, String>) -> Result<()> {
        let _span = observe::span(SpanKind::Checkpoint, &path.to_string_lossy(), 0);
        let mut tensors: Vec<Named> = self.named();
        tensors.extend(self.named_slots());
        tensors.push((POSITION.to_owned(), self.position()));
        let notes = self.notes.iter();
        let mut texts: BTreeMap<_, _> = notes
            .map(|(name, text)| (format!("{NOTE}{name}"), text.clone()))
            .collect();
        texts.extend(metadata.clone());
        checkpoint::save(path, &tensors, &texts)
    }

    fn notes(&self) -> &BTreeMap<String, String> {
        &self.notes
    }

    fn note(&mut self, name: String, text: String) {
        self.notes.insert(name, text);
    }

    fn named(&self) -> Vec<(String, Tensor)> {
        module::named(&self.given.net)
    }

    fn trainable(&self) -> Vec<(String, Tensor)> {
        module::trainable_named(&self.given.net)
    }

    fn described(&self) -> Described {
        self.description()
    }

    fn step_graph(&self, x: &Tensor, y: &Tensor) -> Result<(Graph, Vec<String>)> {
        self.graph_of_step(x, y)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.cx.device().synchronize().map_err(thalweg::Error::from)?)
    }

    fn context(&self) -> &Context {
        &self.cx
    }
}
