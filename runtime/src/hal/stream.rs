//! Streams: work in order.

use super::batch::Batch;
use super::device::Device;
use super::error::Result;
use super::event::Event;
use super::memory::Buffer;
use super::tag::Tag;
use super::waits::Waited;
use super::work::{Copy, Fill, Launch, Packet};
use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use thalweg_hal::Status;
use thalweg_hal::tables::{self, CallbackArgs, Context, PacketKind, StreamArgs, StreamTable, WaitEventArgs};

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a callback of a stream.
pub(super) fn in_callback() -> bool {
    IN_CALLBACK.get()
}

/// A stream without the device that keeps it alive.
#[derive(Clone, Copy)]
pub(super) struct StreamHandle {
    table: &'static StreamTable,
    context: Context,
    handle: u64,
    priority: i32,
}

// SAFETY: functions of the tables may be called from any thread.
unsafe impl Send for StreamHandle {}
// SAFETY: as above.
unsafe impl Sync for StreamHandle {}

impl StreamHandle {
    #[track_caller]
    pub(super) fn create(device: &Device, priority: i32) -> Result<StreamHandle> {
        let args = StreamArgs {
            device: device.handle(),
            priority,
            reserved: 0,
        };
        let (table, context) = (device.tables().stream, device.context());
        let mut handle = 0;
        // SAFETY: the arguments live through the call; `handle` is writable.
        let code = unsafe { (table.create)(context, &raw const args, &raw mut handle) };
        device.check(code, &Tag::new("create stream"))?;
        Ok(StreamHandle {
            table,
            context,
            handle,
            priority,
        })
    }

    /// Waits for the stream's work and ends it; nobody may use the handle any more.
    pub(super) fn destroy(self, device: &Device) {
        let ended = device.waited(Waited::End(self.handle), || {
            // SAFETY: plain call of a table.
            let code = unsafe { (self.table.destroy)(self.context, self.handle) };
            device.check(code, &Tag::new("stream dropped before it was synchronized"))
        });
        if let Err(error) = ended {
            tracing::error!("{error}");
        }
    }
}

struct Owned {
    stream: StreamHandle,
    device: Device,
}

impl Drop for Owned {
    fn drop(&mut self) {
        let (stream, device) = (self.stream, self.device.clone());
        let destroy = move || stream.destroy(&device);
        // A stream cannot end from inside its own callback.
        if in_callback() {
            std::thread::spawn(destroy);
        } else {
            destroy();
        }
    }
}

/// An in-order queue of work. Clones are the same stream; dropping the last one waits for its work.
///
/// Streams are unordered but for events ([`Stream::wait_event`]). Work is asynchronous: what is wrong with a call is its own
/// error; what fails later sticks to the stream, and the next synchronize returns it once.
///
/// ```
/// use thalweg_runtime::hal::{self, Stream};
/// let device = hal::device("cpu")?;
/// let (first, second) = (Stream::new(&device)?, Stream::new(&device)?);
/// let buffer = device.alloc(1024)?;
/// buffer.fill(&first, 1.0_f32)?;
/// second.wait_stream(&first)?;
/// assert_eq!(buffer.download_at::<f32>(&second, 0, 2)?, [1.0, 1.0]);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream {
    raw: StreamHandle,
    // `None` for the default stream, which ends with its device.
    owned: Option<Arc<Owned>>,
    device: Device,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:#x} on {})", self.raw.handle, self.device.target())
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        self.raw.handle == other.raw.handle && self.device == other.device
    }
}

impl Eq for Stream {}

/// A stream that others may end.
#[derive(Clone)]
pub struct WeakStream {
    raw: StreamHandle,
    owned: Option<Weak<Owned>>,
    device: Device,
}

impl fmt::Debug for WeakStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "WeakStream({:#x} on {})",
            self.raw.handle,
            self.device.target()
        )
    }
}

impl WeakStream {
    /// The stream, unless its last clone was dropped.
    pub fn upgrade(&self) -> Option<Stream> {
        let owned = match &self.owned {
            Some(owned) => Some(owned.upgrade()?),
            None => None,
        };
        Some(Stream {
            raw: self.raw,
            owned,
            device: self.device.clone(),
        })
    }
}

type Closure = Box<dyn FnOnce() + Send>;

unsafe extern "C" fn run_closure(data: *mut c_void) -> i32 {
    // SAFETY: `Stream::callback` passes a `Box<Closure>`, and the backend calls once.
    let closure = unsafe { Box::from_raw(data.cast::<Closure>()) };
    IN_CALLBACK.set(true);
    let result = catch_unwind(AssertUnwindSafe(closure));
    IN_CALLBACK.set(false);
    match result {
        Ok(()) => 0,
        Err(_) => Status::Panicked as i32,
    }
}

impl Stream {
    /// A new stream of priority 0, or of the device's nearest.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn new(device: &Device) -> Result<Stream> {
        let priorities = &device.properties().priorities;
        Stream::with_priority(device, 0.clamp(*priorities.start(), *priorities.end()))
    }

    /// A new stream; work of higher priority runs first.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] outside the device's
    /// [`priorities`](super::DeviceProperties::priorities).
    #[track_caller]
    pub fn with_priority(device: &Device, priority: i32) -> Result<Stream> {
        let raw = StreamHandle::create(device, priority)?;
        let owned = Arc::new(Owned {
            stream: raw,
            device: device.clone(),
        });
        Ok(Stream {
            raw,
            owned: Some(owned),
            device: device.clone(),
        })
    }

    /// The default stream of a device.
    pub(super) fn borrowed(raw: StreamHandle, device: &Device) -> Stream {
        Stream {
            raw,
            owned: None,
            device: device.clone(),
        }
    }

    /// The stream without a share in its life; the device stays open for it.
    pub fn downgrade(&self) -> WeakStream {
        WeakStream {
            raw: self.raw,
            owned: self.owned.as_ref().map(Arc::downgrade),
            device: self.device.clone(),
        }
    }

    /// Its device.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its handle in the tables.
    #[inline]
    pub fn handle(&self) -> u64 {
        self.raw.handle
    }

    /// Its priority.
    pub fn priority(&self) -> i32 {
        self.raw.priority
    }

    /// Whether it is its device's default stream.
    pub fn is_default(&self) -> bool {
        self.owned.is_none()
    }

    /// A buffer of `bytes` bytes for an op on this stream; see [`Buffer::alloc_on`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](super::Error::OutOfMemory).
    #[inline]
    pub fn alloc(&self, bytes: u64, tag: Tag<'_>) -> Result<Buffer> {
        Buffer::alloc_on(self, bytes, tag)
    }

    /// Submits one launch.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`], [`Status::OutOfBounds`], [`Status::Overlap`] when buffers, extents and strides
    /// do not fit the kernel; [`Status::InvalidHandle`] for objects of another device.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        // Bindings that need no allocation.
        const INLINE: usize = 8;
        let mut inline = [const { MaybeUninit::uninit() }; INLINE];
        let mut heap = Vec::new();
        let count = launch.arg_count();
        let place = if count <= INLINE {
            &mut inline[..count]
        } else {
            heap.resize_with(count, MaybeUninit::uninit);
            &mut heap[..]
        };
        let bindings = launch.bind(&self.device, place)?;
        let (raw, tag) = (launch.raw(bindings), launch.get_tag().raw());
        let table = self.raw.table;
        // SAFETY: all that the launch points to lives through the call; counts and strides were checked.
        let code =
            unsafe { (table.launch)(self.raw.context, self.raw.handle, &raw const raw, &raw const tag) };
        self.device.check(code, launch.get_tag())
    }

    /// Submits packets in order. All are checked before the first is submitted.
    ///
    /// # Errors
    /// As [`Stream::launch`], with the index of the packet.
    #[track_caller]
    pub fn submit(&self, packets: &[Packet<'_>]) -> Result<()> {
        let batch = Batch::new(&self.device, packets.iter())?;
        self.submit_raw(batch.packets(), &Tag::new("submit"))
    }

    fn submit_raw(&self, packets: &[tables::Packet], tag: &Tag<'_>) -> Result<()> {
        // SAFETY: what the packets point to lives through the call.
        let code = unsafe {
            (self.raw.table.submit)(self.raw.context, self.raw.handle, packets.as_ptr(), packets.len())
        };
        self.device.check(code, tag)
    }

    /// Submits a copy. An end may lie on another device of the same backend.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`], [`Status::Overlap`], [`Status::InvalidHandle`] for another backend's buffer.
    pub fn copy(&self, copy: &Copy<'_>) -> Result<()> {
        let (raw, tag) = (copy.lower(&self.device)?, copy.get_tag().raw());
        let packet = tables::Packet {
            kind: PacketKind::Copy as u32,
            reserved: 0,
            tag: &raw const tag,
            launch: std::ptr::null(),
            copy: &raw const raw,
            fill: std::ptr::null(),
        };
        self.submit_raw(&[packet], copy.get_tag())
    }

    /// Submits a fill.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`]; [`Status::InvalidArgument`] for a range that is not a whole number of elements.
    pub fn fill(&self, fill: &Fill<'_>) -> Result<()> {
        let (raw, tag) = (fill.lower(&self.device)?, fill.get_tag().raw());
        let packet = tables::Packet {
            kind: PacketKind::Fill as u32,
            reserved: 0,
            tag: &raw const tag,
            launch: std::ptr::null(),
            copy: std::ptr::null(),
            fill: &raw const raw,
        };
        self.submit_raw(&[packet], fill.get_tag())
    }

    /// Calls `function` in stream order from a thread of the backend. It must not submit work or wait for any; a panic in it
    /// sticks to the stream as an error.
    ///
    /// # Errors
    /// What the backend returns; `function` is not called then.
    #[track_caller]
    pub fn callback(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let data = Box::into_raw(Box::new(Box::new(function) as Closure)).cast::<c_void>();
        let args = CallbackArgs {
            stream: self.raw.handle,
            function: Some(run_closure),
            data,
        };
        // SAFETY: `run_closure` gets the box it expects, once.
        let code = unsafe { (self.raw.table.callback)(self.raw.context, &raw const args) };
        if code != 0 {
            let error = self.device.error(code, &Tag::new("callback"));
            // SAFETY: a callback that was refused is not called; the box is still ours.
            drop(unsafe { Box::from_raw(data.cast::<Closure>()) });
            return Err(error);
        }
        Ok(())
    }

    /// Whether all work is done. Reports no error of the work.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        let mut done = 0;
        // SAFETY: plain call of a table; `done` is writable.
        let code = unsafe { (self.raw.table.query)(self.raw.context, self.raw.handle, &raw mut done) };
        self.device.check(code, &Tag::new("query stream"))?;
        Ok(done != 0)
    }

    /// Waits for all work.
    ///
    /// # Errors
    /// The first error that sticks to the stream, once, with the op that the user wrote.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.synchronize_as(&Tag::new("synchronize"))
    }

    pub(super) fn synchronize_as(&self, tag: &Tag<'_>) -> Result<()> {
        self.device.waited(Waited::Stream(self.raw.handle), || {
            // SAFETY: plain call of a table.
            let code = unsafe { (self.raw.table.synchronize)(self.raw.context, self.raw.handle) };
            self.device.check(code, tag)
        })
    }

    /// Later work waits for the work that the event's last record covers; an event that was never recorded holds nothing
    /// up.
    ///
    /// # Errors
    /// [`Status::InvalidHandle`] for another device's event.
    #[track_caller]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        let tag = Tag::new("wait_event");
        event.check_device(&self.device, &tag)?;
        let args = WaitEventArgs {
            stream: self.raw.handle,
            event: event.handle(),
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.raw.table.wait_event)(self.raw.context, &raw const args) };
        self.device.check(code, &tag)
    }

    /// Makes `event` cover the work so far; replaces its previous record.
    ///
    /// # Errors
    /// [`Status::InvalidHandle`] for another device's event.
    #[track_caller]
    pub fn record_event(&self, event: &Event) -> Result<()> {
        event.record(self)
    }

    /// Later work waits for the work of `other` so far.
    ///
    /// # Errors
    /// [`Status::InvalidHandle`] for another device's stream.
    #[track_caller]
    pub fn wait_stream(&self, other: &Stream) -> Result<()> {
        let event = Event::new(&other.device)?;
        event.record(other)?;
        self.wait_event(&event)
    }
}
