//! The event table.

use super::objects::{Event, Owner, full, stale};
use super::{arg, enter, put, writable};
use crate::backend::{Backend, Device};
use crate::status::Error;
use crate::tables::{Context, ElapsedArgs, EventArgs, EventStreamArgs, EventTable, EventWaitArgs};
use std::time::Duration;

pub(super) const fn table<B: Backend>() -> EventTable {
    EventTable {
        create: create::<B>,
        destroy: destroy::<B>,
        record: record::<B>,
        query: query::<B>,
        wait: wait::<B>,
        elapsed: elapsed::<B>,
    }
}

unsafe extern "C" fn create<B: Backend>(context: Context, args: *const EventArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let open = instance.device(args.device)?;
            let timing = match args.timing {
                0 => false,
                1 => true,
                other => {
                    return Err(Error::invalid_argument(format!(
                        "event: timing is 0 or 1, not {other}"
                    )));
                }
            };
            let event = Event {
                owner: Owner::new(open),
                event: open.device.create_event(timing)?,
                timing,
            };
            put(out, instance.events.insert(event).ok_or_else(|| full("event"))?)
        })
    }
}

unsafe extern "C" fn destroy<B: Backend>(context: Context, event: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            instance
                .events
                .remove(event)
                .map(drop)
                .ok_or_else(|| stale("event", event))
        })
    }
}

unsafe extern "C" fn record<B: Backend>(context: Context, args: *const EventStreamArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let (event, stream) = (instance.event(args.event)?, instance.stream(args.stream)?);
            if !event.owner.is(stream.owner) {
                return Err(Error::invalid_handle(
                    "record: event and stream belong to different devices",
                ));
            }
            event.owner.get().device.record(&event.event, &stream.stream)
        })
    }
}

unsafe extern "C" fn query<B: Backend>(context: Context, event: u64, out: *mut u32) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let event = instance.event(event)?;
            put(
                out,
                u32::from(event.owner.get().device.query_event(&event.event)?),
            )
        })
    }
}

unsafe extern "C" fn wait<B: Backend>(context: Context, args: *const EventWaitArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let event = instance.event(args.event)?;
            let timeout = (args.timeout_ns != u64::MAX).then(|| Duration::from_nanos(args.timeout_ns));
            event.owner.get().device.wait_for_event(&event.event, timeout)
        })
    }
}

unsafe extern "C" fn elapsed<B: Backend>(context: Context, args: *const ElapsedArgs, out: *mut i64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let (start, end) = (instance.event(args.start)?, instance.event(args.end)?);
            if !start.owner.is(end.owner) {
                return Err(Error::invalid_handle(
                    "elapsed: the events belong to different devices",
                ));
            }
            if !(start.timing && end.timing) {
                return Err(Error::unsupported("elapsed: an event was created without timing"));
            }
            put(out, start.owner.get().device.elapsed(&start.event, &end.event)?)
        })
    }
}
