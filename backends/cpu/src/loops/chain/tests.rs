//! Chains against the scalar functions that they stand for.

use super::{Chain, Code, Link, Pattern, available};
use crate::isa::Isa;
use crate::loops::LANES;
use crate::loops::num::Num;
use crate::loops::reduce::Best;
use crate::math::exp32;

/// What a block is multiplied by, or what is added to it.
fn other(i: usize) -> f32 {
    (i as f32 * 0.37).sin()
}

/// Runs `codes`, whose blocks are `x` and, for a store, the result, and whose single value is `single`; the totals of its sum.
fn run(isa: Isa, codes: &[Code], x: &mut [f32], single: f32, result: &mut [f32]) -> [f32; LANES] {
    let mut single = single;
    let mut totals = [0.0_f32; LANES];
    let mut others: Vec<f32> = (0..x.len()).map(other).collect();
    let at = |code: Code| match code {
        Code::SubSingle | Code::DivSingle | Code::MulSingle => (&raw mut single).cast::<u8>(),
        Code::Store => result.as_mut_ptr().cast(),
        Code::Mul | Code::Add => others.as_mut_ptr().cast(),
        Code::Sum => totals.as_mut_ptr().cast(),
        _ => x.as_mut_ptr().cast(),
    };
    let mut at = at;
    let places: Vec<*mut u8> = codes.iter().map(|&code| at(code)).collect();
    let links: Vec<Link> = codes.iter().map(|&code| Link { code, value: 0 }).collect();
    assert_eq!(x.len(), result.len());
    let chain = Chain {
        isa,
        pattern: Pattern::of(&links).unwrap(),
        places: &places,
        n: x.len(),
        first: 0,
    };
    // SAFETY: the tests ask for the instructions; the places have as many elements.
    unsafe { chain.run(&[]) };
    totals
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn quotients_are_those_of_a_division(isa: Isa) {
    let mut seed = 1_u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed
    };
    let specials = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-45,
        7e-31,
        1.2e30,
        f32::MAX,
        1.0,
    ];
    let mut divisors: Vec<f32> = (0..2000).map(|_| f32::from_bits(next())).collect();
    divisors.extend((0..2000).map(|_| f32::from_bits(0x3f80_0000 ^ (next() >> 9) ^ (next() & 0x8780_0000))));
    divisors.extend(specials.iter().flat_map(|&d| [d, -d]));
    for divisor in divisors {
        let mut x: Vec<f32> = (0..300).map(|_| f32::from_bits(next())).collect();
        x.extend((0..300).map(|_| f32::from_bits(0x3f80_0000 | next() >> 9)));
        x.extend(specials.iter().flat_map(|&x| [x, -x]));
        let mut result = vec![0.0; x.len()];
        run(
            isa,
            &[Code::Load, Code::DivSingle, Code::Store],
            &mut x,
            divisor,
            &mut result,
        );
        for (&x, &q) in x.iter().zip(&result) {
            assert!(
                same(q, x / divisor),
                "{x:e} / {divisor:e} = {:e}, not {q:e}",
                x / divisor
            );
        }
    }
}

fn normalizations_have_the_bits_of_their_ops(isa: Isa) {
    use Code::{Add, Load, Mul, MulSingle, Square, Store, SubSingle, Sum};
    for n in [1, 15, 16, 17, 63, 64, 200, 256, 700, 768, 1024, 1300] {
        let mut x: Vec<f32> = (0..n).map(|i| (i as f32 * 1.3).cos() * 3.0).collect();
        let mut result = vec![0.0; n];
        run(isa, &[Load, MulSingle, Mul, Add, Store], &mut x, 0.7, &mut result);
        for i in 0..n {
            assert!(
                same(result[i], x[i] * 0.7 * other(i) + other(i)),
                "{n}, element {i}"
            );
        }
        run(
            isa,
            &[Load, SubSingle, MulSingle, Mul, Add, Store],
            &mut x,
            0.7,
            &mut result,
        );
        for i in 0..n {
            assert!(
                same(result[i], (x[i] - 0.7) * 0.7 * other(i) + other(i)),
                "{n}, element {i}"
            );
        }
        // Lanes add the elements of a chunk in order, and chunks follow in order.
        let lanes = |term: &dyn Fn(f32) -> f32| -> [f32; LANES] {
            std::array::from_fn(|lane| {
                x.chunks(256).fold(0.0, |total, chunk| {
                    total
                        + chunk
                            .iter()
                            .skip(lane)
                            .step_by(LANES)
                            .fold(0.0, |sum, &x| sum + term(x))
                })
            })
        };
        let totals = [
            lanes(&|x| x),
            lanes(&|x| (x - 0.7) * (x - 0.7)),
            lanes(&|x| (x - 0.7) * (x - 0.7)),
            lanes(&|x| (x - 0.7) * (x - 0.7) * 0.7),
        ];
        let sums: [&[Code]; 4] = [
            &[Load, Sum],
            &[Load, SubSingle, Store, Square, Sum],
            &[Load, SubSingle, Square, Sum],
            &[Load, SubSingle, Square, MulSingle, Sum],
        ];
        for (codes, totals) in sums.into_iter().zip(totals) {
            assert_eq!(
                run(isa, codes, &mut x.clone(), 0.7, &mut result),
                totals,
                "{n}, {codes:?}"
            );
        }
        assert!((0..n).all(|i| same(result[i], x[i] - 0.7)), "{n}");
    }
}

fn exponentials_have_the_bits_of_the_loop(isa: Isa) {
    let codes = [Code::Load, Code::SubSingle, Code::Exp, Code::Store, Code::Sum];
    let mut bits = 0_u32;
    while bits < u32::MAX - 1_100_000 {
        let mut x: Vec<f32> = (0..1000).map(|i| f32::from_bits(bits + i * 1013)).collect();
        let mut result = vec![0.0; x.len()];
        run(isa, &codes, &mut x, 0.0, &mut result);
        for (&x, &y) in x.iter().zip(&result) {
            assert!(same(y, exp32(x)), "exp({x:e}) = {:e}, not {y:e}", exp32(x));
        }
        bits += 1_013_000;
    }
}

/// Runs a test at every instruction set that has chains.
fn each(test: fn(Isa)) {
    let has_chains = |isa: &Isa| available(*isa) && isa.is_available();
    Isa::ALL.into_iter().filter(has_chains).for_each(test);
}

#[test]
fn quotients() {
    each(quotients_are_those_of_a_division);
}

#[test]
fn normalizations() {
    each(normalizations_have_the_bits_of_their_ops);
}

#[test]
fn exponentials() {
    each(exponentials_have_the_bits_of_the_loop);
}

/// Both zeros in each order, and NaN in each place.
#[test]
fn greatest() {
    each(|isa| {
        for n in [1, 8, 15, 16, 17, 40, 64, 100, 128, 300] {
            for place in 0..n {
                for special in [-0.0, 0.0, f32::NAN, f32::INFINITY, 3.5] {
                    for rest in [-0.0, 0.0, -1.0, f32::NEG_INFINITY] {
                        let mut x = vec![rest; n];
                        x[place] = special;
                        let expected = x
                            .iter()
                            .map(|&x| x.key::<true>())
                            .max()
                            .map(f32::from_key)
                            .unwrap();
                        let found = greatest_of(isa, &mut x);
                        assert!(
                            same(found, expected),
                            "{isa:?}, {special} among {n} of {rest}: {found}"
                        );
                    }
                }
            }
        }
    });
}

fn greatest_of(isa: Isa, x: &mut [f32]) -> f32 {
    let mut found = Best {
        key: f32::LEAST.into(),
        index: -1,
    };
    let places = [x.as_mut_ptr().cast::<u8>(), (&raw mut found).cast()];
    let chain = Chain {
        isa,
        pattern: Pattern::Greatest,
        places: &places,
        n: x.len(),
        first: 0,
    };
    // SAFETY: the machine has the instructions; the places have as many elements.
    unsafe { chain.run(&[]) };
    f32::from_key(found.key as i32)
}
