//! Kernels as the words of one program that interprets them, so that nothing is compiled for each.
//!
//! The words hold extents, parameters and nodes; what a node does is a number, the place of a [`Code`] in [`codes`]. The program
//! has a case for each code (`write.rs`) and the loops over rows and points (`loops.cl`). OpenCL only.

mod plan;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use plan::plan;
pub(crate) use write::source;

use crate::body::Body;
use std::collections::HashMap;
use std::sync::OnceLock;
use thalweg_hal::DType;
use thalweg_hal::ir::{MAX_RANK, ReduceOp, ScalarOp};

/// Pointers that the program takes; kernels with more parameters are compiled.
const POINTERS: usize = 12;
/// Nodes that a kernel may have; larger ones are compiled.
const NODES: usize = 192;
/// Words before the extents, of a parameter and of a node.
const HEAD: usize = 8;
const AXES: usize = 2 * MAX_RANK;
const PARAM: usize = 4 + AXES;
const NODE: usize = 9;
/// What a node does: the value of its first word.
mod kind {
    pub(super) const CONST: u64 = 0;
    pub(super) const INDEX: u64 = 1;
    pub(super) const RAND: u64 = 2;
    pub(super) const LOAD: u64 = 3;
    pub(super) const GATHER: u64 = 4;
    pub(super) const STORE: u64 = 5;
    pub(super) const STEP: u64 = 6;
    pub(super) const REDUCE: u64 = 7;
}

/// What is done to values or memory: a case of the program's switches, numbered by its place in [`codes`]. Dtypes are those
/// of registers but for memory and the targets of casts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Code {
    Op(ScalarOp, DType),
    Cast(DType, DType),
    Reduce(ReduceOp, DType),
    Memory(DType),
}

/// The dtype that a register of `dtype` has: f16 and bf16 are f32 in between.
fn wide(dtype: DType) -> DType {
    if dtype.is_storage() {
        dtype
    } else {
        dtype.facts().computed
    }
}

/// Every code, in the order of their numbers.
fn codes() -> &'static [Code] {
    static CODES: OnceLock<Vec<Code>> = OnceLock::new();
    CODES.get_or_init(|| {
        let registers = || DType::ALL.into_iter().filter(|&dtype| wide(dtype) == dtype);
        let mut codes: Vec<Code> = DType::ALL.into_iter().map(Code::Memory).collect();
        for &op in ScalarOp::ALL {
            let takes = registers().filter(|&dtype| op.accepts().takes(dtype));
            codes.extend(takes.map(|dtype| Code::Op(op, dtype)));
        }
        for from in registers() {
            codes.extend(DType::ALL.into_iter().map(|to| Code::Cast(from, to)));
        }
        for &op in ReduceOp::ALL {
            let takes = registers().filter(|&dtype| op.takes(dtype));
            codes.extend(takes.map(|dtype| Code::Reduce(op, dtype)));
        }
        codes
    })
}

fn number(code: Code) -> u64 {
    static NUMBERS: OnceLock<HashMap<Code, u64>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| codes().iter().copied().zip(0..).collect());
    // Every code that a verified kernel asks for is in the list.
    numbers.get(&code).copied().unwrap_or(u64::MAX)
}

/// Whether the program can run a kernel.
pub(crate) fn fits(body: &Body) -> bool {
    body.kernel.params.len() <= POINTERS && body.kernel.nodes.len() <= NODES
}
