//! Tensors from rules, and parts of matrices.

use super::axes::axis_in;
use super::operand::{IntoOperand, Scalar};
use super::shape::permuted;
use super::slice::sliced;
use crate::composite::{composite, composite_in};
use crate::context::Context;
use crate::graph::Op;
use crate::hal::DType;
use crate::tensor::failure::{Failure, Refusal};
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply, apply_in, index_like};

/// Column minus row of the last two axes, on the device of `x`.
fn diagonals(x: &Tensor, tag: OpTag) -> Tensor {
    let rank = x.rank().unwrap_or(0);
    index_like(x, rank - 1, tag) - index_like(x, rank - 2, tag)
}

/// An error of an op that has a device and no operands.
pub(crate) fn refused_on(cx: &Context, refusal: Refusal, tag: OpTag) -> Tensor {
    Tensor::failed(Failure::tagged(refusal, tag, Some(cx.device())))
}

fn count(start: f64, end: f64, step: f64) -> Result<usize, Refusal> {
    let count = ((end - start) / step).ceil().max(0.0);
    if step == 0.0 || !count.is_finite() || count > 1e15 {
        return Err(Refusal::new(format!("from {start} to {end} by {step}")));
    }
    Ok(count as usize)
}

impl Tensor {
    /// `start`, `start + step`, … up to `end`, which is not included: i64 from integers, f32 if one is a float (PyTorch's
    /// rule; NumPy gives f64). Element i is `start + i * step`, in f64 for [`arange_f64`](Tensor::arange_f64).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// assert_eq!(Tensor::arange(0, 6, 2, &cx).to_vec::<i64>()?, [0, 2, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// A step of 0, or more elements than memory holds.
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        cx: &Context,
    ) -> Tensor {
        let tag = OpTag::new("arange");
        let numbers = [start.into(), end.into(), step.into()];
        let float = numbers.iter().any(|number| matches!(number, Scalar::Float(_)));
        sequence(numbers, if float { DType::F32 } else { DType::I64 }, cx, tag)
    }

    /// As [`arange`](Tensor::arange), in f64.
    ///
    /// # Errors
    /// As [`arange`](Tensor::arange).
    #[track_caller]
    pub fn arange_f64(start: f64, end: f64, step: f64, cx: &Context) -> Tensor {
        sequence(
            [start, end, step].map(Scalar::Float),
            DType::F64,
            cx,
            OpTag::new("arange"),
        )
    }

    /// `count` numbers from `start` to `end`, both included, of a float dtype. The second half is counted from the end, so
    /// that both ends are exact.
    ///
    /// ```
    /// # use thalweg::{Context, DType, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 3, DType::F32, &cx).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float.
    #[track_caller]
    pub fn linspace(start: f64, end: f64, count: usize, dtype: DType, cx: &Context) -> Tensor {
        let tag = OpTag::new("linspace");
        let shape = match Shape::checked(&[count]) {
            Ok(shape) if dtype.is_float() => shape,
            Ok(_) => return refused_on(cx, Refusal::new(format!("{dtype} has no fractions")), tag),
            Err(refusal) => return refused_on(cx, refusal, tag),
        };
        let step = if count > 1 {
            (end - start) / (count - 1) as f64
        } else {
            0.0
        };
        let wide = super::formula::widened(dtype);
        let inputs = [start, end, step]
            .map(|number| Tensor::constant(shape, wide, Scalar::Float(number).cast_bits(wide)));
        composite_in(
            Some(cx),
            "linspace",
            &(count, dtype),
            inputs.each_ref(),
            tag,
            |[start, end, step]| {
                let index = apply_in(Some(cx), Op::Index { axis: 0, shape }, &[], tag);
                let last = count.saturating_sub(1) as i64;
                let from_start = start + step * index.cast(wide);
                let from_end = end - step * (last - &index).cast(wide);
                index
                    .lt(count.div_ceil(2))
                    .where_cond(from_start, from_end)
                    .cast(dtype)
            },
        )
    }

    /// Ones on the main diagonal of a matrix of `rows` by `columns`, else zeros.
    ///
    /// ```
    /// # use thalweg::{Context, DType, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// assert_eq!(Tensor::eye(2, 2, DType::U8, &cx).to_vec::<u8>()?, [1, 0, 0, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn eye(rows: usize, columns: usize, dtype: DType, cx: &Context) -> Tensor {
        let tag = OpTag::new("eye");
        match Shape::checked(&[rows, columns]) {
            Ok(shape) => composite_in(Some(cx), "eye", &(shape, dtype), [], tag, |[]| {
                let index = |axis| apply_in(Some(cx), Op::Index { axis, shape }, &[], tag);
                index(0).eq(index(1)).cast(dtype)
            }),
            Err(refusal) => refused_on(cx, refusal, tag),
        }
    }

    /// The element (i, j, …) of the result `k` is element i, j, … of vector `k`: coordinates of a grid, as views. Indexing is
    /// `ij`: axis k belongs to vector k.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::arange(0, 2, 1, &cx);
    /// let grid = Tensor::meshgrid(&[&x, &x]);
    /// assert_eq!(grid[0].to_vec::<i64>()?, [0, 0, 1, 1]);
    /// assert_eq!(grid[1].to_vec::<i64>()?, [0, 1, 0, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor that is no vector.
    #[track_caller]
    pub fn meshgrid(vectors: &[&Tensor]) -> Vec<Tensor> {
        let tag = OpTag::new("meshgrid");
        let mut extents = Vec::new();
        for vector in vectors {
            match vector.ty() {
                Ok(ty) if ty.shape.len() == 1 => extents.push(ty.shape[0]),
                Ok(ty) => {
                    let refusal = Refusal::new(format!("{} is no vector", ty.shape));
                    return vec![Tensor::refused(tag, refusal, vectors); vectors.len()];
                }
                Err(_) => return vec![(*vector).clone(); vectors.len()],
            }
        }
        let shape = match Shape::checked(&extents) {
            Ok(shape) => shape,
            Err(refusal) => return vec![Tensor::refused(tag, refusal, vectors); vectors.len()],
        };
        let grid = |(axis, vector): (usize, &&Tensor)| {
            let line = Shape::of(&vec![1; extents.len()]).with(axis, extents[axis]);
            let line = apply(Op::Reshape(line), &[vector], tag);
            super::expanded(&line, shape, tag)
        };
        vectors.iter().enumerate().map(grid).collect()
    }

    /// The matrices of the last two axes with zeros above diagonal `k` (0 is the main one, positive ones lie above).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.tril(0);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn tril(&self, k: i64) -> Tensor {
        triangle(self, k, OpTag::new("tril"), true)
    }

    /// The matrices of the last two axes with zeros below diagonal `k` (0 is the main one, positive ones lie above).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.triu(1);
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn triu(&self, k: i64) -> Tensor {
        triangle(self, k, OpTag::new("triu"), false)
    }

    /// Diagonal `k` of the matrices of axes `a` and `b`, as a new last axis; positive ones lie above the main one.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.diagonal(0, 0, 1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self, k: i64, a: i32, b: i32) -> Tensor {
        let tag = OpTag::new("diagonal");
        let Ok(ty) = self.ty() else { return self.clone() };
        let axes = axis_in(a, &ty.shape).and_then(|a| match axis_in(b, &ty.shape)? {
            same if same == a => Err(Refusal::new(format!("axis {a} of {} twice", ty.shape))),
            b => Ok((a, b)),
        });
        let (a, b) = match axes {
            Ok(axes) => axes,
            Err(refusal) => return Tensor::refused(tag, refusal, &[self]),
        };
        let (rows, columns) = (ty.shape[a] as i64, ty.shape[b] as i64);
        let length = (rows + k.min(0))
            .min(columns - k.max(0))
            .clamp(0, rows.min(columns)) as usize;
        let rest = (0..ty.shape.len()).filter(|&axis| axis != a && axis != b);
        let last = permuted(self, rest.chain([a, b]), tag);
        let kept = ty.shape.without(Axes::one(a).with(b));
        let flat = kept.inserted(kept.len(), (rows * columns) as usize);
        let flat = apply(Op::Reshape(flat), &[&last], tag);
        // Elements of a diagonal lie one row and one column apart.
        let start = if length == 0 {
            0
        } else {
            (-k.min(0) * columns + k.max(0)) as usize
        };
        sliced(&flat, tag, |axis, extent| match axis == kept.len() {
            true => (start, columns + 1, length),
            false => (0, 1, extent),
        })
    }

    /// Of a vector the matrix with it on diagonal `k`, of a matrix diagonal `k`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.diag(1);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of axes.
    #[track_caller]
    pub fn diag(&self, k: i64) -> Tensor {
        let tag = OpTag::new("diag");
        let Ok(ty) = self.ty() else { return self.clone() };
        match *ty.shape {
            [_, _] => tag.scope(|| self.diagonal(k, 0, 1)),
            [extent] => {
                let far = k.unsigned_abs() as usize;
                let size = extent.saturating_add(far);
                let square = match Shape::checked(&[size, size]) {
                    Ok(square) => square,
                    Err(refusal) => return Tensor::refused(tag, refusal, &[self]),
                };
                composite("diag", &k, [self], tag, |[x]| {
                    let (before, behind) = if k >= 0 { (far, 0) } else { (0, far) };
                    let row = x.pad(&[(before, behind)], super::PadMode::Constant(false.into()));
                    let rows = super::expanded(&row, square, tag);
                    diagonals(&rows, tag).eq(k).where_cond(&rows, 0)
                })
            }
            _ => {
                let refusal = Refusal::new(format!("{} is neither a vector nor a matrix", ty.shape));
                Tensor::refused(tag, refusal, &[self])
            }
        }
    }

    /// The sum of the main diagonal of the last two axes. Dtypes as [`sum`](Tensor::sum).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.trace();
    /// assert_eq!(y.to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        let tag = OpTag::new("trace");
        let held = super::precision::adjusted(super::precision::Class::Full, tag, [self]);
        composite("trace", &(), held.operands([self]), tag, |[x]| {
            x.diagonal(0, -2, -1).sum_axes(-1)
        })
    }
}

fn sequence([start, end, step]: [Scalar; 3], dtype: DType, cx: &Context, tag: OpTag) -> Tensor {
    let length = count(start.to_f64(), end.to_f64(), step.to_f64()).and_then(|count| {
        let wide = super::formula::widened(dtype);
        let wide = if dtype == DType::I64 { dtype } else { wide };
        Ok((
            Shape::checked(&[count])?,
            wide,
            start.bits(wide)?,
            step.bits(wide)?,
        ))
    });
    let (shape, wide, start, step) = match length {
        Ok(found) => found,
        Err(refusal) => return refused_on(cx, refusal, tag),
    };
    let inputs = [start, step].map(|bits| Tensor::constant(shape, wide, bits));
    composite_in(
        Some(cx),
        "arange",
        &(shape, dtype),
        inputs.each_ref(),
        tag,
        |[start, step]| {
            let index = apply_in(Some(cx), Op::Index { axis: 0, shape }, &[], tag);
            start + step * index.cast(wide)
        },
    )
}

fn triangle(x: &Tensor, k: i64, tag: OpTag, lower: bool) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    if ty.shape.len() < 2 {
        return Tensor::refused(tag, Refusal::new(format!("{} is no matrix", ty.shape)), &[x]);
    }
    let k = Tensor::constant(Shape::SCALAR, DType::I64, k as u64);
    composite("triangle", &lower, [x, &k], tag, |[x, k]| {
        let diagonals = diagonals(x, tag);
        let kept = if lower { diagonals.le(k) } else { diagonals.ge(k) };
        super::compare::select(&kept, x.into_operand(), false.into_operand(), tag)
    })
}
