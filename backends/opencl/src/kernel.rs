//! Kernels: one program for each variant, built when a launch first needs it.

use crate::api::RawMem;
use crate::device::OpenClDevice;
use crate::program::{Builder, Entry};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};
use thalweg_cstyle::{Launch as Described, Place, Plan, Routine, Source, Variant};
use thalweg_hal::Result;
use thalweg_hal::backend::Launch;

/// The programs of one variant.
pub(crate) struct Compiled {
    /// One entry a pass.
    pub(crate) entries: Vec<Entry>,
    /// Number of pointers that an entry takes for parameters.
    pub(crate) pointers: usize,
    /// Whether the words are an argument by value; a buffer otherwise.
    pub(crate) words_by_value: bool,
}

/// A program that is built once.
pub(crate) type Slot = OnceLock<Result<Arc<Compiled>>>;

/// A kernel or library op.
pub(crate) struct ClKernel {
    name: String,
    routine: Routine,
    builder: Arc<Builder>,
    // A kernel has few variants; a look through them costs less than a hash.
    variants: RwLock<Vec<(Variant, Arc<Slot>)>>,
}

impl ClKernel {
    /// A kernel whose programs `builder` builds.
    pub(crate) fn new(name: &str, routine: Routine, builder: &Arc<Builder>) -> ClKernel {
        ClKernel {
            name: name.to_owned(),
            routine,
            builder: Arc::clone(builder),
            variants: RwLock::new(Vec::new()),
        }
    }

    /// How a launch runs.
    pub(crate) fn plan(&self, launch: &Launch<'_, OpenClDevice>) -> Result<Plan> {
        let places: SmallVec<[Place<'_>; 8]> = (launch.bindings.iter())
            .map(|bound| Place {
                buffer: bound.region.chunk.mem().raw().0 as u64,
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

    /// The programs of a variant; built by whoever asks first, while others that want the same wait.
    pub(crate) fn variant(&self, variant: &Variant) -> Result<Arc<Compiled>> {
        if variant.is_generic() {
            return self.builder.generic.get_or_init(|| self.build(variant)).clone();
        }
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

    fn build(&self, variant: &Variant) -> Result<Arc<Compiled>> {
        let Source {
            text,
            entries,
            pointers,
            words_by_value,
        } = self.routine.render(variant)?;
        let program = Arc::new(self.builder.build(&self.name, &text)?);
        let entries = entries.iter().map(|entry| self.builder.entry(&program, entry));
        Ok(Arc::new(Compiled {
            entries: entries.collect::<Result<_>>()?,
            pointers,
            words_by_value,
        }))
    }
}

/// The buffers of a launch, as arguments.
pub(crate) type Buffers = SmallVec<[RawMem; 8]>;
