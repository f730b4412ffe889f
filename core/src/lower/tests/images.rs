//! Images whose channels come last.

use super::judge::{ALL, Cpu};
use super::random::{Dice, cases};
use super::{Write, check, program, shape};
use crate::context::Context;
use crate::graph::{ConvAttributes, Graph, NodeId, Op, rewrite};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::jit;
use crate::lower::{Program, Slot, Source, Step, in_parts};
use crate::ops::{ConvOptions, PoolOptions};
use crate::random::Mt19937;
use crate::tensor::Tensor;
use crate::tensor::shape::{Axes, Shape};
use std::collections::BTreeSet;

const LEAST: u64 = 0xff80_0000;

fn attributes(groups: usize, stride: usize, padding: usize) -> ConvAttributes {
    ConvAttributes {
        groups,
        stride: [stride; 3],
        dilation: [1; 3],
        low: [padding; 3],
        high: [padding; 3],
        fast: false,
    }
}

impl Write {
    /// A convolution with weights of its own.
    #[track_caller]
    fn conv(&mut self, x: NodeId, channels: usize, taps: usize, groups: usize, stride: usize) -> NodeId {
        let inputs = self.0.shape(x)[1] / groups;
        let weights = self.input(&[channels, inputs, taps, taps]);
        self.op(Op::Conv(attributes(groups, stride, taps / 2)), &[x, weights])
    }

    /// The same numbers for all places of an image, as many as it has channels.
    #[track_caller]
    fn bias(&mut self, x: NodeId) -> NodeId {
        let wide = *self.0.shape(x);
        let bias = self.input(&[1, wide[1], 1, 1]);
        let bias = self.op(Op::Expand(wide), &[bias]);
        self.map(ScalarOp::Add, &[x, bias])
    }

    #[track_caller]
    fn pool(&mut self, op: ReduceOp, bits: u64, padded: bool, x: NodeId) -> NodeId {
        let of = *self.0.shape(x);
        let around = Op::Pad {
            low: shape(&[0, 0, 1, 1]),
            shape: shape(&[of[0], of[1], of[2] + 2, of[3] + 2]),
            bits,
        };
        let mut all = if padded { self.op(around, &[x]) } else { x };
        for axis in [2, 3] {
            let windows = Op::Window {
                axis,
                size: 2,
                step: 2,
                dilation: 1,
            };
            all = self.op(windows, &[all]);
        }
        let axes = [4, 5].into_iter().collect();
        self.op(Op::Reduce { op, axes }, &[all])
    }

    #[track_caller]
    fn over_space(&mut self, op: ReduceOp, x: NodeId) -> NodeId {
        let axes = [2, 3].into_iter().collect();
        self.op(Op::Reduce { op, axes }, &[x])
    }
}

/// Something that is made of an image, and its name.
type Maker = (&'static str, fn(&mut Write, NodeId) -> NodeId);

/// Buffers whose channels are neighbours for the convolutions that read or write them, and those of all their images but arguments.
fn buffers(program: &Program) -> (BTreeSet<Slot>, BTreeSet<Slot>) {
    let (mut last, mut all) = (BTreeSet::new(), BTreeSet::new());
    for step in &program.steps {
        let Step::Launch { source, launch, .. } = step else {
            continue;
        };
        if !matches!(&**source, Source::Library(op) if op.name() == "conv") {
            continue;
        }
        // Batch, group, channel, height, width, then channel and taps of the weights.
        let image = &launch.arguments[0];
        let results = launch.arguments[2..].iter().map(|argument| (argument, 2));
        for (argument, channel) in std::iter::once((image, 5)).chain(results) {
            let strides = argument.strides.as_deref().unwrap_or_default();
            if !matches!(argument.slot, Slot::Local(_)) || strides[4] == 0 && channel == 2 {
                continue;
            }
            all.insert(argument.slot);
            if strides[channel] == 1 {
                last.insert(argument.slot);
            }
        }
    }
    (last, all)
}

/// Checks a graph and counts the buffers of images, and those with their channels last.
#[track_caller]
fn counts(graph: &Graph) -> [usize; 2] {
    let (none, _) = buffers(&program(graph, Cpu::ChannelsFirst));
    assert!(none.is_empty(), "{none:?}");
    let (last, all) = buffers(&check(graph));
    [last.len(), all.len()]
}

#[test]
fn a_residual_block_keeps_its_channels_last() {
    let mut w = Write::default();
    let x = w.input(&[2, 3, 11, 9]);
    let stem = w.conv(x, 32, 3, 1, 2);
    let stem = w.bias(stem);
    let stem = w.map(ScalarOp::Tanh, &[stem]);
    let stem = w.pool(ReduceOp::Max, LEAST, true, stem);
    let inside = w.conv(stem, 32, 3, 1, 2);
    let inside = w.bias(inside);
    let inside = w.map(ScalarOp::Tanh, &[inside]);
    let inside = w.conv(inside, 48, 3, 1, 1);
    let short = w.conv(stem, 48, 1, 1, 2);
    let sum = w.map(ScalarOp::Add, &[inside, short]);
    let y = w.map(ScalarOp::Tanh, &[sum]);
    let mean = w.over_space(ReduceOp::Sum, y);
    w.0.output(mean);
    let with = check(&w.0);
    // Of the stem, its pool, the first convolution, the shortcut and the sum.
    assert_eq!(counts(&w.0), [5, 5], "{with:#?}");
    let without = program(&w.0, Cpu::ChannelsFirst);
    assert_eq!(with.steps.len(), without.steps.len());
    assert_eq!(with.locals, without.locals);
}

#[test]
fn weights_of_channels_are_computed_once() {
    let mut w = Write::default();
    let x = w.input(&[1, 2, 64, 64]);
    let first = w.conv(x, 32, 1, 1, 1);
    let most = w.over_space(ReduceOp::Max, first);
    let most = w.op(Op::Reshape(shape(&[1, 32, 1, 1])), &[most]);
    let weights = w.conv(most, 32, 1, 1, 1);
    let weights = w.map(ScalarOp::Exp, &[weights]);
    let wide = *w.0.shape(first);
    let weights = w.op(Op::Expand(wide), &[weights]);
    let weighed = w.map(ScalarOp::Mul, &[first, weights]);
    let second = w.conv(weighed, 4, 1, 1, 1);
    w.0.output(second);
    let kernels = |program: &Program| -> Vec<String> {
        let name = |step: &Step| match step {
            Step::Launch { source, .. } => match &**source {
                Source::Kernel(kernel) => Some(kernel.name.to_string()),
                _ => None,
            },
            _ => None,
        };
        program.steps.iter().filter_map(name).collect()
    };
    assert_eq!(kernels(&check(&w.0)), ["reduce_max", "mul"]);
    // A plane of one channel has one weight: its kernel computes it.
    let first = program(&w.0, Cpu::ChannelsFirst);
    assert_eq!(kernels(&first), ["reduce_max", "exp_mul"]);
}

#[test]
fn what_others_read_in_their_order_keeps_its_channels_first() {
    let refusing: [Maker; 8] = [
        ("an output", |_, x| x),
        ("a flat one", |w, x| w.op(Op::Reshape(shape(&[1, 32 * 25])), &[x])),
        ("a turned one", |w, x| {
            w.op(Op::Permute([0, 2, 3, 1].into_iter().collect()), &[x])
        }),
        ("groups", |w, x| w.conv(x, 32, 3, 2, 1)),
        ("a join", |w, x| w.op(Op::Concat { axis: 1 }, &[x, x])),
        ("all numbers", |w, x| {
            let axes = Axes::all(4);
            w.op(
                Op::Reduce {
                    op: ReduceOp::Sum,
                    axes,
                },
                &[x],
            )
        }),
        ("a running sum", |w, x| {
            let (op, axis, reverse) = (ReduceOp::Sum, 3, false);
            w.op(Op::Scan { op, axis, reverse }, &[x])
        }),
        ("a map of it turned", |w, x| {
            let order = [0, 1, 3, 2].into_iter().collect();
            let turned = w.op(Op::Permute(order), &[x]);
            let sum = w.map(ScalarOp::Add, &[x, turned]);
            w.conv(sum, 32, 1, 1, 1)
        }),
    ];
    for (name, refuse) in refusing {
        let mut w = Write::default();
        let x = w.input(&[1, 4, 5, 5]);
        let first = w.conv(x, 32, 1, 1, 1);
        let second = w.conv(first, 32, 1, 1, 1);
        let other = refuse(&mut w, first);
        for output in [second, other] {
            w.0.output(output);
        }
        let (last, _) = buffers(&check(&w.0));
        assert!(last.is_empty(), "{name}: {last:?}");
    }
}

#[test]
fn what_a_convolution_and_an_output_take_lies_with_its_channels_last() {
    let mut w = Write::default();
    let x = w.input(&[1, 4, 5, 5]);
    let first = w.conv(x, 32, 1, 1, 1);
    let second = w.conv(first, 32, 3, 1, 1);
    let sum = w.map(ScalarOp::Add, &[first, second]);
    w.0.output(sum);
    assert_eq!(counts(&w.0), [1, 2]);
    // A map that is an output alone takes nothing.
    let mut w = Write::default();
    let x = w.input(&[1, 4, 5, 5]);
    let (one, other) = (w.conv(x, 32, 1, 1, 1), w.conv(x, 32, 1, 1, 1));
    let sum = w.map(ScalarOp::Add, &[one, other]);
    w.0.output(sum);
    assert_eq!(counts(&w.0), [0, 2]);
}

/// Wide, by channel, narrow: what lies between the three.
#[test]
fn channels_by_themselves_and_what_narrows_them_take_channels_last() {
    let mut w = Write::default();
    let x = w.input(&[1, 8, 5, 5]);
    let wide = w.conv(x, 48, 1, 1, 1);
    let each = w.conv(wide, 48, 3, 48, 2);
    let narrow = w.conv(each, 8, 1, 1, 1);
    w.0.output(narrow);
    assert_eq!(counts(&w.0)[0], 2);
    // Two results for each channel are of groups.
    let mut w = Write::default();
    let x = w.input(&[1, 8, 5, 5]);
    let wide = w.conv(x, 48, 1, 1, 1);
    let pairs = w.conv(wide, 96, 3, 48, 1);
    w.0.output(pairs);
    assert_eq!(counts(&w.0)[0], 0);
}

#[test]
fn graphs_with_gradients_keep_their_channels_first() {
    let mut w = Write::default();
    let x = w.input(&[1, 4, 5, 5]);
    let first = w.conv(x, 32, 1, 1, 1);
    let second = w.conv(first, 32, 1, 1, 1);
    let dw = w.op(
        Op::ConvGradWeight(attributes(1, 1, 0), shape(&[32, 32, 1, 1])),
        &[first, second],
    );
    w.0.output(dw);
    assert_eq!(counts(&w.0), [0, 2]);
}

#[test]
fn a_sum_with_what_a_product_made() {
    let mut w = Write::default();
    let (x, a, b) = (w.input(&[2, 4, 3, 5]), w.input(&[64, 7]), w.input(&[7, 15]));
    let made = w.conv(x, 32, 1, 1, 1);
    let (accumulate, output) = (DType::F32, DType::F32);
    let product = w.op(Op::Matmul { accumulate, output }, &[a, b]);
    let product = w.op(Op::Reshape(shape(&[2, 32, 3, 5])), &[product]);
    let sum = w.map(ScalarOp::Add, &[made, product]);
    let y = w.conv(sum, 32, 1, 1, 1);
    w.0.output(y);
    // The sum reads the product as it was made.
    assert_eq!(counts(&w.0), [1, 3]);
}

/// The extents of the kernels between two convolutions on a device without epilogues.
#[track_caller]
fn between(make: fn(&mut Write, NodeId) -> NodeId) -> Vec<Vec<u64>> {
    let mut w = Write::default();
    let x = w.input(&[2, 4, 6, 5]);
    let made = w.conv(x, 32, 1, 1, 1);
    let made = make(&mut w, made);
    let y = w.conv(made, 32, 1, 1, 1);
    w.0.output(y);
    check(&w.0);
    let steps = program(&w.0, Cpu::Plain).steps;
    let extents = |step: &Step| match step {
        Step::Launch { source, launch, .. } if matches!(**source, Source::Kernel(_)) => {
            Some(launch.extents.clone())
        }
        _ => None,
    };
    steps.iter().filter_map(extents).collect()
}

#[test]
fn kernels_walk_images_as_they_lie() {
    assert_eq!(between(|w, x| w.map(ScalarOp::Tanh, &[x])), [[2 * 6 * 5 * 32]]);
    assert_eq!(between(|w, x| w.bias(x)), [[2 * 6 * 5, 32]]);
    // A pool of parts: lines of the result, their places and channels, and the places in a window.
    let pool = between(|w, x| w.pool(ReduceOp::Max, LEAST, false, x));
    assert_eq!(pool, [[2 * 3, 2, 32, 2, 2]]);
}

#[test]
fn softmax_over_channels() {
    let mut w = Write::default();
    let x = w.input(&[2, 4, 3, 5]);
    let made = w.conv(x, 32, 1, 1, 1);
    let soft = w.softmax(1, made);
    let y = w.conv(soft, 32, 1, 1, 1);
    w.0.output(y);
    assert_eq!(counts(&w.0), [2, 3]);
}

#[test]
fn a_network_of_layers_keeps_its_channels_last() {
    let cx = Context::new("cpu").unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &cx);
    let weights = [
        (64, 3, 7),
        (64, 64, 3),
        (64, 64, 3),
        (128, 64, 3),
        (128, 128, 3),
        (128, 64, 1),
    ]
    .map(|(to, from, taps)| zeros(&[to, from, taps, taps]));
    let network = jit(|x: &Tensor| {
        let layer = |x: &Tensor, at: usize, stride: usize| {
            let taps = weights[at].shape().unwrap()[2];
            let scale = zeros(&weights[at].shape().unwrap()[..1]);
            let options = ConvOptions::new().stride(stride).padding(taps / 2);
            x.conv2d(&weights[at], None, options)
                .batch_norm(&scale, &scale, &scale, &scale, 1e-5)
        };
        let x = layer(x, 0, 2).relu();
        let x = x.max_pool2d(PoolOptions::new(3).stride(2).padding(1));
        let x = (layer(&layer(&x, 1, 1).relu(), 2, 1) + &x).relu();
        let x = (layer(&layer(&x, 3, 2).relu(), 4, 1) + layer(&x, 5, 2)).relu();
        x.adaptive_avg_pool2d(1)
            .reshape([1, 128])
            .matmul(&zeros(&[128, 10]))
    });
    let graph = rewrite(&network.graph(&zeros(&[1, 3, 33, 33])).unwrap());
    let (last, all) = buffers(&program(&graph, Cpu::All));
    // Of the stem, its pool, two of either block and the shortcut.
    assert_eq!((last.len(), all.len()), (7, 7));
}

/// One more node of a graph of images, or nothing where what was thrown does not fit.
fn grow(w: &mut Write, dice: &mut Dice) -> Option<()> {
    let images: Vec<NodeId> = (0..w.0.nodes().len() as u32)
        .map(NodeId)
        .filter(|&id| w.0.dtype(id) == DType::F32 && w.0.shape(id).len() == 4 && w.0.shape(id)[0] < 5)
        .filter(|&id| w.0.shape(id)[2..].iter().all(|&extent| (2..9).contains(&extent)))
        .filter(|&id| !matches!(w.0.node(id).op, Op::Input(at) if at > 0))
        .collect();
    let near = 1 + dice.below(images.len());
    let x = images[images.len() - 1 - dice.below(near)];
    let of = *w.0.shape(x);
    let like: Vec<NodeId> = (images.iter().copied())
        .filter(|&id| *w.0.shape(id) == of)
        .collect();
    match dice.below(16) {
        0..=4 => {
            let channels = dice.of(&[32, 32, 32, 48, 20]);
            let (taps, stride) = dice.of(&[(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (3, 2)]);
            w.conv(x, channels, taps, 1, stride);
        }
        5 => {
            w.conv(x, of[1], 2, of[1], 1);
        }
        6 | 7 => {
            w.bias(x);
        }
        8 | 9 => {
            let op = dice.of(&[ScalarOp::Add, ScalarOp::Sub, ScalarOp::Max]);
            w.map(op, &[x, dice.of(&like)]);
        }
        10 => {
            w.map(dice.of(&[ScalarOp::Tanh, ScalarOp::Neg, ScalarOp::Abs]), &[x]);
        }
        11 => {
            let (op, bits) = dice.of(&[(ReduceOp::Max, LEAST), (ReduceOp::Sum, 0), (ReduceOp::Min, 0)]);
            w.pool(op, bits, dice.below(2) == 0, x);
        }
        12 => {
            let axes = dice.of(&[&[2, 3][..], &[1], &[3], &[1, 2, 3], &[0, 2]]);
            let axes: Axes = axes.iter().copied().collect();
            let op = dice.of(&[ReduceOp::Sum, ReduceOp::Max]);
            let narrow = w.op(Op::Reduce { op, axes }, &[x]);
            let kept = w.op(Op::Reshape(of.ones_at(axes)), &[narrow]);
            let back = w.op(Op::Expand(of), &[kept]);
            w.map(ScalarOp::Sub, &[x, back]);
        }
        13 => {
            let turned = w.op(Op::Permute([0, 1, 3, 2].into_iter().collect()), &[x]);
            if *w.0.shape(turned) == of {
                w.map(ScalarOp::Add, &[turned, dice.of(&like)]);
            }
        }
        14 => {
            let flat = w.op(Op::Reshape(shape(&[of[0], of[1..].iter().product()])), &[x]);
            let flat = w.map(ScalarOp::Abs, &[flat]);
            let back = w.op(Op::Reshape(of), &[flat]);
            w.map(ScalarOp::Add, &[back, dice.of(&like)]);
        }
        _ => {
            let part: Shape = shape(&[of[0], of[1], of[2] - 1, of[3]]);
            let cut = Op::Slice {
                start: shape(&[0, 0, dice.below(2), 0]),
                step: [1, 1, 1, 1].into_iter().collect(),
                shape: part,
            };
            let cut = w.op(cut, &[x]);
            w.op(Op::Concat { axis: 2 }, &[cut, cut]);
        }
    }
    Some(())
}

fn graph(seed: u32) -> Graph {
    let mut dice = Dice(Mt19937::new(seed));
    let mut w = Write::default();
    let x = w.input(&[dice.of(&[1, 2, 2, 4]), 3, 3 + dice.below(5), 3 + dice.below(5)]);
    w.conv(x, 32, dice.of(&[1, 2]), 1, 1);
    for _ in 0..4 + dice.below(8) {
        grow(&mut w, &mut dice);
    }
    let made = w.0.nodes().len() as u32;
    w.0.output(NodeId(made - 1));
    if dice.below(3) == 0 {
        w.0.output(NodeId(1 + dice.below(made as usize - 1) as u32));
    }
    w.0.pruned()
}

#[test]
fn random_graphs_of_images_compute_what_they_say() {
    let (mut last, mut cut) = (0, 0);
    for seed in 0..cases(60) {
        let graph = graph(seed);
        let ok = std::panic::catch_unwind(|| check(&graph));
        let program = ok.unwrap_or_else(|_| panic!("seed {seed}"));
        last += buffers(&program).0.len();
        let steps = program.steps.len();
        cut += usize::from(in_parts(program, &ALL).steps.len() > steps);
    }
    assert!(last > 20 && cut > 20, "{last}, {cut}");
}
