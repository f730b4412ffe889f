//! What a kernel is compiled from, as it crosses the ABI.

use super::args::arg;
use super::checks::Signature;
use crate::backend::Source;
use crate::ir::{self, Info, decode};
use crate::library::LibraryOp;
use crate::status::{Error, Result};
use crate::tables;

/// What a kernel is compiled from, read and verified.
#[derive(Debug)]
pub enum Decoded {
    /// A kernel of the IR.
    Kernel(ir::Kernel, Info),
    /// A library op.
    Library(LibraryOp),
}

impl Decoded {
    /// Reads the form that crosses the ABI.
    ///
    /// # Errors
    /// `InvalidArgument` for a form that is none, `Unsupported` for what this version does not know, `CompileFailed` for a kernel that
    /// breaks a rule of the IR.
    ///
    /// # Safety
    /// The pointers of the source are null or valid.
    pub unsafe fn new(source: &tables::Source) -> Result<Decoded> {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            match (source.kernel.is_null(), source.library.is_null()) {
                (false, true) => {
                    let kernel = decode(arg(source.kernel)?)?;
                    let info = kernel
                        .verify()
                        .map_err(|error| Error::compile_failed(format!("kernel {}: {error}", kernel.name)))?;
                    Ok(Decoded::Kernel(kernel, info))
                }
                (true, false) => Ok(Decoded::Library(LibraryOp::decode(arg(source.library)?)?)),
                _ => Err(Error::invalid_argument(
                    "a source is either a kernel or a library op",
                )),
            }
        }
    }

    /// What a backend compiles.
    pub fn source(&self) -> Source<'_> {
        match self {
            Decoded::Kernel(kernel, info) => Source::Kernel(kernel, info),
            Decoded::Library(op) => Source::Library(op),
        }
    }

    /// What a launch must match.
    ///
    /// # Errors
    /// Those of [`LibraryOp::signature`].
    pub fn signature(&self) -> Result<Signature> {
        match self {
            Decoded::Kernel(kernel, _) => Ok(Signature::of(kernel)),
            Decoded::Library(op) => op.signature(),
        }
    }
}
