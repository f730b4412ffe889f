//! Kernels: one program for each variant, built when a launch first needs it.

use crate::device::CudaDevice;
use crate::library::Product;
use crate::memory::Chunk;
use crate::program::{Builder, Entry};
use std::sync::Arc;
use thalweg_cstyle::{Launch as Described, Place, Plan, Routine, Source, Variant, Variants};
use thalweg_hal::backend::{Bound, Launch};
use thalweg_hal::tables::KernelPart;
use thalweg_hal::{Error, Result};

/// The entries of one variant, which passes call.
pub(crate) type Entries = Arc<[Entry]>;

/// A kernel or library op.
pub(crate) struct CudaKernel {
    name: String,
    routine: Routine,
    /// What cuBLASLt computes where it takes a launch's strides.
    pub(crate) product: Option<Arc<Product>>,
    /// The map that follows the library's product where its epilogue is not the library's too, or its output no memory for it.
    pub(crate) after_product: Option<Arc<CudaKernel>>,
    builder: Arc<Builder>,
    variants: Variants<Entries>,
}

/// A number that tells a chunk's buffer apart, and where in the buffer the chunk starts.
fn start(chunk: &Chunk) -> (u64, u64) {
    (chunk.base(), chunk.skew())
}

/// Where a parameter's elements lie.
pub(crate) fn place<'a>(bound: &Bound<'a, CudaDevice>) -> Place<'a> {
    Place::of(bound, start)
}

impl CudaKernel {
    /// A kernel whose programs `builder` builds.
    pub(crate) fn new(name: &str, routine: Routine, builder: &Arc<Builder>) -> CudaKernel {
        CudaKernel {
            name: name.to_owned(),
            routine,
            product: None,
            after_product: None,
            builder: Arc::clone(builder),
            variants: Variants::default(),
        }
    }

    /// How a launch runs.
    pub(crate) fn plan(&self, launch: &Launch<'_, CudaDevice>) -> Result<Plan> {
        self.routine.plan_bound(launch, start)
    }

    /// How a launch with these places runs.
    pub(crate) fn plan_at(&self, launch: &Described<'_>) -> Result<Plan> {
        self.routine.plan(launch)
    }

    /// The entries of a variant; built by whoever asks first, while others that want the same wait.
    pub(crate) fn variant(&self, variant: &Variant) -> Result<Entries> {
        self.variants.get(variant, || self.build(variant))
    }

    /// How many programs it has: that of the library, where it has a product, and then own ones and those of the map after the
    /// product in turn, so that each keeps its number.
    pub(crate) fn programs(&self) -> usize {
        match (&self.product, &self.after_product) {
            (None, _) => self.variants.len(),
            (Some(_), after) => {
                let after = after.as_ref().map_or(0, |map| map.variants.len());
                1 + 2 * self.variants.len().max(after)
            }
        }
    }

    /// A part of a program.
    pub(crate) fn inspect(&self, program: usize, part: KernelPart) -> Result<Vec<u8>> {
        if self.product.is_none() {
            return self.part(program, part);
        }
        let Some(own) = program.checked_sub(1) else {
            return match part {
                KernelPart::Facts => Ok(b"form=cuBLASLt\n".to_vec()),
                part => Err(Error::unsupported(format!(
                    "cuBLASLt computes this product, and does not show its {}",
                    part.name()
                ))),
            };
        };
        match (&self.after_product, own % 2) {
            (_, 0) => self.part(own / 2, part),
            (Some(_), _) if part == KernelPart::Lines => Err(Error::unsupported(
                "nodes of the map after a product have other numbers than those of the definition",
            )),
            (Some(map), _) => map.part(own / 2, part),
            (None, _) => Ok(Vec::new()),
        }
    }

    fn part(&self, program: usize, part: KernelPart) -> Result<Vec<u8>> {
        if program >= self.variants.len() {
            return Ok(Vec::new());
        }
        let builder = self.builder.entered()?;
        self.routine
            .inspect((&self.name, builder), &self.variants, program, part)
    }

    fn build(&self, variant: &Variant) -> Result<Entries> {
        let Source {
            text,
            lines: _,
            entries,
            pointers: _,
            words_by_value,
        } = self.routine.render(variant)?;
        if !words_by_value {
            return Err(Error::unsupported(format!(
                "kernel {}: its arguments exceed the 4096 B of a launch",
                self.name
            )));
        }
        self.builder.build(&self.name, &text, &entries)
    }
}
