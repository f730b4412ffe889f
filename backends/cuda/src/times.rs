//! Times of work while a profile runs: as CUPTI tells them, else by events of the driver before and after it.

use crate::activity::{self, What};
use crate::api::Cupti;
use crate::api::codes::{NOT_READY, SUCCESS};
use crate::api::driver::{RawEvent, RawStream};
use crate::context::Context;
use crate::stream::CuStream;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_hal::{Error, Host, Result};
use thalweg_hal::clock::now;
use thalweg_hal::kit::profile::{Command, Recorder, Submission};
use thalweg_hal::tables::{LogLevel, ProfileFlag, ProfileKind};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// Readings of the clocks of which the quickest is taken.
const TRIES: usize = 3;
/// Nanoseconds after which the driver's distances from an event are no longer fine enough: it tells them as 32-bit floats.
const FAR: u64 = 1_000_000_000;
/// Work that may wait to be recorded before a submission looks after it.
const FEW: usize = 64;

/// What measures the work of a device.
pub(crate) struct Times {
    recorder: Arc<Recorder>,
    context: Arc<Context>,
    host: Host,
    cupti: OnceLock<Result<&'static Cupti>>,
    open: Box<dyn Fn() -> Result<&'static Cupti> + Send + Sync>,
    // Whether the profile that runs is CUPTI's too.
    traced: AtomicBool,
    // Why the last one was not.
    why: Mutex<Option<Error>>,
    state: Mutex<State>,
}

/// Work of which CUPTI tells.
const TRACED: u64 = ProfileKind::Launch.bit() | ProfileKind::Copy.bit() | ProfileKind::Fill.bit();

#[derive(Default)]
struct State {
    spare: Vec<RawEvent>,
    pending: VecDeque<Pending>,
    base: Option<Base>,
    // Work of nobody else, so that an event on it is reached at once.
    stream: Option<RawStream>,
}

/// Work between two events.
struct Pending {
    submission: Submission,
    command: Command,
    before: RawEvent,
    after: RawEvent,
}

/// The event from which the driver tells the distance of others.
struct Base {
    event: RawEvent,
    /// Its nanoseconds by the device's clock, which counts from the host's time at the first base.
    device: u64,
    /// The host's time, nearly.
    host: u64,
}

impl Times {
    /// What measures the work of a device that nobody profiles yet. The first profile calls `open`.
    pub(crate) fn new(
        context: &Arc<Context>,
        host: Host,
        open: impl Fn() -> Result<&'static Cupti> + Send + Sync + 'static,
    ) -> Times {
        Times {
            recorder: Recorder::new(),
            context: Arc::clone(context),
            host,
            cupti: OnceLock::new(),
            open: Box::new(open),
            traced: AtomicBool::new(false),
            why: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// A profile was started. Without CUPTI it is measured by events.
    pub(crate) fn start(&self, kinds: u64) -> Result<()> {
        self.read_clock()?;
        if kinds & TRACED == 0 {
            return Ok(());
        }
        let api = self.cupti.get_or_init(&self.open).clone();
        let refused = api.and_then(activity::start).err();
        if let Some(why) = &refused {
            let text = format!("times of kernels include what the stream did around them: {why}");
            self.host.log(LogLevel::Warn, "cuda", &text);
        }
        self.traced.store(refused.is_none(), Ordering::Release);
        *self.why.lock() = refused;
        Ok(())
    }

    /// The profile was stopped.
    pub(crate) fn stop(&self) {
        if self.traced.swap(false, Ordering::AcqRel) {
            activity::stop();
        }
    }

    /// Whether CUPTI tells of the work that is submitted now.
    pub(crate) fn is_traced(&self) -> bool {
        self.traced.load(Ordering::Acquire)
    }

    /// Why CUPTI does not tell of the profile that was started last.
    pub(crate) fn why_not_traced(&self) -> Option<Error> {
        self.why.lock().clone()
    }

    /// Where records go.
    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Submits work that CUPTI tells of, or between two events. Without work nothing is recorded.
    pub(crate) fn measure(
        &self,
        stream: &CuStream,
        submission: &Submission,
        command: Command,
        submit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !submission.wants(command.kind) {
            return submit();
        }
        if command.kind.bit() & TRACED != 0 && self.is_traced() {
            let trace = (&self.recorder, submission);
            let submitted = activity::trace(trace, What::Work(command), submit);
            activity::await_end(stream);
            return submitted;
        }
        let before = self.event()?;
        let recorded = stream.record(before);
        let position = stream.position();
        let submitted = recorded.and_then(|()| submit());
        if submitted.is_err() || stream.position() == position {
            self.state.lock().spare.push(before);
            return submitted;
        }
        let after = self.event()?;
        let recorded = stream.record(after);
        let mut state = self.state.lock();
        if recorded.is_err() {
            state.spare.extend([before, after]);
            return recorded;
        }
        state.pending.push_back(Pending {
            submission: *submission,
            command,
            before,
            after,
        });
        let many = state.pending.len() >= FEW;
        drop(state);
        if many {
            return self.collect();
        }
        Ok(())
    }

    /// An event that measures time.
    fn event(&self) -> Result<RawEvent> {
        let spare = self.state.lock().spare.pop();
        match spare {
            Some(event) => Ok(event),
            None => {
                self.context.enter()?;
                self.context.new_event(0)
            }
        }
    }

    /// Reads the clocks anew.
    pub(crate) fn read_clock(&self) -> Result<()> {
        self.context.enter()?;
        self.rebase(&mut self.state.lock())
    }

    /// Records what has ended.
    pub(crate) fn collect(&self) -> Result<()> {
        if let Some(Ok(_)) = self.cupti.get() {
            activity::collect(&self.recorder);
        }
        self.context.enter()?;
        let mut state = self.state.lock();
        if (state.base.as_ref()).is_none_or(|base| now().saturating_sub(base.host) > FAR) {
            self.rebase(&mut state)?;
        }
        for _ in 0..state.pending.len() {
            let Some(work) = state.pending.pop_front() else {
                break;
            };
            // SAFETY: plain call.
            match unsafe { (self.context.api.event_query)(work.after) } {
                NOT_READY => {
                    state.pending.push_back(work);
                    continue;
                }
                SUCCESS => {
                    let times = (
                        state.time(&self.context, work.before),
                        state.time(&self.context, work.after),
                    );
                    if let (Some(start), Some(end)) = times {
                        let flag = ProfileFlag::Bracketed;
                        self.recorder
                            .record_device(&work.submission, work.command, (start, end), flag);
                    }
                }
                // The device is lost, and says so to whoever asks it for something.
                _ => {}
            }
            state.spare.extend([work.before, work.after]);
        }
        Ok(())
    }

    /// Puts the base where the clocks are now, and tells the recorder.
    fn rebase(&self, state: &mut State) -> Result<()> {
        let context = &self.context;
        let stream = match state.stream {
            Some(stream) => stream,
            None => {
                let mut raw = RawStream(std::ptr::null_mut());
                // SAFETY: plain call.
                let code = unsafe { (context.api.stream_create)(&raw mut raw, NON_BLOCKING, 0) };
                context.check("cuStreamCreateWithPriority", code)?;
                *state.stream.insert(raw)
            }
        };
        let mut best: Option<(u64, u64, RawEvent)> = None;
        for _ in 0..TRIES {
            let event = match state.spare.pop() {
                Some(event) => event,
                None => context.new_event(0)?,
            };
            let start = now();
            // SAFETY: plain calls.
            let reached = unsafe {
                context
                    .check("cuEventRecord", (context.api.event_record)(event, stream))
                    .and_then(|()| {
                        context.check("cuEventSynchronize", (context.api.event_synchronize)(event))
                    })
            };
            let width = now() - start;
            match best {
                Some((least, ..)) if reached.is_err() || least <= width => state.spare.push(event),
                _ => {
                    state.spare.extend(best.take().map(|(.., event)| event));
                    best = Some((width, start + width / 2, event));
                }
            }
            reached?;
        }
        let Some((_, host, event)) = best else {
            return Ok(());
        };
        let device = state.time(context, event).unwrap_or(host);
        let old = state.base.replace(Base { event, device, host });
        state.spare.extend(old.map(|base| base.event));
        self.recorder.add_moment(device, host);
        Ok(())
    }
}

impl State {
    /// Nanoseconds of an event that is reached, by the device's clock.
    fn time(&self, context: &Context, event: RawEvent) -> Option<u64> {
        let base = self.base.as_ref()?;
        let mut milliseconds = 0.0_f32;
        // SAFETY: both events were recorded, are reached, and measure time.
        let code = unsafe { (context.api.event_elapsed)(&raw mut milliseconds, base.event, event) };
        let nanoseconds = (f64::from(milliseconds) * 1e6) as i64;
        (code == SUCCESS).then(|| base.device.saturating_add_signed(nanoseconds))
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        self.stop();
        if self.context.enter().is_err() {
            return;
        }
        let state = self.state.get_mut();
        let pending = state.pending.drain(..).flat_map(|work| [work.before, work.after]);
        let base = state.base.take().map(|base| base.event);
        // SAFETY: owned, and not used after this. The driver keeps what queued work still waits for.
        unsafe {
            for event in pending.chain(state.spare.drain(..)).chain(base) {
                (self.context.api.event_destroy)(event);
            }
            if let Some(stream) = state.stream.take() {
                (self.context.api.stream_destroy)(stream);
            }
        }
    }
}
