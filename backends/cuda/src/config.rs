//! What users may set, with the host's `set_config` or as environment variables `THALWEG_CUDA_…`.

use std::path::PathBuf;
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::{Host, Result};

pub(crate) const LIBRARIES: Setting = Setting {
    key: "cuda.libraries",
    variable: "THALWEG_CUDA_LIBRARIES",
    way: Way::Config,
    values: Values::Range("folders with `:` between them"),
    default: "where the system looks",
    about: "Where the libraries of CUDA are looked for, and nowhere else.",
    read_by: "backend cuda",
};
const CACHE: Setting = Setting {
    key: "cuda.cache",
    variable: "THALWEG_CUDA_CACHE",
    way: Way::Config,
    values: Values::Range("a folder, or `off`"),
    default: "`thalweg/cuda` in the cache folder of the user",
    about: "Where compiled programs are kept between processes.",
    read_by: "backend cuda",
};
const TF32: Setting = Setting {
    key: "cuda.tf32",
    variable: "THALWEG_CUDA_TF32",
    way: Way::Config,
    values: Values::OneOf(&["on", "off"]),
    default: "off",
    about: "With `on`, matrix products of f32 round their operands to 10 bits of mantissa, which tensor cores multiply.",
    read_by: "backend cuda",
};
const LT: Setting = Setting {
    key: "cuda.cublaslt",
    variable: "THALWEG_CUDA_CUBLASLT",
    way: Way::Config,
    values: Values::OneOf(&["on", "off"]),
    default: "on",
    about: "Whether matrix products use cuBLASLt.",
    read_by: "backend cuda",
};
const CUPTI: Setting = Setting {
    key: "cuda.cupti",
    variable: "THALWEG_CUDA_CUPTI",
    way: Way::Config,
    values: Values::OneOf(&["on", "off"]),
    default: "on",
    about: "Whether profiles ask CUPTI when kernels ran. With `off`, or without CUPTI, they are timed by events around them.",
    read_by: "backend cuda",
};
const BLOCKING: Setting = Setting {
    key: "cuda.blocking",
    variable: "THALWEG_CUDA_BLOCKING",
    way: Way::Config,
    values: Values::OneOf(&["on", "off"]),
    default: "off",
    about: "With `on`, every submission waits for its end. An error is then reported by the work that caused it.",
    read_by: "backend cuda",
};

/// What was set for a device.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where compiled programs are kept.
    pub(crate) cache: Option<PathBuf>,
    /// Whether products of f32 may use TF32.
    pub(crate) tf32: bool,
    /// Whether matrix products use cuBLASLt.
    pub(crate) cublaslt: bool,
    /// Whether profiles use CUPTI.
    pub(crate) cupti: bool,
    /// Whether submissions wait for their end.
    pub(crate) blocking: bool,
}

impl Config {
    /// Reads the settings and refuses unknown values.
    pub(crate) fn read(host: Host) -> Result<Config> {
        Ok(Config {
            cache: Cache::folder(host, CACHE.key, "cuda"),
            tf32: TF32.is_on(host)?,
            cublaslt: LT.is_on(host)?,
            cupti: CUPTI.is_on(host)?,
            blocking: BLOCKING.is_on(host)?,
        })
    }
}
