//! Work of two streams on the same bytes, with and without what orders it.

use crate::work::{self, at, copy, fill, host};
use crate::{Found, alone, expect, subject, wrong};
use thalweg_conformance::Subject;
use thalweg_conformance::kit::Stop;
use thalweg_conformance::rig::{Device, callback};

const FIRST: work::Site = ("first", "src/a.rs", 1);
const SECOND: work::Site = ("second", "src/b.rs", 2);

/// The codes that are planted here.
pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
    RACES.iter().map(|race| race.0)
}

/// Code, fault, and the error of the second of two accesses.
type Race = (&'static str, &'static str, fn(&Subject) -> Found);

const RACES: &[Race] = &[
    ("TW-ORDER-001", "program", |subject| race(subject, (true, false))),
    ("TW-ORDER-002", "program", |subject| race(subject, (false, true))),
    ("TW-ORDER-003", "program", |subject| race(subject, (true, true))),
    ("TW-ORDER-001", "program", host_race),
    ("TW-ORDER-003", "core", program_race),
];

/// A device with two streams, a buffer of 64 bytes and another.
struct Place {
    device: Device,
    streams: [u64; 2],
    buffers: [u64; 2],
}

impl Place {
    fn new(subject: &Subject) -> Result<Place, Stop> {
        let device = Device::open(subject)?;
        Ok(Place {
            streams: [device.stream()?, device.stream()?],
            buffers: [device.alloc(64)?, device.alloc(64)?],
            device,
        })
    }

    /// Writes or reads bytes `from..from + 32` of the first buffer.
    fn touch(&self, stream: usize, writes: bool, from: u64, site: work::Site) -> thalweg_hal::Result<()> {
        let (stream, [own, other]) = (self.streams[stream], self.buffers);
        match writes {
            true => fill(&self.device, stream, (own, from, 32), site),
            // The first stream reads into one half, the second into the other.
            false => copy(
                &self.device,
                stream,
                (at(other, if site == FIRST { 0 } else { 32 }), at(own, from)),
                (32, 1),
                site,
            ),
        }
    }
}

fn race(subject: &Subject, (first, second): (bool, bool)) -> Found {
    let place = Place::new(subject)?;
    place.touch(0, first, 0, FIRST)?;
    let error = wrong(place.touch(1, second, 16, SECOND))?;
    // Both, where each is, and the missing event.
    let verb = |writes| if writes { "writes" } else { "reads" };
    for part in [
        format!(
            "second at src/b.rs:2 on stream {:#x} {} bytes 16..48",
            place.streams[1],
            verb(second)
        ),
        format!(
            "first at src/a.rs:1 on stream {:#x} {} bytes 0..32",
            place.streams[0],
            verb(first)
        ),
        format!("record an event on stream {:#x}", place.streams[0]),
    ] {
        assert!(error.message.contains(&part), "{part}: {error}");
    }
    place.device.synchronize()?;
    Ok(error)
}

fn host_race(subject: &Subject) -> Found {
    let place = Place::new(subject)?;
    let mut bytes = vec![0_u8; 64];
    let (device, [one, two], [from, to]) = (&place.device, place.streams, place.buffers);
    copy(device, one, (host(&mut bytes), at(from, 0)), (64, 1), FIRST)?;
    let error = wrong(copy(device, two, (at(to, 0), host(&mut bytes)), (64, 1), SECOND))?;
    assert!(error.message.contains("of host memory"), "{error}");
    device.synchronize()?;
    Ok(error)
}

fn program_race(subject: &Subject) -> Found {
    let place = Place::new(subject)?;
    let program = crate::planted::writer(&place.device, place.buffers[0])?;
    place.touch(0, true, 0, FIRST)?;
    let error = wrong(crate::planted::run(
        &place.device,
        program,
        place.streams[1],
        &mut [],
    ))?;
    place.device.synchronize()?;
    Ok(error)
}

/// What orders the second access after the first.
type Order = fn(&Place) -> Result<(), Stop>;

const ORDERS: &[(&str, Order)] = &[
    ("an event that the stream waits for", |place| {
        let event = place.device.event(false)?;
        place.device.record(event, place.streams[0])?;
        Ok(place.device.wait_event(place.streams[1], event)?)
    }),
    ("a stream between", |place| {
        let middle = place.device.stream()?;
        let (one, two) = (place.device.event(false)?, place.device.event(false)?);
        place.device.record(one, place.streams[0])?;
        place.device.wait_event(middle, one)?;
        place.device.record(two, middle)?;
        Ok(place.device.wait_event(place.streams[1], two)?)
    }),
    ("an event that the host waits for", |place| {
        let event = place.device.event(false)?;
        place.device.record(event, place.streams[0])?;
        Ok(place.device.wait(event, u64::MAX)?)
    }),
    ("the host, which waits for the stream", |place| {
        Ok(place.device.join(place.streams[0])?)
    }),
    ("the host, which waits for the device", |place| {
        Ok(place.device.synchronize()?)
    }),
    ("the host, which asks the stream", |place| {
        while !place.device.is_idle(place.streams[0])? {
            std::thread::yield_now();
        }
        Ok(())
    }),
    ("a callback that has run", |place| {
        let (tell, told) = std::sync::mpsc::channel();
        callback(&place.device, place.streams[0], move || {
            tell.send(()).unwrap();
            0
        })?;
        told.recv().unwrap();
        Ok(())
    }),
];

/// What orders nothing.
const NO_ORDERS: &[(&str, Order)] = &[
    ("an event that was recorded before", |place| {
        let event = place.device.event(false)?;
        place.device.record(event, place.streams[1])?;
        Ok(place.device.wait_event(place.streams[1], event)?)
    }),
    ("an event that was never recorded", |place| {
        let event = place.device.event(false)?;
        Ok(place.device.wait_event(place.streams[1], event)?)
    }),
    ("the host, which waits for the other stream", |place| {
        Ok(place.device.join(place.streams[1])?)
    }),
];

fn ordered(subject: &Subject) -> Result<(), Stop> {
    for (what, order) in ORDERS {
        let place = Place::new(subject)?;
        place.touch(0, true, 0, FIRST)?;
        order(&place)?;
        let second = place.touch(1, true, 0, SECOND);
        assert!(second.is_ok(), "{what}: {second:?}");
        place.device.synchronize()?;
    }
    for (what, order) in NO_ORDERS {
        let place = Place::new(subject)?;
        place.touch(0, true, 0, FIRST)?;
        order(&place)?;
        let Err(error) = place.touch(1, true, 0, SECOND) else {
            panic!("{what}: nothing is reported");
        };
        expect(&error.message, "TW-ORDER-003", "program", &[]);
        place.device.synchronize()?;
    }
    // Other bytes, and reads of the same.
    let place = Place::new(subject)?;
    place.touch(0, true, 0, FIRST)?;
    place.touch(1, true, 32, SECOND)?;
    place.device.synchronize()?;
    place.touch(0, false, 0, FIRST)?;
    place.touch(1, false, 0, SECOND)?;
    place.device.synchronize()?;
    Ok(())
}

pub(crate) fn all(backend: &str) {
    let _alone = alone(None);
    let Some(subject) = subject(backend, &["validate"], &[]) else {
        return;
    };
    for (code, fault, race) in RACES {
        match race(&subject) {
            Ok(error) => expect(&error.message, code, fault, &[]),
            Err(Stop::Unsupported(_)) if backend == "plain_c" => {}
            Err(stop) => panic!("{code}: {stop:?}"),
        }
    }
    ordered(&subject).unwrap_or_else(|stop| panic!("{stop:?}"));
}
