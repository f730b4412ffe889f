//! Events of [`Queue`]s.

use super::fork::{generation, is_current};
use super::lock::{Condvar, Mutex};
use super::profile::{Command, Recorder, Submission};
use super::queue::{Job, Queue};
use super::spin::spin_until;
use crate::clock::now;
use crate::status::{Error, Result, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One record: done when its time stamp is set.
struct Record {
    // The process whose queue it was recorded in.
    generation: u64,
    // Nanoseconds of the clock, at least 1; 0 while the work is not done.
    time: AtomicU64,
    sleepers: Mutex<u32>,
    wake: Condvar,
}

impl Record {
    fn is_done(&self) -> bool {
        self.time.load(Ordering::Acquire) != 0
    }

    fn finish(&self) {
        // SeqCst pairs with the sleeper's store: either it sees the time, or this sees the sleeper.
        self.time.store(now(), Ordering::SeqCst);
        let sleepers = self.sleepers.lock();
        if *sleepers > 0 {
            self.wake.notify_all();
        }
    }

    /// Whether it never will be, because the process forked since and the work is the parent's.
    fn is_lost(&self) -> bool {
        !is_current(self.generation) && !self.is_done()
    }

    /// Whether the record was done within `timeout` (none: wait for ever).
    fn wait(&self, timeout: Option<Duration>) -> bool {
        if self.is_lost() {
            return false;
        }
        let start = Instant::now();
        if self.is_done() || (timeout.is_none_or(|t| !t.is_zero()) && spin_until(|| self.is_done())) {
            return true;
        }
        let mut sleepers = self.sleepers.lock();
        *sleepers += 1;
        while self.time.load(Ordering::SeqCst) == 0 {
            match timeout {
                None => self.wake.wait(&mut sleepers),
                Some(timeout) => {
                    let left = timeout.saturating_sub(start.elapsed());
                    if left.is_zero() || self.wake.wait_for(&mut sleepers, left) {
                        break;
                    }
                }
            }
        }
        *sleepers -= 1;
        self.is_done()
    }
}

/// A point in a [`Queue`].
pub struct Event {
    timing: bool,
    last: Mutex<Option<Arc<Record>>>,
}

impl Event {
    /// An event that was never recorded; with `timing` it takes time stamps.
    pub fn new(timing: bool) -> Event {
        Event {
            timing,
            last: Mutex::new(None),
        }
    }

    /// Covers the work of `queue` so far.
    pub fn record(&self, queue: &Queue) -> Result<()> {
        let record = Arc::new(Record {
            generation: generation(),
            time: AtomicU64::new(0),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
        });
        match queue.try_inline() {
            Some(_inline) => record.finish(),
            None => {
                let record = Arc::clone(&record);
                queue.push(Job {
                    run: Box::new(move || {
                        record.finish();
                        Ok(())
                    }),
                    describe: Box::new(|| "event record".into()),
                })?;
            }
        }
        *self.last.lock() = Some(record);
        Ok(())
    }

    fn pending(&self) -> Option<Arc<Record>> {
        self.last
            .lock()
            .as_ref()
            .filter(|record| !record.is_done())
            .map(Arc::clone)
    }

    /// Makes later work of `queue` wait for the last record.
    pub fn hold_up(&self, queue: &Queue) -> Result<()> {
        let Some(record) = self.pending() else {
            return Ok(());
        };
        queue.push(Job {
            run: Box::new(move || {
                record.wait(None);
                Ok(())
            }),
            describe: Box::new(|| "event wait".into()),
        })
    }

    /// As [`Event::hold_up`], and records the wait.
    pub fn hold_up_profiled(
        &self,
        queue: &Queue,
        recorder: &Arc<Recorder>,
        submission: &Submission,
    ) -> Result<()> {
        let Some(record) = self.pending() else {
            return Ok(());
        };
        let wait = move || {
            record.wait(None);
            Ok(())
        };
        queue.push(Job {
            run: Box::new(recorder.timed(*submission, Command::WAIT, wait)),
            describe: Box::new(|| "event wait".into()),
        })
    }

    /// Whether the last record is done; true without one.
    pub fn query(&self) -> bool {
        self.pending().is_none()
    }

    /// Waits for the last record.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        match self.pending() {
            Some(record) if record.is_lost() => Err(Error::new(
                Status::Unavailable,
                "the event was recorded behind work that was under way when the process forked, and stays the parent's",
            )),
            Some(record) if !record.wait(timeout) => Err(Error::new(
                Status::Timeout,
                format!(
                    "the event was not reached within {} ns",
                    timeout.unwrap_or_default().as_nanos()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Nanoseconds from `self` to `end`.
    pub fn elapsed(&self, end: &Event) -> Result<i64> {
        let time = |event: &Event, which: &str| {
            if !event.timing {
                return Err(Error::unsupported(format!(
                    "the {which} event has no timing; create it with timing"
                )));
            }
            match event
                .last
                .lock()
                .as_ref()
                .map(|record| record.time.load(Ordering::Acquire))
            {
                None => Err(Error::invalid_argument(format!(
                    "the {which} event was never recorded"
                ))),
                Some(0) => Err(Error::invalid_argument(format!(
                    "the {which} event is not reached yet; synchronize first"
                ))),
                Some(time) => Ok(time as i64),
            }
        };
        Ok(time(end, "end")? - time(self, "start")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_queue_waits_for_another() {
        let (first, second) = (Queue::new("first"), Queue::new("second"));
        let (release, gate) = channel::<()>();
        let describe = || Box::new(String::new) as Box<dyn FnOnce() -> String + Send>;
        let value = Arc::new(AtomicU64::new(0));
        let (start, event) = (Event::new(true), Event::new(true));
        assert!(event.query());
        event.hold_up(&first).unwrap();
        start.record(&first).unwrap();
        let set = Arc::clone(&value);
        let run = Box::new(move || {
            gate.recv().ok();
            set.store(7, Ordering::Relaxed);
            Ok(())
        });
        first
            .push(Job {
                run,
                describe: describe(),
            })
            .unwrap();
        event.record(&first).unwrap();
        event.hold_up(&second).unwrap();
        let (seen, read) = (Arc::new(AtomicU64::new(0)), Arc::clone(&value));
        let out = Arc::clone(&seen);
        let run = Box::new(move || {
            out.store(read.load(Ordering::Relaxed), Ordering::Relaxed);
            Ok(())
        });
        second
            .push(Job {
                run,
                describe: describe(),
            })
            .unwrap();
        assert!(!event.query() && !second.is_idle());
        assert_eq!(
            event.wait(Some(Duration::from_millis(1))).unwrap_err().status,
            Status::Timeout
        );
        assert!(start.elapsed(&event).is_err());
        release.send(()).unwrap();
        second.synchronize().unwrap();
        assert_eq!(seen.load(Ordering::Relaxed), 7);
        assert!(event.query() && start.elapsed(&event).unwrap() > 0);
        assert!(Event::new(false).elapsed(&event).is_err());
    }
}
