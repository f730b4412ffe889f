//! Events: points in a stream.

use super::device::Device;
use super::error::Result;
use super::stream::Stream;
use super::tag::Tag;
use std::fmt;
use std::time::Duration;
use thalweg_hal::Status;
use thalweg_hal::tables::{ElapsedArgs, EventArgs, EventStreamArgs, EventWaitArgs};

/// A point in a stream. It covers the work that the stream had when it was recorded last.
///
/// ```
/// use thalweg_runtime::hal::{self, Event};
/// let device = hal::device("cpu")?;
/// let stream = device.default_stream()?;
/// let (start, end) = (Event::with_timing(&device)?, Event::with_timing(&device)?);
/// start.record(&stream)?;
/// device.alloc(1 << 20)?.fill(&stream, 0_u8)?;
/// end.record(&stream)?;
/// end.synchronize()?;
/// assert!(start.elapsed_time(&end)? > 0.0);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
pub struct Event {
    handle: u64,
    timing: bool,
    device: Device,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:#x} on {})", self.handle, self.device.target())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: plain call of a table; the handle is this value's own.
        let code = unsafe { (self.device.tables().event.destroy)(self.device.context(), self.handle) };
        if code != 0 {
            tracing::error!("{}", self.device.error(code, &Tag::new("destroy event")));
        }
    }
}

impl Event {
    /// An event that was never recorded and takes no time stamps.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn new(device: &Device) -> Result<Event> {
        Event::create(device, false)
    }

    /// An event that takes a time stamp with each record.
    ///
    /// # Errors
    /// [`Status::Unsupported`] on a device without [`Capability::Timing`](thalweg_hal::tables::Capability::Timing).
    #[track_caller]
    pub fn with_timing(device: &Device) -> Result<Event> {
        Event::create(device, true)
    }

    #[track_caller]
    fn create(device: &Device, timing: bool) -> Result<Event> {
        let args = EventArgs {
            device: device.handle(),
            timing: u32::from(timing),
            reserved: 0,
        };
        let mut handle = 0;
        // SAFETY: the arguments live through the call; `handle` is writable.
        let code =
            unsafe { (device.tables().event.create)(device.context(), &raw const args, &raw mut handle) };
        device.check(code, &Tag::new("create event"))?;
        Ok(Event {
            handle,
            timing,
            device: device.clone(),
        })
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its handle in the tables.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Whether it takes time stamps.
    pub fn has_timing(&self) -> bool {
        self.timing
    }

    pub(super) fn check_device(&self, device: &Device, tag: &Tag<'_>) -> Result<()> {
        if self.device == *device {
            return Ok(());
        }
        let text = format!("the event lies on another device, {}", self.device.target());
        Err(device.refuse(Status::InvalidHandle, text, tag))
    }

    /// Covers the work of `stream` so far; replaces the previous record.
    ///
    /// # Errors
    /// [`Status::InvalidHandle`] for another device's stream.
    #[track_caller]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let tag = Tag::new("record event");
        self.check_device(stream.device(), &tag)?;
        let args = EventStreamArgs {
            event: self.handle,
            stream: stream.handle(),
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.device.tables().event.record)(self.device.context(), &raw const args) };
        self.device.check(code, &tag)
    }

    /// Later work of `stream` waits for the covered work; the host does not wait.
    ///
    /// # Errors
    /// As [`Stream::wait_event`].
    #[track_caller]
    pub fn wait(&self, stream: &Stream) -> Result<()> {
        stream.wait_event(self)
    }

    /// Whether the covered work is done; true when never recorded.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        let mut done = 0;
        // SAFETY: plain call of a table; `done` is writable.
        let code =
            unsafe { (self.device.tables().event.query)(self.device.context(), self.handle, &raw mut done) };
        self.device.check(code, &Tag::new("query event"))?;
        Ok(done != 0)
    }

    /// Waits on the host for the covered work.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.wait_ns(u64::MAX)
    }

    /// Waits on the host for the covered work, no longer than `timeout`.
    ///
    /// # Errors
    /// [`Status::Timeout`] when the time is up first.
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_ns(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    #[track_caller]
    fn wait_ns(&self, timeout_ns: u64) -> Result<()> {
        let args = EventWaitArgs {
            event: self.handle,
            timeout_ns,
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.device.tables().event.wait)(self.device.context(), &raw const args) };
        self.device.check(code, &Tag::new("wait for event"))
    }

    /// Signed nanoseconds from this record to that of `end`.
    ///
    /// # Errors
    /// [`Status::Unsupported`] without timing, [`Status::InvalidArgument`] when either was not recorded or not reached.
    #[track_caller]
    pub fn elapsed_ns(&self, end: &Event) -> Result<i64> {
        let tag = Tag::new("elapsed time");
        end.check_device(&self.device, &tag)?;
        let args = ElapsedArgs {
            start: self.handle,
            end: end.handle,
        };
        let mut elapsed = 0;
        // SAFETY: the arguments live through the call; `elapsed` is writable.
        let code = unsafe {
            (self.device.tables().event.elapsed)(self.device.context(), &raw const args, &raw mut elapsed)
        };
        self.device.check(code, &tag)?;
        Ok(elapsed)
    }

    /// Milliseconds from this record to that of `end`.
    ///
    /// # Errors
    /// As [`Event::elapsed_ns`].
    #[track_caller]
    pub fn elapsed_time(&self, end: &Event) -> Result<f64> {
        Ok(self.elapsed_ns(end)? as f64 * 1e-6)
    }
}
