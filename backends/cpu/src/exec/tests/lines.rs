//! Short rows, which are turned; gathers of whole lines; places of the greatest.

use super::harness::{Rng, check, f32_buffer, random_case};
use super::oracle::{Buffer, Case};
use super::shapes::{layer_norm, softmax};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, ReduceOp, Role, ScalarOp};

#[test]
fn short_rows() {
    let mut rng = Rng(21);
    for length in [2, 3, 4, 5, 8, 10, 16, 17, 24, 25, 32, 33] {
        for rows in [65, 1030] {
            for kernel in [
                softmax(1, Access::Contiguous),
                softmax(1, Access::Strided),
                layer_norm(),
            ] {
                check(&random_case(kernel, vec![rows, length], &mut rng));
            }
        }
    }
}

/// Elements of every size; an output in the place of its input; one that stands apart.
#[test]
fn short_rows_of_any_dtype() {
    let mut rng = Rng(22);
    for dtype in [DType::U8, DType::F16, DType::I32, DType::F64] {
        for length in [3, 10, 24] {
            let mut k = Kernel::new("distances", 1, 1);
            let x = k.param(dtype, Role::In, Level::Element, Access::Contiguous);
            let y = k.param(dtype, Role::Out, Level::Element, Access::Contiguous);
            let z = k.param(dtype, Role::Out, Level::Element, Access::Strided);
            let x = k.load(x);
            let greatest = k.reduce(ReduceOp::Max, x);
            let distance = k.op(ScalarOp::Sub, &[greatest, x]);
            k.store(y, distance);
            k.store(z, x);
            check(&random_case(k, vec![130, length], &mut rng));
        }
    }
}

/// Of equal elements the first counts, and NaN is the greatest.
#[test]
fn places_of_the_greatest() {
    let mut rng = Rng(23);
    for length in [1usize, 10, 16, 64, 65, 100, 1000, 4096, 5000, 150_000] {
        let rows = (60_000 / length).clamp(1, 40);
        for op in [ReduceOp::ArgMax, ReduceOp::ArgMin] {
            let mut k = Kernel::new("place", 1, 1);
            let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
            let y = k.param(DType::I64, Role::Out, Level::Row, Access::Contiguous);
            let x = k.load(x);
            let place = k.reduce(op, x);
            k.store(y, place);
            let mut x = f32_buffer(rows * length, vec![], &mut rng);
            // Few different numbers, both zeros among them; every other row is one without NaN.
            for (i, bytes) in x.bytes.chunks_exact_mut(4).enumerate() {
                let choice = rng.below(if i / length % 2 == 0 { 5 } else { 300 });
                let value = match choice {
                    0 => -0.0,
                    1 => 0.0,
                    5 => f32::NAN,
                    6 => f32::NEG_INFINITY,
                    _ => -1.0,
                };
                bytes.copy_from_slice(&f32::to_le_bytes(value));
            }
            let y = Buffer {
                bytes: vec![0; rows * 8],
                ..x.clone()
            };
            check(&Case {
                kernel: k,
                extents: vec![rows as u64, length as u64],
                buffers: vec![x, y],
                scalars: vec![],
                in_place: vec![],
            });
        }
    }
}

/// Lines by an index, of which some are outside and some count from the end; and lines by an index for each element.
#[test]
fn lines_by_index() {
    let mut rng = Rng(24);
    let (count, lines) = (40_i64, 19_i64);
    for length in [8_i64, 32, 100, 512, 1500] {
        for by_element in [false, true] {
            let mut k = Kernel::new("lines", 2, 0);
            let x = k.param(DType::F32, Role::In, Level::Row, Access::Strided);
            let index = k.param(DType::I64, Role::In, Level::Row, Access::Strided);
            let y = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
            let i = k.load(index);
            let constant = |k: &mut Kernel, value: i64| {
                k.push(Node::Const {
                    dtype: DType::I64,
                    bits: value as u64,
                })
            };
            let (zero, all) = (constant(&mut k, 0), constant(&mut k, lines));
            let negative = k.op(ScalarOp::Lt, &[i, zero]);
            let from_end = k.op(ScalarOp::Add, &[i, all]);
            let i = k.op(ScalarOp::Select, &[negative, from_end, i]);
            let v = k.push(Node::LoadAt { param: x, index: i });
            k.store(y, v);
            let x = Buffer {
                gather_stride: if by_element { 1 } else { length },
                gather_extent: lines as u64,
                ..f32_buffer(
                    (lines * length.max(count)) as usize,
                    if by_element { vec![lines, 0] } else { vec![0, 1] },
                    &mut rng,
                )
            };
            let indices = if by_element { count * length } else { count };
            let values = (0..indices).flat_map(|_| (rng.below(44) as i64 - 22).to_le_bytes());
            let index = Buffer {
                bytes: values.collect(),
                strides: if by_element { vec![length, 1] } else { vec![1, 0] },
                gather_extent: 0,
                ..x.clone()
            };
            let y = Buffer {
                bytes: vec![0; (count * length * 4) as usize],
                strides: vec![],
                gather_extent: 0,
                ..x.clone()
            };
            check(&Case {
                kernel: k,
                extents: vec![count as u64, length as u64],
                buffers: vec![x, index, y],
                scalars: vec![],
                in_place: vec![],
            });
        }
    }
}
