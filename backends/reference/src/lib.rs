//! backends/reference
