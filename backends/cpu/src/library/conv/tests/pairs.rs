//! Pairs of bf16: every way and form of them, against sums that are written out. Sums are seen with all their bits.

use super::{Setup, Threads, shapes, strides, ways};
use crate::library::conv::forward;
use crate::library::conv::geometry::{AXES, Axis, Pass};
use crate::library::conv::operands::{Gathered, Rows, Sizes, Weights};
use crate::library::conv::pairs::{Pairs, of};
use crate::library::conv::words::{ConvKernels, Word};
use crate::library::matmul::MatDType;
use crate::parallel::{Parallel, Serial};
use half::bf16;

/// Numbers of usual size, tiny ones, and some below the least normal one.
fn numbers(count: usize, seed: usize) -> Vec<bf16> {
    let number = |i: usize| {
        let usual = ((i * 37 + seed * 101) as f32).sin();
        match (i * 31 + seed) % 13 {
            0 => bf16::from_f32(usual * 1e-19),
            1 => bf16::from_bits((i % 128) as u16 | ((i % 2) as u16) << 15),
            2 => bf16::from_f32(-0.0),
            _ => bf16::from_f32(usual),
        }
    };
    (0..count).map(number).collect()
}

/// Zero for what lies below the least normal number.
fn flushed(x: f32) -> f32 {
    match x.abs() < f32::MIN_POSITIVE {
        true => 0.0_f32.copysign(x),
        false => x,
    }
}

fn pass(setup: &Setup) -> Pass {
    Pass {
        axes: setup.windows.each_ref().map(Axis::forward),
    }
}

/// Where one half of a sum's bits goes in place of the rounded sum.
unsafe fn half<const UPPER: bool>(to: *mut u16, step: isize, sums: *const u32, count: usize) {
    for k in 0..count {
        // SAFETY: the caller vouches for `count` sums and elements of the result.
        unsafe {
            let bits = *sums.add(k) >> if UPPER { 16 } else { 0 };
            to.offset(k as isize * step).write(bits as u16);
        }
    }
}

struct Laid {
    xs: Vec<isize>,
    ws: Vec<isize>,
    ys: Vec<isize>,
    extents: [usize; AXES],
    len: usize,
}

fn laid(setup: &Setup) -> Laid {
    let Sizes {
        samples: n,
        groups: g,
        rows,
        channels,
    } = setup.sizes;
    let [o, k, i] = [
        setup.dims(|w| w.output),
        setup.dims(|w| w.taps),
        setup.dims(|w| w.input),
    ];
    Laid {
        xs: strides(&[n, g, channels, i[0], i[1], i[2]]),
        ws: strides(&[g, rows, channels, k[0], k[1], k[2]]),
        ys: strides(&[n, g, rows, o[0], o[1], o[2]]),
        extents: k,
        len: setup.y.len(),
    }
}

/// The bits of the sums, with weights that are packed before the launch where they may be, and by it.
fn run(
    kernels: &ConvKernels<u16>,
    setup: &Setup,
    (x, w): (&[bf16], &[bf16]),
    parallel: &dyn Parallel,
) -> [Vec<u32>; 2] {
    let Laid {
        xs,
        ws,
        ys,
        extents,
        len,
    } = laid(setup);
    let (sizes, pass) = (setup.sizes, pass(setup));
    let lanes = kernels.sizes(&sizes);
    let weights = Weights {
        ptr: w.as_ptr().cast(),
        group: ws[0],
        row: ws[1],
        channel: ws[2],
        channels: sizes.channels,
        taps: [ws[3], ws[4], ws[5]],
        extents,
    };
    let gathered = Gathered {
        ptr: x.as_ptr().cast(),
        sample: xs[0],
        group: xs[1],
        channel: xs[2],
        channels: sizes.channels,
        spatial: [xs[3], xs[4], xs[5]],
    };
    let channels = forward::Channels::new(kernels, [xs[2], xs[5]], [ys[2], ys[5]]);
    let width = forward::reads_packed(kernels, &lanes, &pass, extents, channels);
    let mut packed =
        vec![u32::MAX; width.map_or(0, |width| forward::packed_len(kernels, &lanes, extents, width))];
    [true, false].map(|before| {
        let halves = [half::<false>, half::<true>].map(|narrow| {
            let mut y = vec![77_u16; len];
            let job = forward::Job {
                sizes: lanes,
                gathered,
                weights,
                target: Rows {
                    ptr: y.as_mut_ptr(),
                    sample: ys[0],
                    group: ys[1],
                    row: ys[2],
                    spatial: [ys[3], ys[4], ys[5]],
                },
                pass: &pass,
            };
            let kernels = ConvKernels { narrow, ..*kernels };
            // SAFETY: the operands have these extents and strides, and the room for packed weights is what was asked for.
            unsafe {
                let prepared = match before && width.is_some() {
                    true => {
                        forward::pack_all(&kernels, &lanes, &weights, packed.as_mut_ptr());
                        packed.as_ptr()
                    }
                    false => std::ptr::null(),
                };
                forward::run(&kernels, &job, prepared, parallel, None);
            }
            y
        });
        let [lower, upper] = &halves;
        (lower.iter().zip(upper))
            .map(|(&lower, &upper)| u32::from(lower) | u32::from(upper) << 16)
            .collect()
    })
}

/// The sums written out, pair after pair, tap after tap, the odd channel first.
fn expected(setup: &Setup, x: &[bf16], w: &[bf16]) -> Vec<u32> {
    let Laid {
        xs,
        ws,
        ys,
        extents,
        len,
    } = laid(setup);
    let Sizes {
        samples,
        groups,
        rows,
        channels,
    } = setup.sizes;
    let (outputs, inputs) = (setup.dims(|w| w.output), setup.dims(|w| w.input));
    let mut y = vec![0; len];
    let flat = |at: [isize; 6], strides: &[isize]| -> usize {
        at.iter()
            .zip(strides)
            .map(|(at, stride)| at * stride)
            .sum::<isize>() as usize
    };
    let split = |at: usize, of: [usize; AXES]| {
        [at / (of[1] * of[2]), at / of[2] % of[1], at % of[2]].map(|at| at as isize)
    };
    let places: usize = outputs.iter().product();
    for index in 0..samples * groups * rows * places {
        let (at, [n, g, m]) = (
            split(index % places, outputs),
            split(index / places, [samples, groups, rows]),
        );
        let mut sum = 0.0_f32;
        for pair in 0..channels.div_ceil(2) {
            for tap in 0..extents.iter().product() {
                let by = split(tap, extents);
                let from: [isize; AXES] = std::array::from_fn(|axis| {
                    let window = &setup.windows[axis];
                    (at[axis] as i64 * window.stride + by[axis] as i64 * window.dilation - window.padding)
                        as isize
                });
                let there = (0..AXES).all(|axis| (0..inputs[axis] as isize).contains(&from[axis]));
                for channel in [2 * pair + 1, 2 * pair] {
                    if channel >= channels {
                        continue;
                    }
                    let c = channel as isize;
                    let a = match there {
                        true => x[flat([n, g, c, from[0], from[1], from[2]], &xs)].to_f32(),
                        false => 0.0,
                    };
                    let b = w[flat([g, m, c, by[0], by[1], by[2]], &ws)].to_f32();
                    sum = flushed(flushed(a).mul_add(flushed(b), sum));
                }
            }
        }
        y[flat([n, g, m, at[0], at[1], at[2]], &ys)] = sum.to_bits();
    }
    y
}

#[test]
fn all_ways_take_the_odd_channel_first() {
    let mut forms = Vec::new();
    for (sizes, windows) in shapes() {
        let setup = Setup::new(sizes, windows);
        let takes_lines = |channels: usize| forward::takes_lines(&Sizes { channels, ..sizes }, &pass(&setup));
        if sizes.channels < 2 || takes_lines(sizes.channels) || takes_lines(sizes.channels.div_ceil(2)) {
            continue;
        }
        let (x, w) = (numbers(setup.x.len(), 1), numbers(setup.w.len(), 2));
        let expected = expected(&setup, &x, &w);
        for way in ways() {
            for by_halves in [false, true] {
                if by_halves && !way.0.sums_halves() {
                    continue;
                }
                let base = u16::kernels(MatDType::Bf16, way.0, way.1, false).unwrap();
                let kernels = of(base, way, by_halves);
                forms.push((way.1, kernels.pairs.unwrap()));
                // Those of the compiler are slow.
                let parallels = [&Serial as &dyn Parallel, &Threads(3)];
                for &parallel in &parallels[..1 + usize::from(way.1)] {
                    for found in run(&kernels, &setup, (&x, &w), parallel) {
                        let wrong = found
                            .iter()
                            .zip(&expected)
                            .position(|(found, expected)| found != expected);
                        assert_eq!(wrong, None, "{way:?} {:?} {sizes:?} {windows:?}", kernels.pairs);
                    }
                }
            }
        }
    }
    assert!(forms.contains(&(false, Pairs::Joined)));
    #[cfg(all(target_arch = "x86_64", unix))]
    assert!(forms.contains(&(true, Pairs::Apart)) || !crate::isa::Isa::Avx2.is_available());
}
