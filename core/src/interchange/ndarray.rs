//! Arrays of the crate `ndarray`.

use super::malformed;
use crate::context::Context;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::element::Element;
use ndarray::{Array, ArrayBase, ArrayD, Data, Dimension, IxDyn};

impl Tensor {
    /// A tensor with a copy of an array or a view of one, of any order in memory.
    ///
    /// ```
    /// use thalweg::{Context, Tensor};
    /// let cx = Context::new("cpu")?;
    /// let array = ndarray::arr2(&[[1.0_f32, 2.0], [3.0, 4.0]]);
    /// let x = Tensor::from_ndarray(&array.t(), &cx);
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// assert_eq!(x.to_ndarray::<f32>()?, array.t().into_dyn());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor carries one when the array has more than 8 axes, or memory does not suffice.
    #[track_caller]
    pub fn from_ndarray<T, S, D>(array: &ArrayBase<S, D>, cx: &Context) -> Tensor
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        match array.as_slice() {
            Some(data) => Tensor::from_slice(data, array.shape(), cx),
            None => Tensor::from_vec(array.iter().copied().collect(), array.shape(), cx),
        }
    }

    /// A tensor of an array's elements; in the array's memory where that is row-major and the device shares the host's memory.
    ///
    /// # Errors
    /// As [`Tensor::from_ndarray`].
    #[track_caller]
    pub fn from_array<T: Element, D: Dimension>(array: Array<T, D>, cx: &Context) -> Tensor {
        let shape = array.shape().to_vec();
        if !array.is_standard_layout() {
            return Tensor::from_ndarray(&array, cx);
        }
        let elements = array.len();
        let (mut data, start) = array.into_raw_vec_and_offset();
        let start = start.unwrap_or(0);
        data.truncate(start + elements);
        data.drain(..start);
        Tensor::from_vec(data, shape, cx)
    }

    /// The elements as an array. Waits for them; `into_dimensionality` gives it a fixed number of axes.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let shape = self.shape()?;
        ArrayD::from_shape_vec(IxDyn(&shape), self.to_vec::<T>()?)
            .map_err(|error| malformed("ndarray", None, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::DType;
    use ndarray::{Array2, arr0, s};

    #[test]
    fn arrays_of_every_order_keep_their_elements() {
        let cx = Context::new("cpu").unwrap();
        let array = Array2::from_shape_fn((3, 4), |(i, j)| (10 * i + j) as i32);
        for view in [
            array.view(),
            array.slice(s![.., ..;-1]),
            array.slice(s![1..;2, 1..3]),
            array.t(),
        ] {
            let x = Tensor::from_ndarray(&view, &cx);
            assert_eq!(x.to_ndarray::<i32>().unwrap(), view.into_dyn());
            let owned = Tensor::from_array(view.to_owned(), &cx);
            assert_eq!(owned.to_ndarray::<i32>().unwrap(), view.into_dyn());
        }
        let cut = array.clone().slice_move(s![1..2, ..]);
        assert_eq!(
            Tensor::from_array(cut, &cx).to_vec::<i32>().unwrap(),
            [10, 11, 12, 13]
        );
        let turned = Tensor::from_ndarray(&array, &cx).t();
        assert_eq!(turned.to_ndarray::<i32>().unwrap(), array.t().into_dyn());
    }

    #[test]
    fn scalars_empty_arrays_and_all_elements_pass() {
        let cx = Context::new("cpu").unwrap();
        let scalar = Tensor::from_ndarray(&arr0(true), &cx);
        assert_eq!(
            (scalar.rank().unwrap(), scalar.dtype().unwrap()),
            (0, DType::Bool)
        );
        assert_eq!(scalar.to_ndarray::<bool>().unwrap(), arr0(true).into_dyn());
        let empty = Array2::<half::bf16>::default((0, 3));
        assert_eq!(
            Tensor::from_array(empty.clone(), &cx)
                .to_ndarray::<half::bf16>()
                .unwrap(),
            empty.into_dyn()
        );
        let error = scalar.to_ndarray::<f32>().unwrap_err().to_string();
        assert!(error.contains("the tensor is bool, not f32"), "{error}");
    }
}
