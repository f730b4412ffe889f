//! Operands and results whose channels are neighbours.

use super::{Setup, Threads, bits, kernels, shapes, strides, ways, window};
use crate::library::conv::forward;
use crate::library::conv::geometry::{AXES, Axis, Pass, Window};
use crate::library::conv::operands::{Gathered, Rows, Sizes, Weights};
use crate::library::conv::words::ConvKernels;
use crate::parallel::{Parallel, Serial};

/// Strides of sample, group, channel and the spatial axes.
fn layout(last: bool, [n, g, c]: [usize; 3], space: [usize; AXES]) -> [isize; 6] {
    let [a, b, d] = space;
    let own = |order: &[usize]| strides(order);
    match last {
        false => own(&[n, g, c, a, b, d]).try_into().expect("six axes"),
        true => {
            let [n, a, b, d, g, c] = own(&[n, a, b, d, g, c]).try_into().expect("six axes");
            [n, g, c, a, b, d]
        }
    }
}

/// Where each element lies, in row-major order.
fn places(extents: [usize; 6], to: [isize; 6]) -> impl Iterator<Item = usize> {
    let from = strides(&extents);
    (0..extents.iter().product::<usize>() as isize).map(move |mut rest| {
        let place: isize = (from.iter().zip(to))
            .map(|(&step, stride)| {
                let index = rest / step;
                rest %= step;
                index * stride
            })
            .sum();
        place as usize
    })
}

/// The output in row-major order, of an operand and to a result that have their channels last or not.
pub(super) fn forward(
    setup: &Setup,
    kernels: &ConvKernels<u32>,
    [x_last, y_last]: [bool; 2],
    parallel: &dyn Parallel,
) -> Vec<f32> {
    let sizes = setup.sizes;
    let pass = Pass {
        axes: setup.windows.each_ref().map(Axis::forward),
    };
    let [o, k, i] = [
        setup.dims(|w| w.output),
        setup.dims(|w| w.taps),
        setup.dims(|w| w.input),
    ];
    let (n, g) = (sizes.samples, sizes.groups);
    let of_x = [n, g, sizes.channels, i[0], i[1], i[2]];
    let of_y = [n, g, sizes.rows, o[0], o[1], o[2]];
    let xs = layout(x_last, [n, g, sizes.channels], i);
    let ys = layout(y_last, [n, g, sizes.rows], o);
    let ws = strides(&[g, sizes.rows, sizes.channels, k[0], k[1], k[2]]);
    let mut x = vec![f32::NAN; setup.x.len()];
    (places(of_x, xs).zip(&setup.x)).for_each(|(place, &value)| x[place] = value);
    let mut y = vec![f32::NAN; setup.y.len()];
    let job = forward::Job {
        sizes,
        gathered: Gathered {
            ptr: x.as_ptr().cast(),
            sample: xs[0],
            group: xs[1],
            channel: xs[2],
            channels: sizes.channels,
            spatial: [xs[3], xs[4], xs[5]],
        },
        weights: Weights {
            ptr: setup.w.as_ptr().cast(),
            group: ws[0],
            row: ws[1],
            channel: ws[2],
            channels: sizes.channels,
            taps: [ws[3], ws[4], ws[5]],
            extents: k,
        },
        target: Rows {
            ptr: y.as_mut_ptr().cast(),
            sample: ys[0],
            group: ys[1],
            row: ys[2],
            spatial: [ys[3], ys[4], ys[5]],
        },
        pass: &pass,
    };
    // SAFETY: the vectors have the elements that sizes and strides reach.
    unsafe { forward::run(kernels, &job, std::ptr::null(), parallel, None) };
    places(of_y, ys).map(|place| y[place]).collect()
}

#[test]
fn bits_do_not_depend_on_where_channels_lie() {
    let uneven = |values: &mut Vec<f32>| values.iter_mut().for_each(|value| *value = (*value * 1.7).sin());
    for (sizes, windows) in shapes() {
        let mut setup = Setup::new(sizes, windows);
        uneven(&mut setup.x);
        uneven(&mut setup.w);
        for way in ways() {
            let kernels = &kernels(way);
            let expected = bits(&forward(&setup, kernels, [false, false], &Serial));
            for last in [[true, false], [false, true], [true, true]] {
                for parallel in [&Serial as &dyn Parallel, &Threads(3)] {
                    assert!(
                        bits(&forward(&setup, kernels, last, parallel)) == expected,
                        "{way:?}, {last:?}, {sizes:?}, {windows:?}"
                    );
                }
            }
        }
    }
}

/// A group for each channel, and vectors of them: strides, taps apart, short lines, much padding, three axes, and taps without products.
#[test]
fn bits_of_channels_by_themselves() {
    let sizes = |samples, groups| Sizes {
        samples,
        groups,
        rows: 1,
        channels: 1,
    };
    let flat = window(1, 1, 1, 1, 0);
    let apart = |input, output| Window {
        dilation: 2,
        ..window(input, output, 3, 1, 2)
    };
    let shapes = [
        (
            sizes(2, 48),
            [flat, window(17, 17, 3, 1, 1), window(19, 19, 3, 1, 1)],
        ),
        (
            sizes(1, 32),
            [flat, window(15, 8, 3, 2, 1), window(14, 7, 3, 2, 1)],
        ),
        (
            sizes(1, 80),
            [flat, window(14, 14, 5, 1, 2), window(9, 9, 5, 1, 2)],
        ),
        // Registers whose last channels others have too.
        (
            sizes(1, 24),
            [flat, window(13, 7, 5, 2, 2), window(40, 20, 5, 2, 2)],
        ),
        (
            sizes(2, 40),
            [flat, window(9, 9, 3, 1, 1), window(40, 40, 3, 1, 1)],
        ),
        (
            sizes(1, 72),
            [flat, window(12, 12, 5, 1, 2), window(23, 23, 5, 1, 2)],
        ),
        (
            sizes(1, 20),
            [flat, window(6, 3, 3, 2, 1), window(50, 25, 3, 2, 1)],
        ),
        (
            sizes(1, 17),
            [flat, window(10, 9, 2, 1, 0), window(37, 37, 3, 1, 1)],
        ),
        (sizes(1, 16), [flat, window(8, 8, 9, 1, 4), window(9, 5, 9, 2, 4)]),
        (sizes(3, 16), [flat, window(7, 7, 7, 1, 3), window(3, 3, 3, 1, 1)]),
        (sizes(1, 16), [flat, apart(11, 11), apart(12, 12)]),
        (sizes(1, 16), [flat, window(2, 6, 3, 1, 3), window(1, 3, 3, 1, 2)]),
        (
            sizes(1, 64),
            [
                window(4, 4, 3, 1, 1),
                window(6, 6, 3, 1, 1),
                window(5, 5, 3, 1, 1),
            ],
        ),
        (
            sizes(1, 32),
            [flat, window(64, 64, 3, 1, 1), window(70, 70, 3, 1, 1)],
        ),
    ];
    for (sizes, windows) in shapes {
        let mut setup = Setup::new(sizes, windows);
        let uneven =
            |values: &mut Vec<f32>| values.iter_mut().for_each(|value| *value = (*value * 1.7).sin());
        uneven(&mut setup.x);
        uneven(&mut setup.w);
        for infinite in [false, true] {
            if infinite {
                setup.w[0] = f32::INFINITY;
            }
            for way in ways() {
                let kernels = &kernels(way);
                let of = |last, parallel: &dyn Parallel| {
                    let made = forward(&setup, kernels, last, parallel);
                    // Which of two values that are no numbers a sum keeps is open.
                    made.into_iter()
                        .map(|y| {
                            if y.is_nan() {
                                f32::NAN.to_bits()
                            } else {
                                y.to_bits()
                            }
                        })
                        .collect::<Vec<u32>>()
                };
                let expected = of([false, false], &Serial);
                for last in [[true, false], [false, true], [true, true]] {
                    for parallel in [&Serial as &dyn Parallel, &Threads(3)] {
                        assert!(
                            of(last, parallel) == expected,
                            "{way:?}, {last:?}, {sizes:?}, {windows:?}"
                        );
                    }
                }
            }
        }
    }
}

/// One tap: places at equal distances, of several panels of rows and parts of them, few and many; and distances that are not equal.
#[test]
fn bits_of_one_tap() {
    let flat = window(1, 1, 1, 1, 0);
    let spaces = [
        [flat, window(9, 9, 1, 1, 0), window(23, 23, 1, 1, 0)],
        [flat, flat, window(3, 3, 1, 1, 0)],
        [flat, window(11, 6, 1, 2, 0), window(10, 5, 1, 2, 0)],
        [flat, window(5, 7, 1, 1, 1), window(6, 8, 1, 1, 1)],
        [flat, window(9, 7, 1, 1, -1), window(8, 3, 1, 2, -2)],
    ];
    let rows = [16, 24, 32, 40, 56, 70, 96, 144];
    for (windows, rows) in spaces.into_iter().flat_map(|w| rows.map(|rows| (w, rows))) {
        for (groups, channels) in [(1, 8), (2, 21), (1, 300)] {
            let sizes = Sizes {
                samples: 2,
                groups,
                rows,
                channels,
            };
            let mut setup = Setup::new(sizes, windows);
            for values in [&mut setup.x, &mut setup.w] {
                values.iter_mut().for_each(|value| *value = (*value * 1.7).sin());
            }
            for way in ways() {
                let kernels = &kernels(way);
                let expected = bits(&forward(&setup, kernels, [false, false], &Serial));
                for (last, parallel) in [
                    ([true, false], &Serial as &dyn Parallel),
                    ([true, true], &Serial),
                    ([true, true], &Threads(3)),
                ] {
                    assert!(
                        bits(&forward(&setup, kernels, last, parallel)) == expected,
                        "{way:?}, {last:?}, {sizes:?}, {windows:?}"
                    );
                }
            }
        }
    }
}
