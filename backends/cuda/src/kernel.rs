//! Kernels: one program for each variant, built when a launch first needs it.

use crate::device::CudaDevice;
use crate::library::Product;
use crate::program::{Builder, Entry};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};
use thalweg_cstyle::{Launch as Described, Place, Plan, Routine, Source, Variant};
use thalweg_hal::backend::Launch;
use thalweg_hal::{Error, Result};

/// The entries of one variant, one a pass.
pub(crate) type Entries = Arc<[Entry]>;

type Slot = OnceLock<Result<Entries>>;

/// A kernel or library op.
pub(crate) struct CudaKernel {
    name: String,
    routine: Routine,
    /// What cuBLASLt computes where it takes a launch's strides.
    pub(crate) product: Option<Arc<Product>>,
    builder: Arc<Builder>,
    // A kernel has few variants; a look through them costs less than a hash.
    variants: RwLock<Vec<(Variant, Arc<Slot>)>>,
}

impl CudaKernel {
    /// A kernel whose programs `builder` builds.
    pub(crate) fn new(name: &str, routine: Routine, builder: &Arc<Builder>) -> CudaKernel {
        CudaKernel {
            name: name.to_owned(),
            routine,
            product: None,
            builder: Arc::clone(builder),
            variants: RwLock::new(Vec::new()),
        }
    }

    /// How a launch runs.
    pub(crate) fn plan(&self, launch: &Launch<'_, CudaDevice>) -> Result<Plan> {
        let places: SmallVec<[Place<'_>; 8]> = (launch.bindings.iter())
            .map(|bound| Place {
                buffer: bound.region.chunk.base(),
                offset: bound.region.chunk.skew() + bound.region.offset,
                strides: bound.strides,
                gather_stride: bound.gather_stride,
                gather_extent: bound.gather_extent,
            })
            .collect();
        self.routine.plan(&Described {
            extents: launch.extents,
            places: &places,
            scalars: launch.scalars,
        })
    }

    /// The entries of a variant; built by whoever asks first, while others that want the same wait.
    pub(crate) fn variant(&self, variant: &Variant) -> Result<Entries> {
        let known = |list: &[(Variant, Arc<Slot>)]| {
            let found = list.iter().find(|(key, _)| key == variant);
            found.map(|(_, slot)| Arc::clone(slot))
        };
        let slot = known(&self.variants.read());
        let slot = slot.unwrap_or_else(|| {
            let mut list = self.variants.write();
            known(&list).unwrap_or_else(|| {
                let slot = Arc::<Slot>::default();
                list.push((variant.clone(), Arc::clone(&slot)));
                slot
            })
        });
        slot.get_or_init(|| self.build(variant)).clone()
    }

    fn build(&self, variant: &Variant) -> Result<Entries> {
        let Source {
            text,
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
