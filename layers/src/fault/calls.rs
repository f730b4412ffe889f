//! The calls that may fail.

use super::failing::{fail, waited};
use super::{Fault, Kind, Object, State, injected, programs, rules, text};
use crate::forward::{self, Tables};
use crate::layer::{Answer, Place, Stop, below, enter};
use std::ffi::c_void;
use std::ptr;
use std::time::Duration;
use thalweg_hal::tables::*;
use thalweg_hal::{Error, Status};

/// How long what comes late takes.
const LATE: Duration = Duration::from_millis(100);

pub(super) const TABLES: Tables = Tables {
    device: DeviceTable {
        open,
        close,
        synchronize,
        status,
        ..forward::device::table::<Fault>()
    },
    memory: MemoryTable {
        alloc,
        statistics,
        ..forward::memory::table::<Fault>()
    },
    stream: StreamTable {
        create: create_stream,
        destroy: destroy_stream,
        launch,
        submit,
        query: query_stream,
        wait_event,
        callback,
        synchronize: synchronize_stream,
    },
    event: EventTable {
        create: create_event,
        destroy: destroy_event,
        record,
        query: query_event,
        wait,
        ..forward::event::table::<Fault>()
    },
    kernel: KernelTable {
        compile,
        ..forward::kernel::table::<Fault>()
    },
    program: ProgramTable {
        create: programs::create,
        run: programs::run,
        destroy: programs::destroy,
        ..forward::program::table::<Fault>()
    },
    ..Tables::forward::<Fault>()
};

/// Borrows an argument; `None` for one that what is below refuses.
pub(super) unsafe fn arg<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the contract of the tables: valid for the call, unless it is null or not aligned, which is asked first.
    unsafe { pointer.as_ref().filter(|_| pointer.is_aligned()) }
}

/// The op that a tag names.
pub(super) unsafe fn op<'a>(tag: *const Tag) -> &'a str {
    // SAFETY: the contract of the tables, as above.
    unsafe { arg(tag).map_or("", |tag| tag.op.get().unwrap_or_default()) }
}

/// Remembers the device of what was made.
pub(super) unsafe fn own(place: &Place<Fault>, object: Object, device: u64, out: *const u64) {
    // SAFETY: what is below has succeeded, so it has written there.
    let handle = unsafe { out.read() };
    place.layer.state.lock().owners.insert((object, handle), device);
}

pub(super) fn forget(place: &Place<Fault>, object: Object, handle: u64) {
    let mut state = place.layer.state.lock();
    state.owners.remove(&(object, handle));
    match object {
        Object::Stream => drop(state.sticking.remove(&handle)),
        Object::Program => drop(state.programs.remove(&handle)),
        Object::Event => {}
    }
}

unsafe extern "C" fn open(context: Context, options: *const DeviceOptions, out: *mut u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        let rules = rules(place.layer.host)?;
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.device.open)(context, options, out) })?;
        // SAFETY: what is below has succeeded, so it has read and written there.
        let (ordinal, device) = unsafe { ((*options).ordinal, out.read()) };
        let mut state = place.layer.state.lock();
        state.rules = rules;
        state.devices.insert(device, ordinal);
        Ok(())
    })
}

unsafe extern "C" fn close(context: Context, device: u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the arguments are handed on as they came.
        let close = || unsafe { (place.next.device.close)(context, device) };
        let (code, made) = waited(place, |state| state.streams_of(device), close);
        place.layer.state.lock().forget(device);
        made.map_or_else(|| below(code), |error| Err(error.into()))
    })
}

impl State {
    fn streams_of(&self, device: u64) -> Vec<u64> {
        let mine = |stream: &&u64| self.owners.get(&(Object::Stream, **stream)) == Some(&device);
        self.sticking.keys().filter(mine).copied().collect()
    }
}

unsafe extern "C" fn synchronize(context: Context, device: u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the arguments are handed on as they came.
        let wait = || unsafe { (place.next.device.synchronize)(context, device) };
        let (code, made) = waited(place, |state| state.streams_of(device), wait);
        place.layer.state.lock().works(device)?;
        made.map_or_else(|| below(code), |error| Err(error.into()))
    })
}

unsafe extern "C" fn status(context: Context, device: u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        place.layer.state.lock().works(device)?;
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.device.status)(context, device) })
    })
}

unsafe extern "C" fn alloc(context: Context, args: *const AllocArgs, out: *mut u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            let mut state = place.layer.state.lock();
            state.works(args.device)?;
            if let Some(number) = state.rules.strikes(Kind::Alloc) {
                // SAFETY: as above.
                let op = unsafe { op(args.tag) };
                return Err(injected(Status::OutOfMemory, op, Kind::Alloc, number).into());
            }
        }
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.memory.alloc)(context, args, out) })
    })
}

unsafe extern "C" fn statistics(context: Context, device: u64, out: *mut MemoryStatistics) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.memory.statistics)(context, device, out) })?;
        if place.layer.state.lock().rules.strikes(Kind::Statistics).is_some() {
            const NEAR: u64 = u64::MAX - 1;
            // SAFETY: what is below has succeeded, so it has written there.
            let figures = unsafe { &mut *out };
            *figures = MemoryStatistics {
                allocations: NEAR,
                frees: NEAR,
                reserves: NEAR,
                retries: NEAR,
                max_reserved: NEAR,
                max_allocated: NEAR,
                ..*figures
            };
        }
        Ok(())
    })
}

unsafe extern "C" fn create_stream(context: Context, args: *const StreamArgs, out: *mut u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((place.next.stream.create)(context, args, out))?;
            own(place, Object::Stream, (*args).device, out);
        }
        Ok(())
    })
}

unsafe extern "C" fn destroy_stream(context: Context, stream: u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the arguments are handed on as they came.
        let destroy = || unsafe { (place.next.stream.destroy)(context, stream) };
        let (code, made) = waited(place, |_| vec![stream], destroy);
        forget(place, Object::Stream, stream);
        made.map_or_else(|| below(code), |error| Err(error.into()))
    })
}

/// What becomes of a submission.
pub(super) enum Fate {
    Goes,
    /// It is accepted and fails later, with this text.
    Fails(String),
}

/// Decides about work for a stream.
pub(super) fn submission(place: &Place<Fault>, stream: u64, op: &str) -> Result<Fate, Stop> {
    let mut state = place.layer.state.lock();
    state.owner_works(Object::Stream, stream)?;
    if let Some(number) = state.rules.strikes(Kind::Submit) {
        return Err(injected(Status::LaunchFailed, op, Kind::Submit, number).into());
    }
    let later = state.rules.strikes(Kind::Later);
    if let Some(number) = state.rules.strikes(Kind::Lost)
        && let Some(&device) = state.owners.get(&(Object::Stream, stream))
    {
        state.lost.insert(device);
        let ordinal = state.devices.get(&device).copied().unwrap_or_default();
        drop(state);
        let error = injected(Status::DeviceLost, op, Kind::Lost, number);
        (place.layer.host).notify(NoticeKind::DeviceLost, ordinal, &error.message);
        return Err(error.into());
    }
    Ok(later.map_or(Fate::Goes, |number| Fate::Fails(text(op, Kind::Later, number))))
}

impl Fate {
    /// Makes what was submitted fail, if it is to.
    pub(super) fn befall(self, place: &'static Place<Fault>, stream: u64) {
        if let Fate::Fails(text) = self {
            // Where what is below takes no callback, the work does not fail.
            drop(fail(place, stream, text, None));
        }
    }
}

unsafe extern "C" fn comes_late(_: *mut c_void) -> i32 {
    std::thread::sleep(LATE);
    0
}

/// Calls a function in stream order.
///
/// # Safety
/// As [`CallbackArgs`] says of function and data.
pub(super) unsafe fn host_work(
    place: &Place<Fault>,
    stream: u64,
    function: unsafe extern "C" fn(*mut c_void) -> i32,
    data: *mut c_void,
) -> Answer {
    let args = CallbackArgs {
        stream,
        function: Some(function),
        data,
    };
    // SAFETY: the caller vouches for function and data.
    below(unsafe { (place.next.stream.callback)(place.next.api.context, &raw const args) })
}

unsafe extern "C" fn launch(context: Context, stream: u64, launch: *const Launch, tag: *const Tag) -> i32 {
    enter(context, |place: &'static Place<Fault>| {
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            let fate = submission(place, stream, op(tag))?;
            below((place.next.stream.launch)(context, stream, launch, tag))?;
            fate.befall(place, stream);
        }
        Ok(())
    })
}

unsafe extern "C" fn submit(context: Context, stream: u64, packets: *const Packet, count: usize) -> i32 {
    enter(context, |place: &'static Place<Fault>| {
        let whole = !packets.is_null() && packets.is_aligned() && count <= 1 << 20;
        // An array that cannot be one is left to what is below.
        let list = if whole {
            // SAFETY: the contract of the tables.
            unsafe { std::slice::from_raw_parts(packets, count) }
        } else {
            &[]
        };
        // SAFETY: as above.
        let op = list.first().map_or("", |packet| unsafe { op(packet.tag) });
        let fate = submission(place, stream, op)?;
        let copies = list
            .iter()
            .filter(|packet| packet.kind == PacketKind::Copy as u32)
            .count();
        let slow = {
            let mut state = place.layer.state.lock();
            (0..copies)
                .filter(|_| state.rules.strikes(Kind::Slow).is_some())
                .count()
        };
        for _ in 0..slow {
            // SAFETY: the function takes no data.
            unsafe { host_work(place, stream, comes_late, ptr::null_mut())? };
        }
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.stream.submit)(context, stream, packets, count) })?;
        fate.befall(place, stream);
        Ok(())
    })
}

unsafe extern "C" fn query_stream(context: Context, stream: u64, out: *mut u32) -> i32 {
    enter(context, |place: &Place<Fault>| {
        place.layer.state.lock().owner_works(Object::Stream, stream)?;
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.stream.query)(context, stream, out) })
    })
}

unsafe extern "C" fn wait_event(context: Context, args: *const WaitEventArgs) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            place
                .layer
                .state
                .lock()
                .owner_works(Object::Stream, args.stream)?;
        }
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.stream.wait_event)(context, args) })
    })
}

unsafe extern "C" fn callback(context: Context, args: *const CallbackArgs) -> i32 {
    enter(context, |place: &'static Place<Fault>| {
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            let mut state = place.layer.state.lock();
            state.owner_works(Object::Stream, args.stream)?;
            if let (Some(function), Some(number)) = (args.function, state.rules.strikes(Kind::Callback)) {
                drop(state);
                let text = text("callback", Kind::Callback, number);
                return fail(place, args.stream, text, Some((function, args.data)));
            }
        }
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.stream.callback)(context, args) })
    })
}

unsafe extern "C" fn synchronize_stream(context: Context, stream: u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the arguments are handed on as they came.
        let wait = || unsafe { (place.next.stream.synchronize)(context, stream) };
        let (code, made) = waited(place, |_| vec![stream], wait);
        place.layer.state.lock().owner_works(Object::Stream, stream)?;
        made.map_or_else(|| below(code), |error| Err(error.into()))
    })
}

unsafe extern "C" fn create_event(context: Context, args: *const EventArgs, out: *mut u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((place.next.event.create)(context, args, out))?;
            own(place, Object::Event, (*args).device, out);
        }
        Ok(())
    })
}

unsafe extern "C" fn destroy_event(context: Context, event: u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        forget(place, Object::Event, event);
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.event.destroy)(context, event) })
    })
}

unsafe extern "C" fn record(context: Context, args: *const EventStreamArgs) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            let mut state = place.layer.state.lock();
            state.owner_works(Object::Stream, args.stream)?;
            let late = state.rules.strikes(Kind::Event).is_some();
            drop(state);
            if late {
                // SAFETY: the function takes no data.
                unsafe { host_work(place, args.stream, comes_late, ptr::null_mut())? };
            }
        }
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.event.record)(context, args) })
    })
}

unsafe extern "C" fn query_event(context: Context, event: u64, out: *mut u32) -> i32 {
    enter(context, |place: &Place<Fault>| {
        place.layer.state.lock().owner_works(Object::Event, event)?;
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.event.query)(context, event, out) })
    })
}

unsafe extern "C" fn wait(context: Context, args: *const EventWaitArgs) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            place.layer.state.lock().owner_works(Object::Event, args.event)?;
        }
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.event.wait)(context, args) })
    })
}

/// What is below lacks a table that the layer takes part in.
pub(super) fn absent() -> Error {
    Error::unsupported("the table is not there below the layer")
}

unsafe extern "C" fn compile(context: Context, args: *const CompileArgs, out: *mut u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            let mut state = place.layer.state.lock();
            state.works(args.device)?;
            if let Some(number) = state.rules.strikes(Kind::Compile) {
                // SAFETY: as above.
                let name = unsafe { arg(args.source.kernel).and_then(|kernel| kernel.name.get().ok()) };
                let name = name.unwrap_or("library op");
                return Err(injected(Status::CompileFailed, name, Kind::Compile, number).into());
            }
        }
        let table = place.next.kernel.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (table.compile)(context, args, out) })
    })
}
