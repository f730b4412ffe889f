//! Strided elements into blocks and back.

use super::space::{MAX_AXES, Space};
use super::transpose::transpose;

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
        let space = self.space;
        let last = space.rank - 1;
        let strides = space.of(param);
        if let Some((axis, rows, columns)) = self.tile {
            return (0..rows).for_each(|row| run(row * columns, columns, strides[axis] * row as i64));
        }
        if space.rank == 1 {
            return run(0, self.n, 0);
        }
        let mut index = *self.start;
        let (mut done, mut offset) = (0usize, 0i64);
        while done < self.n {
            let length = ((space.extents[last] - index[last]) as usize).min(self.n - done);
            run(done, length, offset);
            done += length;
            // To the start of the next line.
            offset = offset.wrapping_sub(strides[last].wrapping_mul(index[last] as i64));
            index[last] = 0;
            for axis in (0..last).rev() {
                index[axis] += 1;
                offset = offset.wrapping_add(strides[axis]);
                if index[axis] < space.extents[axis] || axis == 0 {
                    break;
                }
                offset = offset.wrapping_sub(strides[axis].wrapping_mul(space.extents[axis] as i64));
                index[axis] = 0;
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
        self.stretches(param, |first, length, offset| {
            // SAFETY: the stretch lies within the block and the parameter.
            unsafe {
                let from = from.offset(offset as isize * size as isize);
                sized!(size, load_line(to.add(first * size), from, stride, length));
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
        self.stretches(param, |first, length, offset| {
            // SAFETY: the stretch lies within the block and the parameter.
            unsafe {
                let to = to.offset(offset as isize * size as isize);
                let from = from.add(first * size);
                if past_caches && stride == 1 {
                    stream(to, from, length * size);
                } else {
                    sized!(size, store_line(to, from, stride, length));
                }
            }
        });
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
        let same = single || (0..n).all(|i| *index.add(i) == first);
        if same {
            match look.offset(first) {
                Some(offset) => load_line::<T>(to.cast(), from.offset(offset), look.stride, n),
                None => (0..n).for_each(|i| *to.add(i) = T::default()),
            }
            return;
        }
        for i in 0..n {
            let at = *index.add(i);
            *to.add(i) = match look.offset(at) {
                Some(offset) => *from
                    .offset(offset)
                    .cast::<T>()
                    .offset(i as isize * look.stride as isize),
                None => T::default(),
            };
        }
    }
}

/// Writes a block past the caches.
///
/// # Safety
/// Both sides hold `bytes` bytes and do not overlap.
pub(super) unsafe fn stream(to: *mut u8, from: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of the target; whole lines are written at aligned addresses.
    unsafe {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = to.align_offset(64).min(bytes);
        to.copy_from_nonoverlapping(from, head);
        let lines = (bytes - head) / 64;
        for line in 0..lines {
            let at = head + line * 64;
            for part in 0..4 {
                let value = _mm_loadu_si128(from.add(at + part * 16).cast::<__m128i>());
                _mm_stream_si128(to.add(at + part * 16).cast::<__m128i>(), value);
            }
        }
        let done = head + lines * 64;
        to.add(done)
            .copy_from_nonoverlapping(from.add(done), bytes - done);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(from, bytes);
    }
}

/// Orders streamed writes before what follows.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of the target.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
