//! Variance, norms, log-sum-exp.

use super::axes::IntoAxes;
use super::formula::widened;
use super::promotion::{cast, float_of};
use super::reduce::{counted, kept, mean, reduce, resolved};
use crate::composite::{composite, composite_with_gradient};
use crate::hal::ir::ReduceOp;
use crate::ops::precision::{self, Class};
use crate::tensor::Tensor;
use crate::tensor::shape::Axes;
use crate::tensor::tag::OpTag;

/// The sum of squared distances from the mean over `count - correction`, or its root.
fn variance(
    x: &Tensor,
    axes: impl IntoAxes,
    correction: usize,
    keep: bool,
    root: bool,
    tag: OpTag,
) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x]);
    let [x] = held.operands([x]);
    let axes = match resolved(x, axes, tag) {
        Ok(axes) => axes,
        Err(failed) => return *failed,
    };
    let Ok(ty) = x.ty() else { return x.clone() };
    composite("variance", &(axes, correction, keep, root), [x], tag, |[x]| {
        let wide = cast(x, widened(ty.dtype), tag);
        let distance = &wide - mean(&wide, ReduceOp::Sum, axes, true, tag);
        let squares = reduce(&(&distance * &distance), ReduceOp::Sum, axes, keep, tag);
        let divisor = counted(&ty.shape, axes).saturating_sub(correction);
        let variance = squares / divisor as f64;
        cast(
            &if root { variance.sqrt() } else { variance },
            float_of(ty.dtype),
            tag,
        )
    })
}

fn norm(x: &Tensor, axes: impl IntoAxes, p: f64, keep: bool, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x]);
    let [x] = held.operands([x]);
    let axes = match resolved(x, axes, tag) {
        Ok(axes) => axes,
        Err(failed) => return *failed,
    };
    let Ok(ty) = x.ty() else { return x.clone() };
    let body = move |x: &Tensor| {
        let size = cast(x, widened(ty.dtype), tag).abs();
        let sum = |x: &Tensor| reduce(x, ReduceOp::Sum, axes, keep, tag);
        let result = match p {
            0.0 => sum(&cast(&size.ne(0.0), widened(ty.dtype), tag)),
            1.0 => sum(&size),
            2.0 => sum(&(&size * &size)).sqrt(),
            f64::INFINITY => reduce(&size, ReduceOp::Max, axes, keep, tag),
            f64::NEG_INFINITY => reduce(&size, ReduceOp::Min, axes, keep, tag),
            _ => sum(&size.pow(p)).pow(1.0 / p),
        };
        cast(&result, float_of(ty.dtype), tag)
    };
    if p != 2.0 {
        return composite("norm", &(axes, p.to_bits(), keep), [x], tag, |[x]| body(x));
    }
    // At 0 the root has no derivative; PyTorch takes 0.
    let rule = move |[x]: &[Tensor; 1], y: &Tensor, gradient: &Tensor| {
        let gradient = composite(
            "norm gradient",
            &(axes, keep),
            [x, y, gradient],
            tag,
            |[x, y, gradient]| {
                let (y, gradient) = match keep {
                    true => (y.clone(), gradient.clone()),
                    false => (kept(y, x, axes, tag), kept(gradient, x, axes, tag)),
                };
                let zero = y.eq(0.0);
                zero.where_cond(0.0, x * (gradient / zero.where_cond(1.0, &y)))
            },
        );
        [Some(gradient)]
    };
    composite_with_gradient("norm", &(axes, p.to_bits(), keep), [x], tag, |[x]| body(x), rule)
}

fn logsumexp(x: &Tensor, axes: impl IntoAxes, keep: bool, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x]);
    let [x] = held.operands([x]);
    let axes = match resolved(x, axes, tag) {
        Ok(axes) => axes,
        Err(failed) => return *failed,
    };
    let Ok(ty) = x.ty() else { return x.clone() };
    let finite = |x: &Tensor| x.abs().eq(f64::INFINITY).where_cond(0.0, x);
    let body = move |[x]: &[Tensor; 1]| {
        let wide = cast(x, widened(ty.dtype), tag);
        let greatest = finite(&reduce(&wide, ReduceOp::Max, axes, true, tag));
        let sum = reduce(&(&wide - &greatest).exp(), ReduceOp::Sum, axes, true, tag);
        let result = cast(&(sum.log() + greatest), float_of(ty.dtype), tag);
        if keep { result } else { dropped(&result, axes, tag) }
    };
    let rule = move |[x]: &[Tensor; 1], y: &Tensor, gradient: &Tensor| {
        let gradient = composite(
            "logsumexp gradient",
            &(axes, keep),
            [x, y, gradient],
            tag,
            |[x, y, gradient]| {
                let (y, gradient) = match keep {
                    true => (y.clone(), gradient.clone()),
                    false => (kept(y, x, axes, tag), kept(gradient, x, axes, tag)),
                };
                gradient * (x - finite(&y)).exp()
            },
        );
        [Some(gradient)]
    };
    composite_with_gradient("logsumexp", &(axes, keep), [x], tag, body, rule)
}

/// Without `axes`, which have extent 1.
fn dropped(x: &Tensor, axes: Axes, tag: OpTag) -> Tensor {
    tag.scope(|| x.squeeze_axes(axes.iter().map(|axis| axis as i32).collect::<Vec<i32>>()))
}

impl Tensor {
    /// The variance: squared distances from the mean, summed and divided by the number of elements less `correction`.
    /// PyTorch's default is 1 (the estimate from a sample), NumPy's 0. NaN where nothing is left to divide by. Computed in
    /// f64 for f64, else in f32; integers and bool give f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.var(0);
    /// assert_eq!(y.to_vec::<f32>()?, [1.25]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn var(&self, correction: usize) -> Tensor {
        variance(self, .., correction, false, false, OpTag::new("var"))
    }

    /// As [`var`](Tensor::var) along `axes`, which disappear.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.var_axes(1, 1);
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn var_axes(&self, axes: impl IntoAxes, correction: usize) -> Tensor {
        variance(self, axes, correction, false, false, OpTag::new("var"))
    }

    /// As [`var_axes`](Tensor::var_axes), with extents of 1 in place of the axes.
    #[track_caller]
    pub fn var_keepdims(&self, axes: impl IntoAxes, correction: usize) -> Tensor {
        variance(self, axes, correction, true, false, OpTag::new("var"))
    }

    /// The standard deviation: the root of [`var`](Tensor::var).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.std(0);
    /// assert_eq!(y.to_vec::<f32>()?, [1.25_f32.sqrt()]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn std(&self, correction: usize) -> Tensor {
        variance(self, .., correction, false, true, OpTag::new("std"))
    }

    /// As [`std`](Tensor::std) along `axes`, which disappear.
    #[track_caller]
    pub fn std_axes(&self, axes: impl IntoAxes, correction: usize) -> Tensor {
        variance(self, axes, correction, false, true, OpTag::new("std"))
    }

    /// As [`std_axes`](Tensor::std_axes), with extents of 1 in place of the axes.
    #[track_caller]
    pub fn std_keepdims(&self, axes: impl IntoAxes, correction: usize) -> Tensor {
        variance(self, axes, correction, true, true, OpTag::new("std"))
    }

    /// The p-norm of all elements as one vector: `(Σ |x|^p)^(1/p)`; infinity gives the greatest `|x|`, -infinity the least, 0
    /// the number of elements that are not 0. The gradient of the 2-norm at 0 is 0. Computed in f64 for f64, else in
    /// f32; integers and bool give f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.norm(1.0);
    /// assert_eq!(y.to_vec::<f32>()?, [10.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn norm(&self, p: f64) -> Tensor {
        norm(self, .., p, false, OpTag::new("norm"))
    }

    /// As [`norm`](Tensor::norm) along `axes`, which disappear.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.norm_axes(1, f64::INFINITY);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_axes(&self, axes: impl IntoAxes, p: f64) -> Tensor {
        norm(self, axes, p, false, OpTag::new("norm"))
    }

    /// As [`norm_axes`](Tensor::norm_axes), with extents of 1 in place of the axes.
    #[track_caller]
    pub fn norm_keepdims(&self, axes: impl IntoAxes, p: f64) -> Tensor {
        norm(self, axes, p, true, OpTag::new("norm"))
    }

    /// `ln Σ e^x` without overflow: -inf of none and of -inf alone. Computed in f64 for f64, else in f32; integers give f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1000.0_f32, f32::NEG_INFINITY], [2], &cx);
    /// assert_eq!(x.logsumexp().to_vec::<f32>()?, [1000.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(&self) -> Tensor {
        logsumexp(self, .., false, OpTag::new("logsumexp"))
    }

    /// As [`logsumexp`](Tensor::logsumexp) along `axes`, which disappear.
    #[track_caller]
    pub fn logsumexp_axes(&self, axes: impl IntoAxes) -> Tensor {
        logsumexp(self, axes, false, OpTag::new("logsumexp"))
    }

    /// As [`logsumexp_axes`](Tensor::logsumexp_axes), with extents of 1 in place of the axes.
    #[track_caller]
    pub fn logsumexp_keepdims(&self, axes: impl IntoAxes) -> Tensor {
        logsumexp(self, axes, true, OpTag::new("logsumexp"))
    }
}
