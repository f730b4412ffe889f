//! Lists whose buffers and kernels change.

use super::{Lists, counter};
use crate::cases::programs::{Programs, add, increment, job, plain, refuse};
use crate::kit::{Case, Check};
use crate::rig::device::{fill, fill_packet, launch_packet};
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Gate, Subject};
use crate::{check, check_eq};
use std::ptr::null;
use thalweg_hal::tables::{ProgramArgs, ProgramInput};
use thalweg_hal::{DType, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("programs", name, run);
    vec![
        case("rebind", rebind),
        case("rebind_leaves_submitted_launches_alone", rebind_later),
        case("bound_beside_inputs", beside_inputs),
        case("buffer_freed_after_launch", freed_after_launch),
        case("kernel_released_before_launch", released_kernel),
        case("destroyed_after_launch", destroyed_after_launch),
    ]
}

fn rebind(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let stream = device.stream()?;
    let (a, b) = (device.upload(&[0; 40])?, device.upload(&[0; 40])?);
    let work = job(increment(), 10);
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[a, a]);
    let launch = work.launch(kernel, &bindings);
    let first = fill(b, 0, 40, 1, 4);
    let mut list = lists.create(&[
        (launch_packet(&launch, null()), &[]),
        (fill_packet(&first, null()), &[0]),
    ])?;
    lists.launch(&list, stream)?;
    check_eq!(
        device.download(stream, b, 40)?,
        to_bytes(DType::I32, &[1; 10]),
        "before a change"
    );
    // Another buffer, from its third element on.
    let values: Vec<u64> = (0..12).collect();
    let c = device.upload(&to_bytes(DType::I32, &values))?;
    lists.rebind(&mut list, a, c, 8)?;
    // What a list no longer uses may be freed.
    device.free(a)?;
    lists.launch(&list, stream)?;
    lists.launch(&list, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, c, 48)?);
    let expected: Vec<u64> = [0, 1].into_iter().chain(4..14).collect();
    check_eq!(found, expected, "two launches with another buffer");
    // And back to the start of it, while the other slot goes elsewhere.
    let d = device.upload(&[0; 40])?;
    lists.rebind(&mut list, c, c, 0)?;
    lists.rebind(&mut list, b, d, 0)?;
    lists.launch(&list, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, c, 8)?);
    check_eq!(found, vec![1, 2], "the same buffer from its start");
    check_eq!(
        device.download(stream, d, 40)?,
        to_bytes(DType::I32, &[1; 10]),
        "the fill of another buffer"
    );
    Ok(lists.destroy(&list)?)
}

fn rebind_later(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, a, b) = (
        device.stream()?,
        device.upload(&[0; 16])?,
        device.upload(&[0; 16])?,
    );
    let work = fill(a, 0, 16, 1, 1);
    let mut list = lists.create(&[(fill_packet(&work, null()), &[])])?;
    let gate = Gate::new(&device, stream)?;
    lists.launch(&list, stream)?;
    lists.rebind(&mut list, a, b, 0)?;
    gate.open();
    check_eq!(
        device.download(stream, a, 16)?,
        vec![1; 16],
        "the launch before the change"
    );
    check_eq!(
        device.download(stream, b, 16)?,
        vec![0; 16],
        "the change without a launch"
    );
    Ok(())
}

/// A program with every kind of slot: `output = input + bound`, and the bound buffer counts the runs.
fn beside_inputs(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let (count, sum) = (job(increment(), 4), job(add(), 4));
    let kernels = [device.compile(&count.kernel)?, device.compile(&sum.kernel)?];
    // Slots: 1 the input, 2 the output, 3 scratch, 4 and 5 bound.
    let bindings = [
        count.bindings(&[4, 4]),
        sum.bindings(&[1, 4, 3]),
        sum.bindings(&[3, 5, 2]),
    ];
    let launches = [
        count.launch(kernels[0], &bindings[0]),
        sum.launch(kernels[1], &bindings[1]),
        sum.launch(kernels[1], &bindings[2]),
    ];
    let packets = launches.each_ref().map(|launch| launch_packet(launch, null()));
    let (runs, constant) = (
        device.upload(&[0; 16])?,
        device.upload(&to_bytes(DType::I32, &[100; 4]))?,
    );
    let bound = [runs, constant].map(|buffer| ProgramInput { buffer, offset: 0 });
    let sizes = [16_u64];
    let program = programs.create_of(&ProgramArgs {
        input_count: 1,
        outputs: sizes.as_ptr(),
        output_count: 1,
        scratch: sizes.as_ptr(),
        scratch_count: 1,
        bound: bound.as_ptr(),
        bound_count: 2,
        ..programs.args(&packets)
    })?;
    let inputs = [10_u64, 20].map(|value| device.upload(&to_bytes(DType::I32, &[value; 4])));
    for (run, input) in (1_u64..).zip(inputs) {
        let input = input?;
        let made = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
        let found = from_bytes(DType::I32, &device.download(stream, made[0], 16)?);
        check_eq!(found, vec![10 * run + run + 100; 4], "run {run}");
        device.free(made[0])?;
    }
    // A run must not read as an input what it writes in place.
    let aliased = plain(programs.run((program, stream), &[(runs, 0)], &[], 1));
    refuse(
        aliased.map(drop),
        &[Status::Overlap],
        "an input in a bound buffer that is written",
    )?;
    // What is read alone may be both.
    let made = plain(programs.run((program, stream), &[(constant, 0)], &[], 1))?;
    let found = from_bytes(DType::I32, &device.download(stream, made[0], 16)?);
    check_eq!(found, vec![203; 4], "the constant twice");
    device.free(made[0])?;
    Ok(programs.destroy(program)?)
}

fn freed_after_launch(subject: &Subject) -> Check {
    let device = Device::limited(subject, 0, 1 << 20)?;
    let lists = Lists::new(&device)?;
    let (held, other) = (device.stream()?, device.stream()?);
    let a = device.alloc(1 << 20)?;
    let work = fill(a, 0, 1 << 20, 0xee, 1);
    let list = lists.create(&[(fill_packet(&work, null()), &[])])?;
    let gate = Gate::new(&device, held)?;
    lists.launch(&list, held)?;
    device.free(a)?;
    let b = device.alloc_for(1 << 20, other, "")?;
    device.fill_byte(other, b, 1 << 20, 0x11)?;
    device.join(other)?;
    gate.open();
    device.join(held)?;
    let found = device.download(other, b, 1 << 20)?;
    check!(
        found.iter().all(|&b| b == 0x11),
        "memory that a list still writes was handed to another stream"
    );
    Ok(())
}

fn released_kernel(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 40])?);
    let work = job(increment(), 10);
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[buffer, buffer]);
    let launch = work.launch(kernel, &bindings);
    let list = lists.create(&[(launch_packet(&launch, null()), &[])])?;
    if let Some(table) = device.raw().tables.kernel {
        // SAFETY: plain call.
        let code = unsafe { (table.release)(device.raw().context, kernel) };
        device.raw().status(code)?;
    }
    lists.launch(&list, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 40)?);
    check_eq!(found, vec![1; 10], "a list whose kernel was released");
    Ok(())
}

fn destroyed_after_launch(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 40])?);
    let list = counter(&lists, buffer, 10, 3)?;
    let gate = Gate::new(&device, stream)?;
    lists.launch(&list, stream)?;
    lists.destroy(&list)?;
    gate.open();
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 40)?);
    check_eq!(
        found,
        vec![3; 10],
        "a launch of a list that was destroyed before it ran"
    );
    Ok(())
}
