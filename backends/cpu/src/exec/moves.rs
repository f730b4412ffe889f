//! Strided elements into blocks and back.

use super::launch::STREAM;
use super::past::stream_sheet;
use super::space::{MAX_AXES, Space};
use super::strided::{self, Lines};
use super::transpose::transpose;
use crate::isa::Isa;
use crate::prefetch::ask;

macro_rules! sized {
    ($size:expr, $go:ident($($arg:expr),*)) => {
        match $size {
            1 => $go::<u8>($($arg),*),
            2 => $go::<u16>($($arg),*),
            4 => $go::<u32>($($arg),*),
            _ => $go::<u64>($($arg),*),
        }
    };
}

/// The positions of a block.
pub(super) struct Shape<'a> {
    pub(super) isa: Isa,
    pub(super) space: &'a Space,
    /// Multi-index of the first.
    pub(super) start: &'a [u64; MAX_AXES],
    pub(super) n: usize,
    /// An axis, rows along it and columns along the last axis; otherwise the positions are neighbours in row-major
    /// order.
    pub(super) tile: Option<(usize, usize, usize)>,
}

impl Shape<'_> {
    /// Calls `run(first, length, offset)` for each stretch along the last axis; `offset` is the parameter's, in elements,
    /// relative to the first position.
    pub(super) fn stretches(&self, param: usize, mut run: impl FnMut(usize, usize, i64)) {
        self.sheets(param, |first, lines, offset| {
            for line in 0..lines.count {
                let step = lines.step as i64 * line as i64;
                run(
                    first + line * lines.length,
                    lines.length,
                    offset.wrapping_add(step),
                );
            }
        });
    }

    /// Calls `run(first, lines, offset)` for stretches along the last axis, neighbours of one length together; otherwise as
    /// [`Shape::stretches`].
    pub(super) fn sheets(&self, param: usize, mut run: impl FnMut(usize, Lines, i64)) {
        let space = self.space;
        let last = space.rank - 1;
        let strides = space.of(param);
        let stride = strides[last] as isize;
        let lines = |count: usize, length: usize, step: i64| Lines {
            count,
            length,
            stride,
            step: step as isize,
        };
        if let Some((axis, rows, columns)) = self.tile {
            return run(0, lines(rows, columns, strides[axis]), 0);
        }
        if space.rank == 1 {
            return run(0, lines(1, self.n, 0), 0);
        }
        let mut index = *self.start;
        let (mut done, mut offset) = (0usize, 0i64);
        let whole = space.extents[last] as usize;
        while done < self.n {
            let rest = self.n - done;
            let length = (whole - index[last] as usize).min(rest);
            // Whole lines up to the end of the axis before the last go together.
            let room = (space.extents[last - 1] - index[last - 1]) as usize;
            let count = if length == whole {
                room.min(rest / whole).max(1)
            } else {
                1
            };
            run(done, lines(count, length, strides[last - 1]), offset);
            done += count * length;
            // To the start of the next line.
            offset = offset
                .wrapping_sub(strides[last].wrapping_mul(index[last] as i64))
                .wrapping_add(strides[last - 1].wrapping_mul(count as i64));
            index[last] = 0;
            index[last - 1] += count as u64;
            for axis in (1..last).rev() {
                if index[axis] < space.extents[axis] {
                    break;
                }
                offset = offset
                    .wrapping_sub(strides[axis].wrapping_mul(space.extents[axis] as i64))
                    .wrapping_add(strides[axis - 1]);
                index[axis] = 0;
                index[axis - 1] += 1;
            }
        }
    }

    /// Gathers the block.
    ///
    /// # Safety
    /// `from` is the parameter's element at the first position; all elements are readable and `to` holds `n`.
    pub(super) unsafe fn gather(&self, size: usize, to: *mut u8, from: *const u8, param: usize) {
        let stride = self.space.of(param)[self.space.rank - 1];
        if let Some((axis, rows, columns)) = self.tile
            && self.space.of(param)[axis] == 1
            && stride != 1
        {
            if self.space.total.saturating_mul(size as u64) >= STREAM {
                for column in 0..columns {
                    // The next tile lies behind this one.
                    let at = (column as isize * stride as isize + rows as isize) * size as isize;
                    ask(from.wrapping_offset(at), rows * size);
                }
            }
            // SAFETY: a tile of rows and columns.
            return unsafe {
                transpose(
                    size,
                    (to, columns as isize),
                    (from, stride as isize),
                    rows,
                    columns,
                )
            };
        }
        self.sheets(param, |first, lines, offset| {
            // SAFETY: the lines lie within the block and the parameter.
            unsafe {
                let from = from.offset(offset as isize * size as isize);
                sized!(size, load_lines(self.isa, to.add(first * size), from, lines));
            }
        });
    }

    /// Scatters the block; `past_caches` where its stretches are contiguous.
    ///
    /// # Safety
    /// As [`Shape::gather`], with the roles changed.
    pub(super) unsafe fn scatter(
        &self,
        size: usize,
        to: *mut u8,
        from: *const u8,
        param: usize,
        past_caches: bool,
    ) {
        let stride = self.space.of(param)[self.space.rank - 1];
        self.sheets(param, |first, lines, offset| {
            // SAFETY: the lines lie within the block and the parameter.
            unsafe {
                let to = to.offset(offset as isize * size as isize);
                let from = from.add(first * size);
                if past_caches && stride == 1 {
                    let step = lines.step * size as isize;
                    stream_sheet(self.isa, (to, step), from, lines.length * size, lines.count);
                } else {
                    sized!(size, store_lines(self.isa, to, from, lines));
                }
            }
        });
    }
}

unsafe fn load_lines<T: Copy>(isa: Isa, to: *mut u8, from: *const u8, lines: Lines) {
    // SAFETY: the caller vouches for the lines on both sides.
    unsafe {
        if lines.stride == 0 && lines.step == 0 {
            return load_line::<T>(to, from, 0, lines.count * lines.length);
        }
        // A long line that has no gaps is the C library's.
        let long = lines.stride == 1 && lines.length > 64;
        if size_of::<T>() == 4 && !long && strided::load(isa, to.cast(), from.cast(), lines) {
            return;
        }
        if size_of::<T>() == 4 && lines.stride == 0 && strided::repeated(isa, to.cast(), from.cast(), lines) {
            return;
        }
        if size_of::<T>() == 4 && lines.stride == -1 && strided::backwards(isa, to.cast(), from.cast(), lines)
        {
            return;
        }
        for line in 0..lines.count {
            let to = to.cast::<T>().add(line * lines.length);
            let from = from.cast::<T>().offset(line as isize * lines.step);
            if lines.stride == 2 && strided::every_second(to, from, lines.length) {
                continue;
            }
            load_line::<T>(to.cast(), from.cast(), lines.stride as i64, lines.length);
        }
    }
}

unsafe fn store_lines<T: Copy>(isa: Isa, to: *mut u8, from: *const u8, lines: Lines) {
    // SAFETY: the caller vouches for the lines on both sides.
    unsafe {
        let long = lines.stride == 1 && lines.length > 64;
        if size_of::<T>() == 4 && !long && strided::store(isa, to.cast(), from.cast(), lines) {
            return;
        }
        for line in 0..lines.count {
            let to = to.cast::<T>().offset(line as isize * lines.step);
            let from = from.cast::<T>().add(line * lines.length);
            store_line::<T>(to.cast(), from.cast(), lines.stride as i64, lines.length);
        }
    }
}

unsafe fn load_line<T: Copy>(to: *mut u8, from: *const u8, stride: i64, n: usize) {
    let (to, from, stride) = (to.cast::<T>(), from.cast::<T>(), stride as isize);
    // SAFETY: the caller vouches for n elements on both sides.
    unsafe {
        match stride {
            1 => to.copy_from_nonoverlapping(from, n),
            0 => {
                let value = *from;
                (0..n).for_each(|i| *to.add(i) = value);
            }
            -1 if n > 0 => {
                let to = std::slice::from_raw_parts_mut(to, n);
                let from = std::slice::from_raw_parts(from.sub(n - 1), n);
                (to.iter_mut().zip(from.iter().rev())).for_each(|(to, from)| *to = *from);
            }
            _ => (0..n).for_each(|i| *to.add(i) = *from.offset(i as isize * stride)),
        }
    }
}

unsafe fn store_line<T: Copy>(to: *mut u8, from: *const u8, stride: i64, n: usize) {
    let (to, from, stride) = (to.cast::<T>(), from.cast::<T>(), stride as isize);
    // SAFETY: the caller vouches for n elements on both sides.
    unsafe {
        match stride {
            1 => to.copy_from(from, n),
            _ => (0..n).for_each(|i| *to.offset(i as isize * stride) = *from.add(i)),
        }
    }
}

/// Copies one element.
///
/// # Safety
/// Both sides hold `size` bytes, 1, 2, 4 or 8.
#[inline(always)]
pub(super) unsafe fn copy_one(size: usize, to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => *to = *from,
            2 => to
                .cast::<u16>()
                .write_unaligned(from.cast::<u16>().read_unaligned()),
            4 => to
                .cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => to
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
        }
    }
}

/// A gather by index: element `i` is `from[i * stride + index[i] * gather_stride]`, 0 outside of `0..extent`.
pub(super) struct Lookup {
    pub(super) size: usize,
    pub(super) stride: i64,
    pub(super) gather_stride: i64,
    pub(super) gather_extent: u64,
}

impl Lookup {
    /// Looks `n` elements up; `index` has one value, or one per element.
    ///
    /// # Safety
    /// Every element with an index in range is readable; `to` holds `n`.
    pub(super) unsafe fn run(&self, to: *mut u8, from: *const u8, index: *const i64, single: bool, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { sized!(self.size, lookup_line(self, to, from, index, single, n)) }
    }

    /// The element that an index leads to, if it is in range.
    pub(super) fn offset(&self, index: i64) -> Option<isize> {
        let inside = (index as u64) < self.gather_extent && index >= 0;
        inside.then(|| index.wrapping_mul(self.gather_stride) as isize * self.size as isize)
    }
}

unsafe fn lookup_line<T: Copy + Default>(
    look: &Lookup,
    to: *mut u8,
    from: *const u8,
    index: *const i64,
    single: bool,
    n: usize,
) {
    let to = to.cast::<T>();
    // SAFETY: the caller's promise; indices are checked before memory is touched.
    unsafe {
        let first = *index;
        if single || same(index, n) {
            match look.offset(first) {
                Some(offset) => load_line::<T>(to.cast(), from.offset(offset), look.stride, n),
                None => (0..n).for_each(|i| *to.add(i) = T::default()),
            }
            return;
        }
        let (from, extent) = (from.cast::<T>(), look.gather_extent.min(i64::MAX as u64));
        let (step, stride) = (look.gather_stride as isize, look.stride as isize);
        // Steps of one or none are common, and cost a multiplication less.
        match (step, stride) {
            (1, 0) => lookups(to, n, index, extent, |at, _| *from.add(at)),
            (1, 1) => lookups(to, n, index, extent, |at, i| *from.add(at).add(i)),
            (_, 1) => lookups(to, n, index, extent, |at, i| {
                *from.wrapping_offset((at as isize).wrapping_mul(step)).add(i)
            }),
            _ => lookups(to, n, index, extent, |at, i| {
                let at = (at as isize).wrapping_mul(step);
                *from.wrapping_offset(at.wrapping_add(i as isize * stride))
            }),
        }
    }
}

/// Whether `n` indices are equal.
///
/// # Safety
/// There are so many, and one at least.
unsafe fn same(index: *const i64, n: usize) -> bool {
    // SAFETY: the caller's promise.
    let index = unsafe { std::slice::from_raw_parts(index, n) };
    // Lists of different indices often begin so; what is left is compared in stretches, because a loop with a way out has no
    // vectors.
    index[n - 1] == index[0]
        && index[n / 2] == index[0]
        && index
            .chunks(64)
            .all(|few| few.iter().fold(0, |all, &i| all | (i ^ index[0])) == 0)
}

/// Element `i` is `read(index[i], i)`, or 0 outside of the extent.
///
/// # Safety
/// `to` and `index` hold `n`; what is read is there for indices of the extent.
#[inline(always)]
unsafe fn lookups<T: Copy + Default>(
    to: *mut T,
    n: usize,
    index: *const i64,
    extent: u64,
    read: impl Fn(usize, usize) -> T,
) {
    /// Indices that are compared at once.
    const SOME: usize = 16;
    let single = |i: usize| {
        // SAFETY: the caller's promise; negative indices are beyond every extent.
        unsafe {
            let at = *index.add(i) as u64;
            *to.add(i) = if at < extent {
                read(at as usize, i)
            } else {
                T::default()
            };
        }
    };
    let last = (extent as i64).wrapping_sub(1);
    let whole = n / SOME * SOME;
    for first in (0..whole).step_by(SOME) {
        // SAFETY: the caller's promise.
        let some = unsafe { index.add(first).cast::<[i64; SOME]>().read_unaligned() };
        // Negative where an index is, or is beyond the last one.
        let outside = some.iter().fold(0, |all, &at| all | at | last.wrapping_sub(at));
        if outside < 0 {
            (first..first + SOME).for_each(single);
            continue;
        }
        for (i, at) in (first..).zip(some) {
            // SAFETY: as above; all indices are in the extent.
            unsafe { *to.add(i) = read(at as usize, i) };
        }
    }
    (whole..n).for_each(single);
}
