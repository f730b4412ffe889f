//! Devices that a session asks when their work ran.

use super::recording::{Command, CommandKind, Memory, MemoryKind};
use super::{environment, session, switch};
use crate::hal::{self, Device, ProfileFlag, ProfileKind, ProfileKinds, ProfileRecord};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Records that a device keeps between two drains.
const CAPACITY: u64 = 1 << 17;

/// How the work of a device is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By its backend, command by command.
    Profile,
    /// By events around each run.
    Events,
    /// Not at all.
    Not,
}

/// A device of a session.
pub(super) struct Measured {
    /// Its number in this process.
    pub(super) number: u32,
    pub(super) device: Device,
    /// Why its commands have no times of their own; empty where they have.
    pub(super) unmeasured: String,
    /// Handle of its default stream.
    pub(super) default_stream: u64,
    profile: Mutex<Option<hal::Profile>>,
}

/// What a device's profile said.
#[derive(Default)]
pub(super) struct Drained {
    pub(super) records: Vec<ProfileRecord>,
    pub(super) lost: u64,
}

impl Measured {
    /// Begins to measure a device.
    pub(super) fn start(device: &Device, number: u32, bits: u32) -> (Measured, How) {
        let kinds = match (bits & switch::RUNS != 0, bits & switch::MEMORY != 0) {
            (true, true) => Some(ProfileKinds::ALL),
            (true, false) => Some(ProfileKinds::WORK),
            (false, true) => Some(ProfileKinds::MEMORY),
            (false, false) => None,
        };
        let (profile, refusal) = match kinds.map(|kinds| device.profile_start(kinds, CAPACITY)) {
            Some(Ok(profile)) => (Some(profile), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let timing = device.capability(hal::Capability::Timing);
        let how = match (&profile, &refusal) {
            (Some(_), _) => How::Profile,
            (None, Some(_)) if timing && bits & switch::RUNS != 0 => How::Events,
            (None, _) => How::Not,
        };
        let unmeasured = match (refusal, how) {
            (None, _) => String::new(),
            (Some(why), How::Events) => format!("{why}; whole runs are timed between two events"),
            (Some(why), _) => why,
        };
        let measured = Measured {
            number,
            device: device.clone(),
            unmeasured,
            default_stream: device.default_stream().map_or(0, |stream| stream.handle()),
            profile: Mutex::new(profile),
        };
        (measured, how)
    }

    /// Takes what is there.
    pub(super) fn drain(&self, into: &mut Drained) {
        if let Some(profile) = &*self.profile.lock() {
            match profile.drain(&mut into.records) {
                Ok(lost) => into.lost += lost,
                Err(error) => tracing::debug!("profile of {}: {error}", self.device.target()),
            }
        }
    }

    /// Ends the profile; what is there can still be drained. Waits for the device, whose last commands have no end before.
    pub(super) fn stop(&self) {
        // What failed on the device is told to those who read its results.
        let _ = self.device.synchronize();
        if let Some(profile) = &mut *self.profile.lock()
            && let Err(error) = profile.stop()
        {
            tracing::debug!("profile of {}: {error}", self.device.target());
        }
    }
}

/// What a device keeps about sessions: which one it takes part in, and how.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Number of the device in this process, from 1.
    pub(crate) number: u32,
    // Session and how, in one word.
    last: AtomicU32,
    // Held while the device is asked, which two threads may do at once: nobody waits for it but them.
    asking: Mutex<()>,
}

impl Default for Attached {
    fn default() -> Attached {
        static DEVICES: AtomicU32 = AtomicU32::new(1);
        Attached {
            number: DEVICES.fetch_add(1, Ordering::Relaxed),
            last: AtomicU32::new(0),
            asking: Mutex::new(()),
        }
    }
}

impl Attached {
    /// How `device` is measured in the session that is on. The first call in a session begins it.
    #[inline]
    pub(crate) fn how(&self, on: switch::On, device: &Device) -> How {
        match self.known(on) {
            Some(how) => how,
            None => self.attach(on, device),
        }
    }

    #[inline]
    fn known(&self, on: switch::On) -> Option<How> {
        let last = self.last.load(Ordering::Acquire);
        if last >> 16 != u32::from(on.session()) {
            return None;
        }
        Some(match last & 0xffff {
            1 => How::Profile,
            2 => How::Events,
            _ => How::Not,
        })
    }

    #[cold]
    fn attach(&self, on: switch::On, device: &Device) -> How {
        let _asking = self.asking.lock();
        if let Some(how) = self.known(on) {
            return how;
        }
        let how = session::attach(on.session(), device, self.number);
        environment::attached();
        let code = match how {
            How::Profile => 1,
            How::Events => 2,
            How::Not => 3,
        };
        let word = u32::from(on.session()) << 16 | code;
        self.last.store(word, Ordering::Release);
        how
    }
}

/// Correlations that a thread takes at once: a look at a word that threads share costs as much as half of a record.
const CORRELATIONS: u64 = 64;

/// The next correlation, which says to what run commands and memory belong; never 0.
#[inline]
pub(crate) fn correlation() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(CORRELATIONS);
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    let mut next = NEXT.get();
    if next.is_multiple_of(CORRELATIONS) {
        next = RUNS.fetch_add(CORRELATIONS, Ordering::Relaxed);
    }
    NEXT.set(next + 1);
    next
}

/// A record of a device as a record of a file.
pub(super) enum Told {
    Command(Command),
    Memory(Memory),
}

/// What a device said, with the numbers of stream and device in the file; `None` for what this version does not know.
pub(super) fn told(record: &ProfileRecord, device: u32, stream: u32) -> Option<Told> {
    let command = |kind| {
        Some(Told::Command(Command {
            correlation: record.correlation,
            // Work that was submitted alone is no node of a program.
            node: if record.packet == u32::MAX {
                0
            } else {
                record.packet
            },
            nth: record.command,
            kind,
            stream,
            row: record.row,
            queued: record.queued_ns,
            start: record.start_ns,
            end: record.end_ns,
            bytes: record.bytes,
            exact: record.flags & ProfileFlag::Exact.bit() != 0,
        }))
    };
    let memory = |kind| {
        Some(Told::Memory(Memory {
            time: record.start_ns,
            device,
            kind,
            buffer: record.object,
            bytes: record.bytes,
            correlation: record.correlation,
        }))
    };
    match ProfileKind::from_code(record.kind)? {
        ProfileKind::Launch => command(CommandKind::Launch),
        ProfileKind::Copy => command(CommandKind::Copy),
        ProfileKind::Fill => command(CommandKind::Fill),
        ProfileKind::Wait => command(CommandKind::Wait),
        ProfileKind::Callback => command(CommandKind::Callback),
        ProfileKind::Alloc => memory(MemoryKind::Alloc),
        ProfileKind::Free => memory(MemoryKind::Free),
        ProfileKind::Reserve => memory(MemoryKind::Reserve),
        ProfileKind::Release => memory(MemoryKind::Release),
        // Kinds of later versions.
        _ => None,
    }
}
