//! What the padding adds.

use super::{Setup, shapes, ways};
use crate::parallel::Serial;

/// Zeros of the padding are multiplied like other elements.
#[test]
fn infinite_weights_meet_the_padding() {
    for (sizes, windows) in shapes().into_iter().filter(|shape| shape.0.channels > 0) {
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
