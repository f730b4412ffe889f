//! Reductions: every op on every dtype over nothing, one element, and more than any backend takes at once.

use super::{need, seed};
use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{
    Random, edges, float, from_bytes, from_float, from_number, is_close, mask, random, show,
};
use crate::rig::{Device, Subject};
use crate::{check, check_eq, fail};
use thalweg_hal::DType;
use thalweg_hal::interpreter::scalar::Reduction;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Returns, Role};
use thalweg_hal::tables::Capability;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &op in ReduceOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.takes(dtype)) {
            let mut case = |what: &str, run: fn(&Subject, ReduceOp, DType, u64) -> Check| {
                let name = format!("reduce.{op}.{dtype}.{what}");
                let seed = seed(&name);
                cases.push(Case::new("kernels", name, move |subject| {
                    run(subject, op, dtype, seed)
                }));
            };
            case("nothing", nothing);
            case("rows", rows);
            case("columns", columns);
            case("large", large);
        }
    }
    for dtype in [DType::F32, DType::F64] {
        for op in [ReduceOp::Sum, ReduceOp::Prod] {
            let name = format!("reduce.{op}.{dtype}.same_bits_every_time");
            cases.push(Case::new("kernels", name, move |subject| {
                same_bits(subject, op, dtype)
            }));
        }
    }
    cases
}

fn returned(op: ReduceOp, dtype: DType) -> DType {
    match op.returns() {
        Returns::Same => dtype,
        Returns::Bool => DType::Bool,
        Returns::Index => DType::I64,
    }
}

fn kernel(op: ReduceOp, dtype: DType, outer: u32, inner: u32, access: Access) -> Kernel {
    let mut kernel = Kernel::new(op.name(), outer, inner);
    let input = kernel.param(dtype, Role::In, Level::Element, access);
    let output = kernel.param(returned(op, dtype), Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    let result = kernel.reduce(op, value);
    kernel.store(output, result);
    kernel
}

/// The result by the definition, that of a sum exactly, and how far off a float may be.
fn expected(op: ReduceOp, dtype: DType, values: &[u64]) -> (u64, f64) {
    let bits = Reduction::of(op, dtype, values);
    match op {
        ReduceOp::Sum if dtype.is_float() => {
            let (total, size) = exact_sum(values.iter().map(|&bits| float(dtype, bits)));
            (
                from_float(dtype, total),
                size * epsilon(dtype) * spread(values.len()),
            )
        }
        ReduceOp::Prod if dtype.is_float() => {
            let off = float(dtype, bits).abs() * epsilon(dtype) * (values.len() as f64 + 2.0);
            (bits, off)
        }
        _ => (bits, 0.0),
    }
}

fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 {
        f64::EPSILON
    } else {
        f32::EPSILON.into()
    }
}

/// A sum may be combined in any order; rounding errors of random data grow with the root of their number.
fn spread(count: usize) -> f64 {
    (count as f64).sqrt() + 8.0
}

/// Sum and sum of sizes, compensated (Neumaier 1974), so that it is exact enough for f64 too.
fn exact_sum(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut sum, mut rest, mut size) = (0.0_f64, 0.0_f64, 0.0_f64);
    for value in values {
        let next = sum + value;
        rest += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
        size += value.abs();
    }
    (if rest.is_finite() { sum + rest } else { sum }, size)
}

fn judge(op: ReduceOp, dtype: DType, values: &[u64], found: u64, what: &str) -> Check {
    let (expected, off) = expected(op, dtype, values);
    let out = returned(op, dtype);
    let close = is_close(out, found, expected, 1)
        && (dtype.is_float() && matches!(op, ReduceOp::Sum | ReduceOp::Prod)
            || is_close(out, found, expected, 0));
    let near = out.is_float() && (float(out, found) - float(out, expected)).abs() <= off;
    if !(close || near) {
        fail!(
            "{op} of {} {dtype} ({what}) is {}, expected {}",
            values.len(),
            show(out, found),
            show(out, expected)
        );
    }
    Ok(())
}

/// Values that sums and products neither overflow nor lose in: small for sums, around 1 for products.
fn tame(op: ReduceOp, dtype: DType, random: &mut Random) -> u64 {
    match op {
        ReduceOp::Sum if dtype.is_float() => from_float(dtype, (random.unit() - 0.4) * 8.0),
        ReduceOp::Prod if dtype.is_float() => from_float(dtype, 1.0 + (random.unit() - 0.5) * 0.02),
        ReduceOp::Sum | ReduceOp::Prod => random.bits() & mask(dtype),
        ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin => {
            // Few distinct values, so that the first of several counts.
            match random.below(50) {
                0 => self::random(dtype, random),
                _ => from_number(dtype, random.below(200) as f64 - 100.0),
            }
        }
    }
}

fn nothing(subject: &Subject, op: ReduceOp, dtype: DType, _: u64) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let out = returned(op, dtype);
    for (inner, extents) in [(1, vec![3, 0]), (2, vec![3, 0, 5]), (2, vec![3, 5, 0])] {
        let job = Job {
            kernel: kernel(op, dtype, 1, inner, Access::Contiguous),
            extents,
            arguments: vec![Argument::of(dtype, &[0; 4]), Argument::room(out, 3)],
            scalars: Vec::new(),
        };
        let found = job.check(subject, 0)?;
        for value in from_bytes(out, &found[1]) {
            judge(op, dtype, &[], value, "over nothing")?;
        }
    }
    // No rows: nothing is written.
    let job = Job {
        kernel: kernel(op, dtype, 1, 1, Access::Contiguous),
        extents: vec![0, 4],
        arguments: vec![Argument::of(dtype, &[0; 4]), Argument::room(out, 3)],
        scalars: Vec::new(),
    };
    let found = job.check(subject, 0)?;
    check!(
        found[1].iter().all(|&b| b == crate::rig::run::POISON),
        "a launch without rows wrote something"
    );
    Ok(())
}

/// Rows of many lengths; edges in the ops that lose nothing.
fn rows(subject: &Subject, op: ReduceOp, dtype: DType, seed: u64) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let mut source = Random::new(seed);
    let out = returned(op, dtype);
    for (rows, length) in [
        (5, 1),
        (3, 2),
        (4, 7),
        (2, 16),
        (3, 63),
        (2, 64),
        (2, 65),
        (9, 100),
        (2, 1025),
        (40, 3),
    ] {
        let mut values: Vec<u64> = (0..rows * length).map(|_| tame(op, dtype, &mut source)).collect();
        if !matches!(op, ReduceOp::Sum | ReduceOp::Prod) {
            for value in values.iter_mut().take(length) {
                let edges = edges(dtype);
                *value = source.pick(&edges);
            }
        }
        let job = Job {
            kernel: kernel(op, dtype, 1, 1, Access::Contiguous),
            extents: vec![rows as u64, length as u64],
            arguments: vec![Argument::of(dtype, &values), Argument::room(out, rows)],
            scalars: Vec::new(),
        };
        let found = job.run(&device)?;
        for (row, value) in values.chunks(length).zip(from_bytes(out, &found[1])) {
            judge(op, dtype, row, value, "a row")?;
        }
    }
    Ok(())
}

/// Down the columns of a matrix, over two inner axes of which one runs backwards.
fn columns(subject: &Subject, op: ReduceOp, dtype: DType, seed: u64) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let mut source = Random::new(seed);
    let out = returned(op, dtype);
    let (rows, columns, depth) = (33_usize, 37_usize, 3_usize);
    let values: Vec<u64> = (0..rows * columns * depth)
        .map(|_| tame(op, dtype, &mut source))
        .collect();
    // Outer: columns; inner: depth backwards, then rows.
    let plane = (rows * columns) as i64;
    let first = (depth as i64 - 1) * plane;
    let job = Job {
        kernel: kernel(op, dtype, 1, 2, Access::Strided),
        extents: vec![columns as u64, depth as u64, rows as u64],
        arguments: vec![
            Argument::of(dtype, &values).strided(dtype, first as u64, &[1, -plane, columns as i64]),
            Argument::room(out, columns),
        ],
        scalars: Vec::new(),
    };
    let found = job.run(&device)?;
    for (column, value) in from_bytes(out, &found[1]).into_iter().enumerate() {
        let walk: Vec<u64> = (0..depth)
            .rev()
            .flat_map(|d| (0..rows).map(move |row| (d * rows + row) * columns + column))
            .map(|at| values[at])
            .collect();
        judge(op, dtype, &walk, value, "a column")?;
    }
    Ok(())
}

/// Everything to one value, in more elements than one block or thread takes.
fn large(subject: &Subject, op: ReduceOp, dtype: DType, seed: u64) -> Check {
    const COUNT: usize = 150_001;
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let mut source = Random::new(seed);
    let out = returned(op, dtype);
    let mut values: Vec<u64> = (0..COUNT).map(|_| tame(op, dtype, &mut source)).collect();
    if op == ReduceOp::Prod && dtype.is_float() {
        // Every factor once as it is and once as its reciprocal, so that the product stays near 1.
        for at in (1..COUNT).step_by(2) {
            values[at] = from_float(dtype, 1.0 / float(dtype, values[at - 1]));
        }
    }
    let job = Job {
        kernel: kernel(op, dtype, 0, 1, Access::Contiguous),
        extents: vec![COUNT as u64],
        arguments: vec![Argument::of(dtype, &values), Argument::room(out, 1)],
        scalars: Vec::new(),
    };
    let found = job.run(&device)?;
    judge(op, dtype, &values, from_bytes(out, &found[1])[0], "everything")
}

/// The same bits on every run, also while other streams keep the device busy.
fn same_bits(subject: &Subject, op: ReduceOp, dtype: DType) -> Check {
    const COUNT: usize = 60_000;
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    device.need(Capability::Deterministic)?;
    let mut source = Random::new(9);
    let values: Vec<u64> = (0..COUNT).map(|_| tame(op, dtype, &mut source)).collect();
    let job = Job {
        kernel: kernel(op, dtype, 1, 1, Access::Contiguous),
        extents: vec![3, COUNT as u64 / 3],
        arguments: vec![Argument::of(dtype, &values), Argument::room(dtype, 3)],
        scalars: Vec::new(),
    };
    let kernel = device.compile(&job.kernel)?;
    let first = job.run_compiled(&device, kernel)?;
    let (side, noise) = (device.stream()?, device.alloc(1 << 20)?);
    for round in 0..6 {
        for _ in 0..round {
            device.fill_byte(side, noise, 1 << 20, round)?;
        }
        let again = job.run_compiled(&device, kernel)?;
        check_eq!(again[1], first[1], "bytes of the results in round {round}");
    }
    let threads = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    job.run_compiled(&device, kernel)
                        .map(|found| found[1] == first[1])
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(Stop::Failed("a thread panicked".into())))
            })
            .collect::<Result<Vec<bool>, Stop>>()
    })?;
    check_eq!(
        threads,
        vec![true; 3],
        "whether launches from three threads give the same bits"
    );
    Ok(device.join(side)?)
}

#[cfg(test)]
mod tests {
    use super::exact_sum;

    #[test]
    fn sums_are_exact() {
        assert_eq!(exact_sum([1e100, 1.0, -1e100].into_iter()), (1.0, 2e100));
    }
}
