//! Bad input at every entry of every table: each gives a typed status and a text, and none crashes or hangs.

mod handles;
mod inspected;
mod kernels;
mod launches;
mod packets;
mod pointers;

use crate::kit::{Case, Check};
use crate::rig::{NOBODY, Raw};
use crate::{check, fail};
use thalweg_hal::Status;

pub(super) fn cases() -> Vec<Case> {
    [
        pointers::cases(),
        handles::cases(),
        packets::cases(),
        kernels::cases(),
        launches::cases(),
        inspected::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Handles that nobody has given out.
const HANDLES: [u64; 6] = [0, u64::MAX, 0xffff_fff0, NOBODY, 1 << 63, 0x1234_5678_9abc_def0];

/// The code of a call that must be refused with one of `expected`, and a text.
fn refused(raw: Raw, code: i32, expected: &[Status], what: &str) -> Check {
    let Err(error) = raw.status(code) else {
        fail!("{what} is accepted");
    };
    check!(
        expected.contains(&error.status),
        "{what}: {} ({error})",
        error.status
    );
    check!(
        !error.message.trim().is_empty(),
        "{what}: {} without a text",
        error.status
    );
    Ok(())
}
