//! Kernels with several reductions that store elements: what fusion lives on.

use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, from_bytes};
use crate::rig::{Device, Subject};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::ir::Kernel;

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("kernels", format!("rows.{name}"), run);
    vec![
        case("softmax", softmax),
        case("softmax_in_f16", softmax_f16),
        case("layer_norm", layer_norm),
        case("log_sum_exp", log_sum_exp),
        case("variance", variance),
        case("cross_entropy", cross_entropy),
        case("energy", energy),
        case("row_and_element_outputs", both_levels),
    ]
}

fn parse(text: &str) -> Result<Kernel, Stop> {
    Kernel::parse(text).map_err(|error| Stop::Failed(format!("a kernel of the kit: {error}")))
}

const SHAPES: [(usize, usize); 7] = [(1, 1), (3, 2), (7, 17), (5, 64), (4, 1000), (2, 5000), (64, 10)];

fn noise(count: usize, scale: f64) -> Vec<f32> {
    let mut random = Random::new(count as u64);
    (0..count)
        .map(|_| ((random.unit() - 0.5) * scale) as f32)
        .collect()
}

fn bits(values: &[f32]) -> Vec<u64> {
    values.iter().map(|value| u64::from(value.to_bits())).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    from_bytes(DType::F32, bytes)
        .into_iter()
        .map(|bits| f32::from_bits(bits as u32))
        .collect()
}

/// Runs `kernel` over each shape and compares every output element with what `expect` makes of the row in f64.
fn compare(
    subject: &Subject,
    text: &str,
    scale: f64,
    relative: f64,
    absolute: f64,
    expect: impl Fn(&[f64]) -> Vec<f64>,
) -> Check {
    let device = Device::open(subject)?;
    let kernel = parse(text)?;
    for (rows, length) in SHAPES {
        let input = noise(rows * length, scale);
        let per_row = expect(&vec![1.0; length]).len();
        let job = Job {
            kernel: kernel.clone(),
            extents: vec![rows as u64, length as u64],
            arguments: vec![
                Argument::of(DType::F32, &bits(&input)),
                Argument::room(DType::F32, rows * per_row),
            ],
            scalars: Vec::new(),
        };
        let found = floats(&job.run(&device)?[1]);
        for (row, (input, found)) in input.chunks(length).zip(found.chunks(per_row)).enumerate() {
            let wide: Vec<f64> = input.iter().map(|&value| value.into()).collect();
            for (at, (&found, expected)) in found.iter().zip(expect(&wide)).enumerate() {
                let off = (f64::from(found) - expected).abs();
                let near = off <= absolute + relative * expected.abs();
                if !near {
                    fail!("row {row} of {rows}×{length}, output {at}: {found}, expected {expected}");
                }
            }
        }
    }
    Ok(())
}

const SOFTMAX: &str = "kernel softmax outer=1 inner=1
p0 in f32 element contiguous
p1 out f32 element contiguous
n0 = load p0
n1 = max n0
n2 = sub n0 n1
n3 = exp n2
n4 = sum n3
n5 = div n3 n4
n6 = store p1 n5";

fn softmax(subject: &Subject) -> Check {
    compare(subject, SOFTMAX, 20.0, 2e-5, 1e-30, |row| {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
        row.iter().map(|x| (x - most).exp() / sum).collect()
    })
}

/// f16 in memory, f32 in between.
fn softmax_f16(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(thalweg_hal::tables::Capability::F16)?;
    let kernel = parse(
        "kernel softmax outer=1 inner=1
p0 in f16 element contiguous
p1 out f16 element contiguous
n0 = load p0
n1 = cast f32 n0
n2 = max n1
n3 = sub n1 n2
n4 = exp n3
n5 = sum n4
n6 = div n4 n5
n7 = cast f16 n6
n8 = store p1 n7",
    )?;
    let (rows, length) = (6, 300);
    let input: Vec<u64> = noise(rows * length, 10.0)
        .into_iter()
        .map(|value| half::f16::from_f32(value).to_bits().into())
        .collect();
    let job = Job {
        kernel,
        extents: vec![rows as u64, length as u64],
        arguments: vec![
            Argument::of(DType::F16, &input),
            Argument::room(DType::F16, rows * length),
        ],
        scalars: Vec::new(),
    };
    let found = from_bytes(DType::F16, &job.run(&device)?[1]);
    let value = |bits: &u64| f64::from(half::f16::from_bits(*bits as u16));
    for (row, found) in input.chunks(length).zip(found.chunks(length)) {
        let most = row.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (value(x) - most).exp()).sum();
        for (x, found) in row.iter().zip(found) {
            let expected = (value(x) - most).exp() / sum;
            let found = value(found);
            check!(
                (found - expected).abs() <= 1e-3 * expected + 1e-7,
                "softmax is {found}, expected {expected}"
            );
        }
    }
    Ok(())
}

fn moments(row: &[f64]) -> (f64, f64) {
    let count = row.len() as f64;
    let mean = row.iter().sum::<f64>() / count;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    (mean, variance)
}

/// The count of a row is a sum of ones, so that the kernels need no scalar argument.
fn layer_norm(subject: &Subject) -> Check {
    let text = "kernel layer_norm outer=1 inner=1
p0 in f32 element contiguous
p1 out f32 element contiguous
n0 = load p0
n1 = const f32 0.0
n2 = mul n0 n1
n3 = const f32 1.0
n4 = add n2 n3
n5 = sum n4
n6 = sum n0
n7 = div n6 n5
n8 = sub n0 n7
n9 = mul n8 n8
n10 = sum n9
n11 = div n10 n5
n12 = const f32 0.00001
n13 = add n11 n12
n14 = sqrt n13
n15 = div n8 n14
n16 = store p1 n15";
    compare(subject, text, 4.0, 1e-4, 2e-5, |row| {
        let (mean, variance) = moments(row);
        row.iter()
            .map(|x| (x - mean) / (variance + 1e-5).sqrt())
            .collect()
    })
}

fn log_sum_exp(subject: &Subject) -> Check {
    let text = "kernel log_sum_exp outer=1 inner=1
p0 in f32 element contiguous
p1 out f32 row contiguous
n0 = load p0
n1 = max n0
n2 = sub n0 n1
n3 = exp n2
n4 = sum n3
n5 = log n4
n6 = add n5 n1
n7 = store p1 n6";
    compare(subject, text, 100.0, 1e-5, 1e-5, |row| {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        vec![row.iter().map(|x| (x - most).exp()).sum::<f64>().ln() + most]
    })
}

fn variance(subject: &Subject) -> Check {
    let text = "kernel variance outer=1 inner=1
p0 in f32 element contiguous
p1 out f32 row contiguous
n0 = load p0
n1 = const f32 0.0
n2 = mul n0 n1
n3 = const f32 1.0
n4 = add n2 n3
n5 = sum n4
n6 = sum n0
n7 = div n6 n5
n8 = sub n0 n7
n9 = mul n8 n8
n10 = sum n9
n11 = div n10 n5
n12 = store p1 n11";
    compare(subject, text, 6.0, 1e-4, 1e-5, |row| vec![moments(row).1])
}

/// Minus the log of the label's probability: an index compared with the label picks the element.
fn cross_entropy(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = parse(
        "kernel cross_entropy outer=1 inner=1
p0 in f32 element contiguous
p1 in i32 row contiguous
p2 out f32 row contiguous
n0 = load p0
n1 = max n0
n2 = sub n0 n1
n3 = exp n2
n4 = sum n3
n5 = log n4
n6 = load p1
n7 = cast i64 n6
n8 = index 1
n9 = eq n7 n8
n10 = const f32 0.0
n11 = select n9 n2 n10
n12 = sum n11
n13 = sub n5 n12
n14 = store p2 n13",
    )?;
    let (rows, classes) = (50, 11);
    let input = noise(rows * classes, 8.0);
    let labels: Vec<u64> = (0..rows as u64).map(|row| (row * 7) % classes as u64).collect();
    let job = Job {
        kernel,
        extents: vec![rows as u64, classes as u64],
        arguments: vec![
            Argument::of(DType::F32, &bits(&input)),
            Argument::of(DType::I32, &labels),
            Argument::room(DType::F32, rows),
        ],
        scalars: Vec::new(),
    };
    let found = floats(&job.run(&device)?[2]);
    for ((row, label), found) in input.chunks(classes).zip(labels).zip(found) {
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        let expected = sum.ln() - f64::from(row[label as usize]);
        check!(
            (f64::from(found) - expected).abs() < 1e-4,
            "cross entropy is {found}, expected {expected}"
        );
    }
    Ok(())
}

/// A9: the sum of 0.5 k (x - mu)² over ones, with k = mu = 1, is exactly 0; and A11's shape of it over random numbers.
fn energy(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = parse(
        "kernel energy outer=0 inner=1
p0 in f32 element contiguous
p1 out f32 row contiguous
s0 f32
s1 f32
n0 = load p0
n1 = scalar s1
n2 = sub n0 n1
n3 = mul n2 n2
n4 = const f32 0.5
n5 = scalar s0
n6 = mul n4 n5
n7 = mul n6 n3
n8 = sum n7
n9 = store p1 n8",
    )?;
    const COUNT: usize = 200_000;
    let one = u64::from(1_f32.to_bits());
    let mut job = Job {
        kernel,
        extents: vec![COUNT as u64],
        arguments: vec![
            Argument::of(DType::F32, &vec![one; COUNT]),
            Argument::room(DType::F32, 1),
        ],
        scalars: vec![one, one],
    };
    let found = floats(&job.run(&device)?[1])[0];
    check!(found == 0.0, "the energy of ones is {found}, not 0");
    let input = noise(COUNT, 2.0);
    job.arguments[0] = Argument::of(DType::F32, &bits(&input));
    let expected: f64 = input.iter().map(|&x| 0.5 * (f64::from(x) - 1.0).powi(2)).sum();
    let found = floats(&job.run(&device)?[1])[0];
    let off = (f64::from(found) - expected).abs() / expected;
    check!(
        off < 2e-5,
        "the energy of random numbers is {found}, expected {expected}"
    );
    Ok(())
}

/// One kernel that stores both the rows' maxima and the elements less them, and a value of the row at every element.
fn both_levels(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = parse(
        "kernel both outer=2 inner=2
p0 in i32 element contiguous
p1 out i32 row contiguous
p2 out i32 element contiguous
p3 out i32 element contiguous
p4 in i32 row contiguous
n0 = load p0
n1 = max n0
n2 = sub n0 n1
n3 = load p4
n4 = add n1 n3
n5 = store p1 n1
n6 = store p2 n2
n7 = store p3 n4",
    )?;
    let (rows, inner) = (6, 35);
    let mut random = Random::new(4);
    let input: Vec<u64> = (0..rows * inner).map(|_| random.below(1000)).collect();
    let side: Vec<u64> = (0..rows as u64).map(|row| row * 10_000).collect();
    let room = Argument::room(DType::I32, rows * inner);
    let job = Job {
        kernel,
        extents: vec![2, 3, 5, 7],
        arguments: vec![
            Argument::of(DType::I32, &input),
            Argument::room(DType::I32, rows),
            room.clone(),
            room,
            Argument::of(DType::I32, &side),
        ],
        scalars: Vec::new(),
    };
    let found = job.run(&device)?;
    let [most, less, more] = [1, 2, 3].map(|i: usize| from_bytes(DType::I32, &found[i]));
    for (row, values) in input.chunks(inner).enumerate() {
        let greatest = values.iter().copied().max().unwrap_or(0);
        check!(
            most[row] == greatest,
            "the maximum of row {row} is {}, expected {greatest}",
            most[row]
        );
        for (at, &value) in (row * inner..).zip(values) {
            let expected = (value as i32 - greatest as i32) as u32;
            check!(
                less[at] == u64::from(expected),
                "element {at} less its row's maximum"
            );
            check!(
                more[at] == greatest + side[row],
                "the row's value at element {at}"
            );
        }
    }
    Ok(())
}
