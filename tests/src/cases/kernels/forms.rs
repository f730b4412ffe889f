//! Shapes and arguments at their limits: no axes, extents of 0 and 1, all sixteen axes, outputs in place of inputs.

use crate::kit::{Case, Check};
use crate::rig::run::{Argument, Job, POISON};
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("kernels", format!("form.{name}"), run);
    vec![
        case("no_axes", no_axes),
        case("no_elements", no_elements),
        case("no_parameters", no_parameters),
        case("extents_of_one", extents_of_one),
        case("sixteen_axes", sixteen_axes),
        case("every_axis_has_its_index", indices),
        case("in_place", in_place),
        case("in_place_strided", in_place_strided),
        case("in_place_reads_before_it_writes", in_place_reads_first),
        case("one_input_twice", one_input_twice),
        case("interleaved_outputs_of_two_launches", interleaved),
        case("offsets", offsets),
        case("lengths_around_blocks", lengths),
        case("gather_along_rows", gather_along_rows),
        case("gather_nothing", gather_nothing),
        case("long_chain", long_chain),
        case("many_parameters", many_parameters),
        case("relaunch_with_other_shapes", relaunch),
        case("kernel_released_while_it_runs", released_while_running),
    ]
}

/// `out = in + 1` on i32.
fn increment(outer: u32, access: Access) -> Kernel {
    let mut kernel = Kernel::new("increment", outer, 0);
    let input = kernel.param(DType::I32, Role::In, Level::Row, access);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, access);
    let value = kernel.load(input);
    let one = kernel.push(Node::Const { dtype: DType::I32, bits: 1 });
    let sum = kernel.op(ScalarOp::Add, &[value, one]);
    kernel.store(output, sum);
    kernel
}

fn ramp(count: usize) -> Vec<u64> {
    (0..count as u64).collect()
}

fn job(kernel: Kernel, extents: &[u64], arguments: Vec<Argument>) -> Job {
    Job {
        kernel,
        extents: extents.to_vec(),
        arguments,
        scalars: Vec::new(),
    }
}

fn no_axes(subject: &Subject) -> Check {
    for access in [Access::Contiguous, Access::Strided] {
        let arguments = vec![Argument::of(DType::I32, &[41, 7]), Argument::room(DType::I32, 2)];
        let found = job(increment(0, access), &[], arguments).check(subject, 0)?;
        let expected = [&to_bytes(DType::I32, &[42])[..], &[POISON; 4]].concat();
        check_eq!(found[1], expected, "the output of a kernel without axes");
    }
    Ok(())
}

fn no_elements(subject: &Subject) -> Check {
    for extents in [[0, 5, 5], [5, 0, 5], [5, 5, 0], [0, 0, 0]] {
        // Smaller than any launch would need, and of no bytes at all.
        for arguments in [
            vec![Argument::of(DType::I32, &[1]), Argument::room(DType::I32, 1)],
            vec![Argument::default(), Argument::default()],
        ] {
            let found = job(increment(3, Access::Contiguous), &extents, arguments).check(subject, 0)?;
            check!(found[1].iter().all(|&b| b == POISON), "a launch over {extents:?} wrote something");
        }
    }
    Ok(())
}

fn no_parameters(subject: &Subject) -> Check {
    job(Kernel::new("empty", 0, 0), &[], Vec::new()).check(subject, 0)?;
    job(Kernel::new("empty", 2, 1), &[3, 4, 5], Vec::new()).check(subject, 0).map(drop)
}

fn extents_of_one(subject: &Subject) -> Check {
    for extents in [[1, 1, 1, 6], [6, 1, 1, 1], [1, 6, 1, 1], [1, 2, 1, 3]] {
        for access in [Access::Contiguous, Access::Strided] {
            let mut stride = 1;
            let mut strides: Vec<i64> = extents
                .iter()
                .rev()
                .map(|&extent| {
                    let this = stride;
                    stride *= extent as i64;
                    // The stride of an axis of one does not matter.
                    if extent == 1 { i64::MAX / 4 } else { this }
                })
                .collect();
            strides.reverse();
            let arguments = vec![
                Argument::of(DType::I32, &ramp(6)).strided(DType::I32, 0, &strides),
                Argument::room(DType::I32, 6).strided(DType::I32, 0, &strides),
            ];
            let found = job(increment(4, access), &extents, arguments).check(subject, 0)?;
            check_eq!(from_bytes(DType::I32, &found[1]), vec![1, 2, 3, 4, 5, 6], "a launch over {extents:?}");
        }
    }
    Ok(())
}

/// Eight outer and eight inner axes of two, each with a stride of its own.
fn sixteen_axes(subject: &Subject) -> Check {
    let mut kernel = Kernel::new("sixteen", 8, 8);
    let input = kernel.param(DType::I32, Role::In, Level::Element, Access::Strided);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, Access::Strided);
    let value = kernel.load(input);
    let sum = kernel.reduce(ReduceOp::Sum, value);
    kernel.store(output, sum);
    // The bits of the index in another order: axis i has the stride 2^(5 i mod 16).
    let strides: Vec<i64> = (0..16).map(|axis| 1 << (axis * 5 % 16)).collect();
    let back: Vec<i64> = (0..8).map(|axis| 1 << axis).collect();
    let arguments = vec![
        Argument::of(DType::I32, &ramp(1 << 16)).strided(DType::I32, 0, &strides),
        Argument::room(DType::I32, 256).strided(DType::I32, 0, &back),
    ];
    let found = job(kernel, &[2; 16], arguments).check(subject, 0)?;
    let found = from_bytes(DType::I32, &found[1]);
    for row in 0..256_u64 {
        let outer: u64 = (0..8).filter(|axis| row >> axis & 1 == 1).map(|axis| strides[axis] as u64).sum();
        let inner: u64 = strides[8..].iter().map(|&stride| stride as u64).sum();
        let expected = 256 * outer + 128 * inner;
        check_eq!(found[row as usize], expected, "the sum of row {row:08b}");
    }
    Ok(())
}

fn indices(subject: &Subject) -> Check {
    let extents = [2_u64, 3, 4, 5];
    let mut kernel = Kernel::new("indices", 2, 2);
    let mut number: Option<NodeId> = None;
    for axis in 0..4_u32 {
        let index = kernel.push(Node::Index { axis });
        let extent = kernel.push(Node::Const {
            dtype: DType::I64,
            bits: extents[axis as usize],
        });
        number = Some(match number {
            None => index,
            Some(before) => {
                let shifted = kernel.op(ScalarOp::Mul, &[before, extent]);
                kernel.op(ScalarOp::Add, &[shifted, index])
            }
        });
    }
    let output = kernel.param(DType::I64, Role::Out, Level::Element, Access::Contiguous);
    let rows = kernel.param(DType::I64, Role::Out, Level::Row, Access::Contiguous);
    let Some(number) = number else { return Ok(()) };
    kernel.store(output, number);
    let index = kernel.push(Node::Index { axis: 1 });
    kernel.store(rows, index);
    let arguments = vec![Argument::room(DType::I64, 120), Argument::room(DType::I64, 6)];
    let found = job(kernel, &extents, arguments).check(subject, 0)?;
    check_eq!(from_bytes(DType::I64, &found[0]), ramp(120), "numbers made of the indices");
    check_eq!(from_bytes(DType::I64, &found[1]), vec![0, 1, 2, 0, 1, 2], "the second index of each row");
    Ok(())
}

fn shared() -> Argument {
    Argument {
        same_as: Some(0),
        ..Argument::default()
    }
}

fn in_place(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    for count in [1, 5, 64, 1000, 5000] {
        let arguments = vec![Argument::of(DType::I32, &ramp(count)), shared()];
        let found = job(increment(1, Access::Contiguous), &[count as u64], arguments).run(&device)?;
        let expected: Vec<u64> = (1..=count as u64).collect();
        check_eq!(from_bytes(DType::I32, &found[1]), expected, "{count} elements incremented in place");
    }
    Ok(())
}

fn in_place_strided(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let strides = [-10_i64, 2];
    let place = |argument: Argument| argument.strided(DType::I32, 90, &strides);
    let arguments = vec![place(Argument::of(DType::I32, &ramp(100))), place(shared())];
    let found = job(increment(2, Access::Strided), &[10, 4], arguments).run(&device)?;
    let mut expected = ramp(100);
    for row in 0..10 {
        for at in 0..4 {
            expected[90 - row * 10 + at * 2] += 1;
        }
    }
    check_eq!(from_bytes(DType::I32, &found[1]), expected, "every other element incremented in place");
    Ok(())
}

/// The row's sum is divided by in place: every element is read before one is written.
fn in_place_reads_first(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let mut kernel = Kernel::new("shares", 1, 1);
    let input = kernel.param(DType::I32, Role::In, Level::Element, Access::Contiguous);
    let output = kernel.param(DType::I32, Role::Out, Level::Element, Access::Contiguous);
    let value = kernel.load(input);
    let sum = kernel.reduce(ReduceOp::Sum, value);
    let result = kernel.op(ScalarOp::Sub, &[sum, value]);
    kernel.store(output, result);
    for length in [3, 100, 5000] {
        let values = ramp(length * 3);
        let arguments = vec![Argument::of(DType::I32, &values), shared()];
        let found = job(kernel.clone(), &[3, length as u64], arguments).run(&device)?;
        let found = from_bytes(DType::I32, &found[1]);
        for (row, found) in values.chunks(length).zip(found.chunks(length)) {
            let sum: u64 = row.iter().sum();
            let expected: Vec<u64> = row.iter().map(|value| sum - value).collect();
            check!(found == expected, "a row of {length} in place of itself is wrong");
        }
    }
    Ok(())
}

fn one_input_twice(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let mut kernel = Kernel::new("difference", 1, 0);
    let a = kernel.param(DType::I32, Role::In, Level::Row, Access::Strided);
    let b = kernel.param(DType::I32, Role::In, Level::Row, Access::Strided);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let (x, y) = (kernel.load(a), kernel.load(b));
    let result = kernel.op(ScalarOp::Sub, &[x, y]);
    kernel.store(output, result);
    let squares: Vec<u64> = (0..50).map(|i| i * i).collect();
    let arguments = vec![
        Argument::of(DType::I32, &squares).strided(DType::I32, 1, &[1]),
        shared().strided(DType::I32, 0, &[1]),
        Argument::room(DType::I32, 49),
    ];
    let found = job(kernel, &[49], arguments).run(&device)?;
    let expected: Vec<u64> = (0..49).map(|i| 2 * i + 1).collect();
    check_eq!(from_bytes(DType::I32, &found[2]), expected, "differences of squares");
    Ok(())
}

/// Two launches write every other element of one buffer.
fn interleaved(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&increment(1, Access::Strided))?;
    let stream = device.stream()?;
    let (input, output) = (device.upload(&to_bytes(DType::I32, &ramp(20)))?, device.alloc(80)?);
    for start in [0, 1] {
        let place = Argument::default().strided(DType::I32, start, &[2]);
        let job = job(increment(1, Access::Strided), &[10], vec![place.clone(), place]);
        let bindings = job.bindings(&[input, output]);
        device.launch(stream, &job.launch(kernel, &bindings), "increment")?;
    }
    let found = from_bytes(DType::I32, &device.download(stream, output, 80)?);
    check_eq!(found, (1..=20).collect::<Vec<u64>>(), "both halves");
    Ok(())
}

fn offsets(subject: &Subject) -> Check {
    for first in [1_u64, 3, 7, 100] {
        let count = 40;
        let arguments = vec![
            Argument::of(DType::I32, &ramp(200)).strided(DType::I32, first, &[]),
            Argument::room(DType::I32, 200).strided(DType::I32, 2 * first % 150, &[]),
        ];
        let found = job(increment(1, Access::Contiguous), &[count], arguments).check(subject, 0)?;
        let found = from_bytes(DType::I32, &found[1]);
        let expected: Vec<u64> = (first + 1..=first + count).collect();
        let start = (2 * first % 150) as usize;
        check_eq!(found[start..start + count as usize], expected, "a launch at element {first}");
    }
    Ok(())
}

/// Lengths on both sides of what vectors, blocks and threads take.
fn lengths(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&increment(1, Access::Contiguous))?;
    for power in [4, 5, 6, 10, 11, 12, 15] {
        for count in [(1_usize << power) - 1, 1 << power, (1 << power) + 1] {
            let arguments = vec![Argument::of(DType::I32, &ramp(count)), Argument::room(DType::I32, count + 8)];
            let job = job(increment(1, Access::Contiguous), &[count as u64], arguments);
            let found = from_bytes(DType::I32, &job.run_compiled(&device, kernel)?[1]);
            let right = found[..count].iter().zip(1..).all(|(&found, expected)| found == expected);
            check!(right, "{count} elements");
            let rest = u64::from(u32::from_le_bytes([POISON; 4]));
            check!(found[count..].iter().all(|&value| value == rest), "{count} elements: more were written");
        }
    }
    Ok(())
}

/// Whole rows of a table by index, as an embedding takes them: the table moves along the inner axis by its stride and
/// along the outer one by the index.
fn gather_along_rows(subject: &Subject) -> Check {
    let mut kernel = Kernel::new("embedding", 1, 1);
    let table = kernel.param(DType::I32, Role::In, Level::Element, Access::Strided);
    let picks = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::I32, Role::Out, Level::Element, Access::Contiguous);
    let pick = kernel.load(picks);
    let index = kernel.cast(DType::I64, pick);
    let value = kernel.push(Node::LoadAt { param: table, index });
    kernel.store(output, value);
    let picks = [4_i32, 0, 9, -1, 10, 4, i32::MIN];
    let bits: Vec<u64> = picks.iter().map(|&pick| u64::from(pick as u32)).collect();
    let values: Vec<u64> = (1..=60).collect();
    let arguments = vec![
        Argument::of(DType::I32, &values).strided(DType::I32, 0, &[0, 1]).gathered(6, 10),
        Argument::of(DType::I32, &bits),
        Argument::room(DType::I32, picks.len() * 6),
    ];
    let found = job(kernel, &[picks.len() as u64, 6], arguments).check(subject, 0)?;
    for (pick, row) in picks.iter().zip(from_bytes(DType::I32, &found[2]).chunks(6)) {
        let expected: Vec<u64> = match usize::try_from(*pick) {
            Ok(at) if at < 10 => values[at * 6..at * 6 + 6].to_vec(),
            _ => vec![0; 6],
        };
        check_eq!(row, expected, "row {pick} of a table of 10");
    }
    Ok(())
}

/// A table without valid indices is not touched, not even its first byte.
fn gather_nothing(subject: &Subject) -> Check {
    let mut kernel = Kernel::new("nothing", 1, 0);
    let table = kernel.param(DType::I32, Role::In, Level::Row, Access::Broadcast);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let index = kernel.push(Node::Index { axis: 0 });
    let value = kernel.push(Node::LoadAt { param: table, index });
    kernel.store(output, value);
    let arguments = vec![Argument::default().gathered(i64::MAX, 0), Argument::room(DType::I32, 9)];
    let found = job(kernel, &[9], arguments).check(subject, 0)?;
    check_eq!(from_bytes(DType::I32, &found[1]), vec![0; 9], "elements of a table of none");
    Ok(())
}

/// Two thousand nodes, all of which are used.
fn long_chain(subject: &Subject) -> Check {
    let mut kernel = Kernel::new("chain", 1, 0);
    let input = kernel.param(DType::U32, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::U32, Role::Out, Level::Row, Access::Contiguous);
    let first = kernel.load(input);
    let mut value = first;
    for _ in 0..1000 {
        let product = kernel.op(ScalarOp::Mul, &[value, first]);
        value = kernel.op(ScalarOp::Xor, &[product, value]);
    }
    kernel.store(output, value);
    let arguments = vec![Argument::of(DType::U32, &ramp(50)), Argument::room(DType::U32, 50)];
    let found = job(kernel, &[50], arguments).check(subject, 0)?;
    for (first, found) in (0_u32..).zip(from_bytes(DType::U32, &found[1])) {
        let expected = (0..1000).fold(first, |value, _| value.wrapping_mul(first) ^ value);
        check_eq!(found, u64::from(expected), "a chain of 2000 ops on {first}");
    }
    Ok(())
}

/// As many inputs as a kernel may have, and one output.
fn many_parameters(subject: &Subject) -> Check {
    const COUNT: usize = thalweg_hal::ir::MAX_PARAMS - 1;
    let mut kernel = Kernel::new("many", 1, 0);
    let mut total: Option<NodeId> = None;
    for _ in 0..COUNT {
        let param = kernel.param(DType::I64, Role::In, Level::Row, Access::Contiguous);
        let value = kernel.load(param);
        total = Some(match total {
            None => value,
            Some(before) => kernel.op(ScalarOp::Add, &[before, value]),
        });
    }
    let output = kernel.param(DType::I64, Role::Out, Level::Row, Access::Contiguous);
    let Some(total) = total else { return Ok(()) };
    kernel.store(output, total);
    let mut arguments: Vec<Argument> = (0..COUNT as u64)
        .map(|i| Argument::of(DType::I64, &[i, 2 * i, 3 * i]))
        .collect();
    arguments.push(Argument::room(DType::I64, 3));
    let found = job(kernel, &[3], arguments).check(subject, 0)?;
    let sum = (COUNT * (COUNT - 1) / 2) as u64;
    check_eq!(from_bytes(DType::I64, &found[COUNT]), vec![sum, 2 * sum, 3 * sum], "sums over {COUNT} inputs");
    Ok(())
}

/// One compiled kernel over many shapes.
fn relaunch(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&increment(3, Access::Strided))?;
    for extents in [[1_u64, 2, 3], [3, 2, 1], [7, 1, 9], [0, 4, 4], [2, 50, 3], [16, 16, 16]] {
        let count = extents.iter().product::<u64>() as usize;
        // Columns first in memory.
        let strides = [1, extents[0] as i64, (extents[0] * extents[1]) as i64];
        let arguments = vec![
            Argument::of(DType::I32, &ramp(count.max(1))).strided(DType::I32, 0, &strides),
            Argument::room(DType::I32, count.max(1)).strided(DType::I32, 0, &strides),
        ];
        let job = job(increment(3, Access::Strided), &extents, arguments);
        let found = from_bytes(DType::I32, &job.run_compiled(&device, kernel)?[1]);
        let expected: Vec<u64> = (1..=count as u64).collect();
        check!(found[..count] == expected, "a launch over {extents:?}");
    }
    Ok(())
}

fn released_while_running(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&increment(1, Access::Contiguous))?;
    let stream = device.stream()?;
    let (input, output) = (device.upload(&to_bytes(DType::I32, &ramp(8)))?, device.alloc(32)?);
    let job = job(increment(1, Access::Contiguous), &[8], vec![Argument::default(), Argument::default()]);
    let bindings = job.bindings(&[input, output]);
    let gate = crate::rig::Gate::new(&device, stream)?;
    device.launch(stream, &job.launch(kernel, &bindings), "increment")?;
    if let Some(table) = device.raw().tables.kernel {
        // SAFETY: plain call.
        device.raw().status(unsafe { (table.release)(device.raw().context, kernel) })?;
    }
    gate.open();
    let found = from_bytes(DType::I32, &device.download(stream, output, 32)?);
    check_eq!(found, (1..=8).collect::<Vec<u64>>(), "a launch whose kernel was released before it ran");
    Ok(())
}
