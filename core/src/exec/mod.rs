//! Running programs on a device.
//!
//! `op -> one-op graph -> lower -> Program -> Executable -> submit`: eager ops, ops written with others, recorded ops and
//! traced functions go the same way and keep the executable, each under what it depends on.

mod arena;
mod cache;
mod composite;
mod described;
mod donation;
mod eager;
pub(crate) mod effects;
mod evaluate;
mod executable;
mod linear;
mod packets;
mod read;
mod reverse;
mod saved;
mod staged;
#[cfg(test)]
mod tests;
mod traced;
pub(crate) mod values;

pub(crate) use composite::{Attributes, eager_composite};
pub(crate) use eager::{again, again_pair, eager, full};
pub(crate) use evaluate::{evaluate, evaluate_all};
pub(crate) use read::{bits, contiguous, download, download_bytes, elements};
pub(crate) use reverse::Back;
pub(crate) use traced::{
    Traced, evaluated, graph_of, hash_of, placeholder_for, stand_in, take_effects, trace, tracing,
};
