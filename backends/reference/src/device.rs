//! The device: this process, one kernel at a time for each stream.

use crate::kernel::{self, Compiled};
use std::sync::Arc;
use thalweg_hal::backend::{Device, Launch, Source, Tag, Work};
use thalweg_hal::kit::host_memory;
use thalweg_hal::kit::profile::{Recorder, Submission};
use thalweg_hal::kit::queue::Queue;
use thalweg_hal::tables::KernelPart;
use thalweg_hal::{Error, Result};

#[cfg(target_endian = "big")]
compile_error!("the interpreter reads and writes little-endian memory");

/// The device of this backend.
pub struct Reference {
    recorder: Arc<Recorder>,
}

impl Reference {
    pub(crate) fn new() -> Reference {
        Reference {
            recorder: Recorder::new(),
        }
    }
}

impl Device for Reference {
    type Kernel = Compiled;

    thalweg_hal::host_memory!();
    thalweg_hal::queue_streams!(recorder);

    unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the caller's contract, which is that of the launch, too.
        unsafe { host_memory::submit(stream, work, tag, launch) }
    }

    unsafe fn submit_profiled(
        &self,
        stream: &Queue,
        work: &Work<'_, Self>,
        tag: Tag<'_>,
        submission: &Submission,
    ) -> Result<()> {
        let profile = (&self.recorder, submission);
        // SAFETY: as above.
        unsafe { host_memory::submit_profiled(stream, work, tag, launch, profile) }
    }

    fn supports(&self, source: &Source<'_>) -> Result<()> {
        match source {
            Source::Kernel(..) => Ok(()),
            Source::Library(_) => Err(no_library()),
        }
    }

    fn compile(&self, source: &Source<'_>, options: &str) -> Result<Compiled> {
        if let Some(option) = options.lines().find(|line| !line.is_empty()) {
            if option == "optimise=off" {
                return Err(Error::unsupported(
                    "kernels are interpreted; nothing optimises them",
                ));
            }
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

    fn inspect(&self, _: &Compiled, _: usize, part: KernelPart) -> Result<Vec<u8>> {
        match part {
            KernelPart::Facts => Ok(b"form=interpreter\n".to_vec()),
            part => Err(Error::unsupported(format!(
                "kernels are interpreted; there is no {}",
                part.name()
            ))),
        }
    }
}

/// # Safety
/// As [`Device::submit`].
unsafe fn launch(launch: &Launch<'_, Reference>) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { kernel::run(launch) };
    Ok(())
}

fn no_library() -> Error {
    Error::unsupported("the reference backend has no library ops; compile the op's definition")
}

#[cfg(test)]
mod tests;
