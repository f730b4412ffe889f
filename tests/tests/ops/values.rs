//! Arrays as they are stored, and as tensors.

use half::{bf16, f16};
use thalweg::{Context, DType, Element, F8E4M3, F8E5M2, Result, Tensor};

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
        match self.dtype(float) {
            DType::F64 => self.made(cx, |x| x, |x| x as f64),
            DType::F32 => self.made(cx, |x| x as f32, |x| x as f32),
            DType::F16 => self.made(cx, f16::from_f64, |x| f16::from_f64(x as f64)),
            DType::BF16 => self.made(cx, bf16::from_f64, |x| bf16::from_f64(x as f64)),
            DType::F8E4M3 => self.made(cx, F8E4M3::from_f64, |x| F8E4M3::from_f64(x as f64)),
            DType::F8E5M2 => self.made(cx, F8E5M2::from_f64, |x| F8E5M2::from_f64(x as f64)),
            DType::I64 => self.made(cx, |x| x as i64, |x| x as i64),
            DType::I32 => self.made(cx, |x| x as i32, |x| x as i32),
            DType::I16 => self.made(cx, |x| x as i16, |x| x as i16),
            DType::I8 => self.made(cx, |x| x as i8, |x| x as i8),
            DType::U64 => self.made(cx, |x| x as u64, |x| x as u64),
            DType::U32 => self.made(cx, |x| x as u32, |x| x as u32),
            DType::U16 => self.made(cx, |x| x as u16, |x| x as u16),
            DType::U8 => self.made(cx, |x| x as u8, |x| x as u8),
            DType::Bool => self.made(cx, |x| x != 0.0, |x| x != 0),
        }
    }

    fn made<T: Element>(
        &self,
        cx: &Context,
        float: impl Fn(f64) -> T,
        integer: impl Fn(i128) -> T,
    ) -> Tensor {
        let data: Vec<T> = match &self.elements {
            Elements::Floats(values) => values.iter().map(|&value| float(value)).collect(),
            Elements::Integers(values) => values.iter().map(|&value| integer(value)).collect(),
        };
        Tensor::from_slice(&data, &self.shape, cx)
    }
}

/// The elements of a tensor, and their bits.
pub(crate) fn read(tensor: &Tensor) -> Result<(Elements, Vec<u64>)> {
    fn typed<T: Element>(tensor: &Tensor, wide: impl Fn(Vec<T>) -> Elements) -> Result<(Elements, Vec<u64>)> {
        let values = tensor.to_vec::<T>()?;
        let bits = values.iter().map(|&value| value.bits()).collect();
        Ok((wide(values), bits))
    }
    fn floats<T: Element>(tensor: &Tensor) -> Result<(Elements, Vec<u64>)> {
        typed::<T>(tensor, |values| {
            Elements::Floats(values.into_iter().map(Element::to_f64).collect())
        })
    }
    fn integers<T: Element + Into<i128>>(tensor: &Tensor) -> Result<(Elements, Vec<u64>)> {
        typed::<T>(tensor, |values| {
            Elements::Integers(values.into_iter().map(Into::into).collect())
        })
    }
    match tensor.dtype()? {
        DType::F64 => floats::<f64>(tensor),
        DType::F32 => floats::<f32>(tensor),
        DType::F16 => floats::<f16>(tensor),
        DType::BF16 => floats::<bf16>(tensor),
        DType::F8E4M3 => floats::<F8E4M3>(tensor),
        DType::F8E5M2 => floats::<F8E5M2>(tensor),
        DType::I64 => integers::<i64>(tensor),
        DType::I32 => integers::<i32>(tensor),
        DType::I16 => integers::<i16>(tensor),
        DType::I8 => integers::<i8>(tensor),
        DType::U64 => integers::<u64>(tensor),
        DType::U32 => integers::<u32>(tensor),
        DType::U16 => integers::<u16>(tensor),
        DType::U8 => integers::<u8>(tensor),
        DType::Bool => typed::<bool>(tensor, |values| {
            Elements::Integers(values.into_iter().map(i128::from).collect())
        }),
    }
}
