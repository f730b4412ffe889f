//! The device: this process, one kernel at a time for each stream.

use crate::interpret;
use crate::memory::Chunk;
use thalweg_hal::backend::{Copy, Device, Fill, Place, Region, Source, Tag, Work};
use thalweg_hal::ir::{Info, Kernel};
use thalweg_hal::kit::host_device::memory_info;
use thalweg_hal::kit::queue::{Job, Queue};
use thalweg_hal::kit::replay::OwnedWork;
use thalweg_hal::tables::MemoryInfo;
use thalweg_hal::{Error, Result};

#[cfg(target_endian = "big")]
compile_error!("the interpreter reads and writes little-endian memory");

/// The device of this backend.
pub struct Reference;

/// A kernel with what the verifier found out about it.
pub struct Compiled {
    pub(crate) kernel: Kernel,
    pub(crate) info: Info,
}

impl Device for Reference {
    type Chunk = Chunk;
    type Kernel = Compiled;

    thalweg_hal::queue_streams!();
    thalweg_hal::replay_graphs!();

    fn reserve(&self, bytes: u64) -> Result<Chunk> {
        Chunk::reserve(bytes)
    }

    unsafe fn import(&self, ptr: *mut u8, _bytes: u64) -> Result<Chunk> {
        Ok(Chunk::borrowed(ptr))
    }

    fn map(&self, chunk: &Chunk) -> Result<*mut u8> {
        Ok(chunk.ptr)
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        memory_info()
    }

    unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        let tag = tag.to_owned();
        let describe = Box::new(move || tag.to_string());
        if let Work::Callback(callback) = *work {
            return stream.push(Job {
                run: Box::new(move || callback.call()),
                describe,
            });
        }
        let work = OwnedWork::new(work)?;
        // SAFETY: the caller vouches for the memory until the stream has passed the work.
        let run = Box::new(move || unsafe { work.with(|work| execute(work)) });
        stream.push(Job { run, describe })
    }

    fn supports(&self, source: &Source<'_>) -> Result<()> {
        match source {
            Source::Kernel(..) => Ok(()),
            Source::Library(_) => Err(no_library()),
        }
    }

    fn compile(&self, source: &Source<'_>, options: &str) -> Result<Compiled> {
        if let Some(option) = options.lines().find(|line| !line.is_empty()) {
            return Err(Error::invalid_argument(format!(
                "unknown compile option `{option}`; there are none"
            )));
        }
        match *source {
            Source::Kernel(kernel, info) => Ok(Compiled {
                kernel: kernel.clone(),
                info: info.clone(),
            }),
            Source::Library(_) => Err(no_library()),
        }
    }
}

fn no_library() -> Error {
    Error::unsupported("the reference backend has no library ops; compile the op's definition")
}

fn address(region: &Region<'_, Reference>) -> *mut u8 {
    region.chunk.ptr.wrapping_add(region.offset as usize)
}

fn end(place: &Place<'_, Reference>) -> *mut u8 {
    match place {
        Place::Host(ptr) => *ptr,
        Place::Device(_, region) => address(region),
    }
}

/// # Safety
/// As [`Device::submit`].
unsafe fn execute(work: &Work<'_, Reference>) -> Result<()> {
    match work {
        // SAFETY: the caller's contract.
        Work::Launch(launch) => unsafe { interpret::run(launch) },
        Work::Copy(Copy {
            dst,
            src,
            width,
            rows,
        }) => {
            for row in 0..*rows as usize {
                let to = end(&dst.0).wrapping_add(row * dst.1 as usize);
                let from = end(&src.0).wrapping_add(row * src.1 as usize);
                // SAFETY: rows of the two ends, which do not overlap.
                unsafe { to.copy_from_nonoverlapping(from, *width as usize) }
            }
        }
        Work::Fill(Fill { region, pattern, .. }) => {
            for at in 0..region.bytes as usize {
                // SAFETY: inside the region.
                unsafe { address(region).add(at).write(pattern[at % 8]) }
            }
        }
        Work::Callback(callback) => callback.call()?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
