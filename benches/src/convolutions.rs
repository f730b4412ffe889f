//! Cases of convolution: f32 with gradients and integers of 8 bits, NCHW.

use crate::cases::{Case, Limit, filled};
use thalweg::hal::{DType, Device, Kernel, Launch, Result};
use thalweg_hal::library::{Conv, LibraryOp};

/// What is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    /// The same in its fast form.
    ForwardFast,
    /// The same, of an operand of many channels and to a result whose channels are neighbours.
    ForwardLast,
    GradInput,
    GradWeight,
}

/// A convolution over two spatial axes of one extent.
#[derive(Clone, Copy)]
struct Shape {
    samples: usize,
    groups: usize,
    /// Channels of a group of the input and of the output.
    channels: [usize; 2],
    side: usize,
    taps: usize,
    stride: usize,
    padding: usize,
}

impl Shape {
    fn output(&self) -> usize {
        (self.side + 2 * self.padding - self.taps) / self.stride + 1
    }
}

const fn shape(
    samples: usize,
    groups: usize,
    channels: [usize; 2],
    [side, taps, stride, padding]: [usize; 4],
) -> Shape {
    Shape {
        samples,
        groups,
        channels,
        side,
        taps,
        stride,
        padding,
    }
}

/// The cases of convolution whose names are wanted.
///
/// # Errors
/// Those of allocation and compilation.
pub fn cases(device: &Device, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let shapes = [
        ("8x64x56_3x3", shape(8, 1, [64, 64], [56, 3, 1, 1])),
        ("8x3x224_7x7_s2", shape(8, 1, [3, 64], [224, 7, 2, 3])),
        ("depthwise_8x128x28", shape(8, 128, [1, 1], [28, 3, 1, 1])),
        ("8x256x14_3x3", shape(8, 1, [256, 256], [14, 3, 1, 1])),
        ("1x64x56_3x3", shape(1, 1, [64, 64], [56, 3, 1, 1])),
        ("1x128x28_3x3", shape(1, 1, [128, 128], [28, 3, 1, 1])),
        ("1x256x14_3x3", shape(1, 1, [256, 256], [14, 3, 1, 1])),
        ("1x512x7_3x3", shape(1, 1, [512, 512], [7, 3, 1, 1])),
        ("8x64x56_1x1", shape(8, 1, [64, 64], [56, 1, 1, 0])),
        ("8x64to256x56_1x1", shape(8, 1, [64, 256], [56, 1, 1, 0])),
        ("8x256to64x56_1x1", shape(8, 1, [256, 64], [56, 1, 1, 0])),
        ("8x512to128x28_1x1", shape(8, 1, [512, 128], [28, 1, 1, 0])),
        ("1x256to1024x14_1x1", shape(1, 1, [256, 1024], [14, 1, 1, 0])),
        ("lenet1", shape(64, 1, [1, 6], [28, 5, 1, 0])),
        ("lenet2", shape(64, 1, [6, 16], [14, 5, 1, 0])),
    ];
    let directions = [
        ("conv", Direction::Forward),
        ("conv_fast", Direction::ForwardFast),
        ("conv_last", Direction::ForwardLast),
        ("conv_dx", Direction::GradInput),
        ("conv_dw", Direction::GradWeight),
    ];
    let mut cases = Vec::new();
    for (name, shape) in shapes {
        for (kind, direction) in directions {
            let name = format!("{kind}_{name}");
            if wanted(&name) {
                cases.push(conv(device, name, direction, shape, [DType::F32; 2])?);
            }
        }
        for (kind, of) in [("u8", DType::U8), ("i8", DType::I8)] {
            let name = format!("conv_{kind}_{name}");
            if wanted(&name) {
                cases.push(conv(device, name, Direction::Forward, shape, [of, DType::I8])?);
            }
        }
    }
    Ok(cases)
}

fn conv(
    device: &Device,
    name: String,
    direction: Direction,
    shape: Shape,
    operands: [DType; 2],
) -> Result<Case> {
    let bytes = operands[1] == DType::I8;
    let sums = if bytes { DType::I32 } else { DType::F32 };
    let stream = device.create_stream()?;
    let per_axis = |value: usize| [value as i64, value as i64, 0];
    let op = Conv {
        spatial: 2,
        stride: per_axis(shape.stride),
        dilation: per_axis(1),
        padding: per_axis(shape.padding),
        operands,
        accumulate: sums,
        output: sums,
        fast: direction == Direction::ForwardFast,
        epilogue: None,
    };
    let [ci, co] = shape.channels;
    let (groups, samples) = (shape.groups, shape.samples);
    let (side, taps, out) = (shape.side, shape.taps, shape.output());
    // Strides of [samples, groups, channels, rows, columns].
    let dense = |channels: usize, side: usize| {
        let plane = side * side;
        [groups * channels * plane, channels * plane, plane, side, 1].map(|stride| stride as i64)
    };
    let beside = |channels: usize, side: usize| {
        let all = groups * channels;
        [side * side * all, channels, 1, side * all, all].map(|stride| stride as i64)
    };
    let last = direction == Direction::ForwardLast;
    let x = if last && groups * ci >= 16 {
        beside(ci, side)
    } else {
        dense(ci, side)
    };
    let y = if last { beside(co, out) } else { dense(co, out) };
    let w = [co * ci * taps * taps, ci * taps * taps, taps * taps, taps, 1].map(|stride| stride as i64);
    let (op, outer, inner, strides, gathered) = match direction {
        Direction::Forward | Direction::ForwardFast | Direction::ForwardLast => (
            LibraryOp::Conv(op),
            [samples, groups, co, out, out],
            [ci, taps, taps],
            [
                vec![x[0], x[1], 0, 0, 0, x[2], 0, 0],
                vec![0, w[0], w[1], 0, 0, w[2], w[3], w[4]],
                y.to_vec(),
            ],
            (side, x),
        ),
        Direction::GradInput => (
            LibraryOp::ConvGradInput(op),
            [samples, groups, ci, side, side],
            [co, taps, taps],
            [
                vec![y[0], y[1], 0, 0, 0, y[2], 0, 0],
                vec![0, w[0], w[2], 0, 0, w[1], w[3], w[4]],
                x.to_vec(),
            ],
            (out, y),
        ),
        Direction::GradWeight => (
            LibraryOp::ConvGradWeight(op),
            [groups, co, ci, taps, taps],
            [samples, out, out],
            [
                vec![x[1], 0, x[2], 0, 0, x[0], 0, 0],
                vec![y[1], y[2], 0, 0, 0, y[0], y[3], y[4]],
                w.to_vec(),
            ],
            (side, x),
        ),
    };
    let kernel = Kernel::compile(device, &op)?;
    let (x_len, y_len) = (samples * x[0] as usize, samples * y[0] as usize);
    let w_len = groups * w[0] as usize;
    let [a_len, b_len, out_len] = match direction {
        Direction::Forward | Direction::ForwardFast | Direction::ForwardLast => [x_len, w_len, y_len],
        Direction::GradInput => [y_len, w_len, x_len],
        Direction::GradWeight => [x_len, y_len, w_len],
    };
    // The bits of as many floats serve as bytes.
    let room = |len: usize| if bytes { len.div_ceil(4) } else { len };
    let (a, b) = (filled(&stream, room(a_len))?, filled(&stream, room(b_len))?);
    let owner = device.clone();
    let extents: Vec<u64> = outer.iter().chain(&inner).map(|&extent| extent as u64).collect();
    let (count, steps) = gathered;
    let reach = 1 + (count as u64 - 1) * (steps[3] + steps[4]) as u64;
    let scalars = [count as u64, count as u64, steps[3] as u64, steps[4] as u64];
    let run = move || {
        let result = owner.alloc(4 * out_len as u64)?;
        let args = [
            a.arg().strides(&strides[0]).gather(1, reach),
            b.arg().strides(&strides[1]),
            result.arg().strides(&strides[2]),
        ];
        stream.launch(&Launch::new(&kernel, &extents, &args).scalars(&scalars))?;
        stream.synchronize()
    };
    let products = (samples * groups * co * ci) as f64 * (out * out * taps * taps) as f64;
    Ok(Case {
        name,
        // Depthwise, an element is read and one is written for a few products.
        limit: match (co * ci, bytes) {
            (1, true) => Limit::Bytes((x_len + w_len + 4 * y_len) as f64),
            (1, false) => Limit::FlopsOrBytes(2.0 * products, 4.0 * (x_len + w_len + y_len) as f64),
            (_, true) => Limit::Dots(2.0 * products),
            (_, false) => Limit::Flops(2.0 * products),
        },
        run: Box::new(run),
    })
}
