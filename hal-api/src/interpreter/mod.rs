//! What a kernel means: the index spaces are walked point by point and every node is one scalar.
//!
//! A value is carried as its bits, zero-extended. Floats compute in f64 and round to f32 for every narrower dtype, then
//! to the dtype. For `+ - * /` and `sqrt` that is the f32 result to the bit (53 is more than twice 24 plus 2: Figueroa,
//! "When is double rounding innocuous?"); for `exp` and its kind it is the nearest f32 but for near-ties.
//!
//! Sums and products of floats run in row-major order in f64, so that of an f32 sum only the last rounding remains: the
//! value that a backend's own order approximates. A backend that promises an order or its own approximations says so by
//! [`Arithmetic`].
//!
//! ```
//! use thalweg_hal::interpreter::{Bytes, Definition, Place, Run, run};
//! use thalweg_hal::ir::Kernel;
//! let text = "kernel next outer=1 inner=0\np0 in i8 row contiguous\np1 out i8 row contiguous\n\
//!             n0 = load p0\nn1 = const i8 1\nn2 = add n0 n1\nn3 = store p1 n2\n";
//! let kernel = Kernel::parse(text)?;
//! let info = kernel.verify()?;
//! let places = [Place::default(); 2];
//! let launch = Run { kernel: &kernel, info: &info, extents: &[3], places: &places, scalars: &[] };
//! let mut memory = Bytes::of(vec![vec![1, 2, 127], vec![0; 3]]);
//! run(&launch, &mut memory, &Definition);
//! assert_eq!(memory.buffers[1], [2, 3, 0x80]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod launch;
pub mod scalar;

pub use bytes::Bytes;
pub use launch::launch;

use crate::dtype::DType;
use crate::ir::{Access, Info, Kernel, Level, Node, NodeId, ReduceOp, ScalarOp};
use scalar::{Reduction, cast, eval, random_word};

/// What ops do to values: the definition, or a backend's promise of an order or an approximation.
pub trait Arithmetic {
    /// The result of an op on arguments of `dtype`; a condition is 0 or 1.
    fn op(&self, op: ScalarOp, dtype: DType, args: [u64; 3]) -> u64 {
        eval(op, dtype, args)
    }

    /// The result of a reduction of all values of a row, which are in row-major order.
    fn reduce(&self, op: ReduceOp, dtype: DType, values: &[u64]) -> u64 {
        Reduction::of(op, dtype, values)
    }
}

/// The arithmetic that defines the IR.
#[derive(Clone, Copy, Debug)]
pub struct Definition;

impl Arithmetic for Definition {}

/// The memory of a launch. Offsets count bytes from the element at index 0 of a parameter.
pub trait Memory {
    /// Reads the bytes of an element.
    fn read(&self, param: usize, offset: i64, bytes: &mut [u8]);

    /// Writes the bytes of an element.
    fn write(&mut self, param: usize, offset: i64, bytes: &[u8]);
}

/// Where the elements of a parameter lie, counted in elements.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// For each axis of the parameter's level; read when the parameter is strided.
    pub strides: &'a [i64],
    /// From one gather index to the next.
    pub gather_stride: i64,
    /// Number of valid gather indices.
    pub gather_extent: u64,
}

/// A launch. Counts match the kernel's signature, strides match the access classes.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What to run.
    pub kernel: &'a Kernel,
    /// What the verifier found out about it.
    pub info: &'a Info,
    /// Outer extents, then inner ones.
    pub extents: &'a [u64],
    /// One for each parameter.
    pub places: &'a [Place<'a>],
    /// Bits of the scalar arguments.
    pub scalars: &'a [u64],
}

/// Runs a launch. Stores wait until the last load has been made.
pub fn run(launch: &Run<'_>, memory: &mut impl Memory, arithmetic: &impl Arithmetic) {
    let kernel = launch.kernel;
    let count = kernel.nodes.len();
    let mut walk = Walk {
        launch,
        kernel,
        memory: &*memory,
        arithmetic,
        point: vec![0; launch.extents.len()],
        values: vec![0; count],
        stores: vec![Vec::new(); count],
    };
    let outer = kernel.outer as usize;
    each_point(&launch.extents[..outer], |row| {
        walk.point[..outer].copy_from_slice(row);
        walk.row();
    });
    let stores = walk.stores;
    for (node, bits) in kernel.nodes.iter().zip(&stores) {
        if let Node::Store { param, .. } = *node {
            let (size, axes) = (launch.size(param), launch.axes(param));
            let mut bits = bits.iter();
            each_point(&launch.extents[..axes], |point| {
                if let Some(bits) = bits.next() {
                    let offset = launch.offset(param, point, 0);
                    memory.write(param as usize, offset, &bits.to_le_bytes()[..size]);
                }
            });
        }
    }
}

impl Run<'_> {
    /// Bytes of an element.
    fn size(&self, param: u32) -> usize {
        self.kernel.params[param as usize].dtype.size()
    }

    /// How many of the axes `param` lies along.
    fn axes(&self, param: u32) -> usize {
        match self.kernel.params[param as usize].level {
            Level::Row => self.kernel.outer as usize,
            Level::Element => self.extents.len(),
        }
    }

    /// Bytes to the element of `param` at `point`, moved by `elements`.
    fn offset(&self, param: u32, point: &[u64], elements: i64) -> i64 {
        let place = &self.places[param as usize];
        let axes = point.iter().zip(self.extents).take(self.axes(param));
        let element = match self.kernel.params[param as usize].access {
            Access::Contiguous => axes.fold(0, |before, (index, extent)| before * extent + index) as i64,
            Access::Broadcast => 0,
            Access::Strided => point
                .iter()
                .zip(place.strides)
                .map(|(i, stride)| *i as i64 * stride)
                .sum(),
        };
        (element + elements) * self.size(param) as i64
    }
}

struct Walk<'a, M, A> {
    launch: &'a Run<'a>,
    kernel: &'a Kernel,
    memory: &'a M,
    arithmetic: &'a A,
    /// Current index along the outer and the inner axes.
    point: Vec<u64>,
    /// Value of each node at the current point.
    values: Vec<u64>,
    /// For each store the values so far, in row-major order.
    stores: Vec<Vec<u64>>,
}

impl<M: Memory, A: Arithmetic> Walk<'_, M, A> {
    /// One outer point: each row-level node once, in order, with one walk of the inner space for each reduction and a
    /// last one for the stores at element level.
    fn row(&mut self) {
        for (i, node) in self.kernel.nodes.iter().enumerate() {
            if let Node::Reduce { op, arg } = *node {
                let mut values = Vec::new();
                self.elements(i, false, |walk| values.push(walk.value(arg)));
                self.values[i] = self.arithmetic.reduce(op, self.dtype(arg), &values);
            } else if self.level(i) == Level::Row {
                self.node(i);
            }
        }
        self.elements(self.kernel.nodes.len(), true, |_| {})
    }

    /// At each inner point evaluates the element-level nodes before `end`, stores among them if `store`, and calls
    /// `visit`.
    fn elements(&mut self, end: usize, store: bool, mut visit: impl FnMut(&mut Self)) {
        let outer = self.kernel.outer as usize;
        each_point(&self.launch.extents[outer..], |point| {
            self.point[outer..].copy_from_slice(point);
            for i in 0..end {
                let is_store = matches!(self.kernel.nodes[i], Node::Store { .. });
                if self.level(i) == Level::Element && (store || !is_store) {
                    self.node(i);
                }
            }
            visit(self);
        });
    }

    fn node(&mut self, i: usize) {
        self.values[i] = match self.kernel.nodes[i] {
            Node::Const { bits, .. } => bits,
            Node::Scalar { index } => {
                let dtype = self.kernel.scalars[index as usize];
                zero_extended(dtype, self.launch.scalars[index as usize])
            }
            Node::Load { param } => self.load(param, 0),
            Node::LoadAt { param, index } => {
                let (index, bound) = (self.value(index), &self.launch.places[param as usize]);
                if index < bound.gather_extent && index <= i64::MAX as u64 {
                    self.load(param, index as i64 * bound.gather_stride)
                } else {
                    0
                }
            }
            Node::Index { axis } => self.point[axis as usize],
            Node::Op { op, args } => {
                // The dtype of the last argument is that of all but a condition.
                let dtype = self.dtype(args[op.arity() - 1]);
                self.arithmetic.op(op, dtype, args.map(|arg| self.value(arg)))
            }
            Node::Cast { dtype, arg } => cast(self.dtype(arg), dtype, self.value(arg)),
            Node::Rand { key, counter } => random_word(self.value(key), self.value(counter)).into(),
            Node::Store { value, .. } => {
                self.stores[i].push(self.values[value.index()]);
                0
            }
            Node::Reduce { .. } => self.values[i],
        };
    }

    fn value(&self, node: NodeId) -> u64 {
        self.values[node.index()]
    }

    fn level(&self, node: usize) -> Level {
        self.launch.info.levels[node]
    }

    /// The dtype of an argument; in a verified kernel it has one.
    fn dtype(&self, node: NodeId) -> DType {
        self.launch.info.dtypes[node.index()].unwrap_or(DType::Bool)
    }

    fn load(&self, param: u32, elements: i64) -> u64 {
        let (dtype, mut bytes) = (self.kernel.params[param as usize].dtype, [0; 8]);
        let offset = self.launch.offset(param, &self.point, elements);
        self.memory
            .read(param as usize, offset, &mut bytes[..dtype.size()]);
        zero_extended(dtype, u64::from_le_bytes(bytes))
    }
}

/// The bits of a value that comes from outside; every bool but 0 is true.
fn zero_extended(dtype: DType, bits: u64) -> u64 {
    let bits = bits & (u64::MAX >> (64 - 8 * dtype.size()));
    if dtype == DType::Bool {
        u64::from(bits != 0)
    } else {
        bits
    }
}

/// Calls `visit` with each index of a row-major space, the last axis fastest.
fn each_point(extents: &[u64], mut visit: impl FnMut(&[u64])) {
    if extents.contains(&0) {
        return;
    }
    let mut point = vec![0; extents.len()];
    loop {
        visit(&point);
        let Some(axis) = (0..extents.len()).rfind(|&axis| point[axis] + 1 < extents[axis]) else {
            return;
        };
        point[axis] += 1;
        point[axis + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests;
