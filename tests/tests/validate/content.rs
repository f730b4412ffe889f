//! What lies in memory, with the checks that are opt in.

use crate::work::{self, at, copy, fill, host};
use crate::{alone, expect, reports, subject, wrong};
use thalweg_conformance::Subject;
use thalweg_conformance::kit::Stop;
use thalweg_conformance::rig::{Device, Gate};

pub(crate) const CODES: [&str; 2] = ["TW-CONTENT-002", "TW-CONTENT-003"];

const MADE: work::Site = ("empty", "src/a.rs", 1);
const READ: work::Site = ("read", "src/b.rs", 2);

pub(crate) fn all(backend: &str) {
    let _alone = alone(Some("content"));
    let Some(subject) = subject(backend, &["validate"], &[]) else {
        return;
    };
    for (what, case) in [
        ("fresh", fresh as fn(&Subject) -> Result<(), Stop>),
        ("changed", changed),
        ("sound", sound),
    ] {
        // The work of the backend in C is done when the call returns, so nothing can change meanwhile.
        if (backend, what) != ("plain_c", "changed") {
            case(&subject).unwrap_or_else(|stop| panic!("{what}: {stop:?}"));
        }
    }
}

/// The second half of a buffer is read, of which the first half was written.
fn fresh(subject: &Subject) -> Result<(), Stop> {
    let device = Device::open(subject)?;
    let (stream, buffer, other) = (
        device.stream()?,
        work::alloc(&device, 64, MADE)?,
        device.alloc(64)?,
    );
    fill(&device, stream, (buffer, 0, 32), MADE)?;
    copy(&device, stream, (at(other, 0), at(buffer, 0)), (32, 1), READ)?;
    let error = wrong(copy(
        &device,
        stream,
        (at(other, 32), at(buffer, 16)),
        (32, 1),
        READ,
    ))?;
    let parts = [
        "read at src/b.rs:2 reads bytes 16..48",
        "empty at src/a.rs:1",
        "byte 32 was never written",
    ];
    expect(&error.message, "TW-CONTENT-002", "program", &parts);
    device.synchronize()?;
    Ok(())
}

/// The program writes host memory while a copy of it waits in a stream.
fn changed(subject: &Subject) -> Result<(), Stop> {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(64)?);
    let mut bytes = vec![1_u8; 64];
    let gate = Gate::new(&device, stream)?;
    copy(&device, stream, (at(buffer, 0), host(&mut bytes)), (64, 1), READ)?;
    // SAFETY: the vector lives; the write is what is planted.
    unsafe { bytes.as_mut_ptr().add(9).write_volatile(2) };
    gate.open();
    assert!(device.join(stream).is_err());
    let lines: Vec<String> = reports::take().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    expect(
        &lines[0],
        "TW-CONTENT-003",
        "program",
        &["read at src/b.rs:2 reads 64 bytes of host memory"],
    );
    Ok(())
}

/// What is right is left alone: sizes are those that were asked for, canaries stay, memory that was written is read.
fn sound(subject: &Subject) -> Result<(), Stop> {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    for bytes in [0, 1, 64, 5000] {
        let buffer = device.upload(&vec![7; bytes])?;
        assert_eq!(device.size(buffer)?, bytes as u64);
        assert_eq!(device.download(stream, buffer, bytes as u64)?, vec![7; bytes]);
        device.synchronize()?;
        device.free(buffer)?;
    }
    let kept = device.alloc_for(64, stream, "kept")?;
    device.fill_byte(stream, kept, 64, 3)?;
    device.synchronize()?;
    device.free(kept)?;
    let logged = reports::take();
    assert!(logged.is_empty(), "{logged:?}");
    Ok(())
}
