//! What graphs refuse.

use super::{Graphs, increment, job, refuse};
use crate::check_eq;
use crate::kit::{Case, Check};
use crate::rig::device::{at, copy, copy_packet, fill, fill_packet, launch_packet};
use crate::rig::values::from_bytes;
use crate::rig::{Device, Subject};
use std::ptr::null;
use thalweg_hal::tables::{GraphArgs, GraphNode, Packet};
use thalweg_hal::{DType, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("graphs", name, run);
    vec![
        case("update_refused", update_refused),
        case("freed_buffer", freed_buffer),
        case("bad_dependencies", bad_dependencies),
        case("bad_nodes", bad_nodes),
        case("foreign_stream", foreign_stream),
        case("stale", stale),
    ]
}

fn update_refused(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, a) = (device.stream()?, device.upload(&[3; 40])?);
    let work = job(increment(), 10);
    let kernel = device.compile(&work.kernel)?;
    let twin = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[a, a]);
    let launch = work.launch(kernel, &bindings);
    let fill_a = fill(a, 0, 40, 0, 1);
    let graph = graphs.create(&[(launch_packet(&launch, null()), &[])])?;
    let invalid = &[Status::InvalidArgument];
    refuse(
        graphs.update(graph, 1, launch_packet(&launch, null())),
        invalid,
        "an update of a node that is not there",
    )?;
    refuse(
        graphs.update(graph, usize::MAX, launch_packet(&launch, null())),
        invalid,
        "an update of node usize::MAX",
    )?;
    refuse(
        graphs.update(graph, 0, fill_packet(&fill_a, null())),
        invalid,
        "an update to another kind",
    )?;
    refuse(
        graphs.update(graph, 0, launch_packet(&work.launch(twin, &bindings), null())),
        invalid,
        "an update to another kernel",
    )?;
    let short = device.alloc(36)?;
    let bindings = work.bindings(&[short, a]);
    refuse(
        graphs.update(graph, 0, launch_packet(&work.launch(kernel, &bindings), null())),
        &[Status::OutOfBounds],
        "an update to a buffer that is too small",
    )?;
    // None of these has changed anything.
    graphs.launch(graph, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, a, 40)?);
    check_eq!(
        found,
        vec![0x0303_0304; 10],
        "a launch after updates that were refused"
    );
    Ok(())
}

fn freed_buffer(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, a, b) = (
        device.stream()?,
        device.upload(&[1; 64])?,
        device.upload(&[2; 64])?,
    );
    let (first, second) = (fill(a, 0, 64, 7, 1), copy(at(b, 0), at(a, 0), 64));
    let graph = graphs.create(&[
        (fill_packet(&first, null()), &[]),
        (copy_packet(&second, null()), &[0]),
    ])?;
    device.free(a)?;
    let stale = &[Status::InvalidHandle];
    refuse(
        graphs.launch(graph, stream),
        stale,
        "a launch whose buffer was freed",
    )?;
    // Another buffer in the same place is not the one that the graph was built with.
    let _again = device.alloc(64)?;
    refuse(
        graphs.launch(graph, stream),
        stale,
        "a launch whose buffer was freed and whose memory is in use again",
    )?;
    check_eq!(
        device.download(stream, b, 64)?,
        vec![2; 64],
        "the other buffer after launches that were refused"
    );
    Ok(())
}

fn bad_dependencies(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let buffer = device.alloc(8)?;
    let work = fill(buffer, 0, 8, 1, 1);
    let packet = fill_packet(&work, null());
    let invalid = &[Status::InvalidArgument];
    for (what, first, second) in [
        ("a node that depends on itself", &[0][..], &[][..]),
        ("a node that depends on a later one", &[1], &[]),
        ("a node that depends on one that is not there", &[], &[7]),
        ("a node that depends on u32::MAX", &[], &[u32::MAX]),
    ] {
        let result = graphs.create(&[(packet, first), (packet, second)]).map(drop);
        refuse(result, invalid, what)?;
    }
    let node = GraphNode {
        packet,
        dependencies: null(),
        dependency_count: 3,
    };
    let raw = device.raw();
    for (what, nodes, count) in [
        ("null dependencies", &raw const node, 1),
        ("null nodes", null(), 2),
    ] {
        let args = GraphArgs {
            device: device.handle(),
            nodes,
            node_count: count,
        };
        // SAFETY: null is for the backend to refuse.
        let result = raw.out(0_u64, |out| unsafe {
            (graphs.table.create)(raw.context, &raw const args, out)
        });
        refuse(result.map(drop), invalid, what)?;
    }
    // The same node twice is no error.
    graphs.create(&[(packet, &[]), (packet, &[0, 0])])?;
    Ok(())
}

fn bad_nodes(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let other = Device::open(subject)?;
    let (buffer, foreign) = (device.alloc(8)?, other.alloc(8)?);
    let (good, long, far) = (
        fill(buffer, 0, 8, 1, 1),
        fill(buffer, 0, 9, 1, 1),
        fill(foreign, 0, 8, 1, 1),
    );
    let unknown = Packet {
        kind: 77,
        ..fill_packet(&good, null())
    };
    let refuse = |packet: Packet, status: Status, what: &str| {
        let result = graphs.create(&[(fill_packet(&good, null()), &[]), (packet, &[0])]);
        refuse(result.map(drop), &[status], what)
    };
    refuse(
        fill_packet(&long, null()),
        Status::OutOfBounds,
        "a node beyond its buffer",
    )?;
    refuse(
        fill_packet(&far, null()),
        Status::InvalidHandle,
        "a node on another device",
    )?;
    refuse(unknown, Status::InvalidArgument, "a node of an unknown kind")?;
    let empty = Packet {
        fill: null(),
        ..fill_packet(&good, null())
    };
    refuse(empty, Status::InvalidArgument, "a node that holds nothing")
}

fn foreign_stream(subject: &Subject) -> Check {
    let (device, other) = (Device::open(subject)?, Device::open(subject)?);
    let graphs = Graphs::new(&device)?;
    let (buffer, stream) = (device.alloc(8)?, other.stream()?);
    let work = fill(buffer, 0, 8, 1, 1);
    let graph = graphs.create(&[(fill_packet(&work, null()), &[])])?;
    refuse(
        graphs.launch(graph, stream),
        &[Status::InvalidHandle],
        "a launch on a foreign stream",
    )
}

fn stale(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(8)?);
    let work = fill(buffer, 0, 8, 1, 1);
    let graph = graphs.create(&[(fill_packet(&work, null()), &[])])?;
    graphs.destroy(graph)?;
    let gone = &[Status::InvalidHandle];
    refuse(
        graphs.launch(graph, stream),
        gone,
        "a launch of a graph that was destroyed",
    )?;
    refuse(
        graphs.update(graph, 0, fill_packet(&work, null())),
        gone,
        "an update of a graph that was destroyed",
    )?;
    refuse(graphs.destroy(graph), gone, "a second destroy")
}
