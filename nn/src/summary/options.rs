//! Options of a collector by their names.

mod keys;
#[cfg(test)]
mod tests;

use super::error::SummaryError;
use keys::{EXPORT, KEYS, LANDSCAPE, SPECIFIED};
use std::collections::BTreeMap;
use thalweg::observe::OptionKey;
use thalweg::options::by_name::{WrongOption, parsed, set_all, wrong};

/// What is collected, as configurations of trainings say it. [`SummaryOptions::keys`] lists every key.
///
/// ```
/// use thalweg_nn::summary::SummaryOptions;
/// let options = SummaryOptions::from_json(r#"{"summary_dir": "runs/1", "collect_freq": 50}"#)?;
/// assert_eq!(options.collect_freq, 50);
/// let wrong = SummaryOptions::from_json(r#"{"collect_frequency": 50}"#).unwrap_err();
/// assert!(wrong.to_string().starts_with("summary: collect_frequency is 50; there is no such key"));
/// # Ok::<(), thalweg_nn::summary::SummaryError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SummaryOptions {
    /// The folder; `{r}` is the rank.
    pub summary_dir: String,
    /// Step 1 and the multiples of this are collected.
    pub collect_freq: u64,
    /// As `collect_freq`, for tensors; `None` for at most 20 steps of the training.
    pub collect_tensor_freq: Option<u64>,
    /// What is collected.
    pub collect_specified_data: SpecifiedData,
    /// Whether what is not said is collected.
    pub keep_default_action: bool,
    /// Hyperparameters of your own.
    pub custom_lineage_data: BTreeMap<String, Custom>,
    /// Bytes of a file.
    pub max_file_size: Option<u64>,
    /// Other files for tensors.
    pub export_options: Option<ExportOptions>,
}

/// What is collected; `None` for what `keep_default_action` says.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpecifiedData {
    /// The loss, as `loss/auto`; its mean where it has several elements.
    pub collect_metric: Option<bool>,
    /// The graph of the first step.
    pub collect_graph: Option<bool>,
    /// Hyperparameters of the training.
    pub collect_train_lineage: Option<bool>,
    /// Figures of the evaluation after each epoch.
    pub collect_eval_lineage: Option<bool>,
    /// Images of the batches, as `input_data/auto`.
    pub collect_input_data: Option<bool>,
    /// How the data becomes batches.
    pub collect_dataset_graph: Option<bool>,
    /// Histograms of the parameters whose names begin with what this expression matches; `None` for the first five.
    pub histogram_regular: Option<String>,
    /// Weights for loss landscapes.
    pub collect_landscape: Option<LandscapeOptions>,
}

/// The keys of `collect_landscape`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LandscapeOptions {
    /// Points of a side, 3 to 256.
    pub landscape_size: u64,
    /// What intervals count.
    pub unit: Unit,
    /// Which landscapes.
    pub create_landscape: CreateLandscape,
    /// Samples that the loss of a point is the mean of.
    pub num_samples: u64,
    /// Steps or epochs at which weights are kept, at least 3 for each landscape; none for up to 10 over the whole training.
    pub intervals: Vec<Vec<u64>>,
}

/// What intervals of landscapes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Steps.
    Step,
    /// Epochs.
    Epoch,
}

/// Which landscapes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateLandscape {
    /// Around the way of the weights, one for each interval.
    pub train: bool,
    /// Around the last weights.
    pub result: bool,
}

/// The keys of `export_options`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Whether tensors are files of NumPy too: `npy`.
    pub npy: bool,
}

/// A hyperparameter of your own.
#[derive(Clone, Debug, PartialEq)]
pub enum Custom {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
}

impl Default for SummaryOptions {
    fn default() -> SummaryOptions {
        SummaryOptions {
            summary_dir: "output/summary/rank_{r}".to_owned(),
            collect_freq: 10,
            collect_tensor_freq: None,
            collect_specified_data: SpecifiedData::default(),
            keep_default_action: true,
            custom_lineage_data: BTreeMap::new(),
            max_file_size: None,
            export_options: None,
        }
    }
}

impl Default for LandscapeOptions {
    fn default() -> LandscapeOptions {
        LandscapeOptions {
            landscape_size: 40,
            unit: Unit::Step,
            create_landscape: CreateLandscape {
                train: true,
                result: true,
            },
            num_samples: 128,
            intervals: Vec::new(),
        }
    }
}

impl SummaryOptions {
    /// The options of an object in JSON; keys that it lacks have their defaults.
    ///
    /// # Errors
    /// Text that is no object, a key that does not exist, a value or combination that is not allowed: one line with key, value and
    /// what is allowed.
    pub fn from_json(text: &str) -> Result<SummaryOptions, SummaryError> {
        let mut options = SummaryOptions::default();
        set_all(KEYS, &mut options, &parsed("the options", text)?)?;
        options.check()?;
        Ok(options)
    }

    /// Every key, in the order of the documentation.
    pub fn keys() -> impl Iterator<Item = OptionKey> {
        (KEYS.iter().map(|key| key.facts))
            .chain(SPECIFIED.iter().map(|key| key.facts))
            .chain(LANDSCAPE.iter().map(|key| key.facts))
            .chain(EXPORT.iter().map(|key| key.facts))
    }

    /// Whether the values are allowed.
    ///
    /// # Errors
    /// Values that are not, by themselves or together.
    pub fn check(&self) -> Result<(), SummaryError> {
        let above_zero = [
            ("collect_freq", Some(self.collect_freq)),
            ("collect_tensor_freq", self.collect_tensor_freq),
            ("max_file_size", self.max_file_size),
        ];
        for (key, value) in above_zero {
            if value == Some(0) {
                return Err(wrong(key, 0, "it takes a whole number from 1").into());
            }
        }
        if self.summary_dir.is_empty() {
            return Err(wrong("summary_dir", "\"\"", "it takes a path").into());
        }
        if let Some(number) = self.custom_lineage_data.iter().find(|(name, value)| {
            name.is_empty() || matches!(value, Custom::Float(number) if !number.is_finite())
        }) {
            let allowed = "names have a letter, and numbers are finite";
            return Err(wrong("custom_lineage_data", format!("{number:?}"), allowed).into());
        }
        if let Some(landscape) = &self.collect_specified_data.collect_landscape {
            landscape.check()?;
        }
        Ok(())
    }

    /// What a flag of `collect_specified_data` says.
    pub(crate) fn collects(&self, flag: impl Fn(&SpecifiedData) -> Option<bool>) -> bool {
        flag(&self.collect_specified_data).unwrap_or(self.keep_default_action)
    }
}

impl LandscapeOptions {
    fn check(&self) -> Result<(), WrongOption> {
        if !(3..=256).contains(&self.landscape_size) {
            return Err(wrong(
                "landscape_size",
                self.landscape_size,
                "it takes a whole number from 3 to 256",
            ));
        }
        if self.num_samples == 0 {
            return Err(wrong("num_samples", 0, "it takes a whole number from 1"));
        }
        let CreateLandscape { train, result } = self.create_landscape;
        if !train && !result {
            return Err(wrong(
                "create_landscape",
                "all false",
                "one of train and result is true",
            ));
        }
        for interval in &self.intervals {
            let rises = interval.windows(2).all(|pair| pair[0] < pair[1]);
            if interval.len() < 3 || interval[0] == 0 || !rises {
                let allowed = "each has at least 3 whole numbers from 1 that rise";
                return Err(wrong("intervals", format!("{interval:?}"), allowed));
            }
        }
        Ok(())
    }
}
