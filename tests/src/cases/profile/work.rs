//! What is recorded of work.

use super::{COMMANDS, Profiles, bits, in_order, is};
use crate::cases::programs::{Programs, add, counter, increment, job, plain};
use crate::kit::{Check, Stop};
use crate::rig::device::{at, copy, copy_packet, fill, fill_packet, launch_packet};
use crate::rig::values::to_bytes;
use crate::rig::{Device, Gate, Subject, callback};
use crate::{check, check_eq};
use std::ptr::null;
use std::time::Duration;
use thalweg_hal::DType;
use thalweg_hal::clock::now;
use thalweg_hal::tables::{ProfileFlag, ProfileKind, ProfileRecord};

/// How far clocks of a device and the host may be apart, in nanoseconds.
const APART: u64 = 100_000;

/// Work of one stream does not overlap.
fn one_by_one(records: &[ProfileRecord]) -> Check {
    for pair in records.windows(2) {
        let exact = pair.iter().all(|record| record.flags == ProfileFlag::Exact.bit());
        check!(
            !exact || pair[0].end_ns <= pair[1].start_ns,
            "work of one stream overlaps: {pair:?}"
        );
    }
    Ok(())
}

pub(super) fn stream(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (stream, a, b) = (device.stream()?, device.alloc(4000)?, device.alloc(4000)?);
    let work = job(increment(), 1000);
    let kernel = match device.compile(&work.kernel) {
        Ok(kernel) => Some(kernel),
        Err(Stop::Unsupported(_)) => None,
        Err(failed) => return Err(failed),
    };
    let bindings = work.bindings(&[a, b]);
    profiles.start(COMMANDS, 100)?;
    profiles.correlate(11)?;
    device.fill_byte(stream, a, 4000, 1)?;
    profiles.correlate(12)?;
    device.copy(stream, &copy(at(b, 0), at(a, 0), 2000))?;
    profiles.correlate(13)?;
    // Nothing to do.
    device.copy(stream, &copy(at(b, 0), at(a, 0), 0))?;
    let (first, second) = (fill(b, 0, 80, 3, 4), copy(at(a, 0), at(b, 80), 160));
    let empty = copy(at(a, 0), at(b, 80), 0);
    let packets = [
        fill_packet(&first, null()),
        copy_packet(&empty, null()),
        copy_packet(&second, null()),
    ];
    device.submit(stream, &packets)?;
    let mut expected = vec![
        (11, ProfileKind::Fill, 4000, u32::MAX, 0),
        (12, ProfileKind::Copy, 2000, u32::MAX, 0),
        (13, ProfileKind::Fill, 80, 0, 0),
        (13, ProfileKind::Copy, 160, 2, 0),
    ];
    if let Some(kernel) = kernel {
        let launch = work.launch(kernel, &bindings);
        device.launch(stream, &launch, "increment")?;
        device.submit(stream, &[launch_packet(&launch, null())])?;
        expected.extend([(13, ProfileKind::Launch, 0, u32::MAX, kernel); 2]);
    }
    let records = in_order(profiles.finish(stream)?);
    let found: Vec<_> = (records.iter())
        .map(|record| {
            let kind = ProfileKind::from_code(record.kind).unwrap_or(ProfileKind::Alloc);
            (
                record.correlation,
                kind,
                record.bytes,
                record.packet,
                record.object,
            )
        })
        .collect();
    check_eq!(found, expected, "correlation, kind, bytes, packet, kernel");
    check!(
        records.iter().all(|record| record.stream == stream),
        "another stream: {records:?}"
    );
    profiles.correlate(0)?;
    one_by_one(&records)
}

pub(super) fn clock(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(1 << 20)?);
    // What is done once, such as compiling, is done.
    device.fill_byte(stream, buffer, 1 << 20, 1)?;
    device.join(stream)?;
    profiles.start(COMMANDS, 100)?;
    let mut rounds = Vec::new();
    for round in 0..20 {
        let before = now();
        device.fill_byte(stream, buffer, 1 << 20, round)?;
        let submitted = now();
        device.join(stream)?;
        rounds.push((before, submitted, now()));
        std::thread::sleep(Duration::from_millis(2));
    }
    let records = in_order(profiles.finish(stream)?);
    check_eq!(records.len(), rounds.len(), "records");
    for (record, (before, submitted, after)) in records.iter().zip(rounds) {
        check!(
            (before - 1_000..=submitted + 1_000).contains(&record.queued_ns),
            "queued {} ns after the call began: {record:?}",
            record.queued_ns.cast_signed() - before.cast_signed()
        );
        check!(
            record.end_ns <= after + APART,
            "ended {} ns after it was waited for: {record:?}",
            record.end_ns - after
        );
    }
    Ok(())
}

/// The program `output = input + nodes`; its runs have each node once, one after the other.
pub(super) fn nodes(subject: &Subject) -> Check {
    // Small enough to run at once, and long enough to be queued.
    for (count, nodes) in [(8_u64, 1_u64), (8, 5), (100_000, 40)] {
        let device = Device::open(subject)?;
        let (programs, profiles) = (Programs::new(&device)?, Profiles::new(&device)?);
        let program = counter(&programs, count, nodes)?;
        let stream = device.stream()?;
        let input = device.upload(&to_bytes(DType::I32, &vec![1; count as usize]))?;
        profiles.start(COMMANDS, 10_000)?;
        for run in 0..10 {
            profiles.correlate(1000 + run)?;
            let outputs = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
            device.free(outputs[0])?;
        }
        profiles.correlate(0)?;
        let records = profiles.finish(stream)?;
        for run in 0..10 {
            let of_run = |record: &&ProfileRecord| record.correlation == 1000 + run;
            let own = in_order(records.iter().filter(of_run).copied().collect());
            let first: Vec<u64> = (own.iter())
                .filter(|record| record.command == 0)
                .map(|record| record.packet.into())
                .collect();
            check_eq!(
                first,
                (0..nodes).collect::<Vec<_>>(),
                "packets of run {run} by their start"
            );
            check!(
                own.iter()
                    .all(|record| is(record, ProfileKind::Launch) && record.stream == stream),
                "run {run} did something else: {own:?}"
            );
        }
        check!(
            records
                .iter()
                .all(|record| (1000..1010).contains(&record.correlation)),
            "records without a run"
        );
        one_by_one(&in_order(records))?;
        device.free(input)?;
        programs.destroy(program)?;
    }
    Ok(())
}

/// Eight sums that wait for none, and their sum by pairs.
pub(super) fn branches(subject: &Subject) -> Check {
    const COUNT: u64 = 4000;
    let device = Device::open(subject)?;
    let (programs, profiles) = (Programs::new(&device)?, Profiles::new(&device)?);
    let work = job(add(), COUNT);
    let kernel = device.compile(&work.kernel)?;
    // Slots: 1 and 2 inputs, 3 output, 4 to 17 scratch.
    let mut slots: Vec<[u64; 3]> = (0..8).map(|at| [1, 2, 4 + at]).collect();
    slots.extend((0..6).map(|at| [4 + 2 * at, 5 + 2 * at, 12 + at]));
    slots.push([16, 17, 3]);
    let bindings: Vec<_> = slots.iter().map(|slots| work.bindings(slots)).collect();
    let launches: Vec<_> = bindings.iter().map(|own| work.launch(kernel, own)).collect();
    let packets: Vec<_> = launches
        .iter()
        .map(|launch| launch_packet(launch, null()))
        .collect();
    let bytes = 4 * COUNT;
    let program = programs.create(&packets, (2, &[bytes], &[bytes; 14], 0), &[])?;
    let stream = device.stream()?;
    let input = device.upload(&to_bytes(DType::I32, &vec![1; COUNT as usize]))?;
    profiles.start(COMMANDS, 10_000)?;
    for run in 0..20 {
        profiles.correlate(1 + run)?;
        let outputs = plain(programs.run((program, stream), &[(input, 0), (input, 0)], &[], 1))?;
        device.free(outputs[0])?;
    }
    profiles.correlate(0)?;
    let records = profiles.finish(stream)?;
    for run in 0..20 {
        let find = |packet: usize| {
            let mut own = (records.iter())
                .filter(|record| record.correlation == 1 + run && record.packet as usize == packet);
            match (own.next(), own.next()) {
                (Some(record), None) => Ok(record),
                _ => Err(Stop::Failed(format!(
                    "node {packet} of run {run} is not there once"
                ))),
            }
        };
        for packet in 8..slots.len() {
            for (earlier, wrote) in slots.iter().enumerate().take(packet) {
                let waits = slots[packet][..2].contains(&wrote[2]);
                let (earlier, own) = (find(earlier)?, find(packet)?);
                let exact = own.flags == ProfileFlag::Exact.bit();
                check!(
                    !waits || !exact || earlier.end_ns <= own.start_ns,
                    "node {packet} began before what it reads was there: {earlier:?} {own:?}"
                );
            }
        }
    }
    // What overlaps has different rows.
    let records = in_order(records);
    for (at, record) in records.iter().enumerate() {
        let others = records[at + 1..]
            .iter()
            .take_while(|other| other.start_ns < record.end_ns);
        for other in others {
            check!(
                other.row != record.row,
                "two nodes at once on row {}: {record:?} {other:?}",
                record.row
            );
        }
    }
    device.free(input)?;
    Ok(programs.destroy(program)?)
}

pub(super) fn threads(subject: &Subject) -> Check {
    const THREADS: u64 = 4;
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    profiles.start(COMMANDS, 10_000)?;
    profiles.correlate(99)?;
    let work = |thread: u64| -> Check {
        let (stream, buffer) = (device.stream()?, device.alloc(4096)?);
        // Nothing yet on this thread, whatever another has set.
        device.fill_byte(stream, buffer, 1000 + thread, 0)?;
        for round in 1..=50 {
            profiles.correlate(thread << 32 | round)?;
            device.fill_byte(stream, buffer, 2000 + thread, 0)?;
        }
        device.join(stream)?;
        Ok(device.destroy_stream(stream)?)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let panicked = || Err(Stop::Failed("a thread panicked".into()));
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| panicked()))
    })?;
    profiles.correlate(0)?;
    let records = profiles.finish(device.stream()?)?;
    let mut found: Vec<_> = (records.iter())
        .map(|record| (record.correlation, record.bytes))
        .collect();
    found.sort_unstable();
    let mut expected: Vec<_> = (1..=THREADS).map(|thread| (0, 1000 + thread)).collect();
    for thread in 1..=THREADS {
        expected.extend((1..=50).map(|round| (thread << 32 | round, 2000 + thread)));
    }
    check_eq!(found, expected, "correlations and bytes");
    Ok(())
}

/// A stream waits for another that stands at a gate.
pub(super) fn waits(subject: &Subject) -> Check {
    const HELD: u64 = 5_000_000;
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (first, second) = (device.stream()?, device.stream()?);
    let (buffer, event) = (device.alloc(64)?, device.event(false)?);
    profiles.start(bits(&[ProfileKind::Wait, ProfileKind::Callback]), 100)?;
    let gate = Gate::new(&device, first)?;
    device.fill_byte(first, buffer, 64, 1)?;
    device.record(event, first)?;
    device.wait_event(second, event)?;
    callback(&device, second, || 0)?;
    check!(gate.reached(), "the stream does not reach its callback");
    std::thread::sleep(Duration::from_nanos(HELD));
    gate.open();
    device.join(first)?;
    let records = profiles.finish(second)?;
    let of = |kind, stream| {
        let matches = |record: &&ProfileRecord| is(record, kind) && record.stream == stream;
        records.iter().find(matches)
    };
    let (gate, called) = (
        of(ProfileKind::Callback, first),
        of(ProfileKind::Callback, second),
    );
    let wait = of(ProfileKind::Wait, second);
    let (Some(gate), Some(called), Some(wait)) = (gate, called, wait) else {
        let what = format!("waits or callbacks are not measured: {records:?}");
        return Err(Stop::Unsupported(what));
    };
    check!(
        gate.end_ns - gate.start_ns >= HELD,
        "the callback took {HELD} ns: {gate:?}"
    );
    check!(
        wait.end_ns + APART >= gate.end_ns,
        "the wait ended before the gate was open: {wait:?} {gate:?}"
    );
    check!(
        called.start_ns + APART >= wait.end_ns,
        "the stream went on before its wait was over: {called:?} {wait:?}"
    );
    check_eq!(records.len(), 3, "records of waits and callbacks");
    Ok(())
}

pub(super) fn kinds(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (stream, a, b) = (device.stream()?, device.alloc(512)?, device.alloc(512)?);
    for kind in [ProfileKind::Copy, ProfileKind::Fill, ProfileKind::Alloc] {
        profiles.start(kind.bit(), 100)?;
        for _ in 0..3 {
            device.fill_byte(stream, a, 512, 1)?;
            device.copy(stream, &copy(at(b, 0), at(a, 0), 512))?;
            let made = device.alloc(100)?;
            device.free(made)?;
        }
        let records = profiles.finish(stream)?;
        check!(
            records.len() == 3 && records.iter().all(|record| is(record, kind)),
            "a profile of {} alone: {records:?}",
            kind.name()
        );
    }
    Ok(())
}
