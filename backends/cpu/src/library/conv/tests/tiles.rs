//! Machine code and what the compiler makes of the tiles.

use super::isas;
use crate::isa::Isa;
use crate::library::conv::tile::{ConvElement, OuterArgs, TILE, TapArgs};

/// Every tile of the sums of one type, by machine code and by the compiler: the same bits.
fn tiles_agree<T: ConvElement<Out = T, Acc = T>>(
    isa: Isa,
    number: impl Fn(usize) -> T,
    same: impl Fn(T, T) -> bool,
) {
    let (ours, theirs) = (T::conv(isa, true).tiles, T::conv(isa, false).tiles);
    let numbers = |count: usize, seed: usize| (0..count).map(|i| number(i * 7 + seed)).collect::<Vec<_>>();
    let equal = |a: &[T], b: &[T]| a.iter().zip(b).all(|(&a, &b)| same(a, b));
    let (a, x) = (numbers(64 * 64, 3), numbers(4096, 11));
    let sets = [
        (ours.wide, theirs.wide),
        (ours.high, theirs.high),
        (ours.rows[0], theirs.rows[0]),
        (ours.rows[1], theirs.rows[1]),
    ];
    for (ours, theirs) in sets {
        for count in 1..=ours.1.len() {
            for (terms, accumulate) in [(0, true), (1, false), (4, false), (7, true), (9, false)] {
                let offsets: Vec<u32> = (0..terms).map(|l| (l * 37 % 100) as u32).collect();
                let results = [ours.1, theirs.1].map(|set| {
                    let mut out = numbers(TILE, 5);
                    // SAFETY: `a` and `x` have more than any tile reads, and `out` has room for the largest one.
                    unsafe {
                        (set[count - 1])(&TapArgs {
                            accumulate,
                            count,
                            a: a.as_ptr(),
                            offsets: offsets.as_ptr(),
                            terms,
                            x: x.as_ptr(),
                            out: out.as_mut_ptr(),
                        });
                    }
                    out
                });
                assert!(
                    equal(&results[0], &results[1]),
                    "{isa:?}, {count} x {}, {terms} terms",
                    ours.0
                );
            }
        }
    }
    let (lanes, lines, _) = ours.outer;
    for (taps, &lines) in (1..).zip(lines) {
        for used in 1..=lines {
            let offsets: Vec<u32> = (0..lines).map(|l| (l * 41 % 300) as u32).collect();
            let results = [ours.outer.2, theirs.outer.2].map(|set| {
                let mut sums = numbers(lines * (taps + 1) * lanes, 5);
                // SAFETY: `a` and `x` have more than the lines meet, and `sums` has a row for each of them.
                unsafe {
                    (set[taps - 1])(&OuterArgs {
                        y: a.as_ptr(),
                        x: x.as_ptr(),
                        offsets: offsets.as_ptr(),
                        used,
                        taps,
                        high: 3,
                        wide: 5,
                        step: 2,
                        line: 13,
                        sums: sums.as_mut_ptr(),
                        pitch: (taps + 1) * lanes,
                    });
                }
                sums
            });
            assert!(
                equal(&results[0], &results[1]),
                "{isa:?}, {used} of {lines} lines x {taps} taps"
            );
        }
    }
}

#[test]
fn machine_code_and_compiled_tiles_have_the_same_bits() {
    for isa in isas() {
        let wave = |i: usize| (i as f64 * 1.7).sin();
        tiles_agree::<f32>(isa, |i| wave(i) as f32, |a, b| a.to_bits() == b.to_bits());
        tiles_agree::<f64>(isa, wave, |a, b| a.to_bits() == b.to_bits());
        tiles_agree::<i32>(
            isa,
            |i| (i as i32).wrapping_mul(0x9e37_79b1_u32 as i32),
            |a, b| a == b,
        );
        tiles_agree::<i64>(
            isa,
            |i| (i as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64),
            |a, b| a == b,
        );
    }
}
