//! Operands and results whose channels are neighbours.

use super::{Setup, Threads, bits, kernels, shapes, strides, ways};
use crate::library::conv::forward;
use crate::library::conv::geometry::{AXES, Axis, Pass};
use crate::library::conv::operands::{Gathered, Rows, Weights};
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
