//! What CUPTI tells: when the device ran each kernel, copy and fill, those of graphs included.
//!
//! CUPTI has one client in a process, so this state is the process's. While a profile runs, CUPTI calls back at the begin of each
//! call of the driver. Where that call belongs to a submission, CUPTI's number of it is noted, and records carry that number.
//!
//! CUPTI calls back on its own threads too. No function of it is called while [`STATE`] is locked.

use crate::api::codes::SUCCESS;
use crate::api::cupti::{self, Cupti, RawSubscriber, Told};
use crate::api::driver::RawContext;
use crate::flight::Flight;
use crate::graph::{self, Parts};
use crate::stream::CuStream;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_hal::Result;
use thalweg_hal::clock::now;
use thalweg_hal::kit::profile::{Command, Recorder, Submission};

/// Words of a buffer that CUPTI fills, which hold a thousand kernels or so.
const WORDS: usize = 32 << 10;
/// Most buffers. When all of them are full, CUPTI drops records and counts them.
const BUFFERS: usize = 64;
/// Most calls whose records may come. The records of older ones are not known any more.
const CALLS: usize = 1 << 16;

/// The library, once a profile has used it.
static API: OnceLock<&Cupti> = OnceLock::new();
/// What callbacks share.
static STATE: Mutex<State> = Mutex::new(State::new());
/// Who starts and ends the tracing. Held while CUPTI is called.
static CONTROL: Mutex<Control> = Mutex::new(Control {
    profiles: 0,
    subscriber: None,
});

thread_local! {
    // The submission that this thread is in.
    static SUBMITTED: RefCell<Option<Arc<Submitted>>> = const { RefCell::new(None) };
}

struct Control {
    profiles: usize,
    subscriber: Option<RawSubscriber>,
}

struct State {
    /// Submissions by CUPTI's numbers of their calls, which grow.
    calls: BTreeMap<u32, Arc<Submitted>>,
    /// Up to where streams have work whose records must come.
    busy: Vec<(Arc<Flight>, u64)>,
    spare: Vec<Box<[u64]>>,
    /// Buffers that CUPTI has.
    lent: usize,
    lost: u64,
}

impl State {
    const fn new() -> State {
        State {
            calls: BTreeMap::new(),
            busy: Vec::new(),
            spare: Vec::new(),
            lent: 0,
            lost: 0,
        }
    }
}

/// What is submitted.
pub(crate) enum What {
    /// One piece of work, which may take several commands.
    Work(Command),
    /// A graph.
    Graph(Arc<Parts>),
}

/// A submission, as records need it.
struct Submitted {
    recorder: Arc<Recorder>,
    submission: Submission,
    what: What,
    // Commands that were recorded.
    count: AtomicU32,
}

impl Submitted {
    fn record(&self, told: Told) {
        if told.start == 0 || told.end == 0 {
            return self.recorder.lose(1);
        }
        let (recorder, times) = (&self.recorder, (told.start, told.end));
        match &self.what {
            What::Work(command) => {
                let index = self.count.fetch_add(1, Ordering::Relaxed);
                let command = command.nth(index);
                recorder.record_traced(&self.submission, command, times, 0);
            }
            What::Graph(parts) => match parts.find(told.node) {
                Some(part) => {
                    let submission = self.submission.of_packet(part.packet, part.kernel);
                    recorder.record_traced(&submission, part.command, times, part.row);
                }
                None => recorder.lose(1),
            },
        }
    }
}

/// Begins to trace for one more profile.
///
/// # Errors
/// What CUPTI refuses: another tool is its client, or the system does not allow it.
pub(crate) fn start(api: &'static Cupti) -> Result<()> {
    let mut control = CONTROL.lock();
    if control.subscriber.is_none() {
        control.subscriber = Some(subscribe(api)?);
    }
    control.profiles += 1;
    Ok(())
}

fn subscribe(api: &'static Cupti) -> Result<RawSubscriber> {
    let mut subscriber = RawSubscriber(std::ptr::null_mut());
    // SAFETY: the function lives for ever.
    let code = unsafe { (api.subscribe)(&raw mut subscriber, on_call, std::ptr::null_mut()) };
    api.check("cuptiSubscribe", code)?;
    let _ = API.set(api);
    let enabled = enable(api, subscriber);
    if enabled.is_err() {
        // SAFETY: ours, and not used after this.
        unsafe { disable(api, subscriber) };
    }
    enabled.map(|()| subscriber)
}

fn enable(api: &Cupti, subscriber: RawSubscriber) -> Result<()> {
    // SAFETY: plain calls; the functions live for ever.
    unsafe {
        let code = (api.register_buffers)(on_request, on_complete);
        api.check("cuptiActivityRegisterCallbacks", code)?;
        let code = (api.register_clock)(on_clock);
        api.check("cuptiActivityRegisterTimestampCallback", code)?;
        for domain in [cupti::DRIVER, cupti::RUNTIME] {
            api.check("cuptiEnableDomain", (api.enable_domain)(1, subscriber, domain))?;
        }
        for callback in [cupti::NODE_MADE, cupti::NODE_COPIED] {
            let code = (api.enable_callback)(1, subscriber, cupti::RESOURCE, callback);
            api.check("cuptiEnableCallback", code)?;
        }
        for kind in cupti::KINDS {
            api.check("cuptiActivityEnable", (api.enable)(kind))?;
        }
    }
    Ok(())
}

/// # Safety
/// The subscriber is not used after this.
unsafe fn disable(api: &Cupti, subscriber: RawSubscriber) {
    for kind in cupti::KINDS {
        // SAFETY: plain call. What was not enabled is refused.
        unsafe { (api.disable)(kind) };
    }
    // SAFETY: the caller's contract. It ends its callbacks.
    unsafe { (api.unsubscribe)(subscriber) };
}

/// One profile less is traced. What was submitted before is recorded when it ends.
pub(crate) fn stop() {
    let mut control = CONTROL.lock();
    control.profiles = control.profiles.saturating_sub(1);
    settle(&mut control);
}

/// Records what has ended. What CUPTI dropped counts as lost by `recorder`.
pub(crate) fn collect(recorder: &Recorder) {
    let mut control = CONTROL.lock();
    if control.subscriber.is_some() {
        flush();
        settle(&mut control);
    }
    drop(control);
    let lost = std::mem::take(&mut STATE.lock().lost);
    if lost > 0 {
        recorder.lose(lost);
    }
}

fn flush() {
    if let Some(api) = API.get() {
        // SAFETY: plain call, and from no callback.
        unsafe { (api.flush)(0) };
    }
}

/// Ends the tracing where nothing needs it any more.
fn settle(control: &mut Control) {
    if control.profiles > 0 {
        return;
    }
    let busy = {
        let mut state = STATE.lock();
        state.busy.retain(|(flight, position)| !flight.is_passed(*position));
        !state.busy.is_empty()
    };
    if busy {
        return;
    }
    if let (Some(api), Some(subscriber)) = (API.get(), control.subscriber.take()) {
        flush();
        // SAFETY: taken, and so not used after this.
        unsafe { disable(api, subscriber) };
        STATE.lock().calls.clear();
    }
}

/// Runs `submit`: what the driver is called for meanwhile, by this thread, is recorded as `submission`.
pub(crate) fn trace<R>(
    (recorder, submission): (&Arc<Recorder>, &Submission),
    what: What,
    submit: impl FnOnce() -> R,
) -> R {
    /// Ends the submission, also where it panics.
    struct Within;
    impl Drop for Within {
        fn drop(&mut self) {
            SUBMITTED.set(None);
        }
    }
    SUBMITTED.set(Some(Arc::new(Submitted {
        recorder: Arc::clone(recorder),
        submission: *submission,
        what,
        count: AtomicU32::new(0),
    })));
    let _within = Within;
    submit()
}

/// The records of what was submitted to a stream until now are to come.
pub(crate) fn await_end(stream: &CuStream) {
    let (flight, position) = (stream.flight(), stream.position());
    let mut state = STATE.lock();
    match (state.busy.iter_mut()).find(|(other, _)| Arc::ptr_eq(other, flight)) {
        Some((_, last)) => *last = position.max(*last),
        None => state.busy.push((Arc::clone(flight), position)),
    }
}

unsafe extern "C" fn on_clock() -> u64 {
    now()
}

unsafe extern "C" fn on_call(_: *mut c_void, domain: u32, callback: u32, data: *const c_void) {
    match domain {
        cupti::DRIVER | cupti::RUNTIME => {
            // SAFETY: the data of these domains.
            let Some(call) = (unsafe { cupti::call_number(data) }) else {
                return;
            };
            // Nothing is noted by a thread that ends.
            let submitted = SUBMITTED.try_with(|own| own.borrow().clone()).ok().flatten();
            if let Some(submitted) = submitted {
                let mut state = STATE.lock();
                state.calls.insert(call, submitted);
                if state.calls.len() > CALLS {
                    state.calls.pop_first();
                }
            }
        }
        cupti::RESOURCE if callback == cupti::NODE_MADE || callback == cupti::NODE_COPIED => {
            // SAFETY: the data of these callbacks.
            if let (Some((node, original)), Some(api)) = (unsafe { cupti::nodes(data) }, API.get()) {
                graph::noted(api, node, (callback == cupti::NODE_COPIED).then_some(original));
            }
        }
        _ => {}
    }
}

unsafe extern "C" fn on_request(buffer: *mut *mut u8, bytes: *mut usize, most: *mut usize) {
    let memory = {
        let mut state = STATE.lock();
        let memory = match state.spare.pop() {
            None if state.lent < BUFFERS => Some(vec![0_u64; WORDS].into_boxed_slice()),
            other => other,
        };
        state.lent += usize::from(memory.is_some());
        memory
    };
    let at = memory.map_or(std::ptr::null_mut(), |memory| Box::into_raw(memory).cast());
    // SAFETY: CUPTI's places for these.
    unsafe {
        buffer.write(at);
        bytes.write(if at.is_null() { 0 } else { 8 * WORDS });
        most.write(0);
    }
}

unsafe extern "C" fn on_complete(_: RawContext, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    let Some(api) = API.get() else { return };
    let (mut told, mut record, mut dropped) = (Vec::new(), std::ptr::null_mut(), 0);
    // SAFETY: a buffer of CUPTI's records, which are read in it.
    unsafe {
        while (api.next)(buffer, valid, &raw mut record) == SUCCESS {
            told.extend(Told::read(record));
        }
        (api.dropped)(RawContext(std::ptr::null_mut()), 0, &raw mut dropped);
    }
    let known: Vec<(Arc<Submitted>, Told)> = {
        let mut state = STATE.lock();
        state.lost += dropped as u64;
        if !buffer.is_null() {
            let memory = std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), WORDS);
            // SAFETY: one of those that `on_request` has lent, which CUPTI does not use any more.
            state.spare.push(unsafe { Box::from_raw(memory) });
            state.lent -= 1;
        }
        // Others are of work that nobody profiles, or of other users of the device.
        let find = |told: Told| Some((Arc::clone(state.calls.get(&told.call)?), told));
        told.into_iter().filter_map(find).collect()
    };
    for (submitted, told) in known {
        submitted.record(told);
    }
}
