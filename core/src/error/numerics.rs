//! The birth of what is no number.

use crate::hal::DType;
use crate::types::shape::Shape;
use std::fmt;
use std::panic::Location;

/// An op made a NaN or an infinity out of finite numbers: see [`Context::check_numerics`](crate::Context::check_numerics).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NumericsError {
    /// The op that the user called.
    pub op: String,
    /// The call: `Default/head/log-op3`.
    pub name: String,
    /// The part of the network: `Default/head`. It begins with `Gradients/` for gradients and with `Update/` for optimizers.
    pub scope: String,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
    /// The device, as `cpu:0`.
    pub device: String,
    /// Which of the results of the call, from 0.
    pub output: usize,
    /// Dtype of that result.
    pub dtype: DType,
    /// Extents of that result.
    pub shape: Shape,
    /// Index of its first element that is no finite number.
    pub index: Vec<usize>,
    /// That element.
    pub value: f64,
    /// How many of its elements are NaN.
    pub nan: usize,
    /// How many of its elements are infinite.
    pub infinite: usize,
    /// What the op was given, constants aside.
    pub inputs: Vec<InputRange>,
}

/// The numbers that an op was given.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct InputRange {
    /// Its dtype.
    pub dtype: DType,
    /// Its extents.
    pub shape: Shape,
    /// The element that the wrong one was computed from, where there is one alone.
    pub element: Option<f64>,
    /// The least and the greatest finite element; `None` where there is none.
    pub bounds: Option<(f64, f64)>,
    /// The mean of the finite elements; 0 where there is none.
    pub mean: f64,
    /// How many elements are NaN.
    pub nan: usize,
    /// How many elements are infinite.
    pub infinite: usize,
}

/// A number in the digits of its dtype.
struct Number(f64, DType);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Number(number, dtype) = self;
        if !dtype.is_float() || dtype == DType::F64 {
            write!(f, "{number:?}")
        } else {
            write!(f, "{:?}", number as f32)
        }
    }
}

impl fmt::Display for NumericsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, dtype) = (Number(self.value, self.dtype), self.dtype);
        write!(
            f,
            "{}: makes {value} at {:?} of {dtype}{} out of finite numbers",
            self.op, self.index, self.shape
        )?;
        if let Some(at) = self.location {
            write!(f, "\n  at {}:{}, device {}", at.file(), at.line(), self.device)?;
        }
        if !self.name.is_empty() {
            write!(f, "\n  call {}", self.name)?;
        }
        write!(
            f,
            "\n  its result holds {} NaN and {} infinite of {}",
            self.nan,
            self.infinite,
            self.shape.elements()
        )?;
        for (at, input) in self.inputs.iter().enumerate() {
            write!(f, "\n  input {at}, {}{}: {input}", input.dtype, input.shape)?;
        }
        Ok(())
    }
}

impl fmt::Display for InputRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number| Number(number, self.dtype);
        if let Some(element) = self.element {
            write!(f, "{} there, ", number(element))?;
        }
        match self.bounds {
            Some((min, max)) => {
                let mean = number(self.mean);
                write!(f, "min {}, max {}, mean {mean}", number(min), number(max))?;
            }
            None => f.write_str("no finite element")?,
        }
        if self.nan + self.infinite > 0 {
            write!(f, ", {} NaN, {} infinite", self.nan, self.infinite)?;
        }
        Ok(())
    }
}

impl std::error::Error for NumericsError {}
