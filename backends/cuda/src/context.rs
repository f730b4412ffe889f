//! The primary context of a device, shared with other users of CUDA in the process.

use crate::api::codes::{self, SUCCESS};
use crate::api::driver::{Driver, RawContext, RawDevice, RawEvent, RawStream};
use crate::memory::Block;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_hal::tables::NoticeKind;
use thalweg_hal::{Error, Host, Result, Status};

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// A retained context.
pub(crate) struct Context {
    /// The functions.
    pub(crate) api: &'static Driver,
    /// The driver's handle.
    pub(crate) raw: RawContext,
    device: RawDevice,
    name: String,
    host: Host,
    lost: OnceLock<String>,
    // Events without timing that nobody uses now.
    events: Mutex<Vec<RawEvent>>,
    // Streams to capture on that nobody uses now.
    capturing: Mutex<Vec<RawStream>>,
    // Pinned memory that nobody uses now.
    pinned: Mutex<Vec<Block>>,
    // Whether a thread asks whether the device works.
    looking: AtomicBool,
}

impl Context {
    /// Retains the primary context.
    pub(crate) fn new(
        api: &'static Driver,
        device: RawDevice,
        name: &str,
        host: Host,
    ) -> Result<Arc<Context>> {
        let mut raw = RawContext(std::ptr::null_mut());
        // SAFETY: plain call.
        let code = unsafe { (api.retain_context)(&raw mut raw, device) };
        if code != SUCCESS {
            let message = api.message("cuDevicePrimaryCtxRetain", code);
            return Err(match codes::status(code) {
                Status::OutOfMemory => Error::out_of_memory(message),
                _ => Error::unavailable(message),
            });
        }
        Ok(Arc::new(Context {
            api,
            raw,
            device,
            name: name.to_owned(),
            host,
            lost: OnceLock::new(),
            events: Mutex::new(Vec::new()),
            capturing: Mutex::new(Vec::new()),
            pinned: Mutex::new(Vec::new()),
            looking: AtomicBool::new(false),
        }))
    }

    /// Makes the context current on this thread.
    #[inline]
    pub(crate) fn enter(&self) -> Result<()> {
        // SAFETY: plain call.
        self.check("cuCtxSetCurrent", unsafe { (self.api.set_context)(self.raw) })
    }

    /// An error unless `code` is success. The first code that means the end of the context is reported as what it is; every
    /// error after it is that the device is lost.
    #[inline]
    pub(crate) fn check(&self, call: &str, code: u32) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(self.error(call, code))
    }

    #[cold]
    fn error(&self, call: &str, code: u32) -> Error {
        let message = self.api.message(call, code);
        if codes::is_sticky(code) {
            if self.lost.set(message.clone()).is_ok() {
                let notice = format!("{}: {message}", self.name);
                self.host.notify(NoticeKind::DeviceLost, 0, &notice);
                return Error::new(codes::status(code), message);
            }
            return match self.alive() {
                Err(error) => error,
                Ok(()) => Error::new(Status::DeviceLost, message),
            };
        }
        Error::new(codes::status(code), message)
    }

    /// Why the device no longer works, if it does not.
    pub(crate) fn alive(&self) -> Result<()> {
        match self.lost.get() {
            Some(why) => Err(Error::new(
                Status::DeviceLost,
                format!("{} does not work since {why}; start the process anew", self.name),
            )),
            None => Ok(()),
        }
    }

    /// Whether nothing works on the device any more.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Asks on a thread of its own whether the device works; [`Context::alive`] tells later. The caller may be who a stream waits
    /// for, and the driver may hold up whoever asks until that stream is done.
    pub(crate) fn look(self: &Arc<Self>) {
        if self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let context = Arc::clone(self);
        let look = move || {
            if context.enter().is_ok()
                && let Ok(event) = context.event()
            {
                // SAFETY: plain call. Any call tells of a broken context.
                let code = unsafe { (context.api.event_query)(event.raw) };
                if code != codes::NOT_READY {
                    let _ = context.check("cuEventQuery", code);
                }
            }
            context.looking.store(false, Ordering::Release);
        };
        let thread = std::thread::Builder::new().name("thalweg-cuda-look".into());
        if thread.spawn(look).is_err() {
            self.looking.store(false, Ordering::Release);
        }
    }

    /// Pinned memory of so many bytes that somebody has left.
    pub(crate) fn kept_pinned(&self, bytes: usize) -> Option<Block> {
        let mut pinned = self.pinned.lock();
        let at = pinned.iter().position(|block| block.bytes == bytes)?;
        Some(pinned.swap_remove(at))
    }

    /// Leaves pinned memory to the next. No work uses it any more.
    pub(crate) fn keep_pinned(&self, block: Block) {
        self.pinned.lock().push(block);
    }

    /// An event without timing, until it is dropped. The context is current.
    pub(crate) fn event(self: &Arc<Self>) -> Result<Event> {
        let kept = self.events.lock().pop();
        let raw = match kept {
            Some(raw) => raw,
            None => self.new_event(NO_TIMING)?,
        };
        Ok(Event {
            raw,
            context: Arc::clone(self),
        })
    }

    /// A new event of the driver, the caller's. The context is current.
    pub(crate) fn new_event(&self, flags: u32) -> Result<RawEvent> {
        let mut raw = RawEvent(std::ptr::null_mut());
        // SAFETY: plain call.
        let code = unsafe { (self.api.event_create)(&raw mut raw, flags) };
        self.check("cuEventCreate", code).map(|()| raw)
    }
}

impl Context {
    /// A stream to capture on, which nobody else uses until it is dropped. The context is current.
    pub(crate) fn capturing(&self) -> Result<Capturing<'_>> {
        let kept = self.capturing.lock().pop();
        let raw = match kept {
            Some(raw) => raw,
            None => {
                let mut raw = RawStream(std::ptr::null_mut());
                // SAFETY: plain call.
                let code = unsafe { (self.api.stream_create)(&raw mut raw, 1, 0) };
                self.check("cuStreamCreateWithPriority", code)?;
                raw
            }
        };
        Ok(Capturing { raw, context: self })
    }
}

/// A stream to capture on. It is destroyed with what it may have half done, unless it is kept.
pub(crate) struct Capturing<'a> {
    /// The driver's handle.
    pub(crate) raw: RawStream,
    context: &'a Context,
}

impl Capturing<'_> {
    /// Leaves it to the next who captures.
    pub(crate) fn keep(self) {
        self.context.capturing.lock().push(self.raw);
        std::mem::forget(self);
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        // SAFETY: owned, and not used after this.
        unsafe { (self.context.api.stream_destroy)(self.raw) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nothing uses events, streams and pinned memory, and the context is given back once.
        unsafe {
            (self.api.set_context)(self.raw);
            for stream in self.capturing.get_mut().drain(..) {
                (self.api.stream_destroy)(stream);
            }
            for event in self.events.get_mut().drain(..) {
                (self.api.event_destroy)(event);
            }
            for block in self.pinned.get_mut().drain(..) {
                (self.api.host_free)(block.address.as_ptr().cast());
            }
            (self.api.set_context)(RawContext(std::ptr::null_mut()));
            (self.api.release_context)(self.device);
        }
    }
}

/// A point in a stream, without timing.
pub(crate) struct Event {
    /// The driver's handle.
    pub(crate) raw: RawEvent,
    context: Arc<Context>,
}

impl Event {
    /// Whether the point is passed, or never will be.
    pub(crate) fn is_done(&self) -> bool {
        // SAFETY: plain call.
        unsafe { (self.context.api.event_query)(self.raw) != codes::NOT_READY }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.events.lock().push(self.raw);
    }
}
