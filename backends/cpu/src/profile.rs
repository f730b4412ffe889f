//! What is done around each piece of work: nothing, or a record of when it ran.

use crate::device::CpuDevice;
use std::sync::Arc;
use thalweg_hal::clock::ticks;
use thalweg_hal::kit::profile::{Command, Recorder, Submission};
use thalweg_hal::kit::program::Node;

/// Looks at the clock around work. Which probe a submission has is chosen once, so that work without a profile is compiled without
/// a look.
pub(crate) trait Probe: Sync {
    /// The probe of work that outlives the call it came with.
    type Kept: Probe + Send + 'static;

    /// Keeps what it needs.
    fn keep(&self) -> Self::Kept;
    /// The start of work that runs as it is submitted.
    fn at_once(&self) -> u64;
    /// The start of work that runs now.
    fn now(&self) -> u64;
    /// Records a piece of work that has just ended.
    fn work(&self, command: impl FnOnce() -> Command, start: u64);
    /// Records a node that has just ended; its end, which is the start of the next one in line.
    fn node(&self, node: &Node<CpuDevice>, start: u64) -> u64;
}

/// No profile runs.
pub(crate) struct Silent;

impl Probe for Silent {
    type Kept = Silent;

    #[inline(always)]
    fn keep(&self) -> Silent {
        Silent
    }

    #[inline(always)]
    fn at_once(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn work(&self, _: impl FnOnce() -> Command, _: u64) {}

    #[inline(always)]
    fn node(&self, _: &Node<CpuDevice>, _: u64) -> u64 {
        0
    }
}

/// A profile runs.
pub(crate) struct Recorded<'a> {
    pub(crate) recorder: &'a Arc<Recorder>,
    pub(crate) submission: &'a Submission,
}

impl Probe for Recorded<'_> {
    type Kept = Kept;

    fn keep(&self) -> Kept {
        Kept {
            recorder: Arc::clone(self.recorder),
            submission: *self.submission,
        }
    }

    fn at_once(&self) -> u64 {
        self.submission.queued
    }

    fn now(&self) -> u64 {
        ticks()
    }

    fn work(&self, command: impl FnOnce() -> Command, start: u64) {
        let end = ticks();
        self.recorder.record(self.submission, command(), start, end);
    }

    fn node(&self, node: &Node<CpuDevice>, start: u64) -> u64 {
        let end = ticks();
        let submission = self.submission.of_node(node);
        self.recorder
            .record(&submission, Command::of_node(node), start, end);
        end
    }
}

/// A profile runs, and the work waits.
pub(crate) struct Kept {
    recorder: Arc<Recorder>,
    submission: Submission,
}

impl Kept {
    fn borrowed(&self) -> Recorded<'_> {
        Recorded {
            recorder: &self.recorder,
            submission: &self.submission,
        }
    }
}

impl Probe for Kept {
    type Kept = Kept;

    fn keep(&self) -> Kept {
        self.borrowed().keep()
    }

    fn at_once(&self) -> u64 {
        self.borrowed().at_once()
    }

    fn now(&self) -> u64 {
        self.borrowed().now()
    }

    fn work(&self, command: impl FnOnce() -> Command, start: u64) {
        self.borrowed().work(command, start);
    }

    fn node(&self, node: &Node<CpuDevice>, start: u64) -> u64 {
        self.borrowed().node(node, start)
    }
}
