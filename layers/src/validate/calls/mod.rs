//! The calls: what is asked before each goes on, and what is asked of its answer.

mod device;
mod event;
mod kernel;
mod memory;
mod profile;
mod program;
mod stream;

use super::Validate;
use super::code::Code;
use super::refusal::pointer;
use super::report::Report;
use super::shadow::{Check, State};
use crate::forward::{self, Tables};
use crate::layer::{Answer, Place, Stop, enter};
use std::ptr;
use thalweg_hal::kit::args::{arg, writable};
use thalweg_hal::tables::{Context, CoreTable};
use thalweg_hal::{Error, Status};

pub(super) const TABLES: Tables = Tables {
    core: CoreTable {
        shutdown,
        ..forward::core::table::<Validate>()
    },
    device: device::TABLE,
    memory: memory::TABLE,
    stream: stream::TABLE,
    event: event::TABLE,
    kernel: kernel::TABLE,
    program: program::TABLE,
    profile: profile::TABLE,
};

/// The layer over a backend.
type Here = &'static Place<Validate>;

/// What out parameters hold before a call, so that what was not written is seen.
const UNWRITTEN: u64 = 0xa5a5_5a5a_a5a5_5a5a;

/// A pointer argument, which must be valid.
///
/// # Safety
/// It is null or valid for `'a`.
#[inline]
unsafe fn given<'a, T>(what: &str, argument: *const T) -> Result<&'a T, Report> {
    // SAFETY: the caller vouches for it.
    unsafe { arg(argument) }.map_err(|error| pointer(what, &error))
}

impl Validate {
    /// Checks a call against what is known, unless the backend was shut down and says so itself.
    #[inline]
    fn check(&self, check: impl FnOnce(&mut State) -> Check) -> Answer {
        let checked = {
            let mut state = self.state.lock();
            match state.down {
                true => Ok(()),
                false => check(&mut state),
            }
        };
        self.checked(checked)
    }

    /// The answer of what is below to the call `what`.
    #[inline]
    fn judge(&self, place: Here, what: &str, code: i32) -> Answer {
        match code {
            0 => Ok(()),
            code => self.judge_failure(place, what, code),
        }
    }

    #[cold]
    fn judge_failure(&self, place: Here, what: &str, code: i32) -> Answer {
        if Status::from_code(code).is_none() {
            let text =
                format!("{what}: the backend ended with the status {code}, which is none of the contract's");
            self.found(Report::plugin(Code::WrongStatus, text))?;
        }
        // SAFETY: a call without a buffer.
        let length = unsafe { (place.next.core.last_error)(place.next.api.context, ptr::null_mut(), 0) };
        if length == 0 {
            let text = format!(
                "{what}: the backend failed with status {code} and gave no text; set one that says why"
            );
            self.found(Report::plugin(Code::Silent, text))?;
        }
        Err(Stop::Below(code))
    }

    /// A call that writes one number, which is kept from the caller until it is judged.
    ///
    /// # Safety
    /// `out` is null or valid; `below` takes what `out` may be.
    #[inline]
    unsafe fn number(
        &self,
        place: Here,
        what: &str,
        out: *mut u64,
        below: impl FnOnce(*mut u64) -> i32,
    ) -> Result<u64, Stop> {
        let mut own = UNWRITTEN;
        if let Err(error) = writable(out) {
            self.found(pointer(what, &error))?;
            // There is no place for what a backend gives that takes such a pointer.
            return self.judge(place, what, below(out)).and(Err(error.into()));
        }
        let code = below(&raw mut own);
        if code != 0 && own != UNWRITTEN {
            let text = format!(
                "{what}: the backend failed with status {code} and wrote its out pointer; write it on success alone"
            );
            self.found(Report::plugin(Code::FailureWrote, text))?;
        }
        self.judge(place, what, code)?;
        if own == UNWRITTEN {
            let text = format!(
                "{what}: the backend ended with success and wrote nothing; write the out pointer first"
            );
            self.found(Report::plugin(Code::NothingWritten, text))?;
        }
        Ok(own)
    }

    /// Tells whether a call that was to end an object has failed and ended it all the same. `gone` asks what is below.
    #[cold]
    fn ended_in_vain(&self, what: &str, code: i32, gone: impl FnOnce() -> i32) -> Answer {
        if code != Status::InvalidHandle as i32 && gone() == Status::InvalidHandle as i32 {
            let text = format!(
                "{what}: the backend failed with status {code} and ended the object; change nothing on failure"
            );
            self.found(Report::plugin(Code::FailureWrote, text))?;
        }
        Ok(())
    }
}

/// The error of what is below, with its text, for a call that has failed with `code`.
#[cold]
fn failure(place: Here, code: i32) -> Error {
    let mut text = vec![0_u8; 4096];
    // SAFETY: the buffer has the capacity that is passed.
    let length =
        unsafe { (place.next.core.last_error)(place.next.api.context, text.as_mut_ptr(), text.len()) };
    text.truncate(length);
    let status = Status::from_code(code).unwrap_or(Status::Internal);
    Error::new(status, String::from_utf8_lossy(&text))
}

/// What is below lacks a table that the layer takes part in.
fn absent() -> Error {
    Error::unsupported("the table is not there below the layer")
}

unsafe extern "C" fn shutdown(context: Context) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.core.shutdown)(context) };
        place.layer.state.lock().down = true;
        place.layer.judge(place, "shutdown", code)
    })
}
