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
        case("lengths_around_blocks", lengths),
        case("long_chain", long_chain),
        case("many_parameters", many_parameters),
        case("relaunch_with_other_shapes", relaunch),
        case("kernel_released_while_it_runs", released_while_running),
    ]
}

/// `out = in + 1` on i32.
pub(super) fn increment(outer: u32, access: Access) -> Kernel {
    let mut kernel = Kernel::new("increment", outer, 0);
    let input = kernel.param(DType::I32, Role::In, Level::Row, access);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, access);
    let value = kernel.load(input);
    let one = kernel.push(Node::Const {
        dtype: DType::I32,
        bits: 1,
    });
    let sum = kernel.op(ScalarOp::Add, &[value, one]);
    kernel.store(output, sum);
    kernel
}

pub(super) fn ramp(count: usize) -> Vec<u64> {
    (0..count as u64).collect()
}

pub(super) fn job(kernel: Kernel, extents: &[u64], arguments: Vec<Argument>) -> Job {
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
            check!(
                found[1].iter().all(|&b| b == POISON),
                "a launch over {extents:?} wrote something"
            );
        }
    }
    Ok(())
}

fn no_parameters(subject: &Subject) -> Check {
    job(Kernel::new("empty", 0, 0), &[], Vec::new()).check(subject, 0)?;
    job(Kernel::new("empty", 2, 1), &[3, 4, 5], Vec::new())
        .check(subject, 0)
        .map(drop)
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
            check_eq!(
                from_bytes(DType::I32, &found[1]),
                vec![1, 2, 3, 4, 5, 6],
                "a launch over {extents:?}"
            );
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
        let outer: u64 = (0..8)
            .filter(|axis| row >> axis & 1 == 1)
            .map(|axis| strides[axis] as u64)
            .sum();
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
    check_eq!(
        from_bytes(DType::I64, &found[0]),
        ramp(120),
        "numbers made of the indices"
    );
    check_eq!(
        from_bytes(DType::I64, &found[1]),
        vec![0, 1, 2, 0, 1, 2],
        "the second index of each row"
    );
    Ok(())
}

/// Lengths on both sides of what vectors, blocks and threads take.
fn lengths(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&increment(1, Access::Contiguous))?;
    for power in [4, 5, 6, 10, 11, 12, 15] {
        for count in [(1_usize << power) - 1, 1 << power, (1 << power) + 1] {
            let arguments = vec![
                Argument::of(DType::I32, &ramp(count)),
                Argument::room(DType::I32, count + 8),
            ];
            let job = job(increment(1, Access::Contiguous), &[count as u64], arguments);
            let found = from_bytes(DType::I32, &job.run_compiled(&device, kernel)?[1]);
            let right = found[..count]
                .iter()
                .zip(1..)
                .all(|(&found, expected)| found == expected);
            check!(right, "{count} elements");
            let rest = u64::from(u32::from_le_bytes([POISON; 4]));
            check!(
                found[count..].iter().all(|&value| value == rest),
                "{count} elements: more were written"
            );
        }
    }
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
    let arguments = vec![
        Argument::of(DType::U32, &ramp(50)),
        Argument::room(DType::U32, 50),
    ];
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
    check_eq!(
        from_bytes(DType::I64, &found[COUNT]),
        vec![sum, 2 * sum, 3 * sum],
        "sums over {COUNT} inputs"
    );
    Ok(())
}

/// One compiled kernel over many shapes.
fn relaunch(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&increment(3, Access::Strided))?;
    for extents in [
        [1_u64, 2, 3],
        [3, 2, 1],
        [7, 1, 9],
        [0, 4, 4],
        [2, 50, 3],
        [16, 16, 16],
    ] {
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
    let job = job(
        increment(1, Access::Contiguous),
        &[8],
        vec![Argument::default(), Argument::default()],
    );
    let bindings = job.bindings(&[input, output]);
    let gate = crate::rig::Gate::new(&device, stream)?;
    device.launch(stream, &job.launch(kernel, &bindings), "increment")?;
    if let Some(table) = device.raw().tables.kernel {
        // SAFETY: plain call.
        let code = unsafe { (table.release)(device.raw().context, kernel) };
        device.raw().status(code)?;
    }
    gate.open();
    let found = from_bytes(DType::I32, &device.download(stream, output, 32)?);
    check_eq!(
        found,
        (1..=8).collect::<Vec<u64>>(),
        "a launch whose kernel was released before it ran"
    );
    Ok(())
}
