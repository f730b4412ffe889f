//! backends/cpu
