//! Launches of lists.

use super::{Lists, counter, job};
use crate::kit::{Case, Check};
use crate::rig::device::{at, copy, copy_packet, fill, fill_packet, launch_packet};
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Gate, Subject};
use crate::{check, check_eq};
use std::ptr::null;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role, ScalarOp};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("programs", name, run);
    vec![
        case("copies_and_fills", copies_and_fills),
        case("diamond_of_kernels", diamond),
        case("same_bits_as_eager", same_bits),
        case("launched_1000_times", relaunch),
        case("one_list_on_two_streams", two_streams),
        case("bound_in_stream_order", in_stream_order),
        case("does_not_block_the_caller", asynchronous),
        case("empty", empty),
        case("large", large),
    ]
}

/// `out = a op b` on i32.
fn binary(op: ScalarOp) -> Kernel {
    let mut kernel = Kernel::new(op.name(), 1, 0);
    let a = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let b = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let out = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let (x, y) = (kernel.load(a), kernel.load(b));
    let result = kernel.op(op, &[x, y]);
    kernel.store(out, result);
    kernel
}

fn copies_and_fills(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let stream = device.stream()?;
    let (a, b, c) = (device.alloc(64)?, device.alloc(64)?, device.alloc(64)?);
    let (ones, to_b, twos, to_c) = (
        fill(a, 0, 64, 1, 1),
        copy(at(b, 0), at(a, 0), 64),
        fill(b, 0, 32, 2, 1),
        copy(at(c, 0), at(b, 0), 64),
    );
    // Bytes alone say what waits for what; some of it is said again.
    let list = lists.create(&[
        (fill_packet(&ones, null()), &[]),
        (copy_packet(&to_b, null()), &[]),
        (fill_packet(&twos, null()), &[1]),
        (copy_packet(&to_c, null()), &[]),
    ])?;
    lists.launch(&list, stream)?;
    let found = device.download(stream, c, 64)?;
    check_eq!(found[..32], [2; 32], "what the third node wrote");
    check_eq!(found[32..], [1; 32], "what the first node wrote");
    Ok(lists.destroy(&list)?)
}

/// `(x + x) * (x - 1)`, the arms in separate nodes.
fn diamond(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    const COUNT: u64 = 100;
    let (add, sub, mul) = (
        job(binary(ScalarOp::Add), COUNT),
        job(binary(ScalarOp::Sub), COUNT),
        job(binary(ScalarOp::Mul), COUNT),
    );
    let kernels = [
        device.compile(&add.kernel)?,
        device.compile(&sub.kernel)?,
        device.compile(&mul.kernel)?,
    ];
    let stream = device.stream()?;
    let bytes = COUNT * 4;
    let (x, one) = (device.alloc(bytes)?, device.alloc(bytes)?);
    let (left, right, out) = (device.alloc(bytes)?, device.alloc(bytes)?, device.alloc(bytes)?);
    device.fill(stream, &fill(one, 0, bytes, 1, 4))?;
    device.join(stream)?;
    let bindings = [
        add.bindings(&[x, x, left]),
        sub.bindings(&[x, one, right]),
        mul.bindings(&[left, right, out]),
    ];
    let launches = [
        add.launch(kernels[0], &bindings[0]),
        sub.launch(kernels[1], &bindings[1]),
        mul.launch(kernels[2], &bindings[2]),
    ];
    let list = lists.create(&[
        (launch_packet(&launches[0], null()), &[]),
        (launch_packet(&launches[1], null()), &[]),
        (launch_packet(&launches[2], null()), &[0, 1]),
    ])?;
    for value in 0..50_u64 {
        device.fill(stream, &fill(x, 0, bytes, value, 4))?;
        lists.launch(&list, stream)?;
        let found = from_bytes(DType::I32, &device.download(stream, out, bytes)?);
        let expected = (2 * value * value.wrapping_sub(1)) & 0xffff_ffff;
        check!(
            found.iter().all(|&v| v == expected),
            "x = {value} gives {}, expected {expected}",
            found[0]
        );
    }
    Ok(())
}

/// `out = exp(a) / (sum exp(a))`, which rounds at every step.
fn same_bits(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let mut kernel = Kernel::new("normalise", 0, 1);
    let input = kernel.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let output = kernel.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
    let value = kernel.load(input);
    let power = kernel.op(ScalarOp::Exp, &[value]);
    let sum = kernel.reduce(thalweg_hal::ir::ReduceOp::Sum, power);
    let result = kernel.op(ScalarOp::Div, &[power, sum]);
    kernel.store(output, result);
    for count in [10_u64, 1000, 70_000] {
        let job = job(kernel.clone(), count);
        let handle = device.compile(&job.kernel)?;
        let values: Vec<u64> = (0..count)
            .map(|i| u64::from((i as f32 / 1e4).to_bits()))
            .collect();
        let (stream, input) = (device.stream()?, device.upload(&to_bytes(DType::F32, &values))?);
        let (eager, listed) = (device.alloc(count * 4)?, device.alloc(count * 4)?);
        let (first, second) = (job.bindings(&[input, eager]), job.bindings(&[input, listed]));
        device.launch(stream, &job.launch(handle, &first), "normalise")?;
        let launch = job.launch(handle, &second);
        let list = lists.create(&[(launch_packet(&launch, null()), &[])])?;
        lists.launch(&list, stream)?;
        let eager = device.download(stream, eager, count * 4)?;
        let listed = device.download(stream, listed, count * 4)?;
        check!(
            eager == listed,
            "{count} elements: a list gives other bits than a launch"
        );
    }
    Ok(())
}

fn relaunch(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 400])?);
    let list = counter(&lists, buffer, 100, 5)?;
    for _ in 0..1000 {
        lists.launch(&list, stream)?;
    }
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 400)?);
    check_eq!(found, vec![5000; 100], "a counter after 1000 launches of 5 nodes");
    Ok(())
}

fn two_streams(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (s1, s2, event) = (device.stream()?, device.stream()?, device.event(false)?);
    let buffer = device.upload(&[0; 40])?;
    let list = counter(&lists, buffer, 10, 3)?;
    for _ in 0..200 {
        lists.launch(&list, s1)?;
        device.record(event, s1)?;
        device.wait_event(s2, event)?;
        lists.launch(&list, s2)?;
        device.record(event, s2)?;
        device.wait_event(s1, event)?;
    }
    let found = from_bytes(DType::I32, &device.download(s1, buffer, 40)?);
    check_eq!(
        found,
        vec![1200; 10],
        "a counter after 200 launches on each of two streams"
    );
    Ok(device.join(s2)?)
}

fn in_stream_order(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, buffer, log) = (device.stream()?, device.alloc(4)?, device.alloc(400)?);
    let list = counter(&lists, buffer, 1, 1)?;
    for i in 0..100_u64 {
        device.fill(stream, &fill(buffer, 0, 4, i * 10, 4))?;
        lists.launch(&list, stream)?;
        device.copy(stream, &copy(at(log, i * 4), at(buffer, 0), 4))?;
    }
    let found = from_bytes(DType::I32, &device.download(stream, log, 400)?);
    let expected: Vec<u64> = (0..100).map(|i| i * 10 + 1).collect();
    check_eq!(found, expected, "what was copied after each launch");
    Ok(())
}

fn asynchronous(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 40])?);
    let list = counter(&lists, buffer, 10, 2)?;
    let gate = Gate::new(&device, stream)?;
    for _ in 0..10 {
        lists.launch(&list, stream)?;
    }
    check!(
        !device.is_idle(stream)?,
        "query is true while launches wait behind a callback"
    );
    gate.open();
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 40)?);
    check_eq!(found, vec![20; 10], "a counter after 10 launches of 2 nodes");
    Ok(())
}

fn empty(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let stream = device.stream()?;
    let list = lists.create(&[])?;
    lists.launch(&list, stream)?;
    device.join(stream)?;
    Ok(lists.destroy(&list)?)
}

fn large(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 32])?);
    let list = counter(&lists, buffer, 8, 2000)?;
    lists.launch(&list, stream)?;
    lists.launch(&list, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 32)?);
    check_eq!(found, vec![4000; 8], "a counter after two launches of 2000 nodes");
    Ok(())
}
