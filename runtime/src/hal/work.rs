//! Work for streams and graphs: launches, copies, fills.

use super::device::Device;
use super::element::Element;
use super::error::{Error, Result};
use super::kernel::Kernel;
use super::memory::Buffer;
use super::tag::Tag;
use std::mem::MaybeUninit;
use thalweg_hal::Status;
use thalweg_hal::tables;

/// One buffer argument of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a> {
    buffer: &'a Buffer,
    offset: u64,
    strides: Option<&'a [i64]>,
    gather: (i64, u64),
}

impl<'a> Arg<'a> {
    /// The whole buffer, for a contiguous or broadcast parameter.
    #[inline]
    pub const fn new(buffer: &'a Buffer) -> Arg<'a> {
        Arg {
            buffer,
            offset: 0,
            strides: None,
            gather: (0, 0),
        }
    }

    /// Puts the element at index 0 at byte `offset`, a multiple of the element size.
    #[inline]
    #[must_use]
    pub const fn offset(mut self, bytes: u64) -> Arg<'a> {
        self.offset = bytes;
        self
    }

    /// Strides in elements, one per axis of the parameter's level: needed for a strided parameter.
    #[inline]
    #[must_use]
    pub const fn strides(mut self, strides: &'a [i64]) -> Arg<'a> {
        self.strides = Some(strides);
        self
    }

    /// For a parameter that the kernel gathers from: elements from one gather index to the next, and their number.
    #[inline]
    #[must_use]
    pub const fn gather(mut self, stride: i64, extent: u64) -> Arg<'a> {
        self.gather = (stride, extent);
        self
    }
}

impl<'a> From<&'a Buffer> for Arg<'a> {
    fn from(buffer: &'a Buffer) -> Arg<'a> {
        Arg::new(buffer)
    }
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    kernel: &'a Kernel,
    extents: &'a [u64],
    args: &'a [Arg<'a>],
    scalars: &'a [u64],
    tag: Tag<'a>,
}

impl<'a> Launch<'a> {
    /// `kernel` over `extents` (outer axes, then inner ones) with one argument for each parameter. The op in errors and
    /// profiles is the kernel's name unless [`Launch::tag`] says otherwise.
    #[inline]
    #[track_caller]
    pub fn new(kernel: &'a Kernel, extents: &'a [u64], args: &'a [Arg<'a>]) -> Launch<'a> {
        Launch {
            kernel,
            extents,
            args,
            scalars: &[],
            tag: Tag::new(kernel.name()),
        }
    }

    /// Scalar arguments, as [`Element::bits`] gives them.
    #[inline]
    #[must_use]
    pub const fn scalars(mut self, bits: &'a [u64]) -> Launch<'a> {
        self.scalars = bits;
        self
    }

    /// Where the launch comes from.
    #[inline]
    #[must_use]
    pub const fn tag(mut self, tag: Tag<'a>) -> Launch<'a> {
        self.tag = tag;
        self
    }

    #[inline]
    pub(super) fn get_tag(&self) -> &Tag<'a> {
        &self.tag
    }

    pub(super) fn arg_count(&self) -> usize {
        self.args.len()
    }

    /// Checks what the ABI's pointers cannot carry and writes the bindings to `place`, which has room for
    /// [`Launch::arg_count`].
    #[inline]
    pub(super) fn bind<'b>(
        &self,
        device: &Device,
        place: &'b mut [MaybeUninit<tables::Binding>],
    ) -> Result<&'b mut [tables::Binding]> {
        let axes = self.kernel.axes();
        if self.kernel.device() != device || self.args.len() != axes.len() || place.len() != axes.len() {
            return Err(self.wrong_shape(device));
        }
        for (index, ((arg, &axes), place)) in self.args.iter().zip(axes).zip(&mut *place).enumerate() {
            if arg.buffer.device() != device {
                return Err(foreign(device, arg.buffer, index, &self.tag));
            }
            let strides = match arg.strides {
                None => std::ptr::null(),
                Some(strides) if strides.len() == usize::from(axes) => strides.as_ptr(),
                Some(strides) => return Err(self.wrong_strides(device, index, strides.len(), axes)),
            };
            place.write(tables::Binding {
                buffer: arg.buffer.handle(),
                offset: arg.offset,
                strides,
                gather_stride: arg.gather.0,
                gather_extent: arg.gather.1,
            });
        }
        // SAFETY: the loop ran over as many arguments and axes as there are places, and wrote each place.
        Ok(unsafe { std::slice::from_raw_parts_mut(place.as_mut_ptr().cast(), place.len()) })
    }

    #[cold]
    fn wrong_strides(&self, device: &Device, index: usize, given: usize, axes: u8) -> Error {
        let text = format!("parameter {index} has {given} strides, its level has {axes} axes");
        device.refuse(Status::InvalidArgument, text, &self.tag)
    }

    #[cold]
    fn wrong_shape(&self, device: &Device) -> Error {
        if self.kernel.device() != device {
            let text = format!("the kernel was compiled for {}", self.kernel.device().target());
            return device.refuse(Status::InvalidHandle, text, &self.tag);
        }
        let (given, taken) = (self.args.len(), self.kernel.axes().len());
        let text = format!("{given} buffers for {taken} parameters");
        device.refuse(Status::InvalidArgument, text, &self.tag)
    }

    /// The ABI form with these bindings.
    #[inline]
    pub(super) fn raw(&self, bindings: &[tables::Binding]) -> tables::Launch {
        tables::Launch {
            kernel: self.kernel.handle(),
            extents: self.extents.as_ptr(),
            extent_count: self.extents.len(),
            bindings: bindings.as_ptr(),
            binding_count: bindings.len(),
            scalars: self.scalars.as_ptr(),
            scalar_count: self.scalars.len(),
        }
    }
}

#[cold]
fn foreign(device: &Device, buffer: &Buffer, index: usize, tag: &Tag<'_>) -> Error {
    let text = format!(
        "buffer {index} lies on another device, {}",
        buffer.device().target()
    );
    device.refuse(Status::InvalidHandle, text, tag)
}

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    buffer: Option<&'a Buffer>,
    raw: tables::Place,
}

impl<'a> Place<'a> {
    /// The buffer from byte `offset` on.
    pub const fn buffer(buffer: &'a Buffer, offset: u64) -> Place<'a> {
        Place {
            buffer: Some(buffer),
            raw: tables::Place {
                buffer: 0,
                host: std::ptr::null_mut(),
                offset,
                pitch: 0,
            },
        }
    }

    /// Host memory.
    ///
    /// # Safety
    /// The bytes that a copy with this end reaches stay valid and untouched until the stream has passed the copy. A graph takes
    /// no such copy.
    pub const unsafe fn host(ptr: *mut u8) -> Place<'a> {
        Place {
            buffer: None,
            raw: tables::Place {
                buffer: 0,
                host: ptr.cast(),
                offset: 0,
                pitch: 0,
            },
        }
    }

    /// Bytes from one row to the next, for copies of several rows.
    #[must_use]
    pub const fn pitch(mut self, bytes: u64) -> Place<'a> {
        self.raw.pitch = bytes;
        self
    }

    /// The ABI form. Devices of one backend may copy to each other.
    fn lower(&self, device: &Device, index: usize, tag: &Tag<'_>) -> Result<tables::Place> {
        let Some(buffer) = self.buffer else {
            return Ok(self.raw);
        };
        let other = buffer.device();
        if other != device && other.backend() != device.backend() {
            return Err(foreign(device, buffer, index, tag));
        }
        Ok(tables::Place {
            buffer: buffer.handle(),
            ..self.raw
        })
    }
}

/// A copy of rows of bytes; the ends must not overlap.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    dst: Place<'a>,
    src: Place<'a>,
    width: u64,
    rows: u64,
    tag: Tag<'a>,
}

impl<'a> Copy<'a> {
    /// A copy of `bytes` bytes.
    #[track_caller]
    pub fn new(dst: Place<'a>, src: Place<'a>, bytes: u64) -> Copy<'a> {
        Copy::tagged(dst, src, bytes, Tag::new("copy"))
    }

    /// A copy of `bytes` bytes for an op.
    pub const fn tagged(dst: Place<'a>, src: Place<'a>, bytes: u64, tag: Tag<'a>) -> Copy<'a> {
        Copy {
            dst,
            src,
            width: bytes,
            rows: 1,
            tag,
        }
    }

    /// Makes it `rows` rows, each as wide as the bytes that were given, [`Place::pitch`] apart.
    #[must_use]
    pub const fn rows(mut self, rows: u64) -> Copy<'a> {
        self.rows = rows;
        self
    }

    pub(super) fn get_tag(&self) -> &Tag<'a> {
        &self.tag
    }

    pub(super) fn lower(&self, device: &Device) -> Result<tables::Copy> {
        Ok(tables::Copy {
            dst: self.dst.lower(device, 0, &self.tag)?,
            src: self.src.lower(device, 1, &self.tag)?,
            width: self.width,
            rows: self.rows,
        })
    }
}

/// Fills a range of a buffer with one element.
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    buffer: &'a Buffer,
    offset: u64,
    bytes: u64,
    pattern: u64,
    pattern_bytes: u32,
    tag: Tag<'a>,
}

impl<'a> Fill<'a> {
    /// Fills the whole buffer with `value`.
    #[track_caller]
    pub fn new<T: Element>(buffer: &'a Buffer, value: T) -> Fill<'a> {
        Fill {
            buffer,
            offset: 0,
            bytes: buffer.size(),
            pattern: value.bits(),
            pattern_bytes: size_of::<T>() as u32,
            tag: Tag::new("fill"),
        }
    }

    /// Fills `bytes` bytes from `offset` on, both multiples of the element size.
    #[must_use]
    pub const fn range(mut self, offset: u64, bytes: u64) -> Fill<'a> {
        (self.offset, self.bytes) = (offset, bytes);
        self
    }

    /// Where the fill comes from.
    #[must_use]
    pub const fn tag(mut self, tag: Tag<'a>) -> Fill<'a> {
        self.tag = tag;
        self
    }

    pub(super) fn get_tag(&self) -> &Tag<'a> {
        &self.tag
    }

    pub(super) fn lower(&self, device: &Device) -> Result<tables::Fill> {
        if self.buffer.device() != device {
            return Err(foreign(device, self.buffer, 0, &self.tag));
        }
        Ok(tables::Fill {
            buffer: self.buffer.handle(),
            offset: self.offset,
            bytes: self.bytes,
            pattern: self.pattern,
            pattern_bytes: self.pattern_bytes,
            reserved: 0,
        })
    }
}

/// One piece of work, for batches and graphs.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// Run a kernel.
    Launch(Launch<'a>),
    /// Copy memory.
    Copy(Copy<'a>),
    /// Fill memory.
    Fill(Fill<'a>),
}

macro_rules! packets {
    ($($kind:ident),*) => {
        $(impl<'a> From<$kind<'a>> for Packet<'a> {
            fn from(work: $kind<'a>) -> Packet<'a> { Packet::$kind(work) }
        })*

        impl<'a> Packet<'a> {
            /// Where it comes from.
            pub fn tag(&self) -> &Tag<'a> {
                match self { $(Packet::$kind(work) => work.get_tag()),* }
            }
        }
    };
}

packets!(Launch, Copy, Fill);
