//! Small products that are read and written in place, among them tiles of half the width.

use super::*;
use std::fmt::Debug;

#[test]
fn small_products_have_the_bits_of_the_baseline() {
    fn check<T: Case<Out: Debug>>(dtype: MatDType) {
        let mut rng = Rng(17);
        for (n, k) in [
            (4, 5),
            (8, 7),
            (16, 16),
            (16, 64),
            (24, 3),
            (48, 20),
            (32, 9),
            (20, 512),
        ] {
            for m in [1, 3, 8, 16, 29] {
                let batch = 3;
                let (wide, deep) = (n + 3, k + 1);
                let a: Vec<T> = (0..batch * m * deep).map(|_| T::random(&mut rng)).collect();
                let b: Vec<T> = (0..batch * k * wide).map(|_| T::random(&mut rng)).collect();
                let product = |way: (Isa, bool), threads: usize| {
                    let mut c = vec![T::narrow(T::ZERO); batch * m * wide];
                    let operand = |data: &[T], rows: usize, columns: usize| MatRef {
                        batch_stride: (rows * columns) as isize,
                        ..matrix(data, columns)
                    };
                    let out = matrix_mut(&mut c, [m, wide]);
                    let problem = Problem { batch, m, n, k };
                    let (a, b) = (operand(&a, m, deep), operand(&b, k, wide));
                    // SAFETY: the vectors have rows of these lengths.
                    unsafe { matmul(way, dtype, &problem, a, b, out, &Threads(threads), After::Nothing) };
                    c
                };
                let expected = product((Isa::Baseline, false), 1);
                for way in isas().flat_map(|isa| [(isa, true), (isa, false)]) {
                    for threads in [1, 2] {
                        assert!(product(way, threads) == expected, "{m} {n} {k} {way:?} {threads}");
                    }
                }
            }
        }
    }
    check::<f32>(MatDType::F32);
    check::<f64>(MatDType::F64);
    check::<i32>(MatDType::I32);
}
