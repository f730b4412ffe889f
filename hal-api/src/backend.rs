//! What the author of a backend implements. [`export_backend!`](crate::export_backend) turns it into a plugin; handles,
//! the memory pool, bounds checks, error texts and panics are dealt with before a call gets here.

mod tag;

pub use tag::{OwnedTag, Tag, is_standard_library};

use crate::host::Host;
use crate::ir::{Info, Kernel};
use crate::kit::host_device::memory_info;
use crate::kit::profile::{Counter, Recorder, Submission};
use crate::kit::program::{Form, Node, Program};
use crate::library::LibraryOp;
use crate::status::{Error, Result};
use crate::tables::{self, Capability, Kind};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// What a device is; see [`tables::DeviceProperties`].
#[derive(Clone, Debug)]
pub struct Properties {
    /// Name for a person.
    pub name: String,
    /// Architecture or instruction set.
    pub arch: String,
    /// PCI address or another stable id; may be empty.
    pub id: String,
    /// What kind of device.
    pub kind: Kind,
    /// Cores, multiprocessors or compute units.
    pub compute_units: u32,
    /// Memory of the device in bytes; 0 if unknown.
    pub total_memory: u64,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// Lowest and highest priority of a stream.
    pub priorities: (i32, i32),
}

impl Properties {
    /// One device whose memory is the host's and that claims nothing; for the other fields:
    /// `Properties { capabilities, ..Properties::of_host("name", Kind::Cpu) }`.
    pub fn of_host(name: impl Into<String>, kind: Kind) -> Properties {
        Properties {
            name: name.into(),
            arch: std::env::consts::ARCH.into(),
            id: String::new(),
            kind,
            compute_units: 1,
            total_memory: memory_info().map_or(0, |info| info.total),
            capabilities: Vec::new(),
            priorities: (0, 0),
        }
    }
}

/// A backend: the entry to the devices of one driver.
pub trait Backend: Send + Sync + Sized + 'static {
    /// Its devices.
    type Device: Device;
    /// Target name: what stands before the colon of `device_target`.
    const NAME: &'static str;
    /// Version of the backend.
    const VERSION: &'static str;

    /// Called once, when the backend is loaded. Must not initialise a device; a missing driver is reported by
    /// [`Backend::device_count`].
    fn start(host: Host) -> Result<Self>;

    /// Driver or runtime behind it, with its version.
    fn driver(&self) -> String {
        String::new()
    }

    /// Number of devices, or [`Unavailable`](crate::Status::Unavailable) and why there can be none.
    fn device_count(&self) -> Result<u32>;

    /// What device `ordinal < device_count` is. Initialises nothing.
    fn properties(&self, ordinal: u32) -> Result<Properties>;

    /// Why device `ordinal` cannot be opened, if it cannot.
    fn is_available(&self, ordinal: u32) -> Result<()> {
        let _ = ordinal;
        Ok(())
    }

    /// Initialises a device.
    fn open(&self, ordinal: u32) -> Result<Self::Device>;
}

/// A piece of device memory.
pub struct Region<'a, D: Device> {
    /// What the device reserved or imported. It lives until the work that was submitted with it is done.
    pub chunk: &'a D::Chunk,
    /// Offset in the chunk in bytes.
    pub offset: u64,
    /// Bytes that may be touched from `offset` on.
    pub bytes: u64,
}

impl<D: Device> Clone for Region<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> std::marker::Copy for Region<'_, D> {}

/// One buffer argument of a launch; every address that strides and extents reach lies in the region.
pub struct Bound<'a, D: Device> {
    /// Memory from the element at index 0 on, and before it where strides are negative.
    pub region: Region<'a, D>,
    /// Elements per axis of the parameter's level; empty unless the parameter is strided.
    pub strides: &'a [i64],
    /// Elements from one gather index to the next.
    pub gather_stride: i64,
    /// Number of valid gather indices.
    pub gather_extent: u64,
}

/// One launch. Counts match the kernel's signature, strides match the access classes.
pub struct Launch<'a, D: Device> {
    /// What to run.
    pub kernel: &'a Arc<D::Kernel>,
    /// Outer extents, then inner ones.
    pub extents: &'a [u64],
    /// One for each parameter.
    pub bindings: &'a [Bound<'a, D>],
    /// Bits of the scalar arguments.
    pub scalars: &'a [u64],
}

/// One end of a copy.
pub enum Place<'a, D: Device> {
    /// Host memory that stays valid until the stream has passed the copy.
    Host(*mut u8),
    /// Memory of a device of this backend; for a copy between devices at most one is not the stream's own.
    Device(&'a D, Region<'a, D>),
}

/// A copy of `rows` rows of `width` bytes; both are at least 1, and the ends do not overlap.
pub struct Copy<'a, D: Device> {
    /// Destination and the bytes between its rows.
    pub dst: (Place<'a, D>, u64),
    /// Source and the bytes between its rows.
    pub src: (Place<'a, D>, u64),
    /// Bytes of one row.
    pub width: u64,
    /// Number of rows.
    pub rows: u64,
}

impl<D: Device> Copy<'_, D> {
    /// Bytes of a row and the number of rows, and the bytes between the rows of destination and source: with rows that have no
    /// gaps joined to one. The bytes between rows of one row mean nothing; then they are its width.
    pub fn joined(&self) -> ((u64, u64), u64, u64) {
        let (to, from) = (self.dst.1, self.src.1);
        if self.rows == 1 || (to == self.width && from == self.width) {
            let width = self.width * self.rows;
            return ((width, 1), width, width);
        }
        ((self.width, self.rows), to, from)
    }
}

/// Fills a whole region with a pattern.
pub struct Fill<'a, D: Device> {
    /// What to fill; its length is a multiple of the pattern's and at least one.
    pub region: Region<'a, D>,
    /// The pattern's bytes, repeated to fill 8.
    pub pattern: [u8; 8],
    /// 1, 2, 4 or 8.
    pub pattern_bytes: u32,
}

/// A function of the host, to be called in stream order.
#[derive(Clone, Copy)]
pub struct Callback {
    /// See [`tables::CallbackArgs`].
    pub function: unsafe extern "C" fn(data: *mut c_void) -> i32,
    /// Its argument.
    pub data: *mut c_void,
}

// SAFETY: the contract of `CallbackArgs` lets the function be called from a thread of the backend.
unsafe impl Send for Callback {}

impl Callback {
    /// Calls the function; a status other than 0 becomes an error.
    pub fn call(self) -> Result<()> {
        // SAFETY: the host vouches for function and data until the call, which happens once.
        match unsafe { (self.function)(self.data) } {
            0 => Ok(()),
            code => Err(Error::launch_failed(format!(
                "the host's callback returned {code}"
            ))),
        }
    }
}

/// One piece of work.
pub enum Work<'a, D: Device> {
    /// Run a kernel.
    Launch(Launch<'a, D>),
    /// Copy memory.
    Copy(Copy<'a, D>),
    /// Fill memory.
    Fill(Fill<'a, D>),
    /// Call the host.
    Callback(Callback),
}

/// What a kernel is compiled from.
pub enum Source<'a> {
    /// A verified kernel.
    Kernel(&'a Kernel, &'a Info),
    /// A checked library op; most have a [`LibraryOp::definition`] in the IR.
    Library(&'a LibraryOp),
}

/// One device. Work on a stream is asynchronous and in order; an error of work that was accepted sticks to the stream and is
/// returned by [`Device::synchronize`] once.
pub trait Device: Send + Sync + Sized + 'static {
    /// Memory reserved from the device; dropping gives it back.
    type Chunk: Send + Sync + 'static;
    /// A stream; dropping waits for its work.
    type Stream: Send + Sync + 'static;
    /// An event.
    type Event: Send + Sync + 'static;
    /// A compiled kernel.
    type Kernel: Send + Sync + 'static;

    /// Why the device no longer works, if it does not.
    fn status(&self) -> Result<()> {
        Ok(())
    }

    /// One number, if it applies.
    fn query(&self, key: tables::PropertyKey) -> Option<u64> {
        let _ = key;
        None
    }

    /// Reserves memory, a multiple of 512 bytes and aligned to 512.
    fn reserve(&self, bytes: u64) -> Result<Self::Chunk>;

    /// Makes host memory reachable without a copy.
    ///
    /// # Safety
    /// `bytes` bytes at `ptr` stay valid until the chunk is dropped.
    unsafe fn import(&self, ptr: *mut u8, bytes: u64) -> Result<Self::Chunk> {
        let _ = (ptr, bytes);
        Err(Error::unsupported(
            "this device cannot use host memory in place; copy it",
        ))
    }

    /// Host address of a chunk, if the host can reach it.
    fn map(&self, chunk: &Self::Chunk) -> Result<*mut u8> {
        let _ = chunk;
        Err(Error::unsupported(
            "this device's memory cannot be mapped; copy it",
        ))
    }

    /// Free and total memory.
    fn memory_info(&self) -> Result<tables::MemoryInfo>;

    /// A new stream.
    fn create_stream(&self, priority: i32) -> Result<Self::Stream>;

    /// Submits work. What is refused here is an error of this call; what fails later sticks to the stream.
    ///
    /// # Safety
    /// Memory in `work` stays valid until the stream has passed it; outputs overlap inputs only where the IR allows it.
    unsafe fn submit(&self, stream: &Self::Stream, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()>;

    /// Whether all work is done.
    fn is_idle(&self, stream: &Self::Stream) -> Result<bool>;

    /// Waits for all work; the first error that sticks is returned once.
    fn synchronize(&self, stream: &Self::Stream) -> Result<()>;

    /// Number that grows with the work of the stream. Work that was done when `submit` returned need not count.
    fn position(&self, stream: &Self::Stream) -> u64;

    /// Whether the work up to `position` is done. Must not block; `false` is always allowed while work may run.
    fn passed(&self, stream: &Self::Stream, position: u64) -> bool;

    /// Like [`passed`](Device::passed), of what is known without a call of a driver. Asked whenever memory is freed, which goes
    /// back to its stream if the answer is `false`.
    fn known_passed(&self, stream: &Self::Stream, position: u64) -> bool {
        self.passed(stream, position)
    }

    /// The position of the stream, unless its work up to there is known to be done.
    #[inline]
    fn pending(&self, stream: &Self::Stream) -> Option<u64> {
        let position = self.position(stream);
        (!self.known_passed(stream, position)).then_some(position)
    }

    /// A new event.
    fn create_event(&self, timing: bool) -> Result<Self::Event>;

    /// Covers the stream's work so far.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Later work of `stream` waits for the event's last record.
    fn wait_event(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Whether the covered work is done; true when never recorded.
    fn query_event(&self, event: &Self::Event) -> Result<bool>;

    /// Waits for the covered work; `None` for ever.
    fn wait_for_event(&self, event: &Self::Event, timeout: Option<Duration>) -> Result<()>;

    /// Nanoseconds between two records.
    fn elapsed(&self, start: &Self::Event, end: &Self::Event) -> Result<i64>;

    /// Why the source cannot be compiled, if it cannot.
    fn supports(&self, source: &Source<'_>) -> Result<()>;

    /// Compiles. `options` are `key=value` lines; unknown ones are an error.
    fn compile(&self, source: &Source<'_>, options: &str) -> Result<Self::Kernel>;

    /// How many programs the kernel became until now: see [`tables::InspectArgs`].
    fn programs(&self, kernel: &Self::Kernel) -> usize {
        let _ = kernel;
        1
    }

    /// A part of program `program < programs`, for people who look for a fault.
    fn inspect(&self, kernel: &Self::Kernel, program: usize, part: tables::KernelPart) -> Result<Vec<u8>> {
        let _ = (kernel, program, part);
        Err(Error::unsupported("this backend shows nothing of its kernels"))
    }

    /// The forms of constant inputs that a program with these nodes is to keep. `constant` says which inputs are constants.
    fn forms(&self, nodes: &[Node<Self>], constant: &dyn Fn(usize) -> bool) -> Vec<Form> {
        let _ = (nodes, constant);
        Vec::new()
    }

    /// Runs a program. Slots are the inputs', whose origin is where offsets count from, then those of the buffers that the run has
    /// made, then the bound ones, then those of the forms that the program keeps. Where the run comes from stands in `tag`, or in each node's own.
    ///
    /// # Safety
    /// As [`Device::submit`] for every node.
    unsafe fn run_program(
        &self,
        stream: &Self::Stream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { program.submit(self, stream, slots, arguments, tag) }
    }

    /// What records the device's work and memory while a profile runs. `None` on a device whose work is not measured: then no
    /// profile can be started, and the methods after this one are not called.
    fn profiler(&self) -> Option<&Arc<Recorder>> {
        None
    }

    /// As [`Device::submit`] while a profile runs: the work is recorded as `submission` when it ends.
    ///
    /// # Safety
    /// As [`Device::submit`].
    unsafe fn submit_profiled(
        &self,
        stream: &Self::Stream,
        work: &Work<'_, Self>,
        tag: Tag<'_>,
        submission: &Submission,
    ) -> Result<()> {
        let _ = submission;
        // SAFETY: the caller's contract.
        unsafe { self.submit(stream, work, tag) }
    }

    /// As [`Device::run_program`] while a profile runs: each node is recorded.
    ///
    /// # Safety
    /// As [`Device::run_program`].
    unsafe fn run_program_profiled(
        &self,
        stream: &Self::Stream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        submission: &Submission,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { program.submit_profiled(self, stream, slots, arguments, tag, submission) }
    }

    /// As [`Device::wait_event`] while a profile runs: the wait is recorded.
    fn wait_event_profiled(
        &self,
        stream: &Self::Stream,
        event: &Self::Event,
        submission: &Submission,
    ) -> Result<()> {
        let _ = submission;
        self.wait_event(stream, event)
    }

    /// Called when a profile was started, with what it records: for what a driver must be told.
    fn profile_started(&self, kinds: u64) -> Result<()> {
        let _ = kinds;
        Ok(())
    }

    /// Called when a profile was stopped.
    fn profile_stopped(&self) {}

    /// Called before records are drained: gives the recorder what the driver has measured until now.
    fn profile_collect(&self) -> Result<()> {
        Ok(())
    }

    /// What the hardware's counters say since the profile was started, or since the first question in it.
    fn counters(&self) -> Result<Vec<Counter>> {
        Err(Error::unsupported("this backend reads no hardware counters"))
    }
}
