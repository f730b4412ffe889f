//! Every scalar op on every dtype that it takes, in every way to reach its arguments.

use super::{need, seed, tolerance};
use crate::fail;
use crate::kit::{Case, Check};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, edges, from_bytes, is_close, random, show};
use crate::rig::{Device, Subject};
use thalweg_hal::DType;
use thalweg_hal::interpreter::scalar::eval;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, Returns, Role, ScalarOp};

/// How the arguments are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// One after the other.
    Contiguous,
    /// The first argument is one element for the whole launch.
    Broadcast,
    /// Transposed, backwards, with gaps and with a stride of 0.
    Strided,
    /// The first argument comes from a table by an index, some of which lie outside.
    Gather,
}

const CLASSES: [(Class, &str); 4] = [
    (Class::Contiguous, "contiguous"),
    (Class::Broadcast, "broadcast"),
    (Class::Strided, "strided"),
    (Class::Gather, "gather"),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &op in ScalarOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.accepts().takes(dtype)) {
            for (class, name) in CLASSES {
                let name = format!("scalar.{op}.{dtype}.{name}");
                let seed = seed(&name);
                cases.push(Case::new("kernels", name, move |subject| {
                    run(subject, op, dtype, class, seed)
                }));
            }
        }
    }
    cases
}

/// Dtype of each argument of an op on `dtype`.
fn argument_dtypes(op: ScalarOp, dtype: DType) -> Vec<DType> {
    let mut dtypes = vec![dtype; op.arity()];
    if op == ScalarOp::Select {
        dtypes[0] = DType::Bool;
    }
    dtypes
}

fn returned(op: ScalarOp, dtype: DType) -> DType {
    match op.returns() {
        Returns::Same => dtype,
        Returns::Bool => DType::Bool,
        Returns::Index => DType::I64,
    }
}

/// Arguments: edges against edges, then random ones; columns of equal length.
fn columns(op: ScalarOp, dtype: DType, seed: u64) -> Vec<Vec<u64>> {
    let dtypes = argument_dtypes(op, dtype);
    let mut source = Random::new(seed);
    // With three arguments a third of the edges does, so that the product stays small.
    let step = if dtypes.len() == 3 { 3 } else { 1 };
    let lists: Vec<Vec<u64>> = (dtypes.iter())
        .map(|&dtype| {
            let edges = edges(dtype);
            if edges.len() > 6 {
                edges.into_iter().step_by(step).collect()
            } else {
                edges
            }
        })
        .collect();
    let mut columns = vec![Vec::new(); dtypes.len()];
    let count: usize = lists.iter().map(Vec::len).product();
    for at in 0..count {
        let mut rest = at;
        for (column, list) in columns.iter_mut().zip(&lists) {
            column.push(list[rest % list.len()]);
            rest /= list.len();
        }
    }
    // A whole number of rows of 7, and more than one block of any backend.
    let total = (count + 150).max(1200).next_multiple_of(7);
    for _ in count..total {
        for (column, &dtype) in columns.iter_mut().zip(&dtypes) {
            column.push(random(dtype, &mut source));
        }
    }
    columns
}

struct Plan {
    job: Job,
    /// Element of the output's memory for each result.
    places: Vec<usize>,
    /// Arguments of each result.
    columns: Vec<Vec<u64>>,
}

fn run(subject: &Subject, op: ScalarOp, dtype: DType, class: Class, seed: u64) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let columns = columns(op, dtype, seed);
    let plans = match class {
        Class::Contiguous => vec![contiguous(op, dtype, columns)],
        Class::Broadcast => broadcast(op, dtype, &columns),
        Class::Strided => vec![strided(op, dtype, columns)],
        Class::Gather => vec![gather(op, dtype, columns)],
    };
    for plan in plans {
        let found = plan.job.run(&device)?;
        plan.judge(op, dtype, &found)
            .map_err(|stop| plan.job.explain(stop, "against the definition"))?;
    }
    Ok(())
}

impl Plan {
    fn judge(&self, op: ScalarOp, dtype: DType, found: &[Vec<u8>]) -> Check {
        let out = returned(op, dtype);
        let Some(memory) = found.last() else {
            fail!("the kernel has no output");
        };
        let found = from_bytes(out, memory);
        let poison = from_bytes(out, &vec![crate::rig::run::POISON; out.size()])[0];
        let mut written = vec![false; found.len()];
        for (index, &place) in self.places.iter().enumerate() {
            written[place] = true;
            let at = |i: usize| self.columns.get(i).map_or(0, |column| column[index]);
            let args = [at(0), at(1), at(2)];
            let expected = eval(op, dtype, args);
            if !is_close(out, found[place], expected, tolerance(op, dtype)) {
                let shown: Vec<String> = argument_dtypes(op, dtype)
                    .iter()
                    .zip(args)
                    .map(|(&dtype, bits)| show(dtype, bits))
                    .collect();
                fail!(
                    "{op} {dtype} of {} is {}, expected {}",
                    shown.join(" and "),
                    show(out, found[place]),
                    show(out, expected)
                );
            }
        }
        for (place, value) in found.iter().enumerate() {
            if !written[place] && *value != poison {
                fail!("element {place} of the output's memory was written and is not part of it");
            }
        }
        Ok(())
    }
}

/// The op on values that are loaded already, and its store.
fn finish(kernel: &mut Kernel, op: ScalarOp, dtype: DType, values: &[NodeId], access: Access) {
    let out = kernel.param(returned(op, dtype), Role::Out, Level::Row, access);
    let result = kernel.op(op, values);
    kernel.store(out, result);
}

fn contiguous(op: ScalarOp, dtype: DType, columns: Vec<Vec<u64>>) -> Plan {
    let mut kernel = Kernel::new(op.name(), 1, 0);
    let dtypes = argument_dtypes(op, dtype);
    let values: Vec<NodeId> = (dtypes.iter())
        .map(|&dtype| {
            let param = kernel.param(dtype, Role::In, Level::Row, Access::Contiguous);
            kernel.load(param)
        })
        .collect();
    finish(&mut kernel, op, dtype, &values, Access::Contiguous);
    let count = columns[0].len();
    let mut arguments: Vec<Argument> = dtypes
        .iter()
        .zip(&columns)
        .map(|(&dtype, column)| Argument::of(dtype, column))
        .collect();
    arguments.push(Argument::room(returned(op, dtype), count));
    Plan {
        job: Job {
            kernel,
            extents: vec![count as u64],
            arguments,
            scalars: Vec::new(),
        },
        places: (0..count).collect(),
        columns,
    }
}

/// One launch for each of some values of the first argument.
fn broadcast(op: ScalarOp, dtype: DType, columns: &[Vec<u64>]) -> Vec<Plan> {
    const COUNT: usize = 70;
    let dtypes = argument_dtypes(op, dtype);
    let mut firsts = edges(dtypes[0]);
    let keep = firsts.len().div_ceil(8);
    firsts = firsts.into_iter().step_by(keep).collect();
    let mut kernel = Kernel::new(op.name(), 1, 0);
    let mut values = Vec::new();
    for (i, &dtype) in dtypes.iter().enumerate() {
        let access = if i == 0 {
            Access::Broadcast
        } else {
            Access::Contiguous
        };
        let param = kernel.param(dtype, Role::In, Level::Row, access);
        values.push(kernel.load(param));
    }
    finish(&mut kernel, op, dtype, &values, Access::Contiguous);
    let plan = |(index, &first): (usize, &u64)| {
        // The rest of the arguments from another part of the columns for each launch.
        let start = index * COUNT;
        let mut part: Vec<Vec<u64>> = columns
            .iter()
            .map(|column| column.iter().cycle().skip(start).take(COUNT).copied().collect())
            .collect();
        part[0] = vec![first; COUNT];
        let mut arguments =
            vec![Argument::of(dtypes[0], &[!first, first, !first]).strided(dtypes[0], 1, &[])];
        if dtypes[0] == DType::Bool {
            arguments[0] = Argument::of(DType::Bool, &[1 - first, first]).strided(DType::Bool, 1, &[]);
        }
        arguments.extend((1..dtypes.len()).map(|i| Argument::of(dtypes[i], &part[i])));
        arguments.push(Argument::room(returned(op, dtype), COUNT));
        Plan {
            job: Job {
                kernel: kernel.clone(),
                extents: vec![COUNT as u64],
                arguments,
                scalars: Vec::new(),
            },
            places: (0..COUNT).collect(),
            columns: part,
        }
    };
    firsts.iter().enumerate().map(plan).collect()
}

/// Rows of 7: the first argument transposed and backwards along one axis, the second with gaps, the third the same in every
/// row, the output with its rows backwards and a gap after each.
fn strided(op: ScalarOp, dtype: DType, mut columns: Vec<Vec<u64>>) -> Plan {
    const WIDTH: usize = 7;
    let dtypes = argument_dtypes(op, dtype);
    let count = columns[0].len();
    let rows = count / WIDTH;
    let mut kernel = Kernel::new(op.name(), 2, 0);
    let values: Vec<NodeId> = (dtypes.iter())
        .map(|&dtype| {
            let param = kernel.param(dtype, Role::In, Level::Row, Access::Strided);
            kernel.load(param)
        })
        .collect();
    finish(&mut kernel, op, dtype, &values, Access::Strided);
    if let Some(third) = columns.get_mut(2) {
        for index in WIDTH..count {
            third[index] = third[index % WIDTH];
        }
    }
    let mut arguments = Vec::new();
    for (i, (&dtype, column)) in dtypes.iter().zip(&columns).enumerate() {
        let (len, first, strides) = match i {
            0 => (count, (WIDTH - 1) * rows, vec![1, -(rows as i64)]),
            1 => (count * 2, 0, vec![2 * WIDTH as i64, 2]),
            _ => (WIDTH, 0, vec![0, 1]),
        };
        let mut memory = vec![0; len];
        for row in 0..rows {
            for at in 0..WIDTH {
                let place = first as i64 + row as i64 * strides[0] + at as i64 * strides[1];
                memory[place as usize] = column[row * WIDTH + at];
            }
        }
        arguments.push(Argument::of(dtype, &memory).strided(dtype, first as u64, &strides));
    }
    let out = returned(op, dtype);
    let (pitch, first) = (WIDTH + 2, (rows - 1) * (WIDTH + 2));
    arguments.push(Argument::room(out, rows * pitch).strided(out, first as u64, &[-(pitch as i64), 1]));
    let place = |index: usize| first - index / WIDTH * pitch + index % WIDTH;
    Plan {
        job: Job {
            kernel,
            extents: vec![rows as u64, WIDTH as u64],
            arguments,
            scalars: Vec::new(),
        },
        places: (0..count).map(place).collect(),
        columns,
    }
}

fn gather(op: ScalarOp, dtype: DType, mut columns: Vec<Vec<u64>>) -> Plan {
    let dtypes = argument_dtypes(op, dtype);
    let count = columns[0].len();
    let mut kernel = Kernel::new(op.name(), 1, 0);
    let table = kernel.param(dtypes[0], Role::In, Level::Row, Access::Broadcast);
    let picks = kernel.param(DType::I64, Role::In, Level::Row, Access::Contiguous);
    let index = kernel.load(picks);
    let mut values = vec![kernel.push(Node::LoadAt { param: table, index })];
    for &dtype in &dtypes[1..] {
        let param = kernel.param(dtype, Role::In, Level::Row, Access::Contiguous);
        values.push(kernel.load(param));
    }
    finish(&mut kernel, op, dtype, &values, Access::Contiguous);
    // The table backwards, two elements apart; every ninth index lies outside.
    let mut memory = vec![0; count * 2];
    for (i, &value) in columns[0].iter().enumerate() {
        memory[(count - 1 - i) * 2] = value;
    }
    let outside = [-1, count as i64, i64::MAX, i64::MIN, count as i64 + 1];
    let mut indices: Vec<u64> = (0..count as u64).map(|i| (i * 5 + 2) % count as u64).collect();
    for (at, index) in indices.iter_mut().enumerate().filter(|(at, _)| at % 9 == 4) {
        *index = outside[at % outside.len()] as u64;
    }
    let first = columns[0].clone();
    for (value, &index) in columns[0].iter_mut().zip(&indices) {
        *value = first
            .get(usize::try_from(index).unwrap_or(usize::MAX))
            .copied()
            .unwrap_or(0);
    }
    let mut arguments = vec![
        Argument::of(dtypes[0], &memory)
            .strided(dtypes[0], (count as u64 - 1) * 2, &[])
            .gathered(-2, count as u64),
        Argument::of(DType::I64, &indices),
    ];
    arguments.extend((1..dtypes.len()).map(|i| Argument::of(dtypes[i], &columns[i])));
    arguments.push(Argument::room(returned(op, dtype), count));
    Plan {
        job: Job {
            kernel,
            extents: vec![count as u64],
            arguments,
            scalars: Vec::new(),
        },
        places: (0..count).collect(),
        columns,
    }
}
