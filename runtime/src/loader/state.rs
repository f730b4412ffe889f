//! What belongs to the whole process and a plugin may not change: noted before a load, compared and put back after it.
//!
//! Another thread that changes the same things during the load is taken for the plugin.

pub(crate) mod float;
mod process;

use float::Float;
use process::{Folder, Handlers, Limits, Standard, Timers, mask, umask};

/// The state of the process and of this thread.
pub(super) struct State {
    float: Float,
    mask: Option<libc::sigset_t>,
    handlers: Handlers,
    timers: Timers,
    folder: Folder,
    umask: Option<libc::mode_t>,
    limits: Limits,
    standard: Standard,
}

/// What was changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// And was put back.
    pub(super) undone: Vec<String>,
    /// And could not be put back.
    pub(super) lasting: Vec<String>,
}

impl Changes {
    /// Notes a change and whether it was undone.
    fn note(&mut self, what: impl Into<String>, undone: bool) {
        match undone {
            true => self.undone.push(what.into()),
            false => self.lasting.push(what.into()),
        }
    }
}

impl State {
    pub(super) fn now() -> State {
        State {
            float: Float::now(),
            mask: mask(None),
            handlers: Handlers::now(),
            timers: Timers::now(),
            folder: Folder::now(),
            umask: umask(),
            limits: Limits::now(),
            standard: Standard::now(),
        }
    }

    /// Puts back what has changed since.
    pub(super) fn restore(self) -> Changes {
        let mut changes = Changes::default();
        // First, because what follows may open files.
        self.limits.restore(&mut changes);
        if self.float.restore() {
            changes.note("how floats are rounded and flushed to zero", true);
        }
        if let (Some(before), Some(now)) = (self.mask, mask(None))
            && !process::same_set(&before, &now)
        {
            changes.note(
                "the signals that this thread blocks",
                mask(Some(&before)).is_some(),
            );
        }
        self.handlers.restore(&mut changes);
        self.timers.restore(&mut changes);
        self.folder.restore(&mut changes);
        if let (Some(before), Some(now)) = (self.umask, umask())
            && before != now
        {
            // SAFETY: it takes a number and cannot fail.
            unsafe { libc::umask(before) };
            changes.note(format!("the umask, {before:03o} to {now:03o}"), true);
        }
        self.standard.restore(&mut changes);
        changes
    }
}

#[cfg(test)]
mod tests;
