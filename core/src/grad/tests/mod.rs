//! Gradients against differences, and what else can be said of them.

mod functions;
mod numeric;
mod ops;
mod scalars;
