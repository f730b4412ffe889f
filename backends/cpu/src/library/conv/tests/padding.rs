//! What the padding adds.

use super::{AXES, Setup, Sizes, Window, shapes, ways};
use crate::parallel::Serial;

/// Zeros of the padding are multiplied like other elements.
#[test]
fn infinite_weights_meet_the_padding() {
    // In the middle along the last axes there is no padding.
    let inside = |window: &Window| {
        let first = (window.output / 2) as i64 * window.stride - window.padding;
        let last = first + (window.taps as i64 - 1) * window.dilation;
        first >= 0 && last < window.input as i64
    };
    let suits = |shape: &(Sizes, [Window; AXES])| shape.0.channels > 0 && shape.1[1..].iter().all(inside);
    let shapes: Vec<_> = shapes().into_iter().filter(suits).collect();
    assert!(shapes.len() >= 12);
    for (sizes, windows) in shapes {
        let mut setup = Setup::new(sizes, windows);
        setup.x.fill(1.0);
        setup.w.fill(f32::INFINITY);
        let [_, high, width] = setup.dims(|w| w.output);
        let [before, above, _] = windows.map(|w| w.padding > 0);
        for way in ways() {
            let [y, ..] = setup.run(way, &Serial);
            // In the first line, and in the middle one.
            assert_eq!(y[width / 2].is_nan(), before || above, "{way:?} {sizes:?}");
            let middle = y[(high / 2) * width + width / 2];
            assert_eq!(middle.is_nan(), before, "{way:?} {sizes:?}");
        }
    }
}

/// An infinite weight makes NaN of its row where it meets the padding, and of nothing else.
#[test]
fn one_infinite_weight_meets_the_padding() {
    for (sizes, windows) in shapes().into_iter().filter(|shape| shape.0.channels > 0) {
        let mut setup = Setup::new(sizes, windows);
        setup.x.fill(1.0);
        setup.w.fill(1.0);
        let taps: usize = setup.dims(|w| w.taps).iter().product();
        // The first tap of the last row.
        setup.w[(sizes.rows - 1) * sizes.channels * taps] = f32::INFINITY;
        let [_, high, width] = setup.dims(|w| w.output);
        let places = setup.y.len() / (sizes.samples * sizes.groups * sizes.rows);
        let in_padding = |place: usize| {
            let at = [place / (high * width), place / width % high, place % width];
            let mut axes = at.into_iter().zip(windows);
            axes.any(|(at, window)| (at as i64 * window.stride) < window.padding)
        };
        for way in ways() {
            let [y, ..] = setup.run(way, &Serial);
            for (i, value) in y[..sizes.rows * places].iter().enumerate() {
                let (row, place) = (i / places, i % places);
                let expected = [row + 1 == sizes.rows, in_padding(place)];
                let found = [!value.is_finite(), value.is_nan()];
                assert_eq!(
                    found,
                    [expected[0], expected[0] && expected[1]],
                    "{way:?} {sizes:?} {place}"
                );
            }
        }
    }
}
