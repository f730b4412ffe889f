//! Locks for threads that sleep in them: all that they are is in the lock itself, so that the child of a fork needs a new lock and
//! no more. parking_lot lists the sleeping threads in a table of the process. A child inherits that table with threads that are gone,
//! and walks into their stacks when these are another thread's.

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::Duration;

/// As [`std::sync::Mutex`], without poison: what a panic leaves is whole, because nothing unwinds between two changes that belong
/// together.
#[derive(Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// A locked [`Mutex`].
pub struct Guard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// An open lock.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        Guard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(Guard(Some(guard))),
            Err(TryLockError::Poisoned(poison)) => Some(Guard(Some(poison.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(guard) => guard,
            None => unreachable!("a guard is empty only while its thread sleeps"),
        }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(guard) => guard,
            None => unreachable!("a guard is empty only while its thread sleeps"),
        }
    }
}

/// As [`std::sync::Condvar`].
#[derive(Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Opens the lock, sleeps until it is woken, and locks again.
    pub fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        let open = guard.0.take();
        guard.0 = open.map(|open| self.0.wait(open).unwrap_or_else(PoisonError::into_inner));
    }

    /// As [`Condvar::wait`], for no longer than `limit`; whether that was over.
    pub fn wait_for<T>(&self, guard: &mut Guard<'_, T>, limit: Duration) -> bool {
        let mut over = false;
        let open = guard.0.take();
        guard.0 = open.map(|open| {
            let (locked, result) = (self.0.wait_timeout(open, limit)).unwrap_or_else(PoisonError::into_inner);
            over = result.timed_out();
            locked
        });
        over
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
