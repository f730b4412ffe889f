//! Integers of 8 bits: every pair of signs, way and form of lanes, against sums that are written out.

use super::{Setup, Threads, shapes, strides, ways, window};
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::library::conv::bytes::by_squares;
use crate::library::conv::bytes::{fours, pairs, where_it_lies};
use crate::library::conv::forward;
use crate::library::conv::geometry::{AXES, Axis, Pass, Window};
use crate::library::conv::operands::{Gathered, Rows, Sizes, Weights};
use crate::library::conv::words::{ConvKernels, Word};
use crate::library::gemm::Signs;
use crate::library::matmul::MatDType;
use crate::parallel::{Parallel, Serial};

/// Bytes with the extreme ones among them.
fn bytes(count: usize, seed: usize) -> Vec<u8> {
    let byte = |i: usize| match (i * 31 + seed) % 11 {
        0 => 255,
        1 => 128,
        2 => 127,
        _ => (i * 89 + seed * 7 + i / 13) as u8,
    };
    (0..count).map(byte).collect()
}

/// What they are.
fn numbers(bytes: &[u8], signed: bool) -> Vec<f32> {
    let number = |&byte: &u8| match signed {
        true => f32::from(byte.cast_signed()),
        false => f32::from(byte),
    };
    bytes.iter().map(number).collect()
}

/// Elements of samples whose channels are neighbours, of samples whose places are.
fn with_channels_last<V: Copy>(values: &[V], samples: usize, channels: usize) -> Vec<V> {
    let places = values.len() / (samples * channels).max(1);
    let at = |i: usize| (i / (places * channels), i / channels % places, i % channels);
    let of = |(sample, place, channel)| values[(sample * channels + channel) * places + place];
    (0..values.len()).map(|i| of(at(i))).collect()
}

/// The same strides where channels are neighbours; the first three are those of samples, groups and channels.
fn strides_with_channels_last([n, g, c, d, h, w]: [usize; 6]) -> Vec<isize> {
    let of = strides(&[n, d, h, w, g, c]);
    [0, 4, 5, 1, 2, 3].map(|axis| of[axis]).to_vec()
}

/// The convolution with weights that are packed before the launch, and by it.
fn run(
    kernels: &ConvKernels<u32>,
    setup: &Setup,
    (x, w): (&[u8], &[u8]),
    (parallel, last): (&dyn Parallel, bool),
) -> [Vec<i32>; 2] {
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
    let strides_of = |extents: [usize; 6]| match last {
        true => strides_with_channels_last(extents),
        false => strides(&extents),
    };
    let xs = strides_of([n, g, sizes.channels, i[0], i[1], i[2]]);
    let ys = strides_of([n, g, sizes.rows, o[0], o[1], o[2]]);
    let ws = strides(&[g, sizes.rows, sizes.channels, k[0], k[1], k[2]]);
    let mut y = vec![77_i32; setup.y.len()];
    let lanes = kernels.sizes(&sizes);
    let weights = Weights {
        ptr: w.as_ptr().cast(),
        group: ws[0],
        row: ws[1],
        channel: ws[2],
        channels: sizes.channels,
        taps: [ws[3], ws[4], ws[5]],
        extents: k,
    };
    let gathered = Gathered {
        ptr: x.as_ptr(),
        sample: xs[0],
        group: xs[1],
        channel: xs[2],
        channels: sizes.channels,
        spatial: [xs[3], xs[4], xs[5]],
    };
    let kernels = &match last {
        true => where_it_lies(*kernels, &gathered, &sizes, &pass),
        false => *kernels,
    };
    let channels = forward::Channels::new(kernels, [xs[2], xs[5]], [ys[2], ys[5]]);
    let width = forward::reads_packed(kernels, &lanes, &pass, k, channels);
    let mut packed = vec![-1_i32; width.map_or(0, |width| forward::packed_len(kernels, &lanes, k, width))];
    [true, false].map(|before| {
        y.fill(77);
        let job = forward::Job {
            sizes: lanes,
            gathered: gathered.cast(),
            weights,
            target: Rows {
                ptr: y.as_mut_ptr().cast(),
                sample: ys[0],
                group: ys[1],
                row: ys[2],
                spatial: [ys[3], ys[4], ys[5]],
            },
            pass: &pass,
        };
        let mut prepared = std::ptr::null();
        // SAFETY: the vectors have the elements that sizes and strides reach.
        unsafe {
            if before && width.is_some() {
                forward::pack_all(kernels, &lanes, &weights, packed.as_mut_ptr().cast());
                prepared = packed.as_ptr().cast();
            }
            forward::run(kernels, &job, prepared, parallel, None);
        }
        y.clone()
    })
}

fn cases() -> Vec<(Sizes, [Window; AXES])> {
    let flat = window(1, 1, 1, 1, 0);
    let dilated = |window: Window| Window {
        dilation: 2,
        ..window
    };
    let sizes = |samples, groups, rows, channels| Sizes {
        samples,
        groups,
        rows,
        channels,
    };
    let mut cases = shapes();
    cases.extend([
        // Taps that meet nothing, a lane that is not full, few positions, steps of three, dilation.
        (
            sizes(2, 1, 40, 6),
            [flat, window(1, 1, 3, 1, 1), window(2, 2, 3, 1, 1)],
        ),
        (
            sizes(1, 2, 20, 7),
            [flat, window(23, 8, 3, 3, 1), window(40, 14, 3, 3, 1)],
        ),
        (
            sizes(1, 1, 33, 5),
            [
                flat,
                dilated(window(20, 20, 3, 1, 2)),
                dilated(window(41, 19, 3, 2, 0)),
            ],
        ),
        (
            sizes(1, 1, 6, 9),
            [
                flat,
                dilated(window(20, 20, 3, 1, 2)),
                dilated(window(41, 19, 3, 2, 0)),
            ],
        ),
        (
            sizes(1, 1, 3, 3),
            [flat, window(30, 30, 3, 1, 1), window(30, 30, 3, 1, 1)],
        ),
        // Whole squares of channels.
        (
            sizes(2, 1, 40, 64),
            [flat, window(13, 13, 3, 1, 1), window(11, 11, 3, 1, 1)],
        ),
        (
            sizes(1, 2, 17, 64),
            [flat, window(9, 5, 3, 2, 1), window(40, 20, 3, 2, 1)],
        ),
        (
            sizes(1, 1, 64, 192),
            [flat, window(7, 7, 1, 1, 0), window(7, 7, 1, 1, 0)],
        ),
        // More lanes than are added together, of which the last ones are fewer.
        (
            sizes(1, 2, 70, 276),
            [flat, window(7, 8, 2, 1, 1), window(8, 8, 1, 1, 0)],
        ),
    ]);
    cases
}

#[test]
fn all_signs_and_forms() {
    for (sizes, windows) in cases() {
        let mut setup = Setup::new(sizes, windows);
        let (x, w) = (bytes(setup.x.len(), 3), bytes(setup.w.len(), 5));
        for (a, b) in [(false, true), (true, false), (true, true), (false, false)] {
            let signs = Signs { a, b };
            (setup.x, setup.w) = (numbers(&x, a), numbers(&w, b));
            let [expected, ..] = setup.expected();
            let expected: Vec<i32> = expected.iter().map(|&sum| sum as i32).collect();
            let (samples, groups) = (sizes.samples, sizes.groups);
            let x_last = with_channels_last(&x, samples, groups * sizes.channels);
            let last_expected = with_channels_last(&expected, samples, groups * sizes.rows);
            for (isa, codegen) in ways() {
                let Some(base) = u32::kernels(MatDType::I32, isa, codegen, false) else {
                    panic!("i32 has words");
                };
                let pass = Pass {
                    axes: windows.each_ref().map(Axis::forward),
                };
                let four = fours(signs, base, isa, codegen)
                    .filter(|kernels| forward::takes(kernels, &kernels.sizes(&sizes), &pass));
                #[cfg(target_arch = "x86_64")]
                let squares = by_squares(signs, base, isa)
                    .filter(|kernels| forward::takes_squares(&kernels.sizes(&sizes), &pass));
                #[cfg(not(target_arch = "x86_64"))]
                let squares = None;
                let forms = [four, squares, Some(pairs(signs, base, isa, codegen))];
                for kernels in forms.into_iter().flatten() {
                    for parallel in [&Serial as &dyn Parallel, &Threads(3)] {
                        for last in [false, true] {
                            let (x, expected) = if last {
                                (&x_last, &last_expected)
                            } else {
                                (&x, &expected)
                            };
                            for found in run(&kernels, &setup, (x, &w), (parallel, last)) {
                                assert!(
                                    found == *expected,
                                    "{signs:?} {isa:?} {codegen} {last} {sizes:?} {windows:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_instruction_for_bytes_is_used() {
    let isas = [Isa::Avx512, Isa::Avx2].into_iter();
    for isa in isas.filter(|isa| isa.is_available() && isa.sums_bytes()) {
        let Some(base) = u32::kernels(MatDType::I32, isa, true, false) else {
            panic!("i32 has words");
        };
        let signs = Signs { a: false, b: true };
        assert!(fours(signs, base, isa, true).is_some() || !cfg!(unix));
    }
}
