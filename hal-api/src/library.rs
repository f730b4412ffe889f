//! Library ops: whole operations that a backend may offer beside the IR.
//!
//! A library op is launched like a kernel: extents of its index space, one binding a parameter with strides over that
//! space. [`LibraryOp::definition`] is the same computation in the IR, so a backend without it loses speed and
//! nothing else, and the reference interpreter defines it. [`Sort`] and [`Attention`] take several kernels and
//! temporaries: [`Sort::lowered`], [`Attention::lowered`].

mod attention;
mod conv;
mod desc;
mod epilogue;
mod matmul;
mod scan;
mod scatter;
mod sort;
#[cfg(test)]
mod tests;

pub use attention::{Attention, Steps};
pub use conv::{Conv, MAX_SPATIAL};
pub use desc::{
    ATTENTION, CONV, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT, LibraryDesc, MATMUL, OwnedLibrary, SCAN, SCATTER,
    SORT,
};
pub use matmul::Matmul;
pub use scan::Scan;
pub use scatter::Scatter;
pub use sort::Sort;

use crate::dtype::DType;
use crate::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Returns, Role, ScalarOp};
use crate::kit::checks::Signature;
use crate::status::{Error, Result};
use conv::Direction;

/// A library op.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LibraryOp {
    /// Batched matrix product.
    Matmul(Matmul),
    /// Convolution in one to three spatial axes.
    Conv(Conv),
    /// The gradient of [`LibraryOp::Conv`] with respect to its input: a transposed convolution.
    ConvGradInput(Conv),
    /// The gradient of [`LibraryOp::Conv`] with respect to its weight.
    ConvGradWeight(Conv),
    /// Updates written to, or combined with, places given by indices along one axis.
    Scatter(Scatter),
    /// Cumulative sum, product, maximum or minimum along one axis.
    Scan(Scan),
    /// Sorted values and their indices along one axis.
    Sort(Sort),
    /// Values gathered by the softmax of the products of queries and keys.
    Attention(Attention),
}

impl LibraryOp {
    /// The name in messages and profiles.
    pub const fn name(&self) -> &'static str {
        match self {
            LibraryOp::Matmul(_) => "matmul",
            LibraryOp::Conv(_) => "conv",
            LibraryOp::ConvGradInput(_) => "conv_grad_input",
            LibraryOp::ConvGradWeight(_) => "conv_grad_weight",
            LibraryOp::Scatter(_) => "scatter",
            LibraryOp::Scan(_) => "scan",
            LibraryOp::Sort(_) => "sort",
            LibraryOp::Attention(_) => "attention",
        }
    }

    /// The map that is applied to each result, if there is one. A backend that supports the op with a map sums as it does without.
    pub fn epilogue(&self) -> Option<&Kernel> {
        match self {
            LibraryOp::Matmul(op) => op.epilogue.as_ref(),
            LibraryOp::Conv(op) | LibraryOp::ConvGradInput(op) | LibraryOp::ConvGradWeight(op) => {
                op.epilogue.as_ref()
            }
            LibraryOp::Scatter(_) | LibraryOp::Scan(_) | LibraryOp::Sort(_) | LibraryOp::Attention(_) => None,
        }
    }

    /// The same computation in the IR, with the same launch.
    ///
    /// # Errors
    /// `InvalidArgument` when an attribute, a dtype or the epilogue breaks a rule of the op; `Unsupported` for
    /// [`LibraryOp::Sort`] and [`LibraryOp::Attention`], which are [`Sort::lowered`] and [`Attention::lowered`] to several kernels.
    pub fn definition(&self) -> Result<Kernel> {
        match self {
            LibraryOp::Matmul(op) => op.definition(),
            LibraryOp::Conv(op) => op.definition(Direction::Forward),
            LibraryOp::ConvGradInput(op) => op.definition(Direction::GradInput),
            LibraryOp::ConvGradWeight(op) => op.definition(Direction::GradWeight),
            LibraryOp::Scatter(op) => op.definition(),
            LibraryOp::Scan(op) => op.definition(),
            LibraryOp::Sort(_) => Err(Error::unsupported(
                "sort has no definition in one kernel; lower it to its two",
            )),
            LibraryOp::Attention(_) => Err(Error::unsupported(
                "attention has no definition in one kernel; lower it to its three",
            )),
        }
    }

    /// What a launch must match.
    ///
    /// # Errors
    /// `InvalidArgument` when an attribute, a dtype or the epilogue breaks a rule of the op.
    pub fn signature(&self) -> Result<Signature> {
        match self {
            LibraryOp::Matmul(_)
            | LibraryOp::Conv(_)
            | LibraryOp::ConvGradInput(_)
            | LibraryOp::ConvGradWeight(_)
            | LibraryOp::Scatter(_)
            | LibraryOp::Scan(_) => self.definition().map(|kernel| Signature::of(&kernel)),
            LibraryOp::Sort(op) => op.signature(),
            LibraryOp::Attention(op) => op.signature(),
        }
    }

    /// The ABI form; borrow it with [`OwnedLibrary::desc`].
    pub fn encode(&self) -> OwnedLibrary {
        match self {
            LibraryOp::Matmul(op) => op.encode(),
            LibraryOp::Conv(op) => op.encode(CONV),
            LibraryOp::ConvGradInput(op) => op.encode(CONV_GRAD_INPUT),
            LibraryOp::ConvGradWeight(op) => op.encode(CONV_GRAD_WEIGHT),
            LibraryOp::Scatter(op) => op.encode(),
            LibraryOp::Scan(op) => op.encode(),
            LibraryOp::Sort(op) => op.encode(),
            LibraryOp::Attention(op) => op.encode(),
        }
    }

    /// Reads the ABI form and checks it.
    ///
    /// # Errors
    /// `Unsupported` for an op that this version does not know, `InvalidArgument` for a form that is none.
    ///
    /// # Safety
    /// `desc.epilogue` is null or as [`decode`](crate::ir::decode) asks.
    pub unsafe fn decode(desc: &LibraryDesc) -> Result<LibraryOp> {
        // SAFETY: the caller vouches for the epilogue.
        let op = unsafe {
            match desc.op {
                MATMUL => LibraryOp::Matmul(Matmul::decode(desc)?),
                CONV => LibraryOp::Conv(Conv::decode(desc, "conv")?),
                CONV_GRAD_INPUT => LibraryOp::ConvGradInput(Conv::decode(desc, "conv_grad_input")?),
                CONV_GRAD_WEIGHT => LibraryOp::ConvGradWeight(Conv::decode(desc, "conv_grad_weight")?),
                SCATTER => LibraryOp::Scatter(Scatter::decode(desc)?),
                SCAN => LibraryOp::Scan(Scan::decode(desc)?),
                SORT => LibraryOp::Sort(Sort::decode(desc)?),
                ATTENTION => LibraryOp::Attention(Attention::decode(desc)?),
                code => {
                    return Err(Error::unsupported(format!(
                        "library op {code} is not known to this version"
                    )));
                }
            }
        };
        op.signature()?;
        Ok(op)
    }
}

/// The value that combining with changes nothing.
fn neutral(kernel: &mut Kernel, op: ReduceOp, dtype: DType) -> NodeId {
    let bits = op.identity(dtype);
    kernel.push(Node::Const { dtype, bits })
}

/// The scalar op that joins two partial results of a reduction that library ops combine with.
fn joins(op: ReduceOp) -> Option<ScalarOp> {
    (op.returns() == Returns::Same).then(|| op.combines())
}

fn input(kernel: &mut Kernel, dtype: DType, level: Level) -> u32 {
    kernel.param(dtype, Role::In, level, Access::Strided)
}

fn output(kernel: &mut Kernel, dtype: DType, value: NodeId) {
    let param = kernel.param(dtype, Role::Out, Level::Row, Access::Strided);
    kernel.store(param, value);
}

fn index(kernel: &mut Kernel, axis: u32) -> NodeId {
    kernel.push(Node::Index { axis })
}

fn whole(kernel: &mut Kernel, value: i64) -> NodeId {
    kernel.push(Node::Const {
        dtype: DType::I64,
        bits: value as u64,
    })
}

/// A cast, unless `value` has the dtype already.
fn cast(kernel: &mut Kernel, from: DType, to: DType, value: NodeId) -> NodeId {
    if from == to { value } else { kernel.cast(to, value) }
}

fn refuse<T>(name: &str, what: impl std::fmt::Display) -> Result<T> {
    Err(Error::invalid_argument(format!("{name}: {what}")))
}

fn verified(name: &str, kernel: Kernel) -> Result<Kernel> {
    match kernel.verify() {
        Ok(_) => Ok(kernel),
        Err(error) => refuse(name, error),
    }
}

/// The reduction of a code among the attributes.
fn reduction(name: &str, code: i64) -> Result<ReduceOp> {
    match u32::try_from(code).ok().and_then(ReduceOp::from_code) {
        Some(op) => Ok(op),
        None => refuse(name, format!("unknown reduction {code}")),
    }
}
