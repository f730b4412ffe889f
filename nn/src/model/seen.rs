//! What summaries see of a model.

use super::Model;
use crate::data::{Batch, Loader};
use crate::error::{Error, Result};
use crate::module::{self, Layer};
use crate::summary::network::of_parameter;
use crate::summary::noted::{Asked, muted};
use crate::summary::record;
use crate::train::{Fed, Given, train_step};
use thalweg::graph::Graph;
use thalweg::{Context, Tensor, Tree, jit};

/// What a training is made of, by names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Described {
    /// The type of the network.
    pub network: String,
    /// The loss function.
    pub loss: String,
    /// The type of the optimizer of parameters that are in no group.
    pub optimizer: String,
}

impl<N: Layer + Tree + Send + Sync + 'static> Model<N> {
    /// Whether the next step collects what is noted in it. One that notes nothing is asked always, so that there is one compiled step.
    pub(super) fn asked(&self, norms: bool) -> Asked {
        let due = record::due();
        Asked {
            notes: due.is_some_and(|due| self.silent || due.values || due.tensors),
            norms,
        }
    }

    /// What the next step is fed with.
    pub(super) fn fed(&self, x: &Tensor, y: &Tensor) -> Fed {
        let rate = |base| self.schedule.rate(self.step, base);
        Fed {
            rates: self.rules.rates(self.net(), rate, &self.cx),
            x: x.clone(),
            y: y.clone(),
        }
    }

    pub(super) fn description(&self) -> Described {
        let short = |name: &str| name.replace("thalweg_nn::", "").replace("thalweg::", "");
        Described {
            network: short(std::any::type_name::<N>()),
            loss: short(self.rules.loss_name),
            optimizer: short(self.rules.optimizer().name()),
        }
    }

    pub(super) fn graph_of_step(&self, x: &Tensor, y: &Tensor) -> Result<(Graph, Vec<String>)> {
        let rules = self.rules.clone();
        let step = jit(move |given: &Given<N>| muted(|| train_step(&rules, given)));
        let given = Given {
            fed: Some(self.fed(x, y)),
            ..self.given.clone()
        };
        let graph = step.graph(&given)?;
        let mut inputs: Vec<String> = (module::named(&self.given.net).iter())
            .map(|(path, _)| of_parameter(path))
            .collect();
        inputs.extend(
            self.named_slots()
                .iter()
                .map(|(name, _)| format!("Update/{name}")),
        );
        inputs.extend(["Update/learning_rate", "input", "target"].map(str::to_owned));
        Ok((graph, inputs))
    }

    /// Where the model is.
    pub(crate) fn place(&self) -> &Context {
        &self.cx
    }

    /// Batches with the first samples of `data`, at most so many.
    pub(crate) fn batches_of_samples(&self, data: &Loader, samples: usize) -> Result<Vec<Batch>> {
        let (mut left, mut batches) = (samples, Vec::new());
        for batch in data.clone().prefetch(0).epoch(0, 0, &self.cx) {
            let Batch { x, y } = batch?;
            let count = x.shape()?.first().copied().unwrap_or(1).min(left);
            batches.push(Batch {
                x: x.narrow(0, 0, count),
                y: y.narrow(0, 0, count),
            });
            left -= count;
            if left == 0 {
                break;
            }
        }
        match batches.is_empty() {
            true => Err(Error::NoData {
                samples: data.samples(),
            }),
            false => Ok(batches),
        }
    }

    /// The mean loss of another network over batches.
    pub(crate) fn loss_of(&self, net: &N, batches: &[Batch]) -> Result<f64> {
        let (mut sum, mut samples) = (0.0, 0.0);
        for Batch { x, y } in batches {
            let (loss, _) = (self.compiled().eval)(&(net.clone(), (x.clone(), y.clone())));
            let count = x.shape()?.first().copied().unwrap_or(1) as f64;
            (sum, samples) = (sum + loss.to_scalar()? * count, samples + count);
        }
        Ok(sum / samples)
    }
}
