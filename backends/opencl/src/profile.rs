//! Where commands come from, and what becomes of their times while a profile runs.

use crate::api::{Event, codes};
use std::cell::Cell;
use std::sync::Arc;
use thalweg_hal::backend::Tag;
use thalweg_hal::clock::ticks;
use thalweg_hal::kit::profile::{Command, Recorder, Submission};
use thalweg_hal::tables::ProfileFlag;
use thalweg_hal::{Error, Result};

/// Where a command comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// For errors.
    pub(crate) tag: Tag<'a>,
    packet: Option<&'a Packet<'a>>,
}

impl<'a> From<Tag<'a>> for Origin<'a> {
    fn from(tag: Tag<'a>) -> Origin<'a> {
        Origin { tag, packet: None }
    }
}

/// A packet whose commands are recorded.
pub(crate) struct Packet<'a> {
    recorder: &'a Arc<Recorder>,
    submission: Submission,
    command: Cell<Command>,
}

impl<'a> Packet<'a> {
    /// A packet that takes commands such as `first`.
    pub(crate) fn new(recorder: &'a Arc<Recorder>, submission: Submission, first: Command) -> Packet<'a> {
        Packet {
            recorder,
            submission,
            command: Cell::new(first),
        }
    }

    /// The origin of its commands.
    pub(crate) fn origin(&'a self, tag: Tag<'a>) -> Origin<'a> {
        Origin {
            tag,
            packet: Some(self),
        }
    }
}

impl Origin<'_> {
    /// What is to be recorded of its next command, if anything is.
    pub(crate) fn next(&self) -> Option<Box<Pending>> {
        let packet = self.packet?;
        let command = packet.command.get();
        packet.command.set(Command {
            index: command.index + 1,
            bytes: 0,
            ..command
        });
        packet.submission.wants(command.kind).then(|| {
            Box::new(Pending {
                recorder: Arc::clone(packet.recorder),
                submission: packet.submission,
                command,
                after: None,
            })
        })
    }
}

/// A command that is recorded when it ends.
pub(crate) struct Pending {
    recorder: Arc<Recorder>,
    submission: Submission,
    command: Command,
    /// The command began when this one ended, which is as long as it waits for others.
    after: Option<Event>,
}

impl Pending {
    /// Begins when `event` ends.
    pub(crate) fn after(mut self: Box<Pending>, event: Event) -> Box<Pending> {
        self.after = Some(event);
        self
    }

    /// Records the command of `event`, which has ended.
    pub(crate) fn finish(&self, event: &Event) {
        let (start, flag) = match &self.after {
            None => (event.time(codes::PROFILING_COMMAND_START), ProfileFlag::Exact),
            Some(before) => (before.end_time(), ProfileFlag::Bracketed),
        };
        // A driver that has no times for a command leaves nothing to record.
        if let (Ok(start), Ok(end)) = (start, event.end_time()) {
            let times = (start, end);
            self.recorder
                .record_device(&self.submission, self.command, times, flag);
        }
    }

    /// Runs work of the host and records it.
    pub(crate) fn run(&self, run: impl FnOnce() -> Result<()>) -> Result<(), Error> {
        let start = ticks();
        let result = run();
        self.recorder
            .record(&self.submission, self.command, start, ticks());
        result
    }
}
