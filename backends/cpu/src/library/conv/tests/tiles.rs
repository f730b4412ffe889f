//! Machine code and what the compiler makes of the tiles.

use super::isas;
use crate::isa::Isa;
use crate::library::conv::beside::{BesideArgs, STRIP, StripArgs, Window};
use crate::library::conv::lines::{HIGHEST, LinesArgs, MOST_ROWS};
use crate::library::conv::points::{PART, PointArgs, Rows};
use crate::library::conv::steps::{PLACES, Place, Step, StepArgs, StepFn, TOGETHER};
use crate::library::conv::tile::{Ahead, OuterArgs, TILE, TapArgs};
use crate::library::conv::words::Word;
use crate::library::matmul::MatDType;
use std::fmt::Debug;

/// Every tile of the sums of one dtype, by machine code and by the compiler: the same bits.
fn tiles_agree<W: Word<Acc: Debug + PartialEq>>(dtype: MatDType, isa: Isa, number: impl Fn(usize) -> W::Acc) {
    let [Some(ours), Some(theirs)] = [true, false].map(|codegen| W::kernels(dtype, isa, codegen, false))
    else {
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
    ];
    for (ours, theirs) in sets {
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
    let size = size_of::<W::Acc>() as isize;
    let zeros = [W::ZERO; TOGETHER];
    let panels = [
        (ours.steps[0], theirs.steps[0], ours.rows[0].0, 1),
        (ours.steps[1], theirs.steps[1], ours.rows[1].0, 1),
    ];
    // Two panels of the compiler's are two calls.
    let both = (ours.steps[2], theirs.steps[1], ours.rows[1].0, 2);
    for (ours, theirs, lanes, panels) in panels.into_iter().chain([both]) {
        for (count, ours) in (1..).zip(ours) {
            for (accumulate, channels) in [(false, &[4, 4][..]), (true, &[1, 7, 3]), (true, &[TOGETHER])] {
                let places: Vec<Place<W::Acc>> = (0..count)
                    .map(|i| Place {
                        at: x.as_ptr().wrapping_add(100 + i * 90),
                        meets: [5, 7, 2, 0, 6, 1][i],
                        // In no order.
                        out: (i * 5 % PLACES) as isize * (lanes * panels + 3) as isize * size,
                    })
                    .collect();
                let steps: Vec<Step> = (channels.iter().enumerate())
                    .map(|(bit, &channels)| Step {
                        end: (bit as isize * 150 + channels as isize) * size,
                        bit,
                        back: -(channels as isize * size),
                        weights: channels as isize * lanes as isize * size,
                    })
                    .collect();
                let call = |kernel: StepFn<W::Acc>, meets: u64, out: &mut [W::Acc], panel: usize| {
                    let mut args = StepArgs {
                        accumulate,
                        count,
                        places: places.as_ptr(),
                        meets,
                        steps: steps.as_ptr(),
                        last: steps.as_ptr_range().end,
                        zeros: zeros.as_ptr_range().end,
                        weights: a[panel * 5..].as_ptr(),
                        next_panel: 5 * size,
                        out: out[panel * lanes..].as_mut_ptr(),
                        asked: out.as_mut_ptr(),
                        asked_step: 64,
                        later: a.as_ptr().cast(),
                    };
                    // SAFETY: `a` and `x` have more than any step reads, and `out` has room for the places.
                    unsafe { kernel(&mut args) };
                };
                for meets in [7, 5, 2] {
                    let mut results = [0, 1].map(|_| numbers(PLACES * 67, 5));
                    call(*ours, meets, &mut results[0], 0);
                    (0..panels).for_each(|panel| call(theirs[count - 1], meets, &mut results[1], panel));
                    assert!(
                        results[0] == results[1],
                        "{isa:?}, {count} places, {panels} panels, {channels:?}, taps {meets:b}"
                    );
                }
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

/// Places at equal distances, by machine code that walks through them and by the compiler's steps.
fn points_agree<W: Word<Acc: Debug + PartialEq>>(
    dtype: MatDType,
    isa: Isa,
    number: impl Fn(usize) -> W::Acc,
) {
    let [Some(ours), Some(theirs)] = [true, false].map(|codegen| W::kernels(dtype, isa, codegen, false))
    else {
        panic!("{dtype:?} has other words");
    };
    let (ours, theirs) = (ours.tiles, theirs.tiles);
    let numbers = |count: usize, seed: usize| (0..count).map(|i| number(i * 7 + seed)).collect::<Vec<_>>();
    let (a, x, size) = (numbers(64 * 64, 3), numbers(4096, 11), size_of::<W::Acc>());
    let [one, two] = ours.rows.map(|(lanes, _)| lanes);
    // Lanes of a panel, panels, and rows; those of parts are less than a panel.
    let sets = [(one, 1, one), (two, 1, two), (two, 2, 2 * two)];
    let of_parts = (1..2 * one * size / PART).map(|parts| (two, 1, parts * PART / size));
    for (lanes, panels, rows) in sets.into_iter().chain(of_parts) {
        let of = Rows {
            bytes: rows * size,
            panel: lanes / one,
        };
        let set = ours.points.kernels::<W::Acc>(of).unwrap_or_default();
        // AVX2 has no registers for the sums of two panels.
        let exists = ours.points.0.is_some() && (panels == 1 || isa == Isa::Avx512);
        assert_eq!(!set.is_empty(), exists, "{isa:?}, {rows} rows");
        let steps = theirs.steps[usize::from(lanes == two)];
        for (count, kernel) in (1..).zip(set) {
            for (accumulate, terms, tiles) in [(false, 9, 3), (true, 4, 1), (true, 3, 2)] {
                let (apart, pitch) = (15, 2 * two + 3);
                let places = count * tiles;
                let mut results = [0, 1].map(|_| numbers(places * pitch, 5));
                let mut args = PointArgs {
                    accumulate,
                    tiles,
                    terms,
                    bytes: terms * size,
                    x: x.as_ptr(),
                    step: (apart * size) as isize,
                    weights: a.as_ptr(),
                    next_panel: (700 * size) as isize,
                    out: results[0].as_mut_ptr(),
                    out_step: (pitch * size) as isize,
                    later: a.as_ptr().cast(),
                };
                // SAFETY: `a` and `x` have more than the places meet, and there is room for their rows.
                unsafe { kernel(&mut args) };
                assert_eq!(args.out.cast_const(), results[0].as_ptr_range().end);
                let step = Step {
                    end: (terms * size) as isize,
                    bit: 0,
                    back: -((terms * size) as isize),
                    weights: 0,
                };
                for (at, panel) in (0..places).flat_map(|at| (0..panels).map(move |panel| (at, panel))) {
                    let mut sums = results[1][at * pitch + panel * lanes..].to_vec();
                    sums.resize(lanes, W::ZERO);
                    let place = Place {
                        at: x[at * apart..].as_ptr(),
                        meets: 1,
                        out: 0,
                    };
                    let mut args = StepArgs {
                        accumulate,
                        count: 1,
                        places: &raw const place,
                        meets: 1,
                        steps: &raw const step,
                        last: (&raw const step).wrapping_add(1),
                        zeros: std::ptr::null(),
                        weights: a[panel * 700..].as_ptr(),
                        next_panel: 0,
                        out: sums.as_mut_ptr(),
                        asked: std::ptr::null_mut(),
                        asked_step: 0,
                        later: std::ptr::null(),
                    };
                    // SAFETY: as above; the sums have a panel.
                    unsafe { (steps[0])(&mut args) };
                    let rows = rows.min(lanes);
                    results[1][at * pitch + panel * lanes..][..rows].copy_from_slice(&sums[..rows]);
                }
                assert!(
                    results[0] == results[1],
                    "{isa:?}, {count} places x {rows} rows, {terms} terms"
                );
            }
        }
    }
}

/// Strips of positions, by machine code that loads an element once and by the compiler's table.
fn strips_agree<W: Word<Acc: Debug + PartialEq>>(
    dtype: MatDType,
    isa: Isa,
    number: impl Fn(usize) -> W::Acc,
) {
    let Some(kernels) = W::kernels(dtype, isa, true, false) else {
        panic!("{dtype:?} has other words");
    };
    let (beside, size) = (kernels.tiles.beside, size_of::<W::Acc>());
    let numbers = |count: usize, seed: usize| (0..count).map(|i| number(i * 7 + seed)).collect::<Vec<_>>();
    let (x, w) = (numbers(4096, 11), numbers(25 * 40, 3));
    let windows = [
        (3, 3, false),
        (5, 5, false),
        (5, 5, true),
        (2, 3, true),
        (1, 1, false),
    ];
    for ((columns, rows, by_rows), step) in windows.into_iter().flat_map(|w| [(w, 1), (w, 2)]) {
        let window = Window {
            columns,
            rows,
            step,
            by_rows,
        };
        let Some(strips) = beside.strips(window) else {
            continue;
        };
        // In the order of the sums.
        let term = |column: usize, row: usize| match by_rows {
            true => row * columns + column,
            false => column * rows + row,
        };
        for (channels, count) in [(16, 2), (19, 1), (37, 2)] {
            let lanes = beside.lanes;
            let registers = (0..channels)
                .step_by(lanes)
                .map(|first| first.min(channels - lanes));
            let terms = columns * rows;
            let lane = |first: usize, term: usize| w[term * 40 + first..][..lanes].iter().copied();
            let packed: Vec<_> = registers
                .flat_map(|first| (0..terms).flat_map(move |term| lane(first, term)))
                .collect();
            for (used, positions) in (1..=rows).flat_map(|u| (1..=STRIP).map(move |p| (u, p))) {
                let met = (positions - 1) * step + columns;
                let at = |met: usize, row: usize| x[(met * used + row) * 38..].as_ptr();
                let table: Vec<_> = (0..met)
                    .flat_map(|m| (0..used).map(move |row| at(m, row)))
                    .collect();
                let pitch = channels + 2;
                let mut results = [0, 1].map(|_| numbers(positions * count * pitch, 5));
                let args = StripArgs {
                    table: table.as_ptr(),
                    weights: packed.as_ptr(),
                    out: results[0].as_mut_ptr(),
                    out_step: (pitch * size) as isize,
                    channels: channels * size,
                    strips: count,
                    next: (3 * size) as isize,
                    next_out: (positions * pitch * size) as isize,
                };
                // SAFETY: the table's addresses have the channels, three elements later too, and there is room for the positions.
                unsafe { (strips[used - 1][positions - 1])(&args) };
                let mut order: Vec<_> = (0..columns)
                    .flat_map(|column| (0..used).map(move |row| (column, row)))
                    .collect();
                order.sort_by_key(|&(column, row)| term(column, row));
                let weights: Vec<_> = (order.iter())
                    .flat_map(|&(column, row)| w[term(column, row) * 40..][..channels].iter().copied())
                    .collect();
                for strip in 0..count {
                    let of = |p: usize| {
                        let later = |from: *const W::Acc| from.wrapping_add(3 * strip);
                        (order.iter()).map(move |&(column, row)| later(at(p * step + column, row)))
                    };
                    let table: Vec<_> = (0..positions).flat_map(of).collect();
                    // SAFETY: as above.
                    unsafe {
                        (beside.compiled)(&BesideArgs {
                            table: table.as_ptr(),
                            entries: order.len(),
                            step: 0,
                            positions,
                            terms: order.len(),
                            weights: weights.as_ptr(),
                            channels,
                            out: results[1][strip * positions * pitch..].as_mut_ptr(),
                            out_position: pitch as isize,
                        });
                    }
                }
                assert!(
                    results[0] == results[1],
                    "{isa:?}, {columns} x {used} of {rows}, {positions} positions, {channels} channels"
                );
            }
        }
    }
}

#[test]
fn places_and_strips_have_the_bits_of_the_compiler() {
    let wave = |i: usize| (i as f64 * 1.7).sin();
    for isa in isas() {
        let single = |i: usize| (wave(i) as f32).to_bits();
        let whole = |i: usize| (i as u32).wrapping_mul(0x9e37_79b1);
        let long = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tiles = u32::kernels(MatDType::F32, isa, true, false).map(|kernels| kernels.tiles);
        let written = tiles.is_some_and(|tiles| tiles.points.0.is_some() && tiles.beside.code.is_some());
        assert_eq!(written, isa != Isa::Baseline);
        points_agree::<u32>(MatDType::F32, isa, single);
        points_agree::<u64>(MatDType::F64, isa, |i| wave(i).to_bits());
        points_agree::<u32>(MatDType::I32, isa, whole);
        points_agree::<u64>(MatDType::I64, isa, long);
        strips_agree::<u32>(MatDType::F32, isa, single);
        strips_agree::<u64>(MatDType::F64, isa, |i| wave(i).to_bits());
        strips_agree::<u32>(MatDType::I32, isa, whole);
        strips_agree::<u64>(MatDType::I64, isa, long);
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
