//! Where a trained model comes from: hyperparameters, data, figures.

use super::options::Custom;
use crate::callback::RunContext;
use crate::data::Loader;
use crate::error::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use thalweg::interchange;
use thalweg_summary::hparams::Setting;

/// The file.
pub(crate) const FILE: &str = "lineage.json";

/// What the file says.
#[derive(Default)]
pub(crate) struct Lineage {
    parts: Map<String, Value>,
}

impl Lineage {
    /// The hyperparameters of a training that begins.
    pub(crate) fn training(&mut self, run: &RunContext<'_>) {
        let said = run.model.described();
        let parameters: usize = (run.model.trainable().iter())
            .filter_map(|(_, value)| value.shape().ok())
            .map(|shape| shape.elements())
            .sum();
        self.parts.insert(
            "train".to_owned(),
            json!({
                "network": said.network,
                "loss": said.loss,
                "optimizer": said.optimizer,
                "learning_rate": run.learning_rate,
                "epochs": run.epoch_num,
                "batches": run.batch_num,
                "batch_size": run.train_dataset.map(Loader::batch_size),
                "samples": run.train_dataset.map(Loader::samples),
                "parameters": parameters,
                "device": run.model.context().device().target(),
            }),
        );
    }

    /// How data becomes batches.
    pub(crate) fn data(&mut self, data: &Loader) {
        self.parts.insert("dataset_graph".to_owned(), data.described());
    }

    /// What users add.
    pub(crate) fn custom(&mut self, custom: &BTreeMap<String, Custom>) {
        let value = |custom: &Custom| match custom {
            Custom::Text(text) => json!(text),
            Custom::Int(number) => json!(number),
            Custom::Float(number) => json!(number),
        };
        if !custom.is_empty() {
            let object: Map<_, _> = custom
                .iter()
                .map(|(name, custom)| (name.clone(), value(custom)))
                .collect();
            self.parts.insert("custom".to_owned(), object.into());
        }
    }

    /// How far a training has come.
    pub(crate) fn progress(&mut self, run: &RunContext<'_>, loss: Option<f64>, ended: bool) {
        if let Some(Value::Object(train)) = self.parts.get_mut("train") {
            train.insert("epochs_done".to_owned(), json!(run.cur_epoch_num));
            train.insert("steps_done".to_owned(), json!(run.cur_step_num));
            // A number that is none is null in JSON.
            train.insert("last_loss".to_owned(), json!(loss));
            train.insert("ended".to_owned(), json!(ended));
        }
    }

    /// Figures of an evaluation.
    pub(crate) fn evaluation(&mut self, run: &RunContext<'_>) {
        let figures: BTreeMap<&String, f64> =
            run.metrics.iter().map(|(name, value)| (name, *value)).collect();
        self.parts.insert(
            "eval".to_owned(),
            json!({"epoch": run.cur_epoch_num, "figures": figures}),
        );
    }

    /// Hyperparameters as TensorBoard takes them: those of the training, and those of users.
    pub(crate) fn settings(&self) -> Vec<(String, Setting)> {
        let objects = ["train", "custom"]
            .into_iter()
            .filter_map(|part| self.parts.get(part)?.as_object());
        let setting = |(name, value): (&String, &Value)| {
            let setting = match value {
                Value::Number(number) => Setting::Number(number.as_f64()?),
                Value::String(text) => Setting::Text(text.clone()),
                Value::Bool(flag) => Setting::Flag(*flag),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            Some((name.clone(), setting))
        };
        objects.flatten().filter_map(setting).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Writes the file, as a whole.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.parts).unwrap_or_default() + "\n";
        Ok(interchange::replace_file(path, text.as_bytes())?)
    }
}
