//! Null and misaligned pointers.

use super::refused;
use crate::kit::{Case, Check};
use crate::rig::device::BLOCK;
use crate::rig::{Device, Subject};
use std::ptr::{null, null_mut};
use thalweg_hal::Status;
use thalweg_hal::tables::{AllocArgs, DeviceOptions, ElapsedArgs, EventArgs, StreamArgs};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("errors", name, run);
    vec![
        case("null_core_and_device", core_and_device),
        case("null_memory", memory),
        case("null_stream_and_event", stream_and_event),
        case("null_kernel_and_program", kernel_and_program),
        case("null_out_makes_nothing", nothing_is_made),
        case("misaligned_arguments", misaligned),
    ]
}

const NULL: &[Status] = &[Status::InvalidArgument];

fn core_and_device(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, open) = (device.raw(), device.handle());
    let (c, t) = (raw.context, raw.tables);
    let options = DeviceOptions {
        ordinal: 0,
        reserved: 0,
        memory_limit: 0,
        block_size: BLOCK,
    };
    let mut handle = 0;
    // SAFETY: null is for the backend to refuse; all other pointers are valid.
    unsafe {
        refused(raw, (t.core.info)(c, null_mut()), NULL, "info, out")?;
        refused(
            raw,
            (t.core.device_count)(c, null_mut()),
            NULL,
            "device_count, out",
        )?;
        refused(
            raw,
            (t.device.properties)(c, 0, null_mut()),
            NULL,
            "properties, out",
        )?;
        refused(
            raw,
            (t.device.open)(c, null(), &raw mut handle),
            NULL,
            "open, options",
        )?;
        refused(
            raw,
            (t.device.open)(c, &raw const options, null_mut()),
            NULL,
            "open, out",
        )?;
        let allowed = &[Status::InvalidArgument, Status::Unsupported];
        refused(
            raw,
            (t.device.query)(c, open, 1, null_mut()),
            allowed,
            "query, out",
        )
    }
}

fn memory(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, open) = (device.raw(), device.handle());
    let (c, t) = (raw.context, raw.tables.memory);
    let buffer = device.alloc(64)?;
    let args = AllocArgs {
        device: open,
        bytes: 64,
        stream: 0,
        tag: null(),
    };
    let (mut handle, allowed) = (0, &[Status::InvalidArgument, Status::Unsupported]);
    // SAFETY: null is for the backend to refuse; all other pointers are valid.
    unsafe {
        refused(
            raw,
            (t.alloc)(c, null(), &raw mut handle),
            NULL,
            "alloc, arguments",
        )?;
        refused(raw, (t.alloc)(c, &raw const args, null_mut()), NULL, "alloc, out")?;
        refused(
            raw,
            (t.import)(c, null(), &raw mut handle),
            allowed,
            "import, arguments",
        )?;
        refused(raw, (t.map)(c, buffer, null_mut()), allowed, "map, out")?;
        refused(raw, (t.size)(c, buffer, null_mut()), NULL, "size, out")?;
        refused(raw, (t.trim)(c, open, null_mut()), NULL, "trim, out")?;
        refused(raw, (t.statistics)(c, open, null_mut()), NULL, "statistics, out")?;
        refused(raw, (t.info)(c, open, null_mut()), NULL, "memory info, out")
    }
}

fn stream_and_event(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, open) = (device.raw(), device.handle());
    let (c, s, e) = (raw.context, raw.tables.stream, raw.tables.event);
    let (stream, event) = (device.stream()?, device.event(true)?);
    let stream_args = StreamArgs {
        device: open,
        priority: device.properties().priority_low,
        reserved: 0,
    };
    let event_args = EventArgs {
        device: open,
        timing: 0,
        reserved: 0,
    };
    let elapsed = ElapsedArgs {
        start: event,
        end: event,
    };
    let (mut handle, mut elapsed_out) = (0, 0);
    // SAFETY: null is for the backend to refuse; all other pointers are valid.
    unsafe {
        refused(
            raw,
            (s.create)(c, null(), &raw mut handle),
            NULL,
            "stream create, arguments",
        )?;
        refused(
            raw,
            (s.create)(c, &raw const stream_args, null_mut()),
            NULL,
            "stream create, out",
        )?;
        let launch = &[Status::InvalidArgument, Status::Unsupported];
        refused(
            raw,
            (s.launch)(c, stream, null(), null()),
            launch,
            "launch, arguments",
        )?;
        refused(
            raw,
            (s.submit)(c, stream, null(), 1),
            NULL,
            "submit of one packet",
        )?;
        refused(
            raw,
            (s.submit)(c, stream, null(), usize::MAX),
            NULL,
            "submit of usize::MAX packets",
        )?;
        refused(raw, (s.query)(c, stream, null_mut()), NULL, "stream query, out")?;
        refused(raw, (s.wait_event)(c, null()), NULL, "wait_event, arguments")?;
        refused(raw, (s.callback)(c, null()), NULL, "callback, arguments")?;
        refused(
            raw,
            (e.create)(c, null(), &raw mut handle),
            NULL,
            "event create, arguments",
        )?;
        refused(
            raw,
            (e.create)(c, &raw const event_args, null_mut()),
            NULL,
            "event create, out",
        )?;
        refused(raw, (e.record)(c, null()), NULL, "record, arguments")?;
        refused(raw, (e.query)(c, event, null_mut()), NULL, "event query, out")?;
        refused(raw, (e.wait)(c, null()), NULL, "wait, arguments")?;
        refused(
            raw,
            (e.elapsed)(c, null(), &raw mut elapsed_out),
            NULL,
            "elapsed, arguments",
        )?;
        let timing = &[Status::InvalidArgument, Status::Unsupported];
        refused(
            raw,
            (e.elapsed)(c, &raw const elapsed, null_mut()),
            timing,
            "elapsed, out",
        )?;
        (raw.status((s.submit)(c, stream, null(), 0)))?;
    }
    Ok(())
}

fn kernel_and_program(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, c) = (device.raw(), device.raw().context);
    let mut handle = 0;
    // SAFETY: null is for the backend to refuse; all other pointers are valid.
    unsafe {
        if let Some(k) = raw.tables.kernel {
            refused(raw, (k.supports)(c, null()), NULL, "supports, arguments")?;
            refused(
                raw,
                (k.compile)(c, null(), &raw mut handle),
                NULL,
                "compile, arguments",
            )?;
        }
        if let Some(p) = raw.tables.program {
            refused(
                raw,
                (p.create)(c, null(), &raw mut handle),
                NULL,
                "program create, arguments",
            )?;
            refused(raw, (p.rebind)(c, null()), NULL, "rebind, arguments")?;
            refused(raw, (p.run)(c, null()), NULL, "run, arguments")?;
        }
    }
    Ok(())
}

/// A call that cannot say what it made makes nothing.
fn nothing_is_made(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, t) = (device.raw(), device.raw().tables);
    let before = device.statistics()?;
    let args = AllocArgs {
        device: device.handle(),
        bytes: 4096,
        stream: 0,
        tag: null(),
    };
    for _ in 0..10 {
        // SAFETY: null is for the backend to refuse.
        let code = unsafe { (t.memory.alloc)(raw.context, &raw const args, null_mut()) };
        refused(raw, code, NULL, "alloc, out")?;
    }
    crate::check_eq!(device.statistics()?.live, before.live, "live buffers");
    Ok(())
}

/// Argument structs full of zeros, one byte beside where they belong: whether the pointer or the handle 0 is refused.
fn misaligned(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, c, t) = (device.raw(), device.raw().context, device.raw().tables);
    let zeros = [0_u64; 64];
    let odd = zeros.as_ptr().cast::<u8>().wrapping_add(1);
    let mut out = 0;
    let allowed = &[
        Status::InvalidArgument,
        Status::InvalidHandle,
        Status::Unsupported,
    ];
    // SAFETY: the memory is readable; that it is not aligned is for the backend to refuse.
    unsafe {
        refused(
            raw,
            (t.memory.alloc)(c, odd.cast(), &raw mut out),
            allowed,
            "alloc",
        )?;
        refused(
            raw,
            (t.memory.import)(c, odd.cast(), &raw mut out),
            allowed,
            "import",
        )?;
        refused(
            raw,
            (t.stream.create)(c, odd.cast(), &raw mut out),
            allowed,
            "stream create",
        )?;
        refused(raw, (t.stream.wait_event)(c, odd.cast()), allowed, "wait_event")?;
        refused(raw, (t.stream.callback)(c, odd.cast()), allowed, "callback")?;
        refused(
            raw,
            (t.stream.submit)(c, device.stream()?, odd.cast(), 1),
            allowed,
            "submit",
        )?;
        refused(
            raw,
            (t.event.create)(c, odd.cast(), &raw mut out),
            allowed,
            "event create",
        )?;
        refused(raw, (t.event.record)(c, odd.cast()), allowed, "record")?;
        refused(raw, (t.event.wait)(c, odd.cast()), allowed, "wait")?;
        if let Some(k) = t.kernel {
            refused(raw, (k.compile)(c, odd.cast(), &raw mut out), allowed, "compile")?;
            refused(
                raw,
                (t.stream.launch)(c, device.stream()?, odd.cast(), null()),
                allowed,
                "launch",
            )?;
        }
        if let Some(p) = t.program {
            refused(
                raw,
                (p.create)(c, odd.cast(), &raw mut out),
                allowed,
                "program create",
            )?;
            refused(raw, (p.rebind)(c, odd.cast()), allowed, "rebind")?;
            refused(raw, (p.run)(c, odd.cast()), allowed, "run")?;
        }
    }
    Ok(())
}
