//! What can go wrong with files about kernels.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of `kernel_meta/` cannot be written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("op_debug_level: {path}: {error}; start where files can be written", path = .path.display())]
#[non_exhaustive]
pub struct KernelMetaError {
    /// The folder or file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub error: Arc<io::Error>,
}
