//! A device for one case, with the calls that cases make most.

use super::raw::Raw;
use super::subject::Subject;
use crate::kit::Stop;
use std::ffi::c_void;
use thalweg_hal::library::LibraryOp;
use thalweg_hal::tables::{
    AllocArgs, Capability, CompileArgs, Copy, DeviceOptions, DeviceProperties, EventArgs, EventStreamArgs,
    EventWaitArgs, Fill, Launch, MemoryRange, MemoryStatistics, Packet, PacketKind, Place, Source,
    StreamArgs, Tag, WaitEventArgs,
};
use thalweg_hal::{Error, Result, Status, Str, ir};

/// An open device; dropping closes it, and with it everything that was made on it.
pub struct Device {
    raw: Raw,
    handle: u64,
    properties: DeviceProperties,
}

/// Blocks of the pools of the kit's devices: small, so that a case costs little memory.
pub(crate) const BLOCK: u64 = 4 << 20;

impl Device {
    /// Device 0 of the subject with small blocks.
    pub fn open(subject: &Subject) -> Result<Device, Stop> {
        Device::of(subject.raw(), 0, BLOCK)
    }

    /// Device 0 with a limit and a block size.
    pub fn limited(subject: &Subject, memory_limit: u64, block_size: u64) -> Result<Device, Stop> {
        Device::of(subject.raw(), memory_limit, block_size)
    }

    /// Device 0 of a backend.
    pub fn of(raw: Raw, memory_limit: u64, block_size: u64) -> Result<Device, Stop> {
        if raw.device_count()? == 0 {
            return Err(Stop::Unsupported("there is no device".into()));
        }
        let options = DeviceOptions {
            ordinal: 0,
            reserved: 0,
            memory_limit,
            block_size,
        };
        Ok(Device {
            raw,
            handle: raw.open(&options)?,
            properties: raw.properties(0)?,
        })
    }

    /// The tables.
    pub fn raw(&self) -> Raw {
        self.raw
    }

    /// Its handle.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// What it is.
    pub fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// Whether it can do something.
    pub fn has(&self, capability: Capability) -> bool {
        self.properties.capabilities & capability.bit() != 0
    }

    /// Ends the case as unsupported without the capability.
    pub fn need(&self, capability: Capability) -> Result<(), Stop> {
        if self.has(capability) {
            return Ok(());
        }
        let name = Capability::ALL.iter().find(|(bit, _)| *bit == capability);
        Err(Stop::Unsupported(format!(
            "{}: capability says no",
            name.map_or("it", |(_, name)| name)
        )))
    }

    /// Waits for all work.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: plain call.
        self.raw
            .status(unsafe { (self.raw.tables.device.synchronize)(self.raw.context, self.handle) })
    }

    /// A buffer for the device at large.
    pub fn alloc(&self, bytes: u64) -> Result<u64> {
        self.alloc_for(bytes, 0, "")
    }

    /// A buffer for a stream, asked for by `op`.
    pub fn alloc_for(&self, bytes: u64, stream: u64, op: &str) -> Result<u64> {
        let tag = tag(op);
        let args = AllocArgs {
            device: self.handle,
            bytes,
            stream,
            tag: &raw const tag,
        };
        // SAFETY: the arguments live through the call, the out pointer is writable.
        self.raw.out(0, |out| unsafe {
            (self.raw.tables.memory.alloc)(self.raw.context, &raw const args, out)
        })
    }

    /// A buffer that holds `bytes`.
    pub fn upload(&self, bytes: &[u8]) -> Result<u64> {
        let buffer = self.alloc(bytes.len() as u64)?;
        let stream = self.stream()?;
        let copy = copy(at(buffer, 0), host(bytes.as_ptr().cast_mut()), bytes.len() as u64);
        let result = self.copy(stream, &copy).and_then(|()| self.join(stream));
        self.destroy_stream(stream)?;
        result.map(|()| buffer)
    }

    /// What a buffer holds; waits for `stream` only.
    pub fn download(&self, stream: u64, buffer: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut data = vec![0_u8; bytes as usize];
        self.copy(stream, &copy(host(data.as_mut_ptr()), at(buffer, 0), bytes))?;
        self.join(stream)?;
        Ok(data)
    }

    /// Gives a buffer back.
    pub fn free(&self, buffer: u64) -> Result<()> {
        // SAFETY: plain call.
        self.raw
            .status(unsafe { (self.raw.tables.memory.free)(self.raw.context, buffer) })
    }

    /// Bytes of a buffer.
    pub fn size(&self, buffer: u64) -> Result<u64> {
        // SAFETY: the out pointer is writable.
        self.raw.out(0, |out| unsafe {
            (self.raw.tables.memory.size)(self.raw.context, buffer, out)
        })
    }

    /// Host address of a buffer.
    pub fn map(&self, buffer: u64) -> Result<*mut u8> {
        // SAFETY: the out pointer is writable.
        let address = self.raw.out(std::ptr::null_mut::<c_void>(), |out| unsafe {
            (self.raw.tables.memory.map)(self.raw.context, buffer, out)
        });
        address.map(<*mut c_void>::cast)
    }

    /// The pool's figures.
    pub fn statistics(&self) -> Result<MemoryStatistics> {
        // SAFETY: the out pointer is writable.
        self.raw.out(MemoryStatistics::default(), |out| unsafe {
            (self.raw.tables.memory.statistics)(self.raw.context, self.handle, out)
        })
    }

    /// The first `capacity` ranges of the pool, and how many there are.
    pub fn ranges(&self, capacity: usize) -> Result<(Vec<MemoryRange>, usize)> {
        let mut ranges = vec![MemoryRange::default(); capacity];
        let out = match capacity {
            0 => std::ptr::null_mut(),
            _ => ranges.as_mut_ptr(),
        };
        // SAFETY: there is room for `capacity` ranges, and the out pointer is writable.
        let len = self.raw.out(0, |len| unsafe {
            (self.raw.tables.memory.ranges)(self.raw.context, self.handle, out, capacity, len)
        })?;
        ranges.truncate(len);
        Ok((ranges, len))
    }

    /// Gives cached blocks back.
    pub fn trim(&self) -> Result<u64> {
        // SAFETY: the out pointer is writable.
        self.raw.out(0, |out| unsafe {
            (self.raw.tables.memory.trim)(self.raw.context, self.handle, out)
        })
    }

    /// A stream of the lowest priority.
    pub fn stream(&self) -> Result<u64> {
        self.stream_of(self.properties.priority_low)
    }

    /// A stream.
    pub fn stream_of(&self, priority: i32) -> Result<u64> {
        let args = StreamArgs {
            device: self.handle,
            priority,
            reserved: 0,
        };
        // SAFETY: the arguments live through the call, the out pointer is writable.
        self.raw.out(0, |out| unsafe {
            (self.raw.tables.stream.create)(self.raw.context, &raw const args, out)
        })
    }

    /// Waits for a stream's work and ends it.
    pub fn destroy_stream(&self, stream: u64) -> Result<()> {
        // SAFETY: plain call.
        self.raw
            .status(unsafe { (self.raw.tables.stream.destroy)(self.raw.context, stream) })
    }

    /// Waits for a stream's work.
    pub fn join(&self, stream: u64) -> Result<()> {
        // SAFETY: plain call.
        self.raw
            .status(unsafe { (self.raw.tables.stream.synchronize)(self.raw.context, stream) })
    }

    /// Whether a stream's work is done.
    pub fn is_idle(&self, stream: u64) -> Result<bool> {
        // SAFETY: the out pointer is writable.
        let done = self.raw.out(7, |out| unsafe {
            (self.raw.tables.stream.query)(self.raw.context, stream, out)
        })?;
        truth(done)
    }

    /// Submits packets.
    pub fn submit(&self, stream: u64, packets: &[Packet]) -> Result<()> {
        // SAFETY: the packets live through the call; the case keeps their memory alive.
        self.raw.status(unsafe {
            (self.raw.tables.stream.submit)(self.raw.context, stream, packets.as_ptr(), packets.len())
        })
    }

    /// Submits a copy.
    pub fn copy(&self, stream: u64, copy: &Copy) -> Result<()> {
        self.submit(stream, &[copy_packet(copy, std::ptr::null())])
    }

    /// Submits a fill.
    pub fn fill(&self, stream: u64, fill: &Fill) -> Result<()> {
        self.submit(stream, &[fill_packet(fill, std::ptr::null())])
    }

    /// Fills a whole buffer with one byte.
    pub fn fill_byte(&self, stream: u64, buffer: u64, bytes: u64, value: u8) -> Result<()> {
        self.fill(stream, &fill(buffer, 0, bytes, value.into(), 1))
    }

    /// Submits one launch.
    pub fn launch(&self, stream: u64, launch: &Launch, op: &str) -> Result<()> {
        let tag = tag(op);
        // SAFETY: the arguments live through the call; the case keeps their memory alive.
        self.raw.status(unsafe {
            (self.raw.tables.stream.launch)(self.raw.context, stream, launch, &raw const tag)
        })
    }

    /// A new event.
    pub fn event(&self, timing: bool) -> Result<u64> {
        let args = EventArgs {
            device: self.handle,
            timing: timing.into(),
            reserved: 0,
        };
        // SAFETY: the arguments live through the call, the out pointer is writable.
        self.raw.out(0, |out| unsafe {
            (self.raw.tables.event.create)(self.raw.context, &raw const args, out)
        })
    }

    /// Frees an event.
    pub fn destroy_event(&self, event: u64) -> Result<()> {
        // SAFETY: plain call.
        self.raw
            .status(unsafe { (self.raw.tables.event.destroy)(self.raw.context, event) })
    }

    /// Records an event.
    pub fn record(&self, event: u64, stream: u64) -> Result<()> {
        let args = EventStreamArgs { event, stream };
        // SAFETY: the arguments live through the call.
        self.raw
            .status(unsafe { (self.raw.tables.event.record)(self.raw.context, &raw const args) })
    }

    /// Makes a stream wait for an event.
    pub fn wait_event(&self, stream: u64, event: u64) -> Result<()> {
        let args = WaitEventArgs { stream, event };
        // SAFETY: the arguments live through the call.
        self.raw
            .status(unsafe { (self.raw.tables.stream.wait_event)(self.raw.context, &raw const args) })
    }

    /// Whether an event is reached.
    pub fn is_reached(&self, event: u64) -> Result<bool> {
        // SAFETY: the out pointer is writable.
        let done = self.raw.out(7, |out| unsafe {
            (self.raw.tables.event.query)(self.raw.context, event, out)
        })?;
        truth(done)
    }

    /// Waits for an event.
    pub fn wait(&self, event: u64, timeout_ns: u64) -> Result<()> {
        let args = EventWaitArgs { event, timeout_ns };
        // SAFETY: the arguments live through the call.
        self.raw
            .status(unsafe { (self.raw.tables.event.wait)(self.raw.context, &raw const args) })
    }

    /// Compiles a kernel; `Unsupported` where the backend has no kernels, or says that it does not take this one.
    pub fn compile(&self, kernel: &ir::Kernel) -> Result<u64, Stop> {
        let owned = ir::encode(kernel);
        let desc = owned.desc();
        self.compile_source(Source {
            kernel: &raw const desc,
            library: std::ptr::null(),
        })
        .map_err(|stop| match stop {
            Stop::Failed(why) => Stop::Failed(format!("{why}\n{}", kernel.to_text())),
            unsupported => unsupported,
        })
    }

    /// Compiles a library op, like [`Device::compile`].
    pub fn compile_library(&self, op: &LibraryOp) -> Result<u64, Stop> {
        let owned = op.encode();
        let epilogue = owned.epilogue();
        let desc = owned.desc(epilogue.as_ref());
        self.compile_source(Source {
            kernel: std::ptr::null(),
            library: &raw const desc,
        })
    }

    fn compile_source(&self, source: Source) -> Result<u64, Stop> {
        let Some(table) = self.raw.tables.kernel else {
            return Err(Stop::Unsupported("the backend has no table of kernels".into()));
        };
        let args = CompileArgs {
            device: self.handle,
            source,
            options: Str::EMPTY,
        };
        // SAFETY: the arguments live through the call.
        let supported = self
            .raw
            .status(unsafe { (table.supports)(self.raw.context, &raw const args) });
        match supported {
            Err(error) if error.status == Status::Unsupported => {
                return Err(Stop::Unsupported(error.message));
            }
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
        // SAFETY: the arguments live through the call, the out pointer is writable.
        let kernel = self.raw.out(0, |out| unsafe {
            (table.compile)(self.raw.context, &raw const args, out)
        })?;
        Ok(kernel)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // A device that a case has closed, or whose backend is gone, has nothing left to close.
        let _ = self.raw.close(self.handle);
    }
}

fn truth(value: u32) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::internal(format!("query wrote {other}, not 0 or 1"))),
    }
}

/// A tag that names an op. It borrows `op` without a lifetime.
pub(crate) fn tag(op: &str) -> Tag {
    Tag {
        op: Str::new(op),
        file: Str::EMPTY,
        line: 0,
        node: 0,
    }
}

/// A place in a buffer.
pub(crate) fn at(buffer: u64, offset: u64) -> Place {
    Place {
        buffer,
        host: std::ptr::null_mut(),
        offset,
        pitch: 0,
    }
}

/// Host memory.
pub(crate) fn host(ptr: *mut u8) -> Place {
    Place {
        buffer: 0,
        host: ptr.cast(),
        offset: 0,
        pitch: 0,
    }
}

/// A copy of one row.
pub(crate) fn copy(dst: Place, src: Place, width: u64) -> Copy {
    Copy {
        dst,
        src,
        width,
        rows: 1,
    }
}

/// A fill.
pub(crate) fn fill(buffer: u64, offset: u64, bytes: u64, pattern: u64, pattern_bytes: u32) -> Fill {
    Fill {
        buffer,
        offset,
        bytes,
        pattern,
        pattern_bytes,
        reserved: 0,
    }
}

const EMPTY: Packet = Packet {
    kind: 0,
    reserved: 0,
    tag: std::ptr::null(),
    launch: std::ptr::null(),
    copy: std::ptr::null(),
    fill: std::ptr::null(),
};

/// A packet that borrows a copy without a lifetime.
pub(crate) fn copy_packet(copy: &Copy, tag: *const Tag) -> Packet {
    Packet {
        kind: PacketKind::Copy as u32,
        tag,
        copy,
        ..EMPTY
    }
}

/// A packet that borrows a fill without a lifetime.
pub(crate) fn fill_packet(fill: &Fill, tag: *const Tag) -> Packet {
    Packet {
        kind: PacketKind::Fill as u32,
        tag,
        fill,
        ..EMPTY
    }
}

/// A packet that borrows a launch without a lifetime.
pub(crate) fn launch_packet(launch: &Launch, tag: *const Tag) -> Packet {
    Packet {
        kind: PacketKind::Launch as u32,
        tag,
        launch,
        ..EMPTY
    }
}
