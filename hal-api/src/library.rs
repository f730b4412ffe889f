//! Library ops: whole operations that a backend may offer beside the IR.
//!
//! A library op is launched like a kernel: extents of its index space, one binding a parameter with strides over that
//! space. [`LibraryOp::definition`] is the same computation in the IR, so a backend without it loses speed and
//! nothing else, and the reference interpreter defines it.

use crate::dtype::DType;
use crate::ir::{
    Access, Kernel, KernelDesc, Level, Node, NodeId, Owned, ReduceOp, Role, ScalarOp, decode, encode,
};
use crate::status::{Error, Result};
use abi_stable::StableAbi;

/// Code of [`LibraryOp::Matmul`] in [`LibraryDesc::op`]:
/// `out[b.., i, j] = epilogue(sum over l of a[b.., i, l] * b[b.., l, j])`.
///
/// Dtypes: operands, accumulator, output. Attribute 0: number of batch axes. Index space: outer `[b.., m, n]`, inner
/// `[k]`. Parameters: `a` and `b` (element level, strided), the epilogue's further inputs, the output (row level,
/// strided).
pub const MATMUL: u32 = 1;

/// The ABI form of a library op.
#[derive(Clone, Copy, Debug, StableAbi)]
#[repr(C)]
pub struct LibraryDesc {
    /// Which op; `Unsupported` for a code the backend does not know.
    pub op: u32,
    /// Number of dtypes that are read.
    pub dtype_count: u32,
    /// Dtype codes, their meaning is the op's.
    pub dtypes: [u32; 8],
    /// Integer attributes, their meaning is the op's; unused ones are 0.
    pub attributes: [i64; 24],
    /// A map that is applied to the result before it is stored, or null.
    pub epilogue: *const KernelDesc,
}

/// A library op.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LibraryOp {
    /// Batched matrix product.
    Matmul(Matmul),
}

/// `out[b.., i, j] = epilogue(sum over l of a[b.., i, l] * b[b.., l, j])`.
///
/// Index space: outer `[b.., m, n]` with `batch` batch axes, inner `[k]`. Parameters: 0 `a` and 1 `b` (element level,
/// strided: `a` has stride 0 along n, `b` along m, either may have stride 0 along a batch axis), the epilogue's further
/// inputs (row level), then the output (row level, strided). Transposed operands are strides.
///
/// Arithmetic: floats multiply and accumulate in `accumulate` with any order of k that depends on the extents alone, and
/// may be contracted; integers wrap in `accumulate`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matmul {
    /// Batch axes, `0..=MAX_RANK - 2`.
    pub batch: u32,
    /// Dtype of both operands.
    pub dtype: DType,
    /// Dtype of products and sums: `dtype` itself, f32 for f16 and bf16, i32 for i8 and u8, i64/u64 for narrower integers.
    pub accumulate: DType,
    /// Dtype of the output when there is no epilogue.
    pub output: DType,
    /// A map over outer rank `batch + 2`: its input 0 is the sum (dtype `accumulate`), its other inputs are parameters of
    /// the launch, and it has one output.
    pub epilogue: Option<Kernel>,
}

impl LibraryOp {
    /// The same computation in the IR, with the same launch.
    pub fn definition(&self) -> Result<Kernel> {
        match self {
            LibraryOp::Matmul(op) => op.definition(),
        }
    }

    /// The ABI form; borrow it with [`OwnedLibrary::desc`].
    pub fn encode(&self) -> OwnedLibrary {
        match self {
            LibraryOp::Matmul(op) => {
                let mut dtypes = [0; 8];
                dtypes[..3].copy_from_slice(&[op.dtype.code(), op.accumulate.code(), op.output.code()]);
                let mut attributes = [0; 24];
                attributes[0] = i64::from(op.batch);
                OwnedLibrary {
                    op: MATMUL,
                    dtype_count: 3,
                    dtypes,
                    attributes,
                    epilogue: op.epilogue.as_ref().map(encode),
                }
            }
        }
    }

    /// Reads the ABI form and checks it.
    ///
    /// # Safety
    /// `desc.epilogue` is null or as [`decode`] asks.
    pub unsafe fn decode(desc: &LibraryDesc) -> Result<LibraryOp> {
        if desc.op != MATMUL {
            return Err(Error::unsupported(format!(
                "library op {} is not known to this version",
                desc.op
            )));
        }
        if desc.dtype_count != 3 {
            return Err(Error::invalid_argument(format!(
                "matmul has 3 dtypes, not {}",
                desc.dtype_count
            )));
        }
        let dtype = |i: usize| {
            DType::from_code(desc.dtypes[i]).ok_or_else(|| {
                Error::invalid_argument(format!("matmul: unknown dtype code {}", desc.dtypes[i]))
            })
        };
        let batch = u32::try_from(desc.attributes[0])
            .map_err(|_| Error::invalid_argument(format!("matmul: {} batch axes", desc.attributes[0])))?;
        if !desc.epilogue.is_aligned() {
            return Err(Error::invalid_argument(
                "matmul: the pointer to the epilogue is misaligned",
            ));
        }
        if desc.dtypes[3..].iter().any(|&code| code != 0)
            || desc.attributes[1..].iter().any(|&value| value != 0)
        {
            return Err(Error::invalid_argument(
                "matmul: an attribute that it does not have is not 0",
            ));
        }
        let epilogue = if desc.epilogue.is_null() {
            None
        } else {
            // SAFETY: the caller vouches for the epilogue.
            Some(unsafe { decode(&*desc.epilogue) }?)
        };
        let op = Matmul {
            batch,
            dtype: dtype(0)?,
            accumulate: dtype(1)?,
            output: dtype(2)?,
            epilogue,
        };
        op.definition()?;
        Ok(LibraryOp::Matmul(op))
    }
}

/// Owns what a [`LibraryDesc`] points to.
#[derive(Debug)]
pub struct OwnedLibrary {
    op: u32,
    dtype_count: u32,
    dtypes: [u32; 8],
    attributes: [i64; 24],
    epilogue: Option<Owned>,
}

impl OwnedLibrary {
    /// The ABI form of the epilogue, to be kept alive beside [`OwnedLibrary::desc`].
    pub fn epilogue(&self) -> Option<KernelDesc> {
        self.epilogue.as_ref().map(Owned::desc)
    }

    /// The ABI form; `epilogue` is what [`OwnedLibrary::epilogue`] returned.
    pub fn desc(&self, epilogue: Option<&KernelDesc>) -> LibraryDesc {
        LibraryDesc {
            op: self.op,
            dtype_count: self.dtype_count,
            dtypes: self.dtypes,
            attributes: self.attributes,
            epilogue: epilogue.map_or(std::ptr::null(), std::ptr::from_ref),
        }
    }
}

impl Matmul {
    fn definition(&self) -> Result<Kernel> {
        let refuse = |what: String| Err(Error::invalid_argument(format!("matmul: {what}")));
        if self.batch as usize + 2 > crate::ir::MAX_RANK {
            return refuse(format!(
                "{} batch axes, at most {} are possible",
                self.batch,
                crate::ir::MAX_RANK - 2
            ));
        }
        if !ReduceOp::Sum.takes(self.accumulate) {
            return refuse(format!(
                "{} does not accumulate; use a 32- or 64-bit dtype",
                self.accumulate
            ));
        }
        let mut kernel = Kernel::new("matmul", self.batch + 2, 1);
        let operand = |kernel: &mut Kernel| {
            let param = kernel.param(self.dtype, Role::In, Level::Element, Access::Strided);
            let value = kernel.load(param);
            if self.dtype == self.accumulate {
                value
            } else {
                kernel.cast(self.accumulate, value)
            }
        };
        let (a, b) = (operand(&mut kernel), operand(&mut kernel));
        let product = kernel.op(ScalarOp::Mul, &[a, b]);
        let sum = kernel.reduce(ReduceOp::Sum, product);
        match &self.epilogue {
            None => {
                let out = kernel.param(self.output, Role::Out, Level::Row, Access::Strided);
                let value = if self.output == self.accumulate {
                    sum
                } else {
                    kernel.cast(self.output, sum)
                };
                kernel.store(out, value);
            }
            Some(epilogue) => inline_epilogue(&mut kernel, epilogue, sum, self.accumulate)?,
        }
        kernel
            .verify()
            .map_err(|e| Error::invalid_argument(format!("matmul: {e}")))?;
        Ok(kernel)
    }
}

/// Appends the body of `epilogue` to `kernel`, with `value` in place of its first input.
fn inline_epilogue(kernel: &mut Kernel, epilogue: &Kernel, value: NodeId, dtype: DType) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::invalid_argument(format!(
            "epilogue {}: {what}",
            epilogue.name
        )))
    };
    epilogue
        .verify()
        .map_err(|e| Error::invalid_argument(format!("epilogue {}: {e}", epilogue.name)))?;
    let outputs = epilogue.params.iter().filter(|p| p.role == Role::Out).count();
    if epilogue.inner != 0 || epilogue.outer != kernel.outer {
        return refuse("it must be a map over the outer axes of the op");
    }
    if epilogue
        .params
        .first()
        .is_none_or(|p| p.role != Role::In || p.dtype != dtype)
    {
        return refuse("its first parameter must be an input of the accumulator's dtype");
    }
    if outputs != 1 || epilogue.params.last().is_none_or(|p| p.role != Role::Out) {
        return refuse("it must have one output, its last parameter");
    }
    let base = kernel.params.len() as u32;
    kernel.params.extend(&epilogue.params[1..]);
    let scalars = kernel.scalars.len() as u32;
    kernel.scalars.extend(&epilogue.scalars);
    let mut ids = Vec::with_capacity(epilogue.nodes.len());
    for node in &epilogue.nodes {
        let of = |id: NodeId| -> NodeId { ids[id.index()] };
        let id = match *node {
            Node::Load { param: 0 } => value,
            Node::LoadAt { param: 0, .. } => return refuse("it must not gather from its first parameter"),
            Node::Const { .. } | Node::Index { .. } => kernel.push(*node),
            Node::Scalar { index } => kernel.push(Node::Scalar {
                index: index + scalars,
            }),
            Node::Load { param } => kernel.push(Node::Load {
                param: param - 1 + base,
            }),
            Node::LoadAt { param, index } => kernel.push(Node::LoadAt {
                param: param - 1 + base,
                index: of(index),
            }),
            Node::Op { op, args } => kernel.push(Node::Op {
                op,
                args: args.map(of),
            }),
            Node::Cast { dtype, arg } => kernel.push(Node::Cast { dtype, arg: of(arg) }),
            Node::Rand { key, counter } => kernel.push(Node::Rand {
                key: of(key),
                counter: of(counter),
            }),
            Node::Reduce { .. } => return refuse("it must be a map"),
            Node::Store { param, value } => kernel.push(Node::Store {
                param: param - 1 + base,
                value: of(value),
            }),
        };
        ids.push(id);
    }
    Ok(())
}
