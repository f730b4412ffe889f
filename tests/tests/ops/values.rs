//! Arrays as they are stored, and as tensors.

use thalweg::{Context, DType, Element, Result, Tensor};
use thalweg_hal::interpreter::scalar::{cast, whole};
use thalweg_hal::{Element as Rust, for_dtype};

/// Elements of a dtype, or of whichever floating dtype the case is run with.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    dtype: Option<DType>,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Elements,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Elements {
    Floats(Vec<f64>),
    Integers(Vec<i128>),
}

impl Array {
    /// Reads `dtype[extents] elements`.
    pub(crate) fn parse(text: &str) -> Array {
        let mut words = text.split(' ');
        let (dtype, shape) = words
            .next()
            .unwrap()
            .trim_end_matches(']')
            .split_once('[')
            .unwrap();
        let dtype = (dtype != "f").then(|| dtype.parse::<DType>().unwrap());
        let elements = match dtype {
            Some(dtype) if !dtype.is_float() => {
                Elements::Integers(words.map(|word| word.parse().unwrap()).collect())
            }
            _ => Elements::Floats(words.map(|word| word.parse().unwrap()).collect()),
        };
        let extents = shape.split(',').filter(|extent| !extent.is_empty());
        Array {
            dtype,
            shape: extents.map(|extent| extent.parse().unwrap()).collect(),
            elements,
        }
    }

    /// Whether its dtype is the floating one of the run.
    pub(crate) fn is_float(&self) -> bool {
        self.dtype.is_none()
    }

    /// Its dtype in a run with `float`.
    pub(crate) fn dtype(&self, float: DType) -> DType {
        self.dtype.unwrap_or(float)
    }

    /// As a tensor, in a run with `float`.
    pub(crate) fn tensor(&self, float: DType, cx: &Context) -> Tensor {
        for_dtype!(self.dtype(float), T => {
            let data: Vec<T> = match &self.elements {
                Elements::Floats(values) => values.iter().map(|&value| Rust::from_f64(value)).collect(),
                Elements::Integers(values) => values.iter().map(|&value| made(value)).collect(),
            };
            Tensor::from_slice(&data, &self.shape, cx)
        })
    }
}

/// The element with the value of an integer.
fn made<T: Rust>(value: i128) -> T {
    T::from_bits(match u64::try_from(value) {
        Ok(bits) => cast(DType::U64, T::DTYPE, bits),
        Err(_) => cast(DType::I64, T::DTYPE, value as u64),
    })
}

/// The elements of a tensor, and their bits.
pub(crate) fn read(tensor: &Tensor) -> Result<(Elements, Vec<u64>)> {
    fn typed<T: Element>(tensor: &Tensor) -> Result<(Elements, Vec<u64>)> {
        let values = tensor.to_vec::<T>()?;
        let bits: Vec<u64> = values.iter().map(|&value| value.bits()).collect();
        let elements = if T::DTYPE.is_float() {
            Elements::Floats(values.into_iter().map(Element::to_f64).collect())
        } else {
            Elements::Integers(bits.iter().map(|&bits| whole(T::DTYPE, bits)).collect())
        };
        Ok((elements, bits))
    }
    for_dtype!(tensor.dtype()?, T => typed::<T>(tensor))
}
