//! Events.

use super::stream::{back_in_time, no_answer};
use super::{Here, given};
use crate::layer::enter;
use crate::validate::code::Code;
use crate::validate::refusal::is_zero;
use crate::validate::report::Report;
use crate::validate::shadow::{Event, Kind, Record, State};
use thalweg_hal::Status;
use thalweg_hal::tables::*;

pub(super) const TABLE: EventTable = EventTable {
    create,
    destroy,
    record,
    query,
    wait,
    elapsed,
};

unsafe extern "C" fn create(context: Context, args: *const EventArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("create event", args)?;
                state.device("create event", args.device)?;
                is_zero("create event", args.reserved)?;
                match args.timing {
                    0 | 1 => Ok(()),
                    other => {
                        let text = format!("create event: timing is {other}; it is 0 or 1");
                        Err(Report::program(Code::UnknownCode, Status::InvalidArgument, text))
                    }
                }
            })?;
            let below = |out| (place.next.event.create)(context, args, out);
            let handle = layer.number(place, "create event", out, below)?;
            layer.check(|state| {
                let event = Event {
                    device: (*args).device,
                    records: 0,
                    seen: 0,
                    record: None,
                };
                let new = state.events.insert(handle, event);
                State::once("create event", Kind::Event, handle, new)
            })?;
            out.write(handle);
        }
        Ok(())
    })
}

unsafe extern "C" fn destroy(context: Context, event: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut known = None;
        layer.check(|state| match state.events.remove(event, |_| 0) {
            Ok(object) => {
                known = Some(object);
                Ok(())
            }
            Err(missing) => Err(state.not_ended("destroy event", Kind::Event, event, missing)),
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.event.destroy)(context, event) };
        if code != 0
            && let Some(object) = known
        {
            layer.state.lock().events.insert(event, object);
        }
        layer.judge(place, "destroy event", code)
    })
}

unsafe extern "C" fn record(context: Context, args: *const EventStreamArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut earlier = None;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("record", args)?;
                let device = state.event("record", args.event)?.device;
                let stream = state.stream("record", args.stream)?;
                State::same_device("record", (Kind::Event, Kind::Stream), (device, stream.device))?;
                let clock = stream.now();
                let State { streams, events, .. } = state;
                if let (Ok(stream), Ok(event)) = (streams.find_mut(args.stream), events.find_mut(args.event))
                {
                    stream.epoch += 1;
                    event.records += 1;
                    let own = Record {
                        clock,
                        actor: stream.actor,
                        epoch: stream.epoch,
                    };
                    earlier = Some((args.event, event.record.replace(own)));
                }
                Ok(())
            })?;
            let code = (place.next.event.record)(context, args);
            if code != 0
                && let Some((event, record)) = earlier
            {
                let mut state = layer.state.lock();
                if let Ok(event) = state.events.find_mut(event) {
                    event.record = record;
                }
            }
            layer.judge(place, "record", code)
        }
    })
}

/// What is known of an event before a call: its record, the number of that, and whether the backend has said that it is done.
type Before = (Option<Record>, u64, bool);

fn known(event: &Event) -> Before {
    // An event that was never recorded holds nothing up.
    (event.record.clone(), event.records, event.seen == event.records)
}

impl State {
    /// The backend says that the work which a record covers is done.
    fn passed(&mut self, event: u64, before: &Before) {
        if let Some(record) = &before.0 {
            self.done.reach(&record.clock);
        }
        if let Ok(event) = self.events.find_mut(event) {
            event.seen = event.seen.max(before.1);
        }
    }
}

unsafe extern "C" fn query(context: Context, event: u64, out: *mut u32) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut before = None;
        layer.check(|state| {
            before = Some(known(state.event("query event", event)?));
            Ok(())
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.event.query)(context, event, out) };
        layer.judge(place, "query event", code)?;
        // SAFETY: what is below has succeeded, so it has written there.
        let done = unsafe { out.read() };
        let Some(before) = before else {
            return Ok(());
        };
        layer.check(|state| {
            let same = state
                .events
                .find(event)
                .is_ok_and(|event| event.records == before.1);
            match done {
                0 if same && before.2 => Err(back_in_time("query event")),
                0 => Ok(()),
                1 => {
                    state.passed(event, &before);
                    Ok(())
                }
                other => Err(no_answer("query event", other)),
            }
        })
    })
}

unsafe extern "C" fn wait(context: Context, args: *const EventWaitArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut before = None;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("wait for event", args)?;
                before = Some(known(state.event("wait for event", args.event)?));
                Ok(())
            })?;
            let code = (place.next.event.wait)(context, args);
            if code == 0
                && let Some(before) = before
            {
                layer.state.lock().passed((*args).event, &before);
            }
            layer.judge(place, "wait for event", code)
        }
    })
}

unsafe extern "C" fn elapsed(context: Context, args: *const ElapsedArgs, out: *mut i64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut records = None;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("elapsed", args)?;
                let (start, end) = (
                    state.event("elapsed", args.start)?,
                    state.event("elapsed", args.end)?,
                );
                State::same_device("elapsed", (Kind::Event, Kind::Event), (start.device, end.device))?;
                records = start.record.clone().zip(end.record.clone());
                Ok(())
            })?;
            let code = (place.next.event.elapsed)(context, args, out);
            layer.judge(place, "elapsed", code)?;
            let nanoseconds = out.read();
            let forth =
                records.is_some_and(|(start, end)| start.actor == end.actor && start.epoch <= end.epoch);
            if forth && nanoseconds < 0 {
                let text = format!(
                    "elapsed: the backend says that an event was reached {} ns before an earlier one of its stream; read one clock",
                    nanoseconds.unsigned_abs()
                );
                layer.found(Report::plugin(Code::BackInTime, text))?;
            }
        }
        Ok(())
    })
}
