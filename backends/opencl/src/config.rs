//! What users may set, with the host's `set_config` or as environment variables `THALWEG_OPENCL_…`.

use crate::platform::DeviceInfo;
use std::path::PathBuf;
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::{Host, Result};

pub(crate) const LIBRARY: Setting = Setting {
    key: "opencl.library",
    variable: "THALWEG_OPENCL_LIBRARY",
    way: Way::Config,
    values: Values::Range("a file"),
    default: "the loader of the system",
    about: "The OpenCL loader to open.",
    read_by: "backend opencl",
};
const CACHE: Setting = Setting {
    key: "opencl.cache",
    variable: "THALWEG_OPENCL_CACHE",
    way: Way::Config,
    values: Values::Range("a folder, or `off`"),
    default: "`thalweg/opencl` in the cache folder of the user",
    about: "Where compiled programs are kept between processes.",
    read_by: "backend opencl",
};
const MEMORY: Setting = Setting {
    key: "opencl.memory",
    variable: "THALWEG_OPENCL_MEMORY",
    way: Way::Config,
    values: Values::OneOf(&["host", "device"]),
    default: "host",
    about: "On a device that is the processor of the host: `host` uses its memory in place, `device` takes buffers of the driver.",
    read_by: "backend opencl",
};
const TUNE: Setting = Setting {
    key: "opencl.tune",
    variable: "THALWEG_OPENCL_TUNE",
    way: Way::Config,
    values: Values::OneOf(&["on", "off"]),
    default: "on",
    about: "Whether a matrix product tries several tiles, once a device, and keeps the fastest.",
    read_by: "backend opencl",
};
const KERNELS: Setting = Setting {
    key: "opencl.kernels",
    variable: "THALWEG_OPENCL_KERNELS",
    way: Way::Config,
    values: Values::OneOf(&["compiled", "interpreted"]),
    default: "compiled",
    about: "With `interpreted`, one program runs every kernel and nothing else is compiled. It is for tests of many kernels that run once.",
    read_by: "backend opencl",
};

const CLOCK: Setting = Setting {
    key: "opencl.clock",
    variable: "THALWEG_OPENCL_CLOCK",
    way: Way::Config,
    values: Values::OneOf(&["timer", "markers"]),
    default: "timer",
    about: "How profiles read the clock of the device: by the function of OpenCL 2.1, or, as before it, by markers in a queue.",
    read_by: "backend opencl",
};

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
    /// Whether the driver's function for its clock is used where it has one.
    pub(crate) timer: bool,
}

impl Config {
    /// Reads the settings and refuses unknown values.
    pub(crate) fn read(host: Host, info: &DeviceInfo) -> Result<Config> {
        let in_place = MEMORY.word(host)? == "host";
        Ok(Config {
            cache: Cache::folder(host, CACHE.key, "opencl"),
            shared: info.is_host() && in_place,
            tune: TUNE.is_on(host)?,
            interpret: KERNELS.word(host)? == "interpreted",
            timer: CLOCK.word(host)? == "timer",
        })
    }
}

/// Whether buffers are host memory that the device uses in place.
pub(crate) fn shares_memory(host: Host, info: &DeviceInfo) -> bool {
    info.is_host() && MEMORY.of(host).as_deref() != Some("device")
}
