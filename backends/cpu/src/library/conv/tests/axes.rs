//! What taps reach, and how positions are cut into blocks.

use super::window;
use crate::library::conv::geometry::{Axis, Layout, Pass, blocks, planes};

#[test]
fn an_axis_keeps_the_taps_that_reach_something() {
    // Stride 2 over 5 elements with padding 1: taps meet -1, 0, 1 for position 0.
    let axis = Axis::forward(&window(5, 3, 3, 2, 1));
    assert_eq!(
        (axis.taps.len(), axis.phases.len(), axis.low, axis.span),
        (3, 2, -1, 1)
    );
    // A kernel of 3 whose outer taps lie in the padding for every position.
    let axis = Axis::forward(&window(1, 1, 3, 1, 1));
    assert_eq!((axis.taps.len(), axis.taps[0].index), (1, 1));
    // Gradient with respect to the odd elements: only every other tap meets them.
    let axis = Axis::backward(&window(5, 3, 3, 2, 1), 1);
    assert_eq!((axis.count, axis.taps.len(), axis.every), (2, 2, 2));
}

#[test]
fn blocks_cover_the_result_within_the_memory() {
    let pass = Pass {
        axes: [
            window(6, 6, 3, 1, 1),
            window(40, 40, 3, 1, 1),
            window(50, 50, 3, 1, 1),
        ]
        .map(|w| Axis::forward(&w)),
    };
    for (most, wanted) in [(1 << 20, 1), (20_000, 1), (20_000, 100), (400, 1)] {
        let layout = Layout::new(&pass, blocks(&pass, planes(&pass, 4), most, wanted, 64), 1);
        assert!(4 * layout.channel() <= most, "{layout:?}");
        let number: usize = layout.pieces(&pass).iter().product();
        let mut covered = 0;
        for index in 0..number {
            covered += layout.block(&pass, index).size.iter().product::<usize>();
        }
        assert_eq!(covered, 6 * 40 * 50);
    }
}
