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

/// A piece of work that a recording has seen begin.
struct Begun {
    /// `None` where the recording has no runs.
    submission: Option<Submission>,
    start: u64,
}

struct Submission {
    how: How,
    correlation: u64,
    /// Behind what the stream had before.
    before: Option<Event>,
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
        let begun = self.begin(on, &run);
        let result = submit();
        self.end(on, &run, begun);
        result
    }

    fn begin(&self, on: switch::On, run: &Run<'_>) -> Begun {
        let submission = on.has(switch::RUNS | switch::MEMORY).then(|| {
            let (how, correlation) = (self.attached.how(on, &self.device), measure::correlation());
            let before = match how {
                How::Profile => {
                    self.device.correlate(correlation);
                    None
                }
                How::Events => self.mark(run.stream),
                How::Not => None,
            };
            Submission {
                how,
                correlation,
                before,
            }
        });
        Begun {
            submission,
            start: clock::ticks(),
        }
    }

    fn end(&self, on: switch::On, run: &Run<'_>, begun: Begun) {
        let (start, end) = (begun.start, clock::ticks());
        let operands = run.operands.filter(|_| on.has(switch::OPS));
        let Some(submission) = begun.submission else {
            if let Some(operands) = operands {
                calls::note(on, start, run.call, operands);
            }
            return;
        };
        if submission.how == How::Profile {
            // What others submit on this thread is no part of this run.
            self.device.correlate(0);
        }
        let correlation = submission.correlation;
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
        if let Some(took) = submission
            .before
            .and_then(|before| self.took(&before, run.stream))
        {
            let note = Note::Bracket {
                end: clock::ticks(),
                took,
                correlation,
                device,
                stream,
            };
            ring::push(on, note);
        }
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
