//! Calls with tags.

use std::ptr::null;
use thalweg_conformance::rig::Device;
use thalweg_hal::tables::{AllocArgs, Copy, Fill, Packet, PacketKind, Place, Tag};
use thalweg_hal::{Result, Str};

/// Op, file and line.
pub(crate) type Site = (&'static str, &'static str, u32);

pub(crate) fn tag((op, file, line): Site) -> Tag {
    Tag {
        op: Str::new(op),
        file: Str::new(file),
        line,
        node: 0,
    }
}

pub(crate) const EMPTY: Packet = Packet {
    kind: 0,
    reserved: 0,
    tag: null(),
    launch: null(),
    copy: null(),
    fill: null(),
};

pub(crate) fn alloc(device: &Device, bytes: u64, site: Site) -> Result<u64> {
    let (tag, raw) = (tag(site), device.raw());
    let args = AllocArgs {
        device: device.handle(),
        bytes,
        stream: 0,
        tag: &raw const tag,
    };
    // SAFETY: the arguments live through the call, the out pointer is writable.
    raw.out(0, |out| unsafe {
        (raw.tables.memory.alloc)(raw.context, &raw const args, out)
    })
}

/// Fills `(buffer, offset, bytes)`.
pub(crate) fn fill(
    device: &Device,
    stream: u64,
    (buffer, offset, bytes): (u64, u64, u64),
    site: Site,
) -> Result<()> {
    let fill = Fill {
        buffer,
        offset,
        bytes,
        pattern: 1,
        pattern_bytes: 1,
        reserved: 0,
    };
    fill_as(device, stream, &fill, site)
}

pub(crate) fn fill_as(device: &Device, stream: u64, fill: &Fill, site: Site) -> Result<()> {
    let tag = tag(site);
    let packet = Packet {
        kind: PacketKind::Fill as u32,
        tag: &raw const tag,
        fill,
        ..EMPTY
    };
    device.submit(stream, &[packet])
}

/// A place in a buffer.
pub(crate) fn at(buffer: u64, offset: u64) -> Place {
    Place {
        buffer,
        host: std::ptr::null_mut(),
        offset,
        pitch: 0,
    }
}

/// Host memory.
pub(crate) fn host(bytes: &mut [u8]) -> Place {
    Place {
        buffer: 0,
        host: bytes.as_mut_ptr().cast(),
        offset: 0,
        pitch: 0,
    }
}

/// Copies `width` bytes in each of `rows` rows.
pub(crate) fn copy(
    device: &Device,
    stream: u64,
    (dst, src): (Place, Place),
    (width, rows): (u64, u64),
    site: Site,
) -> Result<()> {
    let (copy, tag) = (
        Copy {
            dst,
            src,
            width,
            rows,
        },
        tag(site),
    );
    let packet = Packet {
        kind: PacketKind::Copy as u32,
        tag: &raw const tag,
        copy: &raw const copy,
        ..EMPTY
    };
    device.submit(stream, &[packet])
}
