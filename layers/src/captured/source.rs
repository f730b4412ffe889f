//! What a kernel was compiled from, as text and numbers.

use thalweg_hal::ir::{self, Kernel};
use thalweg_hal::kit::source::Decoded;
use thalweg_hal::library::LibraryDesc;
use thalweg_hal::tables;
use thalweg_hal::{Error, Result};

/// What a kernel was compiled from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A kernel of the IR, in its text form.
    Kernel(String),
    /// A library op, as [`LibraryDesc`] says it.
    Library {
        /// Its code.
        op: u32,
        /// Codes of its dtypes, as many as are read.
        dtypes: Vec<u32>,
        /// All of its attributes.
        attributes: Vec<i64>,
        /// The map of its results in its text form, if there is one.
        epilogue: Option<String>,
    },
}

impl Source {
    /// The source of the ABI.
    ///
    /// # Errors
    /// What this version cannot read.
    ///
    /// # Safety
    /// The pointers of the source are null or valid.
    pub(crate) unsafe fn of(source: &tables::Source) -> Result<Source> {
        // SAFETY: the caller vouches for the pointers.
        match unsafe { Decoded::new(source)? } {
            Decoded::Kernel(kernel, _) => Ok(Source::Kernel(kernel.to_text())),
            Decoded::Library(op) => {
                // SAFETY: as above; a library op was read from there.
                let desc = unsafe { &*source.library };
                let count = (desc.dtype_count as usize).min(desc.dtypes.len());
                Ok(Source::Library {
                    op: desc.op,
                    dtypes: desc.dtypes[..count].to_vec(),
                    attributes: desc.attributes.to_vec(),
                    epilogue: op.epilogue().map(Kernel::to_text),
                })
            }
        }
    }

    /// What it says, verified.
    ///
    /// # Errors
    /// A text that is no kernel, and what breaks a rule of the IR or of the op.
    pub fn decoded(&self) -> Result<Decoded> {
        // SAFETY: the source points to what lives through the call.
        self.with(|source| unsafe { Decoded::new(source) })?
    }

    /// Its name in messages: the kernel's or the library op's.
    pub fn name(&self) -> String {
        let signature = self.decoded().and_then(|decoded| decoded.signature());
        signature.map_or_else(|_| "unknown kernel".to_owned(), |signature| signature.name)
    }

    /// Hands over the form of the ABI.
    ///
    /// # Errors
    /// A text that is no kernel, more dtypes or attributes than the ABI has room for.
    pub(crate) fn with<T>(&self, take: impl FnOnce(&tables::Source) -> T) -> Result<T> {
        match self {
            Source::Kernel(text) => with_kernel(&parse(text)?, take),
            Source::Library {
                op,
                dtypes,
                attributes,
                epilogue,
            } => {
                let epilogue = epilogue.as_deref().map(parse).transpose()?;
                let owned = epilogue.as_ref().map(ir::encode);
                let form = owned.as_ref().map(ir::Owned::desc);
                let mut desc = LibraryDesc {
                    op: *op,
                    dtype_count: dtypes.len() as u32,
                    dtypes: [0; 8],
                    attributes: [0; 24],
                    epilogue: form.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                };
                let room =
                    (desc.dtypes.get_mut(..dtypes.len())).zip(desc.attributes.get_mut(..attributes.len()));
                let (to_dtypes, to_attributes) = room.ok_or_else(|| {
                    Error::invalid_argument("a library op with too many dtypes or attributes")
                })?;
                to_dtypes.copy_from_slice(dtypes);
                to_attributes.copy_from_slice(attributes);
                Ok(take(&tables::Source {
                    kernel: std::ptr::null(),
                    library: &raw const desc,
                }))
            }
        }
    }
}

/// Hands over the form of a kernel that crosses the ABI.
pub(crate) fn with_kernel<T>(kernel: &Kernel, take: impl FnOnce(&tables::Source) -> T) -> Result<T> {
    let owned = ir::encode(kernel);
    let desc = owned.desc();
    Ok(take(&tables::Source {
        kernel: &raw const desc,
        library: std::ptr::null(),
    }))
}

fn parse(text: &str) -> Result<Kernel> {
    Kernel::parse(text).map_err(|error| Error::invalid_argument(format!("the text of a kernel: {error}")))
}
