//! Gradients against differences, and what else can be said of them.

mod composites;
mod functions;
mod numeric;
mod ops;
mod parts;
mod scalars;
