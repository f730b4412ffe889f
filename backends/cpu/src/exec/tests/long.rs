//! Rows longer than a segment, by loops and as machine code: every reduction, special numbers at borders, random kernels. Rows with
//! lines along which weights stand still.

use super::super::long::Long;
use super::coded::{REDUCTIONS, distances, greatest, has_code, random_rows};
use super::harness::{Rng, check, f32_buffer, random_case};
use super::oracle::Case;
use super::shapes::{layer_norm, softmax};
use crate::exec::Program;
use crate::exec::space::Space;
use crate::isa::Isa;
use crate::loops::SEGMENT;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role, ScalarOp};

const LENGTHS: [usize; 3] = [SEGMENT + 1, 2 * SEGMENT, 7 * SEGMENT + 77];

#[test]
fn every_reduction() {
    let mut rng = Rng(41);
    let mut kernels: Vec<_> = REDUCTIONS.map(distances).into();
    kernels.extend([
        softmax(1, Access::Contiguous),
        layer_norm(),
        greatest(false),
        greatest(true),
    ]);
    for kernel in kernels {
        let program = Program::compile(&kernel, Isa::detect())
            .expect("compiles")
            .generate(Isa::detect());
        let long = program.long(&program.parts[0].part);
        assert_eq!(
            long.is_some_and(Long::is_whole),
            has_code(),
            "{}",
            kernel.to_text()
        );
        for (rows, n) in [1, 2]
            .into_iter()
            .flat_map(|rows| LENGTHS.map(|n| (rows, n as u64)))
        {
            check(&random_case(kernel.clone(), vec![rows, n], &mut rng));
        }
    }
}

/// The greatest, and equals of it, in different segments and at their borders.
#[test]
fn places_in_segments() {
    let n = 4 * SEGMENT - 5;
    let borders = [0, 1, SEGMENT - 1, SEGMENT, 2 * SEGMENT - 1, 3 * SEGMENT, n - 1];
    let mut rng = Rng(42);
    for (first, special) in borders
        .into_iter()
        .flat_map(|b| [9.0, f32::NAN, -9.0].map(|s| (b, s)))
    {
        for computed in [false, true] {
            let mut case = random_case(greatest(computed), vec![1, n as u64], &mut rng);
            case.in_place.clear();
            let mut row: Vec<f32> = (0..n).map(|i| (i % 5) as f32 - 2.0).collect();
            row[first] = special;
            row[borders[rng.below(7) as usize]] = special;
            case.buffers[0].bytes = row.into_iter().flat_map(f32::to_le_bytes).collect();
            if computed {
                case.buffers[1].bytes = 0.5_f32.to_le_bytes().to_vec();
            }
            check(&case);
        }
    }
}

#[test]
fn random_kernels() {
    for seed in 0..16 {
        let mut rng = Rng(1000 + seed);
        let nodes = 2 + rng.below(14);
        let kernel = random_rows(&mut rng, nodes);
        let mut extents = vec![1; kernel.outer as usize];
        extents[0] = 1 + rng.below(2);
        extents.extend(vec![1; kernel.inner as usize - 1]);
        extents.push(LENGTHS[rng.below(3) as usize] as u64);
        check(&random_case(kernel, extents, &mut rng));
    }
}

/// (x - mean) · weight + shift, and the sum: of rows of channels and places.
fn groups(shifts: DType) -> Kernel {
    let mut k = Kernel::new("groups", 1, 2);
    let x = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let weight = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let shift = k.param(shifts, Role::In, Level::Element, Access::Strided);
    let sum_out = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let y = k.param(DType::F32, Role::Out, Level::Element, Access::Strided);
    let scalar = k.scalar(DType::F32);
    let (x, weight, shift) = (k.load(x), k.load(weight), k.load(shift));
    let shift = match shifts {
        DType::F32 => shift,
        _ => k.cast(DType::F32, shift),
    };
    let sum = k.reduce(ReduceOp::Sum, x);
    let mean = k.op(ScalarOp::Mul, &[sum, scalar]);
    let centred = k.op(ScalarOp::Sub, &[x, mean]);
    let scaled = k.op(ScalarOp::Mul, &[centred, weight]);
    let moved = k.op(ScalarOp::Add, &[scaled, shift]);
    k.store(sum_out, sum);
    k.store(y, moved);
    k
}

/// Lines shorter and longer than blocks, rows shorter and longer than segments, an output with gaps, and in place.
#[test]
fn weights_of_lines() {
    let mut rng = Rng(43);
    let long = SEGMENT as u64 + 400;
    for [rows, lines, length] in [
        [2, 3, 16],
        [3, 5, 100],
        [1, 64, 49],
        [2, 3, 3136],
        [1, 2, long],
        [1, 400, 700],
    ] {
        // Shifts of i32 are cast where they are read.
        for (gap, in_place, shifts) in [
            (0, false, DType::F32),
            (0, true, DType::F32),
            (3, false, DType::I32),
            (16, false, DType::F32),
        ] {
            let total = rows * lines * length;
            let kernel = groups(shifts);
            let of = |n: u64, strides: [u64; 3], rng: &mut Rng| {
                f32_buffer(n as usize, strides.map(|s| s as i64).to_vec(), rng)
            };
            let channels = rows * lines;
            let flat = [lines * length, length, 1];
            let pitch = length + gap;
            let mut buffers = vec![
                of(total, flat, &mut rng),
                of(channels, [lines, 1, 0], &mut rng),
                of(channels, [lines, 1, 0], &mut rng),
                f32_buffer(rows as usize, vec![], &mut rng),
                of(channels * pitch, [lines * pitch, pitch, 1], &mut rng),
            ];
            if in_place {
                buffers[0] = buffers[4].clone();
            }
            let case = Case {
                kernel,
                extents: vec![rows, lines, length],
                buffers,
                scalars: vec![(1.0 / (lines * length) as f32).to_bits().into()],
                in_place: if in_place { vec![(4, 0)] } else { vec![] },
            };
            check(&case);
        }
    }
}

/// Lines are found, and only where parameters go on or stand still along one.
#[test]
fn what_has_lines() {
    let program = |isa| {
        Program::compile(&groups(DType::F32), isa)
            .expect("compiles")
            .generate(isa)
    };
    let code = program(Isa::detect());
    let lanes = |strides: [[i64; 2]; 4], length: u64| {
        let [x, weight, shift, y] = strides.map(|[line, place]| [0, line, place]);
        let full: Vec<i64> = [x, weight, shift, [0; 3], y].concat();
        Space::new(&[1, 4, length], 1..3, (&full, 5), 0, None)
    };
    let has = |strides, length| code.lined(&code.parts[0].part, &lanes(strides, length)).is_some();
    let channels = [[100, 1], [1, 0], [1, 0], [100, 1]];
    assert_eq!(has(channels, 100), has_code());
    assert!(!has([[8, 1], [1, 0], [1, 0], [8, 1]], 8));
    assert!(!has([[100, 1], [1, 0], [1, 4], [100, 1]], 100));
    // Another parameter stands still than in the first launch.
    assert!(!has([[100, 1], [1, 0], [100, 1], [100, 1]], 100));
    // What is reduced is read with gaps, but not across its lines.
    assert_eq!(has([[120, 1], [1, 0], [1, 0], [100, 1]], 100), has_code());
    assert!(!has([[1, 120], [1, 0], [1, 0], [100, 1]], 100));
}

/// A normalisation's way back behind an activation: sums of what is stored too, of rows that are channels of several images.
fn slopes(places: bool) -> Kernel {
    let mut k = Kernel::new("slopes", 1, 2);
    let [x, g] = [(); 2].map(|()| k.param(DType::F32, Role::In, Level::Element, Access::Strided));
    let mean = k.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let kept = k.param(DType::F32, Role::Out, Level::Element, Access::Strided);
    let [by_bias, by_weight] =
        [(); 2].map(|()| k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous));
    let by_x = k.param(DType::F32, Role::Out, Level::Element, Access::Strided);
    let scalar = k.scalar(DType::F32);
    let zero = k.const_f32(0.0);
    let [x, g, mean] = [x, g, mean].map(|param| k.load(param));
    let off = k.op(ScalarOp::Le, &[x, zero]);
    let g = k.op(ScalarOp::Select, &[off, zero, g]);
    let centred = k.op(ScalarOp::Sub, &[x, mean]);
    let product = k.op(ScalarOp::Mul, &[g, centred]);
    let op = if places { ReduceOp::Max } else { ReduceOp::Sum };
    let (total, slope) = (k.reduce(op, g), k.reduce(ReduceOp::Sum, product));
    let share = k.op(ScalarOp::Mul, &[total, scalar]);
    let bent = k.op(ScalarOp::Mul, &[centred, slope]);
    let moved = k.op(ScalarOp::Sub, &[g, share]);
    let result = k.op(ScalarOp::Sub, &[moved, bent]);
    k.store(kept, g);
    k.store(by_bias, total);
    k.store(by_weight, slope);
    k.store(by_x, result);
    k
}

/// Segments that begin and end within lines; what is stored where it is summed.
#[test]
fn rows_of_several_images() {
    let mut rng = Rng(44);
    let long = SEGMENT as u64 / 3;
    for [channels, images, length] in [
        [3, 2, 16],
        [2, 8, 49],
        [3, 4, 196],
        [2, 8, 3136],
        [2, 7, long],
        [1, 2, 5 * long],
    ] {
        for (max, in_place) in [(false, false), (true, false), (false, true)] {
            let kernel = slopes(max);
            // Images before channels.
            let strides = vec![length as i64, (channels * length) as i64, 1];
            let total = (channels * images * length) as usize;
            let elements = |rng: &mut Rng| f32_buffer(total, strides.clone(), rng);
            let row = |rng: &mut Rng| f32_buffer(channels as usize, vec![1, 0, 0], rng);
            let single = |rng: &mut Rng| f32_buffer(channels as usize, vec![], rng);
            let mut buffers = vec![
                elements(&mut rng),
                elements(&mut rng),
                row(&mut rng),
                elements(&mut rng),
                single(&mut rng),
                single(&mut rng),
                elements(&mut rng),
            ];
            if in_place {
                buffers[1] = buffers[6].clone();
            }
            let case = Case {
                kernel,
                extents: vec![channels, images, length],
                buffers,
                scalars: vec![(1.0 / (images * length) as f32).to_bits().into()],
                in_place: if in_place { vec![(6, 1)] } else { vec![] },
            };
            check(&case);
        }
    }
}
