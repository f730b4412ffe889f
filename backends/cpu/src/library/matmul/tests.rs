//! Against a triple loop in f64, or in wrapping i64, with the same bits on every instruction set of this machine.

mod beside;
mod bytes;
mod few;
mod guards;
mod halves;
mod small;
mod tasks;

use super::*;
use crate::isa::Isa;
use crate::library::gemm::{Uniform, Wide};
use half::{bf16, f16};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use thalweg_hal::f8::{F8E4M3, F8E5M2};

/// `n` threads for one call, each taking the next index.
struct Threads(usize);

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.0
    }
    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..self.0 {
                s.spawn(|| {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= n {
                            break;
                        }
                        body(i);
                    }
                });
            }
        });
    }
}

/// B is packed before any block, a panel at a time.
const STRIPES: Before = Before { blocks: 0, most: 1 };

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// An element type with its reference arithmetic: `Exact` is f64, or i64 with wrapping.
trait Case: Uniform + ThinProduct<Out: PartialEq + std::fmt::Debug> {
    fn random(rng: &mut Rng) -> Self;
    fn check(got: Self::Out, a: &[Self], b: &[Self]);
}

/// `$tolerance` relative to the sum of magnitudes, `$step` absolute (half a subnormal).
macro_rules! float_case {
    ($($t:ty, $tolerance:expr, $step:expr, $from:expr, $to:expr, $out:expr;)*) => {$(
        impl Case for $t {
            fn random(rng: &mut Rng) -> Self {
                $from(rng.below(2001) as f64 / 1000.0 - 1.0)
            }
            fn check(got: Self::Out, a: &[Self], b: &[Self]) {
                let (mut sum, mut size) = (0.0, 0.0);
                for (&a, &b) in a.iter().zip(b) {
                    sum += $to(a) * $to(b);
                    size += ($to(a) * $to(b)).abs();
                }
                let got = $out(got);
                assert!((got - sum).abs() <= $tolerance * size + $step, "{got} instead of {sum}, k = {}", a.len());
            }
        }
    )*};
}
float_case! {
    f32, 1e-6, 0.0, |x: f64| x as f32, f64::from, f64::from;
    f64, 1e-14, 0.0, |x: f64| x, |x: f64| x, |x: f64| x;
    f16, 1e-3, 6e-8, f16::from_f64, f16::to_f64, f16::to_f64;
    bf16, 8e-3, 0.0, bf16::from_f64, bf16::to_f64, bf16::to_f64;
    Wide<f16>, 1e-6, 0.0, |x| Wide(f16::from_f64(x)), |x: Wide<f16>| x.0.to_f64(), f64::from;
    Wide<bf16>, 1e-6, 0.0, |x| Wide(bf16::from_f64(x)), |x: Wide<bf16>| x.0.to_f64(), f64::from;
    F8E4M3, 1e-6, 0.0, F8E4M3::from_f64, F8E4M3::to_f64, f64::from;
    F8E5M2, 1e-6, 0.0, F8E5M2::from_f64, F8E5M2::to_f64, f64::from;
}

macro_rules! integer_case {
    ($($t:ty)*) => {$(
        impl Case for $t {
            fn random(rng: &mut Rng) -> Self {
                (rng.next() as i64).wrapping_mul(0x1_0001_0001) as $t
            }
            fn check(got: Self, a: &[Self], b: &[Self]) {
                let sum = a.iter().zip(b).fold(0 as $t, |s, (a, b)| s.wrapping_add(a.wrapping_mul(*b)));
                assert_eq!(got, sum);
            }
        }
    )*};
}
integer_case!(i32 i64);

/// Strides of `rows x cols` matrices and the elements they need: row-major, column-major or spread out, with gaps.
fn layout(rng: &mut Rng, rows: usize, cols: usize) -> (isize, isize, usize) {
    let gap = rng.below(3) * rng.below(5);
    match rng.below(3) {
        0 => ((cols + gap) as isize, 1, rows * (cols + gap)),
        1 => (1, (rows + gap) as isize, cols * (rows + gap)),
        _ => (2 * (cols + gap) as isize, 2, 2 * rows * (cols + gap)),
    }
}

fn at<T: Copy>(data: &[T], strides: (isize, isize, usize), batch: usize, i: usize, j: usize) -> T {
    data[batch * strides.2 + i * strides.0 as usize + j * strides.1 as usize]
}

fn one_case<T: Case>(rng: &mut Rng, p: Problem) {
    let (la, lb, lc) = (
        layout(rng, p.m, p.k),
        layout(rng, p.k, p.n),
        layout(rng, p.m, p.n),
    );
    let shared_b = rng.below(2) == 0;
    let a: Vec<T> = (0..p.batch * la.2).map(|_| T::random(rng)).collect();
    let b: Vec<T> = (0..p.batch * lb.2).map(|_| T::random(rng)).collect();
    let filler = T::narrow(T::random(rng).widen());
    let mut results = Vec::new();
    let before = Before::of::<T>();
    let ways = [
        (1, false, true, before),
        (2, false, true, before),
        (5, false, false, before),
        (1, true, false, before),
        (3, true, true, before),
        (1, false, false, STRIPES),
        (1, false, true, Before { blocks: 0, ..before }),
        (3, false, true, Before { blocks: 0, ..before }),
        (3, false, true, STRIPES),
    ];
    for (isa, (threads, packed, codegen, before)) in isas().flat_map(|isa| ways.map(|way| (isa, way))) {
        let kernels = T::products(isa, codegen);
        let mut whole = vec![T::ZERO; gemm::packed_len(&kernels, p.k, p.n)];
        // SAFETY: B reaches `k` rows of `n` columns, and `whole` has the length that it takes packed.
        unsafe { gemm::pack_whole(&kernels, (b.as_ptr(), lb.0, lb.1), p.k, p.n, whole.as_mut_ptr()) };
        let packed = if packed && (shared_b || p.batch == 1) {
            whole.as_ptr().cast()
        } else {
            std::ptr::null()
        };
        let mut c = vec![filler; p.batch * lc.2];
        let seen: Vec<AtomicU8> = (0..p.batch * p.m * p.n).map(|_| AtomicU8::new(0)).collect();
        let epilogue = |batch: usize, rows: Range<usize>, cols: Range<usize>| {
            for i in rows {
                for j in cols.clone() {
                    seen[(batch * p.m + i) * p.n + j].fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let read = |data: &[T], l: (isize, isize, usize), shared: bool, packed: *const u8| MatRef {
            ptr: data.as_ptr().cast(),
            batch_stride: if shared { 0 } else { l.2 as isize },
            row_stride: l.0,
            col_stride: l.1,
            packed,
        };
        let out = MatMut {
            ptr: c.as_mut_ptr().cast(),
            batch_stride: lc.2 as isize,
            row_stride: lc.0,
            col_stride: lc.1,
        };
        // SAFETY: `layout` gives strides that stay inside the vectors; `isas` lists instruction sets that exist.
        unsafe {
            typed::<T>(
                (isa, true),
                [kernels; 2],
                &p,
                read(&a, la, false, std::ptr::null()),
                read(&b, lb, shared_b, packed),
                out,
                &Threads(threads),
                After::Block(&epilogue),
                before,
            );
        }
        assert!(
            seen.iter().all(|s| s.load(Ordering::Relaxed) == 1),
            "epilogue covers C once: {p:?}"
        );
        results.push(c);
    }
    assert!(
        results.iter().all(|c| *c == results[0]),
        "the instruction set, threads or packing change the bits: {p:?}"
    );
    let mut written = vec![false; p.batch * lc.2];
    for batch in 0..p.batch {
        for i in 0..p.m {
            let row: Vec<T> = (0..p.k).map(|l| at(&a, la, batch, i, l)).collect();
            for j in 0..p.n {
                let col: Vec<T> = (0..p.k)
                    .map(|l| at(&b, lb, if shared_b { 0 } else { batch }, l, j))
                    .collect();
                T::check(at(&results[0], lc, batch, i, j), &row, &col);
                written[batch * lc.2 + i * lc.0 as usize + j * lc.1 as usize] = true;
            }
        }
    }
    for (x, written) in results[0].iter().zip(written) {
        assert!(written || *x == filler, "wrote between the elements of C");
    }
}

fn cases<T: Case>() {
    let mut rng = Rng(size_of::<T>() as u64);
    for round in 0..60 {
        let mut extent = |most: usize| if rng.below(6) == 0 { 1 } else { 1 + rng.below(most) };
        let (batch, m, n) = (1 + round % 3, extent(70), extent(70));
        let k = if round % 10 == 0 { extent(700) } else { extent(70) };
        one_case::<T>(&mut rng, Problem { batch, m, n, k });
    }
    for (m, n, k) in [
        (3, 5, 0),
        (1, 5, 0),
        (0, 5, 3),
        (3, 0, 3),
        (1, 300, 517),
        (300, 1, 517),
        (130, 140, 520),
        (40, 200, 90),
        (5, 330, 40),
    ] {
        one_case::<T>(&mut rng, Problem { batch: 2, m, n, k });
    }
}

macro_rules! type_tests {
    ($($name:ident: $t:ty,)*) => {$(
        #[test]
        fn $name() {
            cases::<$t>();
        }
    )*};
}
type_tests! {
    f32_matches: f32, f64_matches: f64, f16_matches: f16, bf16_matches: bf16,
    wide_f16_matches: Wide<f16>, wide_bf16_matches: Wide<bf16>,
    f8e4m3_matches: F8E4M3, f8e5m2_matches: F8E5M2,
    i32_matches: i32, i64_matches: i64,
}

/// A row-major matrix of `columns` columns, which all batches share.
fn matrix<T>(data: &[T], columns: usize) -> MatRef {
    MatRef {
        ptr: data.as_ptr().cast(),
        batch_stride: 0,
        row_stride: columns as isize,
        col_stride: 1,
        packed: std::ptr::null(),
    }
}

/// Room for row-major matrices of `columns` columns, one of `rows` rows behind the other.
fn matrix_mut<T>(data: &mut [T], [rows, columns]: [usize; 2]) -> MatMut {
    MatMut {
        ptr: data.as_mut_ptr().cast(),
        batch_stride: (rows * columns) as isize,
        row_stride: columns as isize,
        col_stride: 1,
    }
}

#[test]
fn batch_size_does_not_change_the_bits() {
    let mut rng = Rng(7);
    for (m, n, k) in [(1, 40, 300), (33, 65, 300), (7, 1, 300), (64, 16, 1000)] {
        let a: Vec<f32> = (0..m * k).map(|_| f32::random(&mut rng)).collect();
        let b: Vec<f32> = (0..k * n).map(|_| f32::random(&mut rng)).collect();
        let product = |batch: usize| {
            let mut c = vec![0.0f32; batch * m * n];
            let out = matrix_mut(&mut c, [m, n]);
            // SAFETY: the vectors have the shapes' lengths, and the batch shares A and B.
            unsafe {
                matmul(
                    (Isa::detect(), true),
                    MatDType::F32,
                    &Problem { batch, m, n, k },
                    matrix(&a, k),
                    matrix(&b, n),
                    out,
                    &Threads(3),
                    After::Nothing,
                )
            };
            c
        };
        let one = product(1);
        for c in product(9).chunks(m * n) {
            assert_eq!(c, one);
        }
    }
}

/// Each way to read an operand gives the values that the codes have.
#[test]
fn every_code_of_eight_bits_is_read_as_its_value() {
    fn check<T: Uniform<Acc = f32>>(of: impl Fn(u8) -> T) {
        let codes: Vec<T> = (0..=255).map(of).collect();
        for isa in isas() {
            let kernels = T::kernels(isa, true);
            let mut packed = vec![0.0; gemm::packed_len(&kernels, 1, 256)];
            // SAFETY: one row of 256 columns, and room for it packed.
            unsafe { gemm::pack_whole(&kernels, (codes.as_ptr(), 256, 1), 1, 256, packed.as_mut_ptr()) };
            for (at, (code, read)) in codes.iter().zip(packed).enumerate() {
                let value = code.widen();
                assert!(
                    read.to_bits() == value.to_bits() || read.is_nan() && value.is_nan(),
                    "{at:#x} {isa:?}"
                );
            }
        }
    }
    check(F8E4M3::from_bits);
    check(F8E5M2::from_bits);
}
