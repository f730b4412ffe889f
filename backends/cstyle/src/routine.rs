//! A kernel or library op that is ready to be planned and rendered.

use crate::body::Body;
use crate::{Launch, MatmulConfig, Plan, Target, Variant, matmul, plan, write};
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{LibraryOp, Matmul};
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

/// A kernel or library op that is ready to be planned and rendered.
#[derive(Debug)]
pub struct Routine {
    body: Body,
    target: Target,
    config: Option<MatmulConfig>,
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
            config: None,
        })
    }

    /// A matrix product with the launch of its definition.
    pub fn matmul(op: &Matmul, config: MatmulConfig, target: &Target) -> Result<Routine> {
        config.check(target)?;
        let definition = LibraryOp::Matmul(op.clone()).definition()?;
        Ok(Routine {
            config: Some(config),
            ..Routine::new(&definition, target)?
        })
    }

    /// How a launch runs.
    pub fn plan(&self, launch: &Launch<'_>) -> Result<Plan> {
        match self.config {
            Some(config) => matmul::plan(&self.body, config, launch),
            None => Ok(plan::plan(&self.body, &self.target, launch)),
        }
    }

    /// The source of a variant that [`Routine::plan`] returned.
    pub fn render(&self, variant: &Variant) -> Result<Source> {
        Ok(write::kernel(&self.body, variant, &self.target))
    }
}
