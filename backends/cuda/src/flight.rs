//! The work of a stream that is under way.

use crate::context::Event;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_hal::Error;
use thalweg_hal::backend::OwnedTag;

/// What may have to live until the stream has passed a point.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// What the work of a stream left behind.
#[derive(Default)]
pub(crate) struct State {
    /// What was submitted last, with its position.
    pub(crate) names: VecDeque<(u64, OwnedTag)>,
    /// Room for more names.
    pub(crate) spare: Vec<OwnedTag>,
    /// Positions whose end an event tells.
    pub(crate) marks: VecDeque<(u64, Event)>,
    /// What lives until a position is passed.
    pub(crate) kept: Vec<(u64, Kept)>,
    /// The first error.
    pub(crate) error: Option<Error>,
}

/// The work of a stream that is under way, and its first error.
#[derive(Default)]
pub(crate) struct Flight {
    /// What is under way.
    pub(crate) state: Mutex<State>,
    /// The last position that was submitted.
    pub(crate) submitted: AtomicU64,
    /// The last position that is known to be passed.
    pub(crate) finished: AtomicU64,
}

impl Flight {
    /// Everything up to a position is done.
    pub(crate) fn finish(&self, position: u64) {
        self.finished.fetch_max(position, Ordering::AcqRel);
        let dropped = {
            let mut state = self.state.lock();
            let done = self.finished.load(Ordering::Acquire);
            let State { names, spare, .. } = &mut *state;
            let split = names.partition_point(|(at, _)| *at <= done);
            spare.extend(names.drain(..split).map(|(_, name)| name));
            let kept = state.kept.extract_if(.., |(at, _)| *at <= done);
            kept.collect::<Vec<_>>()
        };
        drop(dropped);
    }

    /// Keeps the first error.
    pub(crate) fn fail(&self, tag: &OwnedTag, error: &Error) {
        let mut state = self.state.lock();
        if state.error.is_none() {
            state.error = Some(Error::new(error.status, format!("{tag}: {}", error.message)));
        }
    }

    /// The error with the work that may have caused it: the driver does not say which did.
    pub(crate) fn suspects(&self, error: &Error) -> Error {
        let state = self.state.lock();
        let text = match (state.names.front(), state.names.len()) {
            (Some((_, first)), 1) => format!("{first}: {}", error.message),
            (Some((_, first)), count) => format!(
                "{first}, or one of {} submissions after it: {} (`cuda.blocking` set to `on` tells which)",
                count - 1,
                error.message
            ),
            (None, _) => return error.clone(),
        };
        Error::new(error.status, text)
    }

    /// Whether a position is known to be passed.
    pub(crate) fn is_passed(&self, position: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= position
    }
}
