//! Convolutions whose fast form is welcome: it takes the same launches.

use super::{DIRECTIONS, Direction, F32, Shape, Sum, epilogue, open, run};
use crate::kit::Case;
use thalweg_hal::DType;

pub(super) fn cases() -> Vec<Case> {
    let forms = DIRECTIONS
        .into_iter()
        .filter(|&(_, direction)| direction != Direction::GradWeight);
    let case = |(name, direction): (&str, Direction)| {
        Case::new("library", format!("{name}.fast"), move |subject| {
            let device = open(subject, &[DType::F32])?;
            for (seed, shape) in shapes().into_iter().enumerate() {
                let shape = Shape {
                    fast: true,
                    seed: seed as u64,
                    ..shape
                };
                run(&device, direction, F32, &shape, true)?;
                epilogue(&device, direction, DType::F32, &shape)?;
            }
            Ok(())
        })
    };
    forms.map(case).collect()
}

/// Errors of the fast form are in parts of the greatest sizes of products: elements of a tile share them.
pub(super) fn level(sums: &mut [Sum]) {
    let greatest = sums.iter().fold(0.0, |most: f64, sum| most.max(sum.1));
    sums.iter_mut().for_each(|sum| sum.1 = greatest);
}

/// Three by three taps with odd extents, padding, few tiles and channels that fill no register, and shapes that have one form.
fn shapes() -> Vec<Shape> {
    let square = Shape::square;
    vec![
        square(1, 1, [33, 37], [19, 3, 1, 1], 1),
        square(2, 1, [64, 32], [9, 3, 1, 1], 0),
        square(1, 1, [40, 40], [7, 3, 1, 1], 2),
        square(3, 1, [35, 48], [5, 3, 1, 1], 1),
        square(1, 1, [48, 48], [12, 3, 1, 1], 0),
        square(1, 1, [48, 48], [9, 3, 2, 1], 1),
        square(1, 2, [40, 40], [9, 3, 1, 1], 1),
        square(1, 1, [40, 40], [9, 3, 1, 2], 2),
        square(0, 1, [40, 40], [9, 3, 1, 1], 1),
    ]
}
