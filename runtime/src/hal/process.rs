//! The process's own runtime, and its calls as functions.

use super::device::{Device, DeviceProperties};
use super::runtime::Runtime;
use super::statistics::{self, MemoryStats};
use super::stream::Stream;
use crate::error::{Error, Result};
use crate::loader::{LoaderOptions, Registry};
use std::sync::OnceLock;
use thalweg_hal::tables::{Capability, MemoryInfo};

/// The runtime of the process, with the default options of the loader.
pub fn runtime() -> &'static Runtime {
    runtime_with(&[])
}

/// The runtime of the process, made with these layers if it is not there; none stand for those of the environment.
fn runtime_with(layers: &[String]) -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Runtime::new(Registry::new(LoaderOptions {
            layers: layers.to_vec(),
            ..LoaderOptions::default()
        }))
    })
}

/// Sets the layers between this process and its backends, the first nearest to the program.
///
/// ```
/// use thalweg_runtime::hal;
/// hal::device("cpu")?;
/// let error = hal::set_layers(&["validate".into()]).unwrap_err();
/// assert!(error.to_string().starts_with("layers validate asked, the backends of this process have none"));
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
///
/// # Errors
/// [`Error::LayersSet`] when the runtime of the process is there already, with other layers.
pub fn set_layers(layers: &[String]) -> Result<()> {
    let set = runtime_with(layers).registry().layers();
    match set == layers {
        true => Ok(()),
        false => Err(Error::LayersSet {
            asked: layers.to_vec(),
            set: set.to_vec(),
        }),
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        $(#[$doc])*
        #[doc = concat!("\n\nSee [`Runtime::", stringify!($name), "`].")]
        pub fn $name($($arg: $type),*) -> $result {
            runtime().$name($($arg),*)
        }
    )* };
}

functions! {
    /// The names of the backends that may be used.
    targets() -> Vec<String>;
    /// Number of devices of a backend.
    device_count(backend: &str) -> Result<u32>;
    /// Name of a device, for a person.
    device_name(backend: &str, id: i64) -> Result<String>;
    /// What a device is.
    device_properties(backend: &str, id: i64) -> Result<DeviceProperties>;
    /// Whether a device can do something.
    capability(backend: &str, id: i64, capability: Capability) -> Result<bool>;
    /// Why a target cannot be used, if it cannot.
    availability(target: &str) -> Result<()>;
    /// Whether a target can be used.
    is_available(target: &str) -> bool;
    /// Whether a device is open.
    is_initialized(target: &str) -> Result<bool>;
    /// The device that a text names, opened by the first call.
    device(target: &str) -> Result<Device>;
    /// Waits for all work of every open device.
    synchronize() -> Result<()>;
    /// The pool's figures; all 0 for a device that is not open.
    memory_stats(target: &str) -> Result<MemoryStats>;
    /// Sets the peaks of allocated and reserved memory to the present values.
    reset_peak_memory_stats(target: &str) -> Result<()>;
    /// Gives cached memory back to the device; returns the number of bytes.
    empty_cache(target: &str) -> Result<u64>;
    /// Free and total bytes as the driver or the operating system sees them. Opens the device.
    mem_get_info(target: &str) -> Result<MemoryInfo>;
    /// Changes the limit on reserved bytes, 0 for none, now or when the device is opened.
    set_memory_limit(target: &str, bytes: u64) -> Result<()>;
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident = $field:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// As [`memory_stats`].
        pub fn $name(target: &str) -> Result<u64> {
            Ok(memory_stats(target)?.$field)
        }
    )* };
}

figures! {
    /// Bytes in use by buffers, in multiples of 512.
    memory_allocated = allocated;
    /// Bytes that the pool has reserved from the device.
    memory_reserved = reserved;
    /// Peak of [`memory_allocated`].
    max_memory_allocated = max_allocated;
    /// Peak of [`memory_reserved`].
    max_memory_reserved = max_reserved;
}

/// As [`reset_peak_memory_stats`], both peaks: the name of other frameworks.
///
/// # Errors
/// As [`reset_peak_memory_stats`].
pub fn reset_max_memory_allocated(target: &str) -> Result<()> {
    reset_peak_memory_stats(target)
}

/// As [`reset_peak_memory_stats`], both peaks: the name of other frameworks.
///
/// # Errors
/// As [`reset_peak_memory_stats`].
pub fn reset_max_memory_reserved(target: &str) -> Result<()> {
    reset_peak_memory_stats(target)
}

/// The pool's figures as a table.
///
/// # Errors
/// As [`memory_stats`].
pub fn memory_summary(target: &str) -> Result<String> {
    Ok(statistics::summary(&memory_stats(target)?))
}

/// The stream that is current on this thread; opens the device.
///
/// # Errors
/// As [`Runtime::device`].
pub fn current_stream(target: &str) -> Result<Stream> {
    Ok(device(target)?.current_stream()?)
}

/// The device's default stream; opens the device.
///
/// # Errors
/// As [`Runtime::device`].
pub fn default_stream(target: &str) -> Result<Stream> {
    Ok(device(target)?.default_stream()?)
}
