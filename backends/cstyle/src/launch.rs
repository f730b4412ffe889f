//! A launch, as far as planning needs it.

use thalweg_hal::backend::{Bound, Device};

/// What one launch brings; counts match the kernel's signature and every address lies in its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Extents of the outer axes, then of the inner ones.
    pub extents: &'a [u64],
    /// One for each parameter.
    pub places: &'a [Place<'a>],
    /// Bits of the scalar arguments.
    pub scalars: &'a [u64],
}

/// Where one parameter's elements lie.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// A number that tells buffers apart. Buffers start at multiples of 64 bytes at least.
    pub buffer: u64,
    /// Bytes from the start of the buffer to the element at index 0.
    pub offset: u64,
    /// Elements per axis of the parameter's level; read when the parameter is strided.
    pub strides: &'a [i64],
    /// Elements from one gather index to the next; read when the kernel gathers from the parameter.
    pub gather_stride: i64,
    /// Number of valid gather indices.
    pub gather_extent: u64,
}

impl<'a> Place<'a> {
    /// That of an argument; `start` gives the number of a chunk's buffer and the byte at which the chunk starts in it.
    pub fn of<D: Device>(bound: &Bound<'a, D>, start: impl Fn(&D::Chunk) -> (u64, u64)) -> Place<'a> {
        let (buffer, skew) = start(bound.region.chunk);
        Place {
            buffer,
            offset: skew + bound.region.offset,
            strides: bound.strides,
            gather_stride: bound.gather_stride,
            gather_extent: bound.gather_extent,
        }
    }
}
