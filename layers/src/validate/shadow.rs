//! What is known of each object that the backend has given out.

use super::code::{Code, Group};
use super::content::{Canary, Written};
use super::options::Options;
use super::order::{Accesses, Actor, Clock, Done};
use super::program::Program;
use super::report::Report;
use super::site::{SiteId, Sites};
use super::table::{Missing, Table};
use super::work::Touch;
use std::collections::HashSet;
use std::sync::Arc;
use thalweg_hal::Status;
use thalweg_hal::kit::checks::Signature;

/// What is known of a backend.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) options: Options,
    pub(super) devices: Table<Device>,
    pub(super) buffers: Table<Buffer>,
    pub(super) streams: Table<Stream>,
    pub(super) events: Table<Event>,
    pub(super) kernels: Table<Kernel>,
    pub(super) programs: Table<Program>,
    pub(super) done: Done,
    /// Accesses to host memory, by address.
    pub(super) host: Accesses,
    pub(super) sites: Sites,
    /// Room for what work touches, and the sites of it.
    pub(super) scratch: Vec<Touch>,
    pub(super) scratch_sites: Vec<SiteId>,
    /// Host memory that the submission reads which is checked now.
    pub(super) held: Vec<(u64, u64, SiteId)>,
    /// What was logged.
    pub(super) seen: HashSet<(Code, (SiteId, SiteId))>,
    /// The backend was shut down: it answers by itself.
    pub(super) down: bool,
}

/// A device that is open.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) ordinal: u32,
    /// Allocations and frees so far.
    pub(super) changes: u64,
    /// Buffers of the pool that are alive, and their bytes.
    pub(super) live: u64,
    pub(super) bytes: u64,
}

/// A buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) device: u64,
    pub(super) bytes: u64,
    pub(super) site: SiteId,
    /// Where it lies in the host's memory, if it was imported.
    pub(super) import: Option<u64>,
    /// Where it is mapped to, if it was.
    pub(super) mapped: Option<u64>,
    pub(super) accesses: Accesses,
    /// The bytes that were written, where that is asked for and known.
    pub(super) written: Option<Written>,
    /// Whether a canary lies behind it.
    pub(super) canary: bool,
    /// Bytes that were asked for beyond its own.
    pub(super) padding: u64,
}

impl Buffer {
    /// A buffer of the pool.
    pub(super) fn new(device: u64, bytes: u64, site: SiteId) -> Buffer {
        Buffer {
            device,
            bytes,
            site,
            import: None,
            mapped: None,
            accesses: Accesses::default(),
            written: None,
            canary: false,
            padding: 0,
        }
    }

    /// The canary behind it.
    pub(super) fn canary(&self, handle: u64) -> Canary {
        Canary {
            device: self.device,
            buffer: handle,
            bytes: self.bytes,
        }
    }
}

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) device: u64,
    pub(super) actor: Actor,
    /// Number of its last submission.
    pub(super) epoch: u64,
    /// What it has waited for.
    pub(super) clock: Clock,
}

impl Stream {
    /// All of its work so far, and what that waited for.
    pub(super) fn now(&self) -> Clock {
        let mut clock = self.clock.clone();
        clock.reach(self.actor, self.epoch);
        clock
    }
}

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) device: u64,
    /// Number of its last record, 0 before the first.
    pub(super) records: u64,
    /// Number of the last record that the backend said is done.
    pub(super) seen: u64,
    pub(super) record: Option<Record>,
}

/// A record of an event.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// What it covers.
    pub(super) clock: Clock,
    /// Stream and number of the submission that it is.
    pub(super) actor: Actor,
    pub(super) epoch: u64,
}

/// A kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) device: u64,
    /// `None` for a form that this version cannot read.
    pub(super) signature: Option<Arc<Signature>>,
}

/// The kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Device,
    Buffer,
    Stream,
    Event,
    Kernel,
    Program,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Device => "device",
            Kind::Buffer => "buffer",
            Kind::Stream => "stream",
            Kind::Event => "event",
            Kind::Kernel => "kernel",
            Kind::Program => "program",
        }
    }
}

/// What a call of the program is refused for, or nothing.
pub(super) type Check = Result<(), Report>;

impl State {
    /// The report of a handle that leads nowhere, in the call `what`.
    #[cold]
    pub(super) fn missing(&self, what: &str, kind: Kind, handle: u64, missing: Missing) -> Report {
        let name = kind.name();
        let (code, text) = match missing {
            Missing::Never => (
                Code::UnknownHandle,
                format!(
                    "{what}: {handle:#x} is no {name} that this backend gave out; pass the handle of a live {name}"
                ),
            ),
            Missing::Ended(site) => (
                Code::StaleHandle,
                format!(
                    "{what}: the {name} {handle:#x}{} has ended; keep it until its last use is submitted",
                    self.sites.maker(site)
                ),
            ),
        };
        let site = match missing {
            Missing::Never => 0,
            Missing::Ended(site) => site,
        };
        Report::program(code, Status::InvalidHandle, text).at(site, 0)
    }

    /// The report of an object that cannot be ended.
    #[cold]
    pub(super) fn not_ended(&self, what: &str, kind: Kind, handle: u64, missing: Missing) -> Report {
        match missing {
            Missing::Never => self.missing(what, kind, handle, missing),
            Missing::Ended(site) => {
                let name = kind.name();
                let maker = self.sites.maker(site);
                let text =
                    format!("{what}: the {name} {handle:#x}{maker} has ended before; end each {name} once");
                Report::program(Code::EndedTwice, Status::InvalidHandle, text).at(site, 0)
            }
        }
    }

    /// Asks for a device.
    pub(super) fn device(&self, what: &str, handle: u64) -> Check {
        match self.devices.find(handle) {
            Ok(_) => Ok(()),
            Err(missing) => Err(self.missing(what, Kind::Device, handle, missing)),
        }
    }

    /// Asks for a stream; returns its device.
    pub(super) fn stream(&self, what: &str, handle: u64) -> Result<&Stream, Report> {
        (self.streams.find(handle)).map_err(|missing| self.missing(what, Kind::Stream, handle, missing))
    }

    /// Asks for an event.
    pub(super) fn event(&self, what: &str, handle: u64) -> Result<&Event, Report> {
        (self.events.find(handle)).map_err(|missing| self.missing(what, Kind::Event, handle, missing))
    }

    /// Asks for a buffer.
    pub(super) fn buffer(&self, what: &str, handle: u64) -> Result<&Buffer, Report> {
        (self.buffers.find(handle)).map_err(|missing| self.missing(what, Kind::Buffer, handle, missing))
    }

    /// Asks whether two objects belong to one device.
    pub(super) fn same_device(what: &str, kinds: (Kind, Kind), devices: (u64, u64)) -> Check {
        if devices.0 == devices.1 {
            return Ok(());
        }
        let text = format!(
            "{what}: {} and {} belong to different devices; use objects of one device",
            kinds.0.name(),
            kinds.1.name()
        );
        Err(Report::program(Code::ForeignObject, Status::InvalidHandle, text))
    }

    /// Whether contents of memory are looked at.
    #[inline]
    pub(super) fn looks(&self) -> bool {
        self.options.has(Group::Content)
    }

    /// Adds a buffer.
    pub(super) fn add_buffer(&mut self, what: &str, handle: u64, buffer: Buffer) -> Check {
        let (owner, pooled) = ((buffer.device, buffer.bytes), buffer.import.is_none());
        let new = self.buffers.insert(handle, buffer);
        if pooled {
            self.count(owner, true);
        }
        State::once(what, Kind::Buffer, handle, new)
    }

    /// The report of a handle that is 0 or was given out before, unless it is `new`.
    pub(super) fn once(what: &str, kind: Kind, handle: u64, new: bool) -> Check {
        if new && handle != 0 {
            return Ok(());
        }
        let why = if handle == 0 {
            "is none"
        } else {
            "belongs to a live one"
        };
        let text = format!(
            "{what}: the backend gave out the {} {handle:#x}, which {why}; it must give each object a handle of its own",
            kind.name()
        );
        Err(Report::plugin(Code::WrongHandle, text))
    }

    /// Counts a buffer of the pool that was made, or one that has ended.
    pub(super) fn count(&mut self, buffer: (u64, u64), made: bool) {
        if let Ok(device) = self.devices.find_mut(buffer.0) {
            device.changes += 1;
            let sign = |figure: u64, by: u64| {
                if made {
                    figure + by
                } else {
                    figure.saturating_sub(by)
                }
            };
            (device.live, device.bytes) = (sign(device.live, 1), sign(device.bytes, buffer.1));
        }
    }

    /// Takes back the accesses of a submission that was refused.
    #[cold]
    pub(super) fn undo(&mut self, actor: Actor, epoch: u64) {
        self.host.undo(actor, epoch);
        (self.buffers.values_mut()).for_each(|buffer| buffer.accesses.undo(actor, epoch));
    }
}
