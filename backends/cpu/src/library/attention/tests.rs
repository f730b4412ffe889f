//! The same bits whatever computes them; that they are right is a matter of the cases that every backend passes.

use super::*;
use crate::parallel::Turns;

const HEADS: usize = 2;
const DEPTH: usize = 20;
const WIDTH: usize = 24;

/// What attention makes of `[queries, keys]` with some values, which may be masked by numbers.
fn attend(
    (isa, codegen, threads): (Isa, bool, usize),
    (causal, masked): (bool, bool),
    [queries, keys]: [usize; 2],
    v: &[f32],
) -> Vec<f32> {
    let op = Attention {
        batch: 1,
        causal,
        mask: masked.then_some(DType::F32),
        dtype: DType::F32,
        accumulate: DType::F32,
    };
    let numbers = |len: usize, step: usize| -> Vec<f32> {
        (0..len).map(|i| (i * step % 101) as f32 / 32.0 - 1.5).collect()
    };
    let mut operands = vec![
        numbers(HEADS * queries * DEPTH, 37),
        numbers(HEADS * keys * DEPTH, 53),
        v.to_vec(),
    ];
    let [q, k, w] = [DEPTH, DEPTH, WIDTH].map(|row| row as i64);
    let (queries, keys) = (queries as i64, keys as i64);
    let mut strides = vec![
        vec![queries * q, q, 0, 0, 1],
        vec![keys * k, 0, 0, k, 1],
        vec![keys * w, 0, 1, w, 0],
    ];
    if masked {
        operands.push(numbers((queries * keys) as usize, 71));
        strides.push(vec![0, keys, 0, 1, 0]);
    }
    operands.push(vec![0.0; HEADS * queries as usize * WIDTH]);
    strides.push(vec![queries * w, w, 1]);
    let arguments: Vec<_> = (operands.iter_mut().zip(&strides))
        .map(|(operand, strides)| Arg {
            ptr: operand.as_mut_ptr().cast(),
            strides,
            gather_stride: 0,
            gather_extent: 0,
        })
        .collect();
    let args = Args {
        extents: &[HEADS, queries as usize, WIDTH, keys as usize, DEPTH].map(|extent| extent as u64),
        args: &arguments,
        scalars: &[u64::from(0.25_f32.to_bits())],
    };
    // SAFETY: the operands have the elements.
    unsafe { AttentionKernel::compile(&op, isa, codegen).run(&args, &Turns(threads)) };
    operands.pop().unwrap_or_default()
}

/// Bits, one pattern for every NaN.
fn bits(of: &[f32]) -> Vec<u32> {
    of.iter()
        .map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() })
        .collect()
}

#[test]
fn the_same_bits_by_every_way() {
    let sets = || Isa::ALL.into_iter().filter(|isa| isa.is_available());
    for extents in [[3, 300], [70, 300], [130, 70], [33, 600]] {
        let mut v: Vec<f32> = (0..HEADS * extents[1] * WIDTH)
            .map(|i| (i % 89) as f32 / 8.0 - 5.0)
            .collect();
        for infinite in [false, true] {
            if infinite {
                // A key that causality hides from some queries of a panel, and from all of narrower ones.
                v[55 * WIDTH] = f32::INFINITY;
            }
            for kind in [(false, false), (true, false), (false, true), (true, true)] {
                let expected = attend((Isa::Baseline, false, 1), kind, extents, &v);
                assert!(expected.iter().any(|x| x.is_finite() && *x != 0.0));
                for isa in sets() {
                    for (codegen, threads) in [(false, 1), (true, 1), (true, 2), (true, 3)] {
                        let found = attend((isa, codegen, threads), kind, extents, &v);
                        let same = bits(&found) == bits(&expected);
                        assert!(
                            same,
                            "{extents:?} {kind:?} {isa:?} {codegen} {threads} {infinite}"
                        );
                    }
                }
            }
        }
    }
}
