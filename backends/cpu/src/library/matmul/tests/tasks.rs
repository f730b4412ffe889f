//! Into how many tasks a product is cut.

use super::{isas, matrix, matrix_mut};
use crate::isa::Isa;
use crate::library::matmul::{MatDType, Parallel, Problem, matmul};
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
    unsafe { matmul((isa, true), dtype, &p, operand, operand, out, &counted, None) };
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
