//! Machine code and what the compiler makes of the tiles.

use super::isas;
use crate::isa::Isa;
use crate::library::conv::lines::{HIGHEST, LinesArgs, MOST_ROWS};
use crate::library::conv::tile::{Ahead, BESIDE, OuterArgs, TILE, TapArgs};
use crate::library::conv::words::Word;
use crate::library::matmul::MatDType;
use std::fmt::Debug;

/// Every tile of the sums of one dtype, by machine code and by the compiler: the same bits.
fn tiles_agree<W: Word<Acc: Debug + PartialEq>>(dtype: MatDType, isa: Isa, number: impl Fn(usize) -> W::Acc) {
    let [Some(ours), Some(theirs)] = [true, false].map(|codegen| W::kernels(dtype, isa, codegen)) else {
        panic!("{dtype:?} has other words");
    };
    let (ours, theirs) = (ours.tiles, theirs.tiles);
    let numbers = |count: usize, seed: usize| (0..count).map(|i| number(i * 7 + seed)).collect::<Vec<_>>();
    let (a, x) = (numbers(64 * 64, 3), numbers(4096, 11));
    let sets = [
        (ours.wide, theirs.wide),
        (ours.high, theirs.high),
        (ours.rows[0], theirs.rows[0]),
        (ours.rows[1], theirs.rows[1]),
        (ours.beside[0], theirs.beside[0]),
        (ours.beside[1], theirs.beside[1]),
    ];
    for (at, (ours, theirs)) in sets.into_iter().enumerate() {
        let step = if at < 4 { 1 } else { BESIDE };
        for count in 1..=ours.1.len() {
            for (terms, accumulate, quiet) in [
                (0, true, 0),
                (1, false, 1),
                (4, false, 4),
                (7, true, 3),
                (9, false, 0),
                (9, true, 5),
                (14, false, 14),
            ] {
                let offsets: Vec<u32> = (0..terms).map(|l| (l * 37 % 100) as u32).collect();
                let results = [ours.1, theirs.1].map(|set| {
                    let mut out = numbers(TILE, 5);
                    let lines = [out.as_ptr().cast(); 6];
                    // SAFETY: `a` and `x` have more than any tile reads, and `out` has room for the largest one.
                    unsafe {
                        (set[count - 1])(&TapArgs {
                            accumulate,
                            count,
                            a: a.as_ptr(),
                            offsets: offsets.as_ptr(),
                            terms,
                            x: x.as_ptr(),
                            step,
                            out: out.as_mut_ptr(),
                            ahead: Ahead {
                                lines: lines.as_ptr(),
                                weights: a.as_ptr().cast(),
                                quiet,
                            },
                        });
                    }
                    out
                });
                assert!(
                    results[0] == results[1],
                    "{isa:?}, {count} x {}, {terms} terms, {quiet} of them quiet",
                    ours.0
                );
            }
        }
    }
    for (ours, theirs) in ours.outer.into_iter().zip(theirs.outer) {
        let (lanes, lines, _) = ours;
        for (taps, &lines) in (1..).zip(lines) {
            for used in 1..=lines {
                let offsets: Vec<u32> = (0..lines).map(|l| (l * 41 % 300) as u32).collect();
                let results = [ours.2, theirs.2].map(|set| {
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
                    results[0] == results[1],
                    "{isa:?}, {used} of {lines} lines x {taps} taps"
                );
            }
        }
    }
    for (ours, theirs) in ours.lines.iter().zip(theirs.lines) {
        for (rows, high) in (1..=MOST_ROWS).flat_map(|rows| (1..=HIGHEST).map(move |high| (rows, high))) {
            let (taken, ours) = ours.kernel(rows, high);
            let (_, theirs) = theirs.kernel(rows, taken);
            for (above, below) in [(0, 0), (rows - 1, 0), (rows / 2, rows - 1)] {
                let results = [ours, theirs].map(|kernel| {
                    let mut out = numbers(HIGHEST * 20, 5);
                    // SAFETY: `a` and `x` have more than the lines meet, and `out` has a register for each of them.
                    unsafe {
                        kernel(&LinesArgs {
                            x: x.as_ptr(),
                            x_line: 37,
                            columns: 3,
                            offsets: [5, 0, 400].as_ptr(),
                            weights: a.as_ptr(),
                            out: out.as_mut_ptr(),
                            out_line: 19,
                            above,
                            below,
                            high: taken,
                            rows,
                        });
                    }
                    out
                });
                assert!(
                    results[0] == results[1],
                    "{isa:?}, {taken} lines, {rows} rows of taps"
                );
            }
        }
    }
}

#[test]
fn machine_code_and_compiled_tiles_have_the_same_bits() {
    let wave = |i: usize| (i as f64 * 1.7).sin();
    for isa in isas() {
        tiles_agree::<u32>(MatDType::F32, isa, |i| (wave(i) as f32).to_bits());
        tiles_agree::<u64>(MatDType::F64, isa, |i| wave(i).to_bits());
        tiles_agree::<u32>(MatDType::I32, isa, |i| (i as u32).wrapping_mul(0x9e37_79b1));
        tiles_agree::<u64>(MatDType::I64, isa, |i| {
            (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
    }
}
