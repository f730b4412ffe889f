//! Layers of transformers.

use super::{Calibration, Dense, Dropout, LayerNorm, MultiHeadAttention, QuantizedDense};
use crate::{Layer, Module};
use thalweg::observe::parts;
use thalweg::ops::AttentionOptions;
use thalweg::{Context, Result, Tensor};

/// Two dense layers with GELU between them.
#[derive(Clone, Debug, Module)]
struct FeedForward<D: Layer> {
    wide: D,
    narrow: D,
    dropout: Dropout,
}

impl FeedForward<Dense> {
    fn new(width: usize, hidden: usize, cx: &Context) -> Result<FeedForward<Dense>> {
        Ok(FeedForward {
            wide: Dense::new(width, hidden, cx)?,
            narrow: Dense::new(hidden, width, cx)?,
            dropout: Dropout::new(0.0, cx),
        })
    }
}

impl<D: Layer> FeedForward<D> {
    fn map_dense<E: Layer>(&self, mut each: impl FnMut(&D) -> Result<E>) -> Result<FeedForward<E>> {
        Ok(FeedForward {
            wide: each(&self.wide)?,
            narrow: each(&self.narrow)?,
            dropout: self.dropout.clone(),
        })
    }
}

impl<D: Layer> Layer for FeedForward<D> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        let wide = self.wide.forward(x).gelu();
        self.narrow.forward(&self.dropout.forward(&wide))
    }
}

/// A part that is added to its input, and normalised in front of the part or behind the sum.
#[derive(Clone, Debug, Module)]
struct Residual {
    norm: LayerNorm,
    dropout: Dropout,
}

impl Residual {
    fn new(width: usize, cx: &Context) -> Result<Residual> {
        Ok(Residual {
            norm: LayerNorm::new(&[width], cx)?,
            dropout: Dropout::new(0.0, cx),
        })
    }

    #[track_caller]
    fn around(&self, x: &Tensor, pre_norm: bool, part: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let _scope = parts::enter(self);
        if pre_norm {
            return x + self.dropout.forward(&part(&self.norm.forward(x)));
        }
        self.norm.forward(&(x + self.dropout.forward(&part(x))))
    }
}

/// Self-attention and a feed-forward part, each added to its input and normalised: after the sum, as Vaswani et al. (NeurIPS
/// 2017), or in front of the part (`pre_norm`; Xiong et al., ICML 2020).
#[derive(Clone, Debug, Module)]
pub struct TransformerEncoderLayer<D: Layer = Dense> {
    attention: MultiHeadAttention<D>,
    feed_forward: FeedForward<D>,
    around_attention: Residual,
    around_feed_forward: Residual,
    /// Normalises in front of each part.
    pub pre_norm: bool,
}

impl TransformerEncoderLayer {
    /// A layer with `hidden` features between its dense layers.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(width: usize, heads: usize, hidden: usize, cx: &Context) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            attention: MultiHeadAttention::new(width, heads, cx)?,
            feed_forward: FeedForward::new(width, hidden, cx)?,
            around_attention: Residual::new(width, cx)?,
            around_feed_forward: Residual::new(width, cx)?,
            pre_norm: false,
        })
    }
}

impl<D: Layer> TransformerEncoderLayer<D> {
    /// The layer with others in the place of its six dense ones, such as those that note ranges or those of 8 bits.
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor};
    /// use thalweg_nn::{Calibration, Layer, TransformerEncoderLayer};
    /// let cx = Context::new("cpu")?;
    /// let layer = TransformerEncoderLayer::new(8, 2, 32, &cx)?;
    /// let seen = layer.map_dense(|dense| Ok(Calibration::new(dense.clone(), &cx)))?;
    /// let x = Tensor::randn([1, 5, 8], DType::F32, &cx);
    /// seen.forward(&x);
    /// assert_eq!(*seen.quantized()?.forward(&x).shape()?, [1, 5, 8]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `each`.
    pub fn map_dense<E: Layer>(
        &self,
        mut each: impl FnMut(&D) -> Result<E>,
    ) -> Result<TransformerEncoderLayer<E>> {
        Ok(TransformerEncoderLayer {
            attention: self.attention.map_dense(&mut each)?,
            feed_forward: self.feed_forward.map_dense(&mut each)?,
            around_attention: self.around_attention.clone(),
            around_feed_forward: self.around_feed_forward.clone(),
            pre_norm: self.pre_norm,
        })
    }

    /// Drops attention weights, hidden features and what is added, each with probability `p`.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> TransformerEncoderLayer<D> {
        self.attention.dropout.p = p;
        self.feed_forward.dropout.p = p;
        self.around_attention.dropout.p = p;
        self.around_feed_forward.dropout.p = p;
        self
    }

    /// The output for `x` `[b, positions, width]`; the options say which positions see which.
    #[track_caller]
    pub fn encode(&self, x: &Tensor, options: AttentionOptions<'_>) -> Tensor {
        let _scope = parts::enter(self);
        let x = self
            .around_attention
            .around(x, self.pre_norm, |x| self.attention.attend(x, x, options));
        self.around_feed_forward
            .around(&x, self.pre_norm, |x| self.feed_forward.forward(x))
    }
}

impl TransformerEncoderLayer<Calibration<Dense>> {
    /// The layer with dense ones of 8 bits; attention itself, norms and sums stay f32.
    ///
    /// # Errors
    /// As [`QuantizedDense::calibrated`].
    pub fn quantized(&self) -> Result<TransformerEncoderLayer<QuantizedDense>> {
        Ok(TransformerEncoderLayer {
            attention: self.attention.quantized()?,
            ..self.map_dense(QuantizedDense::calibrated)?
        })
    }
}

impl<D: Layer> Layer for TransformerEncoderLayer<D> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.encode(x, AttentionOptions::new())
    }
}

/// Causal self-attention, attention to a memory, and a feed-forward part, each added to its input and normalised as in
/// [`TransformerEncoderLayer`].
#[derive(Clone, Debug, Module)]
pub struct TransformerDecoderLayer<D: Layer = Dense> {
    attention: MultiHeadAttention<D>,
    memory_attention: MultiHeadAttention<D>,
    feed_forward: FeedForward<D>,
    around_attention: Residual,
    around_memory_attention: Residual,
    around_feed_forward: Residual,
    /// Normalises in front of each part.
    pub pre_norm: bool,
}

impl TransformerDecoderLayer {
    /// A layer with `hidden` features between its dense layers.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(width: usize, heads: usize, hidden: usize, cx: &Context) -> Result<TransformerDecoderLayer> {
        Ok(TransformerDecoderLayer {
            attention: MultiHeadAttention::new(width, heads, cx)?,
            memory_attention: MultiHeadAttention::new(width, heads, cx)?,
            feed_forward: FeedForward::new(width, hidden, cx)?,
            around_attention: Residual::new(width, cx)?,
            around_memory_attention: Residual::new(width, cx)?,
            around_feed_forward: Residual::new(width, cx)?,
            pre_norm: false,
        })
    }
}

impl<D: Layer> TransformerDecoderLayer<D> {
    /// The layer with others in the place of its ten dense ones; see [`TransformerEncoderLayer::map_dense`].
    ///
    /// # Errors
    /// Those of `each`.
    pub fn map_dense<E: Layer>(
        &self,
        mut each: impl FnMut(&D) -> Result<E>,
    ) -> Result<TransformerDecoderLayer<E>> {
        Ok(TransformerDecoderLayer {
            attention: self.attention.map_dense(&mut each)?,
            memory_attention: self.memory_attention.map_dense(&mut each)?,
            feed_forward: self.feed_forward.map_dense(&mut each)?,
            around_attention: self.around_attention.clone(),
            around_memory_attention: self.around_memory_attention.clone(),
            around_feed_forward: self.around_feed_forward.clone(),
            pre_norm: self.pre_norm,
        })
    }

    /// Drops attention weights, hidden features and what is added, each with probability `p`.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> TransformerDecoderLayer<D> {
        self.attention.dropout.p = p;
        self.memory_attention.dropout.p = p;
        self.feed_forward.dropout.p = p;
        self.around_attention.dropout.p = p;
        self.around_memory_attention.dropout.p = p;
        self.around_feed_forward.dropout.p = p;
        self
    }

    /// The output for `x` `[b, positions, width]` beside a memory `[b, others, width]`, of which the options say what is seen.
    #[track_caller]
    pub fn decode(&self, x: &Tensor, memory: &Tensor, options: AttentionOptions<'_>) -> Tensor {
        let _scope = parts::enter(self);
        let causal = AttentionOptions::new().causal(true);
        let x = self
            .around_attention
            .around(x, self.pre_norm, |x| self.attention.attend(x, x, causal));
        let x = self.around_memory_attention.around(&x, self.pre_norm, |x| {
            self.memory_attention.attend(x, memory, options)
        });
        self.around_feed_forward
            .around(&x, self.pre_norm, |x| self.feed_forward.forward(x))
    }
}

impl TransformerDecoderLayer<Calibration<Dense>> {
    /// As [`TransformerEncoderLayer::quantized`].
    ///
    /// # Errors
    /// As [`QuantizedDense::calibrated`].
    pub fn quantized(&self) -> Result<TransformerDecoderLayer<QuantizedDense>> {
        Ok(TransformerDecoderLayer {
            attention: self.attention.quantized()?,
            memory_attention: self.memory_attention.quantized()?,
            ..self.map_dense(QuantizedDense::calibrated)?
        })
    }
}
