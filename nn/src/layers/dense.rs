//! Layers whose output is a product with a matrix, or rows of one.

use crate::init::{Fans, Init};
use crate::{Layer, Module, Parameter};
use thalweg::observe::parts;
use thalweg::{Context, Result, Shape, Tensor};

/// `x · weightᵀ + bias`: `[.., inputs]` to `[.., outputs]`; weight `[outputs, inputs]`.
///
/// ```
/// use thalweg::{Context, DType, Tensor};
/// use thalweg_nn::{Dense, Layer};
/// let cx = Context::new("cpu")?;
/// let layer = Dense::new(3, 5, &cx)?;
/// assert_eq!(*layer.forward(&Tensor::zeros([2, 3], DType::F32, &cx)).shape()?, [2, 5]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Dense {
    /// `[outputs, inputs]`.
    pub weight: Parameter,
    /// `[outputs]`.
    pub bias: Option<Parameter>,
}

/// A parameter for a bias of `count` elements beside a weight of these fans.
pub(super) fn bias(count: usize, fans: Fans, cx: &Context) -> Result<Option<Parameter>> {
    let shape = Shape::new(&[count])?;
    Ok(Some(Parameter::new(Init::FanIn.with_fans(&shape, fans, cx)?)))
}

impl Dense {
    /// A layer with weight and bias drawn by [`Init::FanIn`].
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(inputs: usize, outputs: usize, cx: &Context) -> Result<Dense> {
        let mut layer = Dense::with_init(inputs, outputs, Init::FanIn, cx)?;
        let fans = Fans {
            fan_in: inputs,
            fan_out: outputs,
        };
        layer.bias = bias(outputs, fans, cx)?;
        Ok(layer)
    }

    /// A layer without a bias, its weight drawn by `init`.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn with_init(inputs: usize, outputs: usize, init: Init, cx: &Context) -> Result<Dense> {
        Ok(Dense {
            weight: Parameter::new(init.tensor(&[outputs, inputs], cx)?),
            bias: None,
        })
    }
}

impl Layer for Dense {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        x.linear(&self.weight, self.bias.as_deref())
    }
}

/// Rows of a table by index: i64 `[..]` to `[.., width]`.
#[derive(Clone, Debug, Module)]
pub struct Embedding {
    /// `[count, width]`.
    pub weight: Parameter,
    /// Row without gradient.
    pub padding: Option<usize>,
}

impl Embedding {
    /// A table of normal numbers.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(count: usize, width: usize, cx: &Context) -> Result<Embedding> {
        Ok(Embedding {
            weight: Parameter::new(Init::Normal(0.0, 1.0).tensor(&[count, width], cx)?),
            padding: None,
        })
    }
}

impl Layer for Embedding {
    #[track_caller]
    fn forward(&self, indices: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        self.weight.embedding(indices, self.padding)
    }
}
