//! Whether the addresses of a launch lie in their buffers, and whether outputs keep clear of everything else.

use crate::dtype::DType;
use crate::ir::{Access, Kernel, Level, MAX_RANK, Node, Role};
use crate::status::{Error, Result};
use crate::tables::Fill;

/// What a launch must know of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Element type.
    pub dtype: DType,
    /// Direction.
    pub role: Role,
    /// Axes that its strides cover.
    pub level: Level,
    /// Promise about its strides.
    pub access: Access,
    /// Whether a plain load or store reaches it.
    pub direct: bool,
    /// Whether a gather reaches it.
    pub gathers: bool,
}

/// What a launch must match.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Name of the kernel, for messages.
    pub name: String,
    /// Outer axes.
    pub outer: usize,
    /// Inner axes.
    pub inner: usize,
    /// Parameters in order.
    pub slots: Vec<Slot>,
    /// Dtypes of the scalars in order.
    pub scalars: Vec<DType>,
}

impl Signature {
    /// The signature of a verified kernel.
    pub fn of(kernel: &Kernel) -> Signature {
        let touches = |index: usize, gather: bool| {
            kernel.nodes.iter().any(|node| match *node {
                Node::LoadAt { param, .. } => gather && param as usize == index,
                Node::Load { param } | Node::Store { param, .. } => !gather && param as usize == index,
                _ => false,
            })
        };
        let slots = kernel.params.iter().enumerate().map(|(index, param)| Slot {
            dtype: param.dtype,
            role: param.role,
            level: param.level,
            access: param.access,
            direct: touches(index, false),
            gathers: touches(index, true),
        });
        Signature {
            name: kernel.name.clone(),
            outer: kernel.outer as usize,
            inner: kernel.inner as usize,
            slots: slots.collect(),
            scalars: kernel.scalars.clone(),
        }
    }
}

/// The extents of a launch with their products.
#[derive(Clone, Copy, Debug)]
pub struct Extents<'a> {
    all: &'a [u64],
    outer: usize,
    rows: u64,
    elements: u64,
}

/// Where one parameter's elements lie.
#[derive(Clone, Copy, Debug)]
pub struct Footprint<'a> {
    /// Address of the allocation, as a number that tells allocations apart.
    pub base: usize,
    /// Bytes from the allocation's start to the element at index 0.
    pub offset: u64,
    /// Bytes of the allocation from the same start.
    pub bytes: u64,
    /// Strides in elements; empty unless strided.
    pub strides: &'a [i64],
    /// Elements from one gather index to the next.
    pub gather_stride: i64,
    /// Number of valid gather indices.
    pub gather_extent: u64,
}

impl<'a> Extents<'a> {
    /// Checks the number of extents and that the number of points fits in 63 bits.
    #[inline(always)]
    pub fn new(all: &'a [u64], signature: &Signature) -> Result<Extents<'a>> {
        let (outer, inner) = (signature.outer, signature.inner);
        if all.len() != outer + inner {
            return Err(wrong_rank(all, signature));
        }
        let (Some(rows), Some(columns)) = (points(&all[..outer]), points(&all[outer..])) else {
            return Err(too_many_points(all, signature));
        };
        match rows.checked_mul(columns) {
            Some(elements) if elements <= MOST => Ok(Extents {
                all,
                outer,
                rows,
                elements,
            }),
            _ => Err(too_many_points(all, signature)),
        }
    }

    #[inline(always)]
    fn count(&self, level: Level) -> u64 {
        match level {
            Level::Row => self.rows,
            Level::Element => self.elements,
        }
    }

    fn of(&self, level: Level) -> (&'a [u64], u64) {
        match level {
            Level::Row => (&self.all[..self.outer], self.rows),
            Level::Element => (self.all, self.elements),
        }
    }
}

/// Most points of a space.
const MOST: u64 = i64::MAX as u64;

/// The number of points of a space, if it is at most [`MOST`].
#[inline(always)]
fn points(extents: &[u64]) -> Option<u64> {
    let (mut points, mut overflows) = (1_u64, false);
    for &extent in extents {
        let (product, over) = points.overflowing_mul(extent);
        (points, overflows) = (product, overflows | over);
    }
    if overflows {
        return extents.contains(&0).then_some(0);
    }
    (points <= MOST).then_some(points)
}

#[cold]
fn wrong_rank(all: &[u64], signature: &Signature) -> Error {
    Error::invalid_argument(format!(
        "{}: {} extents, the kernel has {} outer and {} inner axes",
        signature.name,
        all.len(),
        signature.outer,
        signature.inner
    ))
}

#[cold]
fn too_many_points(all: &[u64], signature: &Signature) -> Error {
    Error::invalid_argument(format!(
        "{}: extents {all:?} have more than 2^63 points",
        signature.name
    ))
}

/// The largest bits of a value of the dtype, zero-extended.
#[inline]
pub fn most_bits(dtype: DType) -> u64 {
    match dtype {
        DType::Bool => 1,
        _ => u64::MAX >> (64 - 8 * dtype.size()),
    }
}

/// The pattern of a fill, repeated to 8 bytes.
pub fn pattern(fill: &Fill) -> Result<[u8; 8]> {
    let width = u64::from(fill.pattern_bytes);
    if !matches!(width, 1 | 2 | 4 | 8) {
        return Err(Error::invalid_argument(format!(
            "fill: a pattern of {width} bytes; it has 1, 2, 4 or 8"
        )));
    }
    if !fill.offset.is_multiple_of(width) || !fill.bytes.is_multiple_of(width) {
        return Err(Error::invalid_argument(format!(
            "fill: offset {} and length {} are not multiples of the pattern's {width} bytes",
            fill.offset, fill.bytes
        )));
    }
    let bytes = fill.pattern.to_le_bytes();
    Ok(std::array::from_fn(|i| bytes[i % width as usize]))
}

/// Checks that each scalar's bits are a value of its dtype, zero-extended, where they count.
#[inline]
pub fn scalars(signature: &Signature, values: &[u64], counts: impl Fn(usize) -> bool) -> Result<()> {
    for (index, (&bits, &dtype)) in values.iter().zip(&signature.scalars).enumerate() {
        if bits > most_bits(dtype) && counts(index) {
            return Err(Error::invalid_argument(format!(
                "{}: scalar {index} has the bits {bits:#x}, which are no {dtype}",
                signature.name
            )));
        }
    }
    Ok(())
}

/// [`span`] of a contiguous parameter without strides that is as it should be, the case of most launches.
#[inline(always)]
pub fn plain_span(slot: &Slot, extents: &Extents<'_>, offset: u64, bytes: u64) -> Option<(u64, u64)> {
    if slot.access != Access::Contiguous || !slot.direct || slot.gathers {
        return None;
    }
    let (count, size) = (extents.count(slot.level), slot.dtype.size() as u64);
    let end = count.checked_mul(size)?.checked_add(offset)?;
    // Sizes are powers of two.
    (count > 0 && end <= bytes && offset & (size - 1) == 0).then_some((offset, end))
}

/// The bytes that a parameter touches, relative to its allocation; `None` when it touches none.
pub fn span(
    name: &str,
    index: usize,
    slot: &Slot,
    extents: &Extents<'_>,
    place: &Footprint<'_>,
) -> Result<Option<(u64, u64)>> {
    let Some((start, end)) = reach(name, index, slot, extents, place)? else {
        return Ok(None);
    };
    if start < 0 || end > i128::from(place.bytes) {
        return Err(Error::out_of_bounds(format!(
            "{name}: parameter {index} reaches bytes {start}..{end} of a buffer of {} bytes",
            place.bytes
        )));
    }
    Ok(Some((start as u64, end as u64)))
}

/// As [`span`], wherever the allocation ends.
pub fn reach(
    name: &str,
    index: usize,
    slot: &Slot,
    extents: &Extents<'_>,
    place: &Footprint<'_>,
) -> Result<Option<(i128, i128)>> {
    let (axes, count) = extents.of(slot.level);
    let size = slot.dtype.size() as u64;
    let fail = |what: String| {
        Err(Error::invalid_argument(format!(
            "{name}: parameter {index} {what}"
        )))
    };
    let strided = slot.access == Access::Strided;
    if strided == place.strides.is_empty() && !(strided && axes.is_empty()) {
        return fail(if strided {
            "is strided and has no strides".into()
        } else {
            "has strides and is not strided".into()
        });
    }
    if strided && place.strides.len() != axes.len() {
        return fail(format!(
            "has {} strides for {} axes",
            place.strides.len(),
            axes.len()
        ));
    }
    if !place.offset.is_multiple_of(size) {
        return fail(format!(
            "starts at byte {}, not a multiple of its {size}-byte elements",
            place.offset
        ));
    }
    let gathers = slot.gathers && place.gather_extent > 0;
    if count == 0 || !(slot.direct || gathers) {
        return Ok(None);
    }
    let (mut low, mut high) = (0_i128, 0_i128);
    let mut reach = |stride: i64, extent: u64| {
        let last = i128::from(stride) * i128::from(extent - 1);
        (low, high) = (low + last.min(0), high + last.max(0));
    };
    match slot.access {
        Access::Contiguous => reach(1, count),
        Access::Broadcast => {}
        Access::Strided => axes
            .iter()
            .zip(place.strides)
            .for_each(|(&extent, &stride)| reach(stride, extent)),
    }
    if gathers {
        reach(place.gather_stride, place.gather_extent);
    }
    let start = i128::from(place.offset) + low * i128::from(size);
    let end = i128::from(place.offset) + (high + 1) * i128::from(size);
    Ok(Some((start, end)))
}

/// Checks that every output keeps clear of itself and of all other parameters, but for an input at exactly the same place.
/// Judged by byte ranges: interleaved regions count as overlapping.
pub fn overlaps(
    name: &str,
    slots: &[Slot],
    extents: &Extents<'_>,
    places: &[Footprint<'_>],
    spans: &[Option<(u64, u64)>],
) -> Result<()> {
    for (out, slot) in slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.role == Role::Out)
    {
        let Some((start, end)) = spans[out] else { continue };
        if slot.access == Access::Strided && folds(extents.of(slot.level).0, places[out].strides) {
            return Err(Error::overlap(format!(
                "{name}: output {out} with strides {:?} writes an element more than once",
                places[out].strides
            )));
        }
        for other in (0..slots.len()).filter(|&other| other != out) {
            let Some((from, to)) = spans[other] else { continue };
            let apart = places[other].base != places[out].base || to <= start || end <= from;
            if !apart && !same_place(slot, &slots[other], extents, &places[out], &places[other]) {
                return Err(Error::overlap(format!(
                    "{name}: output {out} overlaps parameter {other} and is not exactly the same region; copy one of them"
                )));
            }
        }
    }
    Ok(())
}

/// Whether strides may reach one element from two indices. Sufficient test: sorted by size, each stride steps over all that
/// the smaller ones reach.
fn folds(extents: &[u64], strides: &[i64]) -> bool {
    let mut axes = [(0_u64, 0_u64); MAX_RANK * 2];
    let mut count = 0;
    for (&extent, &stride) in extents.iter().zip(strides).filter(|(extent, _)| **extent > 1) {
        axes[count] = (stride.unsigned_abs(), extent);
        count += 1;
    }
    axes[..count].sort_unstable();
    let mut reach = 0_u128;
    axes[..count].iter().any(|&(stride, extent)| {
        let folds = u128::from(stride) <= reach;
        reach += u128::from(stride) * u128::from(extent - 1);
        folds
    })
}

fn same_place(a: &Slot, b: &Slot, extents: &Extents<'_>, at: &Footprint<'_>, of: &Footprint<'_>) -> bool {
    let axes = extents.of(a.level).0;
    let strides = |slot: &Slot, place: &Footprint<'_>, axis: usize| match slot.access {
        Access::Contiguous => axes[axis + 1..].iter().product::<u64>() as i64,
        Access::Broadcast => 0,
        Access::Strided => place.strides[axis],
    };
    b.role == Role::In
        && !b.gathers
        && a.dtype == b.dtype
        && a.level == b.level
        && at.offset == of.offset
        && (0..axes.len()).all(|axis| axes[axis] == 1 || strides(a, at, axis) == strides(b, of, axis))
}

#[cfg(test)]
mod tests;
