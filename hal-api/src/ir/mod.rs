//! The kernel IR: the narrow waist between graphs and devices.
//!
//! A kernel walks an *outer* index space and, inside it, an *inner* one (rank 0 for plain maps). Its body is a list of
//! SSA nodes over scalars, in an order in which every node comes after what it uses. A value is at [`Level::Row`] when
//! it is the same for a whole walk of the inner space, and at [`Level::Element`] when it depends on the inner index.
//! [`Node::Reduce`] turns an element-level value into a row-level one; used together with an element-level value it
//! is element-level again. A map has no `Reduce`, a sum has one and stores at row level, softmax has two and stores
//! at element level.
//!
//! Nothing here says how a device walks the spaces: tiles, threads and launch geometry are the backend's.
//!
//! # Meaning
//! - Index spaces are row-major; the last axis runs fastest.
//! - Every load reads what memory held before the launch. An output may share memory with an input only when both have
//!   the same dtype, level, address and strides and no [`Node::LoadAt`] reads the input.
//! - Floating-point ops are IEEE 754 with round-to-nearest-even and are never contracted or reassociated. f16 and bf16
//!   ops compute in f32 and round the result to the dtype after each op. Dtypes for storage are
//!   loaded, stored, selected and cast, and a cast to them rounds once; what is too large for f8e4m3 becomes NaN.
//! - Integer arithmetic wraps. `x / 0` and `x % 0` are 0, `MIN / -1` is `MIN`. Division truncates.
//! - `max` and `min` hand NaN on; `-0` counts as less than `+0`.
//! - A sum or product may be combined in any order that depends on the extents alone, never on the number of threads.
//! - [`Node::LoadAt`] outside `0..gather_extent` is 0 and touches no memory.

pub mod arbitrary;
mod encode;
mod facts;
mod op;
#[cfg(test)]
mod proptests;
mod text;
mod verify;

pub use encode::{
    KernelDesc, NodeDesc, OP_CAST, OP_CONST, OP_INDEX, OP_LOAD, OP_LOAD_AT, OP_RAND, OP_REDUCE_OP, OP_SCALAR,
    OP_SCALAR_OP, OP_STORE, Owned, ParamDesc, decode, encode,
};
pub use facts::{Accepts, Cost, Mixed, Returns, Rounding, Slope};
pub use op::{ReduceOp, ScalarOp};
pub use text::{ParseError, literal, parse_literal};
pub use verify::{Info, VerifyError};

use crate::dtype::DType;

/// Most axes of the outer and of the inner space, each.
pub const MAX_RANK: usize = 8;
/// Most parameters of a kernel.
pub const MAX_PARAMS: usize = 64;
/// Most scalar arguments of a kernel.
pub const MAX_SCALARS: usize = 64;
/// Most nodes of a kernel.
pub const MAX_NODES: usize = 4096;
/// Longest kernel name in bytes.
pub const MAX_NAME: usize = 128;

/// Index of a node in [`Kernel::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether a value changes along the inner space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// One value per point of the outer space.
    Row,
    /// One value per point of the outer and inner space.
    Element,
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Read only.
    In,
    /// Written by exactly one [`Node::Store`], at every point of its level.
    Out,
}

/// What the kernel may assume about a parameter's strides. The launch must keep the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Row-major without gaps over the axes of the parameter's level.
    Contiguous,
    /// All strides are 0: one element for the whole launch. Inputs only.
    Broadcast,
    /// Any strides.
    Strided,
}

/// One buffer argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// Element type in memory.
    pub dtype: DType,
    /// Direction.
    pub role: Role,
    /// Which axes its strides cover: the outer ones, or the outer and inner ones.
    pub level: Level,
    /// Promise about its strides.
    pub access: Access,
}

/// One SSA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A constant: the low `size` bytes of `bits` are the element's memory.
    Const {
        /// Type of the value.
        dtype: DType,
        /// The value's bits, zero-extended.
        bits: u64,
    },
    /// A scalar launch argument.
    Scalar {
        /// Index in [`Kernel::scalars`].
        index: u32,
    },
    /// The element of `param` at the current index.
    Load {
        /// Index in [`Kernel::params`].
        param: u32,
    },
    /// The element of `param` at the current index, moved by `index` times the launch's gather stride;
    /// 0 when `index` is outside `0..gather_extent`.
    LoadAt {
        /// Index in [`Kernel::params`].
        param: u32,
        /// An i64 value.
        index: NodeId,
    },
    /// The current index along `axis` as i64; outer axes come first, inner axes follow.
    Index {
        /// `0..outer + inner`.
        axis: u32,
    },
    /// A scalar op on values of the level of its highest argument.
    Op {
        /// Which op.
        op: ScalarOp,
        /// As many as the op's arity; the rest repeat the first.
        args: [NodeId; 3],
    },
    /// Conversion. Float to integer saturates and NaN becomes 0; integer to integer wraps; to bool is `x != 0`;
    /// to a float rounds to nearest even.
    Cast {
        /// Target.
        dtype: DType,
        /// Source value.
        arg: NodeId,
    },
    /// Word `counter % 4` of Philox4x32-10 (Salmon et al., SC'11) with counter block `(counter / 4, 0)` and key `key`, as
    /// u32; both arguments are u64, low word first.
    Rand {
        /// u64 key.
        key: NodeId,
        /// u64 counter in words.
        counter: NodeId,
    },
    /// Combines an element-level value over the inner space.
    Reduce {
        /// How.
        op: ReduceOp,
        /// Element-level value.
        arg: NodeId,
    },
    /// Writes `value` to `param`; it has no value of its own.
    Store {
        /// Index in [`Kernel::params`].
        param: u32,
        /// Value of the parameter's dtype and of its level or below.
        value: NodeId,
    },
}

/// A kernel before it is compiled for a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// `[A-Za-z0-9_.:-]{1,128}`; shown in profiles and errors.
    pub name: String,
    /// Axes of the outer space.
    pub outer: u32,
    /// Axes of the inner space; 0 for a map.
    pub inner: u32,
    /// Buffer arguments, in launch order.
    pub params: Vec<Param>,
    /// Types of the scalar arguments, in launch order.
    pub scalars: Vec<DType>,
    /// The body.
    pub nodes: Vec<Node>,
}

impl Kernel {
    /// An empty kernel over spaces of the given ranks.
    pub fn new(name: impl Into<String>, outer: u32, inner: u32) -> Kernel {
        Kernel {
            name: name.into(),
            outer,
            inner,
            params: Vec::new(),
            scalars: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Adds a buffer argument and returns its index.
    pub fn param(&mut self, dtype: DType, role: Role, level: Level, access: Access) -> u32 {
        self.params.push(Param {
            dtype,
            role,
            level,
            access,
        });
        self.params.len() as u32 - 1
    }

    /// Adds a scalar argument and a node that reads it.
    pub fn scalar(&mut self, dtype: DType) -> NodeId {
        self.scalars.push(dtype);
        let index = self.scalars.len() as u32 - 1;
        self.push(Node::Scalar { index })
    }

    /// Appends a node.
    pub fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Appends [`Node::Const`] with an f32.
    pub fn const_f32(&mut self, value: f32) -> NodeId {
        self.push(Node::Const {
            dtype: DType::F32,
            bits: u64::from(value.to_bits()),
        })
    }

    /// Appends [`Node::Load`].
    pub fn load(&mut self, param: u32) -> NodeId {
        self.push(Node::Load { param })
    }

    /// Appends [`Node::Op`].
    ///
    /// # Panics
    /// When the number of arguments is not the op's arity.
    pub fn op(&mut self, op: ScalarOp, args: &[NodeId]) -> NodeId {
        assert_eq!(
            args.len(),
            op.arity(),
            "{} takes {} arguments",
            op.name(),
            op.arity()
        );
        let at = |i: usize| args.get(i).copied().unwrap_or(args[0]);
        self.push(Node::Op {
            op,
            args: [at(0), at(1), at(2)],
        })
    }

    /// Appends [`Node::Cast`].
    pub fn cast(&mut self, dtype: DType, arg: NodeId) -> NodeId {
        self.push(Node::Cast { dtype, arg })
    }

    /// Appends [`Node::Reduce`].
    pub fn reduce(&mut self, op: ReduceOp, arg: NodeId) -> NodeId {
        self.push(Node::Reduce { op, arg })
    }

    /// Appends [`Node::Store`].
    pub fn store(&mut self, param: u32, value: NodeId) {
        self.push(Node::Store { param, value });
    }

    /// Checks every rule of the IR and returns dtype and level of each node.
    pub fn verify(&self) -> Result<Info, VerifyError> {
        verify::verify(self)
    }

    /// Whether a store needs each node.
    pub fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate().rev() {
            used[i] |= matches!(node, Node::Store { .. });
            if used[i] {
                node.args().for_each(|arg| used[arg.index()] = true);
            }
        }
        used
    }

    /// The same kernel without the nodes that no store needs. The others keep their order.
    #[must_use]
    pub fn without_unused(&self) -> Kernel {
        let used = self.used();
        let mut numbers = vec![NodeId(0); used.len()];
        let mut kernel = Kernel {
            nodes: Vec::new(),
            ..self.clone()
        };
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| used[*i]) {
            numbers[i] = kernel.push(node.map_args(|arg| numbers[arg.index()]));
        }
        kernel
    }

    /// The text form, one line a node; [`Kernel::parse`] reads it back.
    pub fn to_text(&self) -> String {
        text::print(self)
    }

    /// Reads the text form. The kernel is well formed as text; [`Kernel::verify`] judges the rest.
    pub fn parse(text: &str) -> Result<Kernel, ParseError> {
        text::parse(text)
    }
}

impl Node {
    /// The nodes that this one uses, in order.
    pub fn args(&self) -> impl Iterator<Item = NodeId> {
        let (args, count) = match *self {
            Node::Const { .. } | Node::Scalar { .. } | Node::Load { .. } | Node::Index { .. } => {
                ([NodeId(0); 3], 0)
            }
            Node::LoadAt { index, .. } => ([index; 3], 1),
            Node::Op { op, args } => (args, op.arity()),
            Node::Cast { arg, .. } | Node::Reduce { arg, .. } => ([arg; 3], 1),
            Node::Rand { key, counter } => ([key, counter, counter], 2),
            Node::Store { value, .. } => ([value; 3], 1),
        };
        args.into_iter().take(count)
    }

    /// The same node over other nodes.
    #[must_use]
    pub fn map_args(self, of: impl Fn(NodeId) -> NodeId) -> Node {
        match self {
            Node::Const { .. } | Node::Scalar { .. } | Node::Load { .. } | Node::Index { .. } => self,
            Node::LoadAt { param, index } => Node::LoadAt {
                param,
                index: of(index),
            },
            Node::Op { op, args } => Node::Op {
                op,
                args: args.map(of),
            },
            Node::Cast { dtype, arg } => Node::Cast { dtype, arg: of(arg) },
            Node::Rand { key, counter } => Node::Rand {
                key: of(key),
                counter: of(counter),
            },
            Node::Reduce { op, arg } => Node::Reduce { op, arg: of(arg) },
            Node::Store { param, value } => Node::Store {
                param,
                value: of(value),
            },
        }
    }
}
