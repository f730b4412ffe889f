//! Devices: what there is, opening, synchronising.

use super::Context;

/// What kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// The host's processor.
    Cpu = 1,
    /// A graphics processor with its own memory or sharing the host's.
    Gpu = 2,
    /// Anything else.
    Accelerator = 3,
}

impl Kind {
    /// The kind of a code; unknown ones are accelerators.
    pub const fn from_code(code: u32) -> Kind {
        match code {
            1 => Kind::Cpu,
            2 => Kind::Gpu,
            _ => Kind::Accelerator,
        }
    }

    /// `cpu`, `gpu`, `accelerator`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Gpu => "gpu",
            Kind::Accelerator => "accelerator",
        }
    }
}

/// Capability bits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum Capability {
    /// Kernels may use f64.
    F64 = 1 << 0,
    /// Kernels may use f16.
    F16 = 1 << 1,
    /// Kernels may use bf16.
    BF16 = 1 << 2,
    /// Buffers can be mapped to host addresses.
    Map = 1 << 3,
    /// Host memory can be imported.
    Import = 1 << 4,
    /// Device and host share memory: mapping costs nothing.
    UnifiedMemory = 1 << 5,
    /// Events measure time.
    Timing = 1 << 6,
    /// Streams have priorities.
    Priority = 1 << 7,
    /// Reductions give the same bits on every run.
    Deterministic = 1 << 8,
    /// Kernels may move and cast f8e4m3 and f8e5m2.
    F8 = 1 << 9,
    /// Convolutions are fastest where the channels of their operands and results are neighbours in memory.
    ChannelsLast = 1 << 10,
    /// The same of convolutions of unsigned by signed 8-bit integers, summed in i32.
    ChannelsLastBytes = 1 << 11,
    /// Work over a batch is fastest part after part, where caches hold what a step makes of a part for the step that reads it.
    PartsOfBatches = 1 << 12,
}

impl Capability {
    /// Every bit of this version with its name.
    pub const ALL: [(Capability, &'static str); 13] = [
        (Capability::F64, "f64"),
        (Capability::F16, "f16"),
        (Capability::BF16, "bf16"),
        (Capability::Map, "map"),
        (Capability::Import, "import"),
        (Capability::UnifiedMemory, "unified memory"),
        (Capability::Timing, "timing"),
        (Capability::Priority, "priority"),
        (Capability::Deterministic, "deterministic"),
        (Capability::F8, "f8"),
        (Capability::ChannelsLast, "channels last"),
        (Capability::ChannelsLastBytes, "channels last bytes"),
        (Capability::PartsOfBatches, "parts of batches"),
    ];

    /// The bit.
    pub const fn bit(self) -> u64 {
        self as u64
    }
}

/// What a device is. Texts are UTF-8, padded with zeros; 0 stands for a number that does not apply.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceProperties {
    /// Name for a person.
    pub name: [u8; 128],
    /// Architecture or instruction set: `avx512`, `sm_90`, ….
    pub arch: [u8; 64],
    /// PCI address or another stable id.
    pub id: [u8; 64],
    /// A [`Kind`] code.
    pub kind: u32,
    /// Cores, multiprocessors or compute units.
    pub compute_units: u32,
    /// Memory of the device in bytes.
    pub total_memory: u64,
    /// [`Capability`] bits.
    pub capabilities: u64,
    /// Alignment of every allocation in bytes.
    pub alignment: u64,
    /// Lowest priority of a stream.
    pub priority_low: i32,
    /// Highest priority of a stream.
    pub priority_high: i32,
}

/// How a device is opened.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceOptions {
    /// Which device, `0..device_count`.
    pub ordinal: u32,
    /// 0.
    pub reserved: u32,
    /// Most bytes the pool may reserve; 0 for no limit but the device's.
    pub memory_limit: u64,
    /// Size in bytes of the blocks that the pool reserves; 0 for the default of 1 GiB.
    pub block_size: u64,
}

/// Keys of [`DeviceTable::query`], for single numbers that are not in [`DeviceProperties`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum PropertyKey {
    /// Bytes of the innermost data cache of one core.
    L1Cache = 1,
    /// Bytes of the second-level cache of one core.
    L2Cache = 2,
    /// Bytes of the last-level cache.
    L3Cache = 3,
    /// Bits of the widest vector register.
    VectorBits = 4,
    /// Threads that work on one kernel.
    Threads = 5,
}

impl PropertyKey {
    /// The key of a code.
    pub const fn from_code(code: u32) -> Option<PropertyKey> {
        Some(match code {
            1 => PropertyKey::L1Cache,
            2 => PropertyKey::L2Cache,
            3 => PropertyKey::L3Cache,
            4 => PropertyKey::VectorBits,
            5 => PropertyKey::Threads,
            _ => return None,
        })
    }
}

/// Devices. Handles come from `open` and end with `close`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceTable {
    /// What device `ordinal` is. Initialises nothing.
    pub properties: unsafe extern "C" fn(context: Context, ordinal: u32, out: *mut DeviceProperties) -> i32,
    /// Success when device `ordinal` can be opened; otherwise `Unavailable` and why not.
    pub is_available: unsafe extern "C" fn(context: Context, ordinal: u32) -> i32,
    /// Initialises a device.
    pub open: unsafe extern "C" fn(context: Context, options: *const DeviceOptions, out: *mut u64) -> i32,
    /// Waits for all work and frees everything that belongs to the device; its handles become stale.
    pub close: unsafe extern "C" fn(context: Context, device: u64) -> i32,
    /// Waits for all work of all streams and reports the first error that sticks to one of them.
    pub synchronize: unsafe extern "C" fn(context: Context, device: u64) -> i32,
    /// Success while the device works, `DeviceLost` and why afterwards.
    pub status: unsafe extern "C" fn(context: Context, device: u64) -> i32,
    /// One number by [`PropertyKey`] code; `Unsupported` where it does not apply.
    pub query: unsafe extern "C" fn(context: Context, device: u64, key: u32, out: *mut u64) -> i32,
}
