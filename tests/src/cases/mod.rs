//! What every backend is held to.

mod acceptance;
mod callbacks;
mod concurrency;
mod errors;
mod events;
mod kernels;
pub(crate) mod latency;
mod library;
mod memory;
mod negotiation;
mod profile;
mod programs;
mod streams;

use crate::kit::Case;

/// Every case, in the order in which they run.
pub fn cases() -> Vec<Case> {
    [
        negotiation::cases(),
        memory::cases(),
        streams::cases(),
        callbacks::cases(),
        events::cases(),
        errors::cases(),
        kernels::cases(),
        library::cases(),
        programs::cases(),
        profile::cases(),
        concurrency::cases(),
        acceptance::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
