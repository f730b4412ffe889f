//! The stream table.

use super::objects::{Buffer, Instance, Stream};
use super::resolve::Room;
use super::{arg, array, enter, enter_profiled, optional, profile, put, writable};
use crate::backend::{Backend, Callback, Device, Tag, Work};
use crate::status::{Error, Result};
use crate::tables::{self, CallbackArgs, Context, Packet, StreamArgs, StreamTable, WaitEventArgs};

pub(super) const fn table<B: Backend>() -> StreamTable {
    StreamTable {
        create: create::<B>,
        destroy: destroy::<B>,
        launch: launch::<B>,
        submit: submit::<B>,
        query: query::<B>,
        wait_event: wait_event::<B>,
        callback: callback::<B>,
        synchronize: synchronize::<B>,
    }
}

/// The position of a stream, unless it has passed it already: then its work uses no buffer any more.
#[inline(always)]
pub(super) fn pending<D: Device>(stream: &Stream<D>) -> Option<u64> {
    stream.owner.get().device.pending(&stream.stream)
}

/// Remembers that a stream uses buffers up to a [pending] position.
#[cold]
pub(super) fn mark<'a, D: Device + 'a>(
    stream: &Stream<D>,
    position: u64,
    buffers: impl IntoIterator<Item = &'a Buffer<D>>,
) {
    buffers
        .into_iter()
        .for_each(|buffer| buffer.mark(stream.id, position));
}

/// Remembers that a stream uses the buffers of work that was submitted, unless that is done already.
#[inline(always)]
fn mark_used<'a, D: Device + 'a>(stream: &Stream<D>, buffers: impl IntoIterator<Item = &'a Buffer<D>>) {
    if let Some(position) = pending(stream) {
        mark(stream, position, buffers);
    }
}

unsafe extern "C" fn create<B: Backend>(context: Context, args: *const StreamArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let open = instance.device(args.device)?;
            let (low, high) = open.properties.priorities;
            if !(low..=high).contains(&args.priority) {
                return Err(Error::invalid_argument(format!(
                    "stream: priority {} is not in {low}..={high}",
                    args.priority
                )));
            }
            let stream = open.device.create_stream(args.priority)?;
            put(out, instance.add_stream(open, stream)?)
        })
    }
}

unsafe extern "C" fn destroy<B: Backend>(context: Context, stream: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe { enter::<B>(context, |instance| instance.remove_stream(stream)) }
}

unsafe extern "C" fn launch<B: Backend>(
    context: Context,
    stream: u64,
    launch: *const tables::Launch,
    tag: *const tables::Tag,
) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter_profiled::<B>(
            context,
            move |instance| launch_in::<B, false>(instance, stream, launch, tag),
            move |instance| launch_in::<B, true>(instance, stream, launch, tag),
        )
    }
}

/// # Safety
/// The pointers are null or valid.
#[inline(always)]
unsafe fn launch_in<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    handle: u64,
    launch: *const tables::Launch,
    tag: *const tables::Tag,
) -> Result<()> {
    let stream = instance.stream(handle)?;
    let mut room = Room::new();
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        let launch = arg(launch)?;
        let work = instance.launch(stream.owner, launch, &mut room)?;
        let (tag, packet) = (Tag::new(optional(tag)?), (u32::MAX, launch.kernel));
        let submitted = profile::submit::<_, PROFILED>((stream, handle), &work, tag, packet);
        // Of what is refused, a part may be queued.
        mark_used(stream, room.buffers.iter().copied());
        submitted
    }
}

unsafe extern "C" fn submit<B: Backend>(
    context: Context,
    stream: u64,
    packets: *const Packet,
    count: usize,
) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter_profiled::<B>(
            context,
            move |instance| submit_in::<B, false>(instance, stream, array(packets, count)?),
            move |instance| submit_in::<B, true>(instance, stream, array(packets, count)?),
        )
    }
}

/// # Safety
/// The pointers of the packets are null or valid.
#[inline(always)]
unsafe fn submit_in<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    handle: u64,
    packets: &[Packet],
) -> Result<()> {
    let stream = instance.stream(handle)?;
    if let [packet] = packets {
        // SAFETY: the caller vouches for the packet.
        return unsafe { submit_one::<B, PROFILED>(instance, (stream, handle), packet) };
    }
    let mut rooms: Vec<_> = packets.iter().map(|_| Room::new()).collect();
    let mut all = Vec::with_capacity(packets.len());
    for (index, (packet, room)) in packets.iter().zip(&mut rooms).enumerate() {
        let within = |error: Error| Error::new(error.status, format!("packet {index}: {}", error.message));
        // SAFETY: the caller vouches for the packets.
        unsafe {
            optional(packet.tag).map_err(within)?;
            all.push(instance.packet(stream.owner, packet, room).map_err(within)?);
        }
    }
    let mut work = (0..).zip(all.iter().zip(packets));
    let submitted = work.try_for_each(|(index, (work, packet))| match work {
        // SAFETY: as above, and each packet was checked.
        Some(work) => unsafe {
            let (tag, place) = (Tag::new(packet.tag.as_ref()), (index, profile::kernel_of(packet)));
            profile::submit::<_, PROFILED>((stream, handle), work, tag, place)
        },
        None => Ok(()),
    });
    drop(all);
    // What was submitted before a failure uses its buffers all the same.
    mark_used(stream, rooms.iter().flat_map(|room| room.buffers.iter().copied()));
    submitted
}

/// # Safety
/// The pointers of the packet are null or valid.
unsafe fn submit_one<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    (stream, handle): (&Stream<B::Device>, u64),
    packet: &Packet,
) -> Result<()> {
    // SAFETY: the caller vouches for the packet.
    unsafe {
        let mut room = Room::new();
        if let Some(work) = instance.packet(stream.owner, packet, &mut room)? {
            let (tag, place) = (
                Tag::new(optional(packet.tag)?),
                (u32::MAX, profile::kernel_of(packet)),
            );
            let submitted = profile::submit::<_, PROFILED>((stream, handle), &work, tag, place);
            mark_used(stream, room.buffers.iter().copied());
            submitted?;
        }
    }
    Ok(())
}

unsafe extern "C" fn query<B: Backend>(context: Context, stream: u64, out: *mut u32) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let stream = instance.stream(stream)?;
            put(out, u32::from(stream.owner.get().device.is_idle(&stream.stream)?))
        })
    }
}

unsafe extern "C" fn wait_event<B: Backend>(context: Context, args: *const WaitEventArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter_profiled::<B>(
            context,
            move |instance| wait_event_in::<B, false>(instance, arg(args)?),
            move |instance| wait_event_in::<B, true>(instance, arg(args)?),
        )
    }
}

#[inline(always)]
fn wait_event_in<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    args: &WaitEventArgs,
) -> Result<()> {
    let (stream, event) = (instance.stream(args.stream)?, instance.event(args.event)?);
    if !stream.owner.is(event.owner) {
        return Err(Error::invalid_handle(
            "wait_event: stream and event belong to different devices",
        ));
    }
    let device = &stream.owner.get().device;
    if PROFILED && let Some(submission) = profile::submission(stream, args.stream) {
        return device.wait_event_profiled(&stream.stream, &event.event, &submission);
    }
    device.wait_event(&stream.stream, &event.event)
}

unsafe extern "C" fn callback<B: Backend>(context: Context, args: *const CallbackArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter_profiled::<B>(
            context,
            move |instance| callback_in::<B, false>(instance, arg(args)?),
            move |instance| callback_in::<B, true>(instance, arg(args)?),
        )
    }
}

/// # Safety
/// As [`CallbackArgs`] says of function and data.
#[inline(always)]
unsafe fn callback_in<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    args: &CallbackArgs,
) -> Result<()> {
    let stream = instance.stream(args.stream)?;
    let function = args
        .function
        .ok_or_else(|| Error::invalid_argument("callback: the function is null"))?;
    let work = Work::Callback(Callback {
        function,
        data: args.data,
    });
    // SAFETY: a callback names no memory.
    unsafe { profile::submit::<_, PROFILED>((stream, args.stream), &work, Tag::NONE, (u32::MAX, 0)) }
}

unsafe extern "C" fn synchronize<B: Backend>(context: Context, stream: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let stream = instance.stream(stream)?;
            let open = stream.owner.get();
            let result = open.device.synchronize(&stream.stream);
            open.release_retired();
            result
        })
    }
}
