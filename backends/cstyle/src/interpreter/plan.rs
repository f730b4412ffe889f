//! The words of a launch.

use super::{AXES, Code, NODE, PARAM, POINTERS, kind, number, wide};
use crate::body::Body;
use crate::operands::points;
use crate::variant::{Form, Grid, Pass, Plan, Variant, Words};
use crate::{Launch, Target};
use smallvec::SmallVec;
use thalweg_hal::DType;
use thalweg_hal::dtype::Class;
use thalweg_hal::ir::{Level, Node, NodeId};
use thalweg_hal::narrow::{float_bits, float_value};

/// Most groups of a launch, and work-items of a group that is no processor's.
const MOST_GROUPS: u64 = 256;
const GROUP: u32 = 64;

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
        form: Form::Interpreted,
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
        axes: SmallVec::new(),
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
