//! The objects of one captured backend, made anew.

use super::Target;
use super::memory::Buffers;
use super::raw::input;
use crate::captured::with_kernel;
use crate::captured::{Device, Event, Handle, Kernel, Mark, Rebind, Source, Stream};
use crate::next::Next;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use thalweg_hal::kit::checks::Signature;
use thalweg_hal::kit::source::Decoded;
use thalweg_hal::library::LibraryOp;
use thalweg_hal::tables::{
    self, CompileArgs, DeviceOptions, EventArgs, EventStreamArgs, EventWaitArgs, KernelTable,
    ProgramRebindArgs, ProgramTable, StreamArgs, WaitEventArgs,
};
use thalweg_hal::{Error, Result, Status, Str};

/// A kernel.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) handle: u64,
    pub(super) signature: Signature,
    /// Strides of each parameter.
    pub(super) axes: Box<[usize]>,
}

/// A program.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) handle: u64,
    /// Of the capture.
    pub(super) device: Handle,
    /// How many a run makes.
    pub(super) outputs: usize,
}

/// A device, with a stream for uploads that no stream asks for.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) handle: u64,
    pub(super) stream: u64,
    priorities: (i32, i32),
}

/// The objects of one captured backend, by the handles of the capture.
pub(super) struct Session {
    pub(super) next: Next,
    ordinal: Option<u32>,
    opened: HashMap<Handle, Opened>,
    pub(super) buffers: Buffers,
    streams: HashMap<Handle, (u64, Handle)>,
    events: HashMap<Handle, u64>,
    pub(super) kernels: HashMap<Handle, Compiled>,
    pub(super) programs: HashMap<Handle, Made>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}

/// An object of the capture, which may be missing there.
pub(super) fn known<'a, T>(map: &'a HashMap<Handle, T>, what: &str, handle: Handle) -> Result<&'a T> {
    map.get(&handle).ok_or_else(|| unknown(what, handle))
}

fn unknown(what: &str, handle: Handle) -> Error {
    Error::invalid_handle(format!(
        "the capture uses {what} {handle:#x} before it is made or after its end"
    ))
}

fn taken<T>(map: &mut HashMap<Handle, T>, what: &str, handle: Handle) -> Result<T> {
    map.remove(&handle).ok_or_else(|| unknown(what, handle))
}

impl Session {
    pub(super) fn new(target: Target) -> Session {
        Session {
            next: target.tables.0,
            ordinal: target.ordinal,
            opened: HashMap::new(),
            buffers: Buffers::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            kernels: HashMap::new(),
            programs: HashMap::new(),
        }
    }

    /// The error of a code that a call has just returned.
    pub(super) fn checked(&self, what: &str, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0_u8; 4096];
        // SAFETY: the buffer has the capacity that is passed.
        let length =
            unsafe { (self.next.core.last_error)(self.next.api.context, text.as_mut_ptr(), text.len()) };
        text.truncate(length);
        let status = Status::from_code(code).unwrap_or(Status::Internal);
        Err(Error::new(
            status,
            format!("{what}: {}", String::from_utf8_lossy(&text)),
        ))
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = Handle> {
        self.opened.keys().copied()
    }

    pub(super) fn device(&self, device: Handle) -> Result<&Opened> {
        known(&self.opened, "device", device)
    }

    /// The stream of a handle, and its device in the capture.
    pub(super) fn stream(&self, stream: Handle) -> Result<(u64, Handle)> {
        known(&self.streams, "stream", stream).copied()
    }

    pub(super) fn open(&mut self, device: &Device) -> Result<()> {
        let options = DeviceOptions {
            ordinal: self.ordinal.unwrap_or(device.ordinal),
            reserved: 0,
            memory_limit: 0,
            block_size: device.block_size,
        };
        let context = self.next.api.context;
        let mut properties = MaybeUninit::<tables::DeviceProperties>::zeroed();
        let (mut handle, mut stream) = (0, 0);
        // SAFETY: the arguments live through the calls, and the out pointers are writable; zeros are properties.
        unsafe {
            let code = (self.next.device.properties)(context, options.ordinal, properties.as_mut_ptr());
            self.checked("properties of the device", code)?;
            let properties = properties.assume_init();
            let code = (self.next.device.open)(context, &raw const options, &raw mut handle);
            self.checked("open the device", code)?;
            let priorities = (properties.priority_low, properties.priority_high);
            let args = StreamArgs {
                device: handle,
                priority: clamped(0, priorities),
                reserved: 0,
            };
            let code = (self.next.stream.create)(context, &raw const args, &raw mut stream);
            self.checked("create stream", code)?;
            self.opened.insert(
                device.device,
                Opened {
                    handle,
                    stream,
                    priorities,
                },
            );
        }
        Ok(())
    }

    pub(super) fn close(&mut self, device: Handle) -> Result<()> {
        let opened = taken(&mut self.opened, "device", device)?;
        // SAFETY: plain call of a table.
        let code = unsafe { (self.next.device.close)(self.next.api.context, opened.handle) };
        self.checked("close the device", code)
    }

    pub(super) fn synchronize_device(&self, device: Handle) -> Result<()> {
        let handle = self.device(device)?.handle;
        // SAFETY: plain call of a table.
        let code = unsafe { (self.next.device.synchronize)(self.next.api.context, handle) };
        self.checked("synchronize", code)
    }

    pub(super) fn create_stream(&mut self, stream: &Stream) -> Result<()> {
        let device = self.device(stream.device)?;
        let args = StreamArgs {
            device: device.handle,
            priority: clamped(stream.priority, device.priorities),
            reserved: 0,
        };
        let mut handle = 0;
        // SAFETY: the arguments live through the call; `handle` is writable.
        let code =
            unsafe { (self.next.stream.create)(self.next.api.context, &raw const args, &raw mut handle) };
        self.checked("create stream", code)?;
        self.streams.insert(stream.stream, (handle, stream.device));
        Ok(())
    }

    pub(super) fn destroy_stream(&mut self, stream: Handle) -> Result<()> {
        let (handle, _) = taken(&mut self.streams, "stream", stream)?;
        // SAFETY: plain call of a table.
        let code = unsafe { (self.next.stream.destroy)(self.next.api.context, handle) };
        self.checked("destroy stream", code)
    }

    pub(super) fn synchronize(&self, stream: Handle) -> Result<()> {
        self.synchronize_raw(self.stream(stream)?.0)
    }

    pub(super) fn synchronize_raw(&self, stream: u64) -> Result<()> {
        // SAFETY: plain call of a table.
        let code = unsafe { (self.next.stream.synchronize)(self.next.api.context, stream) };
        self.checked("synchronize", code)
    }

    pub(super) fn create_event(&mut self, event: &Event) -> Result<()> {
        let args = EventArgs {
            device: self.device(event.device)?.handle,
            timing: event.timing,
            reserved: 0,
        };
        let mut handle = 0;
        // SAFETY: the arguments live through the call; `handle` is writable.
        let code =
            unsafe { (self.next.event.create)(self.next.api.context, &raw const args, &raw mut handle) };
        self.checked("create event", code)?;
        self.events.insert(event.event, handle);
        Ok(())
    }

    pub(super) fn destroy_event(&mut self, event: Handle) -> Result<()> {
        let handle = taken(&mut self.events, "event", event)?;
        // SAFETY: plain call of a table.
        let code = unsafe { (self.next.event.destroy)(self.next.api.context, handle) };
        self.checked("destroy event", code)
    }

    fn event(&self, event: Handle) -> Result<u64> {
        known(&self.events, "event", event).copied()
    }

    pub(super) fn record_event(&self, mark: &Mark) -> Result<()> {
        let args = EventStreamArgs {
            event: self.event(mark.event)?,
            stream: self.stream(mark.stream)?.0,
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.next.event.record)(self.next.api.context, &raw const args) };
        self.checked("record event", code)
    }

    pub(super) fn wait_event(&self, mark: &Mark) -> Result<()> {
        let args = WaitEventArgs {
            stream: self.stream(mark.stream)?.0,
            event: self.event(mark.event)?,
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.next.stream.wait_event)(self.next.api.context, &raw const args) };
        self.checked("wait for event", code)
    }

    pub(super) fn await_event(&self, event: Handle) -> Result<()> {
        let args = EventWaitArgs {
            event: self.event(event)?,
            timeout_ns: u64::MAX,
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.next.event.wait)(self.next.api.context, &raw const args) };
        self.checked("wait for event", code)
    }

    fn kernel_table(&self) -> Result<&'static KernelTable> {
        let none = || Error::unsupported("the backend compiles no kernels");
        self.next.kernel.ok_or_else(none)
    }

    pub(super) fn program_table(&self) -> Result<&'static ProgramTable> {
        let none = || Error::unsupported("the backend has no programs");
        self.next.program.ok_or_else(none)
    }

    /// Compiles a kernel; a library op that the backend lacks is compiled from its definition.
    pub(super) fn compile(&mut self, kernel: &Kernel) -> Result<()> {
        let decoded = kernel.source.decoded()?;
        let signature = decoded.signature()?;
        let device = self.device(kernel.device)?.handle;
        let own = self.compiled(device, &kernel.source, &kernel.options);
        let handle = match (own, &decoded) {
            (Err(error), Decoded::Library(op)) if error.status == Status::Unsupported => {
                self.defined(device, op, &kernel.options).map_err(|_| error)?
            }
            (own, _) => own?,
        };
        let axes = signature.slots.iter();
        let axes = axes.map(|slot| super::stand_in::axes(slot.level, signature.outer, signature.inner));
        let compiled = Compiled {
            handle,
            axes: axes.collect(),
            signature,
        };
        self.kernels.insert(kernel.kernel, compiled);
        Ok(())
    }

    fn compiled(&self, device: u64, source: &Source, options: &str) -> Result<u64> {
        source.with(|source| self.compiled_raw(device, source, options))?
    }

    fn defined(&self, device: u64, op: &LibraryOp, options: &str) -> Result<u64> {
        with_kernel(&op.definition()?, |source| {
            self.compiled_raw(device, source, options)
        })?
    }

    fn compiled_raw(&self, device: u64, source: &tables::Source, options: &str) -> Result<u64> {
        let args = CompileArgs {
            device,
            source: *source,
            options: Str::new(options),
        };
        let table = self.kernel_table()?;
        let mut handle = 0;
        // SAFETY: the source and the options live through the call; `handle` is writable.
        let code = unsafe { (table.compile)(self.next.api.context, &raw const args, &raw mut handle) };
        self.checked("compile", code)?;
        Ok(handle)
    }

    pub(super) fn release(&mut self, kernel: Handle) -> Result<()> {
        let compiled = taken(&mut self.kernels, "kernel", kernel)?;
        // SAFETY: plain call of a table.
        let code = unsafe { (self.kernel_table()?.release)(self.next.api.context, compiled.handle) };
        self.checked("release kernel", code)
    }

    pub(super) fn rebind(&self, rebind: &Rebind) -> Result<()> {
        let args = ProgramRebindArgs {
            program: known(&self.programs, "program", rebind.program)?.handle,
            slot: rebind.slot,
            input: input(&rebind.place, &self.buffers)?,
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.program_table()?.rebind)(self.next.api.context, &raw const args) };
        self.checked("rebind", code)
    }

    pub(super) fn destroy_program(&mut self, program: Handle) -> Result<()> {
        let handle = taken(&mut self.programs, "program", program)?.handle;
        // SAFETY: plain call of a table.
        let code = unsafe { (self.program_table()?.destroy)(self.next.api.context, handle) };
        self.checked("destroy program", code)
    }

    pub(super) fn free(&mut self, buffer: Handle) -> Result<()> {
        let handle = self.buffers.remove(buffer)?;
        // SAFETY: plain call of a table.
        let code = unsafe { (self.next.memory.free)(self.next.api.context, handle) };
        self.checked("free", code)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for device in self.opened.values() {
            // SAFETY: plain call of a table. It waits for all work, whose errors nobody can be told any more.
            let _ = unsafe { (self.next.device.close)(self.next.api.context, device.handle) };
        }
    }
}

fn clamped(priority: i32, (low, high): (i32, i32)) -> i32 {
    priority.clamp(low.min(high), high.max(low))
}
