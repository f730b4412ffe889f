//! Machine code for runs of neighbours against the program.

use super::{Bound, Epilogue, row_major};
use crate::exec::Arg;
use crate::isa::Isa;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role, ScalarOp};

/// `max((sum - mean) / sqrt(var) + residual, 0)`, as batch norm, a residual and ReLU make it.
fn kernel(residual: Access) -> Kernel {
    let mut kernel = Kernel::new("epilogue", 3, 0);
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
    kernel.store(out, value);
    kernel
}

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    (0..count)
        .map(|i| ((i as u64 * 37 + seed * 101) as f32).sin())
        .collect()
}

/// The result of each block in turn, and whether the launch has machine code.
fn run(isa: Isa, codegen: bool, residual: (Access, &[i64]), blocks: &[[[u64; 3]; 2]]) -> (Vec<u32>, bool) {
    const EXTENTS: [u64; 3] = [6, 9, 21];
    let epilogue = Epilogue::new(&kernel(residual.0), 4, isa, codegen).unwrap();
    let count = EXTENTS.iter().product::<u64>() as usize;
    let mut result = numbers(count, 1);
    let mut further = [numbers(6, 2), numbers(6, 3), numbers(count, 4)];
    further[1].iter_mut().for_each(|var| *var = var.abs() + 0.1);
    let of_rows = [1, 0, 0];
    let strides = [&of_rows[..], &of_rows, residual.1];
    let arg = |ptr: *mut f32, strides| Arg {
        ptr: ptr.cast(),
        strides,
        gather_stride: 0,
        gather_extent: 0,
    };
    let args: Vec<Arg<'_>> = (further.iter_mut().zip(strides))
        .map(|(values, strides)| arg(values.as_mut_ptr(), strides))
        .collect();
    let dense = row_major(&EXTENTS);
    let bound: Bound<'_> = epilogue.bind(&EXTENTS, &dense, arg(result.as_mut_ptr(), &dense), &args, &[]);
    for [at, size] in blocks {
        // SAFETY: the vectors have the elements that extents and strides reach.
        unsafe { bound.block(at, size) };
    }
    let generated = bound.runs.is_some();
    (result.iter().map(|value| value.to_bits()).collect(), generated)
}

#[test]
fn machine_code_has_the_bits_of_the_program() {
    let whole = [[[0, 0, 0], [6, 9, 21]]];
    // Lines of a block follow one another, or do not; runs below the least one.
    let cut = [
        [[0, 0, 0], [6, 5, 21]],
        [[0, 5, 0], [4, 4, 21]],
        [[4, 5, 0], [2, 4, 17]],
        [[4, 5, 17], [2, 4, 4]],
    ];
    let single: [(Access, &[i64]); 3] = [
        (Access::Contiguous, &[]),
        (Access::Strided, &[0, 21, 1]),
        (Access::Broadcast, &[]),
    ];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for blocks in [&whole[..], &cut] {
            for residual in single {
                let (expected, without) = run(isa, false, residual, blocks);
                let (found, generated) = run(isa, true, residual, blocks);
                assert!(
                    !without && generated == (isa != Isa::Baseline),
                    "{isa:?} {residual:?}"
                );
                assert_eq!(found, expected, "{isa:?} {residual:?}");
            }
            // Across lines: the program alone.
            let across: (Access, &[i64]) = (Access::Strided, &[1, 6, 54]);
            assert!(!run(isa, true, across, blocks).1);
        }
    }
}

#[test]
fn launches_of_other_strides_run_the_program() {
    let (isa, kernel) = (Isa::detect(), kernel(Access::Strided));
    let epilogue = Epilogue::new(&kernel, 4, isa, true).unwrap();
    if epilogue.runs.along(0b1001).is_some() {
        assert!(epilogue.runs.along(0b0001).is_none());
        assert!(epilogue.runs.along(0b1001).is_some());
    }
}
