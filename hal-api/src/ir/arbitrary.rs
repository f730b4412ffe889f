//! Random well-formed kernels, for tests and fuzzers.

use super::{
    Access, Kernel, Level, MAX_NODES, MAX_PARAMS, MAX_RANK, MAX_SCALARS, Node, NodeId, ReduceOp, Returns,
    Role, ScalarOp,
};
use crate::dtype::{Class, DType};
use crate::narrow::float_bits;

/// What [`random_kernel`] may use.
#[derive(Clone, Debug)]
pub struct RandomKernel {
    /// Dtypes of parameters, scalars, constants and casts; f32 alone when empty. bool, i64, u32 and u64 appear beside
    /// them where a node leaves no choice.
    pub dtypes: Vec<DType>,
    /// Scalar ops.
    pub ops: Vec<ScalarOp>,
    /// Reductions; none when empty.
    pub reduces: Vec<ReduceOp>,
    /// Most outer axes.
    pub max_outer: u32,
    /// Most inner axes.
    pub max_inner: u32,
    /// Most nodes; 8 at least.
    pub max_nodes: usize,
    /// Most parameters; 1 at least.
    pub max_params: usize,
    /// Whether to use [`Node::LoadAt`].
    pub gather: bool,
    /// Whether to use [`Node::Rand`].
    pub rand: bool,
}

impl Default for RandomKernel {
    fn default() -> RandomKernel {
        RandomKernel {
            dtypes: DType::ALL.to_vec(),
            ops: ScalarOp::ALL.to_vec(),
            reduces: ReduceOp::ALL.to_vec(),
            max_outer: 3,
            max_inner: 2,
            max_nodes: 40,
            max_params: 6,
            gather: true,
            rand: true,
        }
    }
}

/// A random kernel that [`Kernel::verify`] accepts, a pure function of the numbers that `next` returns.
pub fn random_kernel(next: &mut dyn FnMut() -> u64, options: &RandomKernel) -> Kernel {
    let max_nodes = options.max_nodes.clamp(8, MAX_NODES);
    let mut source = Source(next);
    let mut rank = |most: u32| source.below(most.min(MAX_RANK as u32) as usize + 1) as u32;
    let kernel = Kernel::new("random", rank(options.max_outer), rank(options.max_inner));
    let dtypes = if options.dtypes.is_empty() {
        vec![DType::F32]
    } else {
        options.dtypes.clone()
    };
    let mut builder = Builder {
        kernel,
        values: Vec::new(),
        source,
        dtypes,
        options,
    };
    let outputs = builder.declare(max_nodes / STORE_COST);
    let body = max_nodes - outputs * STORE_COST;
    for _ in 0..builder.source.below(body + 1) {
        if builder.kernel.nodes.len() + STEP_COST > body {
            break;
        }
        builder.step();
    }
    builder.store();
    builder.kernel
}

/// Most nodes of one step: an op and three arguments.
const STEP_COST: usize = 4;
/// Most nodes per output: a value and its store.
const STORE_COST: usize = 2;

struct Source<'a>(&'a mut dyn FnMut() -> u64);

impl Source<'_> {
    /// Below `bound`; 0 when that is 0.
    fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            0
        } else {
            ((self.0)() % bound as u64) as usize
        }
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).copied()
    }
}

#[derive(Clone, Copy)]
struct Value {
    id: NodeId,
    dtype: DType,
    level: Level,
}

struct Builder<'a> {
    kernel: Kernel,
    values: Vec<Value>,
    source: Source<'a>,
    dtypes: Vec<DType>,
    options: &'a RandomKernel,
}

impl Builder<'_> {
    /// Declares parameters and scalars; returns the number of outputs.
    fn declare(&mut self, max_params: usize) -> usize {
        let most = self.options.max_params.min(MAX_PARAMS).min(max_params).max(1);
        let count = 1 + self.source.below(most);
        let output = self.source.below(count);
        let mut outputs = 0;
        for i in 0..count {
            let out = i == output || self.source.one_in(4);
            let role = if out { Role::Out } else { Role::In };
            let inner = self.kernel.inner > 0 && !self.source.one_in(3);
            let level = if inner { Level::Element } else { Level::Row };
            let access = match self.source.below(if out { 3 } else { 4 }) {
                0 | 1 => Access::Contiguous,
                2 => Access::Strided,
                _ => Access::Broadcast,
            };
            let dtype = self.dtype();
            self.kernel.param(dtype, role, level, access);
            outputs += usize::from(out);
        }
        for _ in 0..self.source.below(3).min(MAX_SCALARS) {
            let dtype = self.dtype();
            self.kernel.scalars.push(dtype);
        }
        outputs
    }

    fn dtype(&mut self) -> DType {
        self.source.pick(&self.dtypes).unwrap_or(DType::F32)
    }

    /// One more value, at most [`STEP_COST`] nodes; now and then none.
    fn step(&mut self) {
        match self.source.below(16) {
            0 => self.constant(None),
            1 => self.scalar(),
            2..=4 => self.load(),
            5 => self.index(),
            6 => self.cast(),
            7 if self.options.gather => self.load_at(),
            8 if self.options.rand => self.rand(),
            9..=10 => self.reduce(),
            _ => self.op(),
        };
    }

    fn push(&mut self, node: Node, dtype: DType, level: Level) -> Option<Value> {
        let value = Value {
            id: self.kernel.push(node),
            dtype,
            level,
        };
        self.values.push(value);
        Some(value)
    }

    fn constant(&mut self, dtype: Option<DType>) -> Option<Value> {
        let dtype = dtype.unwrap_or_else(|| self.dtype());
        let bits = constant_bits(&mut self.source, dtype);
        self.push(Node::Const { dtype, bits }, dtype, Level::Row)
    }

    fn scalar(&mut self) -> Option<Value> {
        let index = self.source.below(self.kernel.scalars.len());
        let dtype = *self.kernel.scalars.get(index)?;
        self.push(Node::Scalar { index: index as u32 }, dtype, Level::Row)
    }

    /// An input's index, dtype and level.
    fn input(&mut self) -> Option<(u32, DType, Level)> {
        let index = self.source.below(self.kernel.params.len());
        let param = self.kernel.params.get(index).filter(|p| p.role == Role::In)?;
        Some((index as u32, param.dtype, param.level))
    }

    fn load(&mut self) -> Option<Value> {
        let (param, dtype, level) = self.input()?;
        self.push(Node::Load { param }, dtype, level)
    }

    fn load_at(&mut self) -> Option<Value> {
        let (param, dtype, level) = self.input()?;
        let index = self.argument(DType::I64)?;
        self.push(
            Node::LoadAt {
                param,
                index: index.id,
            },
            dtype,
            level.max(index.level),
        )
    }

    fn index(&mut self) -> Option<Value> {
        let (outer, inner) = (self.kernel.outer, self.kernel.inner);
        let axis = self.source.below((outer + inner) as usize) as u32;
        let level = if axis < outer { Level::Row } else { Level::Element };
        if outer + inner == 0 {
            None
        } else {
            self.push(Node::Index { axis }, DType::I64, level)
        }
    }

    fn cast(&mut self) -> Option<Value> {
        let arg = self.source.pick(&self.values)?;
        let dtype = self.dtype();
        self.push(Node::Cast { dtype, arg: arg.id }, dtype, arg.level)
    }

    fn rand(&mut self) -> Option<Value> {
        let (key, counter) = (self.argument(DType::U64)?, self.argument(DType::U64)?);
        let node = Node::Rand {
            key: key.id,
            counter: counter.id,
        };
        self.push(node, DType::U32, key.level.max(counter.level))
    }

    fn reduce(&mut self) -> Option<Value> {
        let op = self.source.pick(&self.options.reduces)?;
        let elements: Vec<Value> = self
            .values
            .iter()
            .copied()
            .filter(|v| v.level == Level::Element)
            .collect();
        let mut arg = self.source.pick(&elements)?;
        if !op.takes(arg.dtype) {
            let taken: Vec<DType> = self.dtypes.iter().copied().filter(|d| op.takes(*d)).collect();
            let dtype = self.source.pick(&taken)?;
            arg = self.push(Node::Cast { dtype, arg: arg.id }, dtype, arg.level)?;
        }
        self.push(
            Node::Reduce { op, arg: arg.id },
            returned(op.returns(), arg.dtype),
            Level::Row,
        )
    }

    fn op(&mut self) -> Option<Value> {
        let op = self.source.pick(&self.options.ops)?;
        let taken: Vec<DType> = self
            .dtypes
            .iter()
            .copied()
            .filter(|d| op.accepts().takes(*d))
            .collect();
        let dtype = self.source.pick(&taken)?;
        let mut args = Vec::with_capacity(3);
        for position in 0..op.arity() {
            let condition = op == ScalarOp::Select && position == 0;
            args.push(self.argument(if condition { DType::Bool } else { dtype })?);
        }
        let level = args.iter().map(|arg| arg.level).max()?;
        let at = |i: usize| args.get(i).or(args.first()).map(|arg| arg.id);
        self.push(
            Node::Op {
                op,
                args: [at(0)?, at(1)?, at(2)?],
            },
            returned(op.returns(), dtype),
            level,
        )
    }

    /// A value of `dtype`; makes one node at most.
    fn argument(&mut self, dtype: DType) -> Option<Value> {
        let fitting: Vec<Value> = self.values.iter().copied().filter(|v| v.dtype == dtype).collect();
        if !fitting.is_empty() && !self.source.one_in(8) {
            return self.source.pick(&fitting);
        }
        match self.source.pick(&self.values) {
            Some(any) if !self.source.one_in(3) => {
                self.push(Node::Cast { dtype, arg: any.id }, dtype, any.level)
            }
            _ => self.constant(Some(dtype)),
        }
    }

    /// Stores every output, late values more often.
    fn store(&mut self) {
        for param in 0..self.kernel.params.len() {
            let declared = self.kernel.params[param];
            if declared.role == Role::In {
                continue;
            }
            let fits = |v: &&Value| v.level <= declared.level;
            let mut fitting: Vec<Value> = self.values.iter().rev().filter(fits).copied().collect();
            if self.source.one_in(2) {
                fitting.truncate(4);
            }
            let value = match self.source.pick(&fitting) {
                Some(value) if value.dtype == declared.dtype => Some(value),
                Some(value) => {
                    let node = Node::Cast {
                        dtype: declared.dtype,
                        arg: value.id,
                    };
                    self.push(node, declared.dtype, value.level)
                }
                None => self.constant(Some(declared.dtype)),
            };
            if let Some(value) = value {
                self.kernel.store(param as u32, value.id);
            }
        }
    }
}

fn returned(returns: Returns, dtype: DType) -> DType {
    match returns {
        Returns::Same => dtype,
        Returns::Bool => DType::Bool,
        Returns::Index => DType::I64,
    }
}

/// Small numbers mostly, sometimes an edge or arbitrary bits.
fn constant_bits(source: &mut Source<'_>, dtype: DType) -> u64 {
    let mask = u64::MAX >> (64 - 8 * dtype.size());
    let small = source.below(65) as i64 - 32;
    match (dtype.class(), source.below(8)) {
        (Class::Bool, _) => (small & 1) as u64,
        (_, 0) => (source.0)() & mask,
        (Class::Signed | Class::Unsigned, 1) => source.pick(&[mask, mask >> 1, (mask >> 1) + 1]).unwrap_or(0),
        (Class::Signed | Class::Unsigned, _) => small as u64 & mask,
        (Class::Float, 1) => {
            let edges = [
                0.0,
                -0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                1e-5,
                6e4,
                1e30,
            ];
            float_bits(dtype, source.pick(&edges).unwrap_or(0.0))
        }
        (Class::Float, _) => float_bits(dtype, small as f64 / 8.0),
    }
}
