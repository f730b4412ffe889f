//! What a kernel means: the index spaces are walked point by point and every node is one scalar.
//!
//! A value is carried as its bits, zero-extended, and read by its dtype. Floats compute in f64 and round to f32 for
//! every narrower dtype, then to the dtype. For `+ - * /` and `sqrt` that is the f32 result to the bit (53 bits are more
//! than twice 24 and 2: Figueroa, "When is double rounding innocuous?"), for `exp` and its kind the f32 result but for
//! near-ties.
//!
//! Sums and products of floats run in row-major order in f64, so that of an f32 sum only the last rounding remains: the
//! value that a backend's own order approximates.

use crate::scalar::{Reduction, cast, eval, philox};
use thalweg_hal::DType;
use thalweg_hal::ir::{Info, Kernel, Level, Node, NodeId, Role};

/// The memory of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a> {
    /// Element at index 0 of every axis.
    pub ptr: *mut u8,
    /// Elements from one index to the next, for each axis of the parameter's level.
    pub strides: &'a [i64],
    /// Elements from one gather index to the next.
    pub gather_stride: i64,
    /// Gather indices beyond this read 0.
    pub gather_extent: u64,
}

/// Runs a verified kernel. Stores wait until the last load has been made.
///
/// # Safety
/// `extents` has one entry per outer and inner axis, `bindings` one per parameter and `scalars` one per scalar, and every
/// element that the kernel reaches through a binding is readable, or writable for an output.
pub unsafe fn run(
    kernel: &Kernel,
    info: &Info,
    extents: &[u64],
    bindings: &[Bound<'_>],
    scalars: &[u64],
) {
    let mut walk = Walk {
        kernel,
        info,
        bindings,
        scalars,
        point: vec![0; extents.len()],
        values: vec![0; kernel.nodes.len()],
        stores: Vec::new(),
    };
    let (outer, inner) = extents.split_at(kernel.outer as usize);
    each_point(outer, |row| {
        walk.point[..outer.len()].copy_from_slice(row);
        // SAFETY: the caller's contract.
        unsafe { walk.row(inner) }
    });
    for store in walk.stores {
        // SAFETY: an address of an output at a point of its level.
        unsafe { write(store.ptr, store.size, store.bits) }
    }
}

struct Store {
    ptr: *mut u8,
    size: usize,
    bits: u64,
}

struct Walk<'a> {
    kernel: &'a Kernel,
    info: &'a Info,
    bindings: &'a [Bound<'a>],
    scalars: &'a [u64],
    /// Current index along the outer and the inner axes.
    point: Vec<u64>,
    /// Value of each node at the current point.
    values: Vec<u64>,
    stores: Vec<Store>,
}

impl Walk<'_> {
    /// One outer point: each row-level node once, in order, with one walk of the inner space for each reduction and a
    /// last one for the stores at element level.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn row(&mut self, inner: &[u64]) {
        for (i, node) in self.kernel.nodes.iter().enumerate() {
            if let Node::Reduce { op, arg } = *node {
                let mut reduction = Reduction::new(op, self.dtype(arg));
                // SAFETY: the caller's contract.
                unsafe { self.elements(inner, i, |walk| reduction.take(walk.value(arg))) };
                self.values[i] = reduction.finish();
            } else if self.info.levels[i] == Level::Row {
                // SAFETY: the caller's contract.
                unsafe { self.node(i) }
            }
        }
        // SAFETY: the caller's contract.
        unsafe { self.elements(inner, self.kernel.nodes.len(), Walk::store_elements) }
    }

    /// Evaluates the element-level nodes before `end` at each inner point, then calls `visit`.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn elements(&mut self, inner: &[u64], end: usize, mut visit: impl FnMut(&mut Self)) {
        let outer = self.kernel.outer as usize;
        each_point(inner, |point| {
            self.point[outer..].copy_from_slice(point);
            for i in 0..end {
                let store = matches!(self.kernel.nodes[i], Node::Store { .. });
                if self.info.levels[i] == Level::Element && !store {
                    // SAFETY: the caller's contract.
                    unsafe { self.node(i) }
                }
            }
            visit(self);
        });
    }

    fn store_elements(&mut self) {
        for (i, node) in self.kernel.nodes.iter().enumerate() {
            if let (Node::Store { param, value }, Level::Element) = (*node, self.info.levels[i]) {
                self.store(param, value);
            }
        }
    }

    /// # Safety
    /// As [`run`].
    unsafe fn node(&mut self, i: usize) {
        self.values[i] = match self.kernel.nodes[i] {
            Node::Const { bits, .. } => bits,
            Node::Scalar { index } => self.scalars[index as usize],
            // SAFETY: the caller's contract.
            Node::Load { param } => unsafe { self.load(param, 0) },
            Node::LoadAt { param, index } => {
                let bound = self.bindings[param as usize];
                let index = self.value(index);
                if index < bound.gather_extent && index <= i64::MAX as u64 {
                    // SAFETY: the caller's contract; the index is inside the gather extent.
                    unsafe { self.load(param, (index as i64).wrapping_mul(bound.gather_stride)) }
                } else {
                    0
                }
            }
            Node::Index { axis } => self.point[axis as usize],
            Node::Op { op, args } => {
                // The last argument has the dtype that the others have, but for a condition.
                let dtype = self.dtype(args[op.arity() - 1]);
                eval(op, dtype, args.map(|arg| self.value(arg)))
            }
            Node::Cast { dtype, arg } => cast(self.dtype(arg), dtype, self.value(arg)),
            Node::Rand { key, counter } => philox_word(self.value(key), self.value(counter)),
            Node::Store { param, value } => {
                self.store(param, value);
                0
            }
            Node::Reduce { .. } => self.values[i],
        };
    }

    fn value(&self, node: NodeId) -> u64 {
        self.values[node.index()]
    }

    /// The dtype of an argument; arguments of a verified kernel have one.
    fn dtype(&self, node: NodeId) -> DType {
        self.info.dtypes[node.index()].unwrap_or(DType::Bool)
    }

    fn store(&mut self, param: u32, value: NodeId) {
        let size = self.kernel.params[param as usize].dtype.size();
        let store = Store {
            ptr: self.address(param, 0),
            size,
            bits: self.value(value),
        };
        self.stores.push(store);
    }

    /// The address of the current element of `param`, moved by `offset` elements.
    fn address(&self, param: u32, offset: i64) -> *mut u8 {
        let bound = self.bindings[param as usize];
        let elements = bound
            .strides
            .iter()
            .zip(&self.point)
            .map(|(stride, index)| stride * *index as i64);
        let size = self.kernel.params[param as usize].dtype.size() as i64;
        bound
            .ptr
            .wrapping_offset(((elements.sum::<i64>() + offset) * size) as isize)
    }

    /// # Safety
    /// As [`run`]; `offset` leads to an element of the parameter.
    unsafe fn load(&self, param: u32, offset: i64) -> u64 {
        debug_assert_eq!(self.kernel.params[param as usize].role, Role::In);
        let dtype = self.kernel.params[param as usize].dtype;
        // SAFETY: the caller's contract.
        let bits = unsafe { read(self.address(param, offset), dtype.size()) };
        if dtype == DType::Bool {
            u64::from(bits != 0)
        } else {
            bits
        }
    }
}

/// Word `counter % 4` of block `counter / 4`.
fn philox_word(key: u64, counter: u64) -> u64 {
    let block = counter / 4;
    let words = philox(
        [block as u32, (block >> 32) as u32, 0, 0],
        [key as u32, (key >> 32) as u32],
    );
    u64::from(words[(counter % 4) as usize])
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

/// # Safety
/// `size` bytes at `ptr` are readable.
unsafe fn read(ptr: *const u8, size: usize) -> u64 {
    // SAFETY: the caller's contract; no alignment is assumed.
    unsafe {
        match size {
            1 => u64::from(ptr.read()),
            2 => u64::from(ptr.cast::<u16>().read_unaligned()),
            4 => u64::from(ptr.cast::<u32>().read_unaligned()),
            _ => ptr.cast::<u64>().read_unaligned(),
        }
    }
}

/// # Safety
/// `size` bytes at `ptr` are writable.
unsafe fn write(ptr: *mut u8, size: usize, bits: u64) {
    // SAFETY: the caller's contract; no alignment is assumed.
    unsafe {
        match size {
            1 => ptr.write(bits as u8),
            2 => ptr.cast::<u16>().write_unaligned(bits as u16),
            4 => ptr.cast::<u32>().write_unaligned(bits as u32),
            _ => ptr.cast::<u64>().write_unaligned(bits),
        }
    }
}

#[cfg(test)]
mod tests;
