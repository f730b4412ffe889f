//! Tensors from numbers.

use super::element::{Element, one};
use super::failure::{Failure, Refusal};
use super::host::in_place;
use super::layout::Layout;
use super::shape::{IntoShape, Shape};
use super::tag::OpTag;
use super::{Repr, Shared, Storage, Tensor, Value, apply_in, hal_tag};
use crate::context::Context;
use crate::engine::Written;
use crate::error::Result;
use crate::exec;
use crate::graph::Op;
use crate::hal::{Buffer, DType, Kind};
use crate::record::switch;
use std::sync::Arc;

/// A tensor of elements that are in `buffer`, row-major.
pub(super) fn imported(buffer: Buffer, shape: Shape, dtype: DType, cx: &Context, tag: OpTag) -> Tensor {
    let storage = Storage {
        _listed: cx.engine().list(&tag, &buffer),
        buffer,
        context: cx.clone(),
        written: Written::by_host(),
    };
    Tensor::from_value(Value {
        storage: Shared::new(storage),
        layout: Layout::contiguous(shape),
        dtype,
    })
}

fn shaped(shape: impl IntoShape, elements: usize) -> std::result::Result<Shape, Refusal> {
    let shape = shape.into_shape()?;
    if shape.elements() == elements {
        return Ok(shape);
    }
    Err(Refusal::new(format!(
        "{elements} elements for the shape {shape}, which has {}",
        shape.elements()
    )))
}

impl Tensor {
    fn made(tag: OpTag, cx: &Context, made: Result<Tensor>) -> Tensor {
        made.unwrap_or_else(|error| Tensor::of_error(tag, error, Some(cx)))
    }

    fn ill_shaped(tag: OpTag, cx: &Context, refusal: Refusal) -> Tensor {
        Tensor::failed(Failure::tagged(refusal, tag, Some(cx.device())))
    }

    /// A tensor with a copy of `data`, row-major. The call returns when the copy is done.
    ///
    /// ```
    /// use thalweg::{Context, Tensor};
    /// let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor carries one when the shape has another number of elements, or memory does not suffice.
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: impl IntoShape, cx: &Context) -> Tensor {
        let tag = OpTag::new("from_slice");
        match shaped(shape, data.len()) {
            Ok(shape) => Tensor::made(tag, cx, upload(&T::raw_slice(data), shape, T::DTYPE, cx, tag)),
            Err(refusal) => Tensor::ill_shaped(tag, cx, refusal),
        }
    }

    /// A tensor in the memory of `data`, row-major, without a copy where the device shares the host's memory.
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl IntoShape, cx: &Context) -> Tensor {
        let tag = OpTag::new("from_vec");
        let shape = match shaped(shape, data.len()) {
            Ok(shape) => shape,
            Err(refusal) => return Tensor::ill_shaped(tag, cx, refusal),
        };
        Tensor::made(
            tag,
            cx,
            Tensor::in_vec(T::into_raw(data), (shape, T::DTYPE), cx, tag),
        )
    }

    /// A tensor in memory that `owner` shows, row-major, without a copy where the device shares the host's memory: an
    /// `Arc<[T]>`, a `&'static [T]`, a type of yours around a part of a larger array or a mapped file. The owner is dropped when
    /// no tensor and no work needs the memory any more.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use thalweg::{Context, Tensor};
    /// struct Row(Arc<[f32]>, usize);
    /// impl AsRef<[f32]> for Row {
    ///     fn as_ref(&self) -> &[f32] {
    ///         &self.0[self.1 * 2..][..2]
    ///     }
    /// }
    /// let cx = Context::new("cpu")?;
    /// let data: Arc<[f32]> = Arc::new([1.0, 2.0, 3.0, 4.0]);
    /// let rows = [0, 1].map(|row| Tensor::from_owner(Row(Arc::clone(&data), row), 2, &cx));
    /// assert_eq!((&rows[0] * &rows[1]).to_vec::<f32>()?, [3.0, 8.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    #[track_caller]
    pub fn from_owner<T, O>(owner: O, shape: impl IntoShape, cx: &Context) -> Tensor
    where
        T: Element,
        O: AsRef<[T]> + Send + Sync + 'static,
    {
        let tag = OpTag::new("from_owner");
        // The memory may be part of the owner itself, which moves no more, and an owner may show another each time.
        let owner = Arc::new(owner);
        let data: &[T] = (*owner).as_ref();
        let shape = match shaped(shape, data.len()) {
            Ok(shape) => shape,
            Err(refusal) => return Tensor::ill_shaped(tag, cx, refusal),
        };
        // SAFETY: as many elements as the shape has, checked above, which the owner lends as long as it lives.
        match unsafe {
            in_place(
                data.as_ptr().cast_mut().cast(),
                &owner,
                (shape, T::DTYPE),
                cx,
                tag,
            )
        } {
            Some(tensor) => tensor,
            None => Tensor::made(tag, cx, upload(&T::raw_slice(data), shape, T::DTYPE, cx, tag)),
        }
    }

    /// A tensor without axes.
    #[track_caller]
    pub fn scalar<T: Element>(value: T, cx: &Context) -> Tensor {
        Tensor::filled(OpTag::new("scalar"), (), T::DTYPE, value.bits(), cx)
    }

    /// A tensor with `value` everywhere.
    ///
    /// # Errors
    /// The tensor carries one when memory does not suffice.
    #[track_caller]
    pub fn full<T: Element>(shape: impl IntoShape, value: T, cx: &Context) -> Tensor {
        Tensor::filled(OpTag::new("full"), shape, T::DTYPE, value.bits(), cx)
    }

    /// A tensor of zeros.
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor};
    /// let cx = Context::new("cpu")?;
    /// assert_eq!(Tensor::zeros([2, 1], DType::I32, &cx).to_vec::<i32>()?, [0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::full`].
    #[track_caller]
    pub fn zeros(shape: impl IntoShape, dtype: DType, cx: &Context) -> Tensor {
        Tensor::filled(OpTag::new("zeros"), shape, dtype, 0, cx)
    }

    /// A tensor of ones.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    #[track_caller]
    pub fn ones(shape: impl IntoShape, dtype: DType, cx: &Context) -> Tensor {
        Tensor::filled(OpTag::new("ones"), shape, dtype, one(dtype), cx)
    }

    /// A tensor with `value` everywhere, of the shape, the dtype's Rust type aside, and the device of this one.
    ///
    /// # Errors
    /// The first error on the way to this tensor; as [`Tensor::full`].
    #[track_caller]
    pub fn full_like<T: Element>(&self, value: T) -> Tensor {
        self.filled_like(OpTag::new("full_like"), Some(T::DTYPE), |_| value.bits())
    }

    /// A tensor of zeros of the shape, the dtype and the device of this one.
    ///
    /// # Errors
    /// As [`Tensor::full_like`].
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.filled_like(OpTag::new("zeros_like"), None, |_| 0)
    }

    /// A tensor of ones of the shape, the dtype and the device of this one.
    ///
    /// # Errors
    /// As [`Tensor::full_like`].
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.filled_like(OpTag::new("ones_like"), None, one)
    }

    fn filled(tag: OpTag, shape: impl IntoShape, dtype: DType, bits: u64, cx: &Context) -> Tensor {
        match shape.into_shape() {
            Ok(shape) => apply_in(Some(cx), Op::Full { dtype, bits, shape }, &[], tag),
            Err(refusal) => Tensor::ill_shaped(tag, cx, refusal),
        }
    }

    fn filled_like(&self, tag: OpTag, dtype: Option<DType>, bits: impl Fn(DType) -> u64) -> Tensor {
        let ty = match self.ty() {
            Ok(ty) => ty,
            Err(_) => return self.clone(),
        };
        let dtype = dtype.unwrap_or(ty.dtype);
        match self.context() {
            Some(cx) => Tensor::filled(tag, ty.shape, dtype, bits(dtype), cx),
            None => Tensor::constant(ty.shape, dtype, bits(dtype)),
        }
    }

    /// The same tensor on the device of `cx`; itself when it is there already. The call waits for the copy.
    ///
    /// # Errors
    /// The first error on the way to this tensor; a traced tensor stays on its device; memory does not suffice.
    #[track_caller]
    pub fn to(&self, cx: &Context) -> Tensor {
        let tag = OpTag::new("to");
        match self.context() {
            Some(own) if own.device() == cx.device() => return self.clone(),
            _ => {}
        }
        let copied = match &self.repr {
            Repr::Failed(_) => return self.clone(),
            Repr::Constant(constant) => exec::full(cx, *constant, tag).map(Tensor::from_value),
            Repr::Value(_) | Repr::Lazy(_) => {
                exec::evaluate(self, tag).and_then(|value| move_to(value, cx, tag))
            }
        };
        match copied {
            Ok(copied) => Tensor {
                history: self.history.clone(),
                ..copied
            },
            Err(error) => Tensor::of_error(tag, error, Some(cx)),
        }
    }
}

/// Copies elements to new memory and waits for that.
pub(super) fn upload<T: crate::hal::Element>(
    data: &[T],
    shape: Shape,
    dtype: DType,
    cx: &Context,
    tag: OpTag,
) -> Result<Tensor> {
    let engine = cx.engine();
    // Where kernels run on the host's threads, a copy beside them takes those away from them: it waits for its turn.
    let current;
    let stream = if cx.device().properties().kind == Kind::Cpu {
        current = cx.stream()?;
        &current
    } else {
        engine.copies()?
    };
    let submit = || -> Result<Buffer> {
        let buffer = engine.alloc(stream, size_of_val(data) as u64, hal_tag(&tag))?;
        if !data.is_empty() {
            buffer.upload(stream, data)?;
        }
        Ok(buffer)
    };
    let buffer = match switch::seen() {
        None => submit()?,
        Some(on) => engine.recorded_work(on, stream, tag.of_record(), submit)?,
    };
    Ok(imported(buffer, shape, dtype, cx, tag))
}

/// Copies a value to another device through the host.
fn move_to(value: Value, cx: &Context, tag: OpTag) -> Result<Tensor> {
    let (shape, dtype) = (value.layout.shape, value.dtype);
    upload(&exec::download_bytes(value, tag)?, shape, dtype, cx, tag)
}
