//! A backend for the tests of this module: the kit's pool, streams, events and programs over host memory, and kernels that
//! are contiguous f32 maps or sums over an inner axis.

use super::{Backend, Device, DeviceOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_hal::backend::{self, Launch, Properties, Source, Tag, Work};
use thalweg_hal::ir::{Kernel, Node, ReduceOp, Role, ScalarOp};
use thalweg_hal::kit::host_device::memory_info;
use thalweg_hal::kit::host_memory::{self, HostChunk, address};
use thalweg_hal::kit::queue::Queue;
use thalweg_hal::tables::{BackendApi, Capability, Kind, MemoryInfo};
use thalweg_hal::{Error, Host, Result};

/// Makes later launches of every test device fail while set.
pub(super) static BROKEN: AtomicBool = AtomicBool::new(false);

pub(super) struct Double;

pub(super) struct DoubleDevice(u32);

impl backend::Backend for Double {
    type Device = DoubleDevice;
    const NAME: &'static str = "double";
    const VERSION: &'static str = "1.2.3";

    fn start(_: Host) -> Result<Double> {
        Ok(Double)
    }

    fn device_count(&self) -> Result<u32> {
        Ok(3)
    }

    fn properties(&self, ordinal: u32) -> Result<Properties> {
        Ok(Properties {
            name: format!("double {ordinal}"),
            arch: "test".into(),
            id: String::new(),
            kind: Kind::Accelerator,
            compute_units: 3,
            total_memory: 1 << 40,
            capabilities: [
                Capability::Map,
                Capability::Import,
                Capability::Timing,
                Capability::Priority,
            ]
            .into_iter()
            .chain((ordinal == 2).then_some(Capability::UnifiedMemory))
            .collect(),
            priorities: (-1, 2),
        })
    }

    fn is_available(&self, ordinal: u32) -> Result<()> {
        match ordinal {
            0 | 2 => Ok(()),
            _ => Err(Error::unavailable("device 1 is switched off; switch it on")),
        }
    }

    fn open(&self, ordinal: u32) -> Result<DoubleDevice> {
        self.is_available(ordinal).map(|()| DoubleDevice(ordinal))
    }
}

impl backend::Device for DoubleDevice {
    type Chunk = HostChunk;
    type Kernel = Kernel;

    thalweg_hal::queue_streams!();

    fn reserve(&self, bytes: u64) -> Result<HostChunk> {
        HostChunk::reserve(bytes)
    }

    unsafe fn import(&self, ptr: *mut u8, _: u64) -> Result<HostChunk> {
        match self.0 {
            2 => Err(Error::unsupported("part of this memory is imported already")),
            _ => Ok(HostChunk::borrowed(ptr)),
        }
    }

    fn map(&self, chunk: &HostChunk) -> Result<*mut u8> {
        Ok(chunk.ptr())
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        memory_info()
    }

    unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the contract of both is the same, and `run` relies on it.
        unsafe {
            host_memory::submit(stream, work, tag, |launch| {
                if BROKEN.load(Ordering::Relaxed) {
                    return Err(Error::launch_failed("the device is broken"));
                }
                run(launch);
                Ok(())
            })
        }
    }

    fn supports(&self, source: &Source<'_>) -> Result<()> {
        match source {
            Source::Kernel(..) => Ok(()),
            Source::Library(_) => Err(no_library()),
        }
    }

    fn compile(&self, source: &Source<'_>, _options: &str) -> Result<Kernel> {
        match source {
            Source::Kernel(kernel, _) => Ok((*kernel).clone()),
            Source::Library(_) => Err(no_library()),
        }
    }
}

fn no_library() -> Error {
    Error::unsupported("no library op; compile its definition")
}

/// # Safety
/// As `Device::submit`.
unsafe fn run(launch: &Launch<'_, DoubleDevice>) {
    let kernel = &**launch.kernel;
    let (outer, inner) = launch.extents.split_at(kernel.outer as usize);
    let (rows, row) = (outer.iter().product::<u64>(), inner.iter().product::<u64>());
    let at = |param: u32, index: u64| -> *mut f32 {
        address(&launch.bindings[param as usize].region)
            .cast::<f32>()
            .wrapping_add(index as usize)
    };
    for outer in 0..rows {
        let mut sums = vec![0.0_f64; kernel.nodes.len()];
        for inner in 0..row {
            let mut values = vec![0.0_f32; kernel.nodes.len()];
            for (id, node) in kernel.nodes.iter().enumerate() {
                values[id] = match *node {
                    Node::Const { bits, .. } => f32::from_bits(bits as u32),
                    Node::Scalar { index } => f32::from_bits(launch.scalars[index as usize] as u32),
                    // SAFETY: checked by the export layer.
                    Node::Load { param } => unsafe { at(param, outer * row + inner).read() },
                    Node::Op { op, args } => {
                        let [a, b, _] = args.map(|id| values[id.index()]);
                        match op {
                            ScalarOp::Add => a + b,
                            ScalarOp::Sub => a - b,
                            ScalarOp::Mul => a * b,
                            other => panic!("the test double has no {other}"),
                        }
                    }
                    Node::Reduce {
                        op: ReduceOp::Sum,
                        arg,
                    } => {
                        sums[id] += f64::from(values[arg.index()]);
                        sums[id] as f32
                    }
                    Node::Store { param, value } => {
                        assert_eq!(kernel.params[param as usize].role, Role::Out);
                        let index = if kernel.inner == 0 {
                            outer * row + inner
                        } else {
                            outer
                        };
                        // SAFETY: as above.
                        unsafe { at(param, index).write(values[value.index()]) };
                        0.0
                    }
                    other => panic!("the test double has no {other:?}"),
                };
            }
        }
    }
}

/// The backend, by way of its entry function.
pub(super) fn backend() -> Backend {
    let mut api = BackendApi::empty();
    // SAFETY: both pointers are valid, the host's for the life of the process.
    let code = unsafe {
        thalweg_hal::export::entry::<Double>(
            thalweg_hal::tables::ABI_VERSION,
            crate::host::host_api(),
            &raw mut api,
        )
    };
    assert_eq!(code, 0);
    // SAFETY: filled by the entry function.
    unsafe { Backend::from_api(api) }.unwrap()
}

/// Device 0.
pub(super) fn device() -> Device {
    open(0)
}

fn open(ordinal: u32) -> Device {
    backend()
        .open(&DeviceOptions::new(ordinal).block_size(1 << 20))
        .unwrap()
}
