//! Products and solvers.

mod diagonal;
mod einsum;
mod equation;
mod integer;
mod matmul;
mod order;
mod products;
mod triangular;

pub(crate) use matmul::product;
