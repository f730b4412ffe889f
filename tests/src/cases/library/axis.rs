//! Ops along one axis: scatter and scan.

use super::place::{Place, each};
use super::{least, narrow_epsilon, values};
use crate::cases::kernels::need;
use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job, POISON};
use crate::rig::values::{Random, float, from_bytes, integer, mask, show};
use crate::rig::{Device, Subject};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::interpreter::scalar::Reduction;
use thalweg_hal::ir::ReduceOp;
use thalweg_hal::library::{LibraryOp, Scan, Scatter};

const COMBINE: [(&str, Option<ReduceOp>); 5] = [
    ("set", None),
    ("sum", Some(ReduceOp::Sum)),
    ("prod", Some(ReduceOp::Prod)),
    ("max", Some(ReduceOp::Max)),
    ("min", Some(ReduceOp::Min)),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::I8,
        DType::I64,
        DType::U32,
        DType::U64,
        DType::Bool,
    ] {
        for (name, combine) in COMBINE {
            let arithmetic = matches!(combine, Some(ReduceOp::Sum | ReduceOp::Prod));
            if dtype == DType::Bool && arithmetic {
                continue;
            }
            let offered = [true, false]
                .into_iter()
                .filter(|offered| *offered || dtype == DType::F32);
            for offered in offered {
                let of = if offered { "" } else { ".definition" };
                cases.push(Case::new(
                    "library",
                    format!("scatter.{name}.{dtype}{of}"),
                    move |subject| {
                        let device = open(subject, dtype)?;
                        (0..20).try_for_each(|seed| scatter(&device, dtype, combine, offered, seed))
                    },
                ));
                let Some(op) = combine else { continue };
                cases.push(Case::new(
                    "library",
                    format!("scan.{name}.{dtype}{of}"),
                    move |subject| {
                        let device = open(subject, dtype)?;
                        (0..20).try_for_each(|seed| scan(&device, dtype, op, offered, seed))
                    },
                ));
            }
        }
    }
    cases
}

pub(super) fn open(subject: &Subject, dtype: DType) -> Result<Device, Stop> {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    Ok(device)
}

/// Dtype in which sums of `dtype` are kept.
fn accumulator(dtype: DType, op: Option<ReduceOp>) -> DType {
    match (op, dtype) {
        (Some(ReduceOp::Sum | ReduceOp::Prod), DType::F16) => DType::F32,
        (Some(ReduceOp::Sum | ReduceOp::Prod), DType::I8) => DType::I32,
        _ => dtype,
    }
}

/// Two values combined, as an exact number or within the rounding that `off` gathers.
#[derive(Clone, Copy)]
struct Sum {
    dtype: DType,
    bits: u64,
    exact: f64,
    /// Size of what was added, for the rounding.
    size: f64,
    steps: f64,
}

impl Sum {
    fn of(dtype: DType, bits: u64) -> Sum {
        let exact = if dtype.is_float() { float(dtype, bits) } else { 0.0 };
        Sum {
            dtype,
            bits,
            exact,
            size: exact.abs(),
            steps: 0.0,
        }
    }

    fn nothing(dtype: DType, op: ReduceOp) -> Sum {
        Sum::of(dtype, Reduction::of(op, dtype, &[]))
    }

    fn join(self, op: ReduceOp, other: Sum) -> Sum {
        let (dtype, steps) = (self.dtype, self.steps + 1.0);
        if dtype.is_float() {
            let (exact, size) = match op {
                ReduceOp::Sum => (self.exact + other.exact, self.size + other.size),
                ReduceOp::Prod => (self.exact * other.exact, self.size * other.size),
                ReduceOp::Max => (self.exact.max(other.exact), 0.0),
                _ => (self.exact.min(other.exact), 0.0),
            };
            return Sum {
                exact,
                size,
                steps,
                ..self
            };
        }
        Sum {
            bits: Reduction::of(op, dtype, &[self.bits, other.bits]),
            steps,
            ..self
        }
    }

    fn is(&self, bits: u64, accumulate: DType) -> bool {
        if !self.dtype.is_float() {
            return self.bits == bits;
        }
        let found = float(self.dtype, bits);
        let rounding = self.steps * least(self.dtype)
            + self.size * self.steps * narrow_epsilon(accumulate)
            + self.exact.abs() * narrow_epsilon(self.dtype);
        found == self.exact || (found - self.exact).abs() <= if self.size > 0.0 { rounding } else { 0.0 }
    }
}

fn scatter(device: &Device, dtype: DType, combine: Option<ReduceOp>, offered: bool, seed: u64) -> Check {
    let mut random = Random::new(seed);
    let batch: Vec<u64> = (0..random.below(3)).map(|_| random.below(9)).collect();
    let (places, updates) = (random.below(12), random.below(30));
    let index_dtype = random.pick(&[DType::I32, DType::I64]);
    let accumulate = accumulator(dtype, combine);
    let op = LibraryOp::Scatter(Scatter {
        batch: batch.len() as u32,
        combine,
        dtype,
        accumulate,
        index: index_dtype,
    });
    let with = |last: u64| -> Vec<u64> { batch.iter().copied().chain([last]).collect() };
    let mut place = |last: u64| Place::random(&with(last), |_| true, &mut random);
    let (base, source, mut index, out) = (place(places), place(updates), place(updates), place(places));
    if random.below(2) == 0 && !index.extents.contains(&0) {
        // One index for all of the batch.
        index = Place::random(&[updates], |_| true, &mut random);
        index.strides = [vec![0; batch.len()], index.strides].concat();
        index.extents = with(updates);
    }
    let held = |place: &Place, random: &mut Random| values(dtype, place.len, random);
    let truth = |values: Vec<u64>| -> Vec<u64> {
        values
            .iter()
            .map(|&bits| if dtype == DType::Bool { bits & 1 } else { bits })
            .collect()
    };
    let (base_values, source_values) = (truth(held(&base, &mut random)), truth(held(&source, &mut random)));
    // Some indices are outside.
    let index_values: Vec<u64> = (0..index.len)
        .map(|_| (random.below(places + 3) as i64 - 1) as u64 & mask(index_dtype))
        .collect();
    let still = |strides: &[i64]| -> Vec<i64> { [&strides[..batch.len()], &[0]].concat() };
    let along = source.strides[batch.len()];
    let job = Job {
        kernel: op.definition()?,
        extents: [with(places), vec![updates]].concat(),
        arguments: vec![
            Argument::of(dtype, &base_values).strided(dtype, base.first, &base.strides),
            Argument::of(dtype, &source_values)
                .strided(dtype, source.first, &still(&source.strides))
                .gathered(along, updates),
            Argument::of(index_dtype, &index_values).strided(
                index_dtype,
                index.first,
                &[still(&index.strides), vec![index.strides[batch.len()]]].concat(),
            ),
            Argument::room(dtype, out.len as usize).strided(dtype, out.first, &out.strides),
        ],
        scalars: Vec::new(),
    };
    let found = run(device, &job, &op, offered)?;
    let found = from_bytes(dtype, &found[3]);
    let mut expected = vec![None; found.len()];
    each(&out.extents, |point| {
        let (b, d) = (&point[..batch.len()], point[batch.len()]);
        let mut sum = Sum::of(dtype, base_values[base.at(point)]);
        let mut at = [b, &[0]].concat();
        for m in 0..updates {
            at[b.len()] = m;
            if integer(index_dtype, index_values[index.at(&at)]) == i128::from(d) {
                let update = Sum::of(dtype, source_values[source.at(&at)]);
                sum = combine.map_or(update, |op| sum.join(op, update));
            }
        }
        expected[out.at(point)] = Some(sum);
    });
    compare(
        dtype,
        accumulate,
        &found,
        &expected,
        &format!("scatter {seed}: extents {:?}", job.extents),
    )
}

fn scan(device: &Device, dtype: DType, op: ReduceOp, offered: bool, seed: u64) -> Check {
    let mut random = Random::new(seed);
    let mut extents: Vec<u64> = (0..random.below(3)).map(|_| random.below(9)).collect();
    let long = if offered { 300 } else { 20 };
    let axis = extents.len();
    extents.push(random.below(long));
    let accumulate = accumulator(dtype, Some(op));
    let exclusive = random.below(2) == 0;
    let library = LibraryOp::Scan(Scan {
        batch: axis as u32,
        op,
        exclusive,
        dtype,
        accumulate,
        output: dtype,
    });
    let x = Place::random(&extents, |_| true, &mut random);
    let out = Place::random(&extents, |_| true, &mut random);
    let held: Vec<u64> = values(dtype, x.len, &mut random);
    let held: Vec<u64> = held
        .iter()
        .map(|&bits| if dtype == DType::Bool { bits & 1 } else { bits })
        .collect();
    let job = Job {
        kernel: library.definition()?,
        extents: [&extents[..], &[extents[axis]]].concat(),
        arguments: vec![
            Argument::of(dtype, &held).strided(
                dtype,
                x.first,
                &[&x.strides[..axis], &[0, x.strides[axis]]].concat(),
            ),
            Argument::room(dtype, out.len as usize).strided(dtype, out.first, &out.strides),
        ],
        scalars: Vec::new(),
    };
    let found = from_bytes(dtype, &run(device, &job, &library, offered)?[1]);
    let mut expected = vec![None; found.len()];
    each(&extents[..axis], |batch| {
        let mut sum = Sum::nothing(dtype, op);
        for i in 0..extents[axis] {
            let point = [batch, &[i]].concat();
            let before = sum;
            sum = sum.join(op, Sum::of(dtype, held[x.at(&point)]));
            expected[out.at(&point)] = Some(if exclusive { before } else { sum });
        }
    });
    compare(
        dtype,
        accumulate,
        &found,
        &expected,
        &format!("scan {seed}: extents {extents:?}, exclusive {exclusive}"),
    )
}

fn run(device: &Device, job: &Job, op: &LibraryOp, offered: bool) -> Result<Vec<Vec<u8>>, Stop> {
    if offered {
        job.run_compiled(device, device.compile_library(op)?)
    } else {
        job.run(device)
    }
}

/// Compares an output's buffer; what is `None` must not have been written.
fn compare(dtype: DType, accumulate: DType, found: &[u64], expected: &[Option<Sum>], what: &str) -> Check {
    let poison = from_bytes(dtype, &vec![POISON; dtype.size()])[0];
    for (at, (&bits, expected)) in found.iter().zip(expected).enumerate() {
        match expected {
            Some(sum) if sum.is(bits, accumulate) => {}
            Some(sum) if dtype.is_float() => {
                fail!("{what}: [{at}] is {}, expected {}", show(dtype, bits), sum.exact)
            }
            Some(sum) => fail!(
                "{what}: [{at}] is {}, expected {}",
                show(dtype, bits),
                show(dtype, sum.bits)
            ),
            None => check!(
                bits == poison,
                "{what}: [{at}] is between the elements and was written"
            ),
        }
    }
    Ok(())
}
