//! The profile table, and what calls of the other tables record while a profile runs.

use super::objects::{Instance, Open, Origin, PROFILE, Stream};
use super::{arg, enter, padded, put, writable};
use crate::backend::{Backend, Device, Tag, Work};
use crate::clock::ticks;
use crate::kit::profile::{Counter, Recorder, Submission, correlate as set_correlation};
use crate::status::{Error, Result};
use crate::tables::{
    Context, Packet, PacketKind, ProfileCounter, ProfileCountersArgs, ProfileDrainArgs, ProfileKind,
    ProfileStartArgs, ProfileTable,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const fn table<B: Backend>() -> ProfileTable {
    ProfileTable {
        start: start::<B>,
        stop: stop::<B>,
        correlate,
        drain: drain::<B>,
        counters: counters::<B>,
    }
}

fn recorder<D: Device>(open: &Open<D>) -> Result<&Arc<Recorder>> {
    (open.device.profiler()).ok_or_else(|| Error::unsupported("not measured by this backend"))
}

unsafe extern "C" fn start<B: Backend>(context: Context, args: *const ProfileStartArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let open = instance.device(args.device)?;
            let recorder = recorder(open)?;
            recorder.start(args.kinds, args.capacity)?;
            let started = open.device.profile_started(args.kinds);
            if started.is_err() {
                recorder.stop();
                return started;
            }
            instance.state.fetch_add(PROFILE, Ordering::Relaxed);
            Ok(())
        })
    }
}

unsafe extern "C" fn stop<B: Backend>(context: Context, device: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let open = instance.device(device)?;
            instance.stop_profile(open);
            Ok(())
        })
    }
}

unsafe extern "C" fn correlate(_: Context, id: u64) -> i32 {
    set_correlation(id);
    0
}

unsafe extern "C" fn drain<B: Backend>(context: Context, args: *const ProfileDrainArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let open = instance.device(args.device)?;
            let recorder = recorder(open)?;
            writable(args.written)?;
            writable(args.lost)?;
            if args.capacity > 0 {
                writable(args.out)?;
            }
            open.device.profile_collect()?;
            let mut at = 0;
            let (written, lost) = recorder.drain(args.capacity, |record| {
                // The recorder hands out no more than it was asked for, and the caller vouches for so much room.
                args.out.add(at).write(record);
                at += 1;
            });
            put(args.written, written)?;
            put(args.lost, lost)
        })
    }
}

unsafe extern "C" fn counters<B: Backend>(context: Context, args: *const ProfileCountersArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let open = instance.device(args.device)?;
            writable(args.count)?;
            if args.capacity > 0 {
                writable(args.out)?;
            }
            let all = open.device.counters()?;
            for (at, Counter { name, unit, value }) in all.iter().enumerate().take(args.capacity) {
                args.out.add(at).write(ProfileCounter {
                    name: padded(name),
                    unit: padded(unit),
                    value: *value,
                });
            }
            put(args.count, all.len())
        })
    }
}

impl<D: Device> Open<D> {
    /// Records a change of memory, if a profile of the device wants it.
    pub(super) fn memory_event(&self, kind: ProfileKind, stream: u64, buffer: u64, bytes: u64) {
        if let Some(recorder) = self.device.profiler() {
            recorder.memory(kind, stream, buffer, bytes);
        }
    }
}

impl<B: Backend> Instance<B> {
    /// Ends the profile of a device, if one runs.
    pub(super) fn stop_profile(&self, open: &Open<B::Device>) {
        if open.device.profiler().is_some_and(|recorder| recorder.stop()) {
            self.state.fetch_sub(PROFILE, Ordering::Relaxed);
            open.device.profile_stopped();
        }
    }
}

/// What work that is submitted to a stream now is to carry, if a profile of its device records work.
pub(super) fn submission<D: Device>(stream: &Stream<D>, handle: u64) -> Option<Submission> {
    stream.owner.get().device.profiler()?.submission(handle)
}

/// Submits work. While a profile runs it carries the kernel of its packet, and the packet's number in its list.
///
/// # Safety
/// As [`Device::submit`].
#[inline(always)]
pub(super) unsafe fn submit<D: Device, const PROFILED: bool>(
    (stream, handle): (&Stream<D>, u64),
    work: &Work<'_, D>,
    tag: Tag<'_>,
    (packet, kernel): (u32, u64),
) -> Result<()> {
    let device = &stream.owner.get().device;
    // SAFETY: the caller's contract.
    unsafe {
        if PROFILED && let Some(submission) = submission(stream, handle) {
            let submission = submission.of_packet(packet, kernel);
            return device.submit_profiled(&stream.stream, work, tag, &submission);
        }
        device.submit(&stream.stream, work, tag)
    }
}

/// The handle of a packet's kernel; 0 for other work.
///
/// # Safety
/// The packet's pointers were checked.
pub(super) unsafe fn kernel_of(packet: &Packet) -> u64 {
    if packet.kind != PacketKind::Launch as u32 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { (*packet.launch).kernel }
}

/// Records that buffers of a device were handed out, or are about to be given back: at a moment in ticks, or now.
pub(super) fn note_buffers<B: Backend>(
    instance: &Instance<B>,
    open: &Open<B::Device>,
    kind: ProfileKind,
    (stream, moment): (u64, Option<u64>),
    handles: impl IntoIterator<Item = u64>,
) {
    let Some(recorder) = open.device.profiler().filter(|recorder| recorder.wants(kind)) else {
        return;
    };
    let moment = moment.unwrap_or_else(ticks);
    for handle in handles {
        if let Some(buffer) = instance.buffers.get(handle)
            && let Origin::Pool { size, .. } = buffer.origin
        {
            recorder.memory_at(kind, stream, handle, size, moment);
        }
    }
}
