//! Gathers by indices that are the same on every line.

use super::harness::{Rng, check};
use super::oracle::{Buffer, Case};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, Role, ScalarOp};

const WIDTH: i64 = 50;

/// A map of `lines` lines that gathers `count` columns of a table by an index of i32, of which some are outside; the index of i64 goes
/// to the map, too.
fn gather_of_columns(
    (dtype, lines, count): (DType, i64, i64),
    rng: &mut Rng,
    map: impl FnOnce(&mut Kernel, NodeId, NodeId) -> NodeId,
) -> Case {
    let mut k = Kernel::new("columns", 2, 0);
    let table = k.param(dtype, Role::In, Level::Row, Access::Strided);
    let index = k.param(DType::I32, Role::In, Level::Row, Access::Strided);
    let out = k.param(dtype, Role::Out, Level::Row, Access::Contiguous);
    let narrow = k.load(index);
    let wide = k.cast(DType::I64, narrow);
    let constant = |k: &mut Kernel, value: i64| {
        k.push(Node::Const {
            dtype: DType::I64,
            bits: value as u64,
        })
    };
    let (zero, all) = (constant(&mut k, 0), constant(&mut k, WIDTH));
    let negative = k.op(ScalarOp::Lt, &[wide, zero]);
    let from_end = k.op(ScalarOp::Add, &[wide, all]);
    let index = k.op(ScalarOp::Select, &[negative, from_end, wide]);
    let value = k.push(Node::LoadAt { param: table, index });
    let value = map(&mut k, value, index);
    k.store(out, value);
    let elements = |count: i64, strides: Vec<i64>, rng: &mut Rng| Buffer {
        bytes: (0..count)
            .flat_map(|_| rng.value(dtype).to_le_bytes()[..dtype.size()].to_vec())
            .collect(),
        origin: 0,
        strides,
        gather_stride: 0,
        gather_extent: 0,
    };
    let table = Buffer {
        gather_stride: 1,
        gather_extent: WIDTH as u64,
        ..elements(lines * WIDTH, vec![WIDTH, 0], rng)
    };
    let picks = (0..count).flat_map(|_| (rng.below(120) as i32 - 60).to_le_bytes());
    let index = Buffer {
        bytes: picks.collect(),
        strides: vec![0, 1],
        gather_extent: 0,
        ..table.clone()
    };
    let out = elements(lines * count, vec![], rng);
    Case {
        kernel: k,
        extents: vec![lines as u64, count as u64],
        buffers: vec![table, index, out],
        scalars: vec![],
        in_place: vec![],
    }
}

/// Lines of which a table is made, and those that are too short, too long or too few.
#[test]
fn columns_by_index() {
    let mut rng = Rng(31);
    for dtype in [DType::U8, DType::BF16, DType::F32, DType::I64] {
        for count in [31, 255, 256, 1024, 1500, 40_000] {
            for lines in [3, 4, 37] {
                check(&gather_of_columns(
                    (dtype, lines, count),
                    &mut rng,
                    |_, value, _| value,
                ));
            }
        }
    }
}

/// Maps in which the index is needed by element, too, leads to another gather, or is that of the column or of the line.
#[test]
fn maps_of_gathered_columns() {
    let mut rng = Rng(32);
    for count in [256, 1024, 2100] {
        let columns = (DType::F32, 37, count);
        check(&gather_of_columns(columns, &mut rng, |k, value, index| {
            let index = k.cast(DType::F32, index);
            k.op(ScalarOp::Mul, &[value, index])
        }));
        check(&gather_of_columns(columns, &mut rng, |k, value, index| {
            let last = k.push(Node::Const {
                dtype: DType::I64,
                bits: WIDTH as u64 - 1,
            });
            let index = k.op(ScalarOp::Sub, &[last, index]);
            let other = k.push(Node::LoadAt { param: 0, index });
            k.op(ScalarOp::Sub, &[value, other])
        }));
        for axis in [0, 1] {
            check(&gather_of_columns(columns, &mut rng, |k, value, index| {
                let place = k.push(Node::Index { axis });
                let index = k.op(ScalarOp::Min, &[place, index]);
                let other = k.push(Node::LoadAt { param: 0, index });
                k.op(ScalarOp::Sub, &[value, other])
            }));
        }
    }
}
