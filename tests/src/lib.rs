//! The conformance kit: cases once, run against any backend.
//!
//! The command `thalweg conform` is this crate with a command line. Use the crate itself to test a backend inside your own test suite.
//!
//! A [`Subject`] is a loaded backend. What kernels mean is asked of [`thalweg_hal::interpreter`]. [`cases()`] lists what every
//! backend is held to, and a [`Kit`] runs them: each on a device of its own, with a deadline, so that a backend that hangs
//! costs one case and not the run. The [`Report`] counts passed, failed, unsupported and ignored cases by group.
//!
//! A case calls the tables directly ([`rig`]), so that what it finds is the backend's and nobody else's.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`cases`](mod@cases) | what every backend is held to: memory, streams, events, errors, kernels, library ops, latency |
//! | [`kit`] | how cases are run, lists of known exceptions, reports |
//! | [`rig`] | direct calls of a backend's tables |
//! | [`acceptance`] | cases from the acceptance tests of older systems, on tensors |
//!
//! `tests/tests` of the repository runs the kit on every backend that the machine has, and compares every op of users with stored
//! values.

pub mod acceptance;
pub mod cases;
pub mod kit;
pub mod rig;

pub use cases::cases;
pub use kit::{Case, Ignores, Kit, Latency, Outcome, Report, Row, Verdict};
pub use rig::Subject;
