//! A kernel or library op that is ready to be planned and rendered.

use crate::axis::{self, AxisOp};
use crate::body::Body;
use crate::product::{self, Roles};
use crate::variant::{Word, words};
use crate::{Dialect, Launch, MatmulConfig, Plan, Target, Variant, attention, generic, plan, sort, write};
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{Attention, LibraryOp, Matmul, Sort};
use thalweg_hal::{Error, Result};

/// The source of one variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The whole program.
    pub text: String,
    /// Names of the entries, which passes call by their index.
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
    kind: Kind,
}

/// How the definition is computed.
#[derive(Debug)]
pub(crate) enum Kind {
    Kernel,
    Interpreted,
    Product(Box<Roles>, MatmulConfig),
    Axis(AxisOp),
    Sort(Sort),
    Attention(Attention),
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
            kind: Kind::Kernel,
        })
    }

    /// A kernel that the program of all kernels interprets, if it is small enough; otherwise [`Routine::new`]. Slower by far, and
    /// nothing is compiled for it. OpenCL only.
    ///
    /// # Errors
    /// Those of [`Routine::new`].
    pub fn interpreted(kernel: &Kernel, target: &Target) -> Result<Routine> {
        let routine = Routine::new(kernel, target)?;
        let fits = target.dialect == Dialect::OpenClC && generic::fits(&routine.body);
        let kind = if fits { Kind::Interpreted } else { Kind::Kernel };
        Ok(Routine { kind, ..routine })
    }

    /// A library op with the launch of its signature: products and convolutions in tiles of `config`, scans, scatters and sorts
    /// along their axis, attention by tiles of queries.
    ///
    /// # Errors
    /// `Unsupported` for a scatter whose sums are wider than its elements, and dtypes that the target lacks; `InvalidArgument`
    /// when the configuration does not fit the target.
    pub fn library(op: &LibraryOp, config: MatmulConfig, target: &Target) -> Result<Routine> {
        config.check(target)?;
        if let LibraryOp::Sort(op) = op {
            return Ok(Routine {
                kind: Kind::Sort(op.clone()),
                ..Routine::new(&sort::form(op), target)?
            });
        }
        if let LibraryOp::Attention(op) = op {
            return Ok(Routine {
                kind: Kind::Attention(op.clone()),
                ..Routine::new(&attention::form(op), target)?
            });
        }
        let product = Roles::of(op).map(|roles| Kind::Product(Box::new(roles), config));
        let kind = product
            .or_else(|| AxisOp::of(op).map(Kind::Axis))
            .ok_or_else(|| {
                Error::unsupported(format!("{} is not written as a whole; lower it", op.name()))
            })?;
        Ok(Routine {
            kind,
            ..Routine::new(&op.definition()?, target)?
        })
    }

    /// A matrix product with the launch of its definition: [`Routine::library`].
    ///
    /// # Errors
    /// Those of [`Routine::library`].
    pub fn matmul(op: &Matmul, config: MatmulConfig, target: &Target) -> Result<Routine> {
        Routine::library(&LibraryOp::Matmul(op.clone()), config, target)
    }

    /// How a launch runs.
    pub fn plan(&self, launch: &Launch<'_>) -> Result<Plan> {
        let special = match &self.kind {
            Kind::Kernel => None,
            Kind::Interpreted => Some(generic::plan(&self.body, &self.target, launch)),
            Kind::Product(roles, config) => product::plan(&self.body, roles, *config, &self.target, launch)?,
            Kind::Axis(op) => axis::plan(&self.body, op, &self.target, launch),
            Kind::Sort(op) => Some(sort::plan(&self.body, op, &self.target, launch)?),
            Kind::Attention(op) => Some(attention::plan(&self.body, op, &self.target, launch)),
        };
        Ok(special.unwrap_or_else(|| plan::plan(&self.body, &self.target, launch)))
    }

    /// Brings a plan to a launch that differs from the one it was made for in buffers, offsets and scalars, and where parameters
    /// share memory as they did; `before` are the offsets and scalars that it has. False where only a new plan fits.
    pub fn adapt(&self, plan: &mut Plan, before: (&[u64], &[u64]), launch: &Launch<'_>) -> bool {
        // What plans look at beside extents and strides.
        const PACK: u64 = 16;
        let pairs = || before.0.iter().zip(launch.places);
        let depends = match &self.kind {
            Kind::Kernel | Kind::Axis(_) | Kind::Attention(_) => false,
            Kind::Product(..) | Kind::Sort(_) => before.1 != launch.scalars,
            // Its words have another order.
            Kind::Interpreted => true,
        };
        if depends || pairs().any(|(&offset, place)| offset % PACK != place.offset % PACK) {
            return false;
        }
        let (values, mut at) = (&mut plan.words, 0);
        words(&self.body, &plan.variant, |word| {
            match word {
                Word::Offset(param) => values[at] = launch.places[param].offset,
                Word::Scalar(index) => values[at] = launch.scalars[index],
                _ => {}
            }
            at += 1;
        });
        true
    }

    /// The source of a variant that [`Routine::plan`] returned.
    pub fn render(&self, variant: &Variant) -> Result<Source> {
        Ok(write::kernel(&self.body, &self.kind, variant, &self.target))
    }
}
