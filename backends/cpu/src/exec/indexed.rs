//! Indices as parameters: a map of floats that asks where it is reads that from a table of whole numbers, so that it has machine code.
//!
//! Integers become f32, which is exact: indices and constants are below [`MOST`], and what is computed of them below 2²⁴.

use super::program::{Arg, Args, Program};
use crate::isa::Isa;
use crate::parallel::Parallel;
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Info, Kernel, Level, Node, NodeId, Param, Role, ScalarOp};

/// Bound of indices, and of constants and scalars beside them.
const MOST: i64 = 1 << 20;
/// Whole numbers up to this one are exact in f32.
const EXACT: i64 = 1 << 24;

/// A map whose indices are parameters.
pub(super) struct Indexed {
    kernel: Kernel,
    /// The axis of each of the parameters behind those of the map.
    axes: Vec<usize>,
    /// Scalars that are integers in the map.
    integers: Vec<usize>,
    /// Made when it first runs.
    program: OnceLock<Option<Box<Program>>>,
    /// Whole numbers from 0 on, as many as launches had along an axis.
    table: RwLock<Arc<[f32]>>,
}

impl Indexed {
    /// `None` where a kernel asks for no index, is no map, or does with one what f32 does not.
    pub(super) fn of(kernel: &Kernel, info: &Info) -> Option<Indexed> {
        let asks = kernel.nodes.iter().any(|node| matches!(node, Node::Index { .. }));
        if !asks || kernel.inner != 0 {
            return None;
        }
        let mut own = Kernel::new(kernel.name.clone(), kernel.outer, 0);
        own.params.clone_from(&kernel.params);
        own.scalars.clone_from(&kernel.scalars);
        let (mut axes, mut integers) = (Vec::new(), Vec::new());
        let mut ids: Vec<NodeId> = Vec::with_capacity(kernel.nodes.len());
        // The least and the greatest that each integer is.
        let mut bounds: Vec<Option<[i64; 2]>> = Vec::with_capacity(kernel.nodes.len());
        for (i, node) in kernel.nodes.iter().enumerate() {
            let of = |id: NodeId| ids[id.index()];
            let whole = info.dtypes[i] == Some(DType::I64);
            let mut bound = None;
            let node = match *node {
                Node::Index { axis } => {
                    let axis = axis as usize;
                    let at = axes.iter().position(|&other| other == axis).unwrap_or_else(|| {
                        axes.push(axis);
                        own.params.push(Param {
                            dtype: DType::F32,
                            role: Role::In,
                            level: Level::Row,
                            access: Access::Strided,
                        });
                        axes.len() - 1
                    });
                    bound = Some([0, MOST]);
                    Node::Load {
                        param: (kernel.params.len() + at) as u32,
                    }
                }
                Node::Const { bits, .. } if whole => {
                    let value = bits as i64;
                    bound = (-MOST..=MOST).contains(&value).then_some([value; 2]);
                    Node::Const {
                        dtype: DType::F32,
                        bits: (value as f32).to_bits().into(),
                    }
                }
                Node::Scalar { index } if whole => {
                    own.scalars[index as usize] = DType::F32;
                    integers.push(index as usize);
                    bound = Some([-MOST, MOST]);
                    *node
                }
                Node::Op { op, args } => {
                    let operands = &args[..op.arity()];
                    let [a, b, c] = args.map(|id| bounds[id.index()]);
                    bound = match op {
                        _ if !whole => None,
                        ScalarOp::Add => Some([a?[0] + b?[0], a?[1] + b?[1]]),
                        ScalarOp::Sub => Some([a?[0] - b?[1], a?[1] - b?[0]]),
                        ScalarOp::Mul => {
                            let all = [a?[0] * b?[0], a?[0] * b?[1], a?[1] * b?[0], a?[1] * b?[1]];
                            Some([*all.iter().min()?, *all.iter().max()?])
                        }
                        ScalarOp::Min => Some([a?[0].min(b?[0]), a?[1].min(b?[1])]),
                        ScalarOp::Max => Some([a?[0].max(b?[0]), a?[1].max(b?[1])]),
                        ScalarOp::Neg => Some([-a?[1], -a?[0]]),
                        ScalarOp::Select => Some([b?[0].min(c?[0]), b?[1].max(c?[1])]),
                        _ => None,
                    };
                    let compares = matches!(op, ScalarOp::Eq | ScalarOp::Ne | ScalarOp::Lt | ScalarOp::Le);
                    let reads = |&id: &NodeId| info.dtypes[id.index()] == Some(DType::I64);
                    if operands.iter().any(reads) && !(whole || compares) {
                        return None;
                    }
                    // An integer has one zero: nothing may become -0.
                    let zero = |own: &mut Kernel| {
                        own.push(Node::Const {
                            dtype: DType::F32,
                            bits: 0,
                        })
                    };
                    let args = args.map(of);
                    match op {
                        ScalarOp::Neg if whole => {
                            let zero = zero(&mut own);
                            Node::Op {
                                op: ScalarOp::Sub,
                                args: [zero, args[0], zero],
                            }
                        }
                        ScalarOp::Mul if whole => {
                            let (product, zero) = (own.push(Node::Op { op, args }), zero(&mut own));
                            Node::Op {
                                op: ScalarOp::Add,
                                args: [product, zero, product],
                            }
                        }
                        _ => Node::Op { op, args },
                    }
                }
                Node::Cast { dtype, arg } if info.dtypes[arg.index()] == Some(DType::I64) => {
                    if dtype != DType::F32 {
                        return None;
                    }
                    ids.push(of(arg));
                    bounds.push(None);
                    continue;
                }
                Node::Cast { dtype, arg } => Node::Cast { dtype, arg: of(arg) },
                Node::Store { param, value } => Node::Store {
                    param,
                    value: of(value),
                },
                Node::Const { .. } | Node::Scalar { .. } | Node::Load { .. } => *node,
                Node::LoadAt { .. } | Node::Rand { .. } | Node::Reduce { .. } => return None,
            };
            let exact = |[least, most]: &[i64; 2]| *least >= -EXACT && *most <= EXACT;
            if whole && !bound.as_ref().is_some_and(exact) {
                return None;
            }
            ids.push(own.push(node));
            bounds.push(bound);
        }
        own.verify().ok()?;
        Some(Indexed {
            kernel: own,
            axes,
            integers,
            program: OnceLock::new(),
            table: RwLock::new(Arc::default()),
        })
    }

    /// Whether it has run as machine code.
    #[cfg(test)]
    pub(super) fn is_made(&self) -> bool {
        self.program
            .get()
            .is_some_and(|program| program.as_ref().is_some_and(|program| program.has_lines()))
    }

    /// A table of so many numbers at least.
    fn numbers(&self, count: u64) -> Arc<[f32]> {
        let known = Arc::clone(&self.table.read());
        if known.len() as u64 >= count {
            return known;
        }
        let more: Arc<[f32]> = (0..count.next_power_of_two())
            .map(|number| number as f32)
            .collect();
        *self.table.write() = Arc::clone(&more);
        more
    }

    /// Runs a launch of the map; whether it did.
    ///
    /// # Safety
    /// As [`Program::run`].
    pub(super) unsafe fn run(&self, isa: Isa, args: &Args<'_>, parallel: &dyn Parallel) -> bool {
        let longest = self
            .axes
            .iter()
            .map(|&axis| args.extents[axis])
            .max()
            .unwrap_or(0);
        if longest > MOST as u64 || longest == 0 {
            return false;
        }
        let mut scalars: SmallVec<[u64; 8]> = SmallVec::from_slice(args.scalars);
        for &index in &self.integers {
            let value = args.scalars[index] as i64;
            if !(-MOST..=MOST).contains(&value) {
                return false;
            }
            scalars[index] = (value as f32).to_bits().into();
        }
        let make = || {
            let program = Program::compile(&self.kernel, isa).ok()?;
            Some(Box::new(program.generate(isa)))
        };
        let Some(program) = self.program.get_or_init(make) else {
            return false;
        };
        let table = self.numbers(longest);
        let rank = args.extents.len();
        let mut strides: SmallVec<[i64; 32]> = SmallVec::from_elem(0, self.axes.len() * rank);
        for (k, &axis) in self.axes.iter().enumerate() {
            strides[k * rank + axis] = 1;
        }
        let mut all: SmallVec<[Arg<'_>; 16]> = SmallVec::from_slice(args.args);
        all.extend(strides.chunks_exact(rank).map(|strides| Arg {
            // It is read alone.
            ptr: table.as_ptr().cast_mut().cast(),
            strides,
            gather_stride: 0,
            gather_extent: 0,
        }));
        let launch = Args {
            extents: args.extents,
            args: &all,
            scalars: &scalars,
        };
        // SAFETY: the caller's promise; the table has a number for each index.
        unsafe { program.run_lines(&launch, parallel) }
    }
}
