//! Graphs whose arguments, buffers and kernels change.

use super::{Graphs, counter, increment, job};
use crate::kit::{Case, Check};
use crate::rig::device::{fill, fill_packet, launch_packet};
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Gate, Subject};
use crate::{check, check_eq};
use std::ptr::null;
use thalweg_hal::DType;

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("graphs", name, run);
    vec![
        case("update", update),
        case("update_leaves_submitted_launches_alone", update_later),
        case("buffer_freed_after_launch", freed_after_launch),
        case("kernel_released_before_launch", released_kernel),
        case("destroyed_after_launch", destroyed_after_launch),
    ]
}

fn update(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let stream = device.stream()?;
    let (a, b) = (device.upload(&[0; 40])?, device.upload(&[0; 40])?);
    let work = job(increment(), 10);
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[a, a]);
    let launch = work.launch(kernel, &bindings);
    let (first, second) = (fill(b, 0, 40, 1, 4), fill(b, 0, 20, 9, 4));
    let graph = graphs.create(&[
        (launch_packet(&launch, null()), &[]),
        (fill_packet(&first, null()), &[0]),
    ])?;
    graphs.launch(graph, stream)?;
    check_eq!(
        device.download(stream, b, 40)?,
        to_bytes(DType::I32, &[1; 10]),
        "before updates"
    );
    // Other buffers and other extents, then another range and value.
    let smaller = job(increment(), 4);
    let other = smaller.bindings(&[b, b]);
    graphs.update(graph, 0, launch_packet(&smaller.launch(kernel, &other), null()))?;
    graphs.update(graph, 1, fill_packet(&fill(a, 0, 40, 5, 4), null()))?;
    graphs.launch(graph, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, b, 40)?);
    check_eq!(
        found,
        vec![2, 2, 2, 2, 1, 1, 1, 1, 1, 1],
        "the launch with other arguments"
    );
    check_eq!(
        device.download(stream, a, 40)?,
        to_bytes(DType::I32, &[5; 10]),
        "the fill of another buffer"
    );
    graphs.update(graph, 1, fill_packet(&second, null()))?;
    // What a graph no longer uses may be freed.
    device.free(a)?;
    graphs.launch(graph, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, b, 40)?);
    check_eq!(
        found,
        vec![9, 9, 9, 9, 9, 1, 1, 1, 1, 1],
        "after the second update"
    );
    Ok(())
}

fn update_later(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, a, b) = (
        device.stream()?,
        device.upload(&[0; 16])?,
        device.upload(&[0; 16])?,
    );
    let (first, second) = (fill(a, 0, 16, 1, 1), fill(b, 0, 16, 2, 1));
    let graph = graphs.create(&[(fill_packet(&first, null()), &[])])?;
    let gate = Gate::new(&device, stream)?;
    graphs.launch(graph, stream)?;
    graphs.update(graph, 0, fill_packet(&second, null()))?;
    gate.open();
    check_eq!(
        device.download(stream, a, 16)?,
        vec![1; 16],
        "the launch before the update"
    );
    check_eq!(
        device.download(stream, b, 16)?,
        vec![0; 16],
        "the update without a launch"
    );
    Ok(())
}

fn freed_after_launch(subject: &Subject) -> Check {
    let device = Device::limited(subject, 0, 1 << 20)?;
    let graphs = Graphs::new(&device)?;
    let (held, other) = (device.stream()?, device.stream()?);
    let a = device.alloc(1 << 20)?;
    let work = fill(a, 0, 1 << 20, 0xee, 1);
    let graph = graphs.create(&[(fill_packet(&work, null()), &[])])?;
    let gate = Gate::new(&device, held)?;
    graphs.launch(graph, held)?;
    device.free(a)?;
    let b = device.alloc_for(1 << 20, other, "")?;
    device.fill_byte(other, b, 1 << 20, 0x11)?;
    device.join(other)?;
    gate.open();
    device.join(held)?;
    let found = device.download(other, b, 1 << 20)?;
    check!(
        found.iter().all(|&b| b == 0x11),
        "memory that a graph still writes was handed to another stream"
    );
    Ok(())
}

fn released_kernel(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 40])?);
    let work = job(increment(), 10);
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[buffer, buffer]);
    let launch = work.launch(kernel, &bindings);
    let graph = graphs.create(&[(launch_packet(&launch, null()), &[])])?;
    if let Some(table) = device.raw().tables.kernel {
        // SAFETY: plain call.
        let code = unsafe { (table.release)(device.raw().context, kernel) };
        device.raw().status(code)?;
    }
    graphs.launch(graph, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 40)?);
    check_eq!(found, vec![1; 10], "a graph whose kernel was released");
    Ok(())
}

fn destroyed_after_launch(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 40])?);
    let graph = counter(&graphs, buffer, 10, 3)?;
    let gate = Gate::new(&device, stream)?;
    graphs.launch(graph, stream)?;
    graphs.destroy(graph)?;
    gate.open();
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 40)?);
    check_eq!(
        found,
        vec![3; 10],
        "a launch of a graph that was destroyed before it ran"
    );
    Ok(())
}
