//! Random numbers: on devices by Philox under keys ([`Key`]), on the host by NumPy's Mersenne Twister ([`Mt19937`]).

mod mt19937;
#[cfg(test)]
mod tests;

pub use crate::ops::Key;
pub use mt19937::Mt19937;
