//! Attention.

use super::{Calibration, Dense, Dropout, QuantizedDense};
use crate::{Layer, Module};
use thalweg::observe::parts;
use thalweg::ops::AttentionOptions;
use thalweg::{Context, Result, Tensor};

/// Multi-head attention (Vaswani et al., NeurIPS 2017): queries `[b, positions, width]`, keys and values
/// `[b, others, width]`.
#[derive(Clone, Debug, Module)]
pub struct MultiHeadAttention<D: Layer = Dense> {
    /// Makes queries.
    pub query: D,
    /// Makes keys.
    pub key: D,
    /// Makes values.
    pub value: D,
    /// Joins the heads.
    pub output: D,
    /// Number of heads.
    pub heads: usize,
    /// Drops weights in training; none at first.
    pub dropout: Dropout,
}

impl MultiHeadAttention {
    /// A layer for `heads`, which divide `width`.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(width: usize, heads: usize, cx: &Context) -> Result<MultiHeadAttention> {
        let dense = || Dense::new(width, width, cx);
        Ok(MultiHeadAttention {
            query: dense()?,
            key: dense()?,
            value: dense()?,
            output: dense()?,
            heads,
            dropout: Dropout::new(0.0, cx),
        })
    }
}

impl<D: Layer> MultiHeadAttention<D> {
    /// The layer with others in the place of its four dense ones; see [`TransformerEncoderLayer::map_dense`].
    ///
    /// # Errors
    /// Those of `each`.
    ///
    /// [`TransformerEncoderLayer::map_dense`]: crate::TransformerEncoderLayer::map_dense
    pub fn map_dense<E: Layer>(
        &self,
        mut each: impl FnMut(&D) -> Result<E>,
    ) -> Result<MultiHeadAttention<E>> {
        Ok(MultiHeadAttention {
            query: each(&self.query)?,
            key: each(&self.key)?,
            value: each(&self.value)?,
            output: each(&self.output)?,
            heads: self.heads,
            dropout: self.dropout.clone(),
        })
    }

    /// What `x` gathers from `memory`; the options say what it sees of it.
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor, ops::AttentionOptions};
    /// use thalweg_nn::MultiHeadAttention;
    /// let cx = Context::new("cpu")?;
    /// let attention = MultiHeadAttention::new(8, 2, &cx)?;
    /// let x = Tensor::randn([1, 5, 8], DType::F32, &cx);
    /// let y = attention.attend(&x, &x, AttentionOptions::new().causal(true));
    /// assert_eq!(*y.shape()?, [1, 5, 8]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn attend(&self, x: &Tensor, memory: &Tensor, options: AttentionOptions<'_>) -> Tensor {
        let _scope = parts::enter(self);
        let query = self.query.forward(x);
        let (key, value) = (self.key.forward(memory), self.value.forward(memory));
        let attend = |options| query.multi_head_attention(&key, &value, self.heads, options);
        let joined = match self.dropout.draw() {
            Some(drawn) => attend(options.dropout(self.dropout.p, &drawn)),
            None => attend(options),
        };
        self.output.forward(&joined)
    }
}

impl MultiHeadAttention<Calibration<Dense>> {
    /// The layer with dense ones of 8 bits, which make integers of a common input once; attention itself stays f32.
    ///
    /// # Errors
    /// As [`QuantizedDense::calibrated`].
    pub fn quantized(&self) -> Result<MultiHeadAttention<QuantizedDense>> {
        let mut layer = self.map_dense(QuantizedDense::calibrated)?;
        layer.key.share_range(&layer.query)?;
        layer.value.share_range(&layer.key)?;
        Ok(layer)
    }
}

impl<D: Layer> Layer for MultiHeadAttention<D> {
    /// Self-attention.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.attend(x, x, AttentionOptions::new())
    }
}
