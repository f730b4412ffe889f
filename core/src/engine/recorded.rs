//! Submissions that a recording knows.

use super::Engine;
use crate::hal::{Event, Stream};
use crate::record::event::{Event as Note, OpOfRun};
use crate::record::measure::How;
use crate::record::place::Call;
use crate::record::recording::TextId;
use crate::record::{calls, clock, measure, ring, switch};

/// What a recording says of a piece of work.
pub(crate) struct Run<'a> {
    pub(crate) stream: &'a Stream,
    /// The program; 0 for work that is none.
    pub(crate) program: u32,
    pub(crate) call: Call,
    /// Of work that is all of a call: its operands. The call is noted with the run, so that both share the times and the place.
    pub(crate) operands: Option<TextId>,
}

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

    /// Submits work that is no program; as [`Engine::recorded`].
    pub(crate) fn recorded_work<R>(
        &self,
        on: switch::On,
        stream: &Stream,
        call: Call,
        submit: impl FnOnce() -> R,
    ) -> R {
        let run = Run {
            stream,
            program: 0,
            call,
            operands: None,
        };
        self.recorded(on, run, submit)
    }

    /// Submits work; what the device says of it later carries the same number as the run that is noted here.
    pub(crate) fn recorded<R>(&self, on: switch::On, run: Run<'_>, submit: impl FnOnce() -> R) -> R {
        let operands = run.operands.filter(|_| on.has(switch::OPS));
        if !on.has(switch::RUNS | switch::MEMORY) {
            return match operands {
                None => submit(),
                Some(operands) => {
                    let start = clock::ticks();
                    let result = submit();
                    calls::note(on, start, run.call, operands);
                    result
                }
            };
        }
        let (how, correlation) = (self.attached.how(on, &self.device), measure::correlation());
        let before = match how {
            How::Profile => {
                self.device.correlate(correlation);
                None
            }
            How::Events => self.mark(run.stream),
            How::Not => None,
        };
        let start = clock::ticks();
        let result = submit();
        let end = clock::ticks();
        if how == How::Profile {
            // What others submit on this thread is no part of this run.
            self.device.correlate(0);
        }
        let (device, stream) = (self.number(), run.stream.handle());
        ring::push(
            on,
            Note::Run {
                start,
                end,
                correlation,
                device,
                stream,
                program: run.program,
                call: run.call,
                op: operands.map(|operands| OpOfRun {
                    operands,
                    serial: calls::serial(),
                }),
            },
        );
        if let Some(took) = before.and_then(|before| self.took(&before, run.stream)) {
            let note = Note::Bracket {
                end: clock::ticks(),
                took,
                correlation,
                device,
                stream,
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
