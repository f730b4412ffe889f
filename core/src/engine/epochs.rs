//! When work was submitted, and which of it is not to be trusted.
//!
//! A backend tells an error of work that it had accepted once, to whoever waits next. What was written between the last good wait
//! for the stream and that one may be wrong, and nobody can tell what of it is. Values know their epoch, so they are refused by it.

#[cfg(test)]
mod tests;

use super::Lane;
use crate::hal::{self, Stream, Waited, WeakStream};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;
use thalweg_hal::kit::fork;
use thalweg_hal::kit::lock::{Condvar, Guard, Mutex};

/// Is set in every epoch after a failure, so that one comparison answers for a device on which nothing ever failed.
const FAILED: u64 = 1 << 63;

/// Failures kept for a device; beyond it two of one stream become one, with what is between them.
const MOST: usize = 4096;

/// The clock of a device: an epoch ends with each wait of the host or of another stream.
pub(super) struct Epochs {
    now: AtomicU64,
    /// The last epoch in which work may have failed.
    until: AtomicU64,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Streams that values are written by; there are few.
    streams: Vec<Known>,
    waiting: Vec<Waiting>,
    /// Threads that sleep until others have waited. To wake nobody is a call of the system too.
    asleep: usize,
    /// In the order in which they were told.
    failures: Vec<Failure>,
}

struct Known {
    handle: u64,
    /// What was submitted up to this epoch is known to be good, or is in a failure.
    settled: u64,
    stream: WeakStream,
    process: u64,
}

/// A wait that is under way.
struct Waiting {
    waited: Waited,
    begun: u64,
    process: u64,
}

/// Work of a stream, submitted after the epoch `from` and up to `to`, of which some failed.
struct Failure {
    stream: u64,
    from: u64,
    to: u64,
    error: hal::Error,
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs {
            now: AtomicU64::new(1),
            until: AtomicU64::new(0),
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }
}

fn concerns(waited: Waited, stream: u64) -> bool {
    match waited {
        Waited::Stream(one) | Waited::End(one) => one == stream,
        Waited::Device => true,
    }
}

impl Waiting {
    /// Whether both may be told an error of one stream.
    fn meets(&self, waited: Waited) -> bool {
        match waited {
            Waited::Stream(stream) | Waited::End(stream) => concerns(self.waited, stream),
            Waited::Device => true,
        }
    }
}

impl State {
    fn known(&self, stream: u64) -> Option<&Known> {
        self.streams.iter().find(|known| known.handle == stream)
    }

    /// Remembers that some work failed of what was submitted up to `to`.
    fn fail(&mut self, waited: Waited, to: u64, error: &hal::Error) {
        let error = distrusted(error);
        let concerned = (self.streams.iter()).filter(|known| concerns(waited, known.handle));
        self.failures.extend(concerned.map(|known| Failure {
            stream: known.handle,
            from: known.settled,
            to,
            error: error.clone(),
        }));
        while self.failures.len() > MOST && self.merge() {}
    }

    /// Makes one of the oldest two failures of a stream; whether there were two.
    fn merge(&mut self) -> bool {
        let later = |at: usize| {
            let rest = self.failures.iter().enumerate().skip(at + 1);
            rest.into_iter()
                .find(|(_, other)| other.stream == self.failures[at].stream)
                .map(|(other, _)| (at, other))
        };
        let Some((first, second)) = (0..self.failures.len()).find_map(later) else {
            return false;
        };
        self.failures[second].from = self.failures[first].from;
        self.failures.remove(first);
        true
    }
}

/// The error of a value that failed work may have written.
fn distrusted(error: &hal::Error) -> hal::Error {
    let mut error = error.clone();
    if let hal::Error::Call(call) = &mut error {
        let advice = "; this value may be wrong by it: compute it again, or load a checkpoint";
        call.message.push_str(advice);
    }
    error
}

impl Epochs {
    /// The epoch of work that was just submitted; never 0.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Ends the epoch and returns it.
    pub(super) fn end(&self) -> u64 {
        self.now.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether work of the device ever failed.
    #[inline(always)]
    pub(super) fn has_failures(&self) -> bool {
        self.now() & FAILED != 0
    }

    /// Begins to look at a stream that values are to be written by.
    pub(super) fn know(&self, stream: &Stream) {
        let mut state = self.state.lock();
        if state.known(stream.handle()).is_none() {
            state.streams.push(Known {
                handle: stream.handle(),
                settled: self.now().saturating_sub(1),
                stream: stream.downgrade(),
                process: fork::generation(),
            });
        }
    }

    /// Whether a stream may still fail, or did.
    pub(super) fn matters(&self, stream: u64) -> bool {
        let state = self.state.lock();
        state.known(stream).is_some() || state.failures.iter().any(|failure| failure.stream == stream)
    }

    /// The first failure of work that `lane` submitted after the start of the epoch `first` and up to the end of `last`, or that
    /// this work waited for.
    #[cold]
    pub(super) fn failure(&self, lane: &Lane, first: u64, last: u64) -> Option<hal::Error> {
        // Who reads an epoch behind a failure sees the failure.
        fence(Ordering::Acquire);
        if first > self.until.load(Ordering::Relaxed) {
            return None;
        }
        let waited = lane.waited();
        let read = |failure: &Failure| {
            let reads = |&(stream, epoch): &(u64, u64)| stream == failure.stream && epoch > failure.from;
            failure.stream == lane.stream.handle() || waited.iter().any(reads)
        };
        let state = self.state.lock();
        let failure = (state.failures.iter())
            .find(|failure| failure.from < last && first <= failure.to && read(failure))?;
        Some(failure.error.clone())
    }

    /// Waits for the streams whose work that of `lane` waited for, as far as nobody did: their errors are not told to `lane`.
    ///
    /// # Errors
    /// The first error that sticks to one of them.
    pub(super) fn settle(&self, lane: &Lane) -> hal::Result<()> {
        for (handle, epoch) in lane.waited() {
            if let Some(stream) = self.unsettled(handle, epoch) {
                stream.synchronize()?;
            }
        }
        Ok(())
    }

    /// The stream, if nobody has waited for its work up to `epoch`.
    fn unsettled(&self, handle: u64, epoch: u64) -> Option<Stream> {
        const LOOK: Duration = Duration::from_millis(1);
        let mut state = self.state.lock();
        loop {
            // A stream that has ended was waited for.
            let known = state.known(handle).filter(|known| known.settled < epoch)?;
            if let Some(stream) = known.stream.upgrade() {
                return Some(stream);
            }
            // Another thread ends it, unless that thread is the parent's of this process.
            if !fork::is_current(known.process) {
                return None;
            }
            state.asleep += 1;
            self.ended.wait_for(&mut state, LOOK);
            state.asleep -= 1;
        }
    }

    /// A wait begins; the number of its epoch.
    pub(super) fn begin_wait(&self, waited: Waited) -> u64 {
        let process = fork::generation();
        let mut state = self.state.lock();
        let begun = self.end();
        state.waiting.push(Waiting {
            waited,
            begun,
            process,
        });
        begun
    }

    /// A wait is over. One that ended well returns when all that met it are over, because the error may have been told to them.
    pub(super) fn end_wait(&self, waited: Waited, begun: u64, error: Option<&hal::Error>) {
        let mut state = self.state.lock();
        state.waiting.retain(|waiting| waiting.begun != begun);
        if state.asleep > 0 {
            self.ended.notify_all();
        }
        let concerned = |known: &Known| concerns(waited, known.handle);
        let any = state.streams.iter().any(concerned);
        match error {
            Some(error) if any => {
                // Who reads a later epoch comes here first, and waits for the lock.
                self.until.store(u64::MAX, Ordering::Relaxed);
                self.now.fetch_or(FAILED, Ordering::AcqRel);
                let to = self.end();
                state.fail(waited, to, error);
                self.until.store(to, Ordering::Release);
            }
            None if any => self.meet(&mut state, waited),
            Some(_) | None => {}
        }
        for known in state.streams.iter_mut().filter(|known| concerned(known)) {
            known.settled = known.settled.max(begun);
        }
        if matches!(waited, Waited::End(_)) {
            state.streams.retain(|known| !concerned(known));
        }
    }

    /// Sleeps until the waits are over that began before now and may be told the same error.
    fn meet(&self, state: &mut Guard<'_, State>, waited: Waited) {
        let now = self.end();
        let others = |state: &State| {
            let mut waiting = state.waiting.iter();
            waiting.any(|other| other.begun < now && other.meets(waited) && fork::is_current(other.process))
        };
        while others(state) {
            state.asleep += 1;
            self.ended.wait(state);
            state.asleep -= 1;
        }
    }
}
