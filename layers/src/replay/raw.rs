//! Records as structs of the ABI.

use crate::captured::{self, Contents, End, Handle, Packet, Work};
use std::ffi::c_void;
use std::ptr;
use thalweg_hal::status::Str;
use thalweg_hal::tables::{self, PacketKind, Place};
use thalweg_hal::{Error, Result};

/// What buffers of a capture are called.
pub(super) trait Buffers {
    /// The buffer or slot.
    fn buffer(&self, handle: Handle) -> Result<u64>;
}

/// How names of a capture become those of a backend.
pub(super) trait Names: Buffers {
    /// The kernel, and how many strides each of its parameters has.
    fn kernel(&self, handle: Handle) -> Result<(u64, &[usize])>;
    /// Memory of the host that a copy reads, which lives until its stream was waited for.
    fn from(&mut self, contents: &Contents, copy: &captured::Copy) -> Result<*mut c_void>;
    /// Memory of the host that a copy writes, likewise.
    fn to(&mut self, number: u64, copy: &captured::Copy) -> Result<*mut c_void>;
}

enum Body {
    Launch(tables::Launch),
    Copy(tables::Copy),
    Fill(tables::Fill),
}

/// Packets in the form of the ABI, with what they point to.
pub(super) struct Raw {
    packets: Vec<tables::Packet>,
    // What the packets point to: not touched once they are built.
    _bodies: Vec<Body>,
    _bindings: Vec<Vec<tables::Binding>>,
    _tags: Vec<tables::Tag>,
}

impl Raw {
    /// The result borrows from the packets without a lifetime.
    pub(super) fn new(packets: &[Packet], names: &mut impl Names) -> Result<Raw> {
        let mut bindings = Vec::with_capacity(packets.len());
        let mut bodies = Vec::with_capacity(packets.len());
        for packet in packets {
            bodies.push(match &packet.work {
                Work::Launch(launch) => {
                    let (kernel, axes) = names.kernel(launch.kernel)?;
                    // A backend reads as many strides as there are axes.
                    let fits = |(one, &axes): (&captured::Binding, &usize)| {
                        one.strides.as_ref().is_none_or(|strides| strides.len() == axes)
                    };
                    if axes.len() != launch.bindings.len() || !launch.bindings.iter().zip(axes).all(fits) {
                        return Err(Error::invalid_argument(format!(
                            "a launch of kernel {:#x} has other parameters than the kernel",
                            launch.kernel
                        )));
                    }
                    let own = launch.bindings.iter().map(|one| binding(one, names));
                    let own: Vec<_> = own.collect::<Result<_>>()?;
                    let raw = tables::Launch {
                        kernel,
                        extents: launch.extents.as_ptr(),
                        extent_count: launch.extents.len(),
                        bindings: own.as_ptr(),
                        binding_count: own.len(),
                        scalars: launch.scalars.as_ptr(),
                        scalar_count: launch.scalars.len(),
                    };
                    bindings.push(own);
                    Body::Launch(raw)
                }
                Work::Copy(copy) => Body::Copy(tables::Copy {
                    dst: end(&copy.dst, copy, names)?,
                    src: end(&copy.src, copy, names)?,
                    width: copy.width,
                    rows: copy.rows,
                }),
                Work::Fill(fill) => Body::Fill(tables::Fill {
                    buffer: names.buffer(fill.buffer)?,
                    offset: fill.offset,
                    bytes: fill.bytes,
                    pattern: fill.pattern,
                    pattern_bytes: fill.pattern_bytes,
                    reserved: 0,
                }),
            });
        }
        let tags: Vec<_> = packets.iter().map(|packet| tag(&packet.tag)).collect();
        let packets = bodies.iter().zip(&tags).map(|(body, tag)| wrapped(body, tag));
        Ok(Raw {
            packets: packets.collect(),
            _bodies: bodies,
            _bindings: bindings,
            _tags: tags,
        })
    }

    /// The packets.
    pub(super) fn packets(&self) -> &[tables::Packet] {
        &self.packets
    }
}

fn wrapped(body: &Body, tag: &tables::Tag) -> tables::Packet {
    let packet = |kind: PacketKind| tables::Packet {
        kind: kind as u32,
        reserved: 0,
        tag,
        launch: ptr::null(),
        copy: ptr::null(),
        fill: ptr::null(),
    };
    match body {
        Body::Launch(launch) => tables::Packet {
            launch,
            ..packet(PacketKind::Launch)
        },
        Body::Copy(copy) => tables::Packet {
            copy,
            ..packet(PacketKind::Copy)
        },
        Body::Fill(fill) => tables::Packet {
            fill,
            ..packet(PacketKind::Fill)
        },
    }
}

fn binding(binding: &captured::Binding, names: &impl Buffers) -> Result<tables::Binding> {
    let strides = binding.strides.as_ref();
    Ok(tables::Binding {
        buffer: names.buffer(binding.buffer)?,
        offset: binding.offset,
        strides: strides.map_or(ptr::null(), |strides| strides.as_ptr()),
        gather_stride: binding.gather_stride,
        gather_extent: binding.gather_extent,
    })
}

fn end(end: &End, copy: &captured::Copy, names: &mut impl Names) -> Result<Place> {
    let host = |host: *mut c_void| Place {
        buffer: 0,
        host,
        offset: 0,
        pitch: copy.width,
    };
    Ok(match end {
        End::Buffer(part) => Place {
            buffer: names.buffer(part.buffer)?,
            host: ptr::null_mut(),
            offset: part.offset,
            pitch: part.pitch,
        },
        End::From(contents) => host(names.from(contents, copy)?),
        End::To(number) => host(names.to(*number, copy)?),
    })
}

/// A tag, whose texts are borrowed without a lifetime.
pub(super) fn tag(tag: &captured::Tag) -> tables::Tag {
    tables::Tag {
        op: Str::new(&tag.op),
        file: Str::new(&tag.file),
        line: tag.line,
        node: tag.node,
    }
}

/// A place in a buffer.
pub(super) fn input(place: &captured::Place, names: &impl Buffers) -> Result<tables::ProgramInput> {
    Ok(tables::ProgramInput {
        buffer: names.buffer(place.buffer)?,
        offset: place.offset,
    })
}
