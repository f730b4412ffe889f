//! Streams and their work.

use super::{Here, given};
use crate::layer::{Answer, Stop, enter};
use crate::validate::Validate;
use crate::validate::code::Code;
use crate::validate::content::Held;
use crate::validate::order::Clock;
use crate::validate::refusal::{is_zero, pointer};
use crate::validate::report::Report;
use crate::validate::shadow::{Check, Kind, State, Stream};
use crate::validate::work::Ticket;
use std::ffi::c_void;
use thalweg_hal::Status;
use thalweg_hal::kit::args::{array, optional};
use thalweg_hal::tables::*;

pub(super) const TABLE: StreamTable = StreamTable {
    create,
    destroy,
    launch,
    submit,
    query,
    wait_event,
    callback,
    synchronize,
};

unsafe extern "C" fn create(context: Context, args: *const StreamArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("create stream", args)?;
                state.device("create stream", args.device)?;
                is_zero("create stream", args.reserved)
            })?;
            let below = |out| (place.next.stream.create)(context, args, out);
            let handle = layer.number(place, "create stream", out, below)?;
            layer.check(|state| {
                let stream = Stream {
                    device: (*args).device,
                    actor: state.done.begin(),
                    epoch: 0,
                    clock: Clock::default(),
                };
                let new = state.streams.insert(handle, stream);
                State::once("create stream", Kind::Stream, handle, new)
            })?;
            out.write(handle);
        }
        Ok(())
    })
}

unsafe extern "C" fn destroy(context: Context, stream: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut known = None;
        layer.check(|state| match state.streams.remove(stream, |_| 0) {
            Ok(object) => {
                known = Some(object);
                Ok(())
            }
            Err(missing) => Err(state.not_ended("destroy stream", Kind::Stream, stream, missing)),
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.stream.destroy)(context, stream) };
        // The error of its work, which is reported here at the latest, ends it all the same.
        if let Some(object) = known {
            let mut state = layer.state.lock();
            state.done.reach(&object.now());
            state.done.end(object.actor);
        }
        layer.judge(place, "destroy stream", code)
    })
}

/// What is known of a submission: its stream and number, and the host memory that it reads.
type Submission = (Option<Ticket>, Option<Box<Held>>);

impl Validate {
    /// The end of a submission: what was noted of one that is refused is taken back.
    #[inline]
    pub(super) fn submitted(
        &'static self,
        place: Here,
        what: &str,
        (ticket, stream, held): (Option<Ticket>, u64, Option<Box<Held>>),
        code: i32,
    ) -> Answer {
        if code != 0
            && let Some((actor, epoch)) = ticket
        {
            self.state.lock().undo(actor, epoch);
        }
        if code == 0
            && let Some(held) = held
        {
            held.watch(place, stream);
        }
        self.judge(place, what, code)
    }

    /// A check that notes a submission. Where it refuses, the submission is taken back, unless the call goes on.
    #[inline]
    pub(super) fn submission(
        &'static self,
        check: impl FnOnce(&mut State) -> (Option<Ticket>, Check),
    ) -> Result<Submission, Stop> {
        let (ticket, checked, reads) = {
            let mut state = self.state.lock();
            let (ticket, checked) = match state.down {
                true => (None, Ok(())),
                false => check(&mut state),
            };
            (ticket, checked, std::mem::take(&mut state.held))
        };
        if let Err(report) = checked
            && let Err(stop) = self.found(report)
        {
            if let Some((actor, epoch)) = ticket {
                self.state.lock().undo(actor, epoch);
            }
            return Err(stop);
        }
        // SAFETY: the contract of the tables: host memory stays valid until the stream has passed the work.
        Ok((ticket, unsafe { Held::new(self, reads) }))
    }
}

unsafe extern "C" fn launch(context: Context, stream: u64, launch: *const Launch, tag: *const Tag) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            let (ticket, held) =
                layer.submission(|state| match (given("launch", launch), optional(tag)) {
                    (Ok(launch), Ok(_)) => state.launch(stream, launch, tag),
                    (Err(report), _) => (None, Err(report)),
                    (_, Err(error)) => (None, Err(pointer("launch", &error))),
                })?;
            let code = (place.next.stream.launch)(context, stream, launch, tag);
            layer.submitted(place, "launch", (ticket, stream, held), code)
        }
    })
}

unsafe extern "C" fn submit(context: Context, stream: u64, packets: *const Packet, count: usize) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            let (ticket, held) = layer.submission(|state| match array(packets, count) {
                Ok(packets) => state.submit(stream, packets),
                Err(error) => (None, Err(pointer("submit", &error))),
            })?;
            let code = (place.next.stream.submit)(context, stream, packets, count);
            layer.submitted(place, "submit", (ticket, stream, held), code)
        }
    })
}

/// The report of a stream or event that was done and is not.
#[cold]
pub(super) fn back_in_time(what: &str) -> Report {
    let text =
        format!("{what}: the backend says that work runs which it said was done; keep what has ended ended");
    Report::plugin(Code::BackInTime, text)
}

unsafe extern "C" fn query(context: Context, stream: u64, out: *mut u32) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut before = None;
        layer.check(|state| {
            let own = state.stream("query stream", stream)?;
            let ended = state.done.has(own.actor, own.epoch);
            before = Some((own.now(), own.epoch, ended));
            Ok(())
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.stream.query)(context, stream, out) };
        layer.judge(place, "query stream", code)?;
        // SAFETY: what is below has succeeded, so it has written there.
        let idle = unsafe { out.read() };
        let Some((clock, epoch, ended)) = before else {
            return Ok(());
        };
        layer.check(|state| match idle {
            0 if ended && state.streams.find(stream).is_ok_and(|own| own.epoch == epoch) => {
                Err(back_in_time("query stream"))
            }
            0 => Ok(()),
            1 => {
                state.done.reach(&clock);
                Ok(())
            }
            other => Err(no_answer("query stream", other)),
        })
    })
}

/// The report of an answer that is neither 0 nor 1.
#[cold]
pub(super) fn no_answer(what: &str, answer: u32) -> Report {
    let text = format!("{what}: the backend answers {answer}; write 0 or 1");
    Report::plugin(Code::WrongSize, text)
}

unsafe extern "C" fn wait_event(context: Context, args: *const WaitEventArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut ticket = None;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("wait event", args)?;
                let device = state.stream("wait event", args.stream)?.device;
                let event = state.event("wait event", args.event)?;
                State::same_device("wait event", (Kind::Stream, Kind::Event), (device, event.device))?;
                let clock = event.record.as_ref().map(|record| record.clock.clone());
                let State { streams, done, .. } = state;
                if let (Ok(own), Some(clock)) = (streams.find_mut(args.stream), clock) {
                    own.epoch += 1;
                    ticket = Some((args.stream, own.clock.clone()));
                    done.merge(&mut own.clock, &clock);
                }
                Ok(())
            })?;
            let code = (place.next.stream.wait_event)(context, args);
            if code != 0
                && let Some((stream, clock)) = ticket
            {
                // It waits for nothing.
                let mut state = layer.state.lock();
                if let Ok(own) = state.streams.find_mut(stream) {
                    own.clock = clock;
                }
            }
            layer.judge(place, "wait event", code)
        }
    })
}

/// A callback of the program, which tells that the work before it is done.
struct Callback {
    function: unsafe extern "C" fn(*mut c_void) -> i32,
    data: *mut c_void,
    layer: &'static Validate,
    before: Clock,
}

unsafe extern "C" fn run_and_tell(data: *mut c_void) -> i32 {
    // SAFETY: `callback` has made it, and it is called once.
    let own = unsafe { Box::from_raw(data.cast::<Callback>()) };
    own.layer.state.lock().done.reach(&own.before);
    // SAFETY: the program vouches for function and data.
    unsafe { (own.function)(own.data) }
}

unsafe extern "C" fn callback(context: Context, args: *const CallbackArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut before = None;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("callback", args)?;
                if args.function.is_none() {
                    let text = "callback: the function is null; pass one";
                    return Err(Report::program(Code::Pointer, Status::InvalidArgument, text));
                }
                before = Some(state.stream("callback", args.stream)?.now());
                if let Ok(own) = state.streams.find_mut(args.stream) {
                    own.epoch += 1;
                }
                Ok(())
            })?;
            let (
                Some(before),
                Some(CallbackArgs {
                    function: Some(function),
                    data,
                    stream,
                }),
            ) = (before, args.as_ref().copied())
            else {
                return layer.judge(place, "callback", (place.next.stream.callback)(context, args));
            };
            let own = Box::into_raw(Box::new(Callback {
                function,
                data,
                layer,
                before,
            }));
            let wrapped = CallbackArgs {
                stream,
                function: Some(run_and_tell),
                data: own.cast(),
            };
            let code = (place.next.stream.callback)(context, &raw const wrapped);
            if code != 0 {
                // What is below has refused, so it never calls the function.
                drop(Box::from_raw(own));
            }
            layer.judge(place, "callback", code)
        }
    })
}

unsafe extern "C" fn synchronize(context: Context, stream: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut before = None;
        layer.check(|state| {
            before = Some(state.stream("synchronize stream", stream)?.now());
            Ok(())
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.stream.synchronize)(context, stream) };
        if let Some(clock) = before.filter(|_| code != Status::InvalidHandle as i32) {
            layer.state.lock().done.reach(&clock);
        }
        layer.judge(place, "synchronize stream", code)
    })
}
