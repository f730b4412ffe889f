//! What gradients read of an op's operands and result, which a history therefore keeps.

use crate::graph::{Op, ScatterMode};
use crate::hal::ir::{ReduceOp, ScalarOp};

/// The values that a rule reads: a bit for each operand, and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saves {
    pub(crate) inputs: u32,
    pub(crate) output: bool,
}

impl Saves {
    pub(crate) const NOTHING: Saves = Saves::inputs(0);
    pub(crate) const OUTPUT: Saves = Saves {
        inputs: 0,
        output: true,
    };

    pub(crate) const fn inputs(inputs: u32) -> Saves {
        Saves {
            inputs,
            output: false,
        }
    }

    pub(crate) const fn and_output(self, output: bool) -> Saves {
        Saves { output, ..self }
    }

    /// Of two factors, each is read for the gradient of the other.
    pub(crate) const fn factors(tracked: u32) -> Saves {
        Saves::inputs((tracked & 1) << 1 | tracked >> 1 & 1)
    }
}

/// What the rule of an op reads when the operands of `tracked` want gradients; `None` for ops that are constant almost everywhere,
/// for those without floats, and for loops and branches, which have rules of their own.
pub(crate) fn saves(op: &Op, tracked: u32) -> Option<Saves> {
    match op {
        Op::Input(_)
        | Op::Full { .. }
        | Op::Index { .. }
        | Op::Rand
        | Op::ArgSort { .. }
        | Op::Indices { .. }
        | Op::Control(_)
        | Op::Result { .. } => None,
        Op::Map(op) => scalar(*op, tracked),
        Op::Reduce { op, .. } => match op {
            ReduceOp::Sum => Some(Saves::NOTHING),
            ReduceOp::Prod => Some(Saves::inputs(1)),
            ReduceOp::Max | ReduceOp::Min => Some(Saves::inputs(1).and_output(true)),
            ReduceOp::ArgMax | ReduceOp::ArgMin => None,
        },
        Op::Cast(_)
        | Op::Permute(_)
        | Op::Expand(_)
        | Op::Reshape(_)
        | Op::Slice { .. }
        | Op::Window { .. }
        | Op::Pad { .. }
        | Op::Concat { .. } => Some(Saves::NOTHING),
        Op::Gather { .. } => Some(Saves::inputs(0b10)),
        Op::Sort { .. } => Some(Saves::inputs(1)),
        Op::Scatter { mode, .. } => Some(scatter(*mode)),
        Op::Matmul { .. } | Op::Conv(_) | Op::ConvGradInput(..) | Op::ConvGradWeight(..) => {
            Some(Saves::factors(tracked))
        }
        Op::Attention { .. } => Some(Saves::inputs(0b1111)),
        Op::Scan { op, .. } => scan(*op),
    }
}

/// As [`saves`].
pub(crate) fn scalar(op: ScalarOp, tracked: u32) -> Option<Saves> {
    match op {
        ScalarOp::Sign
        | ScalarOp::Not
        | ScalarOp::Floor
        | ScalarOp::Ceil
        | ScalarOp::Trunc
        | ScalarOp::Round
        | ScalarOp::And
        | ScalarOp::Or
        | ScalarOp::Xor
        | ScalarOp::Shl
        | ScalarOp::Shr
        | ScalarOp::Eq
        | ScalarOp::Ne
        | ScalarOp::Lt
        | ScalarOp::Le => None,
        ScalarOp::Neg | ScalarOp::Add | ScalarOp::Sub => Some(Saves::NOTHING),
        ScalarOp::Abs
        | ScalarOp::Log
        | ScalarOp::Log1p
        | ScalarOp::Sin
        | ScalarOp::Cos
        | ScalarOp::Erf
        | ScalarOp::Select => Some(Saves::inputs(1)),
        ScalarOp::Sqrt | ScalarOp::Exp | ScalarOp::Expm1 | ScalarOp::Tanh => Some(Saves::OUTPUT),
        ScalarOp::Cbrt => Some(Saves::OUTPUT),
        ScalarOp::Mul | ScalarOp::Fma => Some(Saves::factors(tracked)),
        ScalarOp::Div => Some(Saves::inputs(0b10).and_output(tracked & 0b10 != 0)),
        ScalarOp::Rem if tracked & 0b10 == 0 => Some(Saves::NOTHING),
        ScalarOp::Pow => Some(Saves::inputs(0b11).and_output(tracked & 0b10 != 0)),
        ScalarOp::Rem | ScalarOp::Atan2 | ScalarOp::Max | ScalarOp::Min => Some(Saves::inputs(0b11)),
    }
}

/// As [`saves`].
fn scan(op: ReduceOp) -> Option<Saves> {
    match op {
        ReduceOp::Sum => Some(Saves::NOTHING),
        ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min => Some(Saves::inputs(1).and_output(true)),
        ReduceOp::ArgMax | ReduceOp::ArgMin => None,
    }
}

/// As [`saves`].
fn scatter(mode: ScatterMode) -> Saves {
    match mode {
        ScatterMode::Set | ScatterMode::Add => Saves::inputs(0b010),
        ScatterMode::Max | ScatterMode::Min => Saves::inputs(0b111).and_output(true),
    }
}
