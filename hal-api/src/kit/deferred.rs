//! Work that outlives the call it came with, for streams that do it later.

use crate::backend::{Bound, Copy, Device, Fill, Launch, Place, Region, Work};
use crate::status::{Error, Result};
use std::sync::Arc;

struct Memory<D: Device> {
    chunk: *const D::Chunk,
    offset: u64,
    bytes: u64,
}

impl<D: Device> Memory<D> {
    fn of(region: &Region<'_, D>) -> Memory<D> {
        Memory {
            chunk: region.chunk,
            offset: region.offset,
            bytes: region.bytes,
        }
    }

    /// # Safety
    /// The chunk still lives.
    unsafe fn region(&self) -> Region<'_, D> {
        // SAFETY: the caller vouches for the chunk.
        let chunk = unsafe { &*self.chunk };
        Region {
            chunk,
            offset: self.offset,
            bytes: self.bytes,
        }
    }
}

struct Argument<D: Device> {
    memory: Memory<D>,
    strides: Vec<i64>,
    gather_stride: i64,
    gather_extent: u64,
}

enum End<D: Device> {
    Host(*mut u8),
    Device(*const D, Memory<D>),
}

impl<D: Device> End<D> {
    fn of(place: &Place<'_, D>) -> End<D> {
        match place {
            Place::Host(ptr) => End::Host(*ptr),
            Place::Device(device, region) => End::Device(*device, Memory::of(region)),
        }
    }

    /// # Safety
    /// Device and chunk still live.
    unsafe fn place(&self) -> Place<'_, D> {
        match self {
            End::Host(ptr) => Place::Host(*ptr),
            // SAFETY: the caller vouches for both.
            End::Device(device, memory) => unsafe { Place::Device(&**device, memory.region()) },
        }
    }
}

/// Work that owns its arguments but for the memory they point to.
pub struct Deferred<D: Device>(Kept<D>);

enum Kept<D: Device> {
    Launch {
        kernel: Arc<D::Kernel>,
        extents: Vec<u64>,
        arguments: Vec<Argument<D>>,
        scalars: Vec<u64>,
    },
    Copy {
        dst: (End<D>, u64),
        src: (End<D>, u64),
        width: u64,
        rows: u64,
    },
    Fill {
        memory: Memory<D>,
        pattern: [u8; 8],
        pattern_bytes: u32,
    },
}

// SAFETY: the pointers lead to chunks, devices and host memory, which the contract of `Device::submit` lets any thread
// use; they are followed only in `with`, whose caller vouches for them.
unsafe impl<D: Device> Send for Deferred<D> {}
// SAFETY: as above.
unsafe impl<D: Device> Sync for Deferred<D> {}

impl<D: Device> Deferred<D> {
    /// Copies the arguments of `work`.
    pub fn new(work: &Work<'_, D>) -> Result<Deferred<D>> {
        Ok(Deferred(match work {
            Work::Launch(launch) => Kept::Launch {
                kernel: Arc::clone(launch.kernel),
                extents: launch.extents.to_vec(),
                arguments: (launch.bindings.iter())
                    .map(|b| Argument {
                        memory: Memory::of(&b.region),
                        strides: b.strides.to_vec(),
                        gather_stride: b.gather_stride,
                        gather_extent: b.gather_extent,
                    })
                    .collect(),
                scalars: launch.scalars.to_vec(),
            },
            Work::Copy(copy) => Kept::Copy {
                dst: (End::of(&copy.dst.0), copy.dst.1),
                src: (End::of(&copy.src.0), copy.src.1),
                width: copy.width,
                rows: copy.rows,
            },
            Work::Fill(fill) => Kept::Fill {
                memory: Memory::of(&fill.region),
                pattern: fill.pattern,
                pattern_bytes: fill.pattern_bytes,
            },
            Work::Callback(_) => return Err(Error::unsupported("a callback runs once and cannot be kept")),
        }))
    }

    /// Hands the work out in borrowed form.
    ///
    /// # Safety
    /// The chunks and devices that the work points to still live.
    pub unsafe fn with<R>(&self, run: impl FnOnce(&Work<'_, D>) -> R) -> R {
        match &self.0 {
            Kept::Launch {
                kernel,
                extents,
                arguments,
                scalars,
            } => {
                let bind = arguments.iter().map(|argument| Bound {
                    // SAFETY: the caller vouches for the chunks.
                    region: unsafe { argument.memory.region() },
                    strides: &argument.strides,
                    gather_stride: argument.gather_stride,
                    gather_extent: argument.gather_extent,
                });
                let bindings: Vec<Bound<'_, D>> = bind.collect();
                run(&Work::Launch(Launch {
                    kernel,
                    extents,
                    bindings: &bindings,
                    scalars,
                }))
            }
            Kept::Copy {
                dst,
                src,
                width,
                rows,
            } => {
                // SAFETY: the caller vouches for devices and chunks.
                let (to, from) = unsafe { (dst.0.place(), src.0.place()) };
                run(&Work::Copy(Copy {
                    dst: (to, dst.1),
                    src: (from, src.1),
                    width: *width,
                    rows: *rows,
                }))
            }
            Kept::Fill {
                memory,
                pattern,
                pattern_bytes,
            } => {
                // SAFETY: the caller vouches for the chunk.
                let region = unsafe { memory.region() };
                run(&Work::Fill(Fill {
                    region,
                    pattern: *pattern,
                    pattern_bytes: *pattern_bytes,
                }))
            }
        }
    }
}
