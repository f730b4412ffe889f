//! The conformance kit: cases once, run against any backend.

pub mod acceptance;
