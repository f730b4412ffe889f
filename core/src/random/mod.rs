//! Random numbers on the host.

mod mt19937;

pub use mt19937::Mt19937;
