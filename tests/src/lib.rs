//! The conformance kit: cases once, run against any backend.
//!
//! A [`Subject`] is a loaded backend. [`cases()`] lists what every backend is held to, and a [`Kit`] runs them: each on a device
//! of its own, with a deadline, so that a backend that hangs costs one case and not the run. What kernels mean is asked of
//! [`thalweg_hal::interpreter`]. The [`Report`] counts passed, failed, unsupported and ignored cases by group.
//!
//! A case calls the tables directly ([`rig`]), so that what it finds is the backend's and nobody else's.

pub mod acceptance;
pub mod cases;
pub mod kit;
pub mod rig;

pub use cases::cases;
pub use kit::{Case, Ignores, Kit, Latency, Outcome, Report, Row, Verdict};
pub use rig::Subject;
