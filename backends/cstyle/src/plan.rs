//! Which variant of a kernel runs a launch, and with which grid and words.

use smallvec::SmallVec;

/// What a variant was compiled for. A key for a cache of programs, beside the kernel and the [`Target`](crate::Target).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Ranks and classes of steps, packed.
    pub(crate) key: SmallVec<[u8; 32]>,
}

/// Groups of one pass; one-dimensional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Number of groups; below 2^31.
    pub groups: u64,
    /// Work-items of a group.
    pub group_size: u32,
}

/// The words of a launch.
pub type Words = SmallVec<[u64; 32]>;

/// How a launch runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which program.
    pub variant: Variant,
    /// Grid of each pass; pass `i` calls entry `i` of the source. Empty when there is nothing to do.
    pub passes: SmallVec<[Grid; 4]>,
    /// Bytes of scratch memory.
    pub scratch_bytes: u64,
    /// Values of the last argument.
    pub words: Words,
}
