//! Short rows, which are turned; gathers of whole lines; places of the greatest.

use super::harness::{Rng, Threads, check, f32_buffer, random_case, run, run_program};
use super::oracle::{Buffer, Case};
use super::shapes::{layer_norm, softmax};
use crate::exec::Program;
use crate::isa::Isa;
use crate::parallel::{Parallel, Serial};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

#[test]
fn short_rows() {
    let mut rng = Rng(21);
    for length in [2, 3, 4, 5, 8, 10, 16, 17, 24, 25, 32, 33] {
        for rows in [65, 1030, 1414] {
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

/// An element type, the shape of a table `[batches, heights, widths]`, and how many of its lines are gathered.
type Lines = (DType, [usize; 3], usize);

/// A map that gathers lines of a table `[batches, heights, widths]` by one index for each batch and line, and what it runs on.
fn gather_of_lines(
    (dtype, [batches, height, width], count): Lines,
    rng: &mut Rng,
    map: impl FnOnce(&mut Kernel, NodeId, NodeId) -> NodeId,
) -> Case {
    let mut k = Kernel::new("lines", 3, 0);
    let table = k.param(dtype, Role::In, Level::Row, Access::Strided);
    let index = k.param(DType::I32, Role::In, Level::Row, Access::Strided);
    let out = k.param(dtype, Role::Out, Level::Row, Access::Contiguous);
    let narrow = k.load(index);
    let index = k.cast(DType::I64, narrow);
    let value = k.push(Node::LoadAt { param: table, index });
    let value = map(&mut k, value, index);
    k.store(out, value);
    let elements = |count: usize, strides: Vec<i64>, dtype: DType, rng: &mut Rng| Buffer {
        bytes: (0..count)
            .flat_map(|_| rng.value(dtype).to_le_bytes()[..dtype.size()].to_vec())
            .collect(),
        origin: 0,
        strides,
        gather_stride: 0,
        gather_extent: 0,
    };
    let table = Buffer {
        gather_stride: width as i64,
        gather_extent: height as u64,
        ..elements(
            batches * height * width,
            vec![(height * width) as i64, 0, 1],
            dtype,
            rng,
        )
    };
    // One in eight is outside, on either side.
    let picks = (0..batches * count).flat_map(|_| {
        let inside = rng.below(height as u64) as i32;
        match rng.below(16) {
            0 => -1 - inside,
            1 => height as i32 + inside,
            _ => inside,
        }
        .to_le_bytes()
    });
    let index = Buffer {
        bytes: picks.collect(),
        strides: vec![count as i64, 1, 0],
        gather_extent: 0,
        ..table.clone()
    };
    let out = elements(batches * count * width, vec![], dtype, rng);
    Case {
        kernel: k,
        extents: vec![batches as u64, count as u64, width as u64],
        buffers: vec![table, index, out],
        scalars: vec![],
        in_place: vec![],
    }
}

/// Copies of lines of any size, of few lines and of more than have their indices computed together.
#[test]
fn copies_of_lines() {
    let mut rng = Rng(25);
    for dtype in [DType::U8, DType::BF16, DType::F32, DType::I64] {
        for width in [1, 2, 7, 16, 31, 33, 100, 768] {
            for (batches, count) in [(1, 1), (1, 40), (3, 300), (130, 3)] {
                let lines = (dtype, [batches, 9, width], count);
                check(&gather_of_lines(lines, &mut rng, |_, value, _| value));
            }
        }
    }
}

/// Copies that are split between threads by lines and by pieces of lines, and those that are written past the caches; of tables whose
/// lines are asked for, and of smaller ones.
#[test]
fn large_copies_of_lines() {
    let mut rng = Rng(26);
    for (dtype, [height, width], count) in [
        (DType::F32, [50, 1000], 1500),
        (DType::BF16, [7, 400_001], 3),
        (DType::F64, [300, 768], 5500),
        (DType::U8, [300, 100], 340_000),
        (DType::U8, [12_000, 100], 340_000),
        (DType::F32, [3000, 101], 4000),
        (DType::F32, [400, 3001], 700),
    ] {
        let case = gather_of_lines((dtype, [1, height, width], count), &mut rng, |_, value, _| value);
        let (size, bytes) = (dtype.size(), |b: &Buffer| b.bytes.clone());
        let (table, picks) = (bytes(&case.buffers[0]), bytes(&case.buffers[1]));
        let lines = picks.chunks_exact(4).flat_map(|pick| {
            let at = i32::from_le_bytes(pick.try_into().expect("four bytes"));
            match usize::try_from(at).ok().filter(|&at| at < height) {
                Some(at) => table[at * width * size..][..width * size].to_vec(),
                None => vec![0; width * size],
            }
        });
        let wanted: Vec<u8> = lines.collect();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for parallel in [&Serial as &dyn Parallel, &Threads(3)] {
                let found = run(&case, isa, parallel);
                assert!(found[2] == wanted, "{isa:?}, {dtype}, {count} of {width}");
            }
        }
    }
}

/// Maps of gathered lines, in which the index is needed by element, too, or leads to another gather.
#[test]
fn maps_of_gathered_lines() {
    let mut rng = Rng(27);
    for width in [31, 32, 100, 1500] {
        for (batches, count) in [(1, 40), (3, 300)] {
            let lines = (DType::F32, [batches, 9, width], count);
            check(&gather_of_lines(lines, &mut rng, |k, value, _| {
                k.op(ScalarOp::Add, &[value, value])
            }));
            check(&gather_of_lines(lines, &mut rng, |k, value, index| {
                let index = k.cast(DType::F32, index);
                k.op(ScalarOp::Mul, &[value, index])
            }));
            // Twice: the second index is the greatest less the first, and takes the place of what the first one needed.
            check(&gather_of_lines(lines, &mut rng, |k, value, index| {
                let last = k.push(Node::Const {
                    dtype: DType::I64,
                    bits: 8,
                });
                let index = k.op(ScalarOp::Sub, &[last, index]);
                let other = k.push(Node::LoadAt { param: 0, index });
                k.op(ScalarOp::Sub, &[value, other])
            }));
            // By the number of the line, which no parameter tells.
            check(&gather_of_lines(lines, &mut rng, |k, value, index| {
                let line = k.push(Node::Index { axis: 1 });
                let index = k.op(ScalarOp::Min, &[line, index]);
                let other = k.push(Node::LoadAt { param: 0, index });
                k.op(ScalarOp::Sub, &[value, other])
            }));
        }
    }
}

/// Two lines weighed by numbers of the line and added, by machine code where both are inside, and by loops where one is outside.
#[test]
fn weighed_lines() {
    let mut rng = Rng(28);
    for width in [32, 56, 100, 1500] {
        for (batches, count) in [(1, 40), (3, 300)] {
            let lines = (DType::F32, [batches, 9, width], count);
            let mut case = gather_of_lines(lines, &mut rng, |k, value, index| {
                let weight = k.param(DType::F32, Role::In, Level::Row, Access::Strided);
                let single = k.param(DType::F32, Role::In, Level::Row, Access::Broadcast);
                let one = k.push(Node::Const {
                    dtype: DType::I64,
                    bits: 1,
                });
                let index = k.op(ScalarOp::Add, &[index, one]);
                let after = k.push(Node::LoadAt { param: 0, index });
                let (weight, single) = (k.load(weight), k.load(single));
                let after = k.op(ScalarOp::Mul, &[after, weight]);
                let before = k.op(ScalarOp::Mul, &[value, single]);
                k.op(ScalarOp::Add, &[before, after])
            });
            case.buffers.push(f32_buffer(count, vec![0, 1, 0], &mut rng));
            case.buffers.push(f32_buffer(1, vec![], &mut rng));
            check(&case);
            let program = Program::compile(&case.kernel, Isa::detect()).expect("compiles");
            let program = program.generate(Isa::detect());
            run_program(&case, &program, &Serial);
            assert_eq!(program.has_gathered(), Isa::detect() >= Isa::Avx2);
        }
    }
}
