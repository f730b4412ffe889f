//! When a profile begins and ends, and how much it keeps.

use super::{COMMANDS, MEMORY, Profiles, check_form, is};
use crate::kit::{Check, Stop};
use crate::rig::values::Random;
use crate::rig::{Device, Gate, Subject};
use crate::{check, check_eq};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_hal::Status;
use thalweg_hal::tables::ProfileKind;

pub(super) fn lost(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(512)?);
    let fills = |count: u64| -> Check {
        for _ in 0..count {
            device.fill_byte(stream, buffer, 512, 1)?;
        }
        Ok(device.join(stream)?)
    };
    for capacity in [1, 8, 100] {
        profiles.start(ProfileKind::Fill.bit(), capacity)?;
        for round in 0..3 {
            fills(capacity + 50)?;
            let (records, lost) = profiles.drain()?;
            let count = records.len() as u64;
            check!(
                (1..=capacity).contains(&count),
                "round {round}: {count} records with room for {capacity}"
            );
            check_eq!(lost, capacity + 50 - count, "lost in round {round}");
            records.iter().try_for_each(check_form)?;
        }
        // There is room again.
        fills(1)?;
        let (records, lost) = profiles.drain()?;
        check_eq!((records.len(), lost), (1, 0), "one record into an empty ring");
        profiles.stop()?;
    }
    // A drain that has no room loses nothing.
    profiles.start(ProfileKind::Fill.bit(), 10)?;
    fills(4)?;
    let mut found = 0;
    for room in [0, 1, 2, 5] {
        found += profiles.drain_some(device.handle(), room)?.0.len();
    }
    check_eq!(found, 4, "records that were drained by pieces");
    Ok(profiles.stop()?)
}

pub(super) fn stale(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(512)?);
    let kinds = COMMANDS | MEMORY;
    for _ in 0..5 {
        profiles.start(kinds, 100)?;
        for _ in 0..10 {
            device.fill_byte(stream, buffer, 512, 1)?;
        }
        device.join(stream)?;
        profiles.stop()?;
        // None of these is recorded.
        device.fill_byte(stream, buffer, 512, 1)?;
        device.join(stream)?;
        profiles.start(kinds, 100)?;
        check_eq!(
            profiles.drain()?,
            (vec![], 0),
            "records at the beginning of a profile"
        );
        device.fill_byte(stream, buffer, 8, 1)?;
        let records = profiles.finish(stream)?;
        check!(
            records.len() == 1 && records[0].bytes == 8,
            "one fill of 8 bytes: {records:?}"
        );
        check_eq!(profiles.drain()?, (vec![], 0), "records, drained again");
    }
    Ok(())
}

/// Work that was submitted before the start and done after it, and likewise the end.
pub(super) fn ends(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(512)?);
    let gate = Gate::new(&device, stream)?;
    device.fill_byte(stream, buffer, 100, 1)?;
    profiles.start(COMMANDS, 100)?;
    device.fill_byte(stream, buffer, 200, 1)?;
    gate.open();
    device.join(stream)?;
    let gate = Gate::new(&device, stream)?;
    device.fill_byte(stream, buffer, 300, 1)?;
    profiles.stop()?;
    device.fill_byte(stream, buffer, 400, 1)?;
    gate.open();
    device.join(stream)?;
    let (records, lost) = profiles.drain()?;
    let mut bytes: Vec<u64> = records.iter().map(|record| record.bytes).collect();
    bytes.sort_unstable();
    check_eq!(
        (bytes, lost),
        (vec![200, 300], 0),
        "bytes of fills submitted between start and stop"
    );
    Ok(())
}

pub(super) fn stop_without_start(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    profiles.stop()?;
    // Where a profile runs, it ends once.
    profiles.start(COMMANDS, 10)?;
    profiles.stop()?;
    profiles.stop()?;
    let (stream, buffer) = (device.stream()?, device.alloc(512)?);
    device.fill_byte(stream, buffer, 512, 1)?;
    device.join(stream)?;
    check_eq!(profiles.drain()?, (vec![], 0), "records of work after the end");
    Ok(())
}

pub(super) fn start_twice(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(512)?);
    profiles.start(COMMANDS, 100)?;
    device.fill_byte(stream, buffer, 512, 1)?;
    let again = profiles.try_start(device.handle(), COMMANDS, 100);
    check_eq!(
        again.map_err(|error| error.status),
        Err(Status::InvalidArgument),
        "a second start"
    );
    device.fill_byte(stream, buffer, 512, 1)?;
    let records = profiles.finish(stream)?;
    check_eq!(records.len(), 2, "records of the profile that went on");
    Ok(())
}

/// A profile of one device records nothing of another.
pub(super) fn devices(subject: &Subject) -> Check {
    let (device, other) = (Device::open(subject)?, Device::open(subject)?);
    let (profiles, others) = (Profiles::new(&device)?, Profiles::new(&other)?);
    profiles.start(COMMANDS | MEMORY, 1000)?;
    let (stream, buffer) = (other.stream()?, other.alloc(512)?);
    other.fill_byte(stream, buffer, 512, 1)?;
    other.join(stream)?;
    check_eq!(
        others.drain()?,
        (vec![], 0),
        "records of a device without a profile"
    );
    check_eq!(profiles.drain()?, (vec![], 0), "records of another device");
    others.start(COMMANDS, 1000)?;
    other.fill_byte(stream, buffer, 512, 1)?;
    profiles.stop()?;
    other.fill_byte(stream, buffer, 512, 1)?;
    let records = others.finish(stream)?;
    check_eq!(records.len(), 2, "records while another profile ends");
    Ok(())
}

/// A device is closed while its profile runs.
pub(super) fn closed(subject: &Subject) -> Check {
    let watcher = Device::open(subject)?;
    let profiles = Profiles::new(&watcher)?;
    for _ in 0..3 {
        let device = Device::open(subject)?;
        Profiles::new(&device)?.start(COMMANDS | MEMORY, 100)?;
        let (stream, buffer) = (device.stream()?, device.alloc(512)?);
        device.fill_byte(stream, buffer, 512, 1)?;
        let handle = device.handle();
        drop(device);
        let after = [
            profiles.drain_some(handle, 1).map(|_| ()),
            profiles.stop_of(handle),
        ];
        for result in after {
            check_eq!(
                result.map_err(|error| error.status),
                Err(Status::InvalidHandle),
                "a profile of a closed device"
            );
        }
    }
    let (stream, buffer) = (watcher.stream()?, watcher.alloc(512)?);
    watcher.fill_byte(stream, buffer, 512, 1)?;
    Ok(watcher.join(stream)?)
}

/// Threads work while another starts, drains and stops at random.
pub(super) fn random(subject: &Subject) -> Check {
    const THREADS: u64 = 8;
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    profiles.start(COMMANDS, 10)?;
    profiles.stop()?;
    let done = AtomicBool::new(false);
    // A round of a thread fills as many bytes as its correlation says.
    let work = |thread: u64| -> Check {
        profiles.correlate(thread << 32)?;
        let (stream, buffer) = (device.stream()?, device.alloc(1 << 16)?);
        let mut round = 0;
        while !done.load(Ordering::Relaxed) {
            round += 1;
            let bytes = thread * 1000 + round % 900;
            profiles.correlate(thread << 32 | bytes)?;
            device.fill_byte(stream, buffer, bytes, 1)?;
            let other = device.alloc(512 * thread)?;
            device.free(other)?;
            if round % 50 == 0 {
                device.join(stream)?;
            }
        }
        device.join(stream)?;
        Ok(device.destroy_stream(stream)?)
    };
    let control = || -> Check {
        let (mut random, start) = (Random::new(5), Instant::now());
        let (mut running, mut found) = (false, 0);
        while start.elapsed() < Duration::from_millis(400) {
            match random.below(4) {
                0 if !running => {
                    let capacity = 1 + random.below(3000);
                    profiles.start(COMMANDS | MEMORY, capacity)?;
                    running = true;
                }
                1 => {
                    profiles.stop()?;
                    running = false;
                }
                2 => std::thread::sleep(Duration::from_micros(random.below(500))),
                _ => {
                    let (records, _) = profiles.drain_some(device.handle(), random.below(2000) as usize)?;
                    for record in &records {
                        check_form(record)?;
                        let (thread, bytes) = (record.correlation >> 32, record.correlation & 0xffff_ffff);
                        check!((1..=THREADS).contains(&thread), "nobody's record: {record:?}");
                        let whole = match is(record, ProfileKind::Fill) {
                            true => record.bytes == bytes,
                            false => record.bytes == 512 * thread || record.bytes >= 1 << 16,
                        };
                        check!(whole, "a record of two halves: {record:?}");
                    }
                    found += records.len();
                }
            }
        }
        profiles.stop()?;
        check!(found > 0, "no record in all that time");
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=THREADS)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || work(thread))
            })
            .collect();
        let controlled = control();
        done.store(true, Ordering::Relaxed);
        let panicked = || Err(Stop::Failed("a thread panicked".into()));
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| panicked()))?;
        controlled
    })
}
