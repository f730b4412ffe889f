//! From packets with handles of buffers to checked work with references.

use super::objects::{Buffer, Instance, Kernel, Owner};
use crate::backend::{Backend, Bound, Copy, Device, Fill, Launch, Place, Region, Work};
use crate::ir::MAX_PARAMS;
use crate::kit::checks::Slot;
use crate::kit::packet::{self, Kind, Memory, Site};
use crate::status::{Error, Result};
use crate::tables::{self, Binding, Packet};
use arrayvec::ArrayVec;

/// What checked work borrows.
pub(super) struct Room<'a, D: Device> {
    bindings: ArrayVec<Bound<'a, D>, MAX_PARAMS>,
    /// Buffers that the work uses.
    pub(super) buffers: ArrayVec<&'a Buffer<D>, MAX_PARAMS>,
}

impl<D: Device> Room<'_, D> {
    #[inline]
    pub(super) fn new() -> Self {
        Room {
            bindings: ArrayVec::new_const(),
            buffers: ArrayVec::new_const(),
        }
    }
}

impl<D: Device> Buffer<D> {
    /// The buffer from byte `offset` on, which is at most its size.
    #[inline(always)]
    pub(super) fn region(&self, offset: u64) -> Region<'_, D> {
        // SAFETY: a chunk lives as long as its buffers.
        let chunk = unsafe { &*self.chunk };
        Region {
            chunk,
            offset: self.offset + offset,
            bytes: self.bytes() - offset,
        }
    }
}

/// Buffers of a device's work.
struct Buffers<'a, 'r, B: Backend> {
    instance: &'a Instance<B>,
    owner: Owner<B::Device>,
    room: &'r mut Room<'a, B::Device>,
}

impl<'a, B: Backend> Memory<'a> for Buffers<'a, '_, B> {
    type Found = &'a Buffer<B::Device>;

    const HOST: bool = true;

    #[inline(always)]
    fn find(&self, handle: u64) -> Result<(Self::Found, Site)> {
        let buffer = self.instance.buffer(handle)?;
        let site = Site {
            base: buffer.chunk as usize,
            shift: buffer.offset,
            bytes: Some(buffer.bytes()),
            own: buffer.owner.is(self.owner),
            writable: true,
        };
        Ok((buffer, site))
    }

    #[inline(always)]
    fn bind(
        &mut self,
        buffer: Self::Found,
        binding: &Binding,
        strides: &'a [i64],
        _: &Slot,
        _: Option<(u64, u64)>,
    ) -> Result<()> {
        // SAFETY: a signature has at most as many parameters as there is room for, and the room is fresh.
        unsafe {
            self.room.bindings.push_unchecked(Bound {
                region: buffer.region(binding.offset),
                strides,
                gather_stride: binding.gather_stride,
                gather_extent: binding.gather_extent,
            });
            self.room.buffers.push_unchecked(buffer);
        }
        Ok(())
    }
}

impl<B: Backend> Instance<B> {
    /// The kernel of a launch on a device.
    #[inline(always)]
    pub(super) fn kernel_for(
        &self,
        owner: Owner<B::Device>,
        launch: &tables::Launch,
    ) -> Result<&Kernel<B::Device>> {
        let kernel = self.kernel(launch.kernel)?;
        match kernel.owner.is(owner) {
            true => Ok(kernel),
            false => Err(compiled_elsewhere(&kernel.signature.name)),
        }
    }

    /// Checks a packet for a stream of `owner`; `None` when there is nothing to do. `room` is fresh.
    ///
    /// # Safety
    /// The pointers of the packet are null or valid for `'a`.
    pub(super) unsafe fn packet<'a, 'r>(
        &'a self,
        owner: Owner<B::Device>,
        packet: &'a Packet,
        room: &'r mut Room<'a, B::Device>,
    ) -> Result<Option<Work<'r, B::Device>>> {
        // SAFETY: the caller vouches for the pointers.
        match unsafe { Kind::of(packet)? } {
            // SAFETY: as above.
            Kind::Launch(launch) => unsafe { self.launch(owner, launch, room).map(Some) },
            Kind::Copy(copy) => self.copy(owner, copy, room),
            Kind::Fill(fill) => self.fill(owner, fill, room),
        }
    }

    /// Checks a launch. `room` is fresh.
    ///
    /// # Safety
    /// The pointers of the launch are null or valid for `'a`.
    #[inline(always)]
    pub(super) unsafe fn launch<'a, 'r>(
        &'a self,
        owner: Owner<B::Device>,
        launch: &'a tables::Launch,
        room: &'r mut Room<'a, B::Device>,
    ) -> Result<Work<'r, B::Device>> {
        let kernel = self.kernel_for(owner, launch)?;
        let mut memory = Buffers {
            instance: self,
            owner,
            room: &mut *room,
        };
        // SAFETY: the caller vouches for the pointers.
        let checked = unsafe { packet::launch(&kernel.signature, launch, &mut memory)? };
        Ok(Work::Launch(Launch {
            kernel: &kernel.kernel,
            extents: checked.extents,
            bindings: &room.bindings,
            scalars: checked.scalars,
        }))
    }

    fn copy<'a, 'r>(
        &'a self,
        owner: Owner<B::Device>,
        copy: &'a tables::Copy,
        room: &'r mut Room<'a, B::Device>,
    ) -> Result<Option<Work<'r, B::Device>>> {
        let memory = Buffers {
            instance: self,
            owner,
            room: &mut *room,
        };
        let Some([(dst, _), (src, _)]) = packet::copy(copy, &memory)? else {
            return Ok(None);
        };
        let end = |found: Option<&'a Buffer<B::Device>>, place: &tables::Place| match found {
            Some(buffer) => Place::Device(&buffer.owner.get().device, buffer.region(place.offset)),
            None => Place::Host(place.host.cast::<u8>().wrapping_add(place.offset as usize)),
        };
        room.buffers.extend(dst.into_iter().chain(src));
        Ok(Some(Work::Copy(Copy {
            dst: (end(dst, &copy.dst), copy.dst.pitch),
            src: (end(src, &copy.src), copy.src.pitch),
            width: copy.width,
            rows: copy.rows,
        })))
    }

    fn fill<'a, 'r>(
        &'a self,
        owner: Owner<B::Device>,
        fill: &'a tables::Fill,
        room: &'r mut Room<'a, B::Device>,
    ) -> Result<Option<Work<'r, B::Device>>> {
        let memory = Buffers {
            instance: self,
            owner,
            room: &mut *room,
        };
        let Some((buffer, pattern)) = packet::fill(fill, &memory)? else {
            return Ok(None);
        };
        room.buffers.push(buffer);
        Ok(Some(Work::Fill(Fill {
            region: Region {
                bytes: fill.bytes,
                ..buffer.region(fill.offset)
            },
            pattern,
            pattern_bytes: fill.pattern_bytes,
        })))
    }
}

#[cold]
fn compiled_elsewhere(name: &str) -> Error {
    Error::invalid_handle(format!("{name}: the kernel was compiled for another device"))
}
