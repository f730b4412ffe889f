//! Sorting along one axis.

use super::axis::open;
use super::place::{Place, each};
use super::values;
use crate::fail;
use crate::kit::{Case, Check, Stop};
use crate::rig::Device;
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, edges, float, from_bytes, from_number, integer, show};
use std::cmp::Ordering;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role};
use thalweg_hal::library::{LibraryOp, Sort};

/// Elements of the longest row.
const LINE: u64 = 100_003;

/// How the elements of a long row stand at first.
#[derive(Clone, Copy)]
enum Line {
    Random,
    Equal,
    Sorted,
    Reversed,
    /// Up, then down again.
    Organ,
    /// Seven numbers.
    Few,
    /// Both zeros, both infinities and NaN, with a few numbers between them.
    Special,
    /// Numbers within 32 bits, and one far from them.
    Far,
    /// Many for each of a few patterns of the first 32 bits of 64, and few for each of many.
    Crowds,
}

const LINES: [(&str, Line); 7] = [
    ("random", Line::Random),
    ("equal", Line::Equal),
    ("sorted", Line::Sorted),
    ("reversed", Line::Reversed),
    ("organ", Line::Organ),
    ("few", Line::Few),
    ("special", Line::Special),
];

/// The same for elements of 64 bits.
const LONG_LINES: [(&str, Line); 6] = [
    ("random", Line::Random),
    ("equal", Line::Equal),
    ("reversed", Line::Reversed),
    ("few", Line::Few),
    ("far", Line::Far),
    ("crowds", Line::Crowds),
];

/// Extents that ends of runs, of tiles and of groups of rows fall on and beside.
const ROWS: [&[u64]; 14] = [
    &[0],
    &[1],
    &[3, 0],
    &[0, 5],
    &[300, 1],
    &[1500, 7],
    &[40, 100],
    &[20, 256],
    &[20, 257],
    &[2, 3, 1023],
    &[5, 1025],
    &[3, 2048],
    &[2, 2049],
    &[3, 4097],
];

/// What is asked for, and who does it.
#[derive(Clone, Copy)]
struct Form {
    suffix: &'static str,
    indices: bool,
    /// The first elements alone.
    part: bool,
    run: Sorter,
}

const WHOLE: Form = Form {
    suffix: "",
    indices: true,
    part: false,
    run: Device::sort_by_op,
};
const VALUES: Form = Form {
    suffix: ".values",
    indices: false,
    ..WHOLE
};
const PART: Form = Form {
    suffix: ".part",
    part: true,
    ..WHOLE
};
const FORMS: [Form; 4] = [
    WHOLE,
    VALUES,
    PART,
    Form {
        suffix: ".part.values",
        indices: false,
        ..PART
    },
];
const LOWERED: [Form; 2] = [
    Form {
        suffix: ".lowered",
        run: Device::sort_by_kernels,
        ..WHOLE
    },
    Form {
        suffix: ".lowered.part",
        run: Device::sort_by_kernels,
        ..PART
    },
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, dtype: DType, run: Box<dyn Fn(&Device) -> Check + Send + Sync>| {
        cases.push(Case::new("library", name, move |subject| {
            run(&open(subject, dtype)?)
        }));
    };
    for dtype in DType::ALL.into_iter().filter(|dtype| !dtype.is_storage()) {
        for form in FORMS {
            let suffix = form.suffix;
            let run =
                move |device: &Device| (0..12).try_for_each(|seed| sort(device, dtype, seed, 400, form));
            add(format!("sort.{dtype}{suffix}"), dtype, Box::new(run));
            let run = move |device: &Device| {
                [2600, 17_001]
                    .into_iter()
                    .try_for_each(|n| rows(device, dtype, &[3, n], form))
            };
            add(format!("sort.{dtype}.long{suffix}"), dtype, Box::new(run));
        }
    }
    for dtype in [DType::F32, DType::I8] {
        for form in LOWERED {
            let run = move |device: &Device| (0..12).try_for_each(|seed| sort(device, dtype, seed, 25, form));
            add(format!("sort.{dtype}{}", form.suffix), dtype, Box::new(run));
        }
    }
    for form in FORMS {
        let suffix = form.suffix;
        for (name, kind) in LINES {
            let run = move |device: &Device| line(device, DType::F32, kind, form);
            add(format!("sort.f32.line.{name}{suffix}"), DType::F32, Box::new(run));
        }
        for (name, kind) in LONG_LINES {
            for dtype in [DType::I64, DType::F64] {
                let run = move |device: &Device| line(device, dtype, kind, form);
                add(format!("sort.{dtype}.line.{name}{suffix}"), dtype, Box::new(run));
            }
        }
        let run = move |device: &Device| {
            ROWS.into_iter()
                .try_for_each(|extents| rows(device, DType::F32, extents, form))
        };
        add(format!("sort.f32.rows{suffix}"), DType::F32, Box::new(run));
    }
    // Every number of vectors that registers hold, and what is left of a vector.
    let run = |device: &Device| {
        let mut lengths = (0..300).chain(16_385..16_425);
        lengths.try_for_each(|n| rows(device, DType::F32, &[2, n], VALUES))
    };
    add("sort.f32.lengths.values".into(), DType::F32, Box::new(run));
    cases
}

/// The sorted elements, and their indices if they are wanted.
type Sorted = (Vec<u8>, Option<Vec<u8>>);

impl Device {
    /// The op itself.
    fn sort_by_op(&self, op: &Sort, [x, values, indices]: [&Place; 3], held: &[u64]) -> Result<Sorted, Stop> {
        // The rig wants a kernel to read roles and access classes from.
        let mut form = Kernel::new("sort", op.batch + 1, 0);
        form.param(op.dtype, Role::In, Level::Row, Access::Strided);
        form.param(op.dtype, Role::Out, Level::Row, Access::Strided);
        let room = |dtype: DType, place: &Place| {
            Argument::room(dtype, place.len as usize).strided(dtype, place.first, &place.strides)
        };
        let given = Argument::of(op.dtype, held);
        let axis = op.batch as usize;
        let given = if op.part {
            let over = [&x.strides[..axis], &[0]].concat();
            (given.strided(op.dtype, x.first, &over)).gathered(x.strides[axis], x.extents[axis])
        } else {
            given.strided(op.dtype, x.first, &x.strides)
        };
        let mut arguments = vec![given, room(op.dtype, values)];
        if op.indices {
            form.param(DType::I64, Role::Out, Level::Row, Access::Strided);
            arguments.push(room(DType::I64, indices));
        }
        let job = Job {
            kernel: form,
            extents: values.extents.clone(),
            arguments,
            scalars: Vec::new(),
        };
        let kernel = self.compile_library(&LibraryOp::Sort(op.clone()))?;
        let mut found = job.run_compiled(self, kernel)?;
        Ok((found.remove(1), op.indices.then(|| found.remove(1))))
    }

    /// The two kernels that it is lowered to.
    fn sort_by_kernels(
        &self,
        op: &Sort,
        [x, values, indices]: [&Place; 3],
        held: &[u64],
    ) -> Result<Sorted, Stop> {
        let [rank, permute] = op.lowered()?;
        let axis = op.batch as usize;
        let over = |place: &Place, outer: i64| [&place.strides[..axis], &[outer]].concat();
        let (n, along) = (x.extents[axis], x.strides[axis]);
        let extents = [&x.extents[..], &[n]].concat();
        let first = Job {
            kernel: rank,
            extents,
            arguments: vec![
                Argument::of(op.dtype, held).strided(op.dtype, x.first, &[over(x, 0), vec![along]].concat()),
                Argument::of(op.dtype, held).strided(op.dtype, x.first, &x.strides),
                Argument::room(DType::I64, x.len as usize).strided(DType::I64, x.first, &x.strides),
            ],
            scalars: Vec::new(),
        };
        let ranks = first.run(self)?.remove(2);
        let second = Job {
            kernel: permute,
            extents: [&values.extents[..], &[n]].concat(),
            arguments: vec![
                Argument {
                    bytes: ranks,
                    ..Argument::default()
                }
                .strided(DType::I64, x.first, &[over(x, 0), vec![along]].concat()),
                Argument::of(op.dtype, held)
                    .strided(op.dtype, x.first, &over(x, 0))
                    .gathered(along, n),
                Argument::room(op.dtype, values.len as usize).strided(
                    op.dtype,
                    values.first,
                    &values.strides,
                ),
                Argument::room(DType::I64, indices.len as usize).strided(
                    DType::I64,
                    indices.first,
                    &indices.strides,
                ),
            ],
            scalars: Vec::new(),
        };
        let mut found = second.run(self)?;
        Ok((found.remove(2), Some(found.remove(2))))
    }
}

type Sorter = fn(&Device, &Sort, [&Place; 3], &[u64]) -> Result<Sorted, Stop>;

/// Values that are equal to others now and then, and every special one.
fn held(dtype: DType, count: u64, random: &mut Random) -> Vec<u64> {
    let edges = edges(dtype);
    (0..count)
        .map(|_| match random.below(3) {
            0 => random.pick(&edges),
            1 => from_number(dtype, random.below(9) as f64),
            _ => values(dtype, 1, random)[0] & if dtype == DType::Bool { 1 } else { u64::MAX },
        })
        .collect()
}

fn sort(device: &Device, dtype: DType, seed: u64, long: u64, form: Form) -> Check {
    let mut random = Random::new(seed);
    let mut extents: Vec<u64> = (0..random.below(3)).map(|_| random.below(5)).collect();
    extents.push(random.below(long));
    let descending = random.below(2) == 0;
    scattered(device, (dtype, descending), &extents, &mut random, form)
}

/// Rows in both directions, lying in memory in any way.
fn rows(device: &Device, dtype: DType, extents: &[u64], form: Form) -> Check {
    for (seed, descending) in [(1, false), (2, true)] {
        let mut random = Random::new(seed);
        scattered(device, (dtype, descending), extents, &mut random, form)?;
    }
    Ok(())
}

fn scattered(
    device: &Device,
    (dtype, descending): (DType, bool),
    extents: &[u64],
    random: &mut Random,
    form: Form,
) -> Check {
    let mut found = extents.to_vec();
    if let Some(n) = found.last_mut()
        && form.part
    {
        // Few, or any number of them.
        *n = match random.below(2) {
            0 => *n / 9,
            _ => random.below(*n + 1),
        };
    }
    let mut place = |extents: &[u64]| Place::random(extents, |_| true, random);
    let places = [place(extents), place(&found), place(&found)];
    let held = held(dtype, places[0].len, random);
    check(device, (dtype, descending), places.each_ref(), &held, form)
}

fn line(device: &Device, dtype: DType, kind: Line, form: Form) -> Check {
    let mut random = Random::new(5);
    let place = |count: u64| Place {
        extents: vec![count],
        strides: vec![1],
        first: 0,
        len: count,
    };
    let counts: &[u64] = if form.part {
        &[1, 10, 1000, 12_000, 50_000, LINE]
    } else {
        &[LINE]
    };
    let special = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        1.0,
        -1.0,
    ];
    let held: Vec<u64> = (0..LINE)
        .map(|i| match kind {
            Line::Random => held(dtype, 1, &mut random)[0],
            Line::Equal => from_number(dtype, -2.5),
            Line::Sorted => from_number(dtype, i as f64 - 50_000.0),
            Line::Reversed => from_number(dtype, 50_000.0 - i as f64),
            Line::Organ => from_number(dtype, i.min(LINE - i) as f64),
            Line::Few => from_number(dtype, random.below(7) as f64 - 3.0),
            Line::Special => random.pick(&special).to_bits().into(),
            Line::Far if i == LINE / 3 => from_number(dtype, -1e18),
            Line::Far => from_number(dtype, random.below(1 << 20) as f64),
            Line::Crowds => {
                let crowd = match i % 2 {
                    0 => random.below(5) << 50,
                    _ => random.below(LINE) << 40,
                };
                crowd + random.below(1 << 32)
            }
        })
        .collect();
    for (&count, descending) in counts.iter().flat_map(|count| [(count, false), (count, true)]) {
        let (x, to) = (place(LINE), place(count));
        check(device, (dtype, descending), [&x, &to, &to], &held, form)?;
    }
    Ok(())
}

/// Sorts, and compares with a stable sort of the host.
fn check(
    device: &Device,
    (dtype, descending): (DType, bool),
    places: [&Place; 3],
    held: &[u64],
    form: Form,
) -> Check {
    let extents = &places[0].extents;
    let op = Sort {
        batch: extents.len() as u32 - 1,
        descending,
        indices: form.indices,
        part: form.part,
        dtype,
    };
    let (found, indices) = (form.run)(device, &op, places, held)?;
    let found = from_bytes(dtype, &found);
    let indices = indices.map(|indices| from_bytes(DType::I64, &indices));
    let order = |a: u64, b: u64| -> Ordering {
        if !dtype.is_float() {
            let order = integer(dtype, a).cmp(&integer(dtype, b));
            return if op.descending { order.reverse() } else { order };
        }
        let (a, b) = (float(dtype, a), float(dtype, b));
        match a.partial_cmp(&b) {
            Some(order) if op.descending => order.reverse(),
            Some(order) => order,
            None => a.is_nan().cmp(&b.is_nan()),
        }
    };
    let (batch, n) = (&extents[..extents.len() - 1], extents[extents.len() - 1]);
    let wanted = places[1].extents[batch.len()];
    let mut wrong = None;
    each(batch, |batch| {
        let first = [batch, &[0]].concat();
        let starts = [places[0].at(&first), places[1].at(&first), places[2].at(&first)];
        let at = |place: usize, i: u64| {
            starts[place].wrapping_add_signed(places[place].strides[batch.len()] as isize * i as isize)
        };
        let mut sorted: Vec<u64> = (0..n).collect();
        sorted.sort_by(|&a, &b| order(held[at(0, a)], held[at(0, b)]));
        for (i, &from) in (0..wanted).zip(&sorted) {
            let (value, index) = (
                found[at(1, i)],
                indices.as_ref().map_or(from, |all| all[at(2, i)]),
            );
            let expected = held[at(0, from)];
            if (value, index) != (expected, from) && wrong.is_none() {
                wrong = Some(format!(
                    "{batch:?}, {i}: {} from {index}, expected {} from {from}",
                    show(dtype, value),
                    show(dtype, expected)
                ));
            }
        }
    });
    match wrong {
        Some(wrong) => fail!("{op:?}, extents {extents:?}: {wrong}"),
        None => Ok(()),
    }
}
