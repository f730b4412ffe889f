//! Products of bytes against a triple loop in i32, by every way that this machine has.

use super::{Rng, STRIPES, Threads, at, isas, layout};
use crate::library::gemm::{self, Byte, Signs, Way};
use crate::library::matmul::{After, Before, MatMut, MatRef, Problem, typed};

/// What the element is.
pub(super) fn value(byte: Byte, signed: bool) -> i32 {
    if signed {
        i32::from(byte.0 as i8)
    } else {
        i32::from(byte.0)
    }
}

/// Extreme values half of the time, whose products saturate 16 bits where an instruction adds two of them there.
pub(super) fn element(rng: &mut Rng) -> Byte {
    Byte(match rng.below(2) {
        0 => rng.next() as u8,
        _ => [0x00, 0x7f, 0x80, 0xff][rng.below(4)],
    })
}

fn one_case(rng: &mut Rng, p: Problem) {
    let (la, lb, lc) = (
        layout(rng, p.m, p.k),
        layout(rng, p.k, p.n),
        layout(rng, p.m, p.n),
    );
    let a: Vec<Byte> = (0..p.batch * la.2).map(|_| element(rng)).collect();
    let b: Vec<Byte> = (0..lb.2).map(|_| element(rng)).collect();
    for signs in [(false, false), (false, true), (true, false), (true, true)].map(|(a, b)| Signs { a, b }) {
        let mut expected = vec![7; p.batch * lc.2];
        for batch in 0..p.batch {
            for i in 0..p.m {
                for j in 0..p.n {
                    expected[batch * lc.2 + i * lc.0 as usize + j * lc.1 as usize] = (0..p.k)
                        .map(|l| {
                            value(at(&a, la, batch, i, l), signs.a) * value(at(&b, lb, 0, l, j), signs.b)
                        })
                        .fold(0, i32::wrapping_add);
                }
            }
        }
        let forms = isas().flat_map(|isa| {
            Way::ALL
                .into_iter()
                .flat_map(move |way| [(isa, way, false), (isa, way, true)])
        });
        for (isa, way, codegen) in forms.filter(|&(isa, way, _)| way.is_available(isa)) {
            let both = signs.kernels_by(isa, way, codegen);
            let mut whole = vec![0; gemm::packed_len(&both[0], p.k, p.n)];
            // SAFETY: B reaches `k` rows of `n` columns, and `whole` has the length that it takes packed.
            unsafe { gemm::pack_whole(&both[0], (b.as_ptr(), lb.0, lb.1), p.k, p.n, whole.as_mut_ptr()) };
            for (threads, packed, before) in [
                (1, false, Before::of::<Byte>()),
                (3, false, Before::of::<Byte>()),
                (1, true, Before::of::<Byte>()),
                (3, true, Before::of::<Byte>()),
                (1, false, STRIPES),
                (
                    1,
                    false,
                    Before {
                        blocks: 0,
                        ..Before::of::<Byte>()
                    },
                ),
                (3, false, STRIPES),
            ] {
                let mut c = vec![7_i32; p.batch * lc.2];
                let operand =
                    |data: &[Byte], l: (isize, isize, usize), step: usize, packed: *const u8| MatRef {
                        ptr: data.as_ptr().cast(),
                        batch_stride: step as isize,
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
                let packed = if packed {
                    whole.as_ptr().cast()
                } else {
                    std::ptr::null()
                };
                // SAFETY: `layout` gives strides that stay inside the vectors; the machine has these instructions.
                unsafe {
                    typed::<Byte>(
                        (isa, true),
                        both,
                        &p,
                        operand(&a, la, la.2, std::ptr::null()),
                        operand(&b, lb, 0, packed),
                        out,
                        &Threads(threads),
                        After::Nothing,
                        before,
                    );
                }
                assert!(
                    c == expected,
                    "{p:?} {signs:?} {isa:?} {way:?} {threads} {}",
                    packed.is_null()
                );
            }
        }
    }
}

#[test]
fn sums_of_bytes_are_exact() {
    let mut rng = Rng(11);
    for round in 0..40 {
        let mut extent = |most: usize| if rng.below(6) == 0 { 1 } else { 1 + rng.below(most) };
        let (batch, m, n, k) = (1 + round % 3, extent(70), extent(70), extent(150));
        one_case(&mut rng, Problem { batch, m, n, k });
    }
    for (m, n, k) in [
        (3, 5, 0),
        (0, 5, 3),
        (1, 100, 517),
        (100, 1, 517),
        (30, 40, 2300),
        (5, 330, 41),
        (33, 64, 64),
    ] {
        one_case(&mut rng, Problem { batch: 2, m, n, k });
    }
}
