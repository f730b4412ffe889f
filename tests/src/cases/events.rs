//! Events: what they cover, how long they take, and streams that wait for them.

use crate::kit::{Case, Check};
use crate::rig::device::{at, copy, fill};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Gate, Subject, callback};
use crate::{check, check_eq};
use std::time::{Duration, Instant};
use thalweg_hal::ir::{Access, Kernel, Level, Role, ScalarOp};
use thalweg_hal::tables::{Capability, ElapsedArgs};
use thalweg_hal::{DType, Result, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("events", name, run);
    vec![
        case("never_recorded", never_recorded),
        case("covers_the_work_so_far", covers),
        case("a_new_record_replaces_the_old", recorded_again),
        case("a_waiter_keeps_the_record_it_saw", waiter_keeps_record),
        case("timeout", timeout),
        case("wait_on_own_stream", own_stream),
        case("destroyed_while_waited_for", destroyed),
        case("elapsed", elapsed),
        case("elapsed_errors", elapsed_errors),
        case("ping_pong_10000", ping_pong),
        case("square_of_square_10000", square_of_square),
        case("diamond", diamond),
        case("stale_event", stale),
    ]
}

fn never_recorded(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (event, stream) = (device.event(false)?, device.stream()?);
    check!(
        device.is_reached(event)?,
        "query of an event that was never recorded is false"
    );
    device.wait(event, u64::MAX)?;
    device.wait(event, 0)?;
    device.wait_event(stream, event)?;
    device.join(stream)?;
    Ok(device.destroy_event(event)?)
}

fn covers(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (event, stream) = (device.event(false)?, device.stream()?);
    let before = Gate::new(&device, stream)?;
    device.record(event, stream)?;
    let after = Gate::new(&device, stream)?;
    check!(
        !device.is_reached(event)?,
        "an event is reached before the work that it covers is done"
    );
    before.open();
    device.wait(event, u64::MAX)?;
    check!(device.is_reached(event)?, "query is false after wait");
    check!(
        !device.is_idle(stream)?,
        "wait for an event waited for later work"
    );
    after.open();
    device.join(stream)?;
    device.record(event, stream)?;
    device.wait(event, u64::MAX)?;
    Ok(())
}

fn recorded_again(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let event = device.event(false)?;
    let (first, second) = (device.stream()?, device.stream()?);
    device.record(event, first)?;
    device.wait(event, u64::MAX)?;
    let gate = Gate::new(&device, second)?;
    device.record(event, second)?;
    check!(
        !device.is_reached(event)?,
        "the old record of an event still counts"
    );
    device.record(event, first)?;
    device.wait(event, 5_000_000_000)?;
    check!(
        device.is_reached(event)?,
        "a record that was replaced still counts"
    );
    gate.open();
    Ok(())
}

fn waiter_keeps_record(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let event = device.event(false)?;
    let (held, waiter, other) = (device.stream()?, device.stream()?, device.stream()?);
    let gate = Gate::new(&device, held)?;
    device.record(event, held)?;
    device.wait_event(waiter, event)?;
    // The waiter was told of the first record and must wait for it, whatever becomes of the event.
    device.record(event, other)?;
    device.wait(event, 5_000_000_000)?;
    std::thread::sleep(Duration::from_millis(5));
    check!(
        !device.is_idle(waiter)?,
        "a stream no longer waits for a record that was replaced later"
    );
    gate.open();
    Ok(device.join(waiter)?)
}

fn timeout(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (event, stream) = (device.event(false)?, device.stream()?);
    let gate = Gate::new(&device, stream)?;
    device.record(event, stream)?;
    for nanoseconds in [0, 1, 1_000, 20_000_000] {
        let start = Instant::now();
        let status = device.wait(event, nanoseconds).map_err(|error| error.status);
        let took = start.elapsed();
        check_eq!(status, Err(Status::Timeout), "a wait of {nanoseconds} ns");
        check!(
            took >= Duration::from_nanos(nanoseconds),
            "a wait of {nanoseconds} ns ended after {took:?}"
        );
        check!(
            took < Duration::from_secs(5),
            "a wait of {nanoseconds} ns took {took:?}"
        );
    }
    gate.open_after(Duration::from_millis(5));
    device.wait(event, u64::MAX - 1)?;
    Ok(())
}

fn own_stream(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (event, stream) = (device.event(false)?, device.stream()?);
    let gate = Gate::new(&device, stream)?;
    device.record(event, stream)?;
    device.wait_event(stream, event)?;
    gate.open();
    Ok(device.join(stream)?)
}

fn destroyed(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let event = device.event(false)?;
    let (held, waiter) = (device.stream()?, device.stream()?);
    let (a, b) = (device.alloc(64)?, device.alloc(64)?);
    let gate = Gate::new(&device, held)?;
    device.fill_byte(held, a, 64, 7)?;
    device.record(event, held)?;
    device.wait_event(waiter, event)?;
    device.copy(waiter, &copy(at(b, 0), at(a, 0), 64))?;
    device.destroy_event(event)?;
    std::thread::sleep(Duration::from_millis(2));
    check!(
        !device.is_idle(waiter)?,
        "a stream no longer waits for an event that was destroyed"
    );
    gate.open();
    check_eq!(
        device.download(waiter, b, 64)?,
        vec![7; 64],
        "what the stream copied after its wait"
    );
    Ok(())
}

fn elapsed_of(device: &Device, start: u64, end: u64) -> Result<i64> {
    let raw = device.raw();
    let args = ElapsedArgs { start, end };
    // SAFETY: the arguments live through the call, the out pointer is writable.
    raw.out(0, |out| unsafe {
        (raw.tables.event.elapsed)(raw.context, &raw const args, out)
    })
}

fn elapsed(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(Capability::Timing)?;
    let stream = device.stream()?;
    let (start, end) = (device.event(true)?, device.event(true)?);
    let host = Instant::now();
    device.record(start, stream)?;
    callback(&device, stream, || {
        std::thread::sleep(Duration::from_millis(20));
        0
    })?;
    device.record(end, stream)?;
    device.join(stream)?;
    let host = host.elapsed().as_nanos() as i64;
    let (forth, back) = (elapsed_of(&device, start, end)?, elapsed_of(&device, end, start)?);
    check!(
        (19_000_000..=host + 2_000_000).contains(&forth),
        "{forth} ns passed between two events, {host} ns on the host, and a callback slept 20 ms between them"
    );
    check_eq!(back, -forth, "elapsed, asked the other way round");
    check_eq!(
        elapsed_of(&device, end, end)?,
        0,
        "elapsed from an event to itself"
    );
    Ok(())
}

fn elapsed_errors(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(Capability::Timing)?;
    let stream = device.stream()?;
    let (timed, never, plain, late) = (
        device.event(true)?,
        device.event(true)?,
        device.event(false)?,
        device.event(true)?,
    );
    device.record(timed, stream)?;
    device.record(plain, stream)?;
    let gate = Gate::new(&device, stream)?;
    device.record(late, stream)?;
    device.wait(timed, u64::MAX)?;
    for (what, start, end) in [
        ("an event that was never recorded", timed, never),
        ("a start that was never recorded", never, timed),
        ("an event without timing", timed, plain),
        ("an event that is not reached", timed, late),
    ] {
        let error = elapsed_of(&device, start, end);
        let Err(error) = error else {
            crate::fail!("elapsed with {what} is accepted");
        };
        check!(!error.message.is_empty(), "elapsed with {what} gives no text");
        check!(
            matches!(error.status, Status::InvalidArgument | Status::Unsupported),
            "elapsed with {what}: {} ({error})",
            error.status
        );
    }
    gate.open();
    Ok(())
}

/// Two streams hand one cell to and fro: each round the second reads what the first has just written, and the first
/// writes again only when it was read.
fn ping_pong(subject: &Subject) -> Check {
    const ROUNDS: u64 = 10_000;
    let device = Device::open(subject)?;
    let (first, second) = (device.stream()?, device.stream()?);
    let (written, read) = (device.event(false)?, device.event(false)?);
    let (cell, log) = (device.alloc(8)?, device.alloc(8 * ROUNDS)?);
    for i in 0..ROUNDS {
        device.wait_event(first, read)?;
        device.fill(first, &fill(cell, 0, 8, i, 8))?;
        device.record(written, first)?;
        device.wait_event(second, written)?;
        device.copy(second, &copy(at(log, i * 8), at(cell, 0), 8))?;
        device.record(read, second)?;
    }
    let found = from_bytes(DType::U64, &device.download(second, log, 8 * ROUNDS)?);
    check!(device.is_idle(second)?, "a stream is not idle after synchronize");
    device.join(first)?;
    for (i, value) in (0..).zip(found) {
        check_eq!(value, i, "what the second stream read in round {i}");
    }
    Ok(())
}

/// A20: `b = a * a` on one stream, its event, `c = b * b` on another.
fn square_of_square(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let mut kernel = Kernel::new("square", 1, 0);
    let input = kernel.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    let square = kernel.op(ScalarOp::Mul, &[value, value]);
    kernel.store(output, square);
    let handle = device.compile(&kernel)?;
    let job = Job {
        kernel,
        extents: vec![16],
        arguments: vec![Argument::default(), Argument::default()],
        scalars: Vec::new(),
    };
    let values: Vec<u64> = (0..16_u8).map(|i| u64::from(f32::from(i).to_bits())).collect();
    let expected: Vec<u64> = (0..16_u8)
        .map(|i| u64::from(f32::from(i).powi(4).to_bits()))
        .collect();
    let a = device.upload(&to_bytes(DType::F32, &values))?;
    let (b, c) = (device.alloc(64)?, device.alloc(64)?);
    let (s1, s2, event) = (device.stream()?, device.stream()?, device.event(false)?);
    let (first, second) = (job.bindings(&[a, b]), job.bindings(&[b, c]));
    let (first, second) = (job.launch(handle, &first), job.launch(handle, &second));
    for round in 0..10_000 {
        device.fill_byte(s2, b, 64, 0)?;
        device.fill_byte(s2, c, 64, 0)?;
        device.join(s2)?;
        device.launch(s1, &first, "square")?;
        device.record(event, s1)?;
        device.wait_event(s2, event)?;
        device.launch(s2, &second, "square of square")?;
        let found = from_bytes(DType::F32, &device.download(s2, c, 64)?);
        check_eq!(found, expected, "the square of the square in round {round}");
        device.join(s1)?;
        check!(
            device.is_idle(s1)? && device.is_idle(s2)?,
            "query is false after synchronize"
        );
    }
    Ok(())
}

fn diamond(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let streams = [
        device.stream()?,
        device.stream()?,
        device.stream()?,
        device.stream()?,
    ];
    let [top, left, right, bottom] = streams;
    let events = [device.event(false)?, device.event(false)?, device.event(false)?];
    let (source, out) = (device.alloc(8)?, device.alloc(16)?);
    for i in 0..500_u64 {
        device.fill(top, &fill(source, 0, 8, i, 8))?;
        device.record(events[0], top)?;
        device.wait_event(left, events[0])?;
        device.wait_event(right, events[0])?;
        device.copy(left, &copy(at(out, 0), at(source, 0), 8))?;
        device.copy(right, &copy(at(out, 8), at(source, 0), 8))?;
        device.record(events[1], left)?;
        device.record(events[2], right)?;
        device.wait_event(bottom, events[1])?;
        device.wait_event(bottom, events[2])?;
        let found = from_bytes(DType::U64, &device.download(bottom, out, 16)?);
        check_eq!(found, vec![i, i], "both arms in round {i}");
    }
    Ok(())
}

fn stale(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (event, stream) = (device.event(true)?, device.stream()?);
    device.destroy_event(event)?;
    let results = [
        ("query", device.is_reached(event).err()),
        ("wait", device.wait(event, 0).err()),
        ("record", device.record(event, stream).err()),
        ("wait_event", device.wait_event(stream, event).err()),
        ("elapsed", elapsed_of(&device, event, event).err()),
        ("destroy", device.destroy_event(event).err()),
    ];
    for (call, error) in results {
        let status = error.map(|error| error.status);
        check_eq!(
            status,
            Some(Status::InvalidHandle),
            "{call} with an event that was destroyed"
        );
    }
    Ok(())
}
