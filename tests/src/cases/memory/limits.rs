//! Limits, running out of memory, and giving it back.

use super::pool::consistent;
use crate::kit::{Case, Check};
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use thalweg_hal::{Result, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("memory", name, run);
    vec![
        case("limit", limit),
        case("limit_is_changed", limit_is_changed),
        case("out_of_memory_is_typed", out_of_memory),
        case("out_of_memory_is_recovered_from", recovers),
        case("out_of_memory_gives_cached_blocks_back", retries),
        case("trim", trim),
    ]
}

fn limit(subject: &Subject) -> Check {
    let device = Device::limited(subject, 2 << 20, 1 << 20)?;
    check_eq!(device.statistics()?.limit, 2 << 20, "limit");
    let a = device.alloc(1 << 20)?;
    let status = device
        .alloc((1 << 20) + 1)
        .map(drop)
        .map_err(|error| error.status);
    check_eq!(status, Err(Status::OutOfMemory), "a buffer beyond the limit");
    let b = device.alloc(1 << 20)?;
    let status = device.alloc(1).map(drop).map_err(|error| error.status);
    check_eq!(
        status,
        Err(Status::OutOfMemory),
        "one byte when the limit is used up"
    );
    let figures = consistent(&device)?;
    check!(
        figures.reserved <= 2 << 20,
        "{} bytes are reserved, the limit is 2 MiB",
        figures.reserved
    );
    check_eq!(figures.out_of_memory, 2, "out_of_memory after two refusals");
    device.free(a)?;
    device.free(b)?;
    device.alloc(1 << 20)?;
    Ok(())
}

fn set_limit(device: &Device, bytes: u64) -> Result<()> {
    let raw = device.raw();
    // SAFETY: plain call.
    raw.status(unsafe { (raw.tables.memory.set_limit)(raw.context, device.handle(), bytes) })
}

fn limit_is_changed(subject: &Subject) -> Check {
    let device = Device::limited(subject, 1 << 20, 1 << 20)?;
    let _first = device.alloc(1 << 20)?;
    check!(
        device.alloc(1 << 20).is_err(),
        "a buffer beyond the limit is handed out"
    );
    set_limit(&device, 2 << 20)?;
    let _second = device.alloc(1 << 20)?;
    check!(
        device.alloc(1 << 20).is_err(),
        "a buffer beyond the new limit is handed out"
    );
    set_limit(&device, 0)?;
    let third = device.alloc(1 << 20)?;
    check_eq!(device.statistics()?.limit, 0, "limit");
    set_limit(&device, 4096)?;
    check_eq!(
        device.size(third)?,
        1 << 20,
        "a buffer from before the limit was lowered"
    );
    device.free(third)?;
    let _again = device.alloc(1 << 20)?;
    Ok(())
}

fn out_of_memory(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let small = device.alloc(4096)?;
    for bytes in [1 << 50, 1 << 62, i64::MAX as u64, u64::MAX - 511, u64::MAX] {
        let Err(error) = device.alloc_for(bytes, 0, "a very greedy op") else {
            crate::fail!("{bytes} bytes are handed out");
        };
        check_eq!(
            error.status,
            Status::OutOfMemory,
            "status of an allocation of {bytes} bytes ({error})"
        );
        let text = &error.message;
        check!(
            text.contains("a very greedy op"),
            "the text does not name the op: {text}"
        );
        check!(
            text.contains(&bytes.to_string()),
            "the text does not say that {bytes} were asked for: {text}"
        );
    }
    let figures = consistent(&device)?;
    check_eq!(figures.out_of_memory, 5, "out_of_memory");
    check_eq!(
        (figures.allocated, figures.live),
        (4096, 1),
        "allocated and live after refusals"
    );
    device.free(small)?;
    Ok(())
}

fn recovers(subject: &Subject) -> Check {
    let device = Device::limited(subject, 4 << 20, 1 << 20)?;
    let stream = device.stream()?;
    for round in 0..20_u8 {
        let mut held = Vec::new();
        loop {
            match device.alloc(700_000) {
                Ok(buffer) => held.push(buffer),
                Err(error) => {
                    check_eq!(error.status, Status::OutOfMemory, "status in round {round}");
                    break;
                }
            }
        }
        check!(held.len() >= 4, "{} buffers fit in round {round}", held.len());
        for &buffer in &held {
            device.fill_byte(stream, buffer, 700_000, round)?;
        }
        for &buffer in &held {
            let found = device.download(stream, buffer, 700_000)?;
            check!(
                found.iter().all(|&b| b == round),
                "a buffer does not hold what it was filled with"
            );
            device.free(buffer)?;
        }
    }
    consistent(&device)?;
    Ok(())
}

/// Blocks of one size stand in the way of a buffer of another; they are idle and go back to the device.
fn retries(subject: &Subject) -> Check {
    let device = Device::limited(subject, 4 << 20, 1 << 20)?;
    let blocks: Vec<u64> = (0..4).map(|_| device.alloc(1 << 20)).collect::<Result<_>>()?;
    for buffer in blocks {
        device.free(buffer)?;
    }
    check_eq!(device.statistics()?.idle, 4 << 20, "idle");
    let large = device.alloc(3 << 20)?;
    let figures = consistent(&device)?;
    check_eq!(figures.retries, 1, "retries");
    check_eq!(figures.out_of_memory, 0, "out_of_memory");
    device.free(large)?;
    Ok(())
}

fn trim(subject: &Subject) -> Check {
    let device = Device::limited(subject, 0, 1 << 20)?;
    check_eq!(device.trim()?, 0, "bytes given back by an empty pool");
    let (kept, gone) = (device.alloc(1 << 20)?, device.alloc(1 << 20)?);
    let stream = device.stream()?;
    device.fill_byte(stream, kept, 1 << 20, 0x33)?;
    device.join(stream)?;
    device.free(gone)?;
    check_eq!(
        device.trim()?,
        1 << 20,
        "bytes given back while one of two blocks is in use"
    );
    let figures = consistent(&device)?;
    check_eq!(
        (figures.reserved, figures.idle),
        (1 << 20, 0),
        "reserved and idle after trim"
    );
    let found = device.download(stream, kept, 1 << 20)?;
    check!(found.iter().all(|&b| b == 0x33), "trim touched a buffer in use");
    device.free(kept)?;
    check_eq!(device.trim()?, 1 << 20, "bytes given back when nothing is in use");
    check_eq!(
        device.statistics()?.reserved,
        0,
        "reserved after all was given back"
    );
    check_eq!(device.statistics()?.max_reserved, 2 << 20, "the peak of reserved");
    device.alloc(1)?;
    Ok(())
}
