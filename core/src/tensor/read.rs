//! Numbers from tensors.

use super::element::Element;
use super::failure::{Failure, Refusal};
use super::tag::OpTag;
use super::{Repr, Tensor};
use crate::context::Context;
use crate::error::Result;
use crate::exec;
use thalweg_hal::for_dtype;

impl Tensor {
    /// The elements, row-major. Waits for them.
    ///
    /// # Errors
    /// The first error on the way to this tensor; another dtype than that of `T`; a traced tensor has no value yet.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.read(OpTag::uncounted("to_vec"))
    }

    /// The only element. Waits for it.
    ///
    /// ```
    /// use thalweg::{Context, Tensor};
    /// let cx = Context::new("cpu")?;
    /// assert_eq!(Tensor::scalar(2.5_f64, &cx).item::<f64>()?, 2.5);
    /// let error = Tensor::scalar(2.5_f64, &cx).item::<i32>().unwrap_err();
    /// assert!(error.to_string().starts_with("item: the tensor is f64, not i32"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`]; more or fewer elements than one.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        self.only(OpTag::uncounted("item"))
    }

    /// The only element as f64, whatever the dtype; rounded where f64 is too narrow. Waits for it.
    ///
    /// # Errors
    /// As [`Tensor::item`], but for the dtype.
    #[track_caller]
    pub fn to_scalar(&self) -> Result<f64> {
        let tag = OpTag::uncounted("to_scalar");
        for_dtype!(self.dtype()?, T => Ok(self.only::<T>(tag)?.to_f64()))
    }

    fn only<T: Element>(&self, tag: OpTag) -> Result<T> {
        let shape = self.shape()?;
        if shape.elements() != 1 {
            let text = format!("the shape {shape} has {} elements, not one", shape.elements());
            return Err(self.refuse(
                tag,
                Refusal::new(text).help("reduce it, or read it with `to_vec`"),
            ));
        }
        let elements = self.read(tag)?;
        Ok(elements.into_iter().next().unwrap_or_default())
    }

    fn read<T: Element>(&self, tag: OpTag) -> Result<Vec<T>> {
        let ty = self.ty().map_err(std::sync::Arc::clone)?;
        if ty.dtype != T::DTYPE {
            let text = format!("the tensor is {}, not {}", ty.dtype, T::DTYPE);
            let help = format!("read it as {}, or cast it first", ty.dtype);
            return Err(self.refuse(tag, Refusal::new(text).help(help)));
        }
        if let Repr::Constant(constant) = &self.repr {
            return Ok(vec![T::from_bits(constant.bits); ty.shape.elements()]);
        }
        let value = exec::evaluate(self, tag)?;
        Ok(T::from_raw(exec::download(value, tag)?))
    }

    fn refuse(&self, tag: OpTag, refusal: Refusal) -> crate::Error {
        Failure::tagged(refusal, tag, self.context().map(Context::device)).into()
    }

    /// The same elements, row-major without gaps: itself when they lie so already, else a copy.
    ///
    /// # Errors
    /// The first error on the way to this tensor; memory does not suffice.
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        let tag = OpTag::new("contiguous");
        let Repr::Value(value) = &self.repr else {
            // What is recorded has no strides yet, and its value is made without gaps where that matters.
            return self.clone();
        };
        match exec::contiguous(value.clone(), tag) {
            Ok(value) => Tensor {
                history: self.history.clone(),
                ..Tensor::from_value(value)
            },
            Err(error) => Tensor::of_error(tag, error, self.context()),
        }
    }
}
