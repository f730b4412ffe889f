//! Numbers that the host's side of a stream reaches and its commands wait for, and the other way round.
//!
//! The host's side asks the driver for nothing: a call of another thread that waits for all streams (`cuMemFree`, the loading of
//! code) keeps the driver's lock, and one of these streams may be waiting for the host's side.

use crate::api::driver::DevicePtr;
use crate::context::Context;
use crate::memory::Pinned;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use thalweg_hal::Result;

/// Where the numbers lie: that of the host, and that of the stream in a cache line of its own.
const REACHED: usize = 0;
const PASSED: usize = 64;
const BYTES: usize = 128;

/// How long a wait for the stream only looks: pieces of copies take a few tenths of this, and who sleeps is woken late.
const SPIN: Duration = Duration::from_millis(2);
/// The longest sleep between two looks. A sleep lasts this part of the time that the wait has taken.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
const SLEEP_PART: u32 = 16;
/// When it is first asked whether the device works at all.
const DOUBT: Duration = Duration::from_millis(50);

/// Where the host tells the stream how far its own work is, and the stream tells the host.
pub(crate) struct Gate {
    flags: Arc<Flags>,
    last_ticket: u32,
    last_mark: u32,
}

/// The numbers. A ticket that is given back before those that were taken earlier waits for them.
struct Flags {
    memory: Pinned,
    early: Mutex<Early>,
}

impl Flags {
    fn flag(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: four aligned bytes of pinned memory that are written by the host's side or by the device, and read by the other.
        unsafe { AtomicU32::from_ptr(self.memory.at(offset).cast()) }
    }
}

/// Tickets that were given back out of turn.
#[derive(Default)]
struct Early {
    reached: u32,
    waiting: Vec<u32>,
}

impl Early {
    /// Takes a ticket back; the number up to which all are.
    fn give_back(&mut self, ticket: u32) -> u32 {
        self.waiting.push(ticket);
        while let Some(at) = (self.waiting.iter()).position(|&next| next == self.reached.wrapping_add(1)) {
            self.reached = self.waiting.swap_remove(at);
        }
        self.reached
    }
}

impl Gate {
    /// A gate of which nobody has a ticket. The context is current.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Gate> {
        let flags = Arc::new(Flags {
            memory: Pinned::new(context, BYTES)?,
            early: Mutex::default(),
        });
        for offset in [REACHED, PASSED] {
            flags.flag(offset).store(0, Ordering::Release);
        }
        Ok(Gate {
            flags,
            last_ticket: 0,
            last_mark: 0,
        })
    }

    /// The next number, which is reached when it and those before it are given back.
    pub(crate) fn ticket(&mut self) -> Release {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        Release {
            flags: Arc::clone(&self.flags),
            ticket: self.last_ticket,
        }
    }

    /// Where the device reads the number.
    pub(crate) fn reached(&self) -> DevicePtr {
        self.flags.memory.device() + REACHED as u64
    }

    /// The next number that the stream writes, and where.
    pub(crate) fn mark(&mut self) -> (Mark, DevicePtr) {
        self.last_mark = self.last_mark.wrapping_add(1);
        let mark = Mark {
            flags: Arc::clone(&self.flags),
            number: self.last_mark,
        };
        (mark, self.flags.memory.device() + PASSED as u64)
    }
}

/// A point in a stream that the host sees.
#[derive(Clone)]
pub(crate) struct Mark {
    flags: Arc<Flags>,
    number: u32,
}

impl Mark {
    /// The number that the stream writes there.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    fn is_passed(&self) -> bool {
        let passed = self.flags.flag(PASSED).load(Ordering::Acquire);
        passed.wrapping_sub(self.number).cast_signed() >= 0
    }

    /// Waits until the stream has passed it.
    ///
    /// # Errors
    /// The device does not work any more.
    pub(crate) fn wait(&self) -> Result<()> {
        let context = self.flags.memory.context();
        let (start, mut doubt) = (Instant::now(), DOUBT);
        while !self.is_passed() {
            context.alive()?;
            let waited = start.elapsed();
            if waited >= doubt {
                context.look();
                doubt = waited * 2;
            }
            if waited < SPIN {
                std::thread::yield_now();
            } else {
                std::thread::sleep((waited / SLEEP_PART).min(LONGEST_SLEEP));
            }
        }
        Ok(())
    }
}

/// Raises a gate's number when dropped, so that the stream goes on whatever happens.
pub(crate) struct Release {
    flags: Arc<Flags>,
    ticket: u32,
}

impl Drop for Release {
    fn drop(&mut self) {
        let mut early = self.flags.early.lock();
        let reached = early.give_back(self.ticket);
        self.flags.flag(REACHED).store(reached, Ordering::Release);
    }
}

impl Release {
    /// The number that is reached when this is dropped.
    pub(crate) fn number(&self) -> u32 {
        self.ticket
    }
}

#[cfg(test)]
mod tests {
    use super::Early;

    #[test]
    fn tickets_count_in_their_order() {
        let mut early = Early::default();
        assert_eq!(early.give_back(1), 1);
        assert_eq!(early.give_back(4), 1, "2 and 3 are under way");
        assert_eq!(early.give_back(3), 1);
        assert_eq!(early.give_back(2), 4);
        let mut early = Early {
            reached: u32::MAX - 1,
            ..Early::default()
        };
        assert_eq!(early.give_back(0), u32::MAX - 1);
        assert_eq!(early.give_back(u32::MAX), 0);
        assert_eq!(early.give_back(1), 1);
    }
}
