//! Convolution and its gradients against sums that are written out.

mod fast;

use super::place::{Place, each};
use super::{Numbers, Sum, least, narrow_epsilon, slack, values};
use crate::cases::kernels::need;
use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job, POISON};
use crate::rig::values::{Random, float, from_bytes, mask, show};
use crate::rig::{Device, Subject};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{Conv, LibraryOp};

/// What a case computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    GradInput,
    GradWeight,
}

const DIRECTIONS: [(&str, Direction); 3] = [
    ("conv", Direction::Forward),
    ("conv_grad_input", Direction::GradInput),
    ("conv_grad_weight", Direction::GradWeight),
];

/// Operands, accumulator, output.
const DTYPES: [(DType, DType, DType); 7] = [
    (DType::F32, DType::F32, DType::F32),
    (DType::F64, DType::F64, DType::F64),
    (DType::F16, DType::F32, DType::F16),
    (DType::BF16, DType::F32, DType::BF16),
    (DType::I8, DType::I32, DType::I32),
    (DType::I32, DType::I32, DType::I32),
    (DType::I64, DType::I64, DType::I64),
];

const F32: Dtypes = ([DType::F32; 2], DType::F32, DType::F32);

/// Operands of 8 bits whose sums are i32, in the forward direction alone.
const BYTES: [(&str, [DType; 2]); 3] = [
    ("u8", [DType::U8; 2]),
    ("u8_i8", [DType::U8, DType::I8]),
    ("i8_u8", [DType::I8, DType::U8]),
];

/// Operands, accumulator, output.
type Dtypes = ([DType; 2], DType, DType);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, direction) in DIRECTIONS {
        let same = DTYPES.map(|(dtype, sum, output)| (dtype.to_string(), ([dtype; 2], sum, output)));
        let bytes = BYTES.map(|(name, operands)| (name.to_owned(), (operands, DType::I32, DType::I32)));
        let bytes = bytes.into_iter().filter(|_| direction == Direction::Forward);
        for (operands, dtypes) in same.into_iter().chain(bytes) {
            let case = format!("{name}.{operands}.{}.{}", dtypes.1, dtypes.2);
            cases.push(Case::new("library", case, move |subject| {
                let device = open(subject, &dtypes.0)?;
                let many =
                    dtypes.0[0] == DType::F32 || direction == Direction::Forward && dtypes.1 == DType::I32;
                let count = if many { 60 } else { 15 };
                { fixed().into_iter().chain((0..count).map(random)) }
                    .try_for_each(|shape| run(&device, direction, dtypes, &shape, true))
            }));
        }
        let case = format!("{name}.definition");
        cases.push(Case::new("library", case, move |subject| {
            let device = open(subject, &[DType::F32])?;
            { fixed().into_iter().chain((0..20).map(random)) }
                .filter(|shape| shape.products() <= 4000)
                .try_for_each(|shape| run(&device, direction, F32, &shape, false))
        }));
        for dtype in [DType::F32, DType::F64] {
            let case = format!("{name}.{dtype}.epilogue");
            cases.push(Case::new("library", case, move |subject| {
                let device = open(subject, &[dtype])?;
                { 0..12 }
                    .map(random)
                    .try_for_each(|shape| epilogue(&device, direction, dtype, &shape))
            }));
        }
    }
    cases.into_iter().chain(fast::cases()).collect()
}

fn open(subject: &Subject, dtypes: &[DType]) -> Result<Device, Stop> {
    let device = Device::open(subject)?;
    need(&device, dtypes)?;
    Ok(device)
}

/// Extents and attributes; one entry a spatial axis.
#[derive(Clone, Debug)]
struct Shape {
    samples: u64,
    groups: u64,
    /// Channels of a group of the output and of the input.
    channels: [u64; 2],
    input: Vec<u64>,
    taps: Vec<u64>,
    output: Vec<u64>,
    stride: Vec<u64>,
    dilation: Vec<u64>,
    padding: Vec<i64>,
    fast: bool,
    seed: u64,
}

impl Shape {
    /// Two equal spatial axes, as many outputs as fit with the same padding on both sides.
    fn square(
        samples: u64,
        groups: u64,
        channels: [u64; 2],
        [input, taps, stride, dilation]: [u64; 4],
        padding: i64,
    ) -> Shape {
        let room = input as i64 + 2 * padding - (dilation * (taps - 1)) as i64;
        Shape {
            samples,
            groups,
            channels,
            input: vec![input; 2],
            taps: vec![taps; 2],
            output: vec![((room + stride as i64 - 1) / stride as i64).max(0) as u64; 2],
            stride: vec![stride; 2],
            dilation: vec![dilation; 2],
            padding: vec![padding; 2],
            fast: false,
            seed: 7,
        }
    }

    fn products(&self) -> u64 {
        let [co, ci] = self.channels;
        self.samples * self.groups * co * ci * self.output.iter().chain(&self.taps).product::<u64>()
    }

    fn op(&self, (operands, accumulate, output): Dtypes, epilogue: Option<Kernel>) -> Conv {
        let three =
            |of: &dyn Fn(usize) -> i64| std::array::from_fn(|i| if i < self.input.len() { of(i) } else { 0 });
        Conv {
            spatial: self.input.len() as u32,
            stride: three(&|i| self.stride[i] as i64),
            dilation: three(&|i| self.dilation[i] as i64),
            padding: three(&|i| self.padding[i]),
            operands,
            accumulate,
            output,
            fast: self.fast,
            epilogue,
        }
    }
}

/// Shapes with an edge of their own.
fn fixed() -> Vec<Shape> {
    let square = Shape::square;
    vec![
        square(2, 1, [5, 3], [9, 3, 1, 1], 1),
        square(1, 1, [64, 16], [20, 3, 1, 1], 1),
        square(1, 1, [30, 3], [31, 7, 2, 1], 3),
        square(2, 1, [33, 17], [8, 1, 1, 1], 0),
        square(2, 1, [4, 8], [9, 1, 2, 1], 0),
        square(3, 40, [1, 1], [12, 3, 1, 1], 1),
        square(1, 6, [2, 1], [10, 3, 2, 1], 1),
        square(2, 1, [6, 1], [28, 5, 1, 1], 0),
        square(1, 1, [3, 2], [13, 3, 1, 4], 4),
        square(0, 1, [3, 2], [5, 3, 1, 1], 1),
        square(1, 1, [3, 0], [5, 3, 1, 1], 1),
        square(1, 1, [0, 2], [5, 3, 1, 1], 1),
        square(1, 0, [1, 2], [5, 3, 1, 1], 1),
        square(1, 1, [3, 2], [0, 3, 1, 1], 2),
        // Padding beyond the kernel, and less than none.
        square(1, 1, [3, 2], [3, 2, 1, 1], 5),
        square(1, 1, [3, 2], [9, 2, 1, 1], -2),
        square(1, 1, [2, 2], [6, 2, 3, 1], 1),
        square(1, 1, [2, 2], [7, 1, 3, 1], 0),
        // So many groups that a device has no use for smaller tiles.
        square(1, 136, [65, 2], [9, 3, 1, 1], 1),
        square(1, 136, [2, 65], [9, 3, 2, 1], 1),
    ]
}

fn random(seed: u64) -> Shape {
    let mut random = Random::new(seed + 100);
    let spatial = 1 + random.below(3) as usize;
    let most = [40, 14, 7][spatial - 1];
    let mut axis = |low: u64, high: u64| -> Vec<u64> {
        (0..spatial).map(|_| low + random.below(high - low + 1)).collect()
    };
    let (input, taps, stride, dilation) = (axis(1, most), axis(1, 4), axis(1, 3), axis(1, 3));
    let padding: Vec<i64> = axis(0, 4).iter().map(|&p| p as i64 - 1).collect();
    let more = axis(0, 3);
    let output = (0..spatial).map(|i| {
        // Up to two outputs beyond those that the input has elements for.
        let room = input[i] as i64 + 2 * padding[i] - (dilation[i] * (taps[i] - 1)) as i64 - 1;
        (room.div_euclid(stride[i] as i64) + more[i] as i64).max(0) as u64
    });
    let output = output.collect();
    Shape {
        samples: 1 + random.below(3),
        groups: 1 + random.below(3),
        channels: [1 + random.below(20), 1 + random.below(9)],
        input,
        taps,
        output,
        stride,
        dilation,
        padding,
        fast: false,
        seed,
    }
}

/// A launch: what each operand holds, and where.
struct Setup {
    job: Job,
    /// Of x, w and y, whichever of them is the result.
    places: [Place; 3],
    /// Which of them parameters 0, 1 and the last are.
    operands: [usize; 3],
}

fn setup(
    direction: Direction,
    dtypes: [DType; 2],
    output: DType,
    definition: &Kernel,
    shape: &Shape,
) -> Setup {
    let mut random = Random::new(shape.seed * 3 + direction as u64);
    let [co, ci] = shape.channels;
    let extents = |head: [u64; 3], tail: &[u64]| -> Vec<u64> { head.iter().chain(tail).copied().collect() };
    let (x, w, y) = (
        extents([shape.samples, shape.groups, ci], &shape.input),
        extents([shape.groups, co, ci], &shape.taps),
        extents([shape.samples, shape.groups, co], &shape.output),
    );
    let operands = match direction {
        Direction::Forward => [0, 1, 2],
        Direction::GradInput => [2, 1, 0],
        Direction::GradWeight => [0, 2, 1],
    };
    // The spatial strides of the gathered operand are at least 0.
    let mut place = |extents: &[u64], index: usize| {
        Place::random(extents, |axis| axis < 3 || operands[0] != index, &mut random)
    };
    let places = [place(&x, 0), place(&w, 1), place(&y, 2)];
    let r = shape.input.len();
    let [xs, ws, ys] = places.each_ref().map(|place| place.strides.as_slice());
    let still = vec![0; r];
    // Strides over outer and inner axes, put together from those of the operands.
    let over = |parts: [&[i64]; 4]| -> Vec<i64> { parts.concat() };
    let zero = [0_i64];
    let (first, second, third, outer, inner) = match direction {
        Direction::Forward => (
            over([&[xs[0], xs[1], 0], &still, &[xs[2]], &still]),
            over([&[0, ws[0], ws[1]], &still, &[ws[2]], &ws[3..]]),
            ys.to_vec(),
            y.clone(),
            [&[ci], shape.taps.as_slice()].concat(),
        ),
        Direction::GradInput => (
            over([&[ys[0], ys[1], 0], &still, &[ys[2]], &still]),
            over([&[0, ws[0], ws[2]], &still, &[ws[1]], &ws[3..]]),
            xs.to_vec(),
            x.clone(),
            [&[co], shape.taps.as_slice()].concat(),
        ),
        Direction::GradWeight => (
            over([&[xs[1], 0, xs[2]], &still, &[xs[0]], &still]),
            over([&[ys[1], ys[2]], &zero, &still, &[&[ys[0]], &ys[3..]].concat()]),
            ws.to_vec(),
            w.clone(),
            [&[shape.samples], shape.output.as_slice()].concat(),
        ),
    };
    let gathered = &places[operands[0]];
    let (counts, steps) = (&gathered.extents[3..], &gathered.strides[3..]);
    let reach: i64 = counts
        .iter()
        .zip(steps)
        .map(|(&n, &step)| (n as i64 - 1) * step)
        .sum();
    let reach = if counts.contains(&0) { 0 } else { reach as u64 + 1 };
    let argument = |index: usize, strides: &[i64], random: &mut Random| {
        let (place, dtype) = (&places[operands[index]], dtypes[index]);
        Argument::of(dtype, &values(dtype, place.len, random)).strided(dtype, place.first, strides)
    };
    let result = &places[operands[2]];
    let arguments = vec![
        argument(0, &first, &mut random).gathered(1, reach),
        argument(1, &second, &mut random),
        Argument::room(output, result.len as usize).strided(output, result.first, &third),
    ];
    let job = Job {
        kernel: definition.clone(),
        extents: [outer, inner].concat(),
        arguments,
        scalars: counts
            .iter()
            .copied()
            .chain(steps.iter().map(|&step| step as u64))
            .collect(),
    };
    Setup {
        job,
        places,
        operands,
    }
}

/// For each element of the result's buffer its sum, the sum of the sizes of its products, and its sum as a whole number.
fn expected(shape: &Shape, setup: &Setup, dtypes: [DType; 2]) -> Vec<Sum> {
    let held = |index: usize| {
        Numbers::of(
            dtypes[index],
            &from_bytes(dtypes[index], &setup.job.arguments[index].bytes),
        )
    };
    let (first, second) = (held(0), held(1));
    let mut sums = vec![(0.0, 0.0, 0_i128); setup.places[setup.operands[2]].len as usize];
    let last = shape.input.len() - 1;
    let [co, ci] = shape.channels;
    // Every index but the last of the output, along which places of the three tensors lie at equal steps.
    let space: Vec<u64> = [
        &[shape.samples, shape.groups, co, ci][..],
        &shape.taps,
        &shape.output[..last],
    ]
    .concat();
    let [x, w, y] = &setup.places;
    let steps = [
        shape.stride[last] as i64 * x.strides[3 + last],
        0,
        y.strides[3 + last],
    ];
    each(&space, |point| {
        let (k, o) = point[4..].split_at(last + 1);
        let (n, g, c, d) = (point[0], point[1], point[2], point[3]);
        let mut at = [x.at(&[n, g, d]), w.at(&[g, c, d]), y.at(&[n, g, c])].map(|at| at as i64);
        let place = |axis: usize, o: u64| {
            (o * shape.stride[axis] + k[axis] * shape.dilation[axis]) as i64 - shape.padding[axis]
        };
        let inside = |axis: usize, place: i64| place >= 0 && place < shape.input[axis] as i64;
        for axis in 0..last {
            let place = place(axis, o[axis]);
            if !inside(axis, place) {
                return;
            }
            at[0] += place * x.strides[3 + axis];
            at[1] += k[axis] as i64 * w.strides[3 + axis];
            at[2] += o[axis] as i64 * y.strides[3 + axis];
        }
        at[0] += place(last, 0) * x.strides[3 + last];
        at[1] += k[last] as i64 * w.strides[3 + last];
        let mut range = (0..shape.output[last]).filter(|&o| inside(last, place(last, o)));
        let Some(start) = range.next() else { return };
        let count = 1 + range.count() as u64;
        for operand in 0..3 {
            at[operand] += start as i64 * steps[operand];
        }
        let [a, b, result] = setup.operands;
        let of = |operand: usize| (at[operand], steps[operand]);
        first.add_products(of(a), &second, of(b), (&mut sums, of(result)), count);
    });
    if shape.fast {
        fast::level(&mut sums);
    }
    sums
}

/// Number of products of one element of the result.
fn terms(job: &Job) -> u64 {
    let outer = job.kernel.outer as usize;
    job.extents[outer..].iter().product()
}

fn library(direction: Direction, op: Conv) -> LibraryOp {
    match direction {
        Direction::Forward => LibraryOp::Conv(op),
        Direction::GradInput => LibraryOp::ConvGradInput(op),
        Direction::GradWeight => LibraryOp::ConvGradWeight(op),
    }
}

fn run(device: &Device, direction: Direction, dtypes: Dtypes, shape: &Shape, offered: bool) -> Check {
    let (operands, accumulate, output) = dtypes;
    let op = library(direction, shape.op(dtypes, None));
    let setup = setup(direction, operands, output, &op.definition()?, shape);
    let found = if offered {
        setup.job.run_compiled(device, device.compile_library(&op)?)?
    } else {
        setup.job.run(device)?
    };
    let found = from_bytes(output, &found[2]);
    let place = &setup.places[setup.operands[2]];
    let sums = expected(shape, &setup, operands);
    let mut touched = vec![false; found.len()];
    let mut wrong = None;
    each(&place.extents, |index| {
        let at = place.at(index);
        touched[at] = true;
        let ((sum, size, whole), bits) = (sums[at], found[at]);
        let right = if output.is_float() {
            let off = size * slack(accumulate, accumulate, terms(&setup.job))
                + sum.abs() * narrow_epsilon(output)
                + least(output);
            (float(output, bits) - sum).abs() <= off
        } else {
            bits == whole as u64 & mask(output)
        };
        if !right && wrong.is_none() {
            let expected = if output.is_float() {
                sum.to_string()
            } else {
                whole.to_string()
            };
            wrong = Some(format!(
                "element {index:?} is {}, expected {expected}",
                show(output, bits)
            ));
        }
    });
    if let Some(wrong) = wrong {
        fail!("{shape:?}: {wrong}");
    }
    let poison = from_bytes(output, &vec![POISON; output.size()])[0];
    check!(
        found
            .iter()
            .zip(&touched)
            .all(|(&bits, &touched)| touched || bits == poison),
        "{shape:?}: memory between the result's elements was written"
    );
    Ok(())
}

/// `max(sum + bias[row], s)` and a residual, with strides of their own.
fn epilogue(device: &Device, direction: Direction, dtype: DType, shape: &Shape) -> Check {
    let outer = 3 + shape.input.len();
    let map = format!(
        "kernel bias_relu outer={outer} inner=0
p0 in {dtype} row contiguous
p1 in {dtype} row strided
p2 in {dtype} row contiguous
p3 out {dtype} row strided
s0 {dtype}
n0 = load p0
n1 = load p1
n2 = add n0 n1
n3 = scalar s0
n4 = max n2 n3
n5 = load p2
n6 = add n4 n5
n7 = store p3 n6"
    );
    let map = Kernel::parse(&map).map_err(|error| Stop::Failed(error.to_string()))?;
    let op = library(direction, shape.op(([dtype; 2], dtype, dtype), Some(map)));
    let mut setup = setup(direction, [dtype; 2], dtype, &op.definition()?, shape);
    let sums = expected(shape, &setup, [dtype; 2]);
    let place = &setup.places[setup.operands[2]];
    let mut random = Random::new(shape.seed + 9);
    let row = if direction == Direction::GradWeight { 1 } else { 2 };
    let bias = values(dtype, place.extents[row].max(1), &mut random);
    let residual = values(dtype, place.count().max(1), &mut random);
    let mut strides = vec![0; outer];
    strides[row] = 1;
    let job = &mut setup.job;
    job.arguments
        .insert(2, Argument::of(dtype, &bias).strided(dtype, 0, &strides));
    job.arguments.insert(3, Argument::of(dtype, &residual));
    job.scalars.push(values(dtype, 1, &mut random)[0]);
    let floor = float(dtype, job.scalars[job.scalars.len() - 1]);
    let found = from_bytes(dtype, &job.run_compiled(device, device.compile_library(&op)?)?[4]);
    let (mut wrong, mut number) = (None, 0);
    each(&place.extents, |index| {
        let (at, row) = (place.at(index), index[row] as usize);
        let (sum, size, _) = sums[at];
        let expected = (sum + float(dtype, bias[row])).max(floor) + float(dtype, residual[number]);
        number += 1;
        let off = (size + 3.0) * slack(dtype, dtype, terms(&setup.job));
        if (float(dtype, found[at]) - expected).abs() > off && wrong.is_none() {
            wrong = Some(format!(
                "element {index:?} is {}, expected {expected}",
                show(dtype, found[at])
            ));
        }
    });
    match wrong {
        Some(wrong) => fail!("{shape:?}: {wrong}"),
        None => Ok(()),
    }
}
