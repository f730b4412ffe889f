//! The form of a kernel that crosses the ABI.

use super::verify::limits;
use super::{Access, Kernel, Level, MAX_NAME, Node, NodeId, Param, ReduceOp, Role, ScalarOp};
use crate::dtype::DType;
use crate::status::{Error, Result, Str};

macro_rules! codes {
    ($($kind:ident { $($name:ident = $code:literal, $text:literal;)* })*) => {
        $(impl $kind {
            /// Every value, in the order of the codes.
            pub const ALL: &'static [$kind] = &[$($kind::$name),*];

            /// The value that crosses the ABI.
            pub const fn code(self) -> u32 {
                match self { $($kind::$name => $code,)* }
            }

            /// The value of an ABI code.
            pub const fn from_code(code: u32) -> Option<$kind> {
                match code { $($code => Some($kind::$name),)* _ => None }
            }

            /// The name in the text form.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$name => $text,)* }
            }
        })*
    };
}

codes! {
    Role { In = 1, "in"; Out = 2, "out"; }
    Level { Row = 1, "row"; Element = 2, "element"; }
    Access { Contiguous = 1, "contiguous"; Broadcast = 2, "broadcast"; Strided = 3, "strided"; }
}

/// [`NodeDesc::op`] of [`Node::Const`]: `dtype`, `imm` = bits.
pub const OP_CONST: u32 = 0x001;
/// [`NodeDesc::op`] of [`Node::Scalar`]: `a` = index.
pub const OP_SCALAR: u32 = 0x002;
/// [`NodeDesc::op`] of [`Node::Load`]: `a` = parameter.
pub const OP_LOAD: u32 = 0x003;
/// [`NodeDesc::op`] of [`Node::LoadAt`]: `a` = parameter, `b` = index node.
pub const OP_LOAD_AT: u32 = 0x004;
/// [`NodeDesc::op`] of [`Node::Index`]: `a` = axis.
pub const OP_INDEX: u32 = 0x005;
/// [`NodeDesc::op`] of [`Node::Cast`]: `dtype`, `a` = argument.
pub const OP_CAST: u32 = 0x006;
/// [`NodeDesc::op`] of [`Node::Rand`]: `a` = key, `b` = counter.
pub const OP_RAND: u32 = 0x007;
/// [`NodeDesc::op`] of [`Node::Store`]: `a` = parameter, `b` = value.
pub const OP_STORE: u32 = 0x008;
/// [`NodeDesc::op`] of [`Node::Op`] is this plus [`ScalarOp::code`]: `a`, `b`, `c` = arguments, those beyond the arity
/// repeat the first.
pub const OP_SCALAR_OP: u32 = 0x100;
/// [`NodeDesc::op`] of [`Node::Reduce`] is this plus [`ReduceOp::code`]: `a` = argument.
pub const OP_REDUCE_OP: u32 = 0x200;

/// One node. Fields that the op does not use are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeDesc {
    /// One of the `OP_` constants.
    pub op: u32,
    /// [`DType::code`].
    pub dtype: u32,
    /// First operand.
    pub a: u32,
    /// Second operand.
    pub b: u32,
    /// Third operand.
    pub c: u32,
    /// 0.
    pub reserved: u32,
    /// Bits of a constant.
    pub imm: u64,
}

/// One buffer argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamDesc {
    /// [`DType::code`].
    pub dtype: u32,
    /// [`Role::code`].
    pub role: u32,
    /// [`Level::code`].
    pub level: u32,
    /// [`Access::code`].
    pub access: u32,
}

/// A kernel, borrowed for the duration of the call it is passed to. A pointer may be null when its count is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelDesc {
    /// [`Kernel::name`]: `[A-Za-z0-9_.:-]{1,128}`.
    pub name: Str,
    /// Axes of the outer space.
    pub outer: u32,
    /// Axes of the inner space.
    pub inner: u32,
    /// Buffer arguments.
    pub params: *const ParamDesc,
    /// Number of buffer arguments.
    pub param_count: usize,
    /// [`DType::code`] of each scalar argument.
    pub scalars: *const u32,
    /// Number of scalar arguments.
    pub scalar_count: usize,
    /// The body.
    pub nodes: *const NodeDesc,
    /// Number of nodes.
    pub node_count: usize,
}

/// The memory that a [`KernelDesc`] borrows.
#[derive(Clone, Debug)]
pub struct Owned {
    name: String,
    outer: u32,
    inner: u32,
    params: Vec<ParamDesc>,
    scalars: Vec<u32>,
    nodes: Vec<NodeDesc>,
}

impl Owned {
    /// A description that points into `self` and must not outlive it.
    pub fn desc(&self) -> KernelDesc {
        KernelDesc {
            name: Str::new(&self.name),
            outer: self.outer,
            inner: self.inner,
            params: self.params.as_ptr(),
            param_count: self.params.len(),
            scalars: self.scalars.as_ptr(),
            scalar_count: self.scalars.len(),
            nodes: self.nodes.as_ptr(),
            node_count: self.nodes.len(),
        }
    }
}

/// The ABI form of a kernel, well formed or not.
pub fn encode(kernel: &Kernel) -> Owned {
    let param = |p: &Param| ParamDesc {
        dtype: p.dtype.code(),
        role: p.role.code(),
        level: p.level.code(),
        access: p.access.code(),
    };
    Owned {
        name: kernel.name.clone(),
        outer: kernel.outer,
        inner: kernel.inner,
        params: kernel.params.iter().map(param).collect(),
        scalars: kernel.scalars.iter().map(|dtype| dtype.code()).collect(),
        nodes: kernel.nodes.iter().map(encode_node).collect(),
    }
}

fn encode_node(node: &Node) -> NodeDesc {
    let zero = NodeDesc::default();
    match *node {
        Node::Const { dtype, bits } => NodeDesc {
            op: OP_CONST,
            dtype: dtype.code(),
            imm: bits,
            ..zero
        },
        Node::Scalar { index } => NodeDesc {
            op: OP_SCALAR,
            a: index,
            ..zero
        },
        Node::Load { param } => NodeDesc {
            op: OP_LOAD,
            a: param,
            ..zero
        },
        Node::LoadAt { param, index } => NodeDesc {
            op: OP_LOAD_AT,
            a: param,
            b: index.0,
            ..zero
        },
        Node::Index { axis } => NodeDesc {
            op: OP_INDEX,
            a: axis,
            ..zero
        },
        Node::Op { op, args: [a, b, c] } => NodeDesc {
            op: OP_SCALAR_OP + op.code(),
            a: a.0,
            b: b.0,
            c: c.0,
            ..zero
        },
        Node::Cast { dtype, arg } => NodeDesc {
            op: OP_CAST,
            dtype: dtype.code(),
            a: arg.0,
            ..zero
        },
        Node::Rand { key, counter } => NodeDesc {
            op: OP_RAND,
            a: key.0,
            b: counter.0,
            ..zero
        },
        Node::Reduce { op, arg } => NodeDesc {
            op: OP_REDUCE_OP + op.code(),
            a: arg.0,
            ..zero
        },
        Node::Store { param, value } => NodeDesc {
            op: OP_STORE,
            a: param,
            b: value.0,
            ..zero
        },
    }
}

fn decode_node(desc: &NodeDesc) -> Result<Node> {
    let dtype = || decode_dtype(desc.dtype);
    let unknown = || Error::unsupported(format!("unknown opcode {:#x}", desc.op));
    let node = match desc.op {
        OP_CONST => Node::Const {
            dtype: dtype()?,
            bits: desc.imm,
        },
        OP_SCALAR => Node::Scalar { index: desc.a },
        OP_LOAD => Node::Load { param: desc.a },
        OP_LOAD_AT => Node::LoadAt {
            param: desc.a,
            index: NodeId(desc.b),
        },
        OP_INDEX => Node::Index { axis: desc.a },
        OP_CAST => Node::Cast {
            dtype: dtype()?,
            arg: NodeId(desc.a),
        },
        OP_RAND => Node::Rand {
            key: NodeId(desc.a),
            counter: NodeId(desc.b),
        },
        OP_STORE => Node::Store {
            param: desc.a,
            value: NodeId(desc.b),
        },
        code if code >= OP_REDUCE_OP => {
            let op = ReduceOp::from_code(code - OP_REDUCE_OP).ok_or_else(unknown)?;
            Node::Reduce {
                op,
                arg: NodeId(desc.a),
            }
        }
        code => {
            let op = code
                .checked_sub(OP_SCALAR_OP)
                .and_then(ScalarOp::from_code)
                .ok_or_else(unknown)?;
            Node::Op {
                op,
                args: [NodeId(desc.a), NodeId(desc.b), NodeId(desc.c)],
            }
        }
    };
    if encode_node(&node) != *desc {
        return Err(Error::invalid_argument(
            "a field that the op does not use is not 0",
        ));
    }
    Ok(node)
}

fn decode_dtype(code: u32) -> Result<DType> {
    DType::from_code(code).ok_or_else(|| Error::invalid_argument(format!("unknown dtype code {code}")))
}

fn decode_param(desc: &ParamDesc) -> Result<Param> {
    let unknown = |what: &str, code: u32| Error::invalid_argument(format!("unknown {what} code {code}"));
    Ok(Param {
        dtype: decode_dtype(desc.dtype)?,
        role: Role::from_code(desc.role).ok_or_else(|| unknown("role", desc.role))?,
        level: Level::from_code(desc.level).ok_or_else(|| unknown("level", desc.level))?,
        access: Access::from_code(desc.access).ok_or_else(|| unknown("access", desc.access))?,
    })
}

/// Reads the ABI form. The limits hold afterwards; [`Kernel::verify`] judges the rest.
///
/// # Errors
/// `Unsupported` for an opcode of a later version, `InvalidArgument` for everything else.
///
/// # Safety
/// Each pointer is null or points to as many readable elements as its count says, and the name to its bytes; nothing
/// changes them during the call. Counts beyond the limits are refused before anything is read.
pub unsafe fn decode(desc: &KernelDesc) -> Result<Kernel> {
    let KernelDesc { outer, inner, .. } = *desc;
    limits(
        u64::from(outer),
        u64::from(inner),
        desc.param_count,
        desc.scalar_count,
        desc.node_count,
    )
    .map_err(Error::invalid_argument)?;
    if desc.name.len > MAX_NAME {
        return Err(Error::invalid_argument(format!(
            "a kernel name of {} bytes, the limit is {MAX_NAME}",
            desc.name.len
        )));
    }
    // SAFETY: the caller vouches for the pointers; the counts were just checked.
    let (name, params, scalars, nodes) = unsafe {
        (
            desc.name.get()?,
            slice(desc.params, desc.param_count, "parameters")?,
            slice(desc.scalars, desc.scalar_count, "scalars")?,
            slice(desc.nodes, desc.node_count, "nodes")?,
        )
    };
    Ok(Kernel {
        name: name.to_owned(),
        outer,
        inner,
        params: at_each("p", params, decode_param)?,
        scalars: at_each("s", scalars, |code| decode_dtype(*code))?,
        nodes: at_each("n", nodes, decode_node)?,
    })
}

/// Decodes each item and puts its name before the text of an error.
fn at_each<T, R>(prefix: &str, items: &[T], decode: impl Fn(&T) -> Result<R>) -> Result<Vec<R>> {
    let named = |i: usize, e: Error| Error::new(e.status, format!("{prefix}{i}: {}", e.message));
    items
        .iter()
        .enumerate()
        .map(|(i, item)| decode(item).map_err(|e| named(i, e)))
        .collect()
}

/// # Safety
/// `ptr` is null or points to `count` readable values that stay unchanged for `'a`.
unsafe fn slice<'a, T>(ptr: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if ptr.is_null() || !ptr.is_aligned() {
        return Err(Error::invalid_argument(format!(
            "the pointer to the {what} is null or misaligned"
        )));
    }
    // SAFETY: not null, aligned, and readable by the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(ptr, count) })
}

#[cfg(test)]
mod tests;
