//! Tensors from and to other programs: files of NumPy ([`npy`], [`npz`]) and of safetensors, and memory shared by DLPack or with
//! `ndarray`. Each but [`npy`] is a feature of the crate by its name.

#[cfg(feature = "dlpack")]
pub mod dlpack;
mod file;
#[cfg(feature = "ndarray")]
mod ndarray;
pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
#[cfg(feature = "safetensors")]
pub mod safetensors;

use crate::error::Error;
use std::path::Path;

/// Writes a file that appears whole or not at all; folders are made.
///
/// # Errors
/// The file cannot be written.
#[doc(hidden)]
pub fn replace_file(path: &Path, bytes: &[u8]) -> crate::error::Result<()> {
    use std::io::Write;
    file::replace(path, |file| file.write_all(bytes).map_err(file::failed(path)))
}

/// An error of data in `format`, in a file where there is one.
fn malformed(format: &'static str, path: Option<&Path>, message: impl Into<String>) -> Error {
    Error::Format {
        format,
        path: path.map(Path::to_owned),
        message: message.into(),
    }
}
