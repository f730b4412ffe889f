//! Packets in the ABI form.

use super::device::Device;
use super::error::Result;
use super::work::Packet;
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use thalweg_hal::tables::{self, PacketKind};

enum Body {
    Launch(tables::Launch),
    Copy(tables::Copy),
    Fill(tables::Fill),
}

/// Packets in the ABI form, with what they point to.
pub(super) struct Batch {
    packets: SmallVec<[tables::Packet; 4]>,
    // What the packets point to: not touched once they are built.
    _bodies: Box<[(Body, tables::Tag)]>,
    _bindings: Box<[MaybeUninit<tables::Binding>]>,
}

impl Batch {
    /// Checks and lowers packets for work on `device`. The result borrows from the packets without a lifetime.
    pub(super) fn new<'a>(
        device: &Device,
        packets: impl ExactSizeIterator<Item = &'a Packet<'a>> + Clone,
    ) -> Result<Batch> {
        Batch::renamed(device, packets, |handle| handle)
    }

    /// As [`Batch::new`], with another number in the place of each buffer's handle.
    pub(super) fn renamed<'a>(
        device: &Device,
        packets: impl ExactSizeIterator<Item = &'a Packet<'a>> + Clone,
        mut name: impl FnMut(u64) -> u64,
    ) -> Result<Batch> {
        let args = |packet: &Packet<'_>| match packet {
            Packet::Launch(launch) => launch.arg_count(),
            Packet::Copy(_) | Packet::Fill(_) => 0,
        };
        let mut bindings = Box::new_uninit_slice(packets.clone().map(args).sum());
        let mut free = &mut bindings[..];
        let mut bodies = Vec::with_capacity(packets.len());
        for packet in packets {
            let body = match packet {
                Packet::Launch(launch) => {
                    let (place, rest) = free.split_at_mut(launch.arg_count());
                    free = rest;
                    let bindings = launch.bind(device, place)?;
                    for binding in &mut *bindings {
                        binding.buffer = name(binding.buffer);
                    }
                    Body::Launch(launch.raw(bindings))
                }
                Packet::Copy(copy) => {
                    let mut copy = copy.lower(device)?;
                    for end in [&mut copy.dst, &mut copy.src] {
                        if end.buffer != 0 {
                            end.buffer = name(end.buffer);
                        }
                    }
                    Body::Copy(copy)
                }
                Packet::Fill(fill) => {
                    let mut fill = fill.lower(device)?;
                    fill.buffer = name(fill.buffer);
                    Body::Fill(fill)
                }
            };
            bodies.push((body, packet.tag().raw()));
        }
        let bodies = bodies.into_boxed_slice();
        let packets = bodies.iter().map(|(body, tag)| raw_packet(body, tag)).collect();
        Ok(Batch {
            packets,
            _bodies: bodies,
            _bindings: bindings,
        })
    }

    /// The ABI form, valid while the batch and what it was made from live.
    pub(super) fn packets(&self) -> &[tables::Packet] {
        &self.packets
    }
}

fn raw_packet(body: &Body, tag: &tables::Tag) -> tables::Packet {
    let mut packet = tables::Packet {
        kind: 0,
        reserved: 0,
        tag,
        launch: std::ptr::null(),
        copy: std::ptr::null(),
        fill: std::ptr::null(),
    };
    match body {
        Body::Launch(launch) => (packet.kind, packet.launch) = (PacketKind::Launch as u32, launch),
        Body::Copy(copy) => (packet.kind, packet.copy) = (PacketKind::Copy as u32, copy),
        Body::Fill(fill) => (packet.kind, packet.fill) = (PacketKind::Fill as u32, fill),
    }
    packet
}
