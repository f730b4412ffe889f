//! What is recorded while a program runs: who writes events, and how they come to a file.
//!
//! ```text
//! op, run, span -> ring of the thread -> writer thread -> recording.tw
//! device -> profile of the backend ----------^
//! ```
//!
//! [`switch`] says what is on: one relaxed load where nothing is. [`ring`] is what a thread writes to, [`writer`] the one thread that
//! empties all rings, asks the devices and writes the file, [`session`] one recording from start to end. [`scope`] and [`place`] name
//! where work comes from; names are given out once for the process.

pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod flight;
pub(crate) mod frames;
pub(crate) mod measure;
pub(crate) mod memory;
pub(crate) mod name;
pub(crate) mod parts;
pub(crate) mod place;
pub(crate) mod prints;
pub mod recording;
pub(crate) mod ring;
pub(crate) mod scope;
pub(crate) mod session;
pub(crate) mod span;
pub(crate) mod switch;
pub(crate) mod text;
pub(crate) mod values;
pub(crate) mod writer;
