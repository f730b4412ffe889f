//! Packets of unknown kind, without what they should hold, or with wrong counts.

use super::refused;
use crate::check_eq;
use crate::kit::{Case, Check};
use crate::rig::device::{fill, fill_packet};
use crate::rig::{Device, Subject, callback};
use std::ptr::null;
use thalweg_hal::Status;
use thalweg_hal::tables::{CallbackArgs, Packet, PacketKind, Tag};
use thalweg_hal::{Result, Str};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("errors", name, run);
    vec![
        case("packet_kinds", kinds),
        case("packets_without_contents", without_contents),
        case("callback_without_function", without_function),
        case("tags", tags),
        case("errors_leave_no_trace", no_trace),
    ]
}

fn empty(kind: u32) -> Packet {
    Packet {
        kind,
        reserved: 0,
        tag: null(),
        launch: null(),
        copy: null(),
        fill: null(),
    }
}

fn kinds(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(8)?);
    let raw = device.raw();
    let work = fill(buffer, 0, 8, 0, 1);
    for kind in [0, 4, 5, 100, 1 << 31, u32::MAX] {
        let packet = Packet {
            kind,
            ..fill_packet(&work, null())
        };
        // SAFETY: the packet lives through the call.
        let code = unsafe { (raw.tables.stream.submit)(raw.context, stream, &raw const packet, 1) };
        refused(
            raw,
            code,
            &[Status::InvalidArgument],
            &format!("a packet of kind {kind}"),
        )?;
    }
    Ok(device.join(stream)?)
}

fn without_contents(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, raw) = (device.stream()?, device.raw());
    for kind in [PacketKind::Launch, PacketKind::Copy, PacketKind::Fill] {
        let packet = empty(kind as u32);
        // SAFETY: null is for the backend to refuse.
        let code = unsafe { (raw.tables.stream.submit)(raw.context, stream, &raw const packet, 1) };
        let allowed = match kind {
            PacketKind::Launch => &[Status::InvalidArgument, Status::Unsupported][..],
            PacketKind::Copy | PacketKind::Fill => &[Status::InvalidArgument],
        };
        refused(
            raw,
            code,
            allowed,
            &format!("a packet {kind:?} that holds nothing"),
        )?;
    }
    Ok(())
}

fn without_function(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let raw = device.raw();
    let args = CallbackArgs {
        stream: device.stream()?,
        function: None,
        data: std::ptr::null_mut(),
    };
    // SAFETY: null is for the backend to refuse.
    let code = unsafe { (raw.tables.stream.callback)(raw.context, &raw const args) };
    refused(
        raw,
        code,
        &[Status::InvalidArgument],
        "a callback without a function",
    )
}

/// A bad tag is refused or not read; it never breaks the work it stands on.
fn tags(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(8)?);
    let work = fill(buffer, 0, 8, 3, 1);
    let null_text = Str { ptr: null(), len: 5 };
    let invalid = [0xff_u8, 0xfe, 0x00];
    let no_text = Str {
        ptr: invalid.as_ptr(),
        len: 3,
    };
    let good = Str::new("fill of a test");
    for (what, op, file) in [
        ("whose op is null", null_text, good),
        ("whose op is not UTF-8", no_text, good),
        ("whose file is null", good, null_text),
        ("whose file is not UTF-8", good, no_text),
        ("whose texts are empty", Str::EMPTY, Str::EMPTY),
    ] {
        let tag = Tag {
            op,
            file,
            line: 7,
            node: 0,
        };
        let result: Result<()> = device.submit(stream, &[fill_packet(&work, &raw const tag)]);
        let status = result.map_err(|error| error.status);
        crate::check!(
            matches!(status, Ok(()) | Err(Status::InvalidArgument)),
            "a packet with a tag {what}: {status:?}"
        );
    }
    device.join(stream)?;
    let words = [0_u64; 16];
    let odd = words.as_ptr().cast::<u8>().wrapping_add(1).cast::<Tag>();
    let status = device
        .submit(stream, &[fill_packet(&work, odd)])
        .map_err(|error| error.status);
    crate::check!(
        matches!(status, Ok(()) | Err(Status::InvalidArgument)),
        "a packet with a misaligned tag: {status:?}"
    );
    Ok(device.join(stream)?)
}

/// A call that is refused changes nothing that the next one sees.
fn no_trace(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(64)?);
    device.fill_byte(stream, buffer, 64, 1)?;
    for _ in 0..100 {
        crate::check!(
            device.fill_byte(stream, buffer, 65, 2).is_err(),
            "a fill beyond the buffer is accepted"
        );
        crate::check!(
            callback(&device, u64::MAX, || 1).is_err(),
            "a callback on no stream is accepted"
        );
    }
    check_eq!(
        device.join(stream),
        Ok(()),
        "synchronize after calls that were refused"
    );
    check_eq!(device.download(stream, buffer, 64)?, vec![1; 64], "the buffer");
    check_eq!(device.statistics()?.live, 1, "live buffers");
    Ok(())
}
