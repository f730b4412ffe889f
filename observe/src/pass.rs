//! The second look at a recording: each record, with what it refers to, goes to every view.

use crate::error::Result;
use crate::known::Known;
use crate::survey::{Survey, open};
use crate::work::{Share, Work};
use foldhash::HashMap;
use std::collections::VecDeque;
use thalweg::observe::recording::{Command, Memory, Op, Record, Run, Span, TextId};

/// What is made of recordings, record by record.
#[allow(unused_variables)]
pub(crate) trait View {
    /// A recording begins.
    fn recording(&mut self, known: &Known<'_>) -> Result<()> {
        Ok(())
    }

    /// `own` is the time that no op inside it took.
    fn op(&mut self, known: &Known<'_>, op: &Op, own: u64) -> Result<()> {
        Ok(())
    }

    fn run(&mut self, known: &Known<'_>, run: &Run) -> Result<()> {
        Ok(())
    }

    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        Ok(())
    }

    fn memory(&mut self, known: &Known<'_>, memory: &Memory) -> Result<()> {
        Ok(())
    }

    fn span(&mut self, known: &Known<'_>, span: &Span) -> Result<()> {
        Ok(())
    }

    /// A mark or a failure.
    fn instant(&mut self, known: &Known<'_>, instant: &Instant) -> Result<()> {
        Ok(())
    }

    fn counter(&mut self, known: &Known<'_>, time: u64, name: TextId, value: f64) -> Result<()> {
        Ok(())
    }

    /// The recording is at its end.
    fn recorded(&mut self, known: &Known<'_>) -> Result<()> {
        Ok(())
    }
}

/// A point in time on a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    pub(crate) thread: u32,
    pub(crate) time: u64,
    pub(crate) text: TextId,
    pub(crate) failure: bool,
}

/// Shows a recording to `views`. `origin` is the wall-clock time at which the first recording began.
pub(crate) fn run(survey: &Survey, origin: u64, views: &mut [&mut dyn View]) -> Result<()> {
    let mut pass = Pass {
        known: Known::new(survey, origin),
        nested: Nested::default(),
        shares: Vec::new(),
        waiting: VecDeque::new(),
    };
    for view in &mut *views {
        view.recording(&pass.known)?;
    }
    for record in open(&survey.path)? {
        pass.record(record, views)?;
        pass.work(WAITING, views)?;
    }
    pass.work(0, views)?;
    views.iter_mut().try_for_each(|view| view.recorded(&pass.known))
}

/// Most commands and memory that wait for the run that they belong to. A run is written when its call has returned; one that was lost
/// never comes.
const WAITING: usize = 1 << 17;

struct Pass<'a> {
    known: Known<'a>,
    nested: Nested,
    shares: Vec<Share>,
    waiting: VecDeque<Waiting>,
}

/// What names a run, which may come later.
enum Waiting {
    Command(Command),
    Memory(Memory),
}

impl Waiting {
    fn correlation(&self) -> u64 {
        match self {
            Waiting::Command(command) => command.correlation,
            Waiting::Memory(memory) => memory.correlation,
        }
    }
}

impl Pass<'_> {
    /// Shows what waits, in order, as far as its runs are known; more than `most` does not wait.
    fn work(&mut self, most: usize, views: &mut [&mut dyn View]) -> Result<()> {
        while let Some(first) = self.waiting.front() {
            let run = first.correlation();
            if run != 0 && self.known.runs.get(run).is_none() && self.waiting.len() <= most {
                break;
            }
            let known = &self.known;
            match self.waiting.pop_front() {
                None => {}
                Some(Waiting::Memory(memory)) => {
                    (views.iter_mut()).try_for_each(|view| view.memory(known, &memory))?;
                }
                Some(Waiting::Command(command)) => {
                    let work = Work::of(known, &command, &mut self.shares);
                    (views.iter_mut()).try_for_each(|view| view.command(known, &work))?;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, record: Record, views: &mut [&mut dyn View]) -> Result<()> {
        let known = &mut self.known;
        let mut views = views.iter_mut();
        match record {
            Record::Start(_) | Record::Lost { .. } | Record::End { .. } => Ok(()),
            Record::Text { id, text } => {
                known.texts.insert(id, text);
                Ok(())
            }
            Record::Thread { id, name } => {
                known.threads.insert(id, name);
                Ok(())
            }
            Record::Device(device) => {
                known.devices.insert(device.id, device);
                Ok(())
            }
            Record::Stream { id, device, name } => {
                known.streams.insert(id, (device, name));
                Ok(())
            }
            Record::Place(place) => {
                known.places.insert(place.id, place);
                Ok(())
            }
            Record::Program(program) => {
                known.programs.insert(program.id, program);
                Ok(())
            }
            Record::Command(command) => {
                self.waiting.push_back(Waiting::Command(command));
                Ok(())
            }
            Record::Memory(memory) => {
                self.waiting.push_back(Waiting::Memory(memory));
                Ok(())
            }
            Record::Op(op) => {
                let own = self.nested.own(&op);
                views.try_for_each(|view| view.op(known, &op, own))
            }
            Record::Run(run) => {
                let in_step = known.run(run);
                known.runs.add(in_step);
                views.try_for_each(|view| view.run(known, &run))
            }
            Record::Span(span) => views.try_for_each(|view| view.span(known, &span)),
            Record::Mark { thread, time, name } => {
                let instant = Instant {
                    thread,
                    time,
                    text: name,
                    failure: false,
                };
                views.try_for_each(|view| view.instant(known, &instant))
            }
            Record::Failure { thread, time, text } => {
                let instant = Instant {
                    thread,
                    time,
                    text,
                    failure: true,
                };
                views.try_for_each(|view| view.instant(known, &instant))
            }
            Record::Counter { time, name, value } => {
                views.try_for_each(|view| view.counter(known, time, name, value))
            }
        }
    }
}

/// Calls that ended and are in no other yet, of each thread: start and duration.
#[derive(Default)]
struct Nested {
    ended: HashMap<u32, Vec<(u64, u64)>>,
}

/// Most calls that are remembered of a thread; more are in no call.
const NESTED: usize = 1 << 16;

impl Nested {
    /// The time of `op` that no op inside it took. Calls of a thread come in the order of their ends.
    fn own(&mut self, op: &Op) -> u64 {
        let ended = self.ended.entry(op.thread).or_default();
        let time = op.end.saturating_sub(op.start);
        let outside = ended.iter().rposition(|(start, _)| *start < op.start);
        let inside = ended.drain(outside.map_or(0, |at| at + 1)..);
        let inner = inside.fold(0_u64, |sum, (_, time)| sum.saturating_add(time));
        if ended.len() >= NESTED {
            ended.drain(..NESTED / 2);
        }
        ended.push((op.start, time));
        time.saturating_sub(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_the_time_that_calls_inside_it_leave() {
        let mut nested = Nested::default();
        let mut own = |thread, start, end| {
            nested.own(&Op {
                thread,
                start,
                end,
                ..Op::default()
            })
        };
        assert_eq!(own(1, 10, 20), 10);
        assert_eq!(own(1, 25, 40), 15);
        assert_eq!(own(2, 0, 100), 100, "another thread");
        assert_eq!(own(1, 5, 50), 45 - 25);
        assert_eq!(own(1, 60, 70), 10);
        assert_eq!(own(1, 0, 100), 100 - 45 - 10);
    }
}
