//! Streams: the driver's, with the host's work between their commands.

use crate::api::codes::{NOT_READY, SUCCESS, is_sticky};
use crate::api::driver::{DevicePtr, RawEvent, RawStream};
use crate::context::Context;
use crate::flight::{self, Flight, Kept};
use crate::gate::{Gate, Mark, Release};
use crate::memory::Chunk;
use crate::stage::Stage;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_hal::backend::Tag;
use thalweg_hal::kit::queue::{Job, Queue};
use thalweg_hal::{Error, Result, Status};

/// `CU_STREAM_NON_BLOCKING`: no order with the default stream of others in the process.
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_WAIT_VALUE_GEQ`.
const AT_LEAST: u32 = 0;
/// `CU_STREAM_WRITE_VALUE_DEFAULT`: what came before is visible to who sees the value.
const FENCED: u32 = 0;
/// Most submissions that are remembered by name.
const NAMES: usize = 64;
/// Most marks in a stream that wait to be passed.
const MARKS: usize = 16;
/// Submissions after which the driver is asked how far it is, where as many keep something until they are passed.
const MOST_KEPT: usize = 64;

/// Pages of the device's memory.
const PAGE: u64 = 2 << 20;
/// Scratch memory beyond this many bytes is not rounded to powers of two.
const DOUBLED: u64 = 64 << 20;

/// Bytes of scratch memory that are reserved for `bytes`, and fewer that would do, where there were `before`. What was outgrown
/// stays for a while: sizes grow by a quarter at least, so that all of it is no more than four times what there is.
fn scratch_size(bytes: u64, before: u64) -> (u64, u64) {
    if bytes <= DOUBLED {
        let size = bytes.next_power_of_two().max(1 << 16);
        return (size, size);
    }
    let least = bytes.next_multiple_of(PAGE);
    (least.max((before + before / 4).next_multiple_of(PAGE)), least)
}

/// What belongs to the stream and is used in its order.
#[derive(Default)]
pub(crate) struct Belongings {
    scratch: Option<(Chunk, u64)>,
    // Scratch memory that was too small; work queued since the host last waited for the stream may use it still.
    outgrown: Vec<Chunk>,
    gate: Option<Gate>,
    /// Staging memory.
    pub(crate) stage: Option<Stage>,
    /// Whether the stream itself may write host memory that is not pinned since the host's side last waited for it: it was made
    /// to wait for another stream, or a graph does.
    pub(crate) waited: bool,
    /// Whether it writes pinned host memory since then.
    pub(crate) pinned_written: bool,
}

impl Belongings {
    /// The host's side waits for the stream before it goes on.
    pub(crate) fn host_is_behind(&mut self) {
        (self.waited, self.pinned_written) = (false, false);
    }
}

/// A stream.
pub(crate) struct CuStream {
    // First: its work waits for commands of the stream.
    worker: Queue,
    flight: Arc<Flight>,
    belongings: Mutex<Belongings>,
    raw: RawStream,
    context: Arc<Context>,
}

/// The right to submit what belongs together.
pub(crate) struct Order<'a> {
    stream: &'a CuStream,
    /// What belongs to the stream.
    pub(crate) belongings: MutexGuard<'a, Belongings>,
}

impl CuStream {
    /// A stream of the driver's priority `priority`: lower numbers come first.
    pub(crate) fn new(context: &Arc<Context>, priority: i32) -> Result<CuStream> {
        context.enter()?;
        let mut raw = RawStream(std::ptr::null_mut());
        // SAFETY: plain call.
        let code = unsafe { (context.api.stream_create)(&raw mut raw, NON_BLOCKING, priority) };
        context.check("cuStreamCreateWithPriority", code)?;
        Ok(CuStream {
            worker: Queue::new("thalweg-cuda"),
            flight: Arc::default(),
            belongings: Mutex::default(),
            raw,
            context: Arc::clone(context),
        })
    }

    /// Takes the right to submit; whoever else wants to waits for as long as that takes. The context is current then.
    #[inline]
    pub(crate) fn order(&self) -> Result<Order<'_>> {
        self.context.enter()?;
        Ok(Order {
            stream: self,
            belongings: self.belongings.lock(),
        })
    }

    /// Calls `run` on the host when the work so far is done; later work waits for it.
    pub(crate) fn host_work(
        &self,
        tag: Tag<'_>,
        run: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut order = self.order()?;
        let before = order.mark()?;
        let release = order.ticket()?;
        let ticket = release.number();
        order.belongings.host_is_behind();
        order.done(tag, None);
        order.job(tag, move || {
            // When the device is lost, the host's work is done all the same.
            let _ = before.wait();
            let result = run();
            drop(release);
            result
        })?;
        // The host's work is under way: what is refused now is an error of the stream.
        if let Err(error) = order.wait_for_ticket(ticket) {
            self.flight.fail(&tag.to_owned(), &error);
        }
        Ok(())
    }

    /// Records an event.
    pub(crate) fn record(&self, event: RawEvent) -> Result<()> {
        let _order = self.order()?;
        // SAFETY: plain call.
        self.check("cuEventRecord", unsafe {
            (self.context.api.event_record)(event, self.raw)
        })
    }

    /// Makes later work wait for an event of any device.
    pub(crate) fn wait_for(&self, event: RawEvent) -> Result<()> {
        let mut order = self.order()?;
        order.belongings.waited = true;
        // SAFETY: plain call.
        let code = unsafe { (self.context.api.stream_wait_event)(self.raw, event, 0) };
        self.check("cuStreamWaitEvent", code)?;
        order.done(Tag::NONE, None);
        Ok(())
    }

    fn check(&self, call: &str, code: u32) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // Named only when this call is the one that finds the fault; afterwards the device is lost whoever asks.
        let was_lost = self.context.is_lost();
        self.context.check(call, code).map_err(|error| {
            if !was_lost && self.context.is_lost() {
                self.flight.suspects(&error)
            } else {
                error
            }
        })
    }

    /// What of its work is under way; it outlives the stream.
    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    /// See [`Device::position`](thalweg_hal::backend::Device::position).
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.flight.submitted.load(Ordering::Acquire)
    }

    /// See [`Device::passed`](thalweg_hal::backend::Device::passed). Where nothing goes on any more everything is: whoever
    /// synchronises reports why.
    pub(crate) fn passed(&self, position: u64) -> bool {
        let flight = &*self.flight;
        let done = || flight.is_passed(position);
        if done() || self.context.is_lost() {
            return true;
        }
        if self.context.enter().is_err() {
            return self.context.is_lost();
        }
        // What counts as submitted was handed to the driver before.
        let submitted = self.position();
        // SAFETY: plain call.
        match unsafe { (self.context.api.stream_query)(self.raw) } {
            SUCCESS => flight.finish(submitted),
            NOT_READY => {
                // Whoever submits now may wait for room in the driver's queue.
                if let Some(_belongings) = self.belongings.try_lock() {
                    self.look_at_marks(position);
                }
            }
            code => return is_sticky(code),
        }
        done()
    }

    /// Finds out how far a busy stream is; sets a mark where none tells of `position`. The caller holds the right to submit.
    fn look_at_marks(&self, position: u64) {
        let mut state = self.flight.state.lock();
        let mut reached = 0;
        while let Some((at, event)) = state.marks.front() {
            if !event.is_done() {
                break;
            }
            reached = *at;
            state.marks.pop_front();
        }
        let told = state.marks.back().is_some_and(|(at, _)| *at >= position);
        if reached < position && !told && state.marks.len() < MARKS {
            let event = self.context.event().and_then(|event| {
                // SAFETY: plain call.
                let code = unsafe { (self.context.api.event_record)(event.raw, self.raw) };
                self.context.check("cuEventRecord", code).map(|()| event)
            });
            if let Ok(event) = event {
                state.marks.push_back((self.position(), event));
            }
        }
        drop(state);
        if reached > 0 {
            self.flight.finish(reached);
        }
    }

    /// Whether all work is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.passed(self.position())
    }

    /// Waits for all work; errors of the host's side stay where they are.
    pub(crate) fn wait(&self) -> Result<()> {
        let target = self.position();
        self.worker.wait();
        self.context.enter()?;
        // SAFETY: plain call.
        let code = unsafe { (self.context.api.stream_synchronize)(self.raw) };
        self.check("cuStreamSynchronize", code)?;
        self.flight.finish(target);
        Ok(())
    }

    /// Waits for all work and returns the first error, once.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let target = self.position();
        // Nothing that is queued from now on uses it.
        let outgrown = std::mem::take(&mut self.belongings.lock().outgrown);
        // A panic of the host's work; other errors of it lie with the stream's.
        let panicked = self.worker.synchronize();
        let entered = self.context.enter();
        // SAFETY: plain call.
        let code = unsafe { (self.context.api.stream_synchronize)(self.raw) };
        let result = entered.and_then(|()| self.check("cuStreamSynchronize", code));
        self.flight.finish(target);
        drop(outgrown);
        let first = self.flight.state.lock().error.take();
        match first {
            Some(error) => Err(error),
            None => result.and(panicked),
        }
    }
}

impl Drop for CuStream {
    fn drop(&mut self) {
        // Whoever wanted the error has synchronised before.
        let _ = self.synchronize();
        self.flight.state.lock().marks.clear();
        if self.context.enter().is_ok() {
            // SAFETY: owned, idle, and not used after this.
            unsafe { (self.context.api.stream_destroy)(self.raw) };
        }
    }
}

impl Order<'_> {
    /// The driver's handle.
    #[inline]
    pub(crate) fn raw(&self) -> RawStream {
        self.stream.raw
    }

    /// The context.
    #[inline]
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.stream.context
    }

    /// An error, with what may have caused it, unless the code is success.
    #[inline]
    pub(crate) fn check(&self, call: &str, code: u32) -> Result<()> {
        self.stream.check(call, code)
    }

    /// An error with the work that may have caused it.
    pub(crate) fn suspects(&self, error: &Error) -> Error {
        self.stream.flight.suspects(error)
    }

    /// Counts what was submitted under `tag`; `kept` lives until the stream has passed it.
    #[inline]
    pub(crate) fn done(&self, tag: Tag<'_>, kept: Option<Kept>) {
        let flight = &self.stream.flight;
        let mut state = flight.state.lock();
        let position = flight.submitted.load(Ordering::Relaxed) + 1;
        let oldest = |state: &mut flight::State| match state.names.len() {
            NAMES => state.names.pop_front().map(|(_, name)| name),
            _ => None,
        };
        let mut name = oldest(&mut state)
            .or_else(|| state.spare.pop())
            .unwrap_or_default();
        name.assign(tag);
        state.names.push_back((position, name));
        state.kept.extend(kept.map(|kept| (position, kept)));
        flight.submitted.store(position, Ordering::Release);
        let many = state.kept.len() >= MOST_KEPT && position.is_multiple_of(MOST_KEPT as u64);
        drop(state);
        if many {
            self.stream.look_at_marks(position);
        }
    }

    /// The end of the work so far.
    pub(crate) fn mark(&mut self) -> Result<Mark> {
        let (mark, flag) = self.gate()?.mark();
        // SAFETY: plain call; the flag lives as long as the stream.
        let code =
            unsafe { (self.context().api.stream_write_value)(self.stream.raw, flag, mark.number(), FENCED) };
        self.check("cuStreamWriteValue32", code).map(|()| mark)
    }

    fn gate(&mut self) -> Result<&mut Gate> {
        let gate = match self.belongings.gate.take() {
            Some(gate) => gate,
            None => Gate::new(self.context())?,
        };
        Ok(self.belongings.gate.insert(gate))
    }

    /// A number that the host will reach when the result is dropped.
    pub(crate) fn ticket(&mut self) -> Result<Release> {
        Ok(self.gate()?.ticket())
    }

    /// Makes later work wait until the host has reached a number. What reaches it is under way before this is called: a driver that is
    /// busy with another thread's call may hold up this one until the stream is done.
    pub(crate) fn wait_for_ticket(&self, ticket: u32) -> Result<()> {
        let Some(gate) = &self.belongings.gate else {
            return Ok(());
        };
        // SAFETY: plain call; the flag lives as long as the stream.
        let code = unsafe {
            let flag = gate.reached();
            (self.context().api.stream_wait_value)(self.stream.raw, flag, ticket, AT_LEAST)
        };
        self.check("cuStreamWaitValue32", code)
    }

    /// Hands work to the host's side of the stream, which does it in order and calls no function of the driver.
    pub(crate) fn job(&self, tag: Tag<'_>, run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        let (flight, tag) = (Arc::clone(&self.stream.flight), tag.to_owned());
        let describe = tag.clone();
        self.stream.worker.push(Job {
            run: Box::new(move || {
                if let Err(error) = run() {
                    flight.fail(&tag, &error);
                }
                Ok(())
            }),
            describe: Box::new(move || describe.to_string()),
        })
    }

    /// Waits until the host's side has nothing to do.
    pub(crate) fn wait_for_host(&self) {
        self.stream.worker.wait();
    }

    /// Whether the host's side has nothing to do.
    pub(crate) fn host_is_idle(&self) -> bool {
        self.stream.worker.is_idle()
    }

    /// At least `bytes` bytes of scratch memory, used by one submission after the other.
    pub(crate) fn scratch(&mut self, bytes: u64) -> Result<DevicePtr> {
        let fits = self
            .belongings
            .scratch
            .as_ref()
            .filter(|(_, size)| *size >= bytes);
        if let Some((chunk, _)) = fits {
            return Ok(chunk.base());
        }
        let before = self.belongings.scratch.as_ref().map_or(0, |(_, size)| *size);
        let (size, least) = scratch_size(bytes, before);
        let (chunk, size) = match Chunk::new(self.context(), size) {
            Err(error) if error.status == Status::OutOfMemory && least < size => {
                (Chunk::new(self.context(), least)?, least)
            }
            made => (made?, size),
        };
        let base = chunk.base();
        let old = self.belongings.scratch.replace((chunk, size));
        self.belongings.outgrown.extend(old.map(|(chunk, _)| chunk));
        Ok(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_memory_is_doubled_while_it_is_small() {
        assert_eq!(scratch_size(1, 0), (1 << 16, 1 << 16));
        assert_eq!(scratch_size((32 << 20) + 1, 1 << 20), (64 << 20, 64 << 20));
        let large = (33 << 30) + 1;
        let tight = (33 << 30) + PAGE;
        assert_eq!(scratch_size(large, 64 << 20), (tight, tight));
        // One a little larger than the last leaves room for the next.
        assert_eq!(scratch_size(large, 32 << 30), (40 << 30, tight));
    }
}
