//! Gradients of strided layers of one channel a group: all phases together.

use super::{Setup, Threads, bits, kernels, strides, ways, window};
use crate::library::conv::forward::{self, phases};
use crate::library::conv::geometry::{AXES, Pass};
use crate::library::conv::operands::{Gathered, Rows, Sizes, Weights};
use crate::library::conv::words::ConvKernels;
use crate::parallel::{Parallel, Serial};

/// The gradient written out.
fn expected(setup: &Setup) -> Vec<f32> {
    let [o, k, i] = [
        setup.dims(|w| w.output),
        setup.dims(|w| w.taps),
        setup.dims(|w| w.input),
    ];
    let split = |at: usize, of: [usize; AXES]| [at / (of[1] * of[2]), at / of[2] % of[1], at % of[2]];
    let (os, ks): (usize, usize) = (o.iter().product(), k.iter().product());
    let mut x = vec![0.0; setup.x.len()];
    for plane in 0..setup.sizes.samples * setup.sizes.groups {
        for (place, tap) in (0..os).flat_map(|place| (0..ks).map(move |tap| (place, tap))) {
            let (at, by) = (split(place, o), split(tap, k));
            let to: [i64; AXES] = std::array::from_fn(|axis| {
                let window = &setup.windows[axis];
                at[axis] as i64 * window.stride + by[axis] as i64 * window.dilation - window.padding
            });
            if (0..AXES).all(|axis| (0..i[axis] as i64).contains(&to[axis])) {
                let [a, b, c] = to.map(|to| to as usize);
                let weight = setup.w[plane % setup.sizes.groups * ks + tap];
                x[((plane * i[0] + a) * i[1] + b) * i[2] + c] += setup.y[plane * os + place] * weight;
            }
        }
    }
    x
}

/// The gradient by all phases together, and phase after phase.
fn both(setup: &Setup, kernels: &ConvKernels<u32>, parallel: &dyn Parallel) -> [Vec<f32>; 2] {
    let (sizes, passes) = (setup.sizes, Pass::backward(&setup.windows));
    let [o, k, i] = [
        setup.dims(|w| w.output),
        setup.dims(|w| w.taps),
        setup.dims(|w| w.input),
    ];
    let (n, g) = (sizes.samples, sizes.groups);
    let (ys, xs) = (
        strides(&[n, g, o[0], o[1], o[2]]),
        strides(&[n, g, i[0], i[1], i[2]]),
    );
    let ws = strides(&[g, k[0], k[1], k[2]]);
    let gathered = Gathered {
        ptr: setup.y.as_ptr().cast(),
        sample: ys[0],
        group: ys[1],
        channel: 0,
        channels: 1,
        spatial: [ys[2], ys[3], ys[4]],
    };
    let weights = Weights {
        ptr: setup.w.as_ptr().cast(),
        group: ws[0],
        row: 0,
        channel: 0,
        channels: 1,
        taps: [ws[1], ws[2], ws[3]],
        extents: k,
    };
    let [mut together, mut apart] = [(); 2].map(|()| vec![f32::NAN; setup.x.len()]);
    let rows = |ptr: *mut f32| Rows {
        ptr: ptr.cast::<u32>(),
        sample: xs[0],
        group: xs[1],
        row: 0,
        spatial: [xs[2], xs[3], xs[4]],
    };
    // SAFETY: the vectors have the elements that sizes and strides reach.
    unsafe {
        let target = rows(together.as_mut_ptr());
        phases::run(kernels, &passes, (sizes, gathered, weights), target, parallel);
        for pass in &passes {
            let job = forward::Job {
                sizes,
                gathered,
                weights,
                target: rows(apart.as_mut_ptr()).of_phase(pass),
                pass,
            };
            forward::run(kernels, &job, std::ptr::null(), parallel, None);
        }
    }
    [together, apart]
}

#[test]
fn phases_together_are_those_one_by_one() {
    let flat = window(1, 1, 1, 1, 0);
    let shapes = [
        (2, 9, [flat, window(8, 4, 3, 2, 1), window(12, 6, 3, 2, 1)]),
        (1, 70, [flat, window(7, 4, 3, 2, 1), window(9, 5, 3, 2, 1)]),
        (3, 5, [flat, window(29, 15, 5, 2, 2), window(37, 19, 5, 2, 2)]),
        (1, 3, [flat, window(112, 56, 3, 2, 1), window(113, 57, 3, 2, 1)]),
        (1, 2, [flat, window(190, 95, 3, 2, 1), window(200, 100, 3, 2, 1)]),
        (2, 4, [flat, window(20, 20, 3, 1, 1), window(33, 11, 3, 3, 0)]),
        (2, 4, [flat, window(21, 7, 4, 3, 1), window(20, 20, 3, 1, 1)]),
        (
            1,
            6,
            [
                window(6, 3, 3, 2, 1),
                window(8, 4, 2, 2, 0),
                window(10, 5, 2, 2, 0),
            ],
        ),
    ];
    for (samples, groups, windows) in shapes {
        let sizes = Sizes {
            samples,
            groups,
            rows: 1,
            channels: 1,
        };
        let mut setup = Setup::new(sizes, windows);
        let expected = expected(&setup);
        for way in ways() {
            for threads in [2, 7] {
                let [together, apart] = both(&setup, &kernels(way), &Threads(threads));
                assert!(
                    together == expected && apart == expected,
                    "{way:?} {sizes:?} {windows:?}"
                );
            }
        }
        let uneven =
            |values: &mut Vec<f32>| values.iter_mut().for_each(|value| *value = (*value * 1.7).sin());
        uneven(&mut setup.w);
        uneven(&mut setup.y);
        let [first, _] = both(&setup, &kernels((crate::isa::Isa::Baseline, false)), &Serial);
        for way in ways() {
            let [together, apart] = both(&setup, &kernels(way), &Threads(3));
            assert!(bits(&together) == bits(&first), "{way:?} {sizes:?} {windows:?}");
            assert!(bits(&apart) == bits(&first), "{way:?} {sizes:?} {windows:?}");
        }
    }
    let sizes = Sizes {
        samples: 2,
        groups: 4,
        rows: 1,
        channels: 1,
    };
    let suits = |width, output, taps, padding, strides| {
        let windows = [
            flat,
            window(8, 4, taps, 2, padding),
            window(width, output, taps, 2, padding),
        ];
        phases::suits(&Pass::backward(&windows), &sizes, strides)
    };
    assert!(suits(32, 16, 3, 1, [256, 32, 1]));
    assert!(!suits(30, 15, 3, 1, [240, 30, 1]), "short lines");
    assert!(!suits(32, 16, 1, 0, [256, 32, 1]), "phases without taps");
    assert!(
        !suits(32, 16, 3, 1, [1024, 128, 4]),
        "channels that are neighbours"
    );
}
