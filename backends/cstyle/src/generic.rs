//! Kernels as the words of one program that interprets them: what takes long to compile is compiled once for all of them.

use crate::body::Body;
use crate::space::points;
use crate::variant::{Form, Grid, Pass, Plan, Variant, Words};
use crate::{Launch, Target};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::OnceLock;
use thalweg_hal::DType;
use thalweg_hal::dtype::Class;
use thalweg_hal::ir::{Level, MAX_RANK, Node, NodeId, ReduceOp, ScalarOp};
use thalweg_hal::narrow::{float_bits, float_value};

/// Pointers that the program takes; kernels with more parameters are compiled.
pub(crate) const POINTERS: usize = 12;
/// Nodes that a kernel may have; larger ones are compiled.
pub(crate) const NODES: usize = 192;
/// Words before the extents, of a parameter and of a node.
pub(crate) const HEAD: usize = 8;
pub(crate) const AXES: usize = 2 * MAX_RANK;
pub(crate) const PARAM: usize = 4 + AXES;
pub(crate) const NODE: usize = 9;
/// Most groups of a launch, and work-items of a group that is no processor's.
const MOST_GROUPS: u64 = 256;
const GROUP: u32 = 64;

/// What a node does: the value of its first word.
pub(crate) mod kind {
    pub(crate) const CONST: u64 = 0;
    pub(crate) const INDEX: u64 = 1;
    pub(crate) const RAND: u64 = 2;
    pub(crate) const LOAD: u64 = 3;
    pub(crate) const GATHER: u64 = 4;
    pub(crate) const STORE: u64 = 5;
    pub(crate) const STEP: u64 = 6;
    pub(crate) const REDUCE: u64 = 7;
}

/// What is done to values or memory: a case of the program's switches, numbered by its place in [`codes`]. Dtypes are those
/// of registers but for memory and the targets of casts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    Op(ScalarOp, DType),
    Cast(DType, DType),
    Reduce(ReduceOp, DType),
    Memory(DType),
}

/// The dtype that a register of `dtype` has: f16 and bf16 are f32 in between.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype.is_storage() {
        dtype
    } else {
        dtype.facts().computed
    }
}

/// Every code, in the order of their numbers.
pub(crate) fn codes() -> &'static [Code] {
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

/// How a launch runs on the program.
pub(crate) fn plan(body: &Body, target: &Target, launch: &Launch<'_>) -> Plan {
    let (outer, rank) = (body.outer(), body.rank());
    let rows = points(&launch.extents[..outer]);
    let points = points(&launch.extents[outer..]);
    let elements = !body.stores(Level::Element).is_empty();
    let mut words = Words::new();
    words.extend([
        outer as u64,
        rank as u64,
        body.kernel.nodes.len() as u64,
        rows,
        points,
        u64::from(body.depth()),
        u64::from(elements),
        0,
    ]);
    words.extend((0..AXES).map(|axis| launch.extents.get(axis).copied().unwrap_or(1)));
    let strides = body.strides(launch);
    for p in 0..POINTERS {
        let Some(place) = launch.places.get(p) else {
            words.extend([0; PARAM]);
            continue;
        };
        let size = body.kernel.params[p].dtype.size() as u64;
        words.extend([
            place.offset,
            place.gather_stride as u64,
            place.gather_extent,
            size,
        ]);
        words.extend((0..AXES).map(|axis| {
            if axis < rank {
                strides[p * rank + axis] as u64
            } else {
                0
            }
        }));
    }
    for i in 0..body.kernel.nodes.len() {
        words.extend(node(body, launch, i));
    }
    let mut grid = None;
    if rows > 0 && (points > 0 || body.depth() > 0 || !body.stores(Level::Row).is_empty()) {
        let group_size = if target.cpu {
            1
        } else {
            GROUP.min(target.max_group_size)
        };
        grid = Some(Grid {
            groups: rows
                .div_ceil(if target.cpu { 16 } else { group_size.into() })
                .min(MOST_GROUPS),
            group_size,
        });
    }
    Plan {
        variant: variant(target),
        passes: Pass::each(grid),
        scratch_bytes: 0,
        words,
    }
}

fn variant(target: &Target) -> Variant {
    Variant {
        form: Form::Generic,
        wide: true,
        in_place: true,
        lanes: 1,
        group: if target.cpu {
            1
        } else {
            GROUP.min(target.max_group_size) as u16
        },
        outer: 0,
        inner: 0,
        homes: SmallVec::new(),
        steps: SmallVec::new(),
        row_steps: SmallVec::new(),
    }
}

/// The words of a node: kind, code, three arguments, parameter or axis or bits, level, stage, and what rounds the result.
fn node(body: &Body, launch: &Launch<'_>, i: usize) -> [u64; NODE] {
    let id = |id: NodeId| u64::from(id.0);
    let level = match body.info.levels[i] {
        // Nobody asks for it.
        _ if !body.live[i] => 2,
        Level::Row => 0,
        Level::Element => 1,
    };
    let (mut kind, mut code, mut args, mut extra, mut rounds) = (kind::CONST, 0, [0; 3], 0, 0);
    match body.kernel.nodes[i] {
        Node::Const { dtype, bits } => extra = register_bits(dtype, bits),
        Node::Scalar { index } => {
            let index = index as usize;
            extra = register_bits(body.kernel.scalars[index], launch.scalars[index]);
        }
        Node::Index { axis } => (kind, extra) = (kind::INDEX, u64::from(axis)),
        Node::Rand { key, counter } => (kind, args) = (kind::RAND, [id(key), id(counter), 0]),
        Node::Load { param } => {
            code = number(Code::Memory(body.param(param).dtype));
            (kind, extra) = (kind::LOAD, u64::from(param));
        }
        Node::LoadAt { param, index } => {
            code = number(Code::Memory(body.param(param).dtype));
            (kind, extra, args[0]) = (kind::GATHER, u64::from(param), id(index));
        }
        Node::Store { param, value } => {
            code = number(Code::Memory(body.param(param).dtype));
            (kind, extra, args[0]) = (kind::STORE, u64::from(param), id(value));
        }
        Node::Op { op, args: given } => {
            let dtype = body.dtype(given[op.arity() - 1]);
            (kind, code) = (kind::STEP, number(Code::Op(op, wide(dtype))));
            for (to, from) in args.iter_mut().zip(&given[..op.arity()]) {
                *to = id(*from);
            }
            let names = ["a", "b", "c"];
            if crate::scalar::op(op, dtype, names) != crate::scalar::op(op, wide(dtype), names) {
                rounds = 1 + u64::from(dtype == DType::BF16);
            }
        }
        Node::Cast { dtype, arg } => {
            (kind, code) = (kind::STEP, number(Code::Cast(wide(body.dtype(arg)), dtype)));
            args[0] = id(arg);
        }
        Node::Reduce { op, arg } => {
            (kind, code) = (kind::REDUCE, number(Code::Reduce(op, wide(body.dtype(arg)))));
            args[0] = id(arg);
        }
    }
    let [a, b, c] = args;
    [
        kind,
        code,
        a,
        b,
        c,
        extra,
        level,
        u64::from(body.stages[i]),
        rounds,
    ]
}

/// The bits of a value as a register holds it.
fn register_bits(dtype: DType, bits: u64) -> u64 {
    let unused = 64 - 8 * dtype.size() as u32;
    match dtype.class() {
        Class::Float if wide(dtype) != dtype => float_bits(wide(dtype), float_value(dtype, bits)),
        Class::Signed => (((bits << unused) as i64) >> unused) as u64,
        Class::Bool => u64::from(bits as u8 != 0),
        Class::Float | Class::Unsigned => bits,
    }
}
