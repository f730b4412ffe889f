//! Arguments that lead nowhere, and counters.

use super::{COMMANDS, Profiles};
use crate::kit::Check;
use crate::rig::{Device, NOBODY, Subject};
use crate::{check, check_eq};
use std::ptr::{null, null_mut};
use thalweg_hal::Status;
use thalweg_hal::tables::{ProfileDrainArgs, ProfileKind};

pub(super) fn refused(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    profiles.start(COMMANDS, 10)?;
    profiles.stop()?;
    let last = ProfileKind::ALL.len() as u32;
    for (kinds, capacity) in [(0, 10), (1, 10), (2 << last, 10), (u64::MAX, 10), (COMMANDS, 0)] {
        match profiles.try_start(device.handle(), kinds, capacity) {
            Ok(()) => crate::fail!("a start with kinds {kinds:#x} and capacity {capacity} is accepted"),
            Err(error) => {
                check_eq!(
                    error.status,
                    Status::InvalidArgument,
                    "status for kinds {kinds:#x} and capacity {capacity}"
                );
                check!(!error.message.is_empty(), "no text");
            }
        }
    }
    let (mut written, mut lost) = (0, 0);
    let whole = ProfileDrainArgs {
        device: device.handle(),
        out: null_mut(),
        capacity: 0,
        written: &raw mut written,
        lost: &raw mut lost,
    };
    let raw = device.raw();
    let without = [
        ("out", ProfileDrainArgs { capacity: 3, ..whole }),
        (
            "written",
            ProfileDrainArgs {
                written: null_mut(),
                ..whole
            },
        ),
        (
            "lost",
            ProfileDrainArgs {
                lost: null_mut(),
                ..whole
            },
        ),
    ];
    for (what, args) in without {
        // SAFETY: null is for the backend to refuse.
        let result = raw.status(unsafe { (profiles.table.drain)(raw.context, &raw const args) });
        check_eq!(
            result.map_err(|error| error.status),
            Err(Status::InvalidArgument),
            "a drain without {what}"
        );
    }
    // SAFETY: as above.
    let nothing = unsafe {
        [
            (profiles.table.start)(raw.context, null()),
            (profiles.table.drain)(raw.context, null()),
            (profiles.table.counters)(raw.context, null()),
        ]
    };
    check_eq!(
        nothing,
        [Status::InvalidArgument as i32; 3],
        "status for null arguments"
    );
    // No room at all is none too little.
    // SAFETY: the arguments live through the call, the places are writable.
    raw.status(unsafe { (profiles.table.drain)(raw.context, &raw const whole) })?;
    Ok(())
}

pub(super) fn unknown_device(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    for handle in [0, NOBODY] {
        let calls = [
            ("start", profiles.try_start(handle, COMMANDS, 10)),
            ("stop", profiles.stop_of(handle)),
            ("drain", profiles.drain_some(handle, 10).map(|_| ())),
            ("counters", profiles.counters(handle, 10).map(|_| ())),
        ];
        for (call, result) in calls {
            check_eq!(
                result.map_err(|error| error.status),
                Err(Status::InvalidHandle),
                "{call} of the device {handle:#x}"
            );
        }
    }
    Ok(())
}

pub(super) fn counters(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let profiles = Profiles::new(&device)?;
    profiles.start(COMMANDS, 10)?;
    let (none, count) = match profiles.counters(device.handle(), 0) {
        Ok(answer) => answer,
        Err(error) => {
            check_eq!(error.status, Status::Unsupported, "status of counters");
            check!(!error.message.is_empty(), "unsupported without a reason");
            return Err(crate::kit::Stop::Unsupported(error.message));
        }
    };
    check!(
        none.is_empty() && count > 0,
        "{count} counters; none is Unsupported"
    );
    let (all, again) = profiles.counters(device.handle(), count)?;
    check_eq!((all.len(), again), (count, count), "counters, asked for again");
    check!(
        all.iter().all(|counter| counter.name[0] != 0),
        "a counter has no name"
    );
    Ok(profiles.stop()?)
}
