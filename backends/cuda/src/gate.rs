//! Numbers that the host's side of a stream reaches, and its commands wait for.

use crate::api::driver::DevicePtr;
use crate::context::Context;
use crate::memory::Pinned;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_hal::Result;

/// Where the host tells the stream how far its own work is: the stream waits until the number is reached.
pub(crate) struct Gate {
    reached: Arc<Reached>,
    last: u32,
}

/// The number that the stream sees. A ticket that is given back before those that were taken earlier waits for them.
struct Reached {
    flag: Pinned,
    early: Mutex<Early>,
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
        let flag = Pinned::new(context, 64)?;
        // SAFETY: fresh memory of 64 bytes.
        unsafe { flag.at(0).write_bytes(0, 64) };
        let early = Mutex::default();
        let reached = Arc::new(Reached { flag, early });
        Ok(Gate { reached, last: 0 })
    }

    /// The next number, which is reached when it and those before it are given back.
    pub(crate) fn ticket(&mut self) -> Release {
        self.last = self.last.wrapping_add(1);
        Release {
            gate: Arc::clone(&self.reached),
            ticket: self.last,
        }
    }

    /// Where the device reads the number.
    pub(crate) fn flag(&self) -> DevicePtr {
        self.reached.flag.device()
    }
}

/// Raises a gate's number when dropped, so that the stream goes on whatever happens.
pub(crate) struct Release {
    gate: Arc<Reached>,
    ticket: u32,
}

impl Drop for Release {
    fn drop(&mut self) {
        let mut early = self.gate.early.lock();
        let reached = early.give_back(self.ticket);
        // SAFETY: four aligned bytes of pinned memory that the host's side and the device alone use, the device reading.
        let flag = unsafe { AtomicU32::from_ptr(self.gate.flag.at(0).cast()) };
        flag.store(reached, Ordering::Release);
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
