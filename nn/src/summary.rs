//! See what happened: values of a training by name and step, in files that TensorBoard reads.
//!
//! [`callback::SummaryCollector`](crate::callback::SummaryCollector) collects while a model trains: loss, histograms of parameters,
//! images of the data, the graph, hyperparameters. The functions of this module add values of your own, from a network's `forward`,
//! from callbacks, and from any other code.
//!
//! ```
//! use thalweg::{Context, Tensor};
//! use thalweg_nn::summary::{self, Record};
//! # let folder = std::env::temp_dir().join(format!("thalweg-nn-doc-{}", std::process::id()));
//! let cx = Context::new("cpu")?;
//! let mut record = Record::to(&folder)?; // a training of your own; `SummaryCollector` is one too
//! for step in 1..=3 {
//!     record.step(step)?;
//!     summary::scalar("loss", &Tensor::scalar(1.0 / step as f32, &cx));
//! }
//! record.finish()?;
//! // $ tensorboard --logdir folder
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), thalweg_nn::Error>(())
//! ```
//!
//! # In networks
//!
//! In `forward` of a network that a [`Model`](crate::Model) trains, values are collected at the steps that the collector asks for, in
//! the order of the calls. Where steps are compiled, the values are further results of the same graph, which changes no bit of the
//! others; steps that are not collected run the graph without them. Evaluation and prediction collect nothing.
//!
//! The body of a loop, a branch or a checkpoint of a compiled step, and functions that are compiled by [`jit`](thalweg::jit()) outside
//! of a model's step, have no values to collect when they are traced. A call there is an error, which the step reports.
//!
//! Without a record on this thread, the functions do nothing.

mod error;
pub(crate) mod landscape;
pub(crate) mod lineage;
pub(crate) mod network;
pub(crate) mod noted;
mod options;
pub(crate) mod record;
pub(crate) mod sink;
pub(crate) mod values;

pub use error::SummaryError;
pub use landscape::{Landscape, landscape};
pub use options::{
    CreateLandscape, Custom, ExportOptions, LandscapeOptions, SpecifiedData, SummaryOptions, Unit,
};
pub use record::Record;

use noted::Kind;
use thalweg::Tensor;

/// Notes a tensor of one element as a number.
///
/// A tensor of more elements is an error, which the record reports at the end of the step.
pub fn scalar(tag: &str, x: &Tensor) {
    noted::note(Kind::Scalar, tag, x);
}

/// Notes `[height, width]`, `[channels, height, width]` or `[images, channels, height, width]`, with 1, 3 or 4 channels, as a picture.
/// Of several images the first 16 are shown in one. Bytes are taken as they are; other values are scaled from 0..=1, or from the
/// smallest to the largest where they lie outside of that. NaN is black.
///
/// Other shapes are an error, which the record reports at the end of the step.
pub fn image(tag: &str, x: &Tensor) {
    noted::note(Kind::Image, tag, x);
}

/// Notes all elements, for the page TENSORS and for files of NumPy: see `export_options`.
pub fn tensor(tag: &str, x: &Tensor) {
    noted::note(Kind::Tensor, tag, x);
}

/// Notes how often values lie where. NaN and infinite values are left out.
pub fn histogram(tag: &str, x: &Tensor) {
    noted::note(Kind::Histogram, tag, x);
}
