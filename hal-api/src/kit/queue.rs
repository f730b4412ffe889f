//! In-order streams for backends whose work runs on host threads.
//!
//! Whoever holds the executor role of a queue runs its jobs: a caller that finds the queue idle runs a small job on the
//! spot, a caller that synchronises runs what is left, and otherwise the queue's own thread does, which is started by the first
//! job that is queued, spins for a while before it sleeps (a wake-up costs two orders of magnitude more than a hand-off to a
//! spinning thread), and at first sleeps in naps, so that callers that run their jobs themselves wake it in vain no more. Naps
//! get longer while no job has to wait for the thread, because the end of a nap takes a core from those that work.

use super::fork::{generation, is_current};
use super::lock::{Condvar, Mutex};
use super::spin::{look, spin_until};
use crate::status::{Error, Result, Status};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a queue's thread sleeps at most while jobs come now and then, and how often so without any.
const NAP: Duration = Duration::from_millis(1);
const NAPS: u32 = 20;

/// The longest nap. A nap lasts this part of the time since a job lay there last with nobody to run it.
const LONG_NAP: Duration = Duration::from_millis(4);
const NAP_PART: u32 = 16;

/// How often a queue's thread looks whether the caller runs a job itself.
const COURTESY: u32 = 32;

/// Who waits for a job no later than this after it was queued is expected to wait for the next one as soon: it will run that
/// job itself, if the queue's thread leaves it so long.
const PROMPT: Duration = Duration::from_micros(20);

/// A piece of work and what to call it when it fails.
pub struct Job {
    /// Runs once, in queue order.
    pub run: Box<dyn FnOnce() -> Result<()> + Send>,
    /// Describes the job; called only when it fails.
    pub describe: Box<dyn FnOnce() -> String + Send>,
}

/// How a queue's thread waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// Not at all.
    Awake,
    /// For [`NAP`] at most.
    Short,
    /// For [`LONG_NAP`] at most.
    Long,
    /// Until it is woken.
    Deep,
}

struct Pending {
    jobs: VecDeque<Job>,
    // When the last job was queued.
    pushed: Instant,
    // When a job was last found that nobody had run within `PROMPT`.
    delayed: Instant,
    // Whether it was waited for within `PROMPT` the last time.
    prompt: bool,
    sleep: Sleep,
    thread: bool,
    closed: bool,
    // How often the thread woke up.
    #[cfg(test)]
    woken: u64,
}

// States of the executor role. While it is DRAIN its holder runs every queued job; it goes back to FREE under the lock of
// `pending` when there are none, so nobody needs to be woken for jobs that arrive meanwhile.
const FREE: u8 = 0;
const INLINE: u8 = 1;
const DRAIN: u8 = 2;

struct Shared {
    // The process that it belongs to, and what a child of it goes on with.
    generation: u64,
    next: OnceLock<Arc<Shared>>,
    name: String,
    pending: Mutex<Pending>,
    wake: Condvar,
    idle: Condvar,
    // The first number of finished jobs that somebody sleeps for.
    awaited: AtomicU64,
    role: AtomicU8,
    // Whether a job was queued behind another that nobody is expected to wait for now.
    pressing: AtomicBool,
    queued: AtomicU64,
    finished: AtomicU64,
    error: Mutex<Option<Error>>,
}

/// An in-order queue of work. Dropping it waits for its work. In the child of a fork it goes on where it was, or with an error that
/// sticks to it where work was under way.
pub struct Queue {
    shared: Arc<Shared>,
}

/// The executor role of an idle queue, given back on drop.
pub struct Inline<'a> {
    shared: &'a Shared,
}

impl Drop for Inline<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shared.role.store(FREE, Ordering::Release);
    }
}

impl Inline<'_> {
    /// Runs a job in the queue's place. Its error sticks to the queue.
    #[inline]
    pub fn run(&self, job: impl FnOnce() -> Result<()>, describe: impl FnOnce() -> String) {
        self.shared.run(job, describe);
    }
}

/// The error that a caught panic becomes.
pub fn panic_error(payload: &(dyn std::any::Any + Send)) -> Error {
    let text = (payload.downcast_ref::<&str>().copied())
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Error::new(Status::Panicked, format!("the backend panicked: {text}"))
}

impl Shared {
    fn new(name: String) -> Shared {
        Shared {
            generation: generation(),
            next: OnceLock::new(),
            name,
            pending: Mutex::new(Pending {
                jobs: VecDeque::new(),
                pushed: Instant::now(),
                delayed: Instant::now(),
                prompt: false,
                sleep: Sleep::Awake,
                thread: false,
                closed: false,
                #[cfg(test)]
                woken: 0,
            }),
            wake: Condvar::new(),
            idle: Condvar::new(),
            awaited: AtomicU64::new(u64::MAX),
            role: AtomicU8::new(FREE),
            pressing: AtomicBool::new(false),
            queued: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            error: Mutex::new(None),
        }
    }

    /// What the child of a fork goes on with: its thread and its locks are the parent's, and so is work that was under way.
    #[cold]
    fn after_fork(&self) -> Shared {
        let queued = self.queued.load(Ordering::Acquire);
        // Who drains counts a job when it is done, and gives the role back later.
        let idle = queued == self.finished() && self.role.load(Ordering::Acquire) != INLINE;
        let error = match idle {
            true => self.error.try_lock().and_then(|mut error| error.take()),
            false => Some(Error::new(
                Status::Unavailable,
                "work of this stream was under way when the process forked, and stays the parent's; synchronize before a fork",
            )),
        };
        Shared {
            queued: AtomicU64::new(queued),
            finished: AtomicU64::new(queued),
            error: Mutex::new(error),
            ..Shared::new(self.name.clone())
        }
    }

    #[inline]
    fn run(&self, job: impl FnOnce() -> Result<()>, describe: impl FnOnce() -> String) {
        let error = match catch_unwind(AssertUnwindSafe(job)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(payload) => panic_error(&*payload),
        };
        let mut slot = self.error.lock();
        if slot.is_none() {
            *slot = Some(Error::new(
                error.status,
                format!("{}: {}", describe(), error.message),
            ));
        }
    }

    #[inline]
    fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    #[inline]
    fn pending(&self) -> Option<u64> {
        let queued = self.queued.load(Ordering::Acquire);
        (self.finished() < queued).then_some(queued)
    }

    #[inline]
    fn claim(&self, state: u8) -> bool {
        self.role.load(Ordering::Relaxed) == FREE
            && self
                .role
                .compare_exchange(FREE, state, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    fn is_draining(&self) -> bool {
        self.role.load(Ordering::Acquire) == DRAIN
    }

    /// Runs queued jobs until there are none, if the executor role is free; whether it was.
    fn drain(&self) -> bool {
        if !self.claim(DRAIN) {
            return false;
        }
        loop {
            let mut pending = self.pending.lock();
            let Some(job) = pending.jobs.pop_front() else {
                self.pressing.store(false, Ordering::Relaxed);
                self.role.store(FREE, Ordering::Release);
                return true;
            };
            drop(pending);
            self.run(job.run, job.describe);
            // SeqCst pairs with `Queue::wait`: either it sees the count, or this sees what it waits for.
            let finished = self.finished.fetch_add(1, Ordering::SeqCst) + 1;
            if self.awaited.load(Ordering::SeqCst) <= finished {
                let _pending = self.pending.lock();
                self.awaited.store(u64::MAX, Ordering::SeqCst);
                self.idle.notify_all();
            }
        }
    }

    /// Who queued a job and waits for it at once runs it without a hand-off, and does not sleep meanwhile.
    fn leave_to_caller(&self) {
        let taken = || self.is_draining() || self.pressing.load(Ordering::Relaxed);
        let pending = self.pending.lock();
        let (prompt, pushed) = (pending.prompt, pending.pushed);
        drop(pending);
        while !look(COURTESY, taken) && prompt && pushed.elapsed() < PROMPT {}
    }

    /// Notes whether the last job lies there for longer than a caller leaves one that it runs itself. Then the next one wakes the
    /// thread from a long nap.
    fn note_delay(&self, pending: &mut Pending, now: Instant) {
        if !pending.jobs.is_empty() && !self.is_draining() && now.duration_since(pending.pushed) >= PROMPT {
            pending.delayed = now;
            if pending.sleep == Sleep::Long {
                pending.sleep = Sleep::Deep;
            }
        }
    }

    fn work(&self) {
        let ready = || self.queued.load(Ordering::Acquire) != self.finished() && !self.is_draining();
        loop {
            if spin_until(ready) {
                self.leave_to_caller();
                self.drain();
                continue;
            }
            // Naps in a row in which no job came or ran.
            let (mut naps, mut seen) = (0, self.queued.load(Ordering::Acquire));
            let mut pending = self.pending.lock();
            while pending.jobs.is_empty() || self.is_draining() {
                if pending.closed {
                    return;
                }
                if naps < NAPS {
                    let part = pending.delayed.elapsed() / NAP_PART;
                    let nap = if naps == 0 { part.clamp(NAP, LONG_NAP) } else { NAP };
                    pending.sleep = if nap == NAP { Sleep::Short } else { Sleep::Long };
                    self.wake.wait_for(&mut pending, nap);
                } else {
                    pending.sleep = Sleep::Deep;
                    self.wake.wait(&mut pending);
                }
                pending.sleep = Sleep::Awake;
                #[cfg(test)]
                {
                    pending.woken += 1;
                }
                // Callers that queue jobs and run them themselves come again.
                let queued = self.queued.load(Ordering::Acquire);
                let idle = queued == seen && !self.is_draining();
                naps = if idle { naps + 1 } else { 0 };
                seen = queued;
            }
            self.note_delay(&mut pending, Instant::now());
        }
    }
}

impl Queue {
    /// An idle queue. `name` names its thread.
    pub fn new(name: impl Into<String>) -> Queue {
        Queue {
            shared: Arc::new(Shared::new(name.into())),
        }
    }

    /// What belongs to this process.
    #[inline(always)]
    fn shared(&self) -> &Arc<Shared> {
        match is_current(self.shared.generation) {
            true => &self.shared,
            false => self.forked(),
        }
    }

    #[cold]
    fn forked(&self) -> &Arc<Shared> {
        let (mut shared, now) = (&self.shared, generation());
        while shared.generation != now {
            shared = shared.next.get_or_init(|| Arc::new(shared.after_fork()));
        }
        shared
    }

    /// The executor role, if the queue is idle: what runs under it comes after all work that was queued and before all that
    /// will be.
    #[inline]
    pub fn try_inline(&self) -> Option<Inline<'_>> {
        let shared = &**self.shared();
        if shared.pending().is_some() || !shared.claim(INLINE) {
            return None;
        }
        let inline = Inline { shared };
        // A job may have been queued between the look and the claim.
        shared.pending().is_none().then_some(inline)
    }

    /// Queues a job. An error or panic of the job sticks to the queue. A lone job that nobody waits for may start a nap late: a
    /// millisecond, or up to 4 where for a while no job had to wait.
    ///
    /// # Errors
    /// The queue's thread cannot be started.
    pub fn push(&self, job: Job) -> Result<()> {
        self.append(job, false)
    }

    /// Queues a job that its caller is about to wait for, such as a copy to the host. If nobody does, it may start late as
    /// that of [`Queue::push`].
    ///
    /// # Errors
    /// The queue's thread cannot be started.
    pub fn push_awaited(&self, job: Job) -> Result<()> {
        self.append(job, true)
    }

    fn append(&self, job: Job, awaited: bool) -> Result<()> {
        let shared = self.shared();
        let mut pending = shared.pending.lock();
        if !pending.thread {
            let worker = Arc::clone(shared);
            std::thread::Builder::new()
                .name(shared.name.clone())
                .spawn(move || worker.work())
                .map_err(|e| Error::new(Status::Io, format!("no thread for stream {}: {e}", shared.name)))?;
            pending.thread = true;
        }
        let now = Instant::now();
        shared.note_delay(&mut pending, now);
        let pressing = !awaited && !self.is_idle();
        pending.jobs.push_back(job);
        pending.pushed = now;
        shared.queued.fetch_add(1, Ordering::AcqRel);
        // To wake a thread takes its caller some 5 µs, on a virtual machine 70, and mostly in vain: who queues one job often waits
        // for it at once, and runs it. A thread that wakes up soon of itself is left alone until there is a second.
        let wake = match pending.sleep {
            Sleep::Awake => false,
            Sleep::Short | Sleep::Long => pressing,
            Sleep::Deep => true,
        };
        if pressing {
            shared.pressing.store(true, Ordering::Relaxed);
        }
        if wake && !shared.is_draining() {
            shared.wake.notify_one();
        }
        Ok(())
    }

    /// Number of jobs queued so far; a job's position is this number after it was queued. Work that ran inline has none.
    #[inline]
    pub fn position(&self) -> u64 {
        self.shared().queued.load(Ordering::Acquire)
    }

    /// Whether the first `position` jobs are done.
    #[inline]
    pub fn passed(&self, position: u64) -> bool {
        self.shared().finished() >= position
    }

    /// [`Queue::position`], unless all jobs up to it are done.
    #[inline]
    pub fn pending(&self) -> Option<u64> {
        self.shared().pending()
    }

    /// Whether all queued jobs are done.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending().is_none()
    }

    /// Waits for all jobs that are queued now, running them on this thread where nobody else does, and returns the
    /// first error that sticks, once.
    pub fn synchronize(&self) -> Result<()> {
        self.wait();
        match self.shared().error.lock().take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Waits like [`Queue::synchronize`] and leaves the error where it is.
    pub fn wait(&self) {
        let shared = &**self.shared();
        let target = self.position();
        let done = || self.passed(target) && shared.role.load(Ordering::Acquire) != INLINE;
        if !done() {
            let mut pending = shared.pending.lock();
            let now = Instant::now();
            shared.note_delay(&mut pending, now);
            pending.prompt = now.duration_since(pending.pushed) < PROMPT;
        }
        // Looks for a while at first, and again when the last job begins: who sleeps until its end is late, and who looks
        // all the time takes a core from the work.
        let mut looked = None;
        while !done() {
            if shared.drain() {
                continue;
            }
            let last = target.saturating_sub(1);
            let goal = if self.passed(last) { target } else { last };
            if looked.replace(goal) != Some(goal) && spin_until(done) {
                continue;
            }
            let mut pending = shared.pending.lock();
            shared.awaited.fetch_min(goal, Ordering::SeqCst);
            let unfinished = shared.finished.load(Ordering::SeqCst) < goal;
            if unfinished && shared.is_draining() {
                shared.idle.wait(&mut pending);
            } else if unfinished || goal == target && !done() {
                // An inline job does not notify; it is short.
                shared.idle.wait_for(&mut pending, Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.wait();
        self.shared().pending.lock().closed = true;
        self.shared().wake.notify_all();
    }
}

#[cfg(test)]
mod tests;
