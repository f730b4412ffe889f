//! Events.

use crate::api::codes::NOT_READY;
use crate::api::driver::RawEvent;
use crate::context::Context;
use crate::stream::CuStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_hal::kit::spin::poll_until;
use thalweg_hal::{Error, Result, Status};

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// A point in a stream.
pub(crate) struct CuEvent {
    raw: RawEvent,
    timing: bool,
    recorded: AtomicBool,
    context: Arc<Context>,
}

impl CuEvent {
    /// An event that was never recorded.
    pub(crate) fn new(context: &Arc<Context>, timing: bool) -> Result<CuEvent> {
        context.enter()?;
        Ok(CuEvent {
            raw: context.new_event(if timing { 0 } else { NO_TIMING })?,
            timing,
            recorded: AtomicBool::new(false),
            context: Arc::clone(context),
        })
    }

    /// Covers the work of `stream` so far.
    pub(crate) fn record(&self, stream: &CuStream) -> Result<()> {
        stream.record(self.raw)?;
        self.recorded.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes later work of `stream` wait for the last record.
    pub(crate) fn hold_up(&self, stream: &CuStream) -> Result<()> {
        if !self.recorded.load(Ordering::Acquire) {
            return Ok(());
        }
        stream.wait_for(self.raw)
    }

    /// Whether the last record is reached; true without one, and on a device where nothing is reached any more.
    pub(crate) fn query(&self) -> Result<bool> {
        self.context.enter().or_else(|error| match error.status {
            Status::DeviceLost => Ok(()),
            _ => Err(error),
        })?;
        Ok(self.context.is_lost() || self.is_done())
    }

    fn code(&self) -> u32 {
        // SAFETY: plain call.
        unsafe { (self.context.api.event_query)(self.raw) }
    }

    fn is_done(&self) -> bool {
        self.code() != NOT_READY
    }

    /// Waits for the last record.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        self.context.enter()?;
        let Some(timeout) = timeout else {
            // SAFETY: plain call.
            let code = unsafe { (self.context.api.event_synchronize)(self.raw) };
            return self.context.check("cuEventSynchronize", code);
        };
        poll_until(timeout, || self.is_done())?;
        self.context.check("cuEventQuery", self.code())
    }

    /// Nanoseconds from `self` to `end`, by the device's clock, in steps of half a microsecond or so.
    pub(crate) fn elapsed(&self, end: &CuEvent) -> Result<i64> {
        self.context.enter()?;
        for (event, which) in [(end, "end"), (self, "start")] {
            if !event.timing {
                return Err(Error::unsupported(format!(
                    "the {which} event has no timing; create it with timing"
                )));
            }
            let what = if !event.recorded.load(Ordering::Acquire) {
                "was never recorded"
            } else if !event.is_done() {
                "is not reached yet; synchronize first"
            } else {
                continue;
            };
            return Err(Error::invalid_argument(format!("the {which} event {what}")));
        }
        let mut milliseconds = 0.0;
        // SAFETY: both events are recorded and have timing.
        let code = unsafe { (self.context.api.event_elapsed)(&raw mut milliseconds, self.raw, end.raw) };
        self.context.check("cuEventElapsedTime", code)?;
        Ok((f64::from(milliseconds) * 1e6) as i64)
    }
}

impl Drop for CuEvent {
    fn drop(&mut self) {
        // The driver keeps what queued work still waits for.
        if self.context.enter().is_ok() {
            // SAFETY: owned, and not used after this.
            unsafe { (self.context.api.event_destroy)(self.raw) };
        }
    }
}
