//! Memory that was freed while a stream still uses it.

use crate::kit::{Case, Check, Stop};
use crate::rig::device::{at, copy, fill};
use crate::rig::{Device, Gate, Subject};
use crate::{check, check_eq};
use std::time::{Duration, Instant};
use thalweg_hal::Status;

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("memory", name, run);
    vec![
        case("reuse_waits_for_the_stream", waits_for_the_stream),
        case("reuse_by_the_same_stream_at_once", same_stream),
        case("reuse_when_the_stream_has_passed", when_passed),
        case("reuse_waits_for_every_stream", every_stream),
        case("reuse_of_memory_taken_back_unused", taken_back_unused),
        case("reuse_of_a_part_taken_back_unused", part_taken_back_unused),
        case("reuse_after_the_stream_is_gone", stream_gone),
        case("reuse_waits_for_the_stream_of_another_device", other_device),
        case("closing_waits_for_copies_of_other_devices", closing),
        case("reuse_when_memory_is_short", when_short),
        case("waiting_for_memory_blocks_nobody", blocks_nobody),
        case("impossible_sizes_do_not_wait", impossible_sizes),
        case("eager_free", eager_free),
    ]
}

const BYTES: u64 = 1 << 20;

/// A device with room for one buffer of [`BYTES`] in each block.
fn device(subject: &Subject) -> Result<Device, Stop> {
    Device::limited(subject, 0, BYTES)
}

/// Fills `buffer` on `stream` behind a gate, frees it, and hands the gate out.
pub(super) fn freed_in_use(device: &Device, stream: u64, buffer: u64) -> Result<Gate, Stop> {
    let gate = Gate::new(device, stream)?;
    device.fill_byte(stream, buffer, device.size(buffer)?, 0xee)?;
    device.free(buffer)?;
    Ok(gate)
}

/// Whether `buffer` keeps what `stream` writes to it while the gate's stream goes on.
fn keeps(device: &Device, stream: u64, buffer: u64, gate: &Gate, held: u64) -> Result<bool, Stop> {
    let bytes = device.size(buffer)?;
    device.fill_byte(stream, buffer, bytes, 0x11)?;
    device.join(stream)?;
    gate.open();
    device.join(held)?;
    Ok(device.download(stream, buffer, bytes)?.iter().all(|&b| b == 0x11))
}

fn waits_for_the_stream(subject: &Subject) -> Check {
    let device = device(subject)?;
    let (held, other) = (device.stream()?, device.stream()?);
    for target in [0, other] {
        let first = device.alloc(BYTES)?;
        let gate = freed_in_use(&device, held, first)?;
        let second = device.alloc_for(BYTES, target, "")?;
        check!(
            keeps(&device, other, second, &gate, held)?,
            "memory that a stream still writes was handed to {}",
            if target == 0 {
                "the device at large"
            } else {
                "another stream"
            }
        );
    }
    Ok(())
}

fn same_stream(subject: &Subject) -> Check {
    let device = Device::limited(subject, BYTES, BYTES)?;
    let stream = device.stream()?;
    let first = device.alloc(BYTES)?;
    let gate = freed_in_use(&device, stream, first)?;
    let start = Instant::now();
    for _ in 0..10 {
        let again = device.alloc_for(BYTES, stream, "")?;
        device.fill_byte(stream, again, BYTES, 0x22)?;
        device.free(again)?;
    }
    let last = device.alloc_for(BYTES, stream, "")?;
    check!(!device.is_idle(stream)?, "the stream has passed its gate");
    check!(
        start.elapsed() < Duration::from_secs(5),
        "the stream's own memory came back after {:?}",
        start.elapsed()
    );
    gate.open();
    let found = device.download(stream, last, BYTES)?;
    check!(
        found.iter().all(|&b| b == 0x22),
        "work on the old and the new buffer ran out of order"
    );
    Ok(())
}

fn when_passed(subject: &Subject) -> Check {
    let device = Device::limited(subject, BYTES, BYTES)?;
    let (held, other) = (device.stream()?, device.stream()?);
    let first = device.alloc(BYTES)?;
    let gate = freed_in_use(&device, held, first)?;
    gate.open();
    device.join(held)?;
    let second = device.alloc_for(BYTES, other, "")?;
    device.fill_byte(other, second, BYTES, 1)?;
    device.join(other)?;
    check_eq!(device.statistics()?.reserved, BYTES, "reserved");
    Ok(())
}

fn every_stream(subject: &Subject) -> Check {
    let device = device(subject)?;
    let (held, quick, other) = (device.stream()?, device.stream()?, device.stream()?);
    let first = device.alloc(BYTES)?;
    let gate = Gate::new(&device, held)?;
    let small = Gate::new(&device, quick)?;
    // Other bytes each: no event orders the two.
    device.fill(held, &fill(first, 16, BYTES - 16, 0xee, 1))?;
    device.fill(quick, &fill(first, 0, 16, 0xdd, 1))?;
    device.free(first)?;
    small.open();
    device.join(quick)?;
    let second = device.alloc_for(BYTES, quick, "")?;
    check!(
        keeps(&device, quick, second, &gate, held)?,
        "memory of two streams came back when one of them had passed"
    );
    let third = device.alloc_for(BYTES, other, "")?;
    device.free(third)?;
    Ok(())
}

/// The stream takes its memory back, does nothing with it and frees it: its earlier work is still under way.
fn taken_back_unused(subject: &Subject) -> Check {
    let device = device(subject)?;
    let (held, other) = (device.stream()?, device.stream()?);
    let first = device.alloc(BYTES)?;
    let gate = freed_in_use(&device, held, first)?;
    let again = device.alloc_for(BYTES, held, "")?;
    device.free(again)?;
    let second = device.alloc_for(BYTES, other, "")?;
    check!(
        keeps(&device, other, second, &gate, held)?,
        "memory that a stream took back, did not use and freed went to another while its earlier work ran"
    );
    Ok(())
}

fn part_taken_back_unused(subject: &Subject) -> Check {
    let device = device(subject)?;
    let (held, other) = (device.stream()?, device.stream()?);
    let first = device.alloc(BYTES)?;
    let gate = freed_in_use(&device, held, first)?;
    let parts = [
        device.alloc_for(BYTES / 4, held, "")?,
        device.alloc_for(BYTES / 4, held, "")?,
    ];
    for part in parts {
        device.free(part)?;
    }
    let second = device.alloc_for(BYTES / 2, other, "")?;
    let third = device.alloc_for(BYTES / 4, 0, "")?;
    device.fill_byte(other, third, BYTES / 4, 0x44)?;
    check!(
        keeps(&device, other, second, &gate, held)?,
        "parts of memory that a stream took back unused went to another while its earlier work ran"
    );
    let found = device.download(other, third, BYTES / 4)?;
    check!(
        found.iter().all(|&b| b == 0x44),
        "a part went to the device at large while the stream's work ran"
    );
    Ok(())
}

fn stream_gone(subject: &Subject) -> Check {
    let device = Device::limited(subject, BYTES, BYTES)?;
    let held = device.stream()?;
    let first = device.alloc(BYTES)?;
    let gate = freed_in_use(&device, held, first)?;
    gate.open_after(Duration::from_millis(10));
    device.destroy_stream(held)?;
    let second = device.alloc(BYTES)?;
    device.free(second)?;
    check_eq!(device.trim()?, BYTES, "bytes given back after the stream is gone");
    Ok(())
}

/// A copy between devices runs on one's stream and uses memory of both.
fn other_device(subject: &Subject) -> Check {
    let (mine, theirs) = (device(subject)?, device(subject)?);
    let (held, other) = (mine.stream()?, theirs.stream()?);
    let local = mine.upload(&vec![0x22; BYTES as usize])?;
    let source = theirs.upload(&vec![0xee; BYTES as usize])?;
    let target = theirs.alloc(BYTES)?;
    let gate = Gate::new(&mine, held)?;
    mine.copy(held, &copy(at(target, 0), at(local, 0), BYTES))?;
    mine.copy(held, &copy(at(local, 0), at(source, 0), BYTES))?;
    for freed in [target, source] {
        theirs.free(freed)?;
    }
    let again = [theirs.alloc(BYTES)?, theirs.alloc_for(BYTES, other, "")?];
    for buffer in again {
        theirs.fill_byte(other, buffer, BYTES, 0x11)?;
    }
    theirs.join(other)?;
    gate.open();
    mine.join(held)?;
    check!(
        mine.download(held, local, BYTES)?.iter().all(|&b| b == 0xee),
        "memory that another device's stream still reads was handed out"
    );
    for buffer in again {
        check!(
            theirs.download(other, buffer, BYTES)?.iter().all(|&b| b == 0x11),
            "memory that another device's stream still writes was handed out"
        );
    }
    Ok(())
}

fn closing(subject: &Subject) -> Check {
    let mine = device(subject)?;
    let theirs = device(subject)?;
    let held = mine.stream()?;
    let (source, freed) = (theirs.upload(&vec![0xee; BYTES as usize])?, theirs.alloc(BYTES)?);
    let local = mine.alloc(BYTES)?;
    let gate = Gate::new(&mine, held)?;
    mine.copy(held, &copy(at(freed, 0), at(local, 0), BYTES))?;
    mine.copy(held, &copy(at(local, 0), at(source, 0), BYTES))?;
    theirs.free(freed)?;
    gate.open_after(Duration::from_millis(50));
    drop(theirs);
    check!(
        mine.download(held, local, BYTES)?.iter().all(|&b| b == 0xee),
        "a device was closed while another one's stream read its memory"
    );
    Ok(())
}

/// With no memory left, an allocation waits for the stream that holds some instead of failing.
fn when_short(subject: &Subject) -> Check {
    let device = Device::limited(subject, BYTES, BYTES)?;
    let (held, other) = (device.stream()?, device.stream()?);
    let first = device.alloc(BYTES)?;
    let gate = freed_in_use(&device, held, first)?;
    gate.open_after(Duration::from_millis(50));
    let second = device.alloc_for(BYTES, other, "")?;
    check!(
        keeps(&device, other, second, &gate, held)?,
        "memory was handed out before the stream that used it had passed"
    );
    check_eq!(device.statistics()?.out_of_memory, 0, "out_of_memory");
    Ok(())
}

/// While one thread waits for memory others allocate, free and ask for figures.
fn blocks_nobody(subject: &Subject) -> Check {
    let device = Device::limited(subject, 2 * BYTES, BYTES)?;
    let held = device.stream()?;
    let (first, second) = (device.alloc(BYTES)?, device.alloc(BYTES / 2)?);
    let gate = freed_in_use(&device, held, first)?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| device.alloc(BYTES));
        std::thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        let others = (|| {
            device.statistics()?;
            device.free(second)?;
            let third = device.alloc(BYTES / 4)?;
            device.free(third)
        })();
        let took = start.elapsed();
        gate.open();
        let waited = waiter.join();
        others?;
        check!(
            took < Duration::from_secs(2),
            "calls took {took:?} while another waited for memory"
        );
        match waited {
            Ok(buffer) => Ok(device.free(buffer?)?),
            Err(_) => Err(Stop::Failed("a thread panicked".into())),
        }
    })
}

fn impossible_sizes(subject: &Subject) -> Check {
    let device = Device::limited(subject, 2 * BYTES, BYTES)?;
    let held = device.stream()?;
    let first = device.alloc(BYTES)?;
    let _gate = freed_in_use(&device, held, first)?;
    let start = Instant::now();
    for bytes in [2 * BYTES + 1, 1 << 50, u64::MAX] {
        let status = device.alloc(bytes).map(drop).map_err(|error| error.status);
        check_eq!(
            status,
            Err(Status::OutOfMemory),
            "an allocation of {bytes} bytes under a limit of 2 MiB"
        );
    }
    check!(
        start.elapsed() < Duration::from_secs(2),
        "it took {:?} to refuse what can never fit",
        start.elapsed()
    );
    Ok(())
}

fn eager_free(subject: &Subject) -> Check {
    let device = device(subject)?;
    let held = device.stream()?;
    let first = device.alloc(BYTES)?;
    let gate = freed_in_use(&device, held, first)?;
    let figures = device.statistics()?;
    check_eq!(
        figures.eager_free,
        BYTES,
        "eager_free while a stream still uses what was freed"
    );
    check_eq!(
        (figures.allocated, figures.idle),
        (0, 0),
        "allocated and idle meanwhile"
    );
    check_eq!(device.trim()?, 0, "bytes given back meanwhile");
    gate.open();
    device.join(held)?;
    let figures = device.statistics()?;
    check_eq!(figures.eager_free, 0, "eager_free after the stream has passed");
    check_eq!(figures.idle, BYTES, "idle after the stream has passed");
    Ok(())
}
