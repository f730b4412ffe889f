//! Kernels: one program for each variant, built when a launch first needs it.

use crate::memory::Chunk;
use crate::program::{Builder, Entry};
use std::sync::Arc;
use thalweg_cstyle::{Routine, Source, Variant, Variants};
use thalweg_hal::Result;
use thalweg_hal::tables::KernelPart;

/// The programs of one variant.
pub(crate) struct Compiled {
    /// What passes call.
    pub(crate) entries: Vec<Entry>,
    /// Number of pointers that an entry takes for parameters.
    pub(crate) pointers: usize,
    /// Whether the words are an argument by value; a buffer otherwise.
    pub(crate) words_by_value: bool,
}

/// A kernel or library op.
pub(crate) struct ClKernel {
    name: String,
    pub(crate) routine: Routine,
    builder: Arc<Builder>,
    variants: Variants<Arc<Compiled>>,
}

impl ClKernel {
    /// A kernel whose programs `builder` builds.
    pub(crate) fn new(name: &str, routine: Routine, builder: &Arc<Builder>) -> ClKernel {
        ClKernel {
            name: name.to_owned(),
            routine,
            builder: Arc::clone(builder),
            variants: Variants::default(),
        }
    }

    /// The programs of a variant; built by whoever asks first, while others that want the same wait.
    pub(crate) fn variant(&self, variant: &Variant) -> Result<Arc<Compiled>> {
        self.variants.get(variant, || match variant.is_interpreted() {
            true => {
                let interpreter = &self.builder.compiler.interpreter;
                interpreter.get(|| self.build(variant)).cloned()
            }
            false => self.build(variant),
        })
    }

    /// How many programs it has.
    pub(crate) fn programs(&self) -> usize {
        self.variants.len()
    }

    /// A part of a program.
    pub(crate) fn inspect(&self, program: usize, part: KernelPart) -> Result<Vec<u8>> {
        let of = (self.name.as_str(), &*self.builder);
        self.routine.inspect(of, &self.variants, program, part)
    }

    fn build(&self, variant: &Variant) -> Result<Arc<Compiled>> {
        let Source {
            text,
            lines: _,
            entries,
            pointers,
            words_by_value,
        } = self.routine.render(variant)?;
        let program = Arc::new(self.builder.build(&self.name, &text)?);
        let entries = entries.iter().map(|entry| Entry::new(&program, entry));
        Ok(Arc::new(Compiled {
            entries: entries.collect::<Result<_>>()?,
            pointers,
            words_by_value,
        }))
    }
}

/// A number that tells a chunk's buffer apart, and where in the buffer the chunk starts.
pub(crate) fn start(chunk: &Chunk) -> (u64, u64) {
    (chunk.mem().raw().0 as u64, chunk.skew())
}
