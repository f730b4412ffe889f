//! From packets with handles to checked work with references.

use super::objects::{Buffer, Instance, Kernel, Owner};
use super::{arg, array};
use crate::backend::{Backend, Bound, Copy, Device, Fill, Launch, Place, Region, Work};
use crate::ir::{Access, Level, MAX_PARAMS, Role};
use crate::kit::checks::{self, Extents, Footprint, Signature, Slot, overlaps, plain_span, span};
use crate::status::{Error, Result};
use crate::tables::{self, Packet, PacketKind};
use arrayvec::ArrayVec;

/// Checked work with what it borrows.
pub(super) struct Resolved<'a, D: Device> {
    body: Body<'a, D>,
    bindings: ArrayVec<Bound<'a, D>, MAX_PARAMS>,
    /// Buffers that the work uses.
    pub(super) buffers: ArrayVec<&'a Buffer<D>, MAX_PARAMS>,
}

enum Body<'a, D: Device> {
    // Work without effect: nothing to copy or fill.
    Nothing,
    Launch {
        kernel: &'a Kernel<D>,
        extents: &'a [u64],
        scalars: &'a [u64],
    },
    Copy {
        dst: (End<'a, D>, u64),
        src: (End<'a, D>, u64),
        width: u64,
        rows: u64,
    },
    Fill {
        region: Region<'a, D>,
        pattern: [u8; 8],
        pattern_bytes: u32,
    },
}

enum End<'a, D: Device> {
    Host(*mut u8),
    Device(&'a D, Region<'a, D>),
}

impl<'a, D: Device> End<'a, D> {
    fn place(&self) -> Place<'a, D> {
        match *self {
            End::Host(ptr) => Place::Host(ptr),
            End::Device(device, region) => Place::Device(device, region),
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

impl<'a, D: Device> Resolved<'a, D> {
    /// The work, or `None` when there is nothing to do.
    #[inline]
    pub(super) fn work(&self) -> Option<Work<'_, D>> {
        Some(match &self.body {
            Body::Nothing => return None,
            Body::Launch {
                kernel,
                extents,
                scalars,
            } => Work::Launch(Launch {
                kernel: &kernel.kernel,
                extents,
                bindings: &self.bindings,
                scalars,
            }),
            Body::Copy {
                dst,
                src,
                width,
                rows,
            } => Work::Copy(Copy {
                dst: (dst.0.place(), dst.1),
                src: (src.0.place(), src.1),
                width: *width,
                rows: *rows,
            }),
            Body::Fill {
                region,
                pattern,
                pattern_bytes,
            } => Work::Fill(Fill {
                region: *region,
                pattern: *pattern,
                pattern_bytes: *pattern_bytes,
            }),
        })
    }

    /// The kernel of a launch.
    pub(super) fn kernel(&self) -> Option<&'a Kernel<D>> {
        match self.body {
            Body::Launch { kernel, .. } => Some(kernel),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn new() -> Self {
        Resolved {
            body: Body::Nothing,
            bindings: ArrayVec::new_const(),
            buffers: ArrayVec::new_const(),
        }
    }
}

/// Handles of the buffers that a resolved packet uses.
///
/// # Safety
/// As [`Instance::packet`].
pub(super) unsafe fn handles(packet: &Packet) -> Result<Vec<u64>> {
    // SAFETY: the caller vouches for the pointers.
    let handles = unsafe {
        if packet.kind == PacketKind::Launch as u32 {
            let launch = arg(packet.launch)?;
            array(launch.bindings, launch.binding_count)?
                .iter()
                .map(|binding| binding.buffer)
                .collect()
        } else if packet.kind == PacketKind::Copy as u32 {
            let copy = arg(packet.copy)?;
            vec![copy.dst.buffer, copy.src.buffer]
        } else {
            vec![arg(packet.fill)?.buffer]
        }
    };
    Ok(handles.into_iter().filter(|&handle| handle != 0).collect())
}

/// # Safety
/// As [`Instance::launch`].
#[inline(always)]
unsafe fn strides<'a>(binding: &'a tables::Binding, slot: &Slot, signature: &Signature) -> Result<&'a [i64]> {
    if binding.strides.is_null() {
        return Ok(&[]);
    }
    let axes = match slot.level {
        Level::Row => signature.outer,
        Level::Element => signature.outer + signature.inner,
    };
    // SAFETY: the contract asks for one stride per axis.
    unsafe { array(binding.strides, axes) }
}

#[cold]
fn wrong_counts(signature: &Signature, bindings: usize, scalars: usize) -> Error {
    Error::invalid_argument(format!(
        "{}: {bindings} bindings and {scalars} scalars, the kernel takes {} and {}",
        signature.name,
        signature.slots.len(),
        signature.scalars.len()
    ))
}

#[cold]
fn misplaced<D: Device>(name: &str, index: usize, offset: u64, buffer: &Buffer<D>, owner: Owner<D>) -> Error {
    if !buffer.owner.is(owner) {
        return Error::invalid_handle(format!("{name}: parameter {index} lies on another device"));
    }
    Error::out_of_bounds(format!(
        "{name}: parameter {index} starts at byte {offset} of a buffer of {} bytes",
        buffer.bytes()
    ))
}

#[inline(always)]
fn footprint<'a, D: Device>(
    binding: &tables::Binding,
    buffer: &Buffer<D>,
    strides: &'a [i64],
) -> Footprint<'a> {
    Footprint {
        base: buffer.chunk as usize,
        offset: binding.offset,
        bytes: buffer.bytes(),
        strides,
        gather_stride: binding.gather_stride,
        gather_extent: binding.gather_extent,
    }
}

impl<B: Backend> Instance<B> {
    /// Resolves a packet for a stream or graph of `owner`. `into` is fresh.
    ///
    /// # Safety
    /// The pointers of the packet are null or valid for `'a`.
    pub(super) unsafe fn packet<'a>(
        &'a self,
        owner: Owner<B::Device>,
        packet: &'a Packet,
        into: &mut Resolved<'a, B::Device>,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            if packet.kind == PacketKind::Launch as u32 {
                self.launch(owner, arg(packet.launch)?, into)
            } else if packet.kind == PacketKind::Copy as u32 {
                self.copy(owner, arg(packet.copy)?, into)
            } else if packet.kind == PacketKind::Fill as u32 {
                self.fill(owner, arg(packet.fill)?, into)
            } else {
                Err(Error::invalid_argument(format!(
                    "unknown packet kind {}",
                    packet.kind
                )))
            }
        }
    }

    /// Resolves a launch. `into` is fresh.
    ///
    /// # Safety
    /// The pointers of the launch are null or valid for `'a`.
    #[inline]
    pub(super) unsafe fn launch<'a>(
        &'a self,
        owner: Owner<B::Device>,
        launch: &'a tables::Launch,
        into: &mut Resolved<'a, B::Device>,
    ) -> Result<()> {
        let kernel = self.kernel(launch.kernel)?;
        let signature = &*kernel.signature;
        let name = signature.name.as_str();
        if !kernel.owner.is(owner) {
            return Err(Error::invalid_handle(format!(
                "{name}: the kernel was compiled for another device"
            )));
        }
        // SAFETY: the caller vouches for the arrays.
        let (all, bindings, scalars) = unsafe {
            (
                array(launch.extents, launch.extent_count)?,
                array(launch.bindings, launch.binding_count)?,
                array(launch.scalars, launch.scalar_count)?,
            )
        };
        let extents = Extents::new(all, signature)?;
        if bindings.len() != signature.slots.len() || scalars.len() != signature.scalars.len() {
            return Err(wrong_counts(signature, bindings.len(), scalars.len()));
        }
        checks::scalars(signature, scalars)?;
        // Base, first and last byte of what each parameter touches.
        let mut touched = ArrayVec::<(usize, u64, u64), MAX_PARAMS>::new_const();
        let mut judge = false;
        for (index, (binding, slot)) in bindings.iter().zip(&signature.slots).enumerate() {
            let buffer = self.buffer(binding.buffer)?;
            let bytes = buffer.bytes();
            if !buffer.owner.is(owner) || binding.offset > bytes {
                return Err(misplaced(name, index, binding.offset, buffer, owner));
            }
            let plain = match binding.strides.is_null() {
                true => plain_span(slot, &extents, binding.offset, bytes),
                false => None,
            };
            // SAFETY: the contract asks for one stride per axis.
            let strides = unsafe { strides(binding, slot, signature)? };
            let (start, end) = match plain {
                Some(span) => span,
                None => {
                    span(name, index, slot, &extents, &footprint(binding, buffer, strides))?.unwrap_or((0, 0))
                }
            };
            judge |= slot.role == Role::Out && slot.access == Access::Strided;
            // SAFETY: a signature has at most as many parameters as there is room for, and `into` is fresh.
            unsafe {
                touched.push_unchecked((buffer.chunk as usize, start + buffer.offset, end + buffer.offset));
                into.bindings.push_unchecked(Bound {
                    region: buffer.region(binding.offset),
                    strides,
                    gather_stride: binding.gather_stride,
                    gather_extent: binding.gather_extent,
                });
                into.buffers.push_unchecked(buffer);
            }
        }
        for (out, slot) in signature.slots.iter().enumerate() {
            if slot.role == Role::Out {
                let (base, start, end) = touched[out];
                let meets = |at: &(usize, u64, u64)| at.0 == base && at.1 < end && start < at.2;
                // It meets itself, unless it is empty.
                judge |= touched.iter().filter(|at| meets(at)).count() > 1;
            }
        }
        if judge {
            self.judge_overlaps(signature, &extents, bindings, into)?;
        }
        into.body = Body::Launch {
            kernel,
            extents: all,
            scalars,
        };
        Ok(())
    }

    /// The exact check of outputs, for launches that the quick one does not clear.
    #[cold]
    fn judge_overlaps<'a>(
        &self,
        signature: &Signature,
        extents: &Extents<'_>,
        bindings: &[tables::Binding],
        resolved: &Resolved<'a, B::Device>,
    ) -> Result<()> {
        let name = signature.name.as_str();
        let mut places = Vec::with_capacity(bindings.len());
        let mut spans = Vec::with_capacity(bindings.len());
        for (index, (binding, slot)) in bindings.iter().zip(&signature.slots).enumerate() {
            let (buffer, strides) = (resolved.buffers[index], resolved.bindings[index].strides);
            let place = footprint(binding, buffer, strides);
            // Judged inside the chunk, where two buffers never share bytes.
            let moved = |(start, end)| (start + buffer.offset, end + buffer.offset);
            spans.push(span(name, index, slot, extents, &place)?.map(moved));
            places.push(Footprint {
                offset: place.offset + buffer.offset,
                ..place
            });
        }
        overlaps(name, &signature.slots, extents, &places, &spans)
    }

    unsafe fn copy<'a>(
        &'a self,
        owner: Owner<B::Device>,
        copy: &'a tables::Copy,
        into: &mut Resolved<'a, B::Device>,
    ) -> Result<()> {
        if copy.width == 0 || copy.rows == 0 {
            return Ok(());
        }
        let extent = |pitch: u64| {
            if copy.rows > 1 && pitch < copy.width {
                return Err(Error::invalid_argument(format!(
                    "copy: rows of {} bytes are {pitch} bytes apart",
                    copy.width
                )));
            }
            (copy.rows - 1)
                .checked_mul(if copy.rows > 1 { pitch } else { 0 })
                .and_then(|n| n.checked_add(copy.width))
                .filter(|&n| n <= i64::MAX as u64)
                .ok_or_else(|| Error::invalid_argument("copy: more than 2^63 bytes"))
        };
        let mut own = false;
        let mut end = |place: &tables::Place, which: &str| {
            let reach = extent(place.pitch)?;
            if place.buffer == 0 {
                if place.host.is_null() {
                    return Err(Error::invalid_argument(format!(
                        "copy: the {which} is neither a buffer nor host memory"
                    )));
                }
                let ptr = place.host.cast::<u8>().wrapping_add(place.offset as usize);
                return Ok((End::Host(ptr), None));
            }
            let buffer = self.buffer(place.buffer)?;
            let last = place.offset.checked_add(reach);
            if last.is_none_or(|last| last > buffer.bytes()) {
                return Err(Error::out_of_bounds(format!(
                    "copy: the {which} reaches bytes {}..{} of a buffer of {} bytes",
                    place.offset,
                    last.unwrap_or(u64::MAX),
                    buffer.bytes()
                )));
            }
            own |= buffer.owner.is(owner);
            into.buffers.push(buffer);
            let start = buffer.offset + place.offset;
            let region = buffer.region(place.offset);
            Ok((
                End::Device(&buffer.owner.get().device, region),
                Some((buffer.chunk as usize, start, start + reach)),
            ))
        };
        let (dst, to) = end(&copy.dst, "destination")?;
        let (src, from) = end(&copy.src, "source")?;
        match (to, from) {
            (None, None) => return Err(Error::invalid_argument("copy: neither end is a buffer")),
            (Some(to), Some(from)) if to.0 == from.0 && to.1 < from.2 && from.1 < to.2 => {
                return Err(Error::overlap("copy: source and destination overlap"));
            }
            _ if !own => return Err(Error::invalid_handle("copy: no end lies on the stream's device")),
            _ => {}
        }
        into.body = Body::Copy {
            dst: (dst, copy.dst.pitch),
            src: (src, copy.src.pitch),
            width: copy.width,
            rows: copy.rows,
        };
        Ok(())
    }

    unsafe fn fill<'a>(
        &'a self,
        owner: Owner<B::Device>,
        fill: &'a tables::Fill,
        into: &mut Resolved<'a, B::Device>,
    ) -> Result<()> {
        let pattern = checks::pattern(fill)?;
        let buffer = self.buffer(fill.buffer)?;
        if !buffer.owner.is(owner) {
            return Err(Error::invalid_handle("fill: the buffer lies on another device"));
        }
        if fill
            .offset
            .checked_add(fill.bytes)
            .is_none_or(|end| end > buffer.bytes())
        {
            return Err(Error::out_of_bounds(format!(
                "fill: {} bytes at {} of a buffer of {} bytes",
                fill.bytes,
                fill.offset,
                buffer.bytes()
            )));
        }
        if fill.bytes == 0 {
            return Ok(());
        }
        let region = Region {
            bytes: fill.bytes,
            ..buffer.region(fill.offset)
        };
        into.body = Body::Fill {
            region,
            pattern,
            pattern_bytes: fill.pattern_bytes,
        };
        into.buffers.push(buffer);
        Ok(())
    }
}
