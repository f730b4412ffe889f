//! How a kernel's index space reaches the elements of a node.

use crate::graph::Op;
use crate::types::layout::Layout;
use crate::types::shape::{Axes, Shape};
use smallvec::SmallVec;

/// `offset + sum of coefficient * index` over the axes of a kernel's space; axes beyond the list count 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Affine {
    pub(super) offset: i64,
    coefficients: SmallVec<[i64; 8]>,
}

impl Affine {
    pub(super) fn constant(offset: i64) -> Affine {
        Affine {
            offset,
            coefficients: SmallVec::new(),
        }
    }

    pub(super) fn coefficient(&self, axis: usize) -> i64 {
        self.coefficients.get(axis).copied().unwrap_or(0)
    }

    fn add_term(&mut self, axis: usize, coefficient: i64) {
        if coefficient == 0 {
            return;
        }
        if self.coefficients.len() <= axis {
            self.coefficients.resize(axis + 1, 0);
        }
        self.coefficients[axis] = self.coefficients[axis].wrapping_add(coefficient);
        while self.coefficients.last() == Some(&0) {
            self.coefficients.pop();
        }
    }

    /// Adds `factor * other`. Factors of axes with one element may be any number, and what comes of them is never used.
    pub(super) fn add(&mut self, other: &Affine, factor: i64) {
        self.offset = self.offset.wrapping_add(other.offset.wrapping_mul(factor));
        for (axis, &coefficient) in other.coefficients.iter().enumerate() {
            self.add_term(axis, coefficient.wrapping_mul(factor));
        }
    }

    /// The axes with a coefficient.
    pub(super) fn terms(&self) -> impl Iterator<Item = (usize, i64)> {
        (self.coefficients.iter().copied().enumerate()).filter(|&(_, coefficient)| coefficient != 0)
    }
}

/// The index of a node's element, for each point of a kernel's space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    /// The index along each axis, where it is affine.
    pub(super) axes: SmallVec<[Option<Affine>; 4]>,
    /// The row-major index, where it is affine.
    pub(super) linear: Option<Affine>,
}

/// A space axis that must become two, so that an index becomes affine: its last `factor` points are one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) axis: usize,
    pub(super) factor: usize,
}

fn row_major(shape: &Shape) -> SmallVec<[i64; 8]> {
    Layout::contiguous(*shape).strides().into()
}

impl View {
    fn of_axes(axes: SmallVec<[Option<Affine>; 4]>, shape: &Shape) -> View {
        let mut linear = Some(Affine::default());
        for ((axis, step), &extent) in axes.iter().zip(row_major(shape)).zip(shape.iter()) {
            match (&mut linear, axis) {
                _ if extent == 1 => {}
                (Some(linear), Some(axis)) => linear.add(axis, step),
                _ => linear = None,
            }
        }
        View { axes, linear }
    }

    /// The elements of `shape` in row-major order, walked by `space` in row-major order.
    /// Also what would make one more of its indices affine.
    pub(super) fn linear(space: &[usize], shape: &Shape) -> (View, Option<Split>) {
        let mut linear = Affine::default();
        let mut step = 1;
        for axis in (0..space.len()).rev() {
            if space[axis] != 1 {
                linear.add_term(axis, step);
            }
            step *= space[axis].max(1) as i64;
        }
        View::of_linear(linear, space, shape)
    }

    /// The view of the elements of `shape` at a row-major index, and what would make one more axis affine.
    fn of_linear(linear: Affine, space: &[usize], shape: &Shape) -> (View, Option<Split>) {
        let mut axes: SmallVec<[Option<Affine>; 4]> = SmallVec::new();
        let mut split = None;
        for (&step, &extent) in row_major(shape).iter().zip(shape.iter()) {
            if extent <= 1 {
                axes.push(Some(Affine::default()));
                continue;
            }
            match digit(&linear, space, step, extent as i64) {
                Ok(affine) => axes.push(Some(affine)),
                Err(wanted) => {
                    split = split.or(wanted);
                    axes.push(None);
                }
            }
        }
        (
            View {
                axes,
                linear: Some(linear),
            },
            split,
        )
    }

    /// The view of the operand of a view op, and what would make it affine where it is not.
    pub(super) fn through(&self, op: &Op, space: &[usize], operand: &Shape) -> (View, Option<Split>) {
        let axes: SmallVec<[Option<Affine>; 4]> = match op {
            Op::Permute(order) => {
                let mut axes: SmallVec<[Option<Affine>; 4]> = SmallVec::from_elem(None, order.len());
                for (at, &axis) in order.iter().enumerate() {
                    axes[usize::from(axis)] = self.axes[at].clone();
                }
                axes
            }
            Op::Expand(shape) => {
                let new = shape.len() - operand.len();
                let of = |axis: usize| {
                    if operand[axis] == 1 {
                        Some(Affine::default())
                    } else {
                        self.axes[axis + new].clone()
                    }
                };
                (0..operand.len()).map(of).collect()
            }
            Op::Slice { start, step, .. } => {
                let of = |axis: usize| {
                    let mut index = Affine::constant(start[axis] as i64);
                    index.add(self.axes[axis].as_ref()?, step[axis]);
                    Some(index)
                };
                (0..operand.len()).map(of).collect()
            }
            Op::Window {
                axis, step, dilation, ..
            } => {
                let mut axes: SmallVec<[Option<Affine>; 4]> = self.axes[..operand.len()].into();
                let windowed = |window: &Affine, place: &Affine| {
                    let mut index = Affine::default();
                    index.add(window, *step as i64);
                    index.add(place, *dilation as i64);
                    index
                };
                let axis = usize::from(*axis);
                axes[axis] = match (&axes[axis], &self.axes[operand.len()]) {
                    (Some(window), Some(place)) => Some(windowed(window, place)),
                    _ => None,
                };
                axes
            }
            Op::Reshape(_) => {
                return match &self.linear {
                    Some(linear) => View::of_linear(linear.clone(), space, operand),
                    None => (
                        View {
                            axes: SmallVec::from_elem(None, operand.len()),
                            linear: None,
                        },
                        None,
                    ),
                };
            }
            Op::Indices { .. } => return (self.clone(), None),
            _ => self.axes.clone(),
        };
        (View::of_axes(axes, operand), None)
    }

    /// Element offset in a buffer of this layout, where it is affine.
    pub(super) fn address(&self, layout: &Layout) -> Option<Affine> {
        if let (Some(linear), true) = (&self.linear, layout.is_contiguous()) {
            let mut address = linear.clone();
            address.offset += layout.offset as i64;
            return Some(address);
        }
        let mut address = Affine::constant(layout.offset as i64);
        for ((axis, &stride), &extent) in self.axes.iter().zip(layout.strides()).zip(layout.shape.iter()) {
            if stride != 0 && extent != 1 {
                address.add(axis.as_ref()?, stride);
            }
        }
        Some(address)
    }

    /// The axes of the space with more than one point that this view does not depend on; `None` where that is not known.
    pub(super) fn unused(&self, space: &[usize], shape: &Shape) -> Option<SmallVec<[usize; 8]>> {
        let mut used = [false; 16];
        let mut mark = |affine: &Affine| affine.terms().for_each(|(axis, _)| used[axis] = true);
        match &self.linear {
            Some(linear) => mark(linear),
            None => {
                for (axis, &extent) in self.axes.iter().zip(shape.iter()) {
                    if extent != 1 {
                        mark(axis.as_ref()?);
                    }
                }
            }
        }
        Some(
            (0..space.len())
                .filter(|&axis| space[axis] != 1 && !used[axis])
                .collect(),
        )
    }

    /// The view of a reduction's operand: kept axes as here, the others along the axes `inner` of the space.
    /// `None` when extents do not match.
    pub(super) fn reduced(
        &self,
        axes: Axes,
        operand: &Shape,
        space: &[usize],
        inner: &[usize],
    ) -> Option<View> {
        let (mut kept, mut inner) = (self.axes.iter(), inner.iter().filter(|&&axis| space[axis] != 1));
        let mut result: SmallVec<[Option<Affine>; 4]> = SmallVec::new();
        for axis in 0..operand.len() {
            if !axes.has(axis) {
                result.push(kept.next()?.clone());
                continue;
            }
            // An axis may be walked by several axes of the space.
            let mut group: SmallVec<[usize; 4]> = SmallVec::new();
            let mut product = 1;
            while product != operand[axis] {
                let &next = inner.next()?;
                product *= space[next];
                group.push(next);
                if product > operand[axis] {
                    return None;
                }
            }
            let mut index = Affine::default();
            let mut step = 1;
            for &at in group.iter().rev() {
                index.add_term(at, step);
                step *= space[at] as i64;
            }
            result.push(Some(index));
        }
        inner.next().is_none().then(|| View::of_axes(result, operand))
    }
}

/// `linear / step % extent`, where no carry makes it anything but affine.
fn digit(linear: &Affine, space: &[usize], step: i64, extent: i64) -> Result<Affine, Option<Split>> {
    let mut index = Affine::constant(linear.offset.div_euclid(step).rem_euclid(extent));
    let (mut low, mut most) = (linear.offset.rem_euclid(step), index.offset);
    for (axis, coefficient) in linear.terms() {
        let reach = coefficient * (space[axis] as i64 - 1);
        if coefficient < 0 {
            return Err(None);
        }
        if coefficient % (step * extent) == 0 {
            continue;
        }
        if coefficient % step == 0 {
            let digit = coefficient / step;
            let top = digit * (space[axis] as i64 - 1);
            if top >= extent {
                // The axis goes over the end of this digit; its slower part belongs to the next.
                let splits = extent % digit == 0 && space[axis] as i64 % (extent / digit) == 0;
                let factor = (extent / digit) as usize;
                return Err((splits && factor > 1).then_some(Split { axis, factor }));
            }
            index.add_term(axis, digit);
            most += top;
        } else {
            if coefficient < step && reach >= step {
                let splits = step % coefficient == 0 && space[axis] as i64 % (step / coefficient) == 0;
                let factor = (step / coefficient) as usize;
                return Err((splits && factor > 1).then_some(Split { axis, factor }));
            }
            low += reach;
        }
    }
    if low < step && most < extent {
        Ok(index)
    } else {
        Err(None)
    }
}
