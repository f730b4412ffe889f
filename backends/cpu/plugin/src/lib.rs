//! backends/cpu/plugin
