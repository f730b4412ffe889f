//! Values on their way to the thread that writes them.

use super::writer::{Message, Writer};
use crate::error::DumpError;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Most bytes that wait; a value that is larger waits alone.
const LIMIT: u64 = 256 << 20;

#[derive(Default)]
struct State {
    waiting: VecDeque<Message>,
    bytes: u64,
    closed: bool,
    error: Option<DumpError>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A thread that writes, and what waits for it.
pub(super) struct Queue {
    shared: Arc<Shared>,
    limit: u64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Queue {
    pub(super) fn new(mut writer: Writer) -> Result<Queue, DumpError> {
        Queue::with(LIMIT, move |message| writer.take(message))
    }

    fn with(
        limit: u64,
        take: impl FnMut(Message) -> Result<(), DumpError> + Send + 'static,
    ) -> Result<Queue, DumpError> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("thalweg dump".into())
            .spawn(move || of_thread.write(take))
            .map_err(|error| DumpError::Thread {
                error: Arc::new(error),
            })?;
        Ok(Queue {
            shared,
            limit,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Hands a message over, and waits while too many bytes do.
    ///
    /// # Errors
    /// What went wrong with an earlier one.
    pub(super) fn push(&self, message: Message) -> Result<(), DumpError> {
        let bytes = message.bytes();
        let mut state = self.shared.state.lock();
        while state.error.is_none() && state.bytes > 0 && state.bytes + bytes > self.limit {
            self.shared.changed.wait(&mut state);
        }
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        state.bytes += bytes;
        state.waiting.push_back(message);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until all is written, and ends the thread.
    pub(super) fn close(&self) -> Result<(), DumpError> {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A writer that panicked has told so itself.
            let _ = thread.join();
        }
        match &self.shared.state.lock().error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// Writes what comes until the queue is closed, or a file cannot be written.
    fn write(&self, mut take: impl FnMut(Message) -> Result<(), DumpError>) {
        loop {
            let mut state = self.state.lock();
            let message = loop {
                match state.waiting.pop_front() {
                    Some(message) => break message,
                    None if state.closed => return,
                    None => self.changed.wait(&mut state),
                }
            };
            drop(state);
            let bytes = message.bytes();
            let taken = take(message);
            let mut state = self.state.lock();
            state.bytes -= bytes;
            if let Err(error) = taken {
                state.error = Some(error);
                state.waiting.clear();
                state.bytes = 0;
            }
            let broken = state.error.is_some();
            self.changed.notify_all();
            if broken {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn who_hands_over_waits_while_too_much_waits() {
        let (release, released) = mpsc::channel();
        let limit = 2 * Message::End.bytes();
        let take = move |_| {
            let _ = released.recv();
            Ok(())
        };
        let queue = Arc::new(Queue::with(limit, take).unwrap());
        queue.push(Message::End).unwrap();
        queue.push(Message::End).unwrap();
        let third = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(Message::End)
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!third.is_finished(), "two fill the queue");
        release.send(()).unwrap();
        third.join().unwrap().unwrap();
        drop(release);
        queue.close().unwrap();
        assert_eq!(queue.shared.state.lock().bytes, 0);
    }

    #[test]
    fn an_error_comes_back_and_nobody_waits_any_more() {
        let error = || DumpError::Value {
            name: "x".to_owned(),
            message: "y".to_owned(),
        };
        let queue = Queue::with(1, move |_| Err(error())).unwrap();
        let told = (0..1000).find_map(|_| queue.push(Message::End).err());
        assert!(told.is_some() && queue.close().is_err());
        assert!(queue.push(Message::End).is_err());
    }
}
