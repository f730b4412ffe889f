//! What the flight recorder of a process left behind: `THALWEG_RDR_ENABLE=1 ./program`, and `thalweg rdr` after it.

pub use crate::record::flight::error::FlightError;
pub use crate::record::flight::read::{Flight, Launch, MemoryEvent, find};
