//! Moments: cheap to take where the processor has a counter for it.

pub(crate) use thalweg_hal::clock::{Scale, now, ticks};
