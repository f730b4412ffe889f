//! What a kernel computes in which order: stages between reductions, and what is needed at all.

use crate::kernel::Kept;
use crate::scalar;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Info, Kernel, Level, Node, NodeId, Param, ReduceOp, Role};
use thalweg_hal::{Error, Result};

/// A verified kernel. Stage 0 needs no reduction, stage `s` those whose argument is of stage `s - 1` or earlier.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) kernel: Kernel,
    pub(crate) info: Info,
    /// Stage of each node.
    pub(crate) stages: Vec<u32>,
    /// Whether a store needs the node.
    pub(crate) live: Vec<bool>,
    /// Whether a plain load or store, or a gather, reaches each parameter.
    pub(crate) touched: Vec<bool>,
    /// Whether a gather reaches it.
    pub(crate) gathered: Vec<bool>,
    /// Axes whose index the kernel reads.
    pub(crate) indexed: u32,
    /// Whether any live value is f64.
    pub(crate) fp64: bool,
    /// What walks of a row keep for each other.
    pub(crate) kept: Kept,
}

/// A reduction of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    /// Its node.
    pub(crate) node: usize,
    pub(crate) op: ReduceOp,
    /// The node that it reduces, and that node's dtype.
    pub(crate) arg: usize,
    pub(crate) dtype: DType,
    /// For reductions to an index, the function that says which value wins.
    pub(crate) beats: Option<String>,
}

impl Reduction {
    /// Type of its value in a register.
    pub(crate) fn register(&self) -> &'static str {
        scalar::register(self.dtype)
    }

    /// What it starts from.
    pub(crate) fn identity(&self) -> String {
        scalar::identity(self.op, self.dtype)
    }
}

impl Body {
    pub(crate) fn new(kernel: &Kernel) -> Result<Body> {
        let refuse = |error| Error::invalid_argument(format!("{}: {error}", kernel.name));
        let info = kernel.verify().map_err(refuse)?;
        let mut stages: Vec<u32> = Vec::with_capacity(kernel.nodes.len());
        for node in &kernel.nodes {
            let most = node.args().map(|arg| stages[arg.index()]).max().unwrap_or(0);
            stages.push(most + u32::from(matches!(node, Node::Reduce { .. })));
        }
        let mut live = vec![false; kernel.nodes.len()];
        let (mut touched, mut gathered) =
            (vec![false; kernel.params.len()], vec![false; kernel.params.len()]);
        let mut indexed = 0;
        for (i, node) in kernel.nodes.iter().enumerate().rev() {
            live[i] |= matches!(node, Node::Store { .. });
            if !live[i] {
                continue;
            }
            node.args().for_each(|arg| live[arg.index()] = true);
            match *node {
                Node::Load { param } | Node::Store { param, .. } => touched[param as usize] = true,
                Node::LoadAt { param, .. } => {
                    touched[param as usize] = true;
                    gathered[param as usize] = true;
                }
                Node::Index { axis } => indexed |= 1 << axis,
                Node::Const { .. }
                | Node::Scalar { .. }
                | Node::Op { .. }
                | Node::Cast { .. }
                | Node::Rand { .. }
                | Node::Reduce { .. } => {}
            }
        }
        let values = (0..live.len())
            .filter(|&i| live[i])
            .filter_map(|i| info.dtypes[i]);
        let fp64 = values
            .chain(kernel.params.iter().map(|p| p.dtype))
            .any(|d| d == DType::F64);
        let mut body = Body {
            kernel: kernel.clone(),
            info,
            stages,
            live,
            touched,
            gathered,
            indexed,
            fp64,
            kept: Kept::default(),
        };
        body.kept = Kept::of(&body);
        Ok(body)
    }

    /// The dtype of a value; stores have none and are no arguments.
    pub(crate) fn dtype(&self, node: NodeId) -> DType {
        self.info.dtypes[node.index()].unwrap_or(DType::Bool)
    }

    pub(crate) fn param(&self, param: u32) -> &Param {
        &self.kernel.params[param as usize]
    }

    /// The parameters that the kernel touches.
    pub(crate) fn touched(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.touched.len()).filter(|&p| self.touched[p])
    }

    /// Axes of the outer space.
    pub(crate) fn outer(&self) -> usize {
        self.kernel.outer as usize
    }

    /// Axes of both spaces.
    pub(crate) fn rank(&self) -> usize {
        (self.kernel.outer + self.kernel.inner) as usize
    }

    /// Number of stages with reductions.
    pub(crate) fn depth(&self) -> u32 {
        let live = self.live.iter().zip(&self.stages).filter(|(live, _)| **live);
        live.map(|(_, stage)| *stage).max().unwrap_or(0)
    }

    /// The live reductions over values of a stage.
    pub(crate) fn reductions(&self, stage: u32) -> Vec<Reduction> {
        let of = |i: usize| match self.kernel.nodes[i] {
            Node::Reduce { op, arg } if self.live[i] && self.stages[i] == stage + 1 => Some(Reduction {
                node: i,
                op,
                arg: arg.index(),
                dtype: self.dtype(arg),
                beats: scalar::beats(op, self.dtype(arg)),
            }),
            _ => None,
        };
        (0..self.live.len()).filter_map(of).collect()
    }

    /// The dtype of the sum of a product's definition.
    pub(crate) fn dtype_of_sum(&self) -> Option<DType> {
        self.reductions(0).first().map(|sum| sum.dtype)
    }

    /// Stores to parameters of a level.
    pub(crate) fn stores(&self, level: Level) -> Vec<usize> {
        let of = |&i: &usize| match self.kernel.nodes[i] {
            Node::Store { param, .. } => self.param(param).level == level,
            _ => false,
        };
        (0..self.live.len()).filter(of).collect()
    }

    /// Whether every point is on its own: no reduction, and nothing stored once a row of an inner space.
    pub(crate) fn is_map(&self) -> bool {
        self.depth() == 0 && (self.kernel.inner == 0 || self.stores(Level::Row).is_empty())
    }

    /// Whether an output at row level may stand in the memory of an input.
    pub(crate) fn stores_rows(&self) -> bool {
        self.kernel.inner > 0 && !self.stores(Level::Row).is_empty()
    }

    /// The nodes that `roots` need, roots included, among those that `wanted` picks.
    pub(crate) fn closure(&self, roots: &[usize], wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut marked = vec![false; self.live.len()];
        roots.iter().for_each(|&root| marked[root] = true);
        for i in (0..marked.len()).rev().filter(|&i| wanted(i)) {
            if marked[i] {
                for arg in self.kernel.nodes[i].args() {
                    marked[arg.index()] = true;
                }
            }
        }
        (0..marked.len()).filter(|&i| marked[i] && wanted(i)).collect()
    }

    /// Axes that a parameter lies along.
    pub(crate) fn axes(&self, param: usize) -> usize {
        match self.kernel.params[param].level {
            Level::Row => self.outer(),
            Level::Element => self.rank(),
        }
    }

    /// Strides of every parameter over all axes: `[param * rank + axis]`.
    pub(crate) fn strides(&self, launch: &crate::Launch<'_>) -> smallvec::SmallVec<[i64; 64]> {
        let rank = self.rank();
        let mut strides = smallvec::SmallVec::from_elem(0, self.kernel.params.len() * rank);
        for (p, (param, place)) in self.kernel.params.iter().zip(launch.places).enumerate() {
            let axes = self.axes(p);
            let own = &mut strides[p * rank..p * rank + axes];
            match param.access {
                Access::Broadcast => {}
                Access::Strided => own.copy_from_slice(&place.strides[..axes]),
                Access::Contiguous => {
                    let mut step = 1_i64;
                    for axis in (0..axes).rev() {
                        own[axis] = step;
                        step = step.wrapping_mul(launch.extents[axis] as i64);
                    }
                }
            }
        }
        strides
    }

    /// Whether an output stands in the memory of an input.
    pub(crate) fn in_place(&self, launch: &crate::Launch<'_>) -> bool {
        let of =
            |role: Role| (0..self.kernel.params.len()).filter(move |&p| self.kernel.params[p].role == role);
        of(Role::Out).any(|out| {
            let out = &launch.places[out];
            of(Role::In).any(|input| {
                let input = &launch.places[input];
                input.buffer == out.buffer && input.offset == out.offset
            })
        })
    }
}
