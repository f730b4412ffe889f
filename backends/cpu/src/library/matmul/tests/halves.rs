//! Products of bf16 against the chain of sums that they are, by every way that this machine has.

use super::{Rng, STRIPES, Threads, at, isas, layout, matrix, matrix_mut};
use crate::library::gemm::{self, Wide, piece};
use crate::library::matmul::{After, Before, MatMut, MatRef, Problem, typed};
use half::bf16;

/// 0 with the sign of a number below the least normal one.
fn read(x: bf16) -> f32 {
    let x = x.to_f32();
    if x.is_subnormal() { 0_f32.copysign(x) } else { x }
}

/// `x + a * b` of a processor that gives 0 for what is below the least normal number once it is rounded to 24 bits. Scaled, such
/// a number is normal.
fn sum(x: f32, a: f32, b: f32) -> f32 {
    const SCALE: f32 = (1_u128 << 90) as f32;
    let near = |x: f32| x.abs() < 1e-30;
    let plain = a.mul_add(b, x);
    if near(plain) && near(x) {
        // One factor is less than 1, as their product is small.
        let (a, b) = if a.abs() < b.abs() { (a, b) } else { (b, a) };
        let scaled = (a * SCALE).mul_add(b, x * SCALE);
        if scaled.abs() < f32::MIN_POSITIVE * SCALE {
            return 0_f32.copysign(scaled);
        }
    }
    plain
}

/// The sum of a row and a column: pairs in blocks of at most 512, the odd element of a pair first.
fn expected(a: &[bf16], b: &[bf16]) -> f32 {
    let pairs = a.len().div_ceil(2);
    let blocks = pairs.div_ceil(512);
    let mut total = None;
    for block in 0..blocks {
        let mut x = 0.0;
        for pair in piece(pairs, blocks, block) {
            for at in [2 * pair + 1, 2 * pair] {
                let zero = bf16::from_bits(0);
                let element = |data: &[bf16]| read(data.get(at).copied().unwrap_or(zero));
                x = sum(x, element(a), element(b));
            }
        }
        total = Some(total.map_or(x, |total: f32| total + x));
    }
    total.unwrap_or(0.0)
}

/// The sum by AMX: 16 pairs at a time, the even elements as one chain and the odd ones as another.
fn by_amx(a: &[bf16], b: &[bf16]) -> f32 {
    let mut total = 0.0;
    for (a, b) in a.chunks(32).zip(b.chunks(32)) {
        let chain = |first: usize| {
            let terms = (first..32).step_by(2);
            let zero = bf16::from_bits(0);
            let element = |data: &[bf16], at: usize| read(data.get(at).copied().unwrap_or(zero));
            terms.fold(0.0, |x, at| sum(x, element(a, at), element(b, at)))
        };
        let both = sum(chain(0), 1.0, chain(1));
        total = sum(total, 1.0, both);
    }
    total
}

/// Numbers whose products and sums fall around the least normal one, are cancelled, or are anything at all.
pub(super) fn element(rng: &mut Rng, kind: usize) -> bf16 {
    let bits = rng.next() as u16;
    let exponents = |least: u16, count: usize, rng: &mut Rng| (least + rng.below(count) as u16) << 7;
    bf16::from_bits(match kind {
        0 => bits & 0x807f | exponents(120, 12, rng),
        1 => bits & 0x807f | exponents(56, 16, rng),
        2 if rng.below(40) == 0 => [0x7f80, 0xff80, 0x7fc0, 0x0001, 0x807f, 0x8000][rng.below(6)],
        2 => bits & 0x807f | exponents(0, 120, rng),
        _ => [0x3f80, 0xbf80, 0x3f81, 0xbf81][rng.below(4)],
    })
}

fn one_case(rng: &mut Rng, p: Problem, kind: usize) {
    type T = Wide<bf16>;
    let (la, lb) = (layout(rng, p.m, p.k), layout(rng, p.k, p.n));
    let lc = layout(rng, p.m, p.n);
    let a: Vec<T> = (0..la.2).map(|_| Wide(element(rng, kind))).collect();
    let b: Vec<T> = (0..lb.2).map(|_| Wide(element(rng, kind))).collect();
    let line = |data: &[T], l: (isize, isize, usize), of: &dyn Fn(usize) -> (usize, usize)| -> Vec<bf16> {
        let element = |step: usize| {
            let (i, j) = of(step);
            at(data, l, 0, i, j).0
        };
        (0..p.k).map(element).collect()
    };
    let forms = isas()
        .flat_map(|isa| [(false, true), (true, true), (true, false)].map(|(sums, code)| (isa, sums, code)))
        .filter(|&(isa, sums, _)| !sums || isa.sums_halves())
        .map(|(isa, sums, code)| (isa, gemm::halves_kernels::<T>(isa, sums, code), false));
    let amx = isas()
        .filter(|isa| isa.sums_squares())
        .map(|isa| (isa, gemm::by_amx::<T>(), true));
    for (isa, kernels, squares) in forms.chain(amx) {
        let mut whole = vec![0.0; gemm::packed_len(&kernels, p.k, p.n)];
        // SAFETY: B reaches `k` rows of `n` columns, and `whole` has the length that it takes packed.
        unsafe { gemm::pack_whole(&kernels, (b.as_ptr(), lb.0, lb.1), p.k, p.n, whole.as_mut_ptr()) };
        let forms = [
            (std::ptr::null(), Before::of::<bf16>()),
            (whole.as_ptr().cast(), Before::of::<bf16>()),
            (std::ptr::null(), STRIPES),
        ];
        for (packed, before) in forms {
            let mut c = vec![7_f32; lc.2];
            let operand = |data: &[T], l: (isize, isize, usize), packed: *const u8| MatRef {
                ptr: data.as_ptr().cast(),
                batch_stride: 0,
                row_stride: l.0,
                col_stride: l.1,
                packed,
            };
            let out = MatMut {
                ptr: c.as_mut_ptr().cast(),
                batch_stride: 0,
                row_stride: lc.0,
                col_stride: lc.1,
            };
            let (left, right) = (operand(&a, la, std::ptr::null()), operand(&b, lb, packed));
            // SAFETY: `layout` gives strides that stay inside the vectors; the machine has these instructions.
            unsafe {
                typed::<T>(
                    (isa, true),
                    [kernels; 2],
                    &p,
                    left,
                    right,
                    out,
                    &Threads(2),
                    After::Nothing,
                    before,
                )
            };
            for i in 0..p.m {
                let row = line(&a, la, &|l| (i, l));
                for j in 0..p.n {
                    let column = line(&b, lb, &|l| (l, j));
                    let wanted = if squares {
                        by_amx(&row, &column)
                    } else {
                        expected(&row, &column)
                    };
                    let got = at(&c, lc, 0, i, j);
                    let same = got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan();
                    assert!(
                        same,
                        "{p:?} {isa:?} {squares} {kind}: {got:e} instead of {wanted:e} at {i}, {j}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_of_bf16_are_one_chain() {
    let mut rng = Rng(17);
    for round in 0..48 {
        let mut extent = |most: usize| 2 + rng.below(most);
        let (m, n, k) = (extent(50), extent(70), extent(60) - 1);
        one_case(&mut rng, Problem { batch: 1, m, n, k }, round % 4);
    }
    for (m, n, k) in [(3, 5, 1), (2, 40, 1100), (15, 33, 2305), (29, 64, 128)] {
        for kind in 0..4 {
            one_case(&mut rng, Problem { batch: 1, m, n, k }, kind);
        }
    }
}

/// Results of bf16 by AMX are its sums, rounded: one panel or several, whole ones or not, and one or more parts of k.
#[test]
fn products_by_amx_are_rounded_sums() {
    let mut rng = Rng(18);
    let extents = [
        (40, 20, 70),
        (70, 96, 33),
        (33, 65, 1030),
        (97, 32, 1100),
        (65, 100, 9000),
    ];
    for ((m, n, k), isa) in extents.into_iter().flat_map(|p| isas().map(move |isa| (p, isa))) {
        if !isa.sums_squares() {
            continue;
        }
        for kind in 0..4 {
            let mut numbers =
                |len: usize| -> Vec<bf16> { (0..len).map(|_| element(&mut rng, kind)).collect() };
            let (a, b, mut c) = (numbers(m * k), numbers(k * n), vec![bf16::ONE; m * n]);
            let out = matrix_mut(&mut c, [m, n]);
            let (p, kernels) = (Problem { batch: 1, m, n, k }, [gemm::by_amx::<bf16>(); 2]);
            let (left, right) = (matrix(&a, k), matrix(&b, n));
            // SAFETY: the vectors have the extents; the machine has these instructions.
            unsafe {
                typed::<bf16>(
                    (isa, true),
                    kernels,
                    &p,
                    left,
                    right,
                    out,
                    &Threads(2),
                    After::Nothing,
                    Before::of::<bf16>(),
                )
            };
            for (at, got) in c.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let column: Vec<bf16> = (0..k).map(|l| b[l * n + j]).collect();
                let wanted = bf16::from_f32(by_amx(&a[i * k..(i + 1) * k], &column));
                let same = got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan();
                assert!(same, "{p:?} {kind}: {got:e} instead of {wanted:e} at {i}, {j}");
            }
        }
    }
}

/// Rounding without branches is that of the crate, for numbers around every one of bf16. No sum of AMX is below the least normal one.
#[test]
fn sums_are_rounded_to_the_nearest_bf16() {
    let sums: Vec<f32> = (0..=u16::MAX)
        .flat_map(|high| [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | low))
        .map(f32::from_bits)
        .collect();
    let forms = isas().map(|isa| (<bf16 as gemm::Uniform>::products(isa, true), false));
    let amx = (isas().filter(|isa| isa.sums_squares())).map(|_| (gemm::by_amx(), true));
    for (kernels, flushed) in forms.chain(amx) {
        let mut rounded = vec![bf16::ZERO; sums.len()];
        let (to, from) = ((rounded.as_mut_ptr(), 0), (sums.as_ptr(), 0));
        // SAFETY: both have a row of as many elements, and the machine has the instruction set.
        unsafe { (kernels.narrow)(to, from, [1, sums.len()]) };
        for (sum, rounded) in sums.iter().zip(rounded) {
            if !(flushed && sum.is_subnormal()) {
                assert_eq!(rounded.to_bits(), bf16::from_f32(*sum).to_bits(), "{sum:e}");
            }
        }
    }
}
