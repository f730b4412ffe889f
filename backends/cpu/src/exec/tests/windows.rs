//! The greatest and the least of windows along lines, with padding around their input and without.

use super::harness::{Rng, check};
use super::oracle::{Buffer, Case};
use super::padded::{Pool, go_by_lines, pool};
use crate::isa::Isa;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role};

/// Windows along lines: of one place and of many, of several axes, of lines that blocks cut, and of padding alone.
fn lines() -> Vec<Pool> {
    let of = |side: i64, size: u64, step: i64, low: i64, out: u64| Pool {
        planes: 2,
        input: vec![7, side],
        size: vec![3, size],
        step,
        low: vec![1, low],
        out: vec![if step == 1 { 7 } else { 4 }, out],
        ..pool()
    };
    vec![
        of(31, 3, 2, 1, 16),
        of(112, 3, 2, 1, 56),
        of(112, 1, 2, 0, 56),
        of(64, 2, 2, 0, 32),
        of(40, 5, 1, 2, 40),
        of(40, 66, 1, 33, 41),
        of(100, 65, 1, 32, 100),
        // Neighbours, with padding on no side, on one and on both, and with a vector that begins anew.
        of(112, 3, 2, 0, 55),
        of(60, 3, 2, 2, 31),
        of(75, 3, 2, 3, 40),
        of(40, 3, 1, 1, 40),
        of(50, 3, 1, 0, 48),
        Pool {
            input: vec![8, 61],
            size: vec![2, 2],
            low: vec![0, 1],
            out: vec![4, 31],
            ..pool()
        },
        of(3000, 3, 2, 1, 1500),
        of(1400, 3, 2, 1, 700),
        // Padding longer than vectors, on both sides.
        of(20, 3, 2, 70, 80),
        of(5, 3, 2, 40, 44),
        Pool {
            low: vec![8, 1],
            out: vec![14, 21],
            ..pool()
        },
        Pool {
            size: vec![3, 3],
            dilation: 3,
            low: vec![3, 3],
            ..pool()
        },
    ]
}

fn special(case: &mut Case, few: usize) {
    let values = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-40,
        -1e-40,
    ];
    for (at, value) in case.buffers[0].bytes.chunks_exact_mut(4).enumerate() {
        let pick = at.wrapping_mul(2_654_435_761) >> 7;
        value.copy_from_slice(&values[pick % few].to_le_bytes());
    }
}

/// Finite numbers, and few that are none: most lines have one or none.
fn rare(case: &mut Case, rng: &mut Rng) {
    for value in case.buffers[0].bytes.chunks_exact_mut(4) {
        let one = rng.below(97) == 0;
        let bits = if one {
            f32::NAN
        } else {
            rng.below(1000) as f32 - 500.0
        };
        value.copy_from_slice(&bits.to_le_bytes());
    }
}

#[test]
fn windows_along_lines() {
    let mut rng = Rng(38);
    for pool in lines() {
        for op in [ReduceOp::Max, ReduceOp::Min] {
            for padding in [f32::NEG_INFINITY, 0.0, -0.0, f32::NAN, -f32::NAN] {
                let kernel = pool.kernel(op, DType::F32, padding.to_bits().into(), false);
                let mut case = pool.case(kernel, pool.scalars(), &mut rng);
                check(&case);
                special(&mut case, [2, 4, 8][rng.below(3) as usize]);
                check(&case);
                rare(&mut case, &mut rng);
                check(&case);
            }
        }
    }
}

/// Without padding, windows are read by strides.
#[test]
fn windows_of_a_strided_input() {
    let mut rng = Rng(39);
    for (lines, side, size, step, dilation) in [
        (9, 41, 3, 2, 1),
        (8, 64, 2, 2, 1),
        (9, 41, 3, 1, 1),
        (19, 400, 5, 2, 3),
        (300, 36, 1, 2, 1),
        (9, 2100, 3, 2, 1),
        (9, 80, 3, 3, 1),
        (9, 20, 3, 2, 1),
    ] {
        let out = |side: u64| (side - (size - 1) * dilation - 1) / step + 1;
        for op in [ReduceOp::Max, ReduceOp::Min] {
            let mut k = Kernel::new("pool", 3, 2);
            let x = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
            let value = k.load(x);
            let result = k.reduce(op, value);
            let y = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
            k.store(y, result);
            let (plane, points) = (lines * side, 2 * out(lines) * out(side));
            let strides = [plane, step * side, step, dilation * side, dilation];
            let buffer = |elements: u64, strides: &[u64]| Buffer {
                bytes: vec![0; 4 * elements as usize],
                origin: 0,
                strides: strides.iter().map(|&stride| stride as i64).collect(),
                gather_stride: 1,
                gather_extent: 0,
            };
            let mut case = Case {
                buffers: vec![buffer(2 * plane, &strides), buffer(points, &[])],
                kernel: k,
                extents: vec![2, out(lines), out(side), size, size],
                scalars: vec![],
                in_place: vec![],
            };
            for value in case.buffers[0].bytes.chunks_exact_mut(4) {
                value.copy_from_slice(&(rng.value(DType::F32) as u32).to_le_bytes());
            }
            check(&case);
            special(&mut case, 8);
            check(&case);
            rare(&mut case, &mut rng);
            check(&case);
        }
    }
}

/// Windows along lines of 16 or more are read where they lie.
#[test]
fn which_launches_go_by_lines() {
    let narrow = Pool {
        out: vec![5, 15],
        ..pool()
    };
    let apart = Pool { gap: 2, ..pool() };
    let wide = Pool {
        dilation: 40,
        low: vec![40, 40],
        ..pool()
    };
    let vectors = Isa::detect() != Isa::Baseline;
    for (pool, by_lines) in [(pool(), vectors), (narrow, false), (apart, false), (wide, false)] {
        let kernel = pool.kernel(ReduceOp::Max, DType::F32, 0, false);
        let case = pool.case(kernel, pool.scalars(), &mut Rng(40));
        assert_eq!(go_by_lines(&case), by_lines, "{:?}", case.extents);
    }
}
