//! The kernels written as machine code, those that are compiled, and sums in the same order one lane at a time.

use super::kernels::Sums;
use super::squares::{self, Squared};
use super::{Few, ThinProduct, few, lanes};
use crate::isa::Isa;
use crate::library::gemm::{Element, KC, Operands, Uniform, piece};
use half::{bf16, f16};
use std::fmt::Debug;
use thalweg_hal::f8::{F8E4M3, F8E5M2};

/// A number of a few bits.
fn number(seed: &mut u64) -> f32 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 60) as f32 - 7.5
}

/// The sum of a row and a column as the module's kernels add it up; in the order of many rows lanes of `lane` terms, the last one first.
fn expected<T: Element<Acc: Sums>>(
    as_many: bool,
    lane: usize,
    a: &[T::Acc],
    b: &[T::Acc],
    fma: fn(T::Acc, T::Acc, T::Acc) -> T::Acc,
) -> T::Acc {
    if as_many {
        let lanes: Vec<_> = a.chunks(lane).zip(b.chunks(lane)).collect();
        let blocks = lanes.len().div_ceil(KC);
        let sums = (0..blocks).map(|block| {
            let terms =
                (lanes[piece(lanes.len(), blocks, block)].iter()).flat_map(|(a, b)| a.iter().zip(*b).rev());
            terms.fold(T::ZERO, |sum, (&a, &b)| fma(sum, a, b))
        });
        return sums.reduce(T::add).unwrap_or(T::ZERO);
    }
    let mut sums = vec![T::ZERO; lanes::<T::Acc>()];
    for (a, b) in a.chunks(sums.len()).zip(b.chunks(lanes::<T::Acc>())) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum = fma(*sum, a, b);
        }
    }
    while sums.len() > 1 {
        let high = sums.split_off(sums.len() / 2);
        sums.iter_mut()
            .zip(high)
            .for_each(|(low, high)| *low = T::add(*low, high));
    }
    sums[0]
}

/// Products of all numbers of rows, in both layouts, with ends that are no whole vectors.
fn check<T>(lane: usize, make: impl Fn(f32) -> T, fma: fn(T::Acc, T::Acc, T::Acc) -> T::Acc)
where
    T: Uniform<Acc: Sums + PartialEq + Debug> + ThinProduct + Debug,
    T::Out: PartialEq + Debug,
{
    let mut seed = 7;
    for (by_rows, m, n, k) in [
        (true, 1, 67, 9),
        (true, 1, 2100, 40),
        (true, 2, 560, 131),
        (true, 8, 520, 133),
        (true, 5, 70, 1001),
        (false, 1, 3, 5),
        (false, 1, 70, 300),
        (false, 1, 131, 525),
        (false, 1, 9, 4200),
        (false, 2, 33, 4200),
    ] {
        assert_eq!(few([m, n, k]), Some(false));
        let (a_row, b_row, b_col, c_row) = match by_rows {
            true => (k + 3, n + 5, 1, n),
            false => (k, 1, k + 7, n + 1),
        };
        let mut numbers = |count: usize| (0..count).map(|_| make(number(&mut seed))).collect::<Vec<T>>();
        let (a, b) = (numbers(m * a_row), numbers(k.max(n) * b_row.max(b_col)));
        let row = |i: usize| (0..k).map(|l| a[i * a_row + l].widen()).collect::<Vec<_>>();
        let column = |j: usize| {
            (0..k)
                .map(|l| b[l * b_row + j * b_col].widen())
                .collect::<Vec<_>>()
        };
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for codegen in [false, true] {
                let mut c = vec![T::narrow(T::ZERO); m * c_row];
                let x = Operands {
                    a: a.as_ptr(),
                    a_row: a_row as isize,
                    a_col: 1,
                    b: b.as_ptr(),
                    b_row: b_row as isize,
                    b_col: b_col as isize,
                    c: c.as_mut_ptr(),
                    c_row: c_row as isize,
                    c_col: 1,
                    beside: None,
                };
                let Some(thin) = T::thin((isa, codegen), &T::kernels(isa, codegen), &x, [m, n, k]) else {
                    let written = codegen && isa != Isa::Baseline;
                    assert!(m > 1 || lane > 1 && by_rows && !written, "{m} rows");
                    continue;
                };
                // SAFETY: the operands have these extents.
                unsafe {
                    thin.run(&x, [m, n, k], 0..n / 2);
                    thin.run(&x, [m, n, k], n / 2..n);
                }
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let wanted = T::narrow(expected::<T>(by_rows || m > 1, lane, &row(i), &column(j), fma));
                    assert_eq!(
                        c[i * c_row + j],
                        wanted,
                        "{isa:?} {codegen} {m} {n} {k} {by_rows} at {i} {j}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_run_in_one_order() {
    let wide = |sum: f32, a: f32, b: f32| a.mul_add(b, sum);
    check(1, |x| x / 3.0, wide);
    check(
        1,
        |x| f64::from(x) / 3.0,
        |sum: f64, a: f64, b: f64| a.mul_add(b, sum),
    );
    check(2, |x| bf16::from_f32(x / 3.0), wide);
    check(1, |x| f16::from_f32(x / 3.0), wide);
    check(1, F8E4M3::from_f32, wide);
    check(1, F8E5M2::from_f32, wide);
}

/// Squares of bf16 by the instruction for pairs and by others, whatever this processor would choose.
#[test]
fn pairs_are_summed_alike_by_all_instructions() {
    let (mut seed, [m, n, k]) = (3, [5, 40, 1003]);
    // Products around the least normal number, and a row whose products are all below it.
    let mut numbers = |count: usize| {
        let number = |seed: &mut u64| number(seed) * f32::from_bits(((*seed >> 40) as u32 % 60 + 40) << 23);
        (0..count)
            .map(|_| bf16::from_f32(number(&mut seed)))
            .collect::<Vec<_>>()
    };
    let (mut a, b) = (numbers(m * k), numbers(n * k));
    for x in &mut a[..k] {
        *x = bf16::from_f32(x.to_f32().signum() * 1e-36);
    }
    let mut results = Vec::new();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for squared in [Squared::Pairs, Squared::PairsApart] {
            let Some(kernel) = squares::kernel(isa, squared) else {
                continue;
            };
            let mut c = vec![bf16::ZERO; m * n];
            let x = Operands {
                a: a.as_ptr(),
                a_row: k as isize,
                a_col: 1,
                b: b.as_ptr(),
                b_row: 1,
                b_col: k as isize,
                c: c.as_mut_ptr(),
                c_row: n as isize,
                c_col: 1,
                beside: None,
            };
            let kernels = bf16::kernels(isa, true);
            let mut thin = bf16::thin((isa, true), &kernels, &x, [1, n, k]).expect("one row has a kernel");
            thin.squares = Some(kernel);
            // SAFETY: the operands have these extents.
            unsafe { thin.run(&x, [m, n, k], 0..n) };
            results.push(c.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        }
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    let zero = |bits: &u16| bits << 1 == 0;
    assert!(
        results
            .iter()
            .all(|c| c[..n].iter().all(zero) && !c.iter().all(zero))
    );
}
