//! What a backend records while a profile runs.
//!
//! A device that measures its work owns a [`Recorder`] and hands it out in [`Device::profiler`]. The export layer starts and stops
//! it, fills memory events in, and passes a [`Submission`] to [`Device::submit_profiled`] and its siblings in place of the plain
//! calls. Off costs nothing: no method of a backend that is called without a profile knows of profiles.
//!
//! ```
//! use std::sync::Arc;
//! use thalweg_hal::clock::ticks;
//! use thalweg_hal::kit::profile::{Command, Recorder};
//! use thalweg_hal::tables::ProfileKind;
//!
//! let recorder = Recorder::new();
//! recorder.start(ProfileKind::Launch.bit(), 1000)?;
//! let submission = recorder.submission(1).unwrap();
//! let start = ticks();
//! // … the work …
//! recorder.record(&submission, Command::LAUNCH, start, ticks());
//! recorder.stop();
//!
//! let mut records = Vec::new();
//! assert_eq!(recorder.drain(10, |record| records.push(record)), (1, 0));
//! assert!(records[0].stream == 1 && records[0].start_ns <= records[0].end_ns);
//! # Ok::<(), thalweg_hal::Error>(())
//! ```
//!
//! [`Device::profiler`]: crate::backend::Device::profiler
//! [`Device::submit_profiled`]: crate::backend::Device::submit_profiled

mod raw;
mod ring;
mod traced;

use super::program::{Node, Step};
use crate::backend::{Device, Work};
use crate::clock::{Line, Scale, ticks};
use crate::status::{Error, Result};
use crate::tables::{ProfileFlag, ProfileKind, ProfileRecord};
use parking_lot::Mutex;
use raw::{Measure, Raw};
use ring::{Ring, Taken};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

thread_local! {
    static CORRELATION: Cell<u64> = const { Cell::new(0) };
    // From 1 on; 0 before the first use.
    static ROW: Cell<u32> = const { Cell::new(0) };
}

/// Gives the work that this thread submits from now on an id.
#[inline]
pub fn correlate(id: u64) {
    CORRELATION.set(id);
}

/// The number of this thread in records, from 1.
#[inline]
pub fn row() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut row = ROW.get();
    if row == 0 {
        row = NEXT.fetch_add(1, Ordering::Relaxed);
        ROW.set(row);
    }
    row
}

/// What the records of one submission have in common.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// [`ticks`] of its moment. For work that runs at once it is the start too.
    pub queued: u64,
    correlation: u64,
    stream: u64,
    kernel: u64,
    session: u32,
    packet: u32,
    kinds: u32,
}

impl Submission {
    /// That of one packet of a list.
    #[must_use]
    pub const fn of_packet(self, packet: u32, kernel: u64) -> Submission {
        Submission {
            packet,
            kernel,
            ..self
        }
    }

    /// That of a node of a program.
    #[must_use]
    pub const fn of_node<D: Device>(self, node: &Node<D>) -> Submission {
        self.of_packet(node.packet, node.kernel)
    }

    /// Whether records of a kind are wanted.
    pub const fn wants(&self, kind: ProfileKind) -> bool {
        self.kinds as u64 & kind.bit() != 0
    }
}

/// What was done, as records say it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The kind.
    pub kind: ProfileKind,
    /// Bytes that were copied or filled; 0 otherwise.
    pub bytes: u64,
    /// Which command of its packet, from 0.
    pub index: u32,
}

impl Command {
    /// A launch.
    pub const LAUNCH: Command = Command::plain(ProfileKind::Launch);
    /// A wait of a stream for an event.
    pub const WAIT: Command = Command::plain(ProfileKind::Wait);
    /// A callback.
    pub const CALLBACK: Command = Command::plain(ProfileKind::Callback);

    /// The nth command of the packet; the first has all its bytes.
    #[must_use]
    pub const fn nth(self, index: u32) -> Command {
        let bytes = if index == 0 { self.bytes } else { 0 };
        Command { index, bytes, ..self }
    }

    const fn plain(kind: ProfileKind) -> Command {
        Command {
            kind,
            bytes: 0,
            index: 0,
        }
    }

    /// A piece of work.
    pub fn of<D: Device>(work: &Work<'_, D>) -> Command {
        let (kind, bytes) = match work {
            Work::Launch(_) => return Command::LAUNCH,
            Work::Callback(_) => return Command::CALLBACK,
            Work::Copy(copy) => (ProfileKind::Copy, copy.width.saturating_mul(copy.rows)),
            Work::Fill(fill) => (ProfileKind::Fill, fill.region.bytes),
        };
        Command {
            kind,
            bytes,
            index: 0,
        }
    }

    /// A node of a program.
    pub fn of_node<D: Device>(node: &Node<D>) -> Command {
        let (kind, bytes) = match &node.step {
            Step::Launch { .. } => return Command::LAUNCH,
            Step::Copy { width, rows, .. } => (ProfileKind::Copy, width.saturating_mul(*rows)),
            Step::Fill { bytes, .. } => (ProfileKind::Fill, *bytes),
        };
        Command {
            kind,
            bytes,
            index: 0,
        }
    }
}

/// A hardware counter; see [`ProfileCounter`](crate::tables::ProfileCounter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What is counted; at most 48 bytes are shown.
    pub name: String,
    /// What one is; at most 16 bytes are shown.
    pub unit: String,
    /// How many since the profile was started, or since the first question in it.
    pub value: u64,
}

/// Records of one device, kept until the host takes them.
pub struct Recorder {
    // The running session's number above the bits of its kinds; 0 while none runs.
    state: AtomicU64,
    ring: Ring,
    control: Mutex<Control>,
}

/// What starting, stopping and draining share.
struct Control {
    session: u32,
    scale: Option<Scale>,
    /// From the device's clock.
    line: Line,
    /// What is being handed out.
    backlog: Vec<Taken>,
    lost: u64,
}

const KIND_BITS: u32 = 32;
const WORK: u64 = ProfileKind::Launch.bit()
    | ProfileKind::Copy.bit()
    | ProfileKind::Fill.bit()
    | ProfileKind::Wait.bit()
    | ProfileKind::Callback.bit();

impl Recorder {
    /// A recorder of which no profile runs.
    pub fn new() -> Arc<Recorder> {
        Arc::new(Recorder {
            state: AtomicU64::new(0),
            ring: Ring::new(),
            control: Mutex::new(Control {
                session: 0,
                scale: None,
                line: Line::new(),
                backlog: Vec::new(),
                lost: 0,
            }),
        })
    }

    /// Begins a profile of `kinds`, which keeps up to `capacity` records.
    ///
    /// # Errors
    /// A profile runs, nothing or something unknown is to be recorded, or there is no room.
    pub fn start(&self, kinds: u64, capacity: u64) -> Result<()> {
        let known = ProfileKind::ALL.iter().fold(0, |all, (kind, _)| all | kind.bit());
        if kinds == 0 || kinds & !known != 0 {
            return Err(Error::invalid_argument(format!(
                "profile: the kinds {kinds:#x} are none or not known; bits of {known:#x} are"
            )));
        }
        if capacity == 0 {
            return Err(Error::invalid_argument(
                "profile: a capacity of 0 records keeps nothing; ask for at least 1",
            ));
        }
        let mut control = self.control.lock();
        if self.state.load(Ordering::Relaxed) != 0 {
            return Err(Error::invalid_argument(
                "profile: one runs on this device already; stop it first",
            ));
        }
        // 0 means that none runs.
        control.session = control.session.checked_add(1).unwrap_or(1);
        control.backlog.clear();
        control.lost = 0;
        self.ring.begin(control.session, capacity);
        (control.scale, control.line) = (Some(Scale::new()), Line::new());
        let state = u64::from(control.session) << KIND_BITS | kinds;
        self.state.store(state, Ordering::Release);
        Ok(())
    }

    /// Ends the profile; whether one ran. What was submitted before is recorded when it ends.
    pub fn stop(&self) -> bool {
        let _control = self.control.lock();
        self.state.swap(0, Ordering::Relaxed) != 0
    }

    /// What work that is submitted to `stream` now is to carry; `None` while no work is recorded.
    #[inline]
    pub fn submission(&self, stream: u64) -> Option<Submission> {
        let state = self.state.load(Ordering::Acquire);
        (state & WORK != 0).then(|| Submission {
            queued: ticks(),
            correlation: CORRELATION.get(),
            stream,
            kernel: 0,
            session: (state >> KIND_BITS) as u32,
            packet: u32::MAX,
            kinds: state as u32,
        })
    }

    /// Records a command that ran on this thread, with [`ticks`] of its start and end.
    #[inline]
    pub fn record(&self, submission: &Submission, command: Command, start: u64, end: u64) {
        if submission.wants(command.kind) {
            let raw = Raw::new(submission, command, (start, end), row(), Measure::Ticks);
            self.ring.push(submission.session, &raw.words());
        }
    }

    /// Takes a moment by the clock of the device and by [`now`](crate::clock::now). A device with a clock of its own gives one when the
    /// profile starts, and one each time before records are drained. Without any, its clock is the host's.
    pub fn add_moment(&self, device: u64, host: u64) {
        self.control.lock().line.add(device, host);
    }

    /// Records a command with the times of its start and end by the clock of the device.
    pub fn record_device(
        &self,
        submission: &Submission,
        command: Command,
        times: (u64, u64),
        flag: ProfileFlag,
    ) {
        if submission.wants(command.kind) {
            let measure = match flag {
                ProfileFlag::Exact => Measure::DeviceExact,
                ProfileFlag::Bracketed => Measure::DeviceBracketed,
            };
            let raw = Raw::new(submission, command, times, 0, measure);
            self.ring.push(submission.session, &raw.words());
        }
    }

    /// Records a change of the device's memory that happens now, if those are wanted.
    #[inline]
    pub fn memory(&self, kind: ProfileKind, stream: u64, buffer: u64, bytes: u64) {
        if self.wants(kind) {
            self.memory_at(kind, stream, buffer, bytes, ticks());
        }
    }

    /// Whether records of a kind are wanted now.
    #[inline]
    pub fn wants(&self, kind: ProfileKind) -> bool {
        self.state.load(Ordering::Acquire) & kind.bit() != 0
    }

    /// As [`Recorder::memory`], of a change at a moment in [`ticks`], which another record may have read already.
    #[inline]
    pub fn memory_at(&self, kind: ProfileKind, stream: u64, buffer: u64, bytes: u64, moment: u64) {
        let state = self.state.load(Ordering::Acquire);
        if state & kind.bit() == 0 {
            return;
        }
        let submission = Submission {
            queued: moment,
            correlation: CORRELATION.get(),
            stream,
            kernel: 0,
            session: (state >> KIND_BITS) as u32,
            packet: u32::MAX,
            kinds: state as u32,
        };
        let command = Command {
            kind,
            bytes,
            index: 0,
        };
        let raw = Raw::new(&submission, command, (buffer, 0), row(), Measure::Ticks);
        self.ring.push(submission.session, &raw.words());
    }

    /// A job that records its own start and end, on the thread that runs it.
    pub fn timed(
        self: &Arc<Recorder>,
        submission: Submission,
        command: Command,
        run: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> impl FnOnce() -> Result<()> + Send + 'static {
        let recorder = Arc::clone(self);
        move || {
            let start = ticks();
            let result = run();
            recorder.record(&submission, command, start, ticks());
            result
        }
    }

    /// Hands up to `most` records to `take`; how many they were, and how many were lost since the last call.
    pub fn drain(&self, most: usize, mut take: impl FnMut(ProfileRecord)) -> (usize, u64) {
        let mut control = self.control.lock();
        let control = &mut *control;
        let (line, Some(scale)) = (&control.line, &mut control.scale) else {
            return (0, 0);
        };
        control.lost += self.ring.take(&mut control.backlog);
        let there: Vec<usize> = control.backlog.iter().map(|taken| taken.chunk().len()).collect();
        // After the records: then none of them is later than the scale knows.
        scale.refresh();
        let mut written = 0;
        for (taken, there) in control.backlog.iter_mut().zip(there) {
            let last = taken.read + (there - taken.read).min(most - written);
            written += last - taken.read;
            for at in taken.read..last {
                take(taken.chunk().get(at).record(scale, line));
            }
            taken.read = last;
        }
        self.ring.give_back(&mut control.backlog);
        (written, std::mem::take(&mut control.lost))
    }
}

#[cfg(test)]
mod tests;
