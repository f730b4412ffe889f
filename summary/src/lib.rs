//! Event files of TensorBoard, written and read.
//!
//! A folder has one run, in files `events.out.tfevents.{unix}.{host}.{pid}.{number}_MS`. A file is a row of records, each with
//! checksums of its length and of its content, so that a file which was cut is good up to its last whole record. A record is an
//! [`Event`]: what was seen at a step.
//!
//! ```
//! use thalweg_summary::{Data, Event, Histogram, Value, Writer, read_folder};
//! let folder = std::env::temp_dir().join(format!("thalweg-summary-doc-{}", std::process::id()));
//! let mut writer = Writer::create(&folder, None)?;
//! let weights = Data::Histogram(Histogram::of([0.5, -0.5, 1.0]));
//! writer.write(&Event::now(1, vec![Value::new("loss", Data::Scalar(2.0)), Value::new("weights", weights)]))?;
//! let steps: Vec<i64> = read_folder(&folder)?.filter_map(Result::ok).map(|event| event.step).collect();
//! assert_eq!(steps, [0, 1]); // the first says the version of the file
//! # drop(writer);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), thalweg_summary::Error>(())
//! ```
#![forbid(unsafe_code)]

mod checksum;
mod error;
mod event;
mod graph;
mod histogram;
pub mod hparams;
mod image;
mod read;
mod record;
mod tensor;
mod wire;
mod write;

pub use error::Error;
pub use event::{Content, Data, Event, Plugin, Value};
pub use graph::{Graph, Node};
pub use histogram::Histogram;
pub use image::Image;
pub use read::{Reader, files, read_folder};
pub use tensor::{Array, Element};
pub use write::Writer;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
