//! The functions of CUDA's libraries that the backend calls, found when they are first needed.
//!
//! Types and constants are those of `cudarc`'s `sys` modules; its functions are not used, since they panic where a library or
//! a symbol is missing. Codes that libraries return are numbers here: a later library knows codes that no enum lists.

pub(crate) mod codes;
pub(crate) mod cupti;
pub(crate) mod driver;
mod library;
pub(crate) mod lt;
pub(crate) mod nvrtc;

pub(crate) use cupti::Cupti;
pub(crate) use driver::Driver;
pub(crate) use library::Search;
pub(crate) use lt::Lt;
pub(crate) use nvrtc::Nvrtc;
