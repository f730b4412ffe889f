//! Products to which tiles add what lies beside C.

use super::{Rng, Threads, isas, matrix, matrix_mut};
use crate::library::gemm::{self, Kernels, Uniform};
use crate::library::matmul::{After, Before, MatDType, Problem, ThinProduct, adds, typed};
use std::ops::Add;

/// Sums with what lies beside them have the bits of a product and a sum after it: tiles that are whole and that are not, any number
/// of threads, with B packed before and not, and batches.
fn sums<T>(dtype: MatDType, of: impl Fn(&mut Rng) -> T)
where
    T: ThinProduct + Uniform + gemm::Element<Acc = T, Out = T> + Copy + PartialEq + Add<Output = T>,
{
    let mut rng = Rng(11);
    let shapes = [
        (2, 40, 1),
        (64, 64, 64),
        (33, 100, 7),
        (130, 70, 200),
        (200, 33, 512),
        (700, 40, 90),
        (13, 300, 31),
    ];
    for (batch, (m, n, k)) in [1, 3]
        .into_iter()
        .flat_map(|batch| shapes.map(|shape| (batch, shape)))
    {
        let mut numbers = |count: usize| -> Vec<T> { (0..count).map(|_| of(&mut rng)).collect() };
        let (a, b) = (numbers(batch * m * k), numbers(batch * k * n));
        // Twice the result, so that what is added lies in one piece of memory with C.
        let both = numbers(2 * batch * m * n);
        let problem = Problem { batch, m, n, k };
        for (isa, (codegen, threads, packed)) in isas().flat_map(|isa| {
            let ways = [
                (true, 1, false),
                (false, 1, false),
                (true, 3, false),
                (true, 2, true),
            ];
            ways.map(|way| (isa, way))
        }) {
            let kernels: Kernels<T> = T::products(isa, codegen);
            let mut whole = vec![T::ZERO; gemm::packed_len(&kernels, k, n)];
            // SAFETY: B has `k` rows of `n` columns, and `whole` has the length that it takes packed.
            unsafe { gemm::pack_whole(&kernels, (b.as_ptr(), n as isize, 1), k, n, whole.as_mut_ptr()) };
            let run = |after: After<'_>, c: &mut [T]| {
                let mut of_b = matrix(&b, n);
                of_b.batch_stride = (k * n) as isize;
                if packed && batch == 1 {
                    of_b.packed = whole.as_ptr().cast();
                }
                let mut of_a = matrix(&a, k);
                of_a.batch_stride = (m * k) as isize;
                let out = matrix_mut(c, [m, n]);
                if matches!(after, After::Adds(_)) {
                    assert!(adds((isa, codegen), dtype, &problem, &out), "{problem:?}");
                }
                // SAFETY: the operands have the extents, and the instruction set exists.
                unsafe {
                    typed::<T>(
                        (isa, true),
                        [kernels; 2],
                        &problem,
                        of_a,
                        of_b,
                        out,
                        &Threads(threads),
                        after,
                        Before::of::<T>(),
                    )
                };
            };
            let mut plain = both.clone();
            run(After::Nothing, &mut plain);
            let (sums, added) = plain.split_at(batch * m * n);
            let expected: Vec<T> = sums.iter().zip(added).map(|(&sum, &other)| other + sum).collect();
            let mut found = both.clone();
            run(After::Adds((batch * m * n * size_of::<T>()) as isize), &mut found);
            assert!(
                found[..expected.len()] == expected && found[expected.len()..] == *added,
                "{isa:?}, {problem:?}, {threads} threads, packed: {packed}, codegen: {codegen}"
            );
        }
    }
}

#[test]
fn sums_with_what_lies_beside() {
    sums::<f32>(MatDType::F32, |rng| (rng.below(2000) as f32 - 1000.0) / 999.0);
    sums::<f64>(MatDType::F64, |rng| (rng.below(2000) as f64 - 1000.0) / 999.0);
    sums::<i32>(MatDType::I32, |rng| rng.below(2000) as i32 - 1000);
}

/// Long sums have several blocks of k, one column has kernels of its own, and C may be turned.
#[test]
fn what_adds_nothing() {
    let mut c = [0.0_f32; 64];
    let isa = crate::isa::Isa::detect();
    for (m, n, k) in [(8, 8, 513), (1, 64, 8), (64, 1, 8), (8, 8, 0)] {
        let problem = Problem { batch: 1, m, n, k };
        let out = matrix_mut(&mut c, [m, n]);
        assert!(!adds((isa, true), MatDType::F32, &problem, &out), "{problem:?}");
    }
}
