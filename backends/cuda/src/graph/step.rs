//! What a node does, planned.

use crate::api::driver::DevicePtr;
use crate::copy::End;
use crate::device::CudaDevice;
use crate::launch::{Prepared, Ready};
use crate::library::Call;
use cudarc::driver::sys::CUDA_MEMSET_NODE_PARAMS;
use thalweg_hal::backend::{Bound, Copy, Fill, Launch, Place, Work};
use thalweg_hal::{Error, Result};

/// Elements of one value in a row, as the driver fills them.
pub(super) struct Set {
    at: DevicePtr,
    value: u32,
    bytes: u32,
    count: u64,
}

impl Set {
    /// What fills a region, unless it takes elements of more than four bytes.
    fn of(fill: &Fill<'_, CudaDevice>) -> Option<Set> {
        let (bytes, pattern) = (fill.pattern_bytes, u64::from_le_bytes(fill.pattern));
        let (low, high) = (pattern as u32, (pattern >> 32) as u32);
        let (value, bytes) = match bytes {
            8 if low != high => return None,
            8 => (low, 4),
            // A value has no bits beyond its bytes.
            bytes => (low & (u32::MAX >> (32 - 8 * bytes)), bytes),
        };
        Some(Set {
            at: fill.region.chunk.at(fill.region.offset),
            value,
            bytes,
            count: fill.region.bytes / u64::from(bytes),
        })
    }

    /// As the driver takes it.
    pub(super) fn params(&self) -> CUDA_MEMSET_NODE_PARAMS {
        CUDA_MEMSET_NODE_PARAMS {
            dst: self.at,
            pitch: 0,
            value: self.value,
            elementSize: self.bytes,
            width: self.count as usize,
            height: 1,
        }
    }
}

/// The work of one node.
pub(super) enum Step {
    Launch(Box<Prepared>),
    Product(Box<Call>),
    /// On the device.
    Copy(End, End, (u64, u64)),
    Fill(Set),
    /// A launch over an empty space.
    Nothing,
}

impl Step {
    /// Plans work and compiles what it needs. The context is current.
    pub(super) fn new(device: &CudaDevice, work: &Work<'_, CudaDevice>) -> Result<Step> {
        Ok(match work {
            Work::Launch(launch) => Step::launch(launch)?,
            Work::Copy(copy) => Step::copy(copy)?,
            Work::Fill(fill) => match Set::of(fill) {
                Some(set) => Step::Fill(set),
                None => Step::launch(&Launch {
                    kernel: device.filler()?,
                    extents: &[fill.region.bytes / 8],
                    bindings: &[Bound {
                        region: fill.region,
                        strides: &[],
                        gather_stride: 0,
                        gather_extent: 0,
                    }],
                    scalars: &[u64::from_le_bytes(fill.pattern)],
                })?,
            },
            Work::Callback(_) => {
                return Err(Error::unsupported("a callback runs once and cannot be kept"));
            }
        })
    }

    fn launch(launch: &Launch<'_, CudaDevice>) -> Result<Step> {
        Ok(match Ready::new(launch)? {
            Ready::Kernel(prepared) => Step::Launch(prepared),
            Ready::Product(call) => Step::Product(call),
            Ready::Nothing => Step::Nothing,
        })
    }

    /// Bytes of scratch memory that it needs.
    pub(super) fn scratch_bytes(&self) -> u64 {
        match self {
            Step::Launch(prepared) => prepared.plan.scratch_bytes,
            Step::Product(call) => call.scratch_bytes(),
            Step::Copy(..) | Step::Fill(..) | Step::Nothing => 0,
        }
    }

    fn copy(copy: &Copy<'_, CudaDevice>) -> Result<Step> {
        let (size, to, from) = copy.joined();
        match (&copy.dst.0, &copy.src.0) {
            (Place::Device(_, target), Place::Device(_, source)) => Ok(Step::Copy(
                End(target.chunk.at(target.offset), to),
                End(source.chunk.at(source.offset), from),
                size,
            )),
            (Place::Host(_), _) | (_, Place::Host(_)) => {
                Err(Error::internal("a program's copy has an end in host memory"))
            }
        }
    }
}
