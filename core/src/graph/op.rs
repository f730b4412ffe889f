//! The ops that a graph is made of. All that users call is written with these.

use super::{Body, Control, Type};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::types::shape::{Axes, MAX_RANK, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// How [`Op::Scatter`] combines an update with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScatterMode {
    /// The last update of a place wins.
    Set,
    /// Sum.
    Add,
    /// Maximum, NaN wins.
    Max,
    /// Minimum, NaN wins.
    Min,
}

/// Attributes of a convolution over 1 to 3 spatial axes: NC then space, weights OI then space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvAttributes {
    /// Groups of channels.
    pub groups: usize,
    /// Elements of the input from one output to the next, per spatial axis.
    pub stride: [usize; 3],
    /// Elements of the input from one tap to the next.
    pub dilation: [usize; 3],
    /// Zeros in front of the input.
    pub low: [usize; 3],
    /// Zeros behind the input.
    pub high: [usize; 3],
    /// Whether a form that is faster and rounds otherwise is welcome. Gradients with respect to weights have one form.
    pub fast: bool,
}

/// One op of a graph. Its operands have the dtypes and shapes that [`infer`](super::infer) asks for: nothing broadcasts
/// and nothing converts by itself here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Argument of the graph.
    Input(u32),
    /// One element everywhere, as bits of the dtype.
    Full {
        /// Type of the element.
        dtype: DType,
        /// Its bits, zero-extended.
        bits: u64,
        /// Extents.
        shape: Shape,
    },
    /// The index along an axis as i64.
    Index {
        /// Which axis.
        axis: u8,
        /// Extents.
        shape: Shape,
    },
    /// A scalar op on every element; operands have one shape.
    Map(ScalarOp),
    /// Conversion as in the IR.
    Cast(DType),
    /// Philox word as u32 of (key u64, counter u64), element by element.
    Rand,
    /// Combines the elements along axes, which disappear. Dtypes as [`ReduceOp::takes`] says.
    Reduce {
        /// How.
        op: ReduceOp,
        /// Along which axes, at least one.
        axes: Axes,
    },
    /// View: axis `i` of the result is axis `axes[i]`.
    Permute(SmallVec<[u8; MAX_RANK]>),
    /// View: repeats extents of 1, and adds axes in front.
    Expand(Shape),
    /// View where strides allow it, else a copy: the same elements in row-major order.
    Reshape(Shape),
    /// View: element `start + i * step` along each axis; a negative step walks backwards.
    Slice {
        /// First element, per axis.
        start: Shape,
        /// Per axis, not 0.
        step: SmallVec<[i64; MAX_RANK]>,
        /// Extents of the result.
        shape: Shape,
    },
    /// View: the same i64 numbers, as indices of an axis. Says which of them the axis has, for
    /// [`check_indices`](crate::Context::check_indices).
    Indices {
        /// Which axis they are of.
        axis: u8,
        /// The least.
        low: i64,
        /// One more than the greatest.
        high: i64,
        /// One that is meant to be outside.
        except: Option<i64>,
    },
    /// View: windows along an axis; the places in a window become a new last axis.
    Window {
        /// Which axis.
        axis: u8,
        /// Places in a window.
        size: usize,
        /// Elements from one window to the next.
        step: usize,
        /// Elements from one place to the next.
        dilation: usize,
    },
    /// Surrounds the operand with one element.
    Pad {
        /// How many in front, per axis.
        low: Shape,
        /// Extents of the result.
        shape: Shape,
        /// Bits of the element.
        bits: u64,
    },
    /// Operands one after the other along an axis.
    Concat {
        /// Which axis.
        axis: u8,
    },
    /// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `axis`; operands `x` and `index` (i64), which agree on the other
    /// axes. Where an index is outside, the element is 0.
    Gather {
        /// Which axis.
        axis: u8,
    },
    /// `base` with `update[.., i, ..]` combined at `[.., index[.., i, ..], ..]` along `axis`; operands base, index (i64),
    /// update. Updates of one place are combined in the order of `i`; an index outside is skipped.
    Scatter {
        /// Which axis.
        axis: u8,
        /// How.
        mode: ScatterMode,
    },
    /// `[b.., m, k] × [b.., k, n]`; products and sums are in `accumulate`. Operands have one dtype, and the result has it
    /// or is of `accumulate`; u8 and i8 may meet where the result is of `accumulate`.
    Matmul {
        /// Dtype of the sums.
        accumulate: DType,
        /// Dtype of the result.
        output: DType,
    },
    /// Softmax along j of `scale · q · kᵀ`, masked, times v: operands q `[b.., i, d]`, k `[b.., j, d]` and v `[b.., j, e]` of one float
    /// dtype, and a mask `[b.., i, j]` if there is one, bool (true where a query sees a key) or numbers that are added, in f64 for f64
    /// and f32 for the others. A query that sees no key gets zeros.
    Attention {
        /// Query i sees keys 0 to i.
        causal: bool,
        /// Bits of the f64 that products are multiplied by.
        scale: u64,
    },
    /// Convolution of x `[n, groups·ci, space..]` with w `[groups·co, ci, taps..]`, of one float dtype or each of i8 or u8, whose sums are
    /// i32.
    Conv(ConvAttributes),
    /// Gradient of a convolution by its input; operands are the gradient of the output and the weights.
    ConvGradInput(ConvAttributes, Shape),
    /// Gradient of a convolution by its weights; operands are the input and the gradient of the output.
    ConvGradWeight(ConvAttributes, Shape),
    /// Running sum, product, maximum or minimum along an axis, this element included.
    Scan {
        /// How; argmax and argmin are none.
        op: ReduceOp,
        /// Along which axis.
        axis: u8,
        /// From the last element to the first.
        reverse: bool,
    },
    /// All elements along an axis in the order of [`Op::ArgSort`].
    Sort {
        /// Along which axis.
        axis: u8,
        /// Greatest first; NaN stays last.
        descending: bool,
    },
    /// The i64 indices along an axis that sort it, stable, NaN last: the first of them.
    ArgSort {
        /// Along which axis.
        axis: u8,
        /// Greatest first; NaN stays last.
        descending: bool,
        /// How many.
        count: usize,
    },
    /// What the host does: a loop, a branch, or an effect; what it returns is taken by [`Op::Result`].
    Control(Arc<Control>),
    /// A result of the operand, which is [`Op::Control`].
    Result {
        /// Which.
        index: u32,
        /// Its type.
        ty: Type,
    },
}

impl Op {
    /// Whether the result is another way to look at the operand's buffer. [`Op::Reshape`] is one only where strides allow it.
    pub const fn is_view(&self) -> bool {
        matches!(
            self,
            Op::Permute(_)
                | Op::Expand(_)
                | Op::Reshape(_)
                | Op::Slice { .. }
                | Op::Indices { .. }
                | Op::Window { .. }
        )
    }

    /// Whether it does something beside computing its result: it stays where nobody uses that, and its like are not shared.
    pub(crate) fn has_effects(&self) -> bool {
        match self {
            Op::Control(control) => control.has_effects(),
            _ => false,
        }
    }

    /// The graphs that it runs.
    pub fn bodies(&self) -> SmallVec<[&Body; 3]> {
        match self {
            Op::Control(control) => control.bodies(),
            _ => SmallVec::new(),
        }
    }
}
