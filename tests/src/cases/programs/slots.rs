//! Programs over the memory that each run is given and makes.

use super::{Programs, add, counter, increment, job, plain, refuse, scale};
use crate::kit::{Check, Stop};
use crate::rig::device::{copy_packet, fill, fill_packet, launch_packet};
use crate::rig::run::Job;
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Gate, Subject};
use crate::{check, check_eq};
use std::ptr::null;
use thalweg_hal::ir::{Access, Kernel, Level, Role};
use thalweg_hal::library::{LibraryOp, Matmul};
use thalweg_hal::tables::{Copy, Packet, Place, ProgramArgs, ProgramDependency, ProgramScalar};
use thalweg_hal::{DType, Result, Status};

pub(super) fn chain(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    for (count, nodes) in [(10_u64, 1_u64), (10, 7), (300_000, 4)] {
        let values: Vec<u64> = (0..count).collect();
        let input = device.upload(&to_bytes(DType::I32, &values))?;
        let program = counter(&programs, count, nodes)?;
        for _ in 0..3 {
            let made = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
            let found = from_bytes(DType::I32, &device.download(stream, made[0], 4 * count)?);
            check!(
                found.iter().zip(0..).all(|(&found, at)| found == at + nodes),
                "{nodes} nodes on {count} elements: {:?}…",
                &found[..8]
            );
            device.free(made[0])?;
        }
        programs.destroy(program)?;
        device.free(input)?;
    }
    Ok(())
}

/// Packets that do not wait for each other, and some that must: a backend may run the former at once.
pub(super) fn branches(subject: &Subject) -> Check {
    const BRANCHES: u64 = 8;
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    for count in [5_u64, 6_000] {
        let (step, sum) = (job(increment(), count), job(add(), count));
        let (increment, add) = (device.compile(&step.kernel)?, device.compile(&sum.kernel)?);
        // Slot 1 is the input, 2 the output; then come two scratch buffers for each branch, and one for each sum.
        let (first, second) = (|branch: u64| 3 + branch, |branch: u64| 3 + BRANCHES + branch);
        let partial = |at: u64| 3 + 2 * BRANCHES + at;
        let once: Vec<_> = (0..BRANCHES).map(|b| step.bindings(&[1, first(b)])).collect();
        let twice: Vec<_> = (0..BRANCHES)
            .map(|b| step.bindings(&[first(b), second(b)]))
            .collect();
        // They write over what the second round of packets reads.
        let fills: Vec<_> = (0..BRANCHES)
            .map(|b| fill(first(b), 0, 4 * count, 7, 4))
            .collect();
        let mut sums = vec![sum.bindings(&[second(0), second(1), partial(0)])];
        sums.extend((2..BRANCHES).map(|b| sum.bindings(&[partial(b - 2), second(b), partial(b - 1)])));
        sums.push(sum.bindings(&[partial(BRANCHES - 2), first(3), 2]));
        let launches: Vec<_> = (once.iter().chain(&twice))
            .map(|bindings| step.launch(increment, bindings))
            .chain(sums.iter().map(|bindings| sum.launch(add, bindings)))
            .collect();
        let (rounds, sums) = launches.split_at(2 * BRANCHES as usize);
        let packets: Vec<Packet> = (rounds.iter().map(|launch| launch_packet(launch, null())))
            .chain(fills.iter().map(|fill| fill_packet(fill, null())))
            .chain(sums.iter().map(|launch| launch_packet(launch, null())))
            .collect();
        let scratch = vec![4 * count; 3 * BRANCHES as usize - 1];
        let program = programs.create(&packets, (1, &[4 * count], &scratch, 0), &[])?;
        let values: Vec<u64> = (0..count).collect();
        let input = device.upload(&to_bytes(DType::I32, &values))?;
        for _ in 0..20 {
            let made = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
            let found = from_bytes(DType::I32, &device.download(stream, made[0], 4 * count)?);
            check!(
                found
                    .iter()
                    .zip(0..)
                    .all(|(&found, x)| found == BRANCHES * (x + 2) + 7),
                "{:?}…",
                &found[..5]
            );
            device.free(made[0])?;
        }
        programs.destroy(program)?;
        device.free(input)?;
    }
    Ok(())
}

pub(super) fn scalars(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let work = Job {
        scalars: vec![5],
        ..job(scale(), 4)
    };
    let kernel = device.compile(&work.kernel)?;
    // (x * 5) * argument 1, beside a fill; argument 0 goes nowhere.
    let (first, second) = (work.bindings(&[1, 4]), work.bindings(&[4, 2]));
    let (first, second) = (work.launch(kernel, &first), work.launch(kernel, &second));
    let nines = fill(3, 4, 8, 9, 4);
    let packets = [
        launch_packet(&first, null()),
        fill_packet(&nines, null()),
        launch_packet(&second, null()),
    ];
    let given = [ProgramScalar {
        packet: 2,
        scalar: 0,
        argument: 1,
        reserved: 0,
    }];
    let program = programs.create(&packets, (1, &[16, 12], &[16], 2), &given)?;
    let input = device.upload(&to_bytes(DType::I32, &[1, 2, 3, 4]))?;
    for factor in [2_u64, 10] {
        let made = plain(programs.run((program, stream), &[(input, 0)], &[u64::MAX, factor], 2))?;
        let found = from_bytes(DType::I32, &device.download(stream, made[0], 16)?);
        check_eq!(found, [5, 10, 15, 20].map(|x| x * factor).to_vec(), "scaled");
        let filled = from_bytes(DType::I32, &device.download(stream, made[1], 12)?);
        check_eq!(filled[1..], [9, 9], "filled");
        made.iter().try_for_each(|&handle| device.free(handle))?;
    }
    Ok(programs.destroy(program)?)
}

pub(super) fn origins(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let mut kernel = Kernel::new("reversed", 1, 0);
    let x = kernel.param(DType::I32, Role::In, Level::Row, Access::Strided);
    let out = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(x);
    kernel.store(out, value);
    let mut work = job(kernel, 3);
    work.arguments[0].strides = vec![-2];
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[1, 2]);
    let launch = work.launch(kernel, &bindings);
    let program = programs.create(&[launch_packet(&launch, null())], (1, &[12], &[], 0), &[])?;
    let values: Vec<u64> = (0..10).collect();
    let input = device.upload(&to_bytes(DType::I32, &values))?;
    for origin in [4_u64, 5, 9] {
        let made = plain(programs.run((program, stream), &[(input, 4 * origin)], &[], 1))?;
        let found = from_bytes(DType::I32, &device.download(stream, made[0], 12)?);
        check_eq!(found, vec![origin, origin - 2, origin - 4], "from {origin} back");
        device.free(made[0])?;
    }
    for (origin, what) in [
        (12, "an origin with too little before it"),
        (18, "an origin between elements"),
        (40, "an origin at the end"),
        (u64::MAX, "an origin at the end of all"),
    ] {
        let result = plain(programs.run((program, stream), &[(input, origin)], &[], 1));
        refuse(result.map(drop), &[Status::OutOfBounds], what)?;
    }
    Ok(programs.destroy(program)?)
}

/// A product of numbers `rows` by `depth` and `depth` by `columns`, and its kernel.
fn product(device: &Device, [rows, columns, depth]: [u64; 3]) -> Result<(Job, u64), Stop> {
    let op = LibraryOp::Matmul(Matmul {
        batch: 0,
        operands: [DType::I32; 2],
        accumulate: DType::I32,
        output: DType::I32,
        epilogue: None,
    });
    let mut work = job(op.definition()?, 0);
    let kernel = match device.compile_library(&op) {
        Ok(kernel) => kernel,
        Err(_) => device.compile(&work.kernel)?,
    };
    for (argument, strides) in [(0, [depth, 0, 1]), (1, [0, 1, columns]), (2, [columns, 1, 0])] {
        work.arguments[argument].strides = strides.map(|stride| stride as i64).to_vec();
    }
    work.extents = vec![rows, columns, depth];
    Ok((work, kernel))
}

/// Products with one right operand, which is written in between.
pub(super) fn operand_of_many(subject: &Subject) -> Check {
    const EACH: u64 = 5;
    let extents @ [rows, columns, depth] = [30, 50, 40];
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let (work, kernel) = product(&device, extents)?;
    let (size, bytes) = (4 * depth * columns, 4 * rows * columns);
    // Slots 1 to 3 are the inputs; the last one is the right operand.
    let operand = 4 + 2 * EACH;
    let bindings: Vec<_> = (0..2 * EACH)
        .map(|at| work.bindings(&[1, operand, 4 + at]))
        .collect();
    let launches: Vec<_> = (bindings.iter())
        .map(|bindings| work.launch(kernel, bindings))
        .collect();
    let copies = [2, 3].map(|from| Copy {
        dst: at(operand, 0, size),
        src: at(from, 0, size),
        width: size,
        rows: 1,
    });
    let packets: Vec<Packet> = (copies.iter().zip(launches.chunks(EACH as usize)))
        .flat_map(|(copy, launches)| {
            let launches = launches.iter().map(|launch| launch_packet(launch, null()));
            std::iter::once(copy_packet(copy, null())).chain(launches)
        })
        .collect();
    let program = programs.create(&packets, (3, &[bytes; 2 * EACH as usize], &[size], 0), &[])?;
    for round in 0..3 {
        let x = |i: u64, l: u64| (i + l * l + round) % 5;
        let weight = |which: u64, l: u64, j: u64| (l * 7 + j * 3 + which + round) % 11;
        let left: Vec<u64> = (0..rows).flat_map(|i| (0..depth).map(move |l| x(i, l))).collect();
        let right = |which: u64| -> Vec<u64> {
            let all = (0..depth).flat_map(|l| (0..columns).map(move |j| (l, j)));
            all.map(|(l, j)| weight(which, l, j)).collect()
        };
        let inputs = [left, right(0), right(1)]
            .iter()
            .map(|values| Ok((device.upload(&to_bytes(DType::I32, values))?, 0)))
            .collect::<Result<Vec<_>>>()?;
        let outputs = plain(programs.run((program, stream), &inputs, &[], 2 * EACH as usize))?;
        for (output, at) in outputs.iter().zip(0..) {
            let found = device.download(stream, *output, bytes)?;
            let sum = |i: u64, j: u64| -> u64 { (0..depth).map(|l| x(i, l) * weight(at / EACH, l, j)).sum() };
            let expected: Vec<u64> = (0..rows * columns)
                .map(|at| sum(at / columns, at % columns))
                .collect();
            check_eq!(
                from_bytes(DType::I32, &found),
                expected,
                "product {at}, round {round}"
            );
        }
        let handles = inputs.iter().map(|&(handle, _)| handle).chain(outputs);
        handles.into_iter().try_for_each(|handle| device.free(handle))?;
    }
    Ok(programs.destroy(program)?)
}

/// A product whose right operand is a constant that two programs share.
pub(super) fn constants(subject: &Subject) -> Check {
    const FIRST: u64 = 16;
    let (depth, columns) = (40, 50);
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let (mut work, kernel) = product(&device, [0, columns, depth])?;
    let bindings = work.bindings(&[1, 2, 3]);
    let weight = |l: u64, j: u64| (l * 7 + j * 3) % 11;
    let weights: Vec<u64> = (0..FIRST / 4)
        .chain((0..depth).flat_map(|l| (0..columns).map(move |j| weight(l, j))))
        .collect();
    let weights = device.upload(&to_bytes(DType::I32, &weights))?;
    let before = device.statistics()?.live;
    let mut made = Vec::new();
    for rows in [3, 30] {
        work.extents = vec![rows, columns, depth];
        let (launch, bytes) = (work.launch(kernel, &bindings), 4 * rows * columns);
        let packets = [launch_packet(&launch, null())];
        made.push((
            rows,
            programs.create_with(&packets, (2, &[bytes], &[], 0), &[], &[1])?,
        ));
    }
    for round in 0..3 {
        for &(rows, program) in &made {
            let x = |i: u64, l: u64| (i + l * l + round) % 5;
            let left: Vec<u64> = (0..rows).flat_map(|i| (0..depth).map(move |l| x(i, l))).collect();
            let input = device.upload(&to_bytes(DType::I32, &left))?;
            let outputs = plain(programs.run((program, stream), &[(input, 0), (weights, FIRST)], &[], 1))?;
            let found = device.download(stream, outputs[0], 4 * rows * columns)?;
            let expected: Vec<u64> = (0..rows * columns)
                .map(|at| {
                    (0..depth)
                        .map(|l| x(at / columns, l) * weight(l, at % columns))
                        .sum()
                })
                .collect();
            check_eq!(
                from_bytes(DType::I32, &found),
                expected,
                "{rows} rows, round {round}"
            );
            device.free(outputs[0])?;
            device.free(input)?;
        }
    }
    for (_, program) in made {
        programs.destroy(program)?;
    }
    check_eq!(device.statistics()?.live, before, "buffers after the programs");
    Ok(device.free(weights)?)
}

pub(super) fn memory(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let input = device.upload(&[0; 400])?;
    let program = counter(&programs, 100, 5)?;
    let before = device.statistics()?;
    let made: Vec<u64> = (0..10)
        .map(|_| plain(programs.run((program, stream), &[(input, 0)], &[], 1)).map(|made| made[0]))
        .collect::<Result<_>>()?;
    device.join(stream)?;
    let held = device.statistics()?;
    check_eq!(held.live - before.live, 10, "buffers that the runs left");
    check!(
        held.allocated - before.allocated >= 10 * 400,
        "{} bytes",
        held.allocated - before.allocated
    );
    for &handle in &made {
        check_eq!(device.size(handle)?, 400, "bytes of an output");
        device.free(handle)?;
    }
    let after = device.statistics()?;
    check_eq!(after.allocated, before.allocated, "bytes after all");
    check_eq!(
        after.allocations - before.allocations,
        after.frees - before.frees,
        "allocations and frees"
    );
    Ok(programs.destroy(program)?)
}

pub(super) fn in_stream_order(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let input = device.upload(&[0; 400])?;
    let program = counter(&programs, 100, 3)?;
    let gate = Gate::new(&device, stream)?;
    device.fill_byte(stream, input, 400, 1)?;
    let made = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
    // Its memory and the program may go at once; the work goes on.
    programs.destroy(program)?;
    device.fill_byte(stream, input, 400, 7)?;
    gate.open();
    let found = from_bytes(DType::I32, &device.download(stream, made[0], 400)?);
    check_eq!(
        found,
        vec![0x0101_0101 + 3; 100],
        "after the first fill and before the second"
    );
    Ok(device.free(made[0])?)
}

pub(super) fn many_threads(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let program = counter(&programs, 1000, 4)?;
    let run = |thread: u64| -> Check {
        let stream = device.stream()?;
        let input = device.upload(&to_bytes(DType::I32, &vec![thread; 1000]))?;
        for _ in 0..200 {
            let made = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
            let found = from_bytes(DType::I32, &device.download(stream, made[0], 4000)?);
            check!(found.iter().all(|&found| found == thread + 4), "thread {thread}");
            device.free(made[0])?;
        }
        Ok(device.destroy_stream(stream)?)
    };
    let run = &run;
    std::thread::scope(|threads| {
        let all: Vec<_> = (0..4).map(|thread| threads.spawn(move || run(thread))).collect();
        all.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| crate::fail!("a thread panicked"))
        })
    })?;
    Ok(programs.destroy(program)?)
}

/// A place in a slot, which is named from 1 on.
fn at(slot: u64, offset: u64, pitch: u64) -> Place {
    Place {
        buffer: slot,
        host: std::ptr::null_mut(),
        offset,
        pitch,
    }
}

/// Rows of an input to scratch memory, what a kernel makes of them to an output, and a part of the input to another.
pub(super) fn copies(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let work = job(increment(), 6);
    let (kernel, bindings) = (device.compile(&work.kernel)?, work.bindings(&[4, 4]));
    let launch = work.launch(kernel, &bindings);
    let rows = Copy {
        dst: at(4, 0, 8),
        src: at(1, 4, 16),
        width: 8,
        rows: 3,
    };
    let back = Copy {
        dst: at(2, 4, 0),
        src: at(4, 8, 0),
        width: 16,
        rows: 1,
    };
    let part = Copy {
        dst: at(3, 0, 0),
        src: at(1, 8, 0),
        width: 4,
        rows: 1,
    };
    let nothing = Copy { width: 0, ..part };
    let first = fill(2, 0, 4, 77, 4);
    let packets = [
        copy_packet(&rows, null()),
        copy_packet(&nothing, null()),
        launch_packet(&launch, null()),
        fill_packet(&first, null()),
        copy_packet(&back, null()),
        copy_packet(&part, null()),
    ];
    let program = programs.create(&packets, (1, &[20, 4], &[24], 0), &[])?;
    let values: Vec<u64> = (0..13).collect();
    let input = device.upload(&to_bytes(DType::I32, &values))?;
    // The origin moves with the run; at the last one the rows end with the buffer.
    for origin in [0_u64, 1] {
        let made = plain(programs.run((program, stream), &[(input, 4 * origin)], &[], 2))?;
        let found = from_bytes(DType::I32, &device.download(stream, made[0], 20)?);
        let of = |at: u64| at + origin + 1;
        check_eq!(found, vec![77, of(5), of(6), of(9), of(10)], "rows from {origin}");
        let part = from_bytes(DType::I32, &device.download(stream, made[1], 4)?);
        check_eq!(part, vec![2 + origin], "a part from {origin}");
        made.iter().try_for_each(|&handle| device.free(handle))?;
    }
    refuse(
        plain(programs.run((program, stream), &[(input, 12)], &[], 2)).map(drop),
        &[Status::OutOfBounds],
        "rows beyond the input",
    )?;
    Ok(programs.destroy(program)?)
}

/// Dependencies that are given beside those of the bytes, also of packets that do nothing.
pub(super) fn dependencies(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let fills = [1, 2, 3, 4].map(|slot| fill(slot, 0, 64, slot, 4));
    let nothing = fill(1, 0, 0, 0, 4);
    let packets = [
        fill_packet(&fills[0], null()),
        fill_packet(&nothing, null()),
        fill_packet(&fills[1], null()),
        fill_packet(&fills[2], null()),
        fill_packet(&fills[3], null()),
    ];
    let given = [(1, 0), (2, 1), (2, 1), (3, 0), (4, 3), (4, 2)];
    let given = given.map(|(packet, earlier)| ProgramDependency { packet, earlier });
    let outputs = [64; 4];
    let args = ProgramArgs {
        outputs: outputs.as_ptr(),
        output_count: 4,
        dependencies: given.as_ptr(),
        dependency_count: given.len(),
        ..programs.args(&packets)
    };
    let program = programs.create_of(&args)?;
    for _ in 0..5 {
        let made = plain(programs.run((program, stream), &[], &[], 4))?;
        for (slot, &handle) in (1..).zip(&made) {
            let found = from_bytes(DType::I32, &device.download(stream, handle, 64)?);
            check_eq!(found, vec![slot; 16], "the output of slot {slot}");
            device.free(handle)?;
        }
    }
    Ok(programs.destroy(program)?)
}
