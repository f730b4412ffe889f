//! What is done around each piece of work: nothing, or a record of when it ran.

use crate::device::CpuDevice;
use std::sync::Arc;
use thalweg_hal::clock::ticks;
use thalweg_hal::kit::profile::{Command, Recorder, Submission};
use thalweg_hal::kit::program::Node;

/// Looks at the clock around work. Which probe a submission has is chosen once, so that work without a profile is compiled without
/// a look.
pub(crate) trait Probe: Send + Sync + 'static {
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
pub(crate) struct Recorded {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) submission: Submission,
}

impl Probe for Recorded {
    fn at_once(&self) -> u64 {
        self.submission.queued
    }

    fn now(&self) -> u64 {
        ticks()
    }

    fn work(&self, command: impl FnOnce() -> Command, start: u64) {
        let end = ticks();
        self.recorder.record(&self.submission, command(), start, end);
    }

    fn node(&self, node: &Node<CpuDevice>, start: u64) -> u64 {
        let end = ticks();
        let submission = self.submission.of_node(node);
        self.recorder
            .record(&submission, Command::of_node(node), start, end);
        end
    }
}
