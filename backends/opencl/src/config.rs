//! What users may set, with the host's `set_config` or as environment variables `THALWEG_OPENCL_…`.

use crate::platform::DeviceInfo;
use std::path::PathBuf;
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::{Error, Host, Result};

/// The OpenCL loader to open instead of the system's.
pub(crate) const LIBRARY: &str = "opencl.library";
/// Folder of the programs that were compiled before, or `off`; by default `thalweg/opencl` in the user's cache folder.
pub(crate) const CACHE: &str = "opencl.cache";
/// `device`: buffers of a device that is the host's processor are the driver's, as on any other device. `host`, the
/// default there: they are the host's memory, used in place.
pub(crate) const MEMORY: &str = "opencl.memory";
/// `off`: a matrix product takes the first tiles and tries no others.
const TUNE: &str = "opencl.tune";
/// `interpreted`: one program runs every kernel, and nothing else is compiled: for tests of many kernels that each run once.
/// `compiled`, the default: every kernel has its own.
const KERNELS: &str = "opencl.kernels";

/// What was set for a device.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where compiled programs are kept.
    pub(crate) cache: Option<PathBuf>,
    /// Whether buffers are host memory that the device uses in place.
    pub(crate) shared: bool,
    /// Whether a matrix product tries its tiles.
    pub(crate) tune: bool,
    /// Whether one program interprets kernels.
    pub(crate) interpret: bool,
}

impl Config {
    /// Reads the settings and refuses unknown values.
    pub(crate) fn read(host: Host, info: &DeviceInfo) -> Result<Config> {
        let one_of = |key: &str, values: [&str; 2]| match host.config(key) {
            Some(value) if !values.contains(&value.as_str()) => Err(Error::invalid_argument(format!(
                "{key} is `{value}`; it takes `{}` or `{}`",
                values[0], values[1]
            ))),
            value => Ok(value),
        };
        one_of(MEMORY, ["host", "device"])?;
        Ok(Config {
            cache: Cache::folder(host, CACHE, "opencl"),
            shared: shares_memory(host, info),
            tune: one_of(TUNE, ["on", "off"])?.as_deref() != Some("off"),
            interpret: one_of(KERNELS, ["compiled", "interpreted"])?.as_deref() == Some("interpreted"),
        })
    }
}

/// Whether buffers are host memory that the device uses in place.
pub(crate) fn shares_memory(host: Host, info: &DeviceInfo) -> bool {
    info.is_host() && host.config(MEMORY).as_deref() != Some("device")
}
