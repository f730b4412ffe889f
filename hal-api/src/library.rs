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

/// Defines the library ops. A row has the variant with its attributes, the code and the name, then two columns:
///
/// - what the op is: `kernel(definition)`, one kernel of the IR with the op's launch, or `kernels(count, signature)`, as many kernels
///   with temporaries between them, and what a launch of the op itself must match;
/// - `map`, where the results may go through an epilogue, whose input has the dtype `accumulate`, or `plain`.
///
/// Dtypes and parameters are no columns, because they follow from attributes: [`LibraryOp::signature`] says them.
macro_rules! library_ops {
    ($($(#[$doc:meta])* $op:ident($attributes:ident) = $code:ident, $name:expr, $form:ident($($of:tt)*), $epilogue:ident;)*) => {
        /// A library op.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum LibraryOp { $($(#[$doc])* $op($attributes),)* }

        impl LibraryOp {
            /// The name in messages and profiles.
            pub const fn name(&self) -> &'static str {
                match self { $(LibraryOp::$op(_) => $name,)* }
            }

            /// Dtype of the value that an epilogue is given, and the epilogue; `None` for an op that takes none.
            const fn mapped(&self) -> Option<(DType, &Option<Kernel>)> {
                match self { $(LibraryOp::$op(op) => library_ops!(@mapped $epilogue op),)* }
            }

            const fn epilogue_mut(&mut self) -> Option<&mut Option<Kernel>> {
                match self { $(LibraryOp::$op(op) => library_ops!(@place $epilogue op),)* }
            }

            /// The same computation in the IR, with the same launch.
            ///
            /// # Errors
            /// `InvalidArgument` when an attribute, a dtype or the epilogue breaks a rule of the op; `Unsupported` for
            /// [`LibraryOp::Sort`] and [`LibraryOp::Attention`], which are [`Sort::lowered`] and [`Attention::lowered`] to several
            /// kernels.
            pub fn definition(&self) -> Result<Kernel> {
                match self { $(LibraryOp::$op(op) => library_ops!(@definition $form $name, op, $($of)*),)* }
            }

            /// What a launch must match.
            ///
            /// # Errors
            /// `InvalidArgument` when an attribute, a dtype or the epilogue breaks a rule of the op.
            pub fn signature(&self) -> Result<Signature> {
                match self { $(LibraryOp::$op(op) => library_ops!(@signature $form op, $($of)*),)* }
            }

            /// The ABI form; borrow it with [`OwnedLibrary::desc`].
            pub fn encode(&self) -> OwnedLibrary {
                match self { $(LibraryOp::$op(op) => op.encode($code, self.epilogue()),)* }
            }

            /// Reads the ABI form and checks it.
            ///
            /// # Errors
            /// `Unsupported` for an op that this version does not know, `InvalidArgument` for a form that is none.
            ///
            /// # Safety
            /// `desc.epilogue` is null or as [`decode`](crate::ir::decode) asks.
            pub unsafe fn decode(desc: &LibraryDesc) -> Result<LibraryOp> {
                let op = match desc.op {
                    $($code => LibraryOp::$op($attributes::decode(desc, $name)?),)*
                    code => {
                        return Err(Error::unsupported(format!("library op {code} is not known to this version")));
                    }
                };
                if op.mapped().is_none() && !desc.epilogue.is_null() {
                    return refuse(op.name(), "it has no epilogue");
                }
                // SAFETY: the caller vouches for the epilogue.
                let epilogue = unsafe { desc.map(op.name()) }?;
                let op = epilogue.and_then(|map| op.with_epilogue(map)).unwrap_or(op);
                op.signature()?;
                Ok(op)
            }
        }
    };
    (@mapped map $op:ident) => { Some(($op.accumulate, &$op.epilogue)) };
    (@mapped plain $op:ident) => {{ let _ = $op; None }};
    (@place map $op:ident) => { Some(&mut $op.epilogue) };
    (@place plain $op:ident) => {{ let _ = $op; None }};
    (@definition kernel $name:expr, $op:ident, $definition:expr) => { $definition($op) };
    (@definition kernels $name:expr, $op:ident, $count:literal, $signature:expr) => {{
        let _ = $op;
        Err(Error::unsupported(format!("{} has no definition in one kernel; lower it to its {}", $name, $count)))
    }};
    (@signature kernel $op:ident, $definition:expr) => { $definition($op).map(|kernel| Signature::of(&kernel)) };
    (@signature kernels $op:ident, $count:literal, $signature:expr) => { $signature($op) };
}

library_ops! {
    /// Batched matrix product.
    Matmul(Matmul) = MATMUL, matmul::NAME, kernel(Matmul::definition), map;
    /// Convolution in one to three spatial axes.
    Conv(Conv) = CONV, Direction::Forward.name(), kernel(Conv::forward), map;
    /// The gradient of [`LibraryOp::Conv`] with respect to its input: a transposed convolution.
    ConvGradInput(Conv) = CONV_GRAD_INPUT, Direction::GradInput.name(), kernel(Conv::grad_input), map;
    /// The gradient of [`LibraryOp::Conv`] with respect to its weight.
    ConvGradWeight(Conv) = CONV_GRAD_WEIGHT, Direction::GradWeight.name(), kernel(Conv::grad_weight), map;
    /// Updates written to, or combined with, places given by indices along one axis.
    Scatter(Scatter) = SCATTER, scatter::NAME, kernel(Scatter::definition), plain;
    /// Cumulative sum, product, maximum or minimum along one axis.
    Scan(Scan) = SCAN, scan::NAME, kernel(Scan::definition), plain;
    /// Sorted values and their indices along one axis.
    Sort(Sort) = SORT, sort::NAME, kernels("two", Sort::signature), plain;
    /// Values gathered by the softmax of the products of queries and keys.
    Attention(Attention) = ATTENTION, attention::NAME, kernels("three", Attention::signature), plain;
}

impl LibraryOp {
    /// The map that is applied to each result, if there is one. A backend that supports the op with a map sums as it does without.
    pub fn epilogue(&self) -> Option<&Kernel> {
        self.mapped()?.1.as_ref()
    }

    /// Dtype of the value that an epilogue is given, its parameter 0; `None` for an op that takes no epilogue.
    pub fn epilogue_dtype(&self) -> Option<DType> {
        Some(self.mapped()?.0)
    }

    /// The op with another epilogue; `None` for an op that takes none.
    #[must_use]
    pub fn with_epilogue(&self, map: Kernel) -> Option<LibraryOp> {
        let mut op = self.clone();
        *op.epilogue_mut()? = Some(map);
        Some(op)
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
