//! Host callbacks, and errors that stick to a stream.

use crate::kit::{Case, Check};
use crate::rig::{Device, Subject, callback};
use crate::{check, check_eq};
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg_hal::Status;

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("streams", name, run);
    vec![
        case("callbacks_in_order", callbacks_in_order),
        case("callback_sees_the_work_before_it", callback_sees_work),
        case("callback_error_sticks_once", error_sticks_once),
        case("error_of_one_stream_alone", error_of_one_stream),
        case("device_synchronize_reports_once", device_reports_once),
        case("work_after_an_error_runs", work_after_error),
    ]
}

fn callbacks_in_order(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let (send, received) = channel();
    for i in 0..1000 {
        let send = send.clone();
        callback(&device, stream, move || {
            // The receiver lives until the stream is done.
            let _ = send.send(i);
            0
        })?;
    }
    device.join(stream)?;
    let found: Vec<i32> = received.try_iter().collect();
    check!(found.is_sorted(), "callbacks ran out of order");
    check_eq!(
        found.len(),
        1000,
        "callbacks that ran before synchronize returned"
    );
    Ok(())
}

fn callback_sees_work(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(thalweg_hal::tables::Capability::Map)?;
    let stream = device.stream()?;
    let buffer = device.alloc(4096)?;
    let address = device.map(buffer)? as usize;
    for value in 1..100_u8 {
        device.fill_byte(stream, buffer, 4096, value)?;
        let (send, received) = channel();
        callback(&device, stream, move || {
            // SAFETY: the buffer is mapped and lives until the stream is done; its last byte is written before this.
            let last = unsafe { (address as *const u8).add(4095).read_volatile() };
            // The receiver may have given up.
            let _ = send.send(last);
            0
        })?;
        let found = received.recv_timeout(Duration::from_secs(10));
        check_eq!(found, Ok(value), "the last byte as the callback sees it");
    }
    Ok(device.join(stream)?)
}

fn error_sticks_once(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    callback(&device, stream, || 1234)?;
    callback(&device, stream, || 5678)?;
    let error = device.join(stream);
    let Err(error) = error else {
        crate::fail!("synchronize does not report a callback that returned 1234");
    };
    check_eq!(
        error.status,
        Status::LaunchFailed,
        "status of a callback that returned 1234"
    );
    check!(
        error.message.contains("1234"),
        "the text does not name the first error: {error}"
    );
    check_eq!(
        device.join(stream),
        Ok(()),
        "synchronize after the error was reported"
    );
    Ok(())
}

fn error_of_one_stream(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (bad, good) = (device.stream()?, device.stream()?);
    callback(&device, bad, || 3)?;
    while !device.is_idle(bad)? {
        std::thread::yield_now();
    }
    check!(device.is_idle(bad)?, "query is false or an error after the error");
    check_eq!(
        device.join(good),
        Ok(()),
        "synchronize of a stream beside the one that failed"
    );
    check!(device.join(bad).is_err(), "the error is gone");
    Ok(())
}

fn device_reports_once(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let streams = [device.stream()?, device.stream()?];
    callback(&device, streams[0], || 41)?;
    callback(&device, streams[1], || 42)?;
    let error = device.synchronize();
    let Err(error) = error else {
        crate::fail!("the device's synchronize reports no error of its streams");
    };
    let named = error.message.contains("41") || error.message.contains("42");
    check!(named, "the error of neither stream is the one reported: {error}");
    check_eq!(
        device.synchronize(),
        Ok(()),
        "the device's synchronize after the errors were reported"
    );
    Ok(())
}

fn work_after_error(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(16)?);
    callback(&device, stream, || 1)?;
    check!(
        device.join(stream).is_err(),
        "the callback's error is not reported"
    );
    device.fill_byte(stream, buffer, 16, 5)?;
    check_eq!(
        device.download(stream, buffer, 16)?,
        vec![5; 16],
        "work after an error that was reported"
    );
    Ok(())
}
