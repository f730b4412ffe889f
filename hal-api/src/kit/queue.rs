//! In-order streams for backends whose work runs on host threads.
//!
//! Whoever holds the executor role of a queue runs its jobs: a caller that finds the queue idle runs a small job on the
//! spot, a caller that synchronises runs what is left, and otherwise the queue's own thread does, which is started by the first
//! job that is queued, spins for a while before it sleeps (a wake-up costs two orders of magnitude more than a hand-off to a
//! spinning thread), and at first sleeps in naps, so that callers that run their jobs themselves wake it in vain no more.

use super::fork::{generation, is_current};
use super::lock::{Condvar, Mutex};
use crate::status::{Error, Result, Status};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a thread spins for new work before it sleeps.
pub const SPIN: Duration = Duration::from_micros(100);

/// How long a queue's thread sleeps at most while jobs come now and then, and how often so without any.
const NAP: Duration = Duration::from_millis(1);
const NAPS: u32 = 20;

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
    /// Until it is woken.
    Deep,
}

struct Pending {
    jobs: VecDeque<Job>,
    // When the last job was queued.
    pushed: Instant,
    // Whether it was waited for within `PROMPT` the last time.
    prompt: bool,
    sleep: Sleep,
    thread: bool,
    closed: bool,
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

/// Looks `times` times whether `done` holds; whether it did.
fn look(times: u32, mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..times {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// Spins for [`SPIN`] until `done` holds; whether it did. From time to time it lets others have the core: with as many threads at
/// work as there are cores, the one that is waited for may be one of them.
pub fn spin_until(mut done: impl FnMut() -> bool) -> bool {
    // Reading the clock costs more than a look at `done`.
    const LOOKS: u32 = 64;
    let start = Instant::now();
    while !look(LOOKS, &mut done) {
        if start.elapsed() >= SPIN {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Waits for `done` by looking: spins as [`spin_until`], then sleeps for a millisecond at most between two looks. A time limit
/// of 0 is one look.
///
/// # Errors
/// [`Status::Timeout`] when `done` does not hold within `timeout`.
pub fn poll_until(timeout: Duration, mut done: impl FnMut() -> bool) -> Result<()> {
    const LONGEST_SLEEP: Duration = Duration::from_millis(1);
    let start = Instant::now();
    if !timeout.is_zero() && spin_until(&mut done) {
        return Ok(());
    }
    let mut sleep = Duration::from_micros(20);
    while !done() {
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(Error::new(
                Status::Timeout,
                format!("the event was not reached within {} ns", timeout.as_nanos()),
            ));
        }
        std::thread::sleep(sleep.min(left));
        sleep = (sleep * 2).min(LONGEST_SLEEP);
    }
    Ok(())
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
                prompt: false,
                sleep: Sleep::Awake,
                thread: false,
                closed: false,
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

    fn work(&self) {
        let ready = || self.queued.load(Ordering::Acquire) != self.finished() && !self.is_draining();
        loop {
            if spin_until(ready) {
                self.leave_to_caller();
                self.drain();
                continue;
            }
            let (mut naps, mut seen) = (0, self.queued.load(Ordering::Acquire));
            let mut pending = self.pending.lock();
            while pending.jobs.is_empty() || self.is_draining() {
                if pending.closed {
                    return;
                }
                if naps < NAPS {
                    naps += 1;
                    pending.sleep = Sleep::Short;
                    self.wake.wait_for(&mut pending, NAP);
                } else {
                    pending.sleep = Sleep::Deep;
                    self.wake.wait(&mut pending);
                }
                pending.sleep = Sleep::Awake;
                // Callers that queue jobs and run them themselves come again.
                let queued = self.queued.load(Ordering::Acquire);
                if queued != seen {
                    (naps, seen) = (0, queued);
                }
            }
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

    /// Queues a job. An error or panic of the job sticks to the queue. A lone job that nobody waits for may start a nap late.
    ///
    /// # Errors
    /// The queue's thread cannot be started.
    pub fn push(&self, job: Job) -> Result<()> {
        self.append(job, false)
    }

    /// Queues a job that its caller is about to wait for, such as a copy to the host. If nobody does, it may start a nap late.
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
        let pressing = !awaited && !self.is_idle();
        pending.jobs.push_back(job);
        pending.pushed = Instant::now();
        shared.queued.fetch_add(1, Ordering::AcqRel);
        // To wake a thread takes its caller some 5 µs, on a virtual machine 70, and mostly in vain: who queues one job often waits
        // for it at once, and runs it. A thread that wakes up soon of itself is left alone until there is a second.
        let wake = match pending.sleep {
            Sleep::Awake => false,
            Sleep::Short => pressing,
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
            pending.prompt = pending.pushed.elapsed() < PROMPT;
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
            if shared.finished.load(Ordering::SeqCst) < goal || goal == target && !done() {
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
