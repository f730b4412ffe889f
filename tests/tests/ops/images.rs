//! Networks of convolutions, whose compiled form keeps channels last: the bits of ops one by one, at each instruction set, whatever
//! the number of threads.

use crate::isa::{ISAS, device};
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::parallel::Pool;
use thalweg::{Context, DType, Mode, Tensor, jit};

/// Numbers between -1 and 1, others for each seed.
fn numbers(shape: &[usize], seed: usize, cx: &Context) -> Tensor {
    let number = |at: usize| ((at * 2_654_435_761 + seed * 40_503) >> 7) % 2003;
    let numbers: Vec<f32> = (0..shape.iter().product())
        .map(|at| number(at) as f32 / 1001.0 - 1.0)
        .collect();
    Tensor::from_slice(&numbers, shape, cx)
}

/// A function of an image and weights, and the extents of both.
struct Network {
    name: &'static str,
    image: &'static [usize],
    weights: &'static [&'static [usize]],
    body: fn(&Tensor, &[Tensor]) -> Vec<Tensor>,
}

fn conv(x: &Tensor, w: &Tensor, stride: usize) -> Tensor {
    let padding = w.shape().unwrap()[2] / 2;
    x.conv2d(w, None, ConvOptions::new().stride(stride).padding(padding))
}

/// A stem, a pool, a residual block with a shortcut, a pool of all space and a layer.
fn residual(x: &Tensor, w: &[Tensor]) -> Vec<Tensor> {
    let around = PoolOptions::new(3).stride(2).padding(1);
    let stem = (conv(x, &w[0], 2) + &w[1]).relu().max_pool2d(around);
    let inside = conv(&stem, &w[2], 2).relu();
    let sum = (conv(&inside, &w[3], 1) * 0.25 + conv(&stem, &w[4], 2)).relu();
    vec![sum.global_avg_pool().linear(&w[5], None)]
}

/// Pools of every kind, and what reads their results in another order.
fn pools(x: &Tensor, w: &[Tensor]) -> Vec<Tensor> {
    let made = conv(x, &w[0], 1).tanh();
    let inside = conv(&made, &w[1], 1);
    let means = PoolOptions::new(3).stride(2).padding(1).count_include_pad(false);
    let powers = made.lp_pool2d(2.0, PoolOptions::new(2));
    let least = -((-&made).max_pool2d(PoolOptions::new(2).stride(1)));
    vec![
        conv(&made.avg_pool2d(means), &w[1], 1),
        conv(&(powers * 0.1), &w[1], 1).reshape([3, 48 * 9 * 6]),
        conv(&least, &w[1], 1).sum_axes([0, 2, 3]),
        inside.softmax(1).mean_axes([2, 3]),
        conv(&inside, &w[1], 1).sum(),
        inside.permute([0, 2, 3, 1]).max_axes(-1),
    ]
}

/// Gates of channels, which take an image of one place.
fn gates(x: &Tensor, w: &[Tensor]) -> Vec<Tensor> {
    let made = conv(x, &w[0], 1).silu();
    let gate = conv(&made.mean_keepdims([2, 3]), &w[1], 1).sigmoid();
    let gated = conv(&(&made * gate), &w[2], 1);
    vec![conv(&(gated.sigmoid() + &gated), &w[3], 1)]
}

/// Integers of 8 bits between layers, with sums of a shortcut.
fn bytes(x: &Tensor, w: &[Tensor]) -> Vec<Tensor> {
    let unsigned = |x: &Tensor| x.clip(0.0, 255.0).round().cast(DType::U8);
    let signed = |w: &Tensor| (w * 600.0).clip(-127.0, 127.0).round().cast(DType::I8);
    let conv = |x: &Tensor, w: &Tensor, stride: usize| {
        let around = ConvOptions::new()
            .stride(stride)
            .padding(w.shape().unwrap()[2] / 2);
        x.conv_integer(&signed(w), None, None, around).cast(DType::F32)
    };
    let stem = conv(&unsigned(&(x.abs() * 200.0)), &w[0], 2) * 0.01;
    let inside = unsigned(&(conv(&unsigned(&stem), &w[1], 1) * 0.003));
    let sum = conv(&inside, &w[2], 1) * 0.003 + conv(&unsigned(&stem), &w[3], 1) * 0.01;
    let all = unsigned(&sum);
    vec![
        conv(&all, &w[4], 2).mean_axes([2, 3]),
        all.cast(DType::F32).max_axes([2, 3]),
    ]
}

const NETWORKS: [Network; 4] = [
    Network {
        name: "residual",
        image: &[2, 3, 61, 45],
        weights: &[
            &[32, 3, 7, 7],
            &[1, 32, 1, 1],
            &[64, 32, 3, 3],
            &[64, 64, 3, 3],
            &[64, 32, 1, 1],
            &[10, 64],
        ],
        body: residual,
    },
    Network {
        name: "pools",
        image: &[3, 5, 19, 13],
        weights: &[&[48, 5, 3, 3], &[48, 48, 3, 3]],
        body: pools,
    },
    Network {
        name: "gates",
        image: &[1, 16, 23, 23],
        weights: &[&[64, 16, 3, 3], &[64, 64, 1, 1], &[32, 64, 1, 1], &[20, 32, 3, 3]],
        body: gates,
    },
    Network {
        name: "bytes",
        image: &[2, 7, 23, 19],
        weights: &[
            &[64, 7, 3, 3],
            &[80, 64, 3, 3],
            &[48, 80, 3, 3],
            &[48, 64, 1, 1],
            &[32, 48, 3, 3],
        ],
        body: bytes,
    },
];

/// Bits of all results of a network in every mode, each with the name of the mode.
fn found(network: &Network, cx: &[Context; 2]) -> Vec<(&'static str, Vec<Vec<u32>>)> {
    let bits = |outputs: &[Tensor]| -> Vec<Vec<u32>> {
        let bits = |output: &Tensor| {
            output
                .to_vec::<f32>()
                .unwrap()
                .iter()
                .map(|x| x.to_bits())
                .collect()
        };
        outputs.iter().map(bits).collect()
    };
    let operands = |cx: &Context| -> (Tensor, Vec<Tensor>) {
        let weight = |(at, shape): (usize, &&[usize])| numbers(shape, at + 1, cx) * 0.2;
        let weights = network.weights.iter().enumerate().map(weight).collect();
        (numbers(network.image, 0, cx), weights)
    };
    let [eager, recorded] = cx;
    let (x, w) = operands(eager);
    let traced = jit(|x: &Tensor, w: &Vec<Tensor>| (network.body)(x, w));
    let compiled = traced.call((&x, &w));
    let captured = {
        let w = w.clone();
        jit(move |x: &Tensor| (network.body)(x, &w)).call(&x)
    };
    let (own_x, own_w) = operands(recorded);
    vec![
        ("eager", bits(&(network.body)(&x, &w))),
        ("compiled", bits(&compiled)),
        ("compiled with weights", bits(&captured)),
        ("recorded", bits(&(network.body)(&own_x, &own_w))),
    ]
}

#[test]
fn networks_of_images_have_the_same_bits_in_every_mode() {
    for network in &NETWORKS {
        let mut expected: Option<Vec<Vec<u32>>> = None;
        for isa in ISAS.map(|(isa, _)| isa) {
            let Some(device) = device(isa) else { continue };
            let cx = [Context::on(device.clone()), Context::on(device)];
            cx[1].set_mode(Mode::Graph);
            for threads in [1, 2] {
                Pool::global().set_threads(threads);
                for (mode, bits) in found(network, &cx) {
                    let expected = expected.get_or_insert_with(|| bits.clone());
                    for (at, (bits, expected)) in bits.iter().zip(expected.iter()).enumerate() {
                        let differing = bits.iter().zip(expected).filter(|(a, b)| a != b).count();
                        let name = network.name;
                        assert_eq!(
                            (differing, bits.len()),
                            (0, expected.len()),
                            "result {at} of {name}, {mode}, {isa}, {threads} threads"
                        );
                    }
                }
            }
        }
    }
}
