//! A kernel or library op that is ready to be planned and rendered.

use crate::body::Body;
use crate::{Launch, Plan, Target, Variant, plan, write};
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::Matmul;
use thalweg_hal::{Error, Result};

/// The source of one variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The whole program.
    pub text: String,
    /// Name of the entry of each pass.
    pub entries: Vec<String>,
    /// Whether the words are a struct by value; a pointer to device memory otherwise.
    pub words_by_value: bool,
}

/// Tiles of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatmulConfig {
    /// A group computes `m` × `n` elements from tiles of depth `k` in local memory, a work-item `item_m` × `item_n` of them.
    Tiled {
        /// Rows of a group.
        m: u32,
        /// Columns of a group.
        n: u32,
        /// Depth of a step.
        k: u32,
        /// Rows of a work-item.
        item_m: u32,
        /// Columns of a work-item.
        item_n: u32,
    },
    /// For CPUs: a work-item computes `m` × `n` elements, packs `k` × `n` of the second operand at a time, and keeps `item_m`
    /// × `n` sums in vector registers.
    Panel {
        /// Rows of a work-item.
        m: u32,
        /// Columns of a work-item: 8, 16, 32 or 64.
        n: u32,
        /// Depth of a step.
        k: u32,
        /// Rows in registers.
        item_m: u32,
    },
}

impl MatmulConfig {
    /// Configurations worth trying on a target, the one to take untried first.
    pub fn candidates(target: &Target) -> Vec<MatmulConfig> {
        let _ = target;
        Vec::new()
    }
}

/// A kernel or library op that is ready to be planned and rendered.
#[derive(Debug)]
pub struct Routine {
    body: Body,
    target: Target,
}

impl Routine {
    /// Analyses a kernel; refuses one that the verifier refuses and one that needs what the target lacks.
    pub fn new(kernel: &Kernel, target: &Target) -> Result<Routine> {
        let body = Body::new(kernel)?;
        if body.fp64 && !target.fp64 {
            return Err(Error::unsupported(format!(
                "{}: the device does not compute in f64; use f32",
                kernel.name
            )));
        }
        Ok(Routine {
            body,
            target: *target,
        })
    }

    /// A matrix product with the launch of its definition.
    pub fn matmul(op: &Matmul, config: MatmulConfig, target: &Target) -> Result<Routine> {
        let _ = config;
        let kernel = thalweg_hal::library::LibraryOp::Matmul(op.clone()).definition()?;
        Routine::new(&kernel, target)
    }

    /// How a launch runs.
    pub fn plan(&self, launch: &Launch<'_>) -> Result<Plan> {
        Ok(plan::plan(&self.body, &self.target, launch))
    }

    /// The source of a variant that [`Routine::plan`] returned.
    pub fn render(&self, variant: &Variant) -> Result<Source> {
        Ok(write::kernel(&self.body, variant, &self.target))
    }
}
