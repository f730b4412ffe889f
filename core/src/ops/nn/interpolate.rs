//! Resampling of images, signals and volumes.

use super::spatial::{MAX_SPATIAL, PerAxis};
use super::windows::{along, taken};
use crate::graph::Type;
use crate::hal::DType;
use crate::ops::cast;
use crate::ops::checked::{checked_in, composite_of, wide};
use crate::ops::join::repeated;
use crate::ops::precision::Class;
use crate::options;
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;

/// Which elements of the input an element between them is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interpolation {
    /// The one at `floor(i · l / o)`.
    Nearest,
    /// The one at `floor((i + 0.5) · l / o)`, which is the nearest.
    NearestExact,
    /// The two around it along each axis: linear, bilinear, trilinear.
    Linear,
    /// The four around it along each axis, by Keys' cubic convolution with a = -0.75; two spatial axes only.
    Cubic,
    /// The mean of all that it covers: adaptive average pooling.
    Area,
}

/// What [`Tensor::interpolate`] does: nearest elements, ends not aligned, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InterpolateOptions {
    target: Target,
    mode: Interpolation,
    align_corners: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Size(PerAxis),
    Factor(f64),
}

options! { InterpolateOptions {
    /// How elements are made.
    mode: Interpolation,
    /// Whether the centres of the first and last elements of input and output coincide, instead of their outer edges; for
    /// linear and cubic.
    align_corners: bool,
} }

impl InterpolateOptions {
    /// To `size` elements per spatial axis.
    pub fn size(size: impl Into<PerAxis>) -> InterpolateOptions {
        InterpolateOptions {
            target: Target::Size(size.into()),
            mode: Interpolation::Nearest,
            align_corners: false,
        }
    }

    /// To `floor(l · factor)` elements along every spatial axis, `1 / factor` elements of the input apart.
    pub fn factor(factor: f64) -> InterpolateOptions {
        InterpolateOptions {
            target: Target::Factor(factor),
            mode: Interpolation::Nearest,
            align_corners: false,
        }
    }

    fn resamplings(&self, x: Type) -> Result<Vec<Resampling>, Refusal> {
        let axes = x.shape.len().wrapping_sub(2);
        if !(1..=MAX_SPATIAL).contains(&axes) {
            return Err(Refusal::new(format!(
                "{}: it is [n, c, space..] with 1 to 3 spatial axes",
                x.shape
            )));
        }
        let weighted = matches!(self.mode, Interpolation::Linear | Interpolation::Cubic);
        if weighted && !x.dtype.is_float() {
            return Err(Refusal::new(format!("{} between elements", x.dtype)).help("cast to a float first"));
        }
        if self.mode == Interpolation::Cubic && axes != 2 {
            return Err(Refusal::new(format!(
                "cubic interpolation of {}: it has 2 spatial axes",
                x.shape
            )));
        }
        if self.align_corners && !weighted {
            return Err(
                Refusal::new("aligned corners").help("only linear and cubic interpolation align corners")
            );
        }
        let sizes = match self.target {
            Target::Size(size) => size.positive(axes, "size")?,
            Target::Factor(factor) => {
                let mut sizes = [0; MAX_SPATIAL];
                for (size, &extent) in sizes.iter_mut().zip(&x.shape[2..]) {
                    *size = (extent as f64 * factor).floor() as usize;
                }
                sizes
            }
        };
        let mut shape = x.shape;
        let mut resamplings = Vec::new();
        for (axis, &out) in sizes[..axes].iter().enumerate() {
            let extent = x.shape[axis + 2];
            if extent == 0 || out == 0 {
                return Err(Refusal::new(format!(
                    "{extent} elements to {out} along axis {}",
                    axis + 2
                )));
            }
            shape = Shape::checked(&shape.with(axis + 2, out))?;
            let step = match self.target {
                _ if self.align_corners && out > 1 => (extent - 1) as f64 / (out - 1) as f64,
                _ if self.align_corners => 0.0,
                Target::Factor(factor) => 1.0 / factor,
                Target::Size(_) => extent as f64 / out as f64,
            };
            resamplings.push(Resampling {
                axis: axis + 2,
                rank: axes + 2,
                extent,
                out,
                step,
                aligned: self.align_corners,
            });
        }
        Ok(resamplings)
    }
}

impl Tensor {
    /// x `[n, c, space..]` with 1 to 3 spatial axes, resampled along these. Keeps the dtype; weights of f16 and bf16 are f32.
    /// PyTorch's `nn.functional.interpolate`, with the same positions and, for cubic, the same kernel (Keys, Cubic Convolution
    /// Interpolation for Digital Image Processing, 1981); elements beyond the ends are those at the ends.
    ///
    /// ```no_run
    /// # use thalweg::{ops::{InterpolateOptions, Interpolation}, Tensor};
    /// # fn f(x: &Tensor) -> Tensor {
    /// x.interpolate(InterpolateOptions::size([64, 64]).mode(Interpolation::Linear))
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn interpolate(&self, options: InterpolateOptions) -> Tensor {
        let tag = OpTag::new("interpolate");
        let class = match options.mode {
            Interpolation::Nearest | Interpolation::NearestExact => Class::Kept,
            Interpolation::Linear | Interpolation::Cubic | Interpolation::Area => Class::Other,
        };
        checked_in(class, tag, [self], |[this], [ty]| {
            let axes = options.resamplings(ty)?;
            if options.mode == Interpolation::Area {
                let size = |axis: usize| axes.get(axis).map_or(0, |axis| axis.out);
                return Ok(tag.scope(|| match axes.len() {
                    1 => this.adaptive_avg_pool1d(size(0)),
                    2 => this.adaptive_avg_pool2d([size(0), size(1)]),
                    _ => this.adaptive_avg_pool3d([size(0), size(1), size(2)]),
                }));
            }
            let key: Vec<(usize, u64)> = axes.iter().map(|axis| (axis.out, axis.step.to_bits())).collect();
            let key = (options.mode, options.align_corners, key);
            Ok(composite_of("interpolate", &key, [this], [], tag, |[x], []| {
                let weighted = matches!(options.mode, Interpolation::Linear | Interpolation::Cubic);
                let x = if weighted {
                    cast(x, wide(ty.dtype), tag)
                } else {
                    x.clone()
                };
                // The last axis first, as in PyTorch: along the others whole lines are weighted.
                let out = axes
                    .iter()
                    .rev()
                    .fold(x, |x, axis| axis.resample(&x, options.mode, tag));
                cast(&out, ty.dtype, tag)
            }))
        })
    }
}

/// One axis on its way to another extent.
struct Resampling {
    axis: usize,
    rank: usize,
    extent: usize,
    out: usize,
    /// Elements of the input from one element of the output to the next.
    step: f64,
    aligned: bool,
}

impl Resampling {
    fn resample(&self, x: &Tensor, mode: Interpolation, tag: OpTag) -> Tensor {
        if let (Interpolation::Nearest | Interpolation::NearestExact, Some(times)) = (mode, self.times()) {
            return repeated(x, self.axis, self.axis + 1, times, tag);
        }
        // Positions are computed in the dtype of the weights; for nearest elements in f32, as in PyTorch.
        let dtype = match mode {
            Interpolation::Linear | Interpolation::Cubic => x.dtype().unwrap_or(DType::F32),
            Interpolation::Nearest | Interpolation::NearestExact | Interpolation::Area => DType::F32,
        };
        let at = cast(&along(x, self.rank, self.axis, self.out, tag), dtype, tag);
        match mode {
            Interpolation::Nearest | Interpolation::Area => self.take(x, &(at * self.step).floor(), 0, tag),
            Interpolation::NearestExact => self.take(x, &((at + 0.5) * self.step).floor(), 0, tag),
            Interpolation::Linear => {
                let position = self.position(at).maximum(0.0);
                let first = position.floor();
                let after = position - &first;
                let (low, high) = (self.take(x, &first, 0, tag), self.take(x, &first, 1, tag));
                low * (1.0 - &after) + high * after
            }
            Interpolation::Cubic => {
                let position = self.position(at);
                let first = position.floor();
                let after = position - &first;
                let before = 1.0 - &after;
                let weights = [
                    outer_tap(&(&after + 1.0)),
                    inner_tap(&after),
                    inner_tap(&before),
                    outer_tap(&(&before + 1.0)),
                ];
                let tap = |tap: usize| self.take(x, &first, tap as i64 - 1, tag) * &weights[tap];
                tap(0) + tap(1) + tap(2) + tap(3)
            }
        }
    }

    /// How often each element of the input comes, one time after the other, where that is what the nearest ones are: steps of powers of two
    /// are exact.
    fn times(&self) -> Option<usize> {
        let times = self.out / self.extent;
        let exact = self.out == self.extent * times && times.is_power_of_two();
        (exact && self.step == 1.0 / times as f64).then_some(times)
    }

    /// Where in the input the element `at` of the output lies.
    fn position(&self, at: Tensor) -> Tensor {
        match self.aligned {
            true => at * self.step,
            false => (at + 0.5) * self.step - 0.5,
        }
    }

    /// The elements `offset` behind `first`, those at the ends beyond them.
    fn take(&self, x: &Tensor, first: &Tensor, offset: i64, tag: OpTag) -> Tensor {
        let index = cast(first, DType::I64, tag) + offset;
        let index = index.maximum(0).minimum(self.extent as i64 - 1);
        taken(x, self.axis, &index, tag)
    }
}

const A: f64 = -0.75;

/// Keys' kernel up to 1 from the centre.
fn inner_tap(distance: &Tensor) -> Tensor {
    (distance * (A + 2.0) - (A + 3.0)) * distance * distance + 1.0
}

/// Keys' kernel from 1 to 2 from the centre.
fn outer_tap(distance: &Tensor) -> Tensor {
    ((distance * A - 5.0 * A) * distance + 8.0 * A) * distance - 4.0 * A
}
