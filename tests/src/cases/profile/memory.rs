//! What is recorded of memory.

use super::{MEMORY, Profiles, is};
use crate::cases::programs::{Programs, counter, plain};
use crate::kit::Check;
use crate::rig::device::BLOCK;
use crate::rig::values::to_bytes;
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use thalweg_hal::DType;
use thalweg_hal::tables::{ProfileKind, ProfileRecord};

/// Bytes of the records of a kind.
fn sum(records: &[ProfileRecord], kind: ProfileKind) -> u64 {
    records
        .iter()
        .filter(|record| is(record, kind))
        .map(|record| record.bytes)
        .sum()
}

/// What was handed out less what was given back is what the pool says.
fn balanced(device: &Device, before: u64, records: &[ProfileRecord]) -> Check {
    let (got, gave) = (sum(records, ProfileKind::Alloc), sum(records, ProfileKind::Free));
    check_eq!(
        before + got - gave,
        device.statistics()?.allocated,
        "allocated bytes by the records and by the pool"
    );
    let moments = |record: &ProfileRecord| {
        record.queued_ns == record.start_ns && record.start_ns == record.end_ns && record.packet == u32::MAX
    };
    check!(
        records.iter().all(moments),
        "changes of memory that last: {records:?}"
    );
    Ok(())
}

pub(super) fn buffers(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let stream = device.stream()?;
    let early = device.alloc(3000)?;
    let before = device.statistics()?.allocated;
    profiles.start(MEMORY, 1000)?;
    profiles.correlate(21)?;
    let own = device.alloc_for(5000, stream, "op")?;
    profiles.correlate(22)?;
    let others: Vec<u64> = (0..10)
        .map(|at| device.alloc(at * 700))
        .collect::<Result<_, _>>()?;
    device.free(early)?;
    for &other in &others[..5] {
        device.free(other)?;
    }
    check!(
        device.free(early).is_err(),
        "a buffer that was freed is freed again"
    );
    profiles.correlate(0)?;
    let records = profiles.finish(stream)?;
    balanced(&device, before, &records)?;
    let find = |kind, buffer| {
        let matches = |record: &&ProfileRecord| is(record, kind) && record.object == buffer;
        records.iter().filter(matches).collect::<Vec<_>>()
    };
    let made = find(ProfileKind::Alloc, own);
    check!(
        made.len() == 1 && made[0].stream == stream && made[0].correlation == 21 && made[0].bytes >= 5000,
        "the buffer of 5000 bytes for a stream: {made:?}"
    );
    for (at, &other) in others.iter().enumerate() {
        let found = (
            find(ProfileKind::Alloc, other).len(),
            find(ProfileKind::Free, other).len(),
        );
        check_eq!(
            found,
            (1, usize::from(at < 5)),
            "records of buffer {at}, made and freed"
        );
    }
    check_eq!(
        find(ProfileKind::Free, early).len(),
        1,
        "records of an older buffer that was freed"
    );
    Ok(())
}

pub(super) fn program(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (programs, profiles) = (Programs::new(&device)?, Profiles::new(&device)?);
    let program = counter(&programs, 100, 4)?;
    let stream = device.stream()?;
    let input = device.upload(&to_bytes(DType::I32, &[1; 100]))?;
    let before = device.statistics()?.allocated;
    profiles.start(MEMORY, 1000)?;
    profiles.correlate(31)?;
    let outputs = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
    profiles.correlate(0)?;
    let records = profiles.finish(stream)?;
    balanced(&device, before, &records)?;
    let count = |kind| records.iter().filter(|record| is(record, kind)).count();
    // An output and two scratch buffers, which are given back at once.
    check_eq!(
        (count(ProfileKind::Alloc), count(ProfileKind::Free)),
        (3, 2),
        "buffers made and given back"
    );
    let output = |record: &&ProfileRecord| record.object == outputs[0];
    check_eq!(records.iter().filter(output).count(), 1, "records of the output");
    check!(
        records
            .iter()
            .all(|record| record.stream == stream && record.correlation == 31),
        "without the run's stream and correlation: {records:?}"
    );
    Ok(programs.destroy(program)?)
}

pub(super) fn blocks(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    profiles.start(MEMORY, 1000)?;
    let buffer = device.alloc(BLOCK / 2)?;
    let reserved = device.statistics()?.reserved;
    device.free(buffer)?;
    device.synchronize()?;
    let released = device.trim()?;
    let records = profiles.finish(device.stream()?)?;
    check_eq!(sum(&records, ProfileKind::Reserve), reserved, "reserved bytes");
    check_eq!(sum(&records, ProfileKind::Release), released, "released bytes");
    check!(released > 0, "nothing was given back");
    Ok(())
}
