//! What the flight recorder of a process left behind: `THALWEG_RDR_ENABLE=1 ./program`, and `thalweg rdr` after it.

pub use crate::record::flight::error::FlightError;
pub use crate::record::flight::read::{Flight, Launch, MemoryEvent, find};

/// Whether a text is what [`ContextBuilder::env_config_path`] takes: an object in JSON with options of the flight recorder. Nothing
/// begins.
///
/// ```
/// use thalweg::observe::flight::check_config;
/// check_config(r#"{"rdr": {"enable": true, "path": "/out", "mode": 1}}"#)?;
/// let error = check_config(r#"{"rdr": {"path": "out"}}"#).unwrap_err();
/// assert_eq!(error.to_string(), r#"path is "out"; it takes an absolute path"#);
/// # Ok::<(), thalweg::observe::flight::FlightError>(())
/// ```
///
/// [`ContextBuilder::env_config_path`]: crate::context::ContextBuilder::env_config_path
///
/// # Errors
/// Text that is no such object, a key that does not exist, a value that it does not take: one line.
pub fn check_config(text: &str) -> Result<(), FlightError> {
    crate::context::check_config(text)
}
