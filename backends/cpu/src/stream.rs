//! Streams: in-order queues whose work runs where it is cheapest.

use crate::memory;
use crate::parallel::Parallel;
use crate::profile::Probe;
use crate::step;
use thalweg_hal::backend::{Callback, Copy, Place, Region, Tag, Work};
use thalweg_hal::kit::host_memory;
use thalweg_hal::kit::profile::Command;
use thalweg_hal::kit::queue::{Job, Queue};
use thalweg_hal::{Host, Result};

use crate::device::CpuDevice;

/// Work that takes less than this on one core runs at once on the caller's thread when its stream is idle: queuing it
/// would cost as much.
pub(crate) const INLINE_NS: u64 = 8_000;
/// What one core copies at least, in bytes per nanosecond; an estimate for the decision to run inline.
pub(crate) const COPY_BYTES_PER_NS: u64 = 8;

/// The host's thread pool as kernels see it.
#[derive(Clone, Copy)]
pub struct Threads {
    /// The host.
    pub host: Host,
    /// Priority of the regions.
    pub priority: i32,
}

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.host.max_threads()
    }

    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        self.host.parallel_for(n, self.priority, body);
    }
}

/// A stream.
pub struct CpuStream {
    pub(crate) queue: Queue,
    pub(crate) threads: Threads,
}

impl CpuStream {
    /// Runs `work` at once when it costs less than `cost` allows and the stream is idle, and queues it otherwise.
    ///
    /// # Safety
    /// As `Device::submit`.
    pub(crate) unsafe fn submit<P: Probe>(
        &self,
        work: &Work<'_, CpuDevice>,
        tag: Tag<'_>,
        probe: &P,
    ) -> Result<()> {
        let cost = match work {
            Work::Launch(launch) => launch.kernel.cost(launch.extents),
            Work::Copy(copy) => copy.width.saturating_mul(copy.rows) / COPY_BYTES_PER_NS,
            Work::Fill(fill) => fill.region.bytes / COPY_BYTES_PER_NS,
            Work::Callback(_) => u64::MAX,
        };
        if cost <= INLINE_NS
            && let Some(inline) = self.queue.try_inline()
        {
            let start = probe.at_once();
            // SAFETY: the caller vouches for the memory.
            inline.run(
                || unsafe { run_borrowed(work, &self.threads) },
                || tag.to_owned().to_string(),
            );
            probe.work(|| Command::of(work), start);
            return Ok(());
        }
        let threads = self.threads;
        let to_host = matches!(work, Work::Copy(copy) if matches!(copy.dst.0, Place::Host(_)));
        if let Work::Callback(callback) = work {
            let (callback, probe): (Callback, _) = (*callback, probe.keep());
            return self.push(tag, move || {
                let start = probe.now();
                let called = callback.call();
                probe.work(|| Command::CALLBACK, start);
                called
            });
        }
        let (command, probe) = (Command::of(work), probe.keep());
        let (work, memory) = host_memory::keep(work, address)?;
        let run = move || {
            let start = probe.now();
            let slots = |slot: usize| memory[slot].0.ptr();
            // SAFETY: the caller vouches for the memory until the stream has passed the work.
            unsafe { step::run(&work, slots, || None, &[], &threads) };
            probe.work(|| command, start);
            Ok(())
        };
        if to_host {
            self.queue.push_awaited(job(tag, run))
        } else {
            self.push(tag, run)
        }
    }

    /// Queues a job.
    pub(crate) fn push(&self, tag: Tag<'_>, run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        self.queue.push(job(tag, run))
    }
}

fn job(tag: Tag<'_>, run: impl FnOnce() -> Result<()> + Send + 'static) -> Job {
    let tag = tag.to_owned();
    Job {
        run: Box::new(run),
        describe: Box::new(move || tag.to_string()),
    }
}

fn end(place: &Place<'_, CpuDevice>) -> *mut u8 {
    match place {
        Place::Host(ptr) => *ptr,
        Place::Device(_, region) => address(region),
    }
}

/// The first byte of a region.
#[inline(always)]
pub(crate) fn address(region: &Region<'_, CpuDevice>) -> *mut u8 {
    region.chunk.base().wrapping_add(region.offset as usize)
}

fn shape(copy: &Copy<'_, CpuDevice>) -> (usize, usize, usize, usize) {
    (
        copy.dst.1 as usize,
        copy.src.1 as usize,
        copy.width as usize,
        copy.rows as usize,
    )
}

/// # Safety
/// The memory of `work` is valid now.
pub(crate) unsafe fn run_borrowed(work: &Work<'_, CpuDevice>, parallel: &dyn Parallel) -> Result<()> {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        match work {
            Work::Launch(launch) => crate::kernel::run(launch, parallel),
            Work::Copy(copy) => {
                let (to, from, width, rows) = shape(copy);
                memory::copy(
                    (end(&copy.dst.0), to),
                    (end(&copy.src.0), from),
                    width,
                    rows,
                    parallel,
                );
            }
            Work::Fill(fill) => {
                let bytes = fill.region.bytes as usize;
                memory::fill(
                    address(&fill.region),
                    bytes,
                    fill.pattern,
                    fill.pattern_bytes as usize,
                    parallel,
                );
            }
            Work::Callback(callback) => callback.call()?,
        }
    }
    Ok(())
}
