//! Attention and the layers around it.

use super::{Dense, LayerNorm};
use crate::{Layer, Module};
use thalweg::ops::AttentionOptions;
use thalweg::{Context, Result, Tensor};

/// Multi-head attention (Vaswani et al., NeurIPS 2017): queries `[b, positions, width]`, keys and values
/// `[b, others, width]`.
#[derive(Clone, Debug, Module)]
pub struct MultiHeadAttention {
    /// Makes queries.
    pub query: Dense,
    /// Makes keys.
    pub key: Dense,
    /// Makes values.
    pub value: Dense,
    /// Joins the heads.
    pub output: Dense,
    /// Number of heads.
    pub heads: usize,
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
        })
    }

    /// What `x` gathers from `memory`; position i sees 0 to i of it if `causal`.
    #[track_caller]
    pub fn attend(&self, x: &Tensor, memory: &Tensor, causal: bool) -> Tensor {
        let (key, value) = (self.key.forward(memory), self.value.forward(memory));
        let options = AttentionOptions::new().causal(causal);
        let joined = self
            .query
            .forward(x)
            .multi_head_attention(&key, &value, self.heads, options);
        self.output.forward(&joined)
    }
}

impl Layer for MultiHeadAttention {
    /// Self-attention.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.attend(x, x, false)
    }
}

/// Two dense layers with GELU between them.
#[derive(Clone, Debug, Module)]
struct FeedForward {
    wide: Dense,
    narrow: Dense,
}

impl FeedForward {
    fn new(width: usize, hidden: usize, cx: &Context) -> Result<FeedForward> {
        Ok(FeedForward {
            wide: Dense::new(width, hidden, cx)?,
            narrow: Dense::new(hidden, width, cx)?,
        })
    }
}

impl Layer for FeedForward {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.narrow.forward(&self.wide.forward(x).gelu())
    }
}

/// Self-attention and a feed-forward part, each added to its input and normalised: before (`pre_norm`) or after, as in the paper.
#[derive(Clone, Debug, Module)]
pub struct TransformerEncoderLayer {
    attention: MultiHeadAttention,
    feed_forward: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
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
            norm1: LayerNorm::new(&[width], cx)?,
            norm2: LayerNorm::new(&[width], cx)?,
            pre_norm: false,
        })
    }
}

impl Layer for TransformerEncoderLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        if self.pre_norm {
            let x = x + self.attention.forward(&self.norm1.forward(x));
            return &x + self.feed_forward.forward(&self.norm2.forward(&x));
        }
        let x = self.norm1.forward(&(x + self.attention.forward(x)));
        self.norm2.forward(&(&x + self.feed_forward.forward(&x)))
    }
}

/// Causal self-attention, attention to a memory, and a feed-forward part, each added to its input and normalised after it.
#[derive(Clone, Debug, Module)]
pub struct TransformerDecoderLayer {
    attention: MultiHeadAttention,
    memory_attention: MultiHeadAttention,
    feed_forward: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
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
            norm1: LayerNorm::new(&[width], cx)?,
            norm2: LayerNorm::new(&[width], cx)?,
            norm3: LayerNorm::new(&[width], cx)?,
        })
    }

    /// The output for `x` `[b, positions, width]` beside a memory `[b, others, width]`.
    #[track_caller]
    pub fn decode(&self, x: &Tensor, memory: &Tensor) -> Tensor {
        let x = self.norm1.forward(&(x + self.attention.attend(x, x, true)));
        let x = self
            .norm2
            .forward(&(&x + self.memory_attention.attend(&x, memory, false)));
        self.norm3.forward(&(&x + self.feed_forward.forward(&x)))
    }
}
