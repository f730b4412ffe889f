//! Library ops against their definition.

mod attention;
mod axis;
mod conv;
mod epilogue;
mod place;
mod sort;

use super::kernels::need;
use crate::kit::{Case, Check};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, float, from_bytes, from_float, integer, mask, show};
use crate::rig::{Device, Subject};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{LibraryOp, Matmul};
use thalweg_hal::tables::Capability;

/// Operands, accumulator, output.
const DTYPES: [(DType, DType, DType); 16] = [
    (DType::F32, DType::F32, DType::F32),
    (DType::F64, DType::F64, DType::F64),
    (DType::F16, DType::F32, DType::F16),
    (DType::F16, DType::F32, DType::F32),
    (DType::BF16, DType::F32, DType::BF16),
    (DType::BF16, DType::F32, DType::F32),
    (DType::F8E4M3, DType::F32, DType::F32),
    (DType::F8E4M3, DType::F32, DType::F16),
    (DType::F8E4M3, DType::F32, DType::BF16),
    (DType::F8E5M2, DType::F32, DType::F32),
    (DType::I8, DType::I32, DType::I32),
    (DType::U8, DType::I32, DType::I32),
    (DType::I16, DType::I64, DType::I64),
    (DType::I32, DType::I32, DType::I32),
    (DType::I64, DType::I64, DType::I64),
    (DType::U32, DType::U32, DType::U32),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let same = DTYPES.map(|(operand, sum, output)| (operand.to_string(), [operand; 2], sum, output));
    let mixed = [[DType::U8, DType::I8], [DType::I8, DType::U8]]
        .map(|[a, b]| (format!("{a}_{b}"), [a, b], DType::I32, DType::I32));
    for (operand, operands, accumulate, output) in same.into_iter().chain(mixed) {
        for (name, layout) in LAYOUTS {
            let name = format!("matmul.{operand}.{accumulate}.{output}.{name}");
            cases.push(Case::new("library", name, move |subject| {
                matmul(subject, operands, accumulate, output, layout)
            }));
        }
    }
    for operand in [DType::F32, DType::F64, DType::F16, DType::F8E4M3, DType::I8] {
        for (name, relu) in [("epilogue", true), ("bias", false)] {
            let name = format!("matmul.{operand}.{name}");
            cases.push(Case::new("library", name, move |subject| {
                epilogue::applied(subject, operand, relu)
            }));
        }
    }
    cases.push(Case::new("library", "matmul.same_bits_every_time", same_bits));
    cases.extend(conv::cases());
    cases.extend(axis::cases());
    cases.extend(sort::cases());
    cases.extend(attention::cases());
    cases
}

/// How a matrix lies in memory.
#[derive(Clone, Copy)]
enum Layout {
    Rows,
    /// Columns first.
    Columns,
    /// Rows backwards, with gaps.
    Gaps,
}

/// Layouts of a, b and the output, and whether the batch shares its a.
type Layouts = ([Layout; 3], Shape);

/// Batch, m, n, k of the launches.
type Shape = &'static [(u64, u64, u64, u64)];

const MANY: Shape = &[
    (1, 1, 1, 1),
    (1, 3, 5, 7),
    (1, 16, 16, 16),
    (1, 65, 33, 129),
    (1, 64, 64, 300),
    (3, 17, 9, 20),
    (1, 130, 70, 1),
    // So many matrices that a device has no use for smaller tiles.
    (136, 72, 65, 40),
];
const FEW: Shape = &[(1, 33, 47, 65), (2, 5, 8, 11)];
/// The last one in the extents and strides that libraries take floats of 8 bits in.
const TURNED: Shape = &[(1, 33, 47, 65), (2, 5, 8, 11), (2, 32, 48, 64)];
const THIN: Shape = &[
    (1, 1, 300, 200),
    (1, 300, 1, 200),
    (1, 1, 1, 2000),
    (1, 500, 3, 2),
    (4, 1, 17, 90),
];
const EMPTY: Shape = &[
    (1, 4, 5, 0),
    (1, 0, 5, 3),
    (1, 4, 0, 3),
    (0, 4, 5, 3),
    (2, 3, 3, 0),
];

const LAYOUTS: [(&str, Layouts); 7] = [
    ("plain", ([Layout::Rows; 3], MANY)),
    ("thin", ([Layout::Rows; 3], THIN)),
    (
        "a_transposed",
        ([Layout::Columns, Layout::Rows, Layout::Rows], FEW),
    ),
    (
        "b_transposed",
        ([Layout::Rows, Layout::Columns, Layout::Rows], TURNED),
    ),
    ("all_transposed", ([Layout::Columns; 3], FEW)),
    ("gaps", ([Layout::Gaps; 3], FEW)),
    ("empty", ([Layout::Rows; 3], EMPTY)),
];

/// A matrix of a batch: where its elements lie.
#[derive(Clone, Copy)]
struct Place {
    first: i64,
    strides: [i64; 3],
    len: u64,
}

impl Place {
    /// `shared` gives every batch index the same matrix.
    fn new(layout: Layout, batch: u64, rows: u64, columns: u64, shared: bool) -> Place {
        let (r, c) = (rows as i64, columns as i64);
        let (first, row, column, size) = match layout {
            Layout::Rows => (0, c, 1, r * c),
            Layout::Columns => (0, 1, r, r * c),
            Layout::Gaps => ((r - 1).max(0) * (2 * c + 3), -(2 * c + 3), 2, r * (2 * c + 3)),
        };
        Place {
            first,
            strides: [if shared { 0 } else { size }, row, column],
            len: (size as u64) * if shared { 1 } else { batch.max(1) },
        }
    }

    fn at(&self, batch: u64, row: u64, column: u64) -> usize {
        let [b, r, c] = self.strides;
        (self.first + batch as i64 * b + row as i64 * r + column as i64 * c) as usize
    }
}

fn values(dtype: DType, count: u64, random: &mut Random) -> Vec<u64> {
    let value = |_| match dtype.is_float() {
        true => from_float(dtype, (random.unit() - 0.5) * 2.0),
        false => random.bits() & mask(dtype),
    };
    (0..count).map(value).collect()
}

fn job(
    definition: &Kernel,
    op: &Matmul,
    layouts: [Layout; 3],
    shape: (u64, u64, u64, u64),
    seed: u64,
) -> (Job, [Place; 3]) {
    let (batch, m, n, k) = shape;
    let mut random = Random::new(seed);
    // Every other batch shares its first operand.
    let places = [
        Place::new(layouts[0], batch, m, k, seed % 2 == 1),
        Place::new(layouts[1], batch, k, n, false),
        Place::new(layouts[2], batch, m, n, false),
    ];
    let [a, b, c] = places;
    let mut argument = |dtype: DType, place: Place, strides: &[i64]| {
        let elements = values(dtype, place.len, &mut random);
        Argument::of(dtype, &elements).strided(dtype, place.first as u64, strides)
    };
    let mut arguments = vec![
        argument(op.operands[0], a, &[a.strides[0], a.strides[1], 0, a.strides[2]]),
        argument(op.operands[1], b, &[b.strides[0], 0, b.strides[2], b.strides[1]]),
    ];
    arguments.push(Argument::room(op.output, c.len as usize).strided(op.output, c.first as u64, &c.strides));
    let job = Job {
        kernel: definition.clone(),
        extents: vec![batch, m, n, k],
        arguments,
        scalars: Vec::new(),
    };
    (job, places)
}

/// The values of an operand, which many products use.
enum Numbers {
    Real(Vec<f64>),
    Whole(Vec<i128>),
}

/// A sum of products, the sum of their sizes, and the sum as a whole number.
type Sum = (f64, f64, i128);

impl Numbers {
    fn of(dtype: DType, bits: &[u64]) -> Numbers {
        match dtype.is_float() {
            true => Numbers::Real(bits.iter().map(|&bits| float(dtype, bits)).collect()),
            false => Numbers::Whole(bits.iter().map(|&bits| integer(dtype, bits)).collect()),
        }
    }

    /// Adds `count` products of elements and those of another operand to as many sums; each of the three lies
    /// at a first place and a step to the next.
    ///
    /// Billions of products are walked in builds that inline nothing, so these are loops over slices without iterators.
    fn add_products(
        &self,
        (mut at, step): (i64, i64),
        other: &Numbers,
        (mut other_at, other_step): (i64, i64),
        (sums, (mut sum_at, sum_step)): (&mut [Sum], (i64, i64)),
        count: u64,
    ) {
        let mut left = count;
        match (self, other) {
            (Numbers::Real(a), Numbers::Real(b)) => {
                let (a, b) = (a.as_slice(), b.as_slice());
                while left > 0 {
                    let product = a[at as usize] * b[other_at as usize];
                    let sum = &mut sums[sum_at as usize];
                    sum.0 += product;
                    sum.1 += product.abs();
                    (at, other_at, sum_at) = (at + step, other_at + other_step, sum_at + sum_step);
                    left -= 1;
                }
            }
            (Numbers::Whole(a), Numbers::Whole(b)) => {
                let (a, b) = (a.as_slice(), b.as_slice());
                while left > 0 {
                    let product = a[at as usize].wrapping_mul(b[other_at as usize]);
                    let sum = &mut sums[sum_at as usize];
                    sum.2 = sum.2.wrapping_add(product);
                    (at, other_at, sum_at) = (at + step, other_at + other_step, sum_at + sum_step);
                    left -= 1;
                }
            }
            (Numbers::Real(_), Numbers::Whole(_)) | (Numbers::Whole(_), Numbers::Real(_)) => {
                unreachable!("one is a float, one is not")
            }
        }
    }
}

/// The sum for one element.
fn dot(a: &Numbers, b: &Numbers, places: &[Place; 3], [batch, row, column]: [u64; 3], k: u64) -> Sum {
    let mut sum = [(0.0, 0.0, 0)];
    let first = |place: usize, [i, j]: [u64; 2]| places[place].at(batch, i, j) as i64;
    let (x, y) = (first(0, [row, 0]), first(1, [0, column]));
    let steps = [places[0].strides[2], places[1].strides[1]];
    a.add_products((x, steps[0]), b, (y, steps[1]), (&mut sum, (0, 0)), k);
    sum[0]
}

/// Units of rounding that a sum of k products may lose, relative to the sum of their sizes.
fn slack(dtype: DType, accumulate: DType, k: u64) -> f64 {
    let epsilon = match accumulate {
        // What tensor cores keep of products of floats of 8 bits.
        _ if dtype.is_storage() => 2f64.powi(-13),
        DType::F64 => f64::EPSILON,
        _ => f32::EPSILON.into(),
    };
    ((k as f64).sqrt() + 4.0) * epsilon
}

fn narrow_epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f32::EPSILON.into(),
        DType::F16 => 2f64.powi(-10),
        _ => 2f64.powi(-7),
    }
}

fn matmul(
    subject: &Subject,
    operands: [DType; 2],
    accumulate: DType,
    output: DType,
    (layouts, shapes): Layouts,
) -> Check {
    let device = Device::open(subject)?;
    need(&device, &operands)?;
    let dtype = operands[0];
    let op = Matmul {
        batch: 1,
        operands,
        accumulate,
        output,
        epilogue: None,
    };
    let definition = LibraryOp::Matmul(op.clone()).definition()?;
    let kernel = device.compile_library(&LibraryOp::Matmul(op.clone()))?;
    for (seed, &shape) in (0..).zip(shapes) {
        let (job, places) = job(&definition, &op, layouts, shape, seed);
        let found = job.run_compiled(&device, kernel)?;
        let read = |at: usize| Numbers::of(operands[at], &from_bytes(operands[at], &job.arguments[at].bytes));
        let (a, b, c) = (read(0), read(1), from_bytes(output, &found[2]));
        let (batch, m, n, k) = shape;
        let mut touched = vec![false; c.len()];
        for (i, row, column) in each(batch, m, n) {
            let at = places[2].at(i, row, column);
            touched[at] = true;
            let (sum, size, whole) = dot(&a, &b, &places, [i, row, column], k);
            let right = if dtype.is_float() {
                let off = (float(output, c[at]) - sum).abs();
                off <= size * slack(dtype, accumulate, k) + sum.abs() * narrow_epsilon(output) + least(output)
            } else {
                c[at] == whole as u64 & mask(output)
            };
            check!(
                right,
                "{shape:?} (batch, m, n, k): element [{i}, {row}, {column}] is {}, expected {}",
                show(output, c[at]),
                if dtype.is_float() {
                    sum.to_string()
                } else {
                    whole.to_string()
                }
            );
        }
        let poison = from_bytes(output, &vec![crate::rig::run::POISON; output.size()])[0];
        if c.iter()
            .zip(&touched)
            .any(|(&value, &touched)| !touched && value != poison)
        {
            fail!("{shape:?} (batch, m, n, k): memory between the output's rows was written");
        }
        if k > 0 && m * n * k * batch < 10_000 {
            against_definition(&job, &found, dtype, slack(dtype, accumulate, k) * k as f64)?;
        }
    }
    Ok(())
}

/// The least positive value: what a denormal result may be off by.
fn least(dtype: DType) -> f64 {
    float(dtype, 1)
}

fn each(batch: u64, m: u64, n: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    (0..batch).flat_map(move |i| (0..m).flat_map(move |row| (0..n).map(move |column| (i, row, column))))
}

/// The same launch of the op's definition.
fn against_definition(job: &Job, found: &[Vec<u8>], dtype: DType, off: f64) -> Check {
    let expected = job.expected()?;
    if !dtype.is_float() {
        return job.compare(found, &expected, 0);
    }
    let (Some(param), Some(found), Some(expected)) =
        (job.kernel.params.last(), found.last(), expected.last())
    else {
        return Ok(());
    };
    let (out, epsilon) = (param.dtype, narrow_epsilon(param.dtype));
    for (found, expected) in from_bytes(out, found).into_iter().zip(from_bytes(out, expected)) {
        let (found, expected) = (float(out, found), float(out, expected));
        let near = (found - expected).abs() <= off + 2.0 * epsilon * expected.abs() + least(out);
        check!(
            near || found == expected,
            "{found}, and the definition gives {expected}"
        );
    }
    Ok(())
}

fn same_bits(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[])?;
    device.need(Capability::Deterministic)?;
    let op = Matmul {
        batch: 1,
        operands: [DType::F32; 2],
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: None,
    };
    let definition = LibraryOp::Matmul(op.clone()).definition()?;
    let kernel = device.compile_library(&LibraryOp::Matmul(op.clone()))?;
    let (job, _) = job(&definition, &op, [Layout::Rows; 3], (1, 100, 90, 333), 0);
    stays(&device, &job, kernel)
}

/// Whether a launch has the same bits every time.
fn stays(device: &Device, job: &Job, kernel: u64) -> Check {
    let first = job.run_compiled(device, kernel)?;
    for round in 0..5 {
        check!(
            job.run_compiled(device, kernel)? == first,
            "other bits in round {round}"
        );
    }
    Ok(())
}
