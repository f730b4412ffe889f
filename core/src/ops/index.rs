//! Elements by indices in tensors.
//!
//! Indices are integers of any dtype. Negative ones count from the end. What they name is not known before the device runs, so
//! an index outside is no error: it reads 0, and what it would write is dropped (PyTorch raises an error). With
//! [`check_indices`](crate::Context::check_indices) it is one.

use super::axes::axis_in;
use super::operand::IntoOperand;
use super::precision::{Class, adjusted};
use super::promotion::{cast, expanded};
use super::slice::sliced;
use crate::composite::composite;
use crate::graph::{Op, ScatterMode, Type};
use crate::hal::DType;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// An index that no axis has.
const NOWHERE: i64 = i64::MIN;

/// [`Op::Scatter`]. Sums of 16-bit floats are kept in f32 and rounded once: backends have a routine for those.
fn combined(axis: usize, mode: ScatterMode, dtype: DType, inputs: [&Tensor; 3], tag: OpTag) -> Tensor {
    let scatter = Op::Scatter {
        axis: axis as u8,
        mode,
    };
    let [base, index, update] = inputs;
    let wide = match (mode, dtype) {
        (ScatterMode::Add, DType::F16 | DType::BF16) => DType::F32,
        _ => return apply(scatter, &inputs, tag),
    };
    let (base, update) = (cast(base, wide, tag), cast(update, wide, tag));
    cast(&apply(scatter, &[&base, index, &update], tag), dtype, tag)
}

/// The axis `at` of `shape`, as bounds of indices; those from `low` count.
pub(super) fn inside(at: usize, extent: usize, low: i64, except: Option<i64>) -> Op {
    Op::Indices {
        axis: at as u8,
        low,
        high: i64::try_from(extent).unwrap_or(i64::MAX),
        except,
    }
}

/// Indices of an axis as i64, counted from the start.
fn counted(index: &Tensor, axis: usize, extent: usize, tag: OpTag) -> Tensor {
    let index = cast(index, DType::I64, tag);
    let low = i64::try_from(extent).map_or(i64::MIN, |extent| -extent);
    let index = apply(inside(axis, extent, low, None), &[&index], tag);
    index.lt(0).where_cond(&index + extent, &index)
}

/// Indices without those that repeat others in memory: one along each axis along which an expanded tensor stands still.
fn distinct(index: &Tensor, tag: OpTag) -> Tensor {
    match index.strides() {
        Some(strides) if strides.contains(&0) => sliced(index, tag, |at, extent| {
            (0, 1, if strides[at] == 0 { extent.min(1) } else { extent })
        }),
        _ => index.clone(),
    }
}

fn integers(index: &Tensor) -> Result<Type, Refusal> {
    match index.ty() {
        Ok(ty) if ty.dtype.is_integer() => Ok(ty),
        Ok(ty) => Err(Refusal::new(format!("indices of {}", ty.dtype)).help("cast them to i64")),
        // The op that uses them passes the error on.
        Err(_) => Ok(Type::new(Shape::SCALAR, DType::I64)),
    }
}

/// Runs `run` with the resolved axis and the types of `x` and `index`.
fn along(
    x: &Tensor,
    axis: i32,
    index: &Tensor,
    tag: OpTag,
    run: impl FnOnce(usize, Type, Type) -> Result<Tensor, Refusal>,
) -> Tensor {
    if index.ty().is_err() {
        return index.clone();
    }
    let Ok(ty) = x.ty() else { return x.clone() };
    axis_in(axis, &ty.shape)
        .and_then(|axis| run(axis, ty, integers(index)?))
        .unwrap_or_else(|refusal| Tensor::refused(tag, refusal, &[x, index]))
}

/// The first elements of `x` in the extents of `shape`, but whole along `axis`.
fn cut(x: &Tensor, shape: Shape, axis: Option<usize>, tag: OpTag) -> Tensor {
    match x.ty() {
        Ok(ty) if (0..shape.len()).all(|at| Some(at) == axis || ty.shape[at] == shape[at]) => x.clone(),
        _ => sliced(x, tag, |at, extent| {
            (0, 1, if Some(at) == axis { extent } else { shape[at] })
        }),
    }
}

/// Whether `inner` reaches nowhere beyond `outer`, but along `axis`.
fn covers(outer: &Shape, inner: &Shape, axis: Option<usize>) -> Result<(), Refusal> {
    let fits =
        outer.len() == inner.len() && (0..outer.len()).all(|at| Some(at) == axis || inner[at] <= outer[at]);
    if fits {
        return Ok(());
    }
    Err(Refusal::new(format!("indices of the shape {inner} for {outer}")))
}

/// A vector of indices as wide as `shape` on the other axes.
fn spread(index: &Tensor, shape: Shape, axis: usize, tag: OpTag) -> Tensor {
    let count = index.elements().unwrap_or(0);
    let line = Shape::of(&vec![1; shape.len()]).with(axis, count);
    let line = apply(Op::Reshape(line), &[index], tag);
    apply(Op::Expand(shape.with(axis, count)), &[&line], tag)
}

impl Tensor {
    /// `out[.., i, ..] = self[.., index[.., i, ..], ..]` along `axis`; the result has the shape of `index`, whose other
    /// extents are at most those of `self`. NumPy's `take_along_axis`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let i = Tensor::from_slice(&[1_i64, 0], [2, 1], &cx);
    /// assert_eq!(x.gather(1, &i).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Indices that are no integers; a shape that does not fit.
    #[track_caller]
    pub fn gather(&self, axis: i32, index: &Tensor) -> Tensor {
        let tag = OpTag::new("gather");
        along(self, axis, index, tag, |axis, ty, indices| {
            covers(&ty.shape, &indices.shape, Some(axis))?;
            let (index, attributes) = (&distinct(index, tag), (axis, indices.shape));
            Ok(composite(
                "gather",
                &attributes,
                [self, index],
                tag,
                |[x, index]| {
                    let x = cut(x, indices.shape, Some(axis), tag);
                    let index = counted(index, axis, ty.shape[axis], tag);
                    let index = expanded(&index, indices.shape, tag);
                    apply(Op::Gather { axis: axis as u8 }, &[&x, &index], tag)
                },
            ))
        })
    }

    /// As [`gather`](Tensor::gather), under NumPy's name and order of arguments.
    #[track_caller]
    pub fn take_along_axis(&self, index: &Tensor, axis: i32) -> Tensor {
        self.gather(axis, index)
    }

    /// The slices `index[0]`, `index[1]`, … along `axis`, one after the other; `index` is a vector.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let i = Tensor::from_slice(&[1_i64, 1], [2], &cx);
    /// assert_eq!(x.index_select(0, &i).to_vec::<f32>()?, [3.0, 4.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Indices that are no integers or no vector.
    #[track_caller]
    pub fn index_select(&self, axis: i32, index: &Tensor) -> Tensor {
        let tag = OpTag::new("index_select");
        along(self, axis, index, tag, |axis, ty, indices| {
            if indices.shape.len() != 1 {
                return Err(Refusal::new(format!(
                    "indices of the shape {}, not a vector",
                    indices.shape
                )));
            }
            Ok(composite(
                "index_select",
                &axis,
                [self, index],
                tag,
                |[x, index]| {
                    let index = counted(index, axis, ty.shape[axis], tag);
                    let index = spread(&index, ty.shape, axis, tag);
                    apply(Op::Gather { axis: axis as u8 }, &[x, &index], tag)
                },
            ))
        })
    }

    /// Elements of all of `self` in row-major order; the result has the shape of `index`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let i = Tensor::from_slice(&[-1_i64, 0], [2], &cx);
    /// assert_eq!(x.take(&i).to_vec::<f32>()?, [4.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Indices that are no integers.
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Tensor {
        let tag = OpTag::new("take");
        let flat = tag.scope(|| self.flatten());
        along(&flat, 0, index, tag, |_, ty, indices| {
            Ok(composite("take", &(), [&flat, index], tag, |[x, index]| {
                let index = counted(&index.flatten(), 0, ty.shape[0], tag);
                apply(
                    Op::Reshape(indices.shape),
                    &[&apply(Op::Gather { axis: 0 }, &[x, &index], tag)],
                    tag,
                )
            }))
        })
    }

    /// `self` with `source[.., i, ..]` at `[.., index[.., i, ..], ..]` along `axis`; the last of several for one place stays.
    /// `source` is a number or a tensor with at least the extents of `index`, and becomes of the dtype of `self`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let i = Tensor::from_slice(&[1_i64, 0], [2, 1], &cx);
    /// assert_eq!(x.scatter(1, &i, 9).to_vec::<f32>()?, [1.0, 9.0, 9.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Indices that are no integers; shapes that do not fit; a number that the dtype does not hold.
    #[track_caller]
    pub fn scatter<'a>(&self, axis: i32, index: &Tensor, source: impl IntoOperand<'a>) -> Tensor {
        scatter(self, axis, index, source, ScatterMode::Set, OpTag::new("scatter"))
    }

    /// As [`scatter`](Tensor::scatter), adding to what is there, in the order of the indices.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let i = Tensor::from_slice(&[1_i64, 0], [2, 1], &cx);
    /// assert_eq!(x.scatter_add(1, &i, 9).to_vec::<f32>()?, [1.0, 11.0, 12.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_add<'a>(&self, axis: i32, index: &Tensor, source: impl IntoOperand<'a>) -> Tensor {
        let tag = OpTag::new("scatter_add");
        let held = adjusted(Class::Other, tag, [self]);
        let [this] = held.operands([self]);
        scatter(this, axis, index, source, ScatterMode::Add, tag)
    }

    /// As [`scatter`](Tensor::scatter), keeping the greater of what is there and what comes; NaN wins.
    #[track_caller]
    pub fn scatter_max<'a>(&self, axis: i32, index: &Tensor, source: impl IntoOperand<'a>) -> Tensor {
        scatter(
            self,
            axis,
            index,
            source,
            ScatterMode::Max,
            OpTag::new("scatter_max"),
        )
    }

    /// As [`scatter`](Tensor::scatter), keeping the lesser of what is there and what comes; NaN wins.
    #[track_caller]
    pub fn scatter_min<'a>(&self, axis: i32, index: &Tensor, source: impl IntoOperand<'a>) -> Tensor {
        scatter(
            self,
            axis,
            index,
            source,
            ScatterMode::Min,
            OpTag::new("scatter_min"),
        )
    }

    /// `self` with slice i of `source` added to slice `index[i]` along `axis`; `index` is a vector.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let i = Tensor::from_slice(&[0_i64, 0], [2], &cx);
    /// assert_eq!(x.index_add(0, &i, &x).to_vec::<f32>()?, [5.0, 8.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`scatter`](Tensor::scatter); `source` has another shape than those slices.
    #[track_caller]
    pub fn index_add(&self, axis: i32, index: &Tensor, source: &Tensor) -> Tensor {
        let tag = OpTag::new("index_add");
        let held = adjusted(Class::Other, tag, [self]);
        let [this] = held.operands([self]);
        slices(this, axis, index, source, ScatterMode::Add, tag)
    }

    /// `self` with slice i of `source` in place of slice `index[i]` along `axis`; `index` is a vector.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let i = Tensor::from_slice(&[1_i64, 0], [2], &cx);
    /// assert_eq!(x.index_copy(0, &i, &x).to_vec::<f32>()?, [3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`index_add`](Tensor::index_add).
    #[track_caller]
    pub fn index_copy(&self, axis: i32, index: &Tensor, source: &Tensor) -> Tensor {
        slices(
            self,
            axis,
            index,
            source,
            ScatterMode::Set,
            OpTag::new("index_copy"),
        )
    }

    /// 1 at the index, 0 elsewhere, along a new last axis of `classes`; as i64. An index outside gives zeros alone.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let i = Tensor::from_slice(&[2_i64, 0], [2], &cx);
    /// assert_eq!(i.one_hot(3).to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Indices that are no integers.
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> Tensor {
        let tag = OpTag::new("one_hot");
        let Ok(ty) = self.ty() else { return self.clone() };
        let shape = [&ty.shape[..], &[classes]].concat();
        match integers(self).and_then(|_| Shape::checked(&shape)) {
            Ok(shape) => composite("one_hot", &classes, [self], tag, |[x]| {
                let index = apply(
                    inside(ty.shape.len(), classes, 0, None),
                    &[&cast(x, DType::I64, tag)],
                    tag,
                );
                let wide = super::expanded(&index.unsqueeze(-1), shape, tag);
                wide.eq(crate::tensor::index_like(&wide, ty.shape.len(), tag))
                    .cast(DType::I64)
            }),
            Err(refusal) => Tensor::refused(tag, refusal, &[self]),
        }
    }
}

fn scatter<'a>(
    x: &Tensor,
    axis: i32,
    index: &Tensor,
    source: impl IntoOperand<'a>,
    mode: ScatterMode,
    tag: OpTag,
) -> Tensor {
    let source = source.into_operand();
    along(x, axis, index, tag, |axis, ty, indices| {
        covers(&ty.shape, &indices.shape, Some(axis))?;
        let source = match source.tensor() {
            None => match super::brought(&source, Type::new(indices.shape, ty.dtype), tag) {
                Ok(source) => source.into_owned(),
                Err(stop) => return Ok(stop.tensor(tag, &[x.into_operand()])),
            },
            Some(source) => match source.ty() {
                Ok(given) => {
                    covers(&given.shape, &indices.shape, None)?;
                    source.clone()
                }
                Err(_) => return Ok(source.clone()),
            },
        };
        let index = &distinct(index, tag);
        Ok(composite(
            "scatter",
            &(axis, mode, indices.shape),
            [x, index, &source],
            tag,
            |[x, index, source]| {
                let source = cut(&cast(source, ty.dtype, tag), indices.shape, None, tag);
                let index = expanded(&counted(index, axis, ty.shape[axis], tag), indices.shape, tag);
                let whole = ty.shape.with(axis, indices.shape[axis]);
                let around = |x: &Tensor, bits: u64| match whole == indices.shape {
                    true => x.clone(),
                    false => {
                        let low = Shape::of(&vec![0; whole.len()]);
                        apply(
                            Op::Pad {
                                low,
                                shape: whole,
                                bits,
                            },
                            &[x],
                            tag,
                        )
                    }
                };
                // Where there is no index, one that is nowhere.
                let inputs = [x, &around(&index, NOWHERE as u64), &around(&source, 0)];
                combined(axis, mode, ty.dtype, inputs, tag)
            },
        ))
    })
}

fn slices(x: &Tensor, axis: i32, index: &Tensor, source: &Tensor, mode: ScatterMode, tag: OpTag) -> Tensor {
    if source.ty().is_err() {
        return source.clone();
    }
    along(x, axis, index, tag, |axis, ty, indices| {
        let shape = source.ty().map_or(ty.shape, |ty| ty.shape);
        if indices.shape.len() != 1 || shape != ty.shape.with(axis, indices.shape[0]) {
            return Err(Refusal::new(format!(
                "{shape} at indices of the shape {} along axis {axis} of {}",
                indices.shape, ty.shape
            )));
        }
        Ok(composite(
            "slices",
            &(axis, mode),
            [x, index, source],
            tag,
            |[x, index, source]| {
                let index = spread(&counted(index, axis, ty.shape[axis], tag), ty.shape, axis, tag);
                combined(
                    axis,
                    mode,
                    ty.dtype,
                    [x, &index, &cast(source, ty.dtype, tag)],
                    tag,
                )
            },
        ))
    })
}
