//! Slots that hold buffers from run to run: lists of work on buffers, and what became of these and of kernels.

mod changes;
mod launches;
mod refused;

use super::{Programs, increment, job, plain};
use crate::kit::{Case, Stop};
use crate::rig::Device;
use crate::rig::device::launch_packet;
use std::ptr::null;
use thalweg_hal::Result;
use thalweg_hal::tables::{
    Binding, Copy, Fill, Launch, Packet, PacketKind, ProgramArgs, ProgramDependency, ProgramInput,
};

pub(super) fn cases() -> Vec<Case> {
    [launches::cases(), changes::cases(), refused::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// Programs all of whose slots are bound.
struct Lists<'a>(Programs<'a>);

/// A program, and the buffers in its slots.
struct List {
    program: u64,
    held: Vec<u64>,
}

/// What packets on buffers point to, with slots in the place of buffers.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "packets point to what is boxed while the lists grow"
)]
struct Named {
    held: Vec<u64>,
    bindings: Vec<Box<[Binding]>>,
    launches: Vec<Box<Launch>>,
    copies: Vec<Box<Copy>>,
    fills: Vec<Box<Fill>>,
}

/// Adds a box to a list. The address is taken where the box stays, because a box that moves is a new borrow of what it holds.
fn kept<T: ?Sized>(list: &mut Vec<Box<T>>, one: Box<T>) -> &T {
    list.push(one);
    &list[list.len() - 1]
}

impl Named {
    fn slot(&mut self, buffer: u64) -> u64 {
        let known = self.held.iter().position(|&held| held == buffer);
        let at = known.unwrap_or_else(|| {
            self.held.push(buffer);
            self.held.len() - 1
        });
        at as u64 + 1
    }

    /// # Safety
    /// The pointers of the packet are null or valid.
    unsafe fn packet(&mut self, mut packet: Packet) -> Packet {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            if packet.kind == PacketKind::Launch as u32
                && let Some(launch) = packet.launch.as_ref()
            {
                let bindings = match launch.binding_count {
                    0 => &[],
                    count => std::slice::from_raw_parts(launch.bindings, count),
                };
                let named: Box<[Binding]> = (bindings.iter())
                    .map(|binding| Binding {
                        buffer: self.slot(binding.buffer),
                        ..*binding
                    })
                    .collect();
                let bindings = kept(&mut self.bindings, named).as_ptr();
                packet.launch = kept(&mut self.launches, Box::new(Launch { bindings, ..*launch }));
            } else if let Some(copy) = packet.copy.as_ref() {
                let mut copy = Box::new(*copy);
                for end in [&mut copy.dst, &mut copy.src] {
                    if end.buffer != 0 {
                        end.buffer = self.slot(end.buffer);
                    }
                }
                packet.copy = kept(&mut self.copies, copy);
            } else if let Some(fill) = packet.fill.as_ref() {
                let fill = Box::new(Fill {
                    buffer: self.slot(fill.buffer),
                    ..*fill
                });
                packet.fill = kept(&mut self.fills, fill);
            }
        }
        packet
    }
}

impl<'a> Lists<'a> {
    fn new(device: &'a Device) -> Result<Lists<'a>, Stop> {
        Programs::new(device).map(Lists)
    }

    /// A list of packets on buffers, each with the packets that it depends on.
    fn create(&self, nodes: &[(Packet, &[u32])]) -> Result<List> {
        let mut named = Named::default();
        // SAFETY: the case keeps what its packets point to.
        let packets: Vec<Packet> = (nodes.iter())
            .map(|&(packet, _)| unsafe { named.packet(packet) })
            .collect();
        let dependencies: Vec<ProgramDependency> = (0..)
            .zip(nodes)
            .flat_map(|(packet, &(_, before))| {
                let of = move |&earlier: &u32| ProgramDependency { packet, earlier };
                before.iter().map(of)
            })
            .collect();
        let bound: Vec<ProgramInput> = (named.held.iter())
            .map(|&buffer| ProgramInput { buffer, offset: 0 })
            .collect();
        let program = self.0.create_of(&ProgramArgs {
            dependencies: dependencies.as_ptr(),
            dependency_count: dependencies.len(),
            bound: bound.as_ptr(),
            bound_count: bound.len(),
            ..self.0.args(&packets)
        })?;
        Ok(List {
            program,
            held: named.held,
        })
    }

    fn launch(&self, list: &List, stream: u64) -> Result<()> {
        plain(self.0.run((list.program, stream), &[], &[], 0)).map(drop)
    }

    /// Puts `by`, from byte `offset` on, in the place of `buffer`.
    fn rebind(&self, list: &mut List, buffer: u64, by: u64, offset: u64) -> Result<()> {
        for (slot, held) in (0..).zip(&mut list.held) {
            if *held == buffer {
                self.0.rebind(list.program, slot, by, offset)?;
                *held = by;
            }
        }
        Ok(())
    }

    fn destroy(&self, list: &List) -> Result<()> {
        self.0.destroy(list.program)
    }
}

/// A list that adds 1 to `buffer`, as many times as it has packets.
fn counter(lists: &Lists<'_>, buffer: u64, count: u64, nodes: u32) -> Result<List, Stop> {
    let job = job(increment(), count);
    let kernel = lists.0.device.compile(&job.kernel)?;
    let bindings = job.bindings(&[buffer, buffer]);
    let launch = job.launch(kernel, &bindings);
    let nodes: Vec<(Packet, &[u32])> = (0..nodes)
        .map(|_| (launch_packet(&launch, null()), &[][..]))
        .collect();
    Ok(lists.create(&nodes)?)
}
