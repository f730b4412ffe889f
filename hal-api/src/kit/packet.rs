//! The checks of one packet, for work of a stream, whose bindings name buffers, and for a program, where they name slots.

mod slots;

pub use slots::{Reach, Slots};

use super::args::{arg, array};
use super::checks::{self, Extents, Footprint, Signature, Slot, overlaps, plain_span, reach, span};
use crate::ir::{Access, Level, MAX_PARAMS, Role};
use crate::status::{Error, Result};
use crate::tables::{self, Binding};
use arrayvec::ArrayVec;

/// What a handle of a packet leads to.
pub struct Site {
    /// A number that tells allocations apart.
    pub base: usize,
    /// Byte of the allocation that offset 0 is.
    pub shift: u64,
    /// Bytes from there on; `None` where that is not known yet, nor what stands before.
    pub bytes: Option<u64>,
    /// Whether it lies on the device that the work is for.
    pub own: bool,
    /// Whether it may be written.
    pub writable: bool,
}

/// The [`Site::shift`] of memory whose ends are not known: what is reached before offset 0 has a number too.
pub const ORIGIN: u64 = 1 << 62;

/// The memory that packets name.
pub trait Memory<'a> {
    /// What a handle is looked up to.
    type Found: std::marker::Copy;

    /// Whether copies may have an end in host memory.
    const HOST: bool;

    /// Looks a handle up.
    ///
    /// # Errors
    /// A handle that leads nowhere.
    fn find(&self, handle: u64) -> Result<(Self::Found, Site)>;

    /// Takes a checked parameter of a launch, and the bytes of its allocation that it touches.
    ///
    /// # Errors
    /// What the memory refuses.
    fn bind(
        &mut self,
        found: Self::Found,
        binding: &Binding,
        strides: &'a [i64],
        slot: &Slot,
        span: Option<(u64, u64)>,
    ) -> Result<()>;

    /// Whether the packet's own bits of a scalar count.
    fn counts(&self, scalar: usize) -> bool {
        let _ = scalar;
        true
    }
}

/// The arrays of a launch whose parameters a [`Memory`] has taken.
pub struct Checked<'a> {
    /// Outer extents, then inner ones.
    pub extents: &'a [u64],
    /// Bits of the scalar arguments.
    pub scalars: &'a [u64],
}

/// Checks a launch of a kernel with this signature.
///
/// # Errors
/// `InvalidArgument`, `InvalidHandle`, `OutOfBounds` or `Overlap`, and those of [`Memory::find`].
///
/// # Safety
/// The pointers of the launch are null or valid for `'a`.
#[inline(always)]
pub unsafe fn launch<'a, M: Memory<'a>>(
    signature: &Signature,
    launch: &'a tables::Launch,
    memory: &mut M,
) -> Result<Checked<'a>> {
    let name = signature.name.as_str();
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
    checks::scalars(signature, scalars, |scalar| memory.counts(scalar))?;
    // Base, first and last byte of what each parameter touches.
    let mut touched = ArrayVec::<(usize, u64, u64), MAX_PARAMS>::new_const();
    let mut judge = false;
    for (index, (binding, slot)) in bindings.iter().zip(&signature.slots).enumerate() {
        let (found, site) = memory.find(binding.buffer)?;
        let out = slot.role == Role::Out;
        if !site.own || (out && !site.writable) || site.bytes.is_some_and(|bytes| binding.offset > bytes) {
            return Err(misplaced(name, index, binding.offset, &site));
        }
        // SAFETY: the contract asks for one stride per axis.
        let strides = unsafe { strides(binding, slot, signature)? };
        let plain = match site.bytes {
            Some(bytes) if binding.strides.is_null() => plain_span(slot, &extents, binding.offset, bytes),
            _ => None,
        };
        let span = match plain {
            Some((start, end)) => Some((start + site.shift, end + site.shift)),
            None => any_span(name, index, slot, &extents, binding, strides, &site)?,
        };
        judge |= out && slot.access == Access::Strided;
        let (start, end) = span.unwrap_or((0, 0));
        // SAFETY: a signature has at most as many parameters as there is room for.
        unsafe { touched.push_unchecked((site.base, start, end)) };
        memory.bind(found, binding, strides, slot, span)?;
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
        // SAFETY: as above.
        unsafe { judge_overlaps(signature, &extents, bindings, memory)? };
    }
    Ok(Checked {
        extents: all,
        scalars,
    })
}

/// The bytes of its allocation that a parameter touches.
fn any_span(
    name: &str,
    index: usize,
    slot: &Slot,
    extents: &Extents<'_>,
    binding: &Binding,
    strides: &[i64],
    site: &Site,
) -> Result<Option<(u64, u64)>> {
    let place = footprint(binding, strides, site);
    match site.bytes {
        Some(_) => {
            let span = span(name, index, slot, extents, &place)?;
            Ok(span.map(|(start, end)| (start + site.shift, end + site.shift)))
        }
        None => match reach(name, index, slot, extents, &place)? {
            Some((start, end)) => Ok(Some(placed(site, start, end)?)),
            None => Ok(None),
        },
    }
}

/// Bytes of memory whose ends are not known.
fn placed(site: &Site, start: i128, end: i128) -> Result<(u64, u64)> {
    const MOST: i128 = 1 << 62;
    if start < -MOST || end > MOST {
        return Err(Error::out_of_bounds("a program reaches more than 2^62 bytes"));
    }
    let shift = i128::from(site.shift);
    Ok(((start + shift) as u64, (end + shift) as u64))
}

fn footprint<'a>(binding: &Binding, strides: &'a [i64], site: &Site) -> Footprint<'a> {
    Footprint {
        base: site.base,
        offset: binding.offset,
        bytes: site.bytes.unwrap_or(u64::MAX),
        strides,
        gather_stride: binding.gather_stride,
        gather_extent: binding.gather_extent,
    }
}

/// The exact check of outputs, for launches that the quick one does not clear.
///
/// # Safety
/// As [`launch`].
#[cold]
unsafe fn judge_overlaps<'a, M: Memory<'a>>(
    signature: &Signature,
    extents: &Extents<'_>,
    bindings: &[Binding],
    memory: &M,
) -> Result<()> {
    let name = signature.name.as_str();
    let mut places = Vec::with_capacity(bindings.len());
    let mut spans = Vec::with_capacity(bindings.len());
    for (index, (binding, slot)) in bindings.iter().zip(&signature.slots).enumerate() {
        let (_, site) = memory.find(binding.buffer)?;
        // SAFETY: the caller vouches for the strides.
        let strides = unsafe { strides(binding, slot, signature)? };
        spans.push(any_span(name, index, slot, extents, binding, strides, &site)?);
        let place = footprint(binding, strides, &site);
        // Judged inside the allocation, where two buffers never share bytes.
        places.push(Footprint {
            offset: place.offset.wrapping_add(site.shift),
            ..place
        });
    }
    overlaps(name, &signature.slots, extents, &places, &spans)
}

/// # Safety
/// The strides are null or one for each axis of the parameter's level.
#[inline(always)]
unsafe fn strides<'a>(binding: &Binding, slot: &Slot, signature: &Signature) -> Result<&'a [i64]> {
    if binding.strides.is_null() {
        return Ok(&[]);
    }
    let axes = match slot.level {
        Level::Row => signature.outer,
        Level::Element => signature.outer + signature.inner,
    };
    // SAFETY: the caller vouches for them.
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
fn misplaced(name: &str, index: usize, offset: u64, site: &Site) -> Error {
    if !site.own {
        return Error::invalid_handle(format!("{name}: parameter {index} lies on another device"));
    }
    match site.bytes {
        Some(bytes) if offset > bytes => Error::out_of_bounds(format!(
            "{name}: parameter {index} starts at byte {offset} of a buffer of {bytes} bytes"
        )),
        _ => Error::invalid_argument(format!(
            "{name}: parameter {index} is an input of the program, which writes none"
        )),
    }
}

/// Checks a fill: what it fills and the pattern, repeated to 8 bytes; `None` where there is nothing to do.
///
/// # Errors
/// `InvalidArgument`, `InvalidHandle` or `OutOfBounds`.
pub fn fill<'a, M: Memory<'a>>(fill: &tables::Fill, memory: &M) -> Result<Option<(M::Found, [u8; 8])>> {
    let pattern = checks::pattern(fill)?;
    let (found, site) = memory.find(fill.buffer)?;
    if !site.own {
        return Err(Error::invalid_handle("fill: the buffer lies on another device"));
    }
    if !site.writable {
        return Err(Error::invalid_argument("fill: a program writes no input"));
    }
    let within = |end: u64| end <= site.bytes.unwrap_or(ORIGIN);
    if !fill.offset.checked_add(fill.bytes).is_some_and(within) {
        return Err(Error::out_of_bounds(format!(
            "fill: {} bytes at {} of a buffer of {} bytes",
            fill.bytes,
            fill.offset,
            site.bytes.unwrap_or(ORIGIN)
        )));
    }
    Ok((fill.bytes > 0).then_some((found, pattern)))
}

/// The ends of a copy, destination first: the memory, unless it is the host's, and how many bytes of it are reached.
pub type Ends<F> = [(Option<F>, u64); 2];

/// Checks a copy; `None` where there is nothing to do.
///
/// # Errors
/// `InvalidArgument`, `InvalidHandle`, `OutOfBounds` or `Overlap`.
pub fn copy<'a, M: Memory<'a>>(copy: &tables::Copy, memory: &M) -> Result<Option<Ends<M::Found>>> {
    if copy.width == 0 || copy.rows == 0 {
        return Ok(None);
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
    let mut end = |place: &tables::Place, which: &str, written: bool| {
        let reach = extent(place.pitch)?;
        if place.buffer == 0 {
            return match (M::HOST, place.host.is_null()) {
                (true, false) => Ok((None, reach, None)),
                (true, true) => Err(Error::invalid_argument(format!(
                    "copy: the {which} is neither a buffer nor host memory"
                ))),
                (false, _) => Err(Error::invalid_argument(format!(
                    "copy: the {which} is no slot; a program copies from slot to slot"
                ))),
            };
        }
        let (found, site) = memory.find(place.buffer)?;
        let last = place.offset.checked_add(reach);
        let most = site.bytes.unwrap_or(ORIGIN);
        if last.is_none_or(|last| last > most) {
            return Err(Error::out_of_bounds(format!(
                "copy: the {which} reaches bytes {}..{} of a buffer of {most} bytes",
                place.offset,
                last.unwrap_or(u64::MAX)
            )));
        }
        if written && !site.writable {
            return Err(Error::invalid_argument("copy: a program writes no input"));
        }
        own |= site.own;
        let start = site.shift + place.offset;
        Ok((Some(found), reach, Some((site.base, start, start + reach))))
    };
    let (dst, to_reach, to) = end(&copy.dst, "destination", true)?;
    let (src, from_reach, from) = end(&copy.src, "source", false)?;
    match (to, from) {
        (None, None) => return Err(Error::invalid_argument("copy: neither end is a buffer")),
        (Some(to), Some(from)) if to.0 == from.0 && to.1 < from.2 && from.1 < to.2 => {
            return Err(Error::overlap("copy: source and destination overlap"));
        }
        _ if !own => return Err(Error::invalid_handle("copy: no end lies on the stream's device")),
        _ => {}
    }
    Ok(Some([(dst, to_reach), (src, from_reach)]))
}

/// What a packet of a kind that nobody knows gets.
#[cold]
fn unknown(kind: u32) -> Error {
    Error::invalid_argument(format!("unknown packet kind {kind}"))
}

/// Borrows the work of a packet.
pub enum Kind<'a> {
    /// A launch of a kernel.
    Launch(&'a tables::Launch),
    /// A copy.
    Copy(&'a tables::Copy),
    /// A fill.
    Fill(&'a tables::Fill),
}

impl<'a> Kind<'a> {
    /// The work of a packet.
    ///
    /// # Errors
    /// `InvalidArgument` for a kind that is not known and for a pointer that is null or not aligned.
    ///
    /// # Safety
    /// The pointers of the packet are null or valid for `'a`.
    #[inline(always)]
    pub unsafe fn of(packet: &'a tables::Packet) -> Result<Kind<'a>> {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            Ok(match packet.kind {
                kind if kind == tables::PacketKind::Launch as u32 => Kind::Launch(arg(packet.launch)?),
                kind if kind == tables::PacketKind::Copy as u32 => Kind::Copy(arg(packet.copy)?),
                kind if kind == tables::PacketKind::Fill as u32 => Kind::Fill(arg(packet.fill)?),
                kind => return Err(unknown(kind)),
            })
        }
    }
}
