//! Where arguments lie: outputs in place of inputs, offsets, tables.

use super::forms::{increment, job, ramp};
use crate::kit::{Case, Check};
use crate::rig::run::Argument;
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, ReduceOp, Role, ScalarOp};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("kernels", format!("form.{name}"), run);
    vec![
        case("in_place", in_place),
        case("in_place_strided", in_place_strided),
        case("in_place_reads_before_it_writes", in_place_reads_first),
        case("one_input_twice", one_input_twice),
        case("interleaved_outputs_of_two_launches", interleaved),
        case("offsets", offsets),
        case("gather_along_rows", gather_along_rows),
        case("gather_nothing", gather_nothing),
    ]
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
        check_eq!(
            from_bytes(DType::I32, &found[1]),
            expected,
            "{count} elements incremented in place"
        );
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
    check_eq!(
        from_bytes(DType::I32, &found[1]),
        expected,
        "every other element incremented in place"
    );
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
    check_eq!(
        from_bytes(DType::I32, &found[2]),
        expected,
        "differences of squares"
    );
    Ok(())
}

/// Two launches write every other element of one buffer.
fn interleaved(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&increment(1, Access::Strided))?;
    let stream = device.stream()?;
    let (input, output) = (
        device.upload(&to_bytes(DType::I32, &ramp(20)))?,
        device.alloc(80)?,
    );
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
        check_eq!(
            found[start..start + count as usize],
            expected,
            "a launch at element {first}"
        );
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
        Argument::of(DType::I32, &values)
            .strided(DType::I32, 0, &[0, 1])
            .gathered(6, 10),
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
    let arguments = vec![
        Argument::default().gathered(i64::MAX, 0),
        Argument::room(DType::I32, 9),
    ];
    let found = job(kernel, &[9], arguments).check(subject, 0)?;
    check_eq!(
        from_bytes(DType::I32, &found[1]),
        vec![0; 9],
        "elements of a table of none"
    );
    Ok(())
}
