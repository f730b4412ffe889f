//! Events: markers in queues.

use crate::api::Event;
use crate::profile::Origin;
use crate::stream::ClStream;
use parking_lot::Mutex;
use std::time::Duration;
use thalweg_hal::kit::spin::poll_until;
use thalweg_hal::{Error, Result};

/// A point in a stream.
pub(crate) struct ClEvent {
    timing: bool,
    last: Mutex<Option<Event>>,
}

impl ClEvent {
    /// An event that was never recorded.
    pub(crate) fn new(timing: bool) -> ClEvent {
        ClEvent {
            timing,
            last: Mutex::new(None),
        }
    }

    /// Covers the work of `stream` so far.
    pub(crate) fn record(&self, stream: &ClStream) -> Result<()> {
        let marker = stream.mark()?;
        *self.last.lock() = Some(marker);
        Ok(())
    }

    fn last(&self) -> Option<Event> {
        self.last.lock().clone()
    }

    fn pending(&self) -> Option<Event> {
        self.last().filter(|event| !event.is_done())
    }

    /// Makes later work of `stream` wait for the last record.
    pub(crate) fn hold_up(&self, stream: &ClStream) -> Result<()> {
        match self.pending() {
            Some(event) => stream.wait_for(&event),
            None => Ok(()),
        }
    }

    /// As [`ClEvent::hold_up`], and records how long the stream waits.
    pub(crate) fn hold_up_profiled(&self, stream: &ClStream, origin: Origin<'_>) -> Result<()> {
        match self.pending() {
            Some(event) => stream.wait_for_profiled(&event, origin.next()),
            None => Ok(()),
        }
    }

    /// Whether the last record is reached; true without one.
    pub(crate) fn query(&self) -> bool {
        self.pending().is_none()
    }

    /// Waits for the last record.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let Some(event) = self.pending() else {
            return Ok(());
        };
        let Some(timeout) = timeout else {
            event.wait();
            return Ok(());
        };
        poll_until(timeout, || event.is_done())
    }

    /// Nanoseconds from `self` to `end`, by the device's clock.
    pub(crate) fn elapsed(&self, end: &ClEvent) -> Result<i64> {
        Ok(end.time("end")?.wrapping_sub(self.time("start")?) as i64)
    }

    fn time(&self, which: &str) -> Result<u64> {
        if !self.timing {
            return Err(Error::unsupported(format!(
                "the {which} event has no timing; create it with timing"
            )));
        }
        match self.last() {
            None => Err(Error::invalid_argument(format!(
                "the {which} event was never recorded"
            ))),
            Some(event) if !event.is_done() => Err(Error::invalid_argument(format!(
                "the {which} event is not reached yet; synchronize first"
            ))),
            Some(event) => event.end_time(),
        }
    }
}
