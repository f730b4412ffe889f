//! A kernel or library op that is ready to be planned and rendered.

use crate::axis::AxisOp;
use crate::body::Body;
use crate::product::Roles;
use crate::variant::Form;
use crate::write::Writer;
use crate::{Dialect, Launch, MatmulConfig, Place, Plan, Target, Variant};
use crate::{attention, axis, interpreter, kernel, product, sort, words};
use smallvec::SmallVec;
use thalweg_hal::backend::{self, Device};
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{Attention, LibraryOp, Matmul, Sort};
use thalweg_hal::{Error, Result};

/// The source of one variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The whole program.
    pub text: String,
    /// Lines that compute a node of the kernel, from 1, with the node's number. Of a library op it is a node of its definition.
    pub lines: Vec<(u32, u32)>,
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
enum Kind {
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
        let fits = target.dialect == Dialect::OpenClC && interpreter::fits(&routine.body);
        let kind = if fits { Kind::Interpreted } else { Kind::Kernel };
        Ok(Routine { kind, ..routine })
    }

    /// A library op with the launch of its signature: products and convolutions in tiles of `config`, scans, scatters and sorts
    /// along their axis, attention by tiles of queries.
    ///
    /// # Errors
    /// `Unsupported` for a scatter whose sums are wider than its elements, a sort without indices or of a part, and dtypes that the
    /// target lacks; `InvalidArgument` when the configuration does not fit the target.
    pub fn library(op: &LibraryOp, config: MatmulConfig, target: &Target) -> Result<Routine> {
        let config = config.suited(op, target)?;
        if let LibraryOp::Sort(op) = op {
            if !op.indices || op.part {
                let text = "sort is written for whole rows with indices; ask for them";
                return Err(Error::unsupported(text));
            }
            return Ok(Routine {
                kind: Kind::Sort(op.clone()),
                ..Routine::new(&sort::parameters(op), target)?
            });
        }
        if let LibraryOp::Attention(op) = op {
            return Ok(Routine {
                kind: Kind::Attention(op.clone()),
                ..Routine::new(&attention::parameters(op), target)?
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

    /// What it is written for.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// How a launch runs.
    pub fn plan(&self, launch: &Launch<'_>) -> Result<Plan> {
        let (body, target) = (&self.body, &self.target);
        let own = match &self.kind {
            Kind::Kernel => None,
            Kind::Interpreted => Some(interpreter::plan(body, target, launch)),
            Kind::Product(roles, config) => product::plan(body, roles, *config, target, launch)?,
            Kind::Axis(op) => axis::plan(body, op, target, launch),
            Kind::Sort(op) => Some(sort::plan(body, op, target, launch)?),
            Kind::Attention(op) => Some(attention::plan(body, op, target, launch)),
        };
        Ok(own.unwrap_or_else(|| kernel::plan(body, target, launch)))
    }

    /// How a backend's launch runs; `start` as in [`Place::of`].
    ///
    /// # Errors
    /// Those of [`Routine::plan`].
    pub fn plan_bound<D: Device>(
        &self,
        launch: &backend::Launch<'_, D>,
        start: impl Fn(&D::Chunk) -> (u64, u64),
    ) -> Result<Plan> {
        let place = |bound| Place::of(bound, &start);
        let places: SmallVec<[Place<'_>; 8]> = launch.bindings.iter().map(place).collect();
        self.plan(&Launch {
            extents: launch.extents,
            places: &places,
            scalars: launch.scalars,
        })
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
        words::replace(&self.body, &plan.variant, launch, &mut plan.words);
        true
    }

    /// The source of a variant that [`Routine::plan`] returned.
    ///
    /// # Errors
    /// `Internal` for a variant of another routine.
    pub fn render(&self, variant: &Variant) -> Result<Source> {
        let writer = Writer::new(&self.body, variant, &self.target);
        Ok(match (variant.form, &self.kind) {
            (Form::Kernel(form), _) => kernel::source(writer, form),
            (Form::Interpreted, Kind::Interpreted) => interpreter::source(&self.target),
            (Form::Product(form), Kind::Product(roles, _)) => product::source(writer, roles, form)?,
            (Form::Axis(form), Kind::Axis(op)) => axis::source(writer, op, form),
            (Form::Sort(form), Kind::Sort(op)) => sort::source(writer, op, form),
            (Form::Attention(form), Kind::Attention(op)) => attention::source(writer, op, form),
            (form, _) => {
                return Err(Error::internal(format!(
                    "{}: {form:?} is a variant of another routine",
                    self.body.kernel.name
                )));
            }
        })
    }
}
