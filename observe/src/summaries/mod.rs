//! What trainings note beside recordings: event files of TensorBoard, `lineage.json` and `landscape.json`.

mod film;
mod find;
mod landscape;
mod read;
mod scalar;

pub(crate) use film::{Frame, Row};
pub(crate) use find::{Folder, folders};
pub(crate) use landscape::{Landscape, Stop};
pub(crate) use read::{Budget, Summaries};
pub(crate) use scalar::Point;
