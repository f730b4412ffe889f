//! Where the elements of a tensor lie in its buffer, and the views that need no copy.

use super::shape::{Axes, MAX_RANK, Shape};

/// Shape, strides in elements and the place of the element at index 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Extents.
    pub shape: Shape,
    strides: [i64; MAX_RANK],
    /// Elements before the one at index 0.
    pub offset: u64,
}

impl Layout {
    /// Row-major without gaps.
    pub fn contiguous(shape: Shape) -> Layout {
        let mut strides = [0; MAX_RANK];
        let mut step = 1_i64;
        for axis in (0..shape.len()).rev() {
            strides[axis] = step;
            step *= shape[axis].max(1) as i64;
        }
        Layout {
            shape,
            strides,
            offset: 0,
        }
    }

    /// The layout of `strides` from element `offset` on.
    pub fn strided(shape: Shape, strides: &[i64], offset: u64) -> Layout {
        let mut all = [0; MAX_RANK];
        all[..shape.len()].copy_from_slice(strides);
        Layout {
            shape,
            strides: all,
            offset,
        }
    }

    /// Elements from one index to the next, per axis.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.shape.len()]
    }

    /// Whether shape and strides are the same.
    #[inline]
    pub(crate) fn is_like(&self, other: &Layout) -> bool {
        let mut strides = self.strides().iter().zip(other.strides());
        self.shape.is_like(&other.shape) && strides.all(|(one, other)| one == other)
    }

    /// The same layout from the first element of the buffer on.
    pub fn at_start(&self) -> Layout {
        Layout { offset: 0, ..*self }
    }

    /// Whether the elements lie row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1_i64;
        for axis in (0..self.shape.len()).rev() {
            match self.shape[axis] {
                0 => return true,
                1 => {}
                extent if self.strides[axis] == step => step *= extent as i64,
                _ => return self.shape.elements() == 0,
            }
        }
        true
    }

    /// Axis `i` of the result is axis `axes[i]`.
    pub fn permuted(&self, axes: &[u8]) -> Layout {
        let extents: Vec<usize> = axes.iter().map(|&axis| self.shape[usize::from(axis)]).collect();
        let strides: Vec<i64> = axes.iter().map(|&axis| self.strides[usize::from(axis)]).collect();
        Layout::strided(Shape::of(&extents), &strides, self.offset)
    }

    /// Repeats extents of 1, and adds axes in front; `shape` broadcasts.
    pub fn expanded(&self, shape: Shape) -> Layout {
        let new = shape.len() - self.shape.len();
        let mut strides = [0; MAX_RANK];
        for axis in new..shape.len() {
            if self.shape[axis - new] == shape[axis] {
                strides[axis] = self.strides[axis - new];
            }
        }
        Layout {
            shape,
            strides,
            offset: self.offset,
        }
    }

    /// Element `start + i * step` along each axis, for `i` below the extent of `shape`. Where that is one element, the step is any
    /// number.
    pub fn sliced(&self, start: &[usize], step: &[i64], shape: Shape) -> Layout {
        let mut layout = *self;
        layout.shape = shape;
        for axis in 0..shape.len() {
            layout.strides[axis] = self.strides[axis].wrapping_mul(step[axis]);
            if shape.elements() > 0 {
                layout.offset = layout
                    .offset
                    .wrapping_add_signed(self.strides[axis] * start[axis] as i64);
            }
        }
        layout
    }

    /// Makes windows of `size` elements, `dilation` apart, every `step` elements along `axis`; the places in a window
    /// become a new last axis.
    pub fn windowed(&self, axis: usize, shape: Shape, step: usize, dilation: usize) -> Layout {
        let mut layout = *self;
        layout.shape = shape;
        layout.strides[axis] = self.strides[axis].wrapping_mul(step as i64);
        layout.strides[shape.len() - 1] = self.strides[axis].wrapping_mul(dilation as i64);
        layout
    }

    /// The same elements in row-major order under another shape, if strides can say that.
    pub fn reshaped(&self, shape: Shape) -> Option<Layout> {
        if self.shape.elements() == 0 || self.is_contiguous() {
            return Some(Layout {
                offset: self.offset,
                ..Layout::contiguous(shape)
            });
        }
        // Walks both shapes from the back, in groups of equal products.
        let old: Vec<(usize, i64)> = (0..self.shape.len())
            .filter(|&axis| self.shape[axis] != 1)
            .map(|axis| (self.shape[axis], self.strides[axis]))
            .collect();
        let mut strides = [0; MAX_RANK];
        let (mut from, mut to) = (old.len(), shape.len());
        while from > 0 {
            let group_end = from;
            from -= 1;
            let mut product = old[from].0;
            let start = to;
            let mut made = 1;
            while made != product {
                if made < product {
                    to = to.checked_sub(1)?;
                    made *= shape[to];
                } else {
                    from = from.checked_sub(1)?;
                    product *= old[from].0;
                }
            }
            // The old axes of the group must follow each other without gaps.
            for axis in from..group_end - 1 {
                if old[axis].1 != old[axis + 1].1 * old[axis + 1].0 as i64 {
                    return None;
                }
            }
            let mut step = old[group_end - 1].1;
            for axis in (to..start).rev() {
                strides[axis] = step;
                step *= shape[axis] as i64;
            }
        }
        Some(Layout {
            shape,
            strides,
            offset: self.offset,
        })
    }

    /// The layout without the axes of `axes`.
    pub fn without(&self, axes: Axes) -> Layout {
        let strides: Vec<i64> = (0..self.shape.len())
            .filter(|&axis| !axes.has(axis))
            .map(|axis| self.strides[axis])
            .collect();
        Layout::strided(self.shape.without(axes), &strides, self.offset)
    }
}
