//! Shapes.

use crate::error::failure::{Failure, Refusal};
use std::fmt;
use std::ops::Deref;

/// Most axes of a tensor.
pub const MAX_RANK: usize = crate::hal::ir::MAX_RANK;

/// The extents of a tensor, outermost first; at most [`MAX_RANK`]. It reads as a slice.
///
/// ```
/// use thalweg::Shape;
/// let shape = Shape::new(&[2, 3])?;
/// assert_eq!((shape.len(), shape.elements(), shape[1]), (2, 6, 3));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    rank: u8,
    // Unused ones are 0, so that equality and hash may look at all of them.
    extents: [usize; MAX_RANK],
}

impl Shape {
    /// The shape of a scalar.
    pub const SCALAR: Shape = Shape {
        rank: 0,
        extents: [0; MAX_RANK],
    };

    /// A shape of the given extents.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] axes, or more elements than an address space holds.
    pub fn new(extents: &[usize]) -> crate::error::Result<Shape> {
        Ok(Shape::checked(extents).map_err(Failure::from)?)
    }

    pub(crate) fn checked(extents: &[usize]) -> Result<Shape, Refusal> {
        if extents.len() > MAX_RANK {
            return Err(Refusal::new(format!(
                "{extents:?} has {} axes, at most {MAX_RANK} are possible",
                extents.len()
            )));
        }
        let mut elements = 1_u64;
        for &extent in extents.iter().filter(|&&extent| extent != 0) {
            elements = elements.saturating_mul(extent as u64);
        }
        // Leaves room for eight bytes an element in signed arithmetic.
        if elements > i64::MAX as u64 / 8 {
            return Err(Refusal::new(format!("{extents:?} has too many elements")));
        }
        Ok(Shape::of(extents))
    }

    /// A shape of extents that were checked before.
    pub(crate) fn of(extents: &[usize]) -> Shape {
        let mut shape = Shape::SCALAR;
        shape.rank = extents.len() as u8;
        shape.extents[..extents.len()].copy_from_slice(extents);
        shape
    }

    /// As `==`, which is a call.
    #[inline]
    pub(crate) fn is_like(&self, other: &Shape) -> bool {
        self.rank == other.rank && self.iter().zip(other.iter()).all(|(one, other)| one == other)
    }

    /// Number of elements; 1 for a scalar.
    #[inline]
    pub fn elements(&self) -> usize {
        self.iter().product()
    }

    /// The shape with `extent` inserted before `axis`.
    pub(crate) fn inserted(&self, axis: usize, extent: usize) -> Shape {
        let mut extents = self.to_vec();
        extents.insert(axis, extent);
        Shape::of(&extents)
    }

    /// The shape with another extent along `axis`.
    pub(crate) fn with(&self, axis: usize, extent: usize) -> Shape {
        let mut shape = *self;
        shape.extents[axis] = extent;
        shape
    }

    /// The shape without the axes of `axes`.
    pub(crate) fn without(&self, axes: Axes) -> Shape {
        let kept: Vec<usize> = (0..self.len())
            .filter(|&axis| !axes.has(axis))
            .map(|axis| self[axis])
            .collect();
        Shape::of(&kept)
    }

    /// The shape with extent 1 along the axes of `axes`.
    pub(crate) fn ones_at(&self, axes: Axes) -> Shape {
        let mut shape = *self;
        for axis in axes.iter() {
            shape.extents[axis] = 1;
        }
        shape
    }
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.extents[..usize::from(self.rank)]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A set of axes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Axes(u8);

impl Axes {
    /// No axis.
    pub const NONE: Axes = Axes(0);

    /// The axes `0..rank`.
    pub const fn all(rank: usize) -> Axes {
        Axes(((1_u32 << rank) - 1) as u8)
    }

    /// The set of one axis.
    pub const fn one(axis: usize) -> Axes {
        Axes(1 << axis)
    }

    /// Whether `axis` is in the set.
    pub const fn has(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }

    /// The set with `axis`.
    #[must_use]
    pub const fn with(self, axis: usize) -> Axes {
        Axes(self.0 | 1 << axis)
    }

    /// Number of axes.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The axes in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..MAX_RANK).filter(move |&axis| self.has(axis))
    }
}

impl FromIterator<usize> for Axes {
    fn from_iter<I: IntoIterator<Item = usize>>(axes: I) -> Axes {
        axes.into_iter().fold(Axes::NONE, Axes::with)
    }
}

impl fmt::Debug for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What can be given as a shape: arrays, slices and vectors of extents, one extent, `()` for a scalar.
pub trait IntoShape {
    /// The shape.
    ///
    /// # Errors
    /// As [`Shape::new`].
    fn into_shape(self) -> Result<Shape, Refusal>;
}

impl IntoShape for Shape {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Ok(self)
    }
}

impl IntoShape for &Shape {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Ok(*self)
    }
}

impl IntoShape for () {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Ok(Shape::SCALAR)
    }
}

impl IntoShape for usize {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Shape::checked(&[self])
    }
}

impl<const N: usize> IntoShape for [usize; N] {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Shape::checked(&self)
    }
}

impl<const N: usize> IntoShape for &[usize; N] {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Shape::checked(self)
    }
}

impl IntoShape for &[usize] {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Shape::checked(self)
    }
}

impl IntoShape for Vec<usize> {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Shape::checked(&self)
    }
}

impl IntoShape for &Vec<usize> {
    fn into_shape(self) -> Result<Shape, Refusal> {
        Shape::checked(self)
    }
}
