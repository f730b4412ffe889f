//! Programs: launches that are planned and compiled once, and queued in one go by every run.

use crate::device::OpenClDevice;
use crate::kernel::{ClKernel, start};
use crate::launch::{self, Buffers, Prepared};
use crate::profile::{Origin, Packet};
use crate::stream::{ClStream, Order};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_cstyle::{Launch as Described, Place};
use thalweg_hal::backend::{Region, Tag};
use thalweg_hal::kit::profile::{Command, Recorder, Submission};
use thalweg_hal::kit::program::{self, Node, Operand, Program, Step};
use thalweg_hal::{Error, Result};

/// What is kept of a program's launches from one run to the next, by the number of the node. Runs take turns.
pub(crate) struct Launches(Mutex<Vec<Planned>>);

/// A node, planned for a run.
#[derive(Default)]
struct Planned {
    // None before the first run, and for a launch over an empty space.
    prepared: Option<Prepared>,
    // What it was last planned or adapted for. No launch has both empty but one whose plan depends on neither.
    known: bool,
    offsets: SmallVec<[u64; 8]>,
    scalars: SmallVec<[u64; 4]>,
}

impl Launches {
    /// Before the first run of a program of `nodes` nodes.
    pub(crate) fn new(nodes: usize) -> Launches {
        let mut all = Vec::new();
        all.resize_with(nodes, Planned::default);
        Launches(Mutex::new(all))
    }

    /// Runs the program.
    ///
    /// # Safety
    /// As [`thalweg_hal::backend::Device::run_program`].
    pub(crate) unsafe fn run(
        &self,
        (device, stream): (&OpenClDevice, &ClStream),
        program: &Program<OpenClDevice>,
        slots: &[Region<'_, OpenClDevice>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        profile: Option<(&Arc<Recorder>, &Submission)>,
    ) -> Result<()> {
        let mut all = self.0.lock();
        // Programs are compiled here, before others that want the stream have to wait.
        for (node, planned) in program.nodes.iter().zip(&mut *all) {
            let planning = planned.update(&node.step, slots, arguments);
            planning.map_err(|error| match tag {
                Some(_) => error,
                None => Error::new(error.status, format!("{}: {}", node.tag, error.message)),
            })?;
        }
        let mut order = None;
        let queued = (program.nodes.iter().zip(&*all)).try_for_each(|(node, planned)| {
            let own = node.tag.raw();
            // SAFETY: `own` borrows from the node's tag, which lives through the call.
            let tag = tag.unwrap_or(unsafe { Tag::new(Some(&own)) });
            let packet = profile.map(|(recorder, submission)| {
                Packet::new(recorder, submission.of_node(node), Command::of_node(node))
            });
            let origin = match &packet {
                None => tag.into(),
                Some(packet) => packet.origin(tag),
            };
            // SAFETY: the caller vouches for the memory.
            unsafe { planned.queue((device, stream), &mut order, (node, slots, arguments), origin) }
        });
        // What was queued before an error goes on.
        queued.and(order.map_or(Ok(()), |order| order.flush()))
    }
}

impl Planned {
    /// Brings a launch to what this run gives it.
    fn update(
        &mut self,
        step: &Step<OpenClDevice>,
        slots: &[Region<'_, OpenClDevice>],
        arguments: &[u64],
    ) -> Result<()> {
        let Step::Launch {
            kernel,
            extents,
            operands,
            scalars,
            given,
        } = step
        else {
            return Ok(());
        };
        let mut place = SmallVec::new();
        let scalars = program::scalars(scalars, given, arguments, &mut place);
        let places = operands.iter().map(|operand| described(operand, slots));
        let places: SmallVec<[Place<'_>; 8]> = places.collect();
        let mut pairs = places.iter().zip(&self.offsets);
        let same = self.known && self.scalars[..] == *scalars && pairs.all(|(new, old)| new.offset == *old);
        if !same {
            let launch = Described {
                extents,
                places: &places,
                scalars,
            };
            if !self.adapt(kernel, &launch) {
                self.known = false;
                let plan = kernel.routine.plan(&launch)?;
                self.prepared = launch::prepare(kernel, plan, Buffers::new())?;
            }
            self.known = true;
            self.offsets = places.iter().map(|place| place.offset).collect();
            self.scalars = SmallVec::from_slice(scalars);
        }
        if let Some(prepared) = &mut self.prepared {
            let buffers = operands
                .iter()
                .map(|operand| slots[operand.slot].chunk.mem().raw());
            prepared.buffers.clear();
            prepared.buffers.extend(buffers);
        }
        Ok(())
    }

    /// Changes the words of the plan. Slots share no bytes that are written, so runs differ in nothing else.
    fn adapt(&mut self, kernel: &ClKernel, launch: &Described<'_>) -> bool {
        let before = (&self.offsets[..], &self.scalars[..]);
        self.known
            && (self.prepared.as_mut())
                .is_some_and(|prepared| kernel.routine.adapt(&mut prepared.plan, before, launch))
    }

    /// Queues the node; launches in a row share one turn at the queue.
    ///
    /// # Safety
    /// As [`thalweg_hal::backend::Device::submit`].
    unsafe fn queue<'s>(
        &self,
        (device, stream): (&OpenClDevice, &'s ClStream),
        order: &mut Option<Order<'s>>,
        (node, slots, arguments): (&Node<OpenClDevice>, &[Region<'_, OpenClDevice>], &[u64]),
        origin: Origin<'_>,
    ) -> Result<()> {
        match (&node.step, &self.prepared) {
            (Step::Launch { .. }, None) => Ok(()),
            (Step::Launch { .. }, Some(prepared)) => {
                let order = order.get_or_insert_with(|| stream.order());
                // SAFETY: the caller vouches for the memory.
                unsafe { launch::queue(prepared, (device.api, &device.context), order, origin) }
            }
            (Step::Copy { .. } | Step::Fill { .. }, _) => {
                if let Some(order) = order.take() {
                    order.flush()?;
                }
                node.with(device, slots, arguments, |work| {
                    // SAFETY: as above.
                    unsafe { device.queue_work(stream, work, origin) }
                })
            }
        }
    }
}

/// Where an operand of a run lies.
fn described<'a>(operand: &'a Operand, slots: &[Region<'_, OpenClDevice>]) -> Place<'a> {
    let slot = &slots[operand.slot];
    let (buffer, skew) = start(slot.chunk);
    let offset = slot.offset.wrapping_add(operand.offset);
    Place {
        buffer,
        offset: skew.wrapping_add(offset),
        strides: &operand.strides,
        gather_stride: operand.gather_stride,
        gather_extent: operand.gather_extent,
    }
}
