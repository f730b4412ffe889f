//! Direct calls of a backend's tables, for cases.

pub(crate) mod device;
mod gate;
mod raw;
pub mod run;
mod subject;
pub mod values;

pub use device::Device;
pub use gate::{Gate, callback};
pub use raw::Raw;
pub use subject::Subject;

/// A handle that no backend gives out: its index is beyond what memory has room for.
pub const NOBODY: u64 = 0x7fff_fffe_ffff_fff0;
