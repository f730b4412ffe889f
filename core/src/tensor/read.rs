//! Numbers from tensors.

use super::element::Element;
use super::failure::{Failure, Refusal};
use super::tag::OpTag;
use super::{Repr, Tensor};
use crate::context::Context;
use crate::error::Result;
use crate::exec;
use crate::graph::Type;
use crate::hal::DType;
use crate::types::scalar::Scalar;

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
        let tag = OpTag::uncounted("item");
        self.only(tag, Some(T::DTYPE)).map(T::from_bits)
    }

    /// The only element as f64, whatever the dtype; rounded where f64 is too narrow. Waits for it.
    ///
    /// # Errors
    /// As [`Tensor::item`], but for the dtype.
    #[track_caller]
    pub fn to_scalar(&self) -> Result<f64> {
        let tag = OpTag::uncounted("to_scalar");
        let dtype = self.dtype()?;
        Ok(Scalar::from_bits(dtype, self.only(tag, None)?).to_f64())
    }

    /// The bits of the only element.
    fn only(&self, tag: OpTag, dtype: Option<DType>) -> Result<u64> {
        let shape = self.shape()?;
        if shape.elements() != 1 {
            let text = format!("the shape {shape} has {} elements, not one", shape.elements());
            return Err(self.refuse(
                tag,
                Refusal::new(text).help("reduce it, or read it with `to_vec`"),
            ));
        }
        self.check(tag, dtype)?;
        match &self.repr {
            Repr::Constant(constant) => Ok(constant.bits),
            _ => exec::bits(exec::evaluate(self, tag)?, tag),
        }
    }

    /// The bits of all elements, row-major.
    pub(super) fn bits(&self, tag: OpTag) -> Result<Vec<u64>> {
        let ty = self.ty().map_err(std::sync::Arc::clone)?;
        match &self.repr {
            Repr::Constant(constant) => Ok(vec![constant.bits; ty.shape.elements()]),
            _ => exec::elements(exec::evaluate(self, tag)?, tag),
        }
    }

    /// Whether the elements are of `dtype`.
    fn check(&self, tag: OpTag, dtype: Option<DType>) -> Result<Type> {
        let ty = self.ty().map_err(std::sync::Arc::clone)?;
        match dtype {
            Some(dtype) if dtype != ty.dtype => {
                let text = format!("the tensor is {}, not {dtype}", ty.dtype);
                let help = format!("read it as {}, or cast it first", ty.dtype);
                Err(self.refuse(tag, Refusal::new(text).help(help)))
            }
            _ => Ok(ty),
        }
    }

    fn read<T: Element>(&self, tag: OpTag) -> Result<Vec<T>> {
        let ty = self.check(tag, Some(T::DTYPE))?;
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
