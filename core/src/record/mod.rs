//! What is recorded while a program runs.

pub mod recording;
