//! What is kept for a device while contexts use it: compiled kernels, streams' records, caches of every thread.

pub(crate) mod debug;
mod epochs;
pub(crate) mod holders;
pub(crate) mod kernel_meta;
mod lane;
pub(crate) mod open;
mod per_thread;
mod recorded;

pub(crate) use holders::Listed;
pub(crate) use lane::{Lane, Written};
pub(crate) use per_thread::PerThread;
pub(crate) use recorded::Run;

use crate::error::Result;
use crate::error::tag::OpTag;
use crate::hal::library::LibraryOp;
use crate::hal::{self, Buffer, Capability, DType, Device, Kernel, Stream, Waited, Waits};
use crate::lower::{Source, Support};
use crate::record::measure::Attached;
use crate::record::recording::SpanKind;
use crate::record::span;
use epochs::Epochs;
use holders::{Happened, Holders, Made};
use kernel_meta::{KernelMeta, Use};
use parking_lot::Mutex;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

/// Kernels kept for a device; beyond it those that no plan uses go.
const MAX_KERNELS: usize = 4096;

/// One for each device in use, shared by its contexts.
pub(crate) struct Engine {
    device: Device,
    epochs: Epochs,
    default_lane: OnceLock<Lane>,
    lanes: Mutex<Vec<Weak<Lane>>>,
    kernels: Mutex<HashMap<Arc<Source>, Arc<Kernel>>>,
    // The stream that a scope chose last on a thread.
    last: PerThread<RefCell<Option<Arc<Lane>>>>,
    caches: OnceLock<Box<dyn Any + Send + Sync>>,
    copies: PerThread<Stream>,
    // For threads at their very end, which share it.
    last_copies: OnceLock<Stream>,
    holders: Arc<Holders>,
    attached: Attached,
    meta: KernelMeta,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.device.target())
    }
}

impl Engine {
    /// That of `device`.
    pub(crate) fn of(device: &Device) -> Arc<Engine> {
        device.attached(|| {
            let engine = Arc::new(Engine {
                device: device.clone(),
                epochs: Epochs::default(),
                default_lane: OnceLock::new(),
                lanes: Mutex::default(),
                kernels: Mutex::default(),
                last: PerThread::default(),
                caches: OnceLock::new(),
                copies: PerThread::default(),
                last_copies: OnceLock::new(),
                holders: Arc::default(),
                attached: Attached::default(),
                meta: KernelMeta::default(),
            });
            let waits: Arc<dyn Waits> = Arc::clone(&engine) as _;
            device.tell_waits(Arc::downgrade(&waits));
            engine
        })
    }

    #[inline]
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// What is kept for who runs programs on the device; of one type for all calls.
    #[inline]
    pub(crate) fn caches<T: Any + Default + Send + Sync>(&self) -> &T {
        let caches = match self.caches.get() {
            Some(caches) => caches,
            None => self.caches.get_or_init(|| Box::new(T::default())),
        };
        match caches.downcast_ref() {
            Some(caches) => caches,
            None => unreachable!("caches of an engine have one type"),
        }
    }

    /// Lists a buffer that `tag` made, if it is large.
    #[inline]
    pub(crate) fn list(&self, tag: &OpTag, buffer: &Buffer) -> Option<Box<Listed>> {
        self.holders.list(tag, buffer)
    }

    /// The buffers that live and are listed, oldest first, and what happened to them.
    pub(crate) fn holders(&self) -> (Vec<(u64, Made)>, Vec<Happened>) {
        self.holders.snapshot()
    }

    /// A stream of this thread for copies that the host waits for, so that it waits for nothing else.
    pub(crate) fn copies(&self) -> hal::Result<&Stream> {
        if let Some(copies) = self.copies.get_or_try(|| Stream::new(&self.device))? {
            return Ok(copies);
        }
        match self.last_copies.get() {
            Some(copies) => Ok(copies),
            None => {
                let copies = Stream::new(&self.device)?;
                Ok(self.last_copies.get_or_init(|| copies))
            }
        }
    }

    /// The record of the default stream.
    #[inline]
    pub(crate) fn default_lane(&self) -> hal::Result<&Lane> {
        match self.default_lane.get() {
            Some(lane) => Ok(lane),
            None => {
                let stream = self.device.default_stream()?;
                self.epochs.know(&stream);
                Ok(self.default_lane.get_or_init(|| Lane::new(stream)))
            }
        }
    }

    /// The record of the stream that a scope chose on this thread; `None` for the default stream.
    #[inline]
    pub(crate) fn scoped_lane(&self) -> Option<Arc<Lane>> {
        let handle = self.device.scoped(Stream::handle)?;
        let last = self.last.get().and_then(|last| last.borrow().clone());
        match last {
            Some(lane) if lane.stream.handle() == handle => Some(lane),
            _ => self
                .device
                .scoped(Stream::clone)
                .and_then(|stream| self.lane(stream)),
        }
    }

    /// The record that this thread keeps.
    #[cfg(test)]
    pub(crate) fn last_lane(&self) -> Option<Arc<Lane>> {
        self.last.get()?.borrow().clone()
    }

    #[cold]
    fn lane(&self, stream: Stream) -> Option<Arc<Lane>> {
        if stream.is_default() {
            return None;
        }
        let mut lanes = self.lanes.lock();
        lanes.retain(|lane| lane.strong_count() > 0);
        let held: Vec<Arc<Lane>> = lanes.iter().filter_map(Weak::upgrade).collect();
        let known = held.iter().find(|lane| lane.stream == stream);
        let lane = known.cloned().unwrap_or_else(|| {
            self.epochs.know(&stream);
            let lane = Arc::new(Lane::new(stream));
            lanes.push(Arc::downgrade(&lane));
            lane
        });
        drop(lanes);
        let old = self.last.get().map(|last| last.replace(Some(Arc::clone(&lane))));
        // The last record of a stream ends it, which waits: without a lock.
        drop((old, held));
        Some(lane)
    }

    /// Whether all work that was submitted to streams other than the default one is done.
    pub(crate) fn is_default_alone(&self) -> bool {
        let held: Vec<Arc<Lane>> = self.lanes.lock().iter().filter_map(Weak::upgrade).collect();
        held.iter().all(|lane| lane.stream.query().is_ok_and(|done| done))
    }

    /// By what was submitted last, to the stream of `scoped` or to the default stream.
    #[inline]
    pub(crate) fn written(&self, scoped: Option<&Arc<Lane>>) -> Written {
        Written::new(scoped.map(Arc::clone), self.epochs.now())
    }

    /// Later work of `lane` waits for what `other` wrote in `epoch`.
    #[cold]
    pub(crate) fn order(&self, lane: &Lane, other: &Lane, epoch: u64) -> hal::Result<()> {
        lane.wait_for(other, epoch, &self.epochs)
    }

    /// Whether work of the device ever failed after it was accepted.
    #[inline(always)]
    pub(crate) fn has_failures(&self) -> bool {
        self.epochs.has_failures()
    }

    /// The first failure that what `lane` wrote from the epoch `first` to `last` may be wrong by.
    pub(crate) fn failure(&self, lane: &Lane, (first, last): (u64, u64)) -> Option<hal::Error> {
        self.epochs.failure(lane, first, last)
    }

    /// Waits for all work that the work of `lane` has waited for.
    ///
    /// # Errors
    /// The first error that sticks to one of the streams.
    pub(crate) fn settle(&self, lane: &Lane) -> hal::Result<()> {
        self.epochs.settle(lane)
    }

    /// The kernel of a source, compiled by the first call.
    pub(crate) fn kernel(&self, source: &Arc<Source>) -> hal::Result<Arc<Kernel>> {
        if let Some(kernel) = self.kernels.lock().get(source) {
            return Ok(Arc::clone(kernel));
        }
        let _span = span::begin(SpanKind::Compile, source.name(), 0);
        let begun = Instant::now();
        let compiled = Arc::new(self.meta.compile(source, |options| match &**source {
            Source::Kernel(kernel) => Kernel::compile_with(&self.device, kernel, options),
            Source::Library(op) => Kernel::compile_with(&self.device, op, options),
        })?);
        tracing::debug!(
            kernel = source.name(),
            ms = begun.elapsed().as_millis(),
            "kernel compiled"
        );
        let mut unused = Vec::new();
        let mut kernels = self.kernels.lock();
        if kernels.len() >= MAX_KERNELS {
            unused.extend(kernels.extract_if(|_, kernel| Arc::strong_count(kernel) == 1));
        }
        let kernel = Arc::clone(kernels.entry(Arc::clone(source)).or_insert(compiled));
        drop(kernels);
        drop(unused);
        Ok(kernel)
    }

    /// Writes what the level of debugging asks for about a kernel that was launched.
    pub(crate) fn tell_kernel(&self, source: &Arc<Source>, launch: Use) {
        match self.kernel(source) {
            Ok(kernel) => self.meta.write(self.device.target(), source, &kernel, launch),
            Err(error) => tracing::warn!("kernel {}: {error}", source.name()),
        }
    }

    /// Memory for an op.
    ///
    /// # Errors
    /// As [`Engine::with_memory`].
    #[inline]
    pub(crate) fn alloc(&self, stream: &Stream, bytes: u64, tag: hal::Tag<'_>) -> Result<Buffer> {
        self.with_memory(|| stream.alloc(bytes, tag))
    }

    /// Makes a call that needs memory, as every op does. When there is none left, the pool's idle memory goes back to the device, and
    /// the call is made again.
    ///
    /// # Errors
    /// [`crate::error::Error::OutOfMemory`] with what holds memory; that the session was shut down.
    #[inline]
    pub(crate) fn with_memory<T>(&self, mut call: impl FnMut() -> hal::Result<T>) -> Result<T> {
        open::check()?;
        match call() {
            Ok(made) => Ok(made),
            Err(error) => {
                self.make_room(error)?;
                call().map_err(|error| match error {
                    hal::Error::OutOfMemory(cause) => self.holders.out_of_memory(*cause),
                    error => error.into(),
                })
            }
        }
    }

    #[cold]
    fn make_room(&self, error: hal::Error) -> Result<()> {
        if !matches!(error, hal::Error::OutOfMemory(_)) {
            return Err(error.into());
        }
        // What was freed is idle only when the streams that use it are done.
        self.device.synchronize()?;
        self.device.empty_cache()?;
        Ok(())
    }
}

impl Waits for Engine {
    fn begin(&self, waited: Waited) -> u64 {
        self.epochs.begin_wait(waited)
    }

    fn end(&self, waited: Waited, number: u64, error: Option<&hal::Error>) {
        self.epochs.end_wait(waited, number, error);
    }
}

impl Support for Engine {
    fn library(&self, op: &LibraryOp) -> bool {
        Kernel::supports(&self.device, op).is_ok()
    }

    fn channels_last(&self, operand: DType) -> bool {
        match operand {
            DType::F32 => self.device.capability(Capability::ChannelsLast),
            DType::U8 => self.device.capability(Capability::ChannelsLastBytes),
            _ => false,
        }
    }
}
