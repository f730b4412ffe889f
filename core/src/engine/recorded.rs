//! Submissions that a recording knows.

use super::Engine;
use crate::hal::{Event, Stream};
use crate::record::event::Event as Note;
use crate::record::measure::How;
use crate::record::place::Call;
use crate::record::{clock, measure, ring, switch};

impl Engine {
    /// The number of the device in recordings.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.attached.number
    }

    /// Takes part in a recording that began, before anything runs on the device.
    pub(crate) fn attach(&self, on: switch::On) {
        self.attached.how(on, &self.device);
    }

    /// Submits work for a call of an op; what the device says of it later carries the same number as the run that is noted here.
    /// `program` is 0 for work that is none.
    pub(crate) fn recorded<R>(
        &self,
        on: switch::On,
        stream: &Stream,
        program: u32,
        call: Call,
        submit: impl FnOnce() -> R,
    ) -> R {
        if !on.has(switch::RUNS | switch::MEMORY) {
            return submit();
        }
        let (how, correlation) = (self.attached.how(on, &self.device), measure::correlation());
        let before = match how {
            How::Profile => {
                self.device.correlate(correlation);
                None
            }
            How::Events => self.mark(stream),
            How::Not => None,
        };
        let start = clock::ticks();
        let result = submit();
        let end = clock::ticks();
        if how == How::Profile {
            // What others submit on this thread is no part of this run.
            self.device.correlate(0);
        }
        let (device, handle) = (self.number(), stream.handle());
        ring::push(
            on,
            Note::Run {
                start,
                end,
                correlation,
                device,
                stream: handle,
                program,
                call,
            },
        );
        if let Some(took) = before.and_then(|before| self.took(&before, stream)) {
            let note = Note::Bracket {
                end: clock::ticks(),
                took,
                correlation,
                device,
                stream: handle,
            };
            ring::push(on, note);
        }
        result
    }

    /// An event behind the work that the stream has.
    #[cold]
    fn mark(&self, stream: &Stream) -> Option<Event> {
        let event = Event::with_timing(&self.device).ok()?;
        event.record(stream).ok()?;
        Some(event)
    }

    /// Waits for the work behind `before`, and returns how many nanoseconds it took.
    #[cold]
    fn took(&self, before: &Event, stream: &Stream) -> Option<u64> {
        let after = self.mark(stream)?;
        after.synchronize().ok()?;
        Some((before.elapsed_time(&after).ok()? * 1e6) as u64)
    }
}
