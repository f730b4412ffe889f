//! Pools to a given extent, and over all of space.

use super::conv::batched;
use super::spatial::PerAxis;
use super::windows::{along, taken};
use crate::graph::Type;
use crate::ops::checked::{checked_in, composite_of, wide};
use crate::ops::precision::Class;
use crate::ops::{cast, float_of};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;

macro_rules! pools {
    ($($axes:literal $max:ident $avg:ident;)*) => {
        impl Tensor {$(
            #[doc = concat!("The maximum of each of `size` windows per axis over ", $axes, " spatial axes: window i of o over l elements is")]
            /// `floor(i·l / o) .. ceil((i + 1)·l / o)`. x is `[n, c, space..]` or `[c, space..]` of any dtype. NaN wins.
            #[must_use]
            #[track_caller]
            pub fn $max(&self, size: impl Into<PerAxis>) -> Tensor {
                adaptive(self, size.into(), $axes, true, OpTag::new(stringify!($max)))
            }

            #[doc = concat!("The mean of each of the windows of [`Tensor::", stringify!($max), "`]; integers become f32, f16 and bf16")]
            /// sum in f32.
            #[must_use]
            #[track_caller]
            pub fn $avg(&self, size: impl Into<PerAxis>) -> Tensor {
                adaptive(self, size.into(), $axes, false, OpTag::new(stringify!($avg)))
            }
        )*}
    };
}

pools! {
    1 adaptive_max_pool1d adaptive_avg_pool1d;
    2 adaptive_max_pool2d adaptive_avg_pool2d;
    3 adaptive_max_pool3d adaptive_avg_pool3d;
}

impl Tensor {
    /// The mean over all of space, which disappears: x `[n, c, space..]` to `[n, c]`. Dtypes as in a pool of means.
    #[must_use]
    #[track_caller]
    pub fn global_avg_pool(&self) -> Tensor {
        global(
            self,
            ("global_avg_pool", Class::Full),
            OpTag::new("global_avg_pool"),
            |x, axes| x.mean_axes(axes),
        )
    }

    /// The maximum over all of space, which disappears: x `[n, c, space..]` of any dtype to `[n, c]`. NaN wins.
    #[must_use]
    #[track_caller]
    pub fn global_max_pool(&self) -> Tensor {
        global(
            self,
            ("global_max_pool", Class::Kept),
            OpTag::new("global_max_pool"),
            |x, axes| x.max_axes(axes),
        )
    }
}

fn global(
    x: &Tensor,
    (name, class): (&'static str, Class),
    tag: OpTag,
    body: impl Fn(&Tensor, &[i32]) -> Tensor,
) -> Tensor {
    checked_in(class, tag, [x], |[x], [ty]| {
        if ty.shape.len() < 3 {
            return Err(Refusal::new(format!(
                "{} has no space; it is batch, channels, then space",
                ty.shape
            )));
        }
        let axes: Vec<i32> = (2..ty.shape.len() as i32).collect();
        Ok(composite_of(name, &(), [x], [], tag, |[x], []| body(x, &axes)))
    })
}

/// The greatest common divisor of two numbers that are not 0.
fn divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Windows along one axis, of which the widest has `widest` places.
#[derive(Clone, Copy)]
struct Cut {
    axis: usize,
    extent: usize,
    out: usize,
    widest: usize,
}

impl Cut {
    fn new(axis: usize, extent: usize, out: usize) -> Cut {
        // Window i reaches from floor(i·extent / out) to ceil((i + 1)·extent / out). What i·extent leaves when divided by `out` are
        // all multiples of the common divisor, the largest of which makes the widest window.
        let left = extent % out;
        let more = match left {
            0 => 0,
            _ if left > divisor(left, out) => 2,
            _ => 1,
        };
        let widest = extent / out + more;
        Cut {
            axis,
            extent,
            out,
            widest,
        }
    }

    /// The places of every window as a new axis behind `axis`, and how many of them count: where windows differ, a maximum
    /// sees the last one again, a sum sees 0.
    fn places(&self, x: &Tensor, rank: usize, max: bool, tag: OpTag) -> (Tensor, Option<Tensor>) {
        let (out, extent) = (self.out as i64, self.extent as i64);
        if self.extent.is_multiple_of(self.out) {
            return (self.split(x), None);
        }
        let flat = along(x, rank, self.axis, self.out * self.widest, tag);
        let (window, place) = (
            flat.div_floor(self.widest as i64),
            flat.remainder(self.widest as i64),
        );
        let start = (&window * extent).div_floor(out);
        let end = ((window + 1) * extent + (out - 1)).div_floor(out);
        let index = &start + place;
        if max {
            return (
                self.split(&taken(x, self.axis, &index.minimum(end - 1), tag)),
                None,
            );
        }
        let index = index.lt(&end).where_cond(&index, -1);
        let each = along(x, rank, self.axis, self.out, tag);
        let count = ((&each + 1) * extent + (out - 1)).div_floor(out) - (each * extent).div_floor(out);
        (self.split(&taken(x, self.axis, &index, tag)), Some(count))
    }

    /// The axis as windows and places.
    fn split(&self, x: &Tensor) -> Tensor {
        let Ok(ty) = x.ty() else { return x.clone() };
        let places = ty.shape[self.axis] / self.out;
        x.reshape(ty.shape.with(self.axis, self.out).inserted(self.axis + 1, places))
    }
}

fn adaptive(x: &Tensor, size: PerAxis, axes: usize, max: bool, tag: OpTag) -> Tensor {
    let class = if max { Class::Kept } else { Class::Other };
    checked_in(class, tag, [x], |[x], [ty]| {
        let cuts = cuts(ty, size, axes)?;
        let rank = ty.shape.len();
        let dtype = if max { ty.dtype } else { float_of(ty.dtype) };
        Ok(composite_of(
            "adaptive_pool",
            &(size, axes, max),
            [x],
            [],
            tag,
            |[x], []| {
                let mut out = if max { x.clone() } else { cast(x, wide(dtype), tag) };
                for cut in &cuts {
                    let (places, count) = cut.places(&out, rank, max, tag);
                    out = match max {
                        true => places.max_axes(cut.axis as i32 + 1),
                        false => places.sum_axes(cut.axis as i32 + 1),
                    };
                    if !max {
                        out = match count {
                            Some(count) => out / cast(&count, wide(dtype), tag),
                            None => out / cut.widest as f64,
                        };
                    }
                }
                cast(&out, dtype, tag)
            },
        ))
    })
}

fn cuts(x: Type, size: PerAxis, axes: usize) -> Result<Vec<Cut>, Refusal> {
    batched(x, axes)?;
    let out = size.positive(axes, "output size")?;
    let first = x.shape.len() - axes;
    let mut extents = x.shape.to_vec();
    let mut cuts = Vec::new();
    for axis in 0..axes {
        let extent = x.shape[first + axis];
        if extent == 0 {
            return Err(Refusal::new(format!(
                "axis {} of {} is empty",
                first + axis,
                x.shape
            )));
        }
        // Places of windows are counted in i64.
        if (out[axis] + 1).saturating_mul(extent) > i64::MAX as usize {
            return Err(Refusal::new(format!(
                "output size {} of {extent} elements: their product is too large",
                out[axis]
            )));
        }
        let cut = Cut::new(first + axis, extent, out[axis]);
        extents[first + axis] = cut.out * cut.widest;
        Shape::checked(&extents)?;
        extents[first + axis] = cut.out;
        cuts.push(cut);
    }
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_window_is_that_of_all() {
        for extent in 1..40_usize {
            for out in 1..90_usize {
                let bounds = |i: usize| (i * extent / out, ((i + 1) * extent).div_ceil(out));
                let widest = (0..out).map(|i| bounds(i).1 - bounds(i).0).max().unwrap_or(1);
                assert_eq!(Cut::new(0, extent, out).widest, widest, "{extent} to {out}");
            }
        }
    }
}
