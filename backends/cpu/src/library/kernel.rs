//! Library ops of the contract in terms of this crate's routines.

use super::attention::AttentionKernel;
use super::conv::{ConvKernel, Direction};
use super::matmul::MatmulKernel;
use super::scan::ScanKernel;
use super::scatter::ScatterKernel;
use super::sort::SortKernel;
use crate::exec::Args;
use crate::isa::Isa;
use crate::parallel::Parallel;
use thalweg_hal::Result;
use thalweg_hal::library::LibraryOp;

/// Floating-point operations per nanosecond of one core; an estimate for the decision to run inline.
const FLOPS_PER_NS: u64 = 100;

/// Another form of an operand, which is made once where the operand is a constant.
pub(crate) struct Wanted {
    /// Which parameter.
    pub(crate) operand: usize,
    /// Bytes of the form.
    pub(crate) bytes: u64,
    /// What it depends on beside the operand's bytes.
    pub(crate) key: Box<[u64]>,
}

/// A compiled library op.
#[expect(
    clippy::large_enum_variant,
    reason = "a small product is launched often: one pointer less to follow"
)]
pub enum LibraryKernel {
    /// A matrix product.
    Matmul(MatmulKernel),
    /// A convolution or one of its gradients.
    Conv(Box<ConvKernel>),
    /// Updates at indices.
    Scatter(Box<ScatterKernel>),
    /// Cumulative reductions.
    Scan(Box<ScanKernel>),
    /// Sorting.
    Sort(SortKernel),
    /// Attention.
    Attention(AttentionKernel),
}

impl LibraryKernel {
    /// Why `op` is not offered, if it is not.
    pub fn supports(op: &LibraryOp) -> Result<()> {
        match op {
            LibraryOp::Matmul(matmul) => MatmulKernel::supports(matmul),
            LibraryOp::Conv(conv) => ConvKernel::supports(op.name(), conv, Direction::Forward),
            LibraryOp::ConvGradInput(conv) => ConvKernel::supports(op.name(), conv, Direction::GradInput),
            LibraryOp::ConvGradWeight(conv) => ConvKernel::supports(op.name(), conv, Direction::GradWeight),
            LibraryOp::Scatter(scatter) => ScatterKernel::supports(scatter),
            LibraryOp::Scan(scan) => ScanKernel::supports(scan),
            LibraryOp::Sort(_) | LibraryOp::Attention(_) => Ok(()),
        }
    }

    /// Prepares `op` for an instruction set, which this machine must have. Products and epilogues run as machine code of our own where
    /// `codegen`, and products of bf16 by AMX where `amx_bf16` and the machine has it.
    pub fn compile(op: &LibraryOp, isa: Isa, (codegen, amx_bf16): (bool, bool)) -> Result<LibraryKernel> {
        let conv = |conv, direction| {
            let kernel = ConvKernel::compile(op, conv, direction, (isa, codegen))?;
            Ok(LibraryKernel::Conv(Box::new(kernel)))
        };
        match op {
            LibraryOp::Matmul(matmul) => {
                MatmulKernel::compile(matmul, isa, (codegen, amx_bf16)).map(LibraryKernel::Matmul)
            }
            LibraryOp::Conv(op) => conv(op, Direction::Forward),
            LibraryOp::ConvGradInput(op) => conv(op, Direction::GradInput),
            LibraryOp::ConvGradWeight(op) => conv(op, Direction::GradWeight),
            LibraryOp::Scatter(scatter) => {
                let kernel = ScatterKernel::compile(op, scatter, isa)?;
                Ok(LibraryKernel::Scatter(Box::new(kernel)))
            }
            LibraryOp::Scan(scan) => {
                let kernel = ScanKernel::compile(op, scan, isa)?;
                Ok(LibraryKernel::Scan(Box::new(kernel)))
            }
            LibraryOp::Sort(sort) => Ok(LibraryKernel::Sort(SortKernel::compile(sort, isa))),
            LibraryOp::Attention(op) => {
                let kernel = AttentionKernel::compile(op, isa, codegen);
                Ok(LibraryKernel::Attention(kernel))
            }
        }
    }

    /// Nanoseconds on one core, roughly.
    pub fn cost(&self, extents: &[u64]) -> u64 {
        let points = |extents: &[u64]| {
            extents
                .iter()
                .fold(1_u64, |product, &extent| product.saturating_mul(extent))
        };
        match self {
            LibraryKernel::Matmul(_) => points(extents).saturating_mul(2) / FLOPS_PER_NS,
            LibraryKernel::Conv(kernel) => {
                points(extents).saturating_mul(2 * kernel.slowness(extents)) / FLOPS_PER_NS
            }
            LibraryKernel::Scatter(kernel) => kernel.cost(extents),
            LibraryKernel::Scan(kernel) => kernel.cost(extents),
            LibraryKernel::Sort(kernel) => kernel.cost(extents),
            LibraryKernel::Attention(kernel) => kernel.products(extents).saturating_mul(2) / FLOPS_PER_NS,
        }
    }

    /// The form of an operand that a launch like this reads faster than the operand; addresses and scalars do not matter.
    pub(crate) fn wanted(&self, args: &Args<'_>) -> Option<Wanted> {
        match self {
            LibraryKernel::Matmul(kernel) => kernel.wanted(args),
            LibraryKernel::Conv(kernel) => kernel.wanted(args),
            LibraryKernel::Scatter(_)
            | LibraryKernel::Scan(_)
            | LibraryKernel::Sort(_)
            | LibraryKernel::Attention(_) => None,
        }
    }

    /// Writes the form that [`LibraryKernel::wanted`] says to `to`, aligned for a cache line.
    ///
    /// # Safety
    /// The operand is readable, and the form's bytes are written by no one else.
    pub(crate) unsafe fn prepare(&self, args: &Args<'_>, to: *mut u8) {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self {
                LibraryKernel::Matmul(kernel) => kernel.prepare(args, to),
                LibraryKernel::Conv(kernel) => kernel.prepare(args, to),
                LibraryKernel::Scatter(_)
                | LibraryKernel::Scan(_)
                | LibraryKernel::Sort(_)
                | LibraryKernel::Attention(_) => {}
            }
        }
    }

    /// Runs the op with the parameters of its definition. `prepared` is what `prepare` wrote, or null.
    ///
    /// # Safety
    /// As [`crate::exec::Program::run`].
    pub unsafe fn run(&self, args: &Args<'_>, prepared: *const u8, parallel: &dyn Parallel) {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self {
                LibraryKernel::Matmul(kernel) => kernel.run(args, prepared, parallel),
                LibraryKernel::Conv(kernel) => kernel.run(args, prepared, parallel),
                LibraryKernel::Scatter(kernel) => kernel.run(args, parallel),
                LibraryKernel::Scan(kernel) => kernel.run(args, parallel),
                LibraryKernel::Sort(kernel) => kernel.run(args, parallel),
                LibraryKernel::Attention(kernel) => kernel.run(args, parallel),
            }
        }
    }
}
