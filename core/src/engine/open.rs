//! Whether the session of the process was shut down.

use crate::error::{Result, SessionError};
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// No op runs from now on; whether this is the first call.
pub(crate) fn close() -> bool {
    !CLOSED.swap(true, Ordering::SeqCst)
}

/// Whether ops may run.
///
/// # Errors
/// [`SessionError::Closed`].
#[inline(always)]
pub(crate) fn check() -> Result<()> {
    match CLOSED.load(Ordering::Relaxed) {
        false => Ok(()),
        true => closed(),
    }
}

#[cold]
fn closed() -> Result<()> {
    Err(SessionError::Closed.into())
}
