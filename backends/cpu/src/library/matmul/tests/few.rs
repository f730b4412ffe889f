//! Products of few rows against those of many.

use super::bytes::{element, value};
use super::guards::Guarded;
use super::*;
use crate::library::gemm::Byte;
use std::fmt::Debug;

/// A row has the same bits alone, among few and among many. Only a row alone is summed in another order where columns of B are contiguous.
#[test]
fn few_rows_have_the_bits_of_many() {
    fn check<T: Case<Out: Debug>>(dtype: MatDType, make: impl Fn(&mut Rng) -> T) {
        let mut rng = Rng(11);
        for (n, k) in [(515, 133), (300, 700), (64, 1100), (16, 4103), (37, 2069)] {
            let a: Vec<T> = (0..9 * k).map(|_| make(&mut rng)).collect();
            let b: Vec<T> = (0..k * n).map(|_| make(&mut rng)).collect();
            let by_columns: Vec<T> = (0..n * k).map(|at| b[at % k * n + at / k]).collect();
            let product = |m: usize, way: (Isa, bool), rows: bool| {
                let mut c = vec![T::narrow(T::ZERO); m * n];
                let out = matrix_mut(&mut c, [m, n]);
                let problem = Problem { batch: 1, m, n, k };
                let b = match rows {
                    true => matrix(&b, n),
                    false => MatRef {
                        row_stride: 1,
                        col_stride: k as isize,
                        ..matrix(&by_columns, k)
                    },
                };
                // SAFETY: the vectors have the shapes' lengths.
                unsafe {
                    matmul(
                        way,
                        dtype,
                        &problem,
                        matrix(&a, k),
                        b,
                        out,
                        &Threads(2),
                        After::Nothing,
                    )
                };
                c.iter().map(|x| format!("{x:?}")).collect::<Vec<_>>()
            };
            let many = product(9, (Isa::Baseline, false), true);
            for way in isas().flat_map(|isa| [(isa, true), (isa, false)]) {
                for rows in [true, false] {
                    for m in [1, 2, 5, 8].into_iter().filter(|&m| rows || m > 1) {
                        let few = product(m, way, rows);
                        assert!(few == many[..m * n], "{dtype:?} {m} {n} {k} {way:?} {rows}");
                    }
                }
            }
        }
    }
    fn both<T: Case<Out: Debug>>(dtype: MatDType, small: impl Fn(T) -> T) {
        check(dtype, T::random);
        // Sums that end as zeros of both signs.
        check(dtype, |rng| small(T::random(rng)));
    }
    both(MatDType::F32, |x: f32| x * 1e-23);
    both(MatDType::F64, |x: f64| x * 1e-162);
    both(MatDType::F16, |x: f16| x * f16::from_bits(2));
    both(MatDType::Bf16, |x: bf16| x * bf16::from_f32(1e-19));
    both(MatDType::Bf16Wide, |x: Wide<bf16>| {
        Wide(x.0 * bf16::from_f32(1e-23))
    });
    check(MatDType::Bf16Wide, |rng| {
        let kind = rng.below(3);
        Wide(halves::element(rng, kind))
    });
}

/// Columns of bytes between pages that cannot be read, with rows and terms that are no whole groups.
#[test]
fn few_rows_of_bytes_are_exact() {
    let mut rng = Rng(13);
    for (n, k) in [(70, 1000), (1030, 256), (515, 2117), (4, 16400), (9, 33)] {
        let a: Vec<Byte> = (0..8 * k).map(|_| element(&mut rng)).collect();
        let b: Vec<Byte> = (0..n * k).map(|_| element(&mut rng)).collect();
        for signs in [(false, true), (true, false), (true, true)].map(|(a, b)| Signs { a, b }) {
            let expected: Vec<i32> = (0..8 * n)
                .map(|at| {
                    let terms = a[at / n * k..][..k].iter().zip(&b[at % n * k..][..k]);
                    let product = |(&a, &b)| value(a, signs.a) * value(b, signs.b);
                    terms.map(product).fold(0, i32::wrapping_add)
                })
                .collect();
            for at_end in [false, true] {
                let memory = [Guarded::new(&a, at_end), Guarded::new(&b, at_end)];
                let [a, b] = [0, 1].map(|operand| MatRef {
                    ptr: memory[operand].start,
                    ..matrix(&a, k)
                });
                let b = MatRef {
                    row_stride: 1,
                    col_stride: k as isize,
                    ..b
                };
                for way in isas().flat_map(|isa| [(isa, true), (isa, false)]) {
                    for m in [1, 2, 3, 4, 7, 8] {
                        let mut c = vec![7; m * n];
                        let out = matrix_mut(&mut c, [m, n]);
                        let problem = Problem { batch: 1, m, n, k };
                        let dtype = MatDType::Bytes(signs);
                        // SAFETY: the memory has the shapes' lengths.
                        unsafe { matmul(way, dtype, &problem, a, b, out, &Threads(2), After::Nothing) };
                        assert!(c == expected[..m * n], "{m} {n} {k} {signs:?} {way:?}");
                    }
                }
            }
        }
    }
}
