//! Machine code along neighbours against the program.

use super::{Bound, Epilogue, row_major};
use crate::exec::Arg;
use crate::isa::Isa;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role, ScalarOp};

/// `max((sum - mean) / sqrt(var) + residual, 0)`, as batch norm, a residual and ReLU make it; without the maximum where `var` is large.
fn kernel(residual: Access) -> Kernel {
    let mut kernel = Kernel::new("epilogue", 4, 0);
    let mut param = |role, access| kernel.param(DType::F32, role, Level::Row, access);
    let sum = param(Role::In, Access::Contiguous);
    let further = [Access::Strided, Access::Strided, residual].map(|access| param(Role::In, access));
    let out = param(Role::Out, Access::Contiguous);
    let [sum, mean, var, residual] =
        [sum, further[0], further[1], further[2]].map(|param| kernel.load(param));
    let zero = kernel.const_f32(0.0);
    let centred = kernel.op(ScalarOp::Sub, &[sum, mean]);
    let deviation = kernel.op(ScalarOp::Sqrt, &[var]);
    let normal = kernel.op(ScalarOp::Div, &[centred, deviation]);
    let added = kernel.op(ScalarOp::Add, &[normal, residual]);
    let value = kernel.op(ScalarOp::Max, &[added, zero]);
    let half = kernel.const_f32(0.5);
    let small = kernel.op(ScalarOp::Lt, &[var, half]);
    let value = kernel.op(ScalarOp::Select, &[small, value, added]);
    kernel.store(out, value);
    kernel
}

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    (0..count)
        .map(|i| ((i as u64 * 37 + seed * 101) as f32).sin())
        .collect()
}

/// A launch over samples, groups, channels and places: strides of the result and of the residual, and the blocks in turn.
#[derive(Clone)]
struct Case {
    result: Vec<i64>,
    residual: (Access, Vec<i64>),
    blocks: Vec<[[u64; 4]; 2]>,
}

const EXTENTS: [u64; 4] = [2, 3, 20, 21];
/// Strides of what channels have, of what the result has where channels lie last, and of what stands elsewhere.
const OF_CHANNELS: [i64; 4] = [0, 20, 1, 0];
const LAST: [i64; 4] = [60 * 21, 20, 1, 60];

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn arg(ptr: *mut f32, strides: &[i64]) -> Arg<'_> {
    Arg {
        ptr: ptr.cast(),
        strides,
        gather_stride: 0,
        gather_extent: 0,
    }
}

/// The result, and whether the launch has machine code.
fn run(isa: Isa, codegen: bool, case: &Case) -> (Vec<u32>, bool) {
    let epilogue = Epilogue::new(&kernel(case.residual.0), 4, isa, codegen).unwrap();
    let count = EXTENTS.iter().product::<u64>() as usize;
    let mut result = numbers(count, 1);
    let mut further = [numbers(60, 2), numbers(60, 3), numbers(2 * count, 4)];
    further[1].iter_mut().for_each(|var| *var = var.abs() + 0.1);
    let strides = [&OF_CHANNELS[..], &OF_CHANNELS, &case.residual.1];
    let args: Vec<Arg<'_>> = (further.iter_mut().zip(strides))
        .map(|(values, strides)| arg(values.as_mut_ptr(), strides))
        .collect();
    let dense = row_major(&EXTENTS);
    let out = arg(result.as_mut_ptr(), &case.result);
    // SAFETY: the vectors have the elements that extents and strides reach.
    let bound: Bound<'_> = unsafe { epilogue.bind(&EXTENTS, &dense, out, &args, &[]) };
    for [at, size] in &case.blocks {
        // SAFETY: the vectors have the elements that extents and strides reach.
        unsafe { bound.block(at, size) };
    }
    (bits(&result), bound.along.is_some())
}

/// The whole, and blocks whose lines follow one another, or do not, or are below the least one.
fn blocks() -> [Vec<[[u64; 4]; 2]>; 2] {
    let whole = vec![[[0; 4], EXTENTS]];
    let cut = vec![
        [[0, 0, 0, 0], [2, 1, 20, 21]],
        [[0, 1, 0, 0], [1, 2, 20, 18]],
        [[0, 1, 0, 18], [1, 2, 20, 3]],
        [[1, 1, 0, 0], [1, 1, 16, 21]],
        [[1, 1, 16, 0], [1, 1, 4, 21]],
        [[1, 2, 0, 0], [1, 1, 20, 5]],
        [[1, 2, 0, 5], [1, 1, 3, 16]],
        [[1, 2, 3, 5], [1, 1, 17, 16]],
    ];
    [whole, cut]
}

#[test]
fn machine_code_has_the_bits_of_the_program() {
    let dense = row_major(&EXTENTS).to_vec();
    let stands = vec![0, 0, 0, 0];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for (result, residuals) in [
            (
                dense.clone(),
                vec![
                    (Access::Contiguous, vec![]),
                    (Access::Strided, vec![0, 0, 21, 1]),
                    (Access::Strided, stands.clone()),
                    (Access::Broadcast, vec![]),
                ],
            ),
            (
                LAST.to_vec(),
                vec![
                    (Access::Strided, LAST.to_vec()),
                    // Padded lines; one for all places; one for each channel; one for each place.
                    (Access::Strided, vec![70 * 21, 20, 1, 70]),
                    (Access::Strided, vec![60, 20, 1, 0]),
                    (Access::Strided, OF_CHANNELS.to_vec()),
                    (Access::Strided, vec![21, 0, 0, 1]),
                    (Access::Strided, stands.clone()),
                    (Access::Broadcast, vec![]),
                ],
            ),
        ] {
            for (residual, blocks) in residuals
                .iter()
                .flat_map(|of| blocks().map(|blocks| (of, blocks)))
            {
                let case = Case {
                    result: result.clone(),
                    residual: residual.clone(),
                    blocks,
                };
                let (expected, without) = run(isa, false, &case);
                let (found, generated) = run(isa, true, &case);
                assert!(
                    !without && generated == (isa != Isa::Baseline),
                    "{isa:?} {residual:?}"
                );
                assert_eq!(found, expected, "{isa:?} {residual:?}");
            }
        }
        // Across lines: the program alone.
        let across = Case {
            result: dense.clone(),
            residual: (Access::Strided, LAST.to_vec()),
            blocks: blocks()[0].clone(),
        };
        assert!(!run(isa, true, &across).1);
    }
}

/// Where channels lie last, each element has the bits that it has where they do not.
#[test]
fn layouts_have_the_same_bits() {
    let isa = Isa::detect();
    let whole = |result: &[i64], residual: &[i64]| Case {
        result: result.to_vec(),
        residual: (Access::Strided, residual.to_vec()),
        blocks: blocks()[0].clone(),
    };
    let dense = row_major(&EXTENTS);
    // The sums are those of their place in memory, so places are compared where one index has one.
    let (by_rows, _) = run(isa, true, &whole(&dense, &dense));
    let (last, _) = run(isa, true, &whole(&LAST, &LAST));
    let [mean, var] = [numbers(60, 2), numbers(60, 3)];
    let (sums, residual) = (numbers(2520, 1), numbers(5040, 4));
    for (found, strides) in [(by_rows, &dense[..]), (last, &LAST)] {
        for at in 0..2520_usize {
            let index = [at / 1260, at / 420 % 3, at / 21 % 20, at % 21];
            let place: usize = index
                .iter()
                .zip(strides)
                .map(|(&i, &stride)| i * stride as usize)
                .sum();
            let channel = at / 21 % 60;
            let var = var[channel].abs() + 0.1;
            let added = (sums[place] - mean[channel]) / var.sqrt() + residual[place];
            let expected = if var < 0.5 { added.max(0.0) } else { added };
            assert_eq!(f32::from_bits(found[place]), expected, "{index:?}");
        }
    }
}

/// There is code for the first four ways in which parameters lie; launches of others run the program.
#[test]
fn code_for_a_few_ways() {
    let (isa, kernel) = (Isa::detect(), kernel(Access::Strided));
    let epilogue = Epilogue::new(&kernel, 4, isa, true).unwrap();
    let mut values = numbers(5040, 1);
    let start = values.as_mut_ptr();
    let dense = row_major(&EXTENTS);
    let stands = [0; 4];
    let made = |result: &[i64], residual: &[i64]| {
        let further = [&OF_CHANNELS[..], &OF_CHANNELS, residual].map(|strides| arg(start, strides));
        // SAFETY: the vector has as many elements as strides and extents reach.
        let bound = unsafe { epilogue.bind(&EXTENTS, &dense, arg(start, result), &further, &[]) };
        bound.along.is_some()
    };
    let ways = [
        (&LAST, &LAST),
        (&LAST, &stands),
        (&LAST, &OF_CHANNELS),
        (&LAST, &[21, 0, 0, 1]),
    ];
    let generates = isa != Isa::Baseline;
    for _ in 0..2 {
        for (result, residual) in ways {
            assert_eq!(made(result, residual), generates, "{residual:?}");
        }
        assert!(!made(&dense, &dense));
    }
}
