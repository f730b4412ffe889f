//! Pools over windows.

use super::conv::batched;
use super::spatial::{MAX_SPATIAL, PerAxis};
use super::windows::{along, padded_bits, taken, windows};
use crate::composite::{composite, composite_with_gradient};
use crate::graph::{Op, ScatterMode, Type};
use crate::hal::DType;
use crate::hal::ir::ReduceOp;
use crate::ops::checked::{checked, checked_in, composite_of, wide};
use crate::ops::precision::Class;
use crate::ops::reduce::one_zero;
use crate::ops::{IntoOperand, Operand, float_bits};
use crate::ops::{cast, expanded, float_of};
use crate::options;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use thalweg_hal::dtype;

/// Which windows a pool sees: as far from each other as they are wide, without padding, unless said otherwise.
///
/// ```
/// use thalweg::ops::PoolOptions;
/// let options = PoolOptions::new(3).stride(2).padding(1);
/// assert_ne!(options, PoolOptions::new(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolOptions {
    size: PerAxis,
    stride: Option<PerAxis>,
    padding: PerAxis,
    dilation: PerAxis,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<usize>,
}

options! { PoolOptions {
    /// Elements around the input, at most half a window: -inf for a maximum, 0 for a mean.
    padding: impl Into<PerAxis>,
    /// Elements of the input from one place of a window to the next; for maxima.
    dilation: impl Into<PerAxis>,
    /// Whether a last window that starts inside the input may reach beyond it.
    ceil_mode: bool,
    /// Whether a mean counts the padding; it does unless said otherwise.
    count_include_pad: bool,
    /// What a mean divides by instead of the number of elements.
    divisor_override: usize,
} }

impl PoolOptions {
    /// Windows of `size` elements per spatial axis.
    pub fn new(size: impl Into<PerAxis>) -> PoolOptions {
        PoolOptions {
            size: size.into(),
            stride: None,
            padding: 0.into(),
            dilation: 1.into(),
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }

    /// Elements of the input from one window to the next.
    #[must_use]
    pub fn stride(mut self, stride: impl Into<PerAxis>) -> PoolOptions {
        self.stride = Some(stride.into());
        self
    }

    fn geometry(&self, x: Type, axes: usize) -> Result<Geometry, Refusal> {
        batched(x, axes)?;
        let first = x.shape.len() - axes;
        let size = self.size.positive(axes, "window")?;
        let step = match self.stride {
            Some(stride) => stride.positive(axes, "stride")?,
            None => size,
        };
        let dilation = self.dilation.positive(axes, "dilation")?;
        let low = self.padding.of(axes, "padding")?;
        let mut padded = x.shape.to_vec();
        let mut out = [0; MAX_SPATIAL];
        for axis in 0..axes {
            let span = dilation[axis] * (size[axis] - 1) + 1;
            let (extent, pad, step) = (x.shape[first + axis], low[axis], step[axis]);
            if 2 * pad > span {
                return Err(Refusal::new(format!(
                    "padding {pad} of windows that span {span}; at most half of it"
                )));
            }
            if extent + 2 * pad < span {
                return Err(Refusal::new(format!(
                    "windows span {span} elements, the padded input {} has {} along axis {}",
                    x.shape,
                    extent + 2 * pad,
                    first + axis
                )));
            }
            let room = extent + 2 * pad - span;
            out[axis] = if self.ceil_mode {
                room.div_ceil(step)
            } else {
                room / step
            } + 1;
            if self.ceil_mode && (out[axis] - 1) * step >= extent + pad {
                out[axis] -= 1;
            }
            padded[first + axis] = (extent + pad).max((out[axis] - 1) * step + span);
        }
        Ok(Geometry {
            axes,
            first,
            input: x.shape,
            padded: Shape::checked(&padded)?,
            size,
            step,
            dilation,
            low,
            out,
        })
    }
}

/// The windows of a pool over an input.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    axes: usize,
    first: usize,
    input: Shape,
    padded: Shape,
    size: [usize; MAX_SPATIAL],
    step: [usize; MAX_SPATIAL],
    dilation: [usize; MAX_SPATIAL],
    low: [usize; MAX_SPATIAL],
    out: [usize; MAX_SPATIAL],
}

impl Geometry {
    /// The view of all windows of the padded input: their places are the last axes.
    fn view(&self, x: &Tensor, padding: u64, tag: OpTag) -> Tensor {
        let mut low = [0; 8];
        low[self.first..self.first + self.axes].copy_from_slice(&self.low[..self.axes]);
        let x = padded_bits(x, &low[..self.input.len()], &self.padded, padding, tag);
        (0..self.axes).fold(x, |x, axis| {
            windows(
                &x,
                self.first + axis,
                self.size[axis],
                self.step[axis],
                self.dilation[axis],
                tag,
            )
        })
    }

    /// The axes of the places in [`Geometry::view`].
    fn places(&self) -> Axes {
        (self.input.len()..self.input.len() + self.axes).collect()
    }

    fn reduced(&self, x: &Tensor, op: ReduceOp, padding: u64, tag: OpTag) -> Tensor {
        let op = Op::Reduce {
            op,
            axes: self.places(),
        };
        apply(op, &[&self.view(x, padding, tag)], tag)
    }

    /// The index of the first maximum of each window in the input's space, row-major: that of the window's first place, and a step
    /// from there that a table has for each place.
    fn greatest(&self, x: &Tensor, dtype: DType, tag: OpTag) -> Tensor {
        let x = &if dtype.is_float() {
            one_zero(x, tag)
        } else {
            x.clone()
        };
        let rank = self.input.len();
        let mut place = self.reduced(x, ReduceOp::ArgMax, least(dtype), tag);
        let taps: usize = self.size[..self.axes].iter().product();
        let mut rest = along(x, rank, rank - 1, taps, tag);
        let zero = || Tensor::constant(Shape::of(&[1; 8][..rank]), DType::I64, 0);
        let (mut table, mut first, mut start) = (zero(), zero(), zero());
        let (mut stride, mut weight) = (1, 1);
        for axis in (0..self.axes).rev() {
            let (size, dilation, at) = (
                self.size[axis] as i64,
                self.dilation[axis] as i64,
                self.first + axis,
            );
            let own =
                along(x, rank, at, self.out[axis], tag) * self.step[axis] as i64 - self.low[axis] as i64;
            table += rest.remainder(size) * (dilation * stride);
            rest = rest.div_floor(size);
            first += (dilation - 1 - own.minimum(0)).div_floor(dilation) * weight;
            start += own * stride;
            weight *= size;
            stride *= self.input[at] as i64;
        }
        if self.low[..self.axes] != [0; MAX_SPATIAL][..self.axes] {
            // Where all elements are the least one, the first place may be padding.
            place = place.maximum(first);
        }
        let Ok(ty) = place.ty() else { return place };
        let table = expanded(&table, ty.shape.with(rank - 1, taps), tag);
        let index = taken(&table, rank - 1, &place, tag) + start;
        match self.has_empty_windows() {
            true => index.maximum(0).minimum(stride - 1),
            false => index,
        }
    }

    /// Whether a window may see padding alone, as those that are dilated further than the input is long.
    fn has_empty_windows(&self) -> bool {
        (0..self.axes).any(|axis| self.dilation[axis] > self.input[self.first + axis])
    }

    /// Whether windows lie side by side from the first element on, so that an element is in one of them at most.
    fn is_partition(&self) -> bool {
        (0..self.axes).all(|axis| {
            let taken = self.out[axis] * self.size[axis];
            self.low[axis] == 0
                && self.dilation[axis] == 1
                && self.step[axis] == self.size[axis]
                && taken <= self.input[self.first + axis]
        })
    }

    /// As [`Geometry::sent_back`] where windows are a partition: each place compares itself with its window's first maximum.
    fn spread(&self, x: &Tensor, gradient: &Tensor, ty: Type, tag: OpTag) -> Tensor {
        let (rank, axes) = (self.input.len(), self.axes);
        let view = self.view(x, least(ty.dtype), tag);
        let places = self.places();
        let argmax = Op::Reduce {
            op: ReduceOp::ArgMax,
            axes: places,
        };
        let per_place = |x: &Tensor| (0..axes).fold(x.clone(), |x, _| x.unsqueeze(-1));
        let greatest = per_place(&apply(argmax, &[&view], tag));
        let mut stride = 1;
        let mut own: Option<Tensor> = None;
        for axis in (0..axes).rev() {
            let index = along(x, rank + axes, rank + axis, self.size[axis], tag) * stride;
            stride *= self.size[axis] as i64;
            own = Some(match own {
                None => index,
                Some(own) => own + index,
            });
        }
        let hit = greatest.eq(own.unwrap_or_else(|| greatest.clone()));
        let spread = hit.where_cond(per_place(gradient), 0.0);
        // Places go behind the axes that they cut.
        let mut order: Vec<i32> = (0..self.first as i32).collect();
        for axis in 0..axes {
            order.extend([(self.first + axis) as i32, (rank + axis) as i32]);
        }
        let mut covered = self.input.to_vec();
        for axis in 0..axes {
            covered[self.first + axis] = self.out[axis] * self.size[axis];
        }
        let spread = spread.permute(&order).reshape(&covered);
        padded_bits(&spread, &[0; 8][..rank], &self.input, 0, tag)
    }

    /// The gradient of maxima by the input, of the type `ty`.
    fn sent_back(&self, x: &Tensor, gradient: &Tensor, ty: Type, tag: OpTag) -> Tensor {
        let flat = |space: &[usize]| [&self.input[..self.first], &[space.iter().product()]].concat();
        let (from, to) = (flat(&self.out[..self.axes]), flat(&self.input[self.first..]));
        let base = Tensor::constant(Shape::of(&to), wide(ty.dtype), 0);
        let scatter = Op::Scatter {
            axis: self.first as u8,
            mode: ScatterMode::Add,
        };
        let index = self.greatest(&x.detach(), ty.dtype, tag).reshape(&from);
        let update = cast(&gradient.reshape(&from), wide(ty.dtype), tag);
        cast(
            &apply(scatter, &[&base, &index, &update], tag).reshape(ty.shape),
            ty.dtype,
            tag,
        )
    }

    /// Whether each window along a spatial axis counts as many elements as it has places.
    fn is_whole(&self, axis: usize, count_include_pad: bool) -> bool {
        let last = (self.out[axis] - 1) * self.step[axis] + self.size[axis];
        let extent = self.input[self.first + axis];
        match count_include_pad {
            true => last <= extent + 2 * self.low[axis],
            false => self.low[axis] == 0 && last <= extent,
        }
    }

    /// The number of elements that each window of a mean counts.
    fn counts(&self, like: &Tensor, dtype: DType, count_include_pad: bool, tag: OpTag) -> Operand<'static> {
        let mut same = 1;
        let mut counts: Option<Tensor> = None;
        for axis in 0..self.axes {
            let (size, low) = (self.size[axis] as i64, self.low[axis] as i64);
            if self.is_whole(axis, count_include_pad) {
                same *= size;
                continue;
            }
            let at = self.first + axis;
            let extent = self.input[at] as i64;
            let (least, end) = if count_include_pad {
                (-low, extent + low)
            } else {
                (0, extent)
            };
            let start = along(like, self.input.len(), at, self.out[axis], tag) * self.step[axis] as i64 - low;
            let count = (&start + size).minimum(end) - start.maximum(least);
            counts = Some(match counts {
                Some(before) => before * count,
                None => count,
            });
        }
        match counts {
            Some(counts) => cast(&(counts * same), dtype, tag).into_operand(),
            None => (same as f64).into_operand(),
        }
    }
}

macro_rules! pools {
    ($($axes:literal $max:ident $indexed:ident $avg:ident $lp:ident;)*) => {
        impl Tensor {$(
            #[doc = concat!("The maximum of each window over ", $axes, " spatial axes: x `[n, c, space..]` or `[c, space..]`")]
            /// of any dtype. NaN wins. The extents are `(l + 2·padding - dilation·(k - 1) - 1) / stride + 1`, rounded down, or up
            /// in ceil mode.
            #[must_use]
            #[track_caller]
            pub fn $max(&self, options: PoolOptions) -> Tensor {
                max_pool(self, options, $axes, OpTag::new(stringify!($max)))
            }

            #[doc = concat!("As [`Tensor::", stringify!($max), "`], and the i64 index of the first maximum of each window in the")]
            /// input's space, row-major.
            #[must_use]
            #[track_caller]
            pub fn $indexed(&self, options: PoolOptions) -> (Tensor, Tensor) {
                let tag = OpTag::new(stringify!($indexed));
                (
                    max_pool(self, options, $axes, tag),
                    max_pool_indices(self, options, $axes, tag),
                )
            }

            #[doc = concat!("The mean of each window over ", $axes, " spatial axes: x `[n, c, space..]` or `[c, space..]`;")]
            /// integers become f32, f16 and bf16 sum in f32. Padding counts as zeros unless the options say otherwise; what
            /// ceil mode adds never counts. Extents as in a pool of maxima.
            #[must_use]
            #[track_caller]
            pub fn $avg(&self, options: PoolOptions) -> Tensor {
                avg_pool(self, options, $axes, OpTag::new(stringify!($avg)))
            }

            #[doc = concat!("`(Σ x^p)^(1/p)` of each window over ", $axes, " spatial axes: x `[n, c, space..]` or `[c, space..]`;")]
            /// dtypes as in a pool of means.
            #[must_use]
            #[track_caller]
            pub fn $lp(&self, p: f64, options: PoolOptions) -> Tensor {
                lp_pool(self, p, options, $axes, OpTag::new(stringify!($lp)))
            }
        )*}
    };
}

pools! {
    1 max_pool1d max_pool1d_with_indices avg_pool1d lp_pool1d;
    2 max_pool2d max_pool2d_with_indices avg_pool2d lp_pool2d;
    3 max_pool3d max_pool3d_with_indices avg_pool3d lp_pool3d;
}

/// Bits of the least element.
pub(super) fn least(dtype: DType) -> u64 {
    match dtype.class() {
        dtype::Class::Float => float_bits(f64::NEG_INFINITY, dtype),
        dtype::Class::Signed => 1 << (8 * dtype.size() - 1),
        dtype::Class::Unsigned | dtype::Class::Bool => 0,
    }
}

fn max_pool(x: &Tensor, options: PoolOptions, axes: usize, tag: OpTag) -> Tensor {
    checked(tag, [x], [], |[ty], []| {
        let pool = options.geometry(ty, axes)?;
        let body = |[x]: &[Tensor; 1]| pool.reduced(x, ReduceOp::Max, least(ty.dtype), tag);
        // Of equal elements the first takes the gradient, as in PyTorch; a maximum's own rule would divide it.
        let rule = move |[x]: &[Tensor; 1], _: &Tensor, gradient: &Tensor| {
            let key = (options, axes);
            [Some(composite(
                "max_pool_gradient",
                &key,
                [x, gradient],
                tag,
                |[x, gradient]| {
                    if pool.is_partition() {
                        pool.spread(&x.detach(), gradient, ty, tag)
                    } else {
                        pool.sent_back(x, gradient, ty, tag)
                    }
                },
            ))]
        };
        Ok(composite_with_gradient(
            "max_pool",
            &(options, axes),
            [x],
            tag,
            body,
            rule,
        ))
    })
}

fn max_pool_indices(x: &Tensor, options: PoolOptions, axes: usize, tag: OpTag) -> Tensor {
    checked(tag, [x], [], |[ty], []| {
        let pool = options.geometry(ty, axes)?;
        let x = x.detach();
        Ok(composite_of(
            "max_pool_indices",
            &(options, axes),
            [&x],
            [],
            tag,
            |[x], []| pool.greatest(x, ty.dtype, tag),
        ))
    })
}

fn avg_pool(x: &Tensor, options: PoolOptions, axes: usize, tag: OpTag) -> Tensor {
    checked_in(Class::Other, tag, [x], |[x], [ty]| {
        let pool = sums(options, ty, axes)?;
        if options.divisor_override == Some(0) {
            return Err(Refusal::new("divisor_override 0"));
        }
        let dtype = float_of(ty.dtype);
        Ok(composite_of(
            "avg_pool",
            &(options, axes),
            [x],
            [],
            tag,
            |[x], []| {
                let sum = pool.reduced(&cast(x, wide(dtype), tag), ReduceOp::Sum, 0, tag);
                let mean = match options.divisor_override {
                    Some(divisor_override) => sum / divisor_override as f64,
                    None => sum.div(pool.counts(x, wide(dtype), options.count_include_pad, tag)),
                };
                cast(&mean, dtype, tag)
            },
        ))
    })
}

fn lp_pool(x: &Tensor, p: f64, options: PoolOptions, axes: usize, tag: OpTag) -> Tensor {
    checked_in(Class::Full, tag, [x], |[x], [ty]| {
        let pool = sums(options, ty, axes)?;
        let dtype = float_of(ty.dtype);
        let key = (options, axes, p.to_bits());
        Ok(composite_of("lp_pool", &key, [x], [], tag, |[x], []| {
            let powers = cast(x, wide(dtype), tag).pow(p);
            let sum = pool.reduced(&powers, ReduceOp::Sum, 0, tag);
            cast(&sum.pow(1.0 / p), dtype, tag)
        }))
    })
}

fn sums(options: PoolOptions, ty: Type, axes: usize) -> Result<Geometry, Refusal> {
    if options.dilation.of(axes, "dilation")?[..axes]
        .iter()
        .any(|&dilation| dilation != 1)
    {
        return Err(Refusal::new("dilated windows of a mean or norm").help("only pools of maxima dilate"));
    }
    options.geometry(ty, axes)
}
