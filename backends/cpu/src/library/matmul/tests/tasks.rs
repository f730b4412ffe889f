//! Into how many tasks a product is cut.

use super::{Case, Rng, Threads, isas, matrix, matrix_mut};
use crate::isa::Isa;
use crate::library::gemm::{Byte, Kernels, Signs, Uniform};
use crate::library::matmul::grid::Grid;
use crate::library::matmul::{After, Before, MatDType, Parallel, Problem, ThinProduct, matmul, typed};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Two threads, of which one does all the work and counts the tasks.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Parallel for Counted {
    fn threads(&self) -> usize {
        2
    }
    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        self.0.fetch_add(n, Ordering::Relaxed);
        (0..n).for_each(body);
    }
}

/// Tasks that were handed to threads for a product of square matrices.
fn tasks(isa: Isa, dtype: MatDType, n: usize) -> usize {
    let (a, mut c) = (vec![0_f64; n * n], vec![0_f64; n * n]);
    let (operand, out) = (matrix(&a, n), matrix_mut(&mut c, [n, n]));
    let counted = Counted::default();
    let p = Problem {
        batch: 1,
        m: n,
        n,
        k: n,
    };
    // SAFETY: the vectors have the extents of the widest numbers, and the machine has the instruction set.
    unsafe {
        matmul(
            (isa, true),
            dtype,
            &p,
            operand,
            operand,
            out,
            &counted,
            After::Nothing,
        )
    };
    counted.0.into_inner()
}

/// A hand-off is worth a time, and so fewer products of narrow registers, or of wide numbers.
#[test]
fn products_are_shared_by_the_time_that_they_take() {
    for isa in isas() {
        let shared = |dtype, n| tasks(isa, dtype, n) > 1;
        assert!(!shared(MatDType::F32, 32), "{isa:?}");
        assert_eq!(shared(MatDType::F32, 64), isa < Isa::Avx512, "{isa:?}");
        assert!(shared(MatDType::F64, 64), "{isa:?}");
        assert!(shared(MatDType::F32, 96), "{isa:?}");
    }
}

/// Threads pack B for the columns of their own, or all of it together, or each block packs it.
fn check_packing<T: ThinProduct<Out: Copy + PartialEq + std::fmt::Debug>>(
    isa: Isa,
    kernels: [Kernels<T>; 2],
    element: &mut dyn FnMut() -> T,
) {
    let p = Problem {
        batch: 1,
        m: 700,
        n: 830,
        k: 130,
    };
    let a: Vec<T> = (0..p.m * p.k).map(|_| element()).collect();
    let b: Vec<T> = (0..p.k * p.n).map(|_| element()).collect();
    let (a, b) = (matrix(&a, p.k), matrix(&b, p.n));
    let product = |threads: usize, blocks: usize| {
        let mut c = vec![T::narrow(T::ZERO); p.m * p.n];
        let (out, before) = (
            matrix_mut(&mut c, [p.m, p.n]),
            Before {
                blocks,
                ..Before::of::<T>()
            },
        );
        // SAFETY: the vectors have the extents, and the machine has the instruction set.
        unsafe {
            typed::<T>(
                (isa, true),
                kernels,
                &p,
                a,
                b,
                out,
                &Threads(threads),
                After::Nothing,
                before,
            )
        };
        c
    };
    // As many panels for both threads, and the last one is narrow.
    let grid = Grid::choose(&p, 2, [672, 1024], 32, (false, 1 << 18), 0, true);
    assert!(grid.owns_columns());
    let each = product(1, usize::MAX >> 16);
    for threads in 1..=4 {
        assert!(product(threads, 0) == each, "{isa:?} {threads}");
    }
}

#[test]
fn who_packs_changes_no_bit() {
    let mut rng = Rng(29);
    for isa in isas() {
        check_packing::<f32>(isa, [<f32 as Uniform>::kernels(isa, true); 2], &mut || {
            f32::random(&mut rng)
        });
        let signed = Signs { a: true, b: true };
        check_packing::<Byte>(isa, signed.kernels(isa, true), &mut || Byte(rng.next() as u8));
    }
}
