//! The fast form of convolutions of three by three taps. The exact results are those of whole numbers.

use super::beside::forward as result;
use super::{Setup, Threads, bits, fast_kernels, kernels, ways, window};
use crate::isa::Isa;
use crate::library::conv::forward::winograd::form;
use crate::library::conv::geometry::{AXES, Axis, Pass, Window};
use crate::library::conv::operands::Sizes;
use crate::parallel::{Parallel, Serial};

/// Samples, rows and channels; input and padding along both axes; positions of a tile along an axis.
type Case = ([usize; 3], [usize; 2], [i64; 2], usize);

/// Odd extents and channels that fill no register; no padding; few tiles; positions beyond the image; tiles of two; several samples with
/// weights that L2 does not keep; lines that are cut.
const CASES: [Case; 8] = [
    ([2, 37, 33], [30, 33], [1, 1], 4),
    ([1, 40, 40], [13, 11], [0, 0], 4),
    ([1, 70, 40], [7, 7], [1, 1], 4),
    ([3, 48, 33], [9, 6], [2, 3], 4),
    ([3, 48, 33], [5, 5], [1, 1], 2),
    ([2, 96, 97], [17, 24], [1, 1], 4),
    ([1, 96, 97], [12, 13], [1, 1], 2),
    ([1, 33, 33], [5, 171], [1, 0], 4),
];

fn setup(&([samples, rows, channels], input, padding, _): &Case) -> Setup {
    let sizes = Sizes {
        samples,
        groups: 1,
        rows,
        channels,
    };
    let of = |i: usize| {
        let output = input[i] + 2 * padding[i] as usize - 2;
        window(input[i], output, 3, 1, padding[i])
    };
    Setup::new(sizes, [window(1, 1, 1, 1, 0), of(0), of(1)])
}

fn uneven(setup: &mut Setup) {
    for values in [&mut setup.x, &mut setup.w, &mut setup.y] {
        values.iter_mut().for_each(|value| *value = (*value * 1.7).sin());
    }
}

/// The greatest error, in parts of the greatest result.
fn error(found: &[f32], exact: &[f32]) -> f32 {
    let greatest = |of: &mut dyn Iterator<Item = f32>| of.fold(0.0, |all: f32, one| all.max(one.abs()));
    assert!(found.iter().all(|value| value.is_finite()));
    greatest(&mut found.iter().zip(exact).map(|(a, b)| a - b)) / greatest(&mut exact.iter().copied())
}

#[test]
fn the_fast_form_errs_little() {
    for case in CASES {
        let setup = setup(&case);
        let [exact, ..] = setup.expected();
        let most = if case.3 == 4 { 3e-5 } else { 2e-6 };
        for isa in super::isas() {
            let [y, ..] = setup.run_by(&fast_kernels((isa, true)), &Serial);
            // Tiles of two positions halve whole numbers alone, which is exact.
            assert!(case.3 == 2 || bits(&y) != bits(&exact), "{case:?} is not fast");
            let off = error(&y, &exact);
            assert!(off < most, "{isa:?}, {case:?}: {off:e}");
            let exact = setup.backward(&kernels((isa, true)), &Serial);
            let off = error(&setup.backward(&fast_kernels((isa, true)), &Serial), &exact);
            assert!(off < 3e-5, "gradient, {isa:?}, {case:?}: {off:e}");
        }
    }
}

#[test]
fn bits_of_the_fast_form_depend_on_extents_alone() {
    for case in CASES {
        let mut setup = setup(&case);
        uneven(&mut setup);
        let first = fast_kernels((Isa::Baseline, false));
        let [y, ..] = setup.run_by(&first, &Serial).map(|values| bits(&values));
        let dx = bits(&setup.backward(&first, &Serial));
        for way in ways() {
            let kernels = fast_kernels(way);
            for threads in [1, 2, 61] {
                let parallel: &dyn Parallel = &Threads(threads);
                let [found, ..] = setup.run_by(&kernels, parallel);
                assert!(bits(&found) == y, "{way:?}, {threads} threads, {case:?}");
                let found = setup.backward(&kernels, parallel);
                assert!(
                    bits(&found) == dx,
                    "gradient, {way:?}, {threads} threads, {case:?}"
                );
            }
            for last in [[true, false], [false, true], [true, true]] {
                let found = result(&setup, &kernels, last, &Threads(3));
                assert!(bits(&found) == y, "{way:?}, {last:?}, {case:?}");
            }
        }
    }
}

#[test]
fn extents_choose_the_form() {
    let chosen = |[samples, groups, rows, channels]: [usize; 4], windows: [Window; 2]| {
        let sizes = Sizes {
            samples,
            groups,
            rows,
            channels,
        };
        let windows: [Window; AXES] = [window(1, 1, 1, 1, 0), windows[0], windows[1]];
        let pass = Pass {
            axes: windows.each_ref().map(Axis::forward),
        };
        let way = (Isa::Baseline, false);
        assert!(form(&kernels(way), &sizes, &pass).is_none());
        form(&fast_kernels(way), &sizes, &pass).map(|form| form.positions)
    };
    let square = |side: usize| [window(side, side, 3, 1, 1); 2];
    for case in CASES {
        let ([samples, rows, channels], .., positions) = case;
        let [_, a, b] = setup(&case).windows;
        assert_eq!(
            chosen([samples, 1, rows, channels], [a, b]),
            Some(positions),
            "{case:?}"
        );
    }
    assert_eq!(chosen([1, 1, 64, 64], square(56)), Some(4));
    // Weights that are met by few tiles only.
    assert_eq!(chosen([1, 1, 256, 256], square(14)), Some(2));
    assert_eq!(chosen([8, 1, 512, 512], square(7)), Some(4));
    assert_eq!(chosen([1, 1, 512, 512], square(7)), None);
    // Few channels, tiles that are mostly empty, and what is no stride of one of three by three taps of one group.
    assert_eq!(chosen([1, 1, 64, 3], square(56)), None);
    assert_eq!(chosen([1, 1, 64, 64], square(1)), None);
    assert_eq!(chosen([1, 2, 64, 64], square(56)), None);
    assert_eq!(chosen([1, 1, 64, 64], [window(56, 28, 3, 2, 1); 2]), None);
    assert_eq!(chosen([1, 1, 64, 64], [window(56, 56, 5, 1, 2); 2]), None);
    let dilated = Window {
        dilation: 2,
        ..window(56, 56, 3, 1, 2)
    };
    assert_eq!(chosen([1, 1, 64, 64], [dilated; 2]), None);
}
