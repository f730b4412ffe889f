//! What a kernel means: the index spaces are walked point by point and every node is one scalar.
//!
//! A value is carried as its bits, zero-extended. Floats compute in f64 and round to f32 for every narrower dtype, then
//! to the dtype. For `+ - * /` and `sqrt` that is the f32 result to the bit (53 is more than twice 24 plus 2: Figueroa,
//! "When is double rounding innocuous?"); for `exp` and its kind it is the nearest f32 but for near-ties.
//!
//! Sums and products of floats run in row-major order in f64, so that of an f32 sum only the last rounding remains: the
//! value that a backend's own order approximates.

use crate::device::{Compiled, Reference};
use crate::scalar::{Reduction, cast, eval, philox};
use thalweg_hal::DType;
use thalweg_hal::backend::Launch;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId};
use thalweg_hal::kit::host_memory::address;

/// Runs a launch. Stores wait until the last load has been made.
///
/// # Safety
/// As [`thalweg_hal::backend::Device::submit`].
pub(crate) unsafe fn run(launch: &Launch<'_, Reference>) {
    let Compiled { kernel, .. } = &**launch.kernel;
    let count = kernel.nodes.len();
    let point = vec![0; launch.extents.len()];
    let mut walk = Walk {
        launch,
        kernel,
        point,
        values: vec![0; count],
        stores: vec![Vec::new(); count],
    };
    let outer = kernel.outer as usize;
    each_point(&launch.extents[..outer], |row| {
        walk.point[..outer].copy_from_slice(row);
        // SAFETY: the caller's contract.
        unsafe { walk.row() }
    });
    for (node, bits) in kernel.nodes.iter().zip(&walk.stores) {
        if let Node::Store { param, .. } = *node {
            let (size, axes) = (walk.size(param), walk.axes(param));
            let mut bits = bits.iter();
            each_point(&launch.extents[..axes], |point| {
                if let Some(bits) = bits.next() {
                    let to = walk.address(param, point, 0);
                    // SAFETY: an element of the output.
                    unsafe { to.copy_from_nonoverlapping(bits.to_le_bytes().as_ptr(), size) }
                }
            });
        }
    }
}

struct Walk<'a> {
    launch: &'a Launch<'a, Reference>,
    kernel: &'a Kernel,
    /// Current index along the outer and the inner axes.
    point: Vec<u64>,
    /// Value of each node at the current point.
    values: Vec<u64>,
    /// For each store the values so far, in row-major order.
    stores: Vec<Vec<u64>>,
}

impl Walk<'_> {
    /// One outer point: each row-level node once, in order, with one walk of the inner space for each reduction and a
    /// last one for the stores at element level.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn row(&mut self) {
        for (i, node) in self.kernel.nodes.iter().enumerate() {
            if let Node::Reduce { op, arg } = *node {
                let mut reduction = Reduction::new(op, self.dtype(arg));
                // SAFETY: the caller's contract.
                unsafe { self.elements(i, false, |walk| reduction.take(walk.value(arg))) };
                self.values[i] = reduction.finish();
            } else if self.level(i) == Level::Row {
                // SAFETY: the caller's contract.
                unsafe { self.node(i) }
            }
        }
        // SAFETY: the caller's contract.
        unsafe { self.elements(self.kernel.nodes.len(), true, |_| {}) }
    }

    /// At each inner point evaluates the element-level nodes before `end`, stores among them if `store`, and calls
    /// `visit`.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn elements(&mut self, end: usize, store: bool, mut visit: impl FnMut(&mut Self)) {
        let outer = self.kernel.outer as usize;
        each_point(&self.launch.extents[outer..], |point| {
            self.point[outer..].copy_from_slice(point);
            for i in 0..end {
                let is_store = matches!(self.kernel.nodes[i], Node::Store { .. });
                if self.level(i) == Level::Element && (store || !is_store) {
                    // SAFETY: the caller's contract.
                    unsafe { self.node(i) }
                }
            }
            visit(self);
        });
    }

    /// # Safety
    /// As [`run`].
    unsafe fn node(&mut self, i: usize) {
        self.values[i] = match self.kernel.nodes[i] {
            Node::Const { bits, .. } => bits,
            Node::Scalar { index } => {
                let dtype = self.kernel.scalars[index as usize];
                zero_extended(dtype, self.launch.scalars[index as usize])
            }
            // SAFETY: the caller's contract.
            Node::Load { param } => unsafe { self.load(param, 0) },
            Node::LoadAt { param, index } => {
                let (index, bound) = (self.value(index), &self.launch.bindings[param as usize]);
                if index < bound.gather_extent && index <= i64::MAX as u64 {
                    // SAFETY: the caller's contract; the index is inside the gather extent.
                    unsafe { self.load(param, index as i64 * bound.gather_stride) }
                } else {
                    0
                }
            }
            Node::Index { axis } => self.point[axis as usize],
            Node::Op { op, args } => {
                // The dtype of the last argument is that of all but a condition.
                let dtype = self.dtype(args[op.arity() - 1]);
                eval(op, dtype, args.map(|arg| self.value(arg)))
            }
            Node::Cast { dtype, arg } => cast(self.dtype(arg), dtype, self.value(arg)),
            Node::Rand { key, counter } => {
                let (key, counter) = (self.value(key), self.value(counter));
                let halves = |n: u64| [n as u32, (n >> 32) as u32];
                let [low, high] = halves(counter / 4);
                philox([low, high, 0, 0], halves(key))[(counter % 4) as usize].into()
            }
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
        self.launch.kernel.info.levels[node]
    }

    /// The dtype of an argument; in a verified kernel it has one.
    fn dtype(&self, node: NodeId) -> DType {
        self.launch.kernel.info.dtypes[node.index()].unwrap_or(DType::Bool)
    }

    fn size(&self, param: u32) -> usize {
        self.kernel.params[param as usize].dtype.size()
    }

    /// How many of the axes `param` lies along.
    fn axes(&self, param: u32) -> usize {
        match self.kernel.params[param as usize].level {
            Level::Row => self.kernel.outer as usize,
            Level::Element => self.point.len(),
        }
    }

    /// The address of the element of `param` at `point`, moved by `offset` elements.
    fn address(&self, param: u32, point: &[u64], offset: i64) -> *mut u8 {
        let bound = &self.launch.bindings[param as usize];
        let axes = point.iter().zip(self.launch.extents).take(self.axes(param));
        let element = match self.kernel.params[param as usize].access {
            Access::Contiguous => axes.fold(0, |before, (index, extent)| before * extent + index) as i64,
            Access::Broadcast => 0,
            Access::Strided => point
                .iter()
                .zip(bound.strides)
                .map(|(i, stride)| *i as i64 * stride)
                .sum(),
        };
        let bytes = (element + offset) * self.size(param) as i64;
        address(&bound.region).wrapping_offset(bytes as isize)
    }

    /// # Safety
    /// As [`run`]; `offset` leads to an element of the parameter.
    unsafe fn load(&self, param: u32, offset: i64) -> u64 {
        let mut bytes = [0; 8];
        let from = self.address(param, &self.point, offset);
        // SAFETY: the caller's contract.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), self.size(param)) };
        zero_extended(
            self.kernel.params[param as usize].dtype,
            u64::from_le_bytes(bytes),
        )
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
