//! The host's memory as a device's memory.

use super::profile::{Command, Recorder, Submission};
use super::program::Step;
use super::queue::{Job, Queue};
use crate::backend::{Bound, Device, Launch, Place, Region, Tag, Work};
use crate::status::{Error, Result};
use smallvec::SmallVec;
use std::alloc::{Layout, alloc, dealloc};
use std::sync::Arc;

/// Host memory, reserved here or lent by the host.
pub struct HostChunk {
    ptr: *mut u8,
    /// None when it belongs to the host.
    layout: Option<Layout>,
}

// SAFETY: the streams' order says who may touch the memory.
unsafe impl Send for HostChunk {}
// SAFETY: as above.
unsafe impl Sync for HostChunk {}

impl HostChunk {
    /// Takes memory from the system, aligned to 512 bytes.
    ///
    /// # Errors
    /// The system refuses.
    pub fn reserve(bytes: u64) -> Result<HostChunk> {
        let refused = || Error::out_of_memory(format!("the system refused {bytes} bytes"));
        let size = usize::try_from(bytes).map_err(|_| refused())?;
        let layout = Layout::from_size_align(size.max(512), 512).map_err(|_| refused())?;
        // SAFETY: the size is not 0.
        let ptr = unsafe { alloc(layout) };
        if ptr.is_null() {
            return Err(refused());
        }
        Ok(HostChunk {
            ptr,
            layout: Some(layout),
        })
    }

    /// The host's own memory at `ptr`.
    pub fn borrowed(ptr: *mut u8) -> HostChunk {
        HostChunk { ptr, layout: None }
    }

    /// The first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
}

impl Drop for HostChunk {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.ptr, layout) }
        }
    }
}

/// The first byte of a region.
pub fn address<D: Device<Chunk = HostChunk>>(region: &Region<'_, D>) -> *mut u8 {
    region.chunk.ptr.wrapping_add(region.offset as usize)
}

/// Memory that stays where it is while work that uses it waits, and how many bytes of it are used.
pub type Lent = (HostChunk, u64);

/// Work that outlives the call it came with: a step, and the memory behind its slots.
///
/// # Errors
/// A callback, which runs once.
pub fn keep<D: Device>(
    work: &Work<'_, D>,
    address: impl Fn(&Region<'_, D>) -> *mut u8,
) -> Result<(Step<D>, SmallVec<[Lent; 4]>)> {
    let step = Step::of(work)?;
    let lent = |region: &Region<'_, D>| (HostChunk::borrowed(address(region)), region.bytes);
    let end = |place: &Place<'_, D>| match place {
        // A copy says itself how much it reaches.
        Place::Host(ptr) => (HostChunk::borrowed(*ptr), 0),
        Place::Device(_, region) => lent(region),
    };
    let memory = match work {
        Work::Launch(launch) => launch.bindings.iter().map(|bound| lent(&bound.region)).collect(),
        Work::Copy(copy) => [&copy.dst.0, &copy.src.0].into_iter().map(end).collect(),
        Work::Fill(fill) => std::iter::once(lent(&fill.region)).collect(),
        Work::Callback(_) => SmallVec::new(),
    };
    Ok((step, memory))
}

/// [`Device::submit`] to a [`Queue`]: copies, fills and callbacks are done here, launches by `launch`.
///
/// # Safety
/// As [`Device::submit`], which `launch` relies on.
///
/// # Errors
/// The stream takes no more work.
pub unsafe fn submit<D: Device<Chunk = HostChunk>>(
    stream: &Queue,
    work: &Work<'_, D>,
    tag: Tag<'_>,
    launch: unsafe fn(&Launch<'_, D>) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller's contract.
    push(stream, work, tag, unsafe { job(work, launch)? })
}

/// [`submit`] for [`Device::submit_profiled`]: the work is recorded too.
///
/// # Safety
/// As [`submit`].
///
/// # Errors
/// The stream takes no more work.
pub unsafe fn submit_profiled<D: Device<Chunk = HostChunk>>(
    stream: &Queue,
    work: &Work<'_, D>,
    tag: Tag<'_>,
    launch: unsafe fn(&Launch<'_, D>) -> Result<()>,
    (recorder, submission): (&Arc<Recorder>, &Submission),
) -> Result<()> {
    // SAFETY: the caller's contract.
    let run = unsafe { job(work, launch)? };
    let run = Box::new(recorder.timed(*submission, Command::of(work), run));
    push(stream, work, tag, run)
}

/// What a job runs.
type Run = Box<dyn FnOnce() -> Result<()> + Send>;

/// # Safety
/// As [`submit`].
unsafe fn job<D: Device<Chunk = HostChunk>>(
    work: &Work<'_, D>,
    launch: unsafe fn(&Launch<'_, D>) -> Result<()>,
) -> Result<Run> {
    if let Work::Callback(callback) = *work {
        return Ok(Box::new(move || callback.call()));
    }
    let (step, memory) = keep(work, address)?;
    // SAFETY: the caller vouches for the memory until the stream has passed the work.
    Ok(Box::new(move || unsafe { execute(&step, &memory, launch) }))
}

fn push<D: Device>(stream: &Queue, work: &Work<'_, D>, tag: Tag<'_>, run: Run) -> Result<()> {
    let tag = tag.to_owned();
    let describe = Box::new(move || tag.to_string());
    let job = Job { run, describe };
    if matches!(work, Work::Copy(copy) if matches!(copy.dst.0, Place::Host(_))) {
        stream.push_awaited(job)
    } else {
        stream.push(job)
    }
}

/// Runs what [`keep`] made.
///
/// # Safety
/// As [`Device::submit`], for the memory of the slots.
unsafe fn execute<D: Device<Chunk = HostChunk>>(
    step: &Step<D>,
    memory: &[Lent],
    launch: unsafe fn(&Launch<'_, D>) -> Result<()>,
) -> Result<()> {
    let at = |slot: usize, offset: u64| memory[slot].0.ptr.wrapping_add(offset as usize);
    match step {
        Step::Launch {
            kernel,
            extents,
            operands,
            scalars,
            given: _,
        } => {
            let bindings: Vec<Bound<'_, D>> = (operands.iter().zip(memory))
                .map(|(operand, (chunk, bytes))| Bound {
                    region: Region {
                        chunk,
                        offset: operand.offset,
                        bytes: *bytes,
                    },
                    strides: &operand.strides,
                    gather_stride: operand.gather_stride,
                    gather_extent: operand.gather_extent,
                })
                .collect();
            // SAFETY: the caller's contract.
            unsafe {
                launch(&Launch {
                    kernel,
                    extents,
                    bindings: &bindings,
                    scalars,
                })
            }
        }
        Step::Copy {
            dst,
            src,
            width,
            rows,
        } => {
            for row in 0..*rows {
                let to = at(dst.slot, dst.offset + row * dst.pitch);
                let from = at(src.slot, src.offset + row * src.pitch);
                // SAFETY: rows of the two ends, which do not overlap.
                unsafe { to.copy_from_nonoverlapping(from, *width as usize) }
            }
            Ok(())
        }
        Step::Fill {
            slot,
            offset,
            bytes,
            pattern,
            pattern_bytes: _,
        } => {
            for byte in 0..*bytes {
                // SAFETY: inside the region.
                unsafe { at(*slot, offset + byte).write(pattern[byte as usize % 8]) }
            }
            Ok(())
        }
    }
}

/// Inside `impl Device for …`: memory of the host by [`HostChunk`](crate::kit::host_memory::HostChunk).
#[macro_export]
macro_rules! host_memory {
    () => {
        type Chunk = $crate::kit::host_memory::HostChunk;

        fn reserve(&self, bytes: u64) -> $crate::Result<Self::Chunk> {
            $crate::kit::host_memory::HostChunk::reserve(bytes)
        }

        unsafe fn import(&self, ptr: *mut u8, _bytes: u64) -> $crate::Result<Self::Chunk> {
            ::std::result::Result::Ok($crate::kit::host_memory::HostChunk::borrowed(ptr))
        }

        fn map(&self, chunk: &Self::Chunk) -> $crate::Result<*mut u8> {
            ::std::result::Result::Ok(chunk.ptr())
        }

        fn memory_info(&self) -> $crate::Result<$crate::tables::MemoryInfo> {
            $crate::kit::host_device::memory_info()
        }
    };
}
