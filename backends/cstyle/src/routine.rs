//! A kernel or library op that is ready to be planned and rendered.

use crate::body::Body;
use crate::product::{self, Roles};
use crate::{Dialect, Launch, MatmulConfig, Plan, Target, Variant, generic, plan, write};
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
    /// Number of pointers that an entry takes for parameters. Where a kernel has fewer, any valid one fills up.
    pub pointers: usize,
    /// Whether the words are a struct by value; a pointer to device memory otherwise.
    pub words_by_value: bool,
}

/// A kernel or library op that is ready to be planned and rendered.
#[derive(Debug)]
pub struct Routine {
    body: Body,
    target: Target,
    product: Option<(Roles, MatmulConfig)>,
    interpreted: bool,
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
            product: None,
            interpreted: false,
        })
    }

    /// A kernel that the program of all kernels interprets, if it is small enough; otherwise [`Routine::new`]. Slower by far, and
    /// nothing is compiled for it. OpenCL only.
    ///
    /// # Errors
    /// Those of [`Routine::new`].
    pub fn interpreted(kernel: &Kernel, target: &Target) -> Result<Routine> {
        let routine = Routine::new(kernel, target)?;
        Ok(Routine {
            interpreted: target.dialect == Dialect::OpenClC && generic::fits(&routine.body),
            ..routine
        })
    }

    /// A matrix product, or a convolution or a gradient of one, with the launch of its definition.
    ///
    /// # Errors
    /// `Unsupported` for other ops and for dtypes that the target lacks; `InvalidArgument` when the configuration does not
    /// fit the target.
    pub fn product(op: &LibraryOp, config: MatmulConfig, target: &Target) -> Result<Routine> {
        config.check(target)?;
        let Some(roles) = Roles::of(op) else {
            return Err(Error::unsupported(format!(
                "{} is no product; lower it",
                op.name()
            )));
        };
        Ok(Routine {
            product: Some((roles, config)),
            ..Routine::new(&op.definition()?, target)?
        })
    }

    /// A matrix product with the launch of its definition: [`Routine::product`].
    ///
    /// # Errors
    /// Those of [`Routine::product`].
    pub fn matmul(op: &Matmul, config: MatmulConfig, target: &Target) -> Result<Routine> {
        Routine::product(&LibraryOp::Matmul(op.clone()), config, target)
    }

    /// How a launch runs.
    pub fn plan(&self, launch: &Launch<'_>) -> Result<Plan> {
        match &self.product {
            Some((roles, config)) => product::plan(&self.body, roles, *config, &self.target, launch),
            None if self.interpreted => Ok(generic::plan(&self.body, &self.target, launch)),
            None => Ok(plan::plan(&self.body, &self.target, launch)),
        }
    }

    /// The source of a variant that [`Routine::plan`] returned.
    pub fn render(&self, variant: &Variant) -> Result<Source> {
        let roles = self.product.as_ref().map(|(roles, _)| roles);
        Ok(write::kernel(&self.body, roles, variant, &self.target))
    }
}
