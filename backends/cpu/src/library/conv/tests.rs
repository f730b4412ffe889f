//! Every instruction set, numbers of threads, and where the work is cut. Values are whole numbers, so sums are exact in any order.

mod axes;
mod beside;
mod bytes;
mod fast;
mod padding;
mod pairs;
mod phases;
mod product;
mod shapes;
mod tiles;

use super::forward::{self, winograd};
use super::geometry::{AXES, Axis, Pass, Window};
use super::operands::{Gathered, Rows, Sizes, Weights};
use super::words::{ConvKernels, Word};
use super::{outer, weight};
use crate::isa::Isa;
use crate::library::matmul::MatDType;
use crate::parallel::{Parallel, Serial};
use shapes::shapes;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `n` threads for one call, each taking the next index.
struct Threads(usize);

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.0
    }
    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.0 {
                scope.spawn(|| {
                    loop {
                        match next.fetch_add(1, Ordering::Relaxed) {
                            i if i < n => body(i),
                            _ => break,
                        }
                    }
                });
            }
        });
    }
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// Those of f32.
fn kernels((isa, codegen): (Isa, bool)) -> ConvKernels<u32> {
    u32::kernels(MatDType::F32, isa, codegen, false).expect("words of 32 bits may be f32")
}

/// The same where the fast form is asked for.
fn fast_kernels((isa, codegen): (Isa, bool)) -> ConvKernels<u32> {
    u32::kernels(MatDType::F32, isa, codegen, true).expect("words of 32 bits may be f32")
}

/// Instruction sets with and without machine code of our own.
fn ways() -> impl Iterator<Item = (Isa, bool)> {
    isas().flat_map(|isa| [(isa, true), (isa, false)])
}

const fn window(input: usize, output: usize, taps: usize, stride: i64, padding: i64) -> Window {
    Window {
        input,
        output,
        taps,
        stride,
        dilation: 1,
        padding,
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn strides(extents: &[usize]) -> Vec<isize> {
    let stride = |axis: usize| extents[axis + 1..].iter().product::<usize>() as isize;
    (0..extents.len()).map(stride).collect()
}

fn small(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7 + seed * 13 + i / 11) % 9) as f32 - 4.0)
        .collect()
}

struct Setup {
    sizes: Sizes,
    windows: [Window; AXES],
    x: Vec<f32>,
    w: Vec<f32>,
    y: Vec<f32>,
}

impl Setup {
    fn new(sizes: Sizes, windows: [Window; AXES]) -> Setup {
        let points = |of: fn(&Window) -> usize| windows.iter().map(of).product::<usize>();
        let (n, g) = (sizes.samples, sizes.groups);
        Setup {
            sizes,
            windows,
            x: small(n * g * sizes.channels * points(|w| w.input), 1),
            w: small(g * sizes.rows * sizes.channels * points(|w| w.taps), 2),
            y: small(n * g * sizes.rows * points(|w| w.output), 3),
        }
    }

    fn dims(&self, of: fn(&Window) -> usize) -> [usize; AXES] {
        self.windows.each_ref().map(of)
    }

    /// The sums written out: output, and weight's gradient.
    fn expected(&self) -> [Vec<f32>; 3] {
        let (mut y, mut w) = (vec![0.0; self.y.len()], vec![0.0; self.w.len()]);
        let [o, k, i] = [
            self.dims(|w| w.output),
            self.dims(|w| w.taps),
            self.dims(|w| w.input),
        ];
        let flat = |at: [usize; AXES], of: [usize; AXES]| (at[0] * of[1] + at[1]) * of[2] + at[2];
        let split = |at: usize, of: [usize; AXES]| [at / (of[1] * of[2]), at / of[2] % of[1], at % of[2]];
        let (os, ks, is): (usize, usize, usize) =
            (o.iter().product(), k.iter().product(), i.iter().product());
        for n in 0..self.sizes.samples {
            for g in 0..self.sizes.groups {
                let (rows, channels) = (self.sizes.rows, self.sizes.channels);
                for (m, c) in (0..rows).flat_map(|m| (0..channels).map(move |c| (m, c))) {
                    for (place, tap) in (0..os).flat_map(|place| (0..ks).map(move |tap| (place, tap))) {
                        let (at, by) = (split(place, o), split(tap, k));
                        let from: [i64; AXES] = std::array::from_fn(|axis| {
                            let window = &self.windows[axis];
                            at[axis] as i64 * window.stride + by[axis] as i64 * window.dilation
                                - window.padding
                        });
                        if (0..AXES).any(|axis| from[axis] < 0 || from[axis] >= i[axis] as i64) {
                            continue;
                        }
                        let x = self.x[((n * self.sizes.groups + g) * channels + c) * is
                            + flat(from.map(|v| v as usize), i)];
                        let (y_at, w_at) = (
                            ((n * self.sizes.groups + g) * rows + m) * os + place,
                            ((g * rows + m) * channels + c) * ks + tap,
                        );
                        y[y_at] += x * self.w[w_at];
                        w[w_at] += x * self.y[y_at];
                    }
                }
            }
        }
        [y, w.clone(), w]
    }

    /// The output, and the weight's gradient by dot products and, where it suits, by outer products.
    fn run(&self, way: (Isa, bool), parallel: &dyn Parallel) -> [Vec<f32>; 3] {
        self.run_by(&kernels(way), parallel)
    }

    fn run_by(&self, kernels: &ConvKernels<u32>, parallel: &dyn Parallel) -> [Vec<f32>; 3] {
        let sizes = self.sizes;
        let pass = Pass {
            axes: self.windows.each_ref().map(Axis::forward),
        };
        let [o, k, i] = [
            self.dims(|w| w.output),
            self.dims(|w| w.taps),
            self.dims(|w| w.input),
        ];
        let (n, g) = (sizes.samples, sizes.groups);
        let xs = strides(&[n, g, sizes.channels, i[0], i[1], i[2]]);
        let ys = strides(&[n, g, sizes.rows, o[0], o[1], o[2]]);
        let ws = strides(&[g, sizes.rows, sizes.channels, k[0], k[1], k[2]]);
        let gathered = Gathered {
            ptr: self.x.as_ptr().cast(),
            sample: xs[0],
            group: xs[1],
            channel: xs[2],
            channels: sizes.channels,
            spatial: [xs[3], xs[4], xs[5]],
        };
        let weights = Weights {
            ptr: self.w.as_ptr().cast(),
            group: ws[0],
            row: ws[1],
            channel: ws[2],
            channels: sizes.channels,
            taps: [ws[3], ws[4], ws[5]],
            extents: k,
        };
        let (mut y, mut w) = (vec![f32::NAN; self.y.len()], vec![f32::NAN; self.w.len()]);
        let mut outer_w = w.clone();
        let rows = Rows {
            ptr: y.as_mut_ptr().cast(),
            sample: ys[0],
            group: ys[1],
            row: ys[2],
            spatial: [ys[3], ys[4], ys[5]],
        };
        let forward = forward::Job {
            sizes,
            gathered,
            weights,
            target: rows,
            pass: &pass,
        };
        let weight = weight::Job {
            sizes,
            x: gathered,
            dy: Rows {
                ptr: self.y.as_ptr().cast(),
                sample: rows.sample,
                group: rows.group,
                row: rows.row,
                spatial: rows.spatial,
            },
            target: weights,
            out: w.as_mut_ptr().cast(),
            pass: &pass,
        };
        // SAFETY: the vectors have the elements that sizes and strides reach.
        unsafe {
            let form = winograd::form(kernels, &sizes, &pass);
            let width = forward::reads_packed(kernels, &sizes, &pass, k, forward::Channels::default());
            let len = match form {
                Some(form) => winograd::packed_len(kernels, form, &sizes),
                None => width.map_or(0, |width| forward::packed_len(kernels, &sizes, k, width)),
            };
            let mut packed = vec![f32::NAN; len];
            let mut prepared = std::ptr::null();
            if let Some(form) = form {
                winograd::pack_all(kernels, form, &sizes, &weights, packed.as_mut_ptr().cast());
                prepared = packed.as_ptr().cast();
            } else if width.is_some() {
                forward::pack_all(kernels, &sizes, &weights, packed.as_mut_ptr().cast());
                prepared = packed.as_ptr().cast();
            }
            forward::run(kernels, &forward, prepared, parallel, None);
            let from_prepared = std::mem::replace(&mut y, vec![f32::NAN; self.y.len()]);
            let forward = forward::Job {
                target: Rows {
                    ptr: y.as_mut_ptr().cast(),
                    ..rows
                },
                ..forward
            };
            forward::run(kernels, &forward, std::ptr::null(), parallel, None);
            assert!(bits(&from_prepared) == bits(&y), "packed before: {sizes:?}");
            weight::run(kernels, &weight, parallel);
            if outer::suits(&weight, &self.windows) {
                let weight = weight::Job {
                    out: outer_w.as_mut_ptr().cast(),
                    ..weight
                };
                outer::run(kernels, &weight, &self.windows, parallel);
            } else {
                assert!(sizes.rows < 4);
                outer_w.clone_from(&w);
            }
        }
        [y, w, outer_w]
    }

    /// The gradient with respect to x, for strides of 1.
    fn backward(&self, kernels: &ConvKernels<u32>, parallel: &dyn Parallel) -> Vec<f32> {
        let sizes = Sizes {
            rows: self.sizes.channels,
            channels: self.sizes.rows,
            ..self.sizes
        };
        let [o, k, i] = [
            self.dims(|w| w.output),
            self.dims(|w| w.taps),
            self.dims(|w| w.input),
        ];
        let (n, g) = (sizes.samples, sizes.groups);
        let ys = strides(&[n, g, sizes.channels, o[0], o[1], o[2]]);
        let xs = strides(&[n, g, sizes.rows, i[0], i[1], i[2]]);
        let ws = strides(&[g, sizes.channels, sizes.rows, k[0], k[1], k[2]]);
        let mut dx = vec![f32::NAN; self.x.len()];
        let job = forward::Job {
            sizes,
            gathered: Gathered {
                ptr: self.y.as_ptr().cast(),
                sample: ys[0],
                group: ys[1],
                channel: ys[2],
                channels: sizes.channels,
                spatial: [ys[3], ys[4], ys[5]],
            },
            weights: Weights {
                ptr: self.w.as_ptr().cast(),
                group: ws[0],
                row: ws[2],
                channel: ws[1],
                channels: sizes.channels,
                taps: [ws[3], ws[4], ws[5]],
                extents: k,
            },
            target: Rows {
                ptr: dx.as_mut_ptr().cast(),
                sample: xs[0],
                group: xs[1],
                row: xs[2],
                spatial: [xs[3], xs[4], xs[5]],
            },
            pass: &Pass {
                axes: self.windows.each_ref().map(|window| Axis::backward(window, 0)),
            },
        };
        // SAFETY: the vectors have the elements that sizes and strides reach.
        unsafe { forward::run(kernels, &job, std::ptr::null(), parallel, None) };
        dx
    }

    /// The convolution whose output is the gradient with respect to x, for strides of 1 and one channel a group.
    fn mirrored(&self) -> Setup {
        let taps: usize = self.dims(|w| w.taps).iter().product();
        let windows = self.windows.map(|w| Window {
            input: w.output,
            output: w.input,
            padding: w.taps as i64 - 1 - w.padding,
            ..w
        });
        Setup {
            sizes: self.sizes,
            windows,
            x: self.y.clone(),
            w: (self.w.chunks(taps))
                .flat_map(|taps| taps.iter().rev().copied())
                .collect(),
            y: self.x.clone(),
        }
    }
}

#[test]
fn the_gradient_of_one_channel_walks_the_taps_backwards() {
    let one_channel = |(sizes, windows): &(Sizes, [Window; AXES])| {
        sizes.rows * sizes.channels == 1 && windows.iter().all(|window| window.stride == 1)
    };
    let shapes: Vec<_> = shapes().into_iter().filter(one_channel).collect();
    assert!(shapes.len() >= 4);
    for (sizes, windows) in shapes {
        let setup = Setup::new(sizes, windows);
        let [expected, ..] = setup.mirrored().expected();
        for isa in isas() {
            assert!(
                setup.backward(&kernels((isa, true)), &Threads(2)) == expected,
                "{isa:?} {sizes:?} {windows:?}"
            );
        }
    }
}

#[test]
fn every_instruction_set_and_number_of_threads() {
    for (sizes, windows) in shapes() {
        let setup = Setup::new(sizes, windows);
        let expected = setup.expected();
        for way in ways() {
            assert!(setup.run(way, &Serial) == expected, "{way:?} {sizes:?}");
            for threads in [2, 7] {
                assert!(
                    setup.run(way, &Threads(threads)) == expected,
                    "{way:?} {sizes:?} {threads} threads"
                );
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_instruction_set_and_threads() {
    let uneven = |values: &mut Vec<f32>| values.iter_mut().for_each(|value| *value = (*value * 1.7).sin());
    let bits = |all: [Vec<f32>; 3]| all.map(|values| bits(&values));
    for (sizes, windows) in shapes() {
        let mut setup = Setup::new(sizes, windows);
        uneven(&mut setup.x);
        uneven(&mut setup.w);
        uneven(&mut setup.y);
        let first = bits(setup.run((Isa::Baseline, false), &Serial));
        for way in ways() {
            for threads in [1, 2, 3, 16] {
                assert!(
                    bits(setup.run(way, &Threads(threads))) == first,
                    "{way:?}, {threads} threads, {sizes:?}"
                );
            }
        }
    }
}
