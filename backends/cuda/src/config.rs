//! What users may set, with the host's `set_config` or as environment variables `THALWEG_CUDA_…`.

use std::path::PathBuf;
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::{Error, Host, Result};

/// Folders, with colons between them, in which the libraries of CUDA are looked for, and nowhere else.
pub(crate) const LIBRARIES: &str = "cuda.libraries";
/// Folder of the programs that were compiled before, or `off`; by default `thalweg/cuda` in the user's cache folder.
const CACHE: &str = "cuda.cache";
/// `on`: matrix products of f32 round their operands to 10 bits of mantissa (TF32), which tensor cores multiply.
const TF32: &str = "cuda.tf32";
/// `off`: matrix products do not use cuBLASLt.
const LT: &str = "cuda.cublaslt";
/// `on`: every submission waits for its end, so that an error is reported by the work that caused it.
const BLOCKING: &str = "cuda.blocking";

/// What was set for a device.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where compiled programs are kept.
    pub(crate) cache: Option<PathBuf>,
    /// Whether products of f32 may use TF32.
    pub(crate) tf32: bool,
    /// Whether matrix products use cuBLASLt.
    pub(crate) cublaslt: bool,
    /// Whether submissions wait for their end.
    pub(crate) blocking: bool,
}

impl Config {
    /// Reads the settings and refuses unknown values.
    pub(crate) fn read(host: Host) -> Result<Config> {
        let switch = |key: &str, default: bool| match host.config(key).as_deref() {
            None => Ok(default),
            Some("on") => Ok(true),
            Some("off") => Ok(false),
            Some(value) => Err(Error::invalid_argument(format!(
                "{key} is `{value}`; it takes `on` or `off`"
            ))),
        };
        Ok(Config {
            cache: Cache::folder(host, CACHE, "cuda"),
            tf32: switch(TF32, false)?,
            cublaslt: switch(LT, true)?,
            blocking: switch(BLOCKING, false)?,
        })
    }
}
