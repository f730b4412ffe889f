//! Profiles: every piece of work once, with its correlation and times of the host's clock; sessions that do not mix; memory.

mod arguments;
mod memory;
mod sessions;
mod work;

use crate::check;
use crate::kit::{Case, Check, Stop};
use crate::rig::{Device, Subject};
use thalweg_hal::tables::{
    ProfileCounter, ProfileCountersArgs, ProfileDrainArgs, ProfileFlag, ProfileKind, ProfileRecord,
    ProfileStartArgs, ProfileTable,
};
use thalweg_hal::{Result, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("profile", name, run);
    vec![
        case("work_of_a_stream", work::stream),
        case("on_the_hosts_clock", work::clock),
        case("every_node_once", work::nodes),
        case("nodes_side_by_side", work::branches),
        case("correlation_by_thread", work::threads),
        case("waits_and_callbacks", work::waits),
        case("kinds", work::kinds),
        case("lost", sessions::lost),
        case("stale", sessions::stale),
        case("work_on_both_sides_of_the_ends", sessions::ends),
        case("stop_without_start", sessions::stop_without_start),
        case("start_twice", sessions::start_twice),
        case("devices_apart", sessions::devices),
        case("closed_meanwhile", sessions::closed),
        case("random_start_and_stop", sessions::random),
        case("buffers", memory::buffers),
        case("buffers_of_a_program", memory::program),
        case("blocks", memory::blocks),
        case("arguments_refused", arguments::refused),
        case("unknown_device", arguments::unknown_device),
        case("counters", arguments::counters),
    ]
}

/// Bits of kinds.
const fn bits(kinds: &[ProfileKind]) -> u64 {
    let (mut all, mut at) = (0, 0);
    while at < kinds.len() {
        all |= kinds[at].bit();
        at += 1;
    }
    all
}

const COMMANDS: u64 = bits(&[ProfileKind::Launch, ProfileKind::Copy, ProfileKind::Fill]);
const MEMORY: u64 = bits(&[
    ProfileKind::Alloc,
    ProfileKind::Free,
    ProfileKind::Reserve,
    ProfileKind::Release,
]);

/// Profile calls of a device.
#[derive(Clone, Copy)]
struct Profiles<'a> {
    device: &'a Device,
    table: &'static ProfileTable,
}

impl<'a> Profiles<'a> {
    /// Ends the case as unsupported where the backend has no table.
    fn new(device: &'a Device) -> Result<Profiles<'a>, Stop> {
        let table = device.raw().tables.profile;
        let table = table.ok_or_else(|| Stop::Unsupported("the backend has no table of profiles".into()))?;
        Ok(Profiles { device, table })
    }

    /// Starts a profile; ends the case as unsupported where the device says that its work is not measured.
    fn start(&self, kinds: u64, capacity: u64) -> Check {
        match self.try_start(self.device.handle(), kinds, capacity) {
            Err(error) if error.status == Status::Unsupported => {
                check!(!error.message.is_empty(), "unsupported without a reason");
                Err(Stop::Unsupported(error.message))
            }
            other => Ok(other?),
        }
    }

    fn try_start(&self, device: u64, kinds: u64, capacity: u64) -> Result<()> {
        let args = ProfileStartArgs {
            device,
            kinds,
            capacity,
        };
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call.
        raw.status(unsafe { (self.table.start)(raw.context, &raw const args) })
    }

    fn stop(&self) -> Result<()> {
        self.stop_of(self.device.handle())
    }

    fn stop_of(&self, device: u64) -> Result<()> {
        let raw = self.device.raw();
        // SAFETY: plain call.
        raw.status(unsafe { (self.table.stop)(raw.context, device) })
    }

    fn correlate(&self, id: u64) -> Result<()> {
        let raw = self.device.raw();
        // SAFETY: plain call.
        raw.status(unsafe { (self.table.correlate)(raw.context, id) })
    }

    /// The records that are there, and how many were lost.
    fn drain(&self) -> Result<(Vec<ProfileRecord>, u64), Stop> {
        let (mut all, mut lost) = (Vec::new(), 0);
        loop {
            let (some, more) = self.drain_some(self.device.handle(), 100)?;
            lost += more;
            let done = some.len() < 100;
            all.extend(some);
            if done {
                return Ok((all, lost));
            }
            check!(all.len() < 1 << 24, "records come for ever");
        }
    }

    /// Up to `capacity` records.
    fn drain_some(&self, device: u64, capacity: usize) -> Result<(Vec<ProfileRecord>, u64)> {
        let (mut out, mut written, mut lost) = (vec![NOTHING; capacity], usize::MAX, u64::MAX);
        let args = ProfileDrainArgs {
            device,
            out: out.as_mut_ptr(),
            capacity,
            written: &raw mut written,
            lost: &raw mut lost,
        };
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call, and the place has the capacity that is passed.
        raw.status(unsafe { (self.table.drain)(raw.context, &raw const args) })?;
        if written > capacity {
            return Err(thalweg_hal::Error::internal(format!(
                "drain wrote {written} records to room for {capacity}"
            )));
        }
        out.truncate(written);
        Ok((out, lost))
    }

    /// Up to `capacity` counters, and how many there are.
    fn counters(&self, device: u64, capacity: usize) -> Result<(Vec<ProfileCounter>, usize)> {
        let zero = ProfileCounter {
            name: [0; 48],
            unit: [0; 16],
            value: 0,
        };
        let (mut out, mut count) = (vec![zero; capacity], usize::MAX);
        let args = ProfileCountersArgs {
            device,
            out: out.as_mut_ptr(),
            capacity,
            count: &raw mut count,
        };
        let raw = self.device.raw();
        // SAFETY: as above.
        raw.status(unsafe { (self.table.counters)(raw.context, &raw const args) })?;
        out.truncate(count);
        Ok((out, count))
    }

    /// Waits for a stream, ends the profile and takes its records; none may be lost.
    fn finish(&self, stream: u64) -> Result<Vec<ProfileRecord>, Stop> {
        self.device.join(stream)?;
        self.stop()?;
        let (records, lost) = self.drain()?;
        check!(lost == 0, "{lost} records were lost with room for more");
        records.iter().try_for_each(check_form)?;
        Ok(records)
    }
}

const NOTHING: ProfileRecord = ProfileRecord {
    correlation: u64::MAX,
    stream: u64::MAX,
    object: u64::MAX,
    bytes: u64::MAX,
    queued_ns: 0,
    start_ns: 0,
    end_ns: 0,
    packet: 0,
    command: 0,
    row: 0,
    kind: 0,
    flags: 0,
    reserved: u32::MAX,
};

/// What holds for every record.
fn check_form(record: &ProfileRecord) -> Check {
    let kind = ProfileKind::from_code(record.kind);
    check!(
        kind.is_some(),
        "the kind {} is not known: {record:?}",
        record.kind
    );
    check!(
        record.reserved == 0,
        "reserved is {}: {record:?}",
        record.reserved
    );
    check!(
        record.queued_ns > 0 && record.queued_ns <= record.start_ns && record.start_ns <= record.end_ns,
        "the times are not in order: {record:?}"
    );
    let (exact, bracketed) = (ProfileFlag::Exact.bit(), ProfileFlag::Bracketed.bit());
    check!(
        record.flags == exact || record.flags == bracketed,
        "neither exact nor bracketed: {record:?}"
    );
    Ok(())
}

fn is(record: &ProfileRecord, kind: ProfileKind) -> bool {
    record.kind == kind as u32
}

/// Records in the order in which they began.
fn in_order(mut records: Vec<ProfileRecord>) -> Vec<ProfileRecord> {
    records.sort_by_key(|record| (record.start_ns, record.end_ns));
    records
}
