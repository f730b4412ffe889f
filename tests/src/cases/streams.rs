//! Streams: order, asynchrony, priorities, callbacks, errors that stick.

use crate::kit::{Case, Check, Stop};
use crate::rig::device::{at, copy, copy_packet, fill, fill_packet};
use crate::rig::values::Random;
use crate::rig::{Device, Gate, Subject, callback};
use crate::{check, check_eq};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use thalweg_hal::Status;

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("streams", name, run);
    vec![
        case("in_order", in_order),
        case("batch_in_order", batch_in_order),
        case("a_bad_packet_holds_back_the_batch", bad_packet),
        case("idle_at_first", idle_at_first),
        case("blocked_callback_does_not_block_the_caller", asynchronous),
        case("long_work_does_not_block_the_caller", long_work),
        case("streams_do_not_wait_for_each_other", independent),
        case("priorities", priorities),
        case("priority_out_of_range", priority_out_of_range),
        case("destroy_waits", destroy_waits),
        case("close_waits", close_waits),
        case("stale_stream", stale_stream),
        case("foreign_device", foreign_device),
        case("many_streams", many_streams),
        case("synchronize_waits_for_all", synchronize_all),
    ]
}

fn in_order(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let buffer = device.alloc(4096)?;
    let mut random = Random::new(3);
    let mut expected = vec![0_u8; 4096];
    device.fill_byte(stream, buffer, 4096, 0)?;
    for step in 0..500_u64 {
        let (start, len) = (random.below(4000), random.below(96) + 1);
        device.fill(stream, &fill(buffer, start, len, step & 0xff, 1))?;
        expected[start as usize..(start + len) as usize].fill(step as u8);
    }
    check!(
        device.download(stream, buffer, 4096)? == expected,
        "fills of one stream ran out of order"
    );
    Ok(())
}

fn batch_in_order(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let (a, b) = (device.alloc(64)?, device.alloc(64)?);
    let first = fill(a, 0, 64, 1, 1);
    let to_b = copy(at(b, 0), at(a, 0), 64);
    let second = fill(a, 0, 64, 2, 1);
    let back = copy(at(b, 0), at(a, 16), 16);
    let none = std::ptr::null();
    device.submit(
        stream,
        &[
            fill_packet(&first, none),
            copy_packet(&to_b, none),
            fill_packet(&second, none),
            copy_packet(&back, none),
        ],
    )?;
    device.submit(stream, &[])?;
    let found = device.download(stream, b, 64)?;
    check_eq!(found[..16], [2; 16], "bytes that the last packet copied");
    check_eq!(found[16..], [1; 48], "bytes that the second packet copied");
    Ok(())
}

fn bad_packet(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let buffer = device.alloc(64)?;
    device.fill_byte(stream, buffer, 64, 1)?;
    let (good, bad) = (fill(buffer, 0, 64, 2, 1), fill(buffer, 60, 8, 2, 1));
    let none = std::ptr::null();
    let result = device.submit(stream, &[fill_packet(&good, none), fill_packet(&bad, none)]);
    check_eq!(
        result.map_err(|error| error.status),
        Err(Status::OutOfBounds),
        "a batch whose second packet is out of bounds"
    );
    let found = device.download(stream, buffer, 64)?;
    check_eq!(found, vec![1; 64], "the buffer after a batch that was refused");
    Ok(())
}

fn idle_at_first(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    check!(device.is_idle(stream)?, "a new stream is not idle");
    device.join(stream)?;
    let buffer = device.alloc(1 << 20)?;
    device.fill_byte(stream, buffer, 1 << 20, 3)?;
    device.join(stream)?;
    check!(device.is_idle(stream)?, "a stream is not idle after synchronize");
    Ok(())
}

fn asynchronous(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(64)?);
    device.fill_byte(stream, buffer, 64, 1)?;
    device.join(stream)?;
    let gate = Gate::new(&device, stream)?;
    check!(
        !device.is_idle(stream)?,
        "query is true while a callback blocks the stream"
    );
    device.fill_byte(stream, buffer, 64, 2)?;
    check!(
        !device.is_idle(stream)?,
        "query is true while work waits behind a callback"
    );
    check!(
        gate.reached(),
        "the callback is not called while the host does not wait"
    );
    check!(!device.is_idle(stream)?, "query is true while a callback runs");
    let other = device.stream()?;
    let found = device.download(other, buffer, 64)?;
    check_eq!(
        found,
        vec![1; 64],
        "the buffer before the stream has passed the callback"
    );
    gate.open();
    let found = device.download(stream, buffer, 64)?;
    check_eq!(
        found,
        vec![2; 64],
        "the buffer after the stream has passed the callback"
    );
    check!(device.is_idle(stream)?, "query is false after synchronize");
    Ok(())
}

/// Doubles the work until it is still under way when the call has returned.
fn long_work(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    for shift in 16..27 {
        let bytes = 1_u64 << shift;
        let buffer = device.alloc(bytes)?;
        device.fill_byte(stream, buffer, bytes, 1)?;
        device.join(stream)?;
        let half = copy(at(buffer, 0), at(buffer, bytes / 2), bytes / 2);
        for _ in 0..16 {
            device.copy(stream, &half)?;
        }
        let busy = !device.is_idle(stream)?;
        device.join(stream)?;
        device.free(buffer)?;
        if busy {
            return Ok(());
        }
    }
    Err(Stop::Failed(
        "16 copies of 32 MiB are done whenever the call returns".into(),
    ))
}

fn independent(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (held, free) = (device.stream()?, device.stream()?);
    let buffer = device.alloc(256)?;
    let gate = Gate::new(&device, held)?;
    device.fill_byte(free, buffer, 256, 9)?;
    let found = device.download(free, buffer, 256)?;
    check_eq!(found, vec![9; 256], "a stream beside one that is held");
    check!(!device.is_idle(held)?, "the held stream has passed its gate");
    gate.open();
    Ok(device.join(held)?)
}

fn priorities(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (low, high) = (
        device.properties().priority_low,
        device.properties().priority_high,
    );
    let buffer = device.alloc(64)?;
    for priority in low..=high {
        let stream = device.stream_of(priority)?;
        device.fill_byte(stream, buffer, 64, 1)?;
        device.destroy_stream(stream)?;
    }
    if low == high {
        return Err(Stop::Unsupported("priority: there is one only".into()));
    }
    Ok(())
}

fn priority_out_of_range(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (low, high) = (
        device.properties().priority_low,
        device.properties().priority_high,
    );
    for priority in [i32::MIN, low.saturating_sub(1), high.saturating_add(1), i32::MAX] {
        if (low..=high).contains(&priority) {
            continue;
        }
        let status = device.stream_of(priority).map_err(|error| error.status);
        check_eq!(
            status,
            Err(Status::InvalidArgument),
            "a stream of priority {priority}"
        );
    }
    Ok(())
}

fn destroy_waits(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let done = Arc::new(AtomicBool::new(false));
    let gate = Gate::new(&device, stream)?;
    let set = Arc::clone(&done);
    callback(&device, stream, move || {
        set.store(true, Ordering::SeqCst);
        0
    })?;
    gate.open_after(Duration::from_millis(30));
    device.destroy_stream(stream)?;
    check!(
        done.load(Ordering::SeqCst),
        "destroy returned before the stream's work was done"
    );
    Ok(())
}

fn close_waits(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(1 << 16)?);
    let done = Arc::new(AtomicBool::new(false));
    let gate = Gate::new(&device, stream)?;
    device.fill_byte(stream, buffer, 1 << 16, 1)?;
    let set = Arc::clone(&done);
    callback(&device, stream, move || {
        set.store(true, Ordering::SeqCst);
        0
    })?;
    gate.open_after(Duration::from_millis(30));
    device.raw().close(device.handle())?;
    check!(
        done.load(Ordering::SeqCst),
        "close returned before the device's work was done"
    );
    for (what, error) in [
        ("a stream", device.join(stream).err()),
        ("a buffer", device.size(buffer).err()),
        ("the device", device.synchronize().err()),
    ] {
        let status = error.map(|error| error.status);
        check_eq!(
            status,
            Some(Status::InvalidHandle),
            "{what} of a device that was closed"
        );
    }
    Ok(())
}

fn stale_stream(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let (event, buffer) = (device.event(false)?, device.alloc(16)?);
    device.destroy_stream(stream)?;
    let results = [
        ("synchronize", device.join(stream).err()),
        ("query", device.is_idle(stream).err()),
        ("destroy", device.destroy_stream(stream).err()),
        ("fill", device.fill_byte(stream, buffer, 16, 0).err()),
        ("callback", callback(&device, stream, || 0).err()),
        ("record", device.record(event, stream).err()),
        ("wait_event", device.wait_event(stream, event).err()),
        ("alloc", device.alloc_for(16, stream, "").err()),
    ];
    for (call, error) in results {
        let status = error.map(|error| error.status);
        check_eq!(
            status,
            Some(Status::InvalidHandle),
            "{call} with a stream that was destroyed"
        );
    }
    Ok(())
}

fn foreign_device(subject: &Subject) -> Check {
    let (here, there) = (Device::open(subject)?, Device::open(subject)?);
    let (stream, event, buffer) = (there.stream()?, there.event(false)?, there.alloc(64)?);
    let own = here.stream()?;
    let results = [
        (
            "event recorded on a foreign stream",
            there.record(event, own).err(),
        ),
        (
            "stream that waits for a foreign event",
            here.wait_event(own, event).err(),
        ),
        (
            "allocation for a foreign stream",
            here.alloc_for(64, stream, "").err(),
        ),
        (
            "fill of a foreign buffer",
            here.fill_byte(own, buffer, 64, 0).err(),
        ),
        (
            "copy between two foreign buffers",
            here.copy(own, &copy(at(buffer, 0), at(buffer, 32), 16)).err(),
        ),
    ];
    for (what, error) in results {
        let status = error.map(|error| error.status);
        check_eq!(status, Some(Status::InvalidHandle), "{what}");
    }
    Ok(())
}

fn many_streams(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let buffer = device.alloc(64 * 256)?;
    let streams: Vec<u64> = (0..64).map(|_| device.stream()).collect::<Result<_, _>>()?;
    for round in 0..4_u64 {
        for (i, &stream) in (0..).zip(&streams) {
            device.fill(stream, &fill(buffer, i * 256, 256, i + round, 1))?;
        }
    }
    device.synchronize()?;
    let found = device.download(streams[0], buffer, 64 * 256)?;
    for (i, part) in found.chunks(256).enumerate() {
        check!(
            part.iter().all(|&b| usize::from(b) == i + 3),
            "stream {i} of 64 has not done its work"
        );
    }
    for stream in streams {
        device.destroy_stream(stream)?;
    }
    Ok(())
}

fn synchronize_all(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let done = Arc::new(AtomicU32::new(0));
    let start = Instant::now();
    for _ in 0..4 {
        let stream = device.stream()?;
        let done = Arc::clone(&done);
        callback(&device, stream, move || {
            std::thread::sleep(Duration::from_millis(20));
            done.fetch_add(1, Ordering::SeqCst);
            0
        })?;
    }
    let submitted = start.elapsed();
    device.synchronize()?;
    check_eq!(
        done.load(Ordering::SeqCst),
        4,
        "streams whose work was done when the device's synchronize returned"
    );
    check!(
        submitted < Duration::from_millis(60),
        "four sleeping callbacks were called while they were submitted"
    );
    Ok(())
}
