//! Graphs: dependencies, updates, launches again and again, and what became of their buffers and kernels.

use crate::kit::{Case, Check, Stop};
use crate::rig::device::{at, copy, copy_packet, fill, fill_packet, host, launch_packet};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Gate, Subject};
use crate::{check, check_eq};
use std::ptr::null;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role, ScalarOp};
use thalweg_hal::tables::{GraphArgs, GraphLaunchArgs, GraphNode, GraphTable, GraphUpdateArgs, Packet};
use thalweg_hal::{DType, Result, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("graphs", name, run);
    vec![
        case("copies_and_fills", copies_and_fills),
        case("host_copies", host_copies),
        case("diamond_of_kernels", diamond),
        case("same_bits_as_eager", same_bits),
        case("launched_1000_times", relaunch),
        case("one_graph_on_two_streams", two_streams),
        case("in_stream_order", in_stream_order),
        case("does_not_block_the_caller", asynchronous),
        case("update", update),
        case("update_leaves_submitted_launches_alone", update_later),
        case("update_refused", update_refused),
        case("freed_buffer", freed_buffer),
        case("buffer_freed_after_launch", freed_after_launch),
        case("kernel_released_before_launch", released_kernel),
        case("destroyed_after_launch", destroyed_after_launch),
        case("bad_dependencies", bad_dependencies),
        case("bad_nodes", bad_nodes),
        case("empty", empty),
        case("large", large),
        case("foreign_stream", foreign_stream),
        case("stale", stale),
    ]
}

/// Graph calls of a device.
struct Graphs<'a> {
    device: &'a Device,
    table: &'static GraphTable,
}

impl<'a> Graphs<'a> {
    fn new(device: &'a Device) -> Result<Graphs<'a>, Stop> {
        let table = device.raw().tables.graph;
        let table = table.ok_or_else(|| Stop::Unsupported("the backend has no table of graphs".into()))?;
        Ok(Graphs { device, table })
    }

    /// A graph of packets, each with the nodes that it depends on.
    fn create(&self, nodes: &[(Packet, &[u32])]) -> Result<u64> {
        let nodes: Vec<GraphNode> = (nodes.iter())
            .map(|&(packet, dependencies)| GraphNode {
                packet,
                dependencies: dependencies.as_ptr(),
                dependency_count: dependencies.len(),
            })
            .collect();
        let args = GraphArgs {
            device: self.device.handle(),
            nodes: nodes.as_ptr(),
            node_count: nodes.len(),
        };
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call, the out pointer is writable.
        raw.out(0, |out| unsafe { (self.table.create)(raw.context, &raw const args, out) })
    }

    fn launch(&self, graph: u64, stream: u64) -> Result<()> {
        let args = GraphLaunchArgs { graph, stream };
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call; the case keeps the memory alive.
        raw.status(unsafe { (self.table.launch)(raw.context, &raw const args) })
    }

    fn update(&self, graph: u64, node: usize, packet: Packet) -> Result<()> {
        let args = GraphUpdateArgs { graph, node, packet };
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call; the case keeps the memory alive.
        raw.status(unsafe { (self.table.update)(raw.context, &raw const args) })
    }

    fn destroy(&self, graph: u64) -> Result<()> {
        let raw = self.device.raw();
        // SAFETY: plain call.
        raw.status(unsafe { (self.table.destroy)(raw.context, graph) })
    }
}

fn copies_and_fills(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let stream = device.stream()?;
    let (a, b, c) = (device.alloc(64)?, device.alloc(64)?, device.alloc(64)?);
    let (ones, to_b, twos, to_c) = (
        fill(a, 0, 64, 1, 1),
        copy(at(b, 0), at(a, 0), 64),
        fill(b, 0, 32, 2, 1),
        copy(at(c, 0), at(b, 0), 64),
    );
    let graph = graphs.create(&[
        (fill_packet(&ones, null()), &[]),
        (copy_packet(&to_b, null()), &[0]),
        (fill_packet(&twos, null()), &[1]),
        (copy_packet(&to_c, null()), &[2, 1]),
    ])?;
    graphs.launch(graph, stream)?;
    let found = device.download(stream, c, 64)?;
    check_eq!(found[..32], [2; 32], "what the third node wrote");
    check_eq!(found[32..], [1; 32], "what the first node wrote");
    Ok(graphs.destroy(graph)?)
}

fn host_copies(subject: &Subject) -> Check {
    let mut source = vec![7_u8; 100];
    let mut target = vec![0_u8; 100];
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(100)?);
    let up = copy(at(buffer, 0), host(source.as_mut_ptr()), 100);
    let down = copy(host(target.as_mut_ptr()), at(buffer, 0), 100);
    let graph = graphs.create(&[(copy_packet(&up, null()), &[]), (copy_packet(&down, null()), &[0])])?;
    for value in [7, 8, 9] {
        source.fill(value);
        graphs.launch(graph, stream)?;
        device.join(stream)?;
        check_eq!(target, vec![value; 100], "what came back");
    }
    Ok(())
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

fn job(kernel: Kernel, count: u64) -> Job {
    let arguments = vec![Argument::default(); kernel.params.len()];
    Job {
        kernel,
        extents: vec![count],
        arguments,
        scalars: Vec::new(),
    }
}

/// `(x + x) * (x - 1)`, the arms in separate nodes.
fn diamond(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
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
    let bindings = [add.bindings(&[x, x, left]), sub.bindings(&[x, one, right]), mul.bindings(&[left, right, out])];
    let launches = [
        add.launch(kernels[0], &bindings[0]),
        sub.launch(kernels[1], &bindings[1]),
        mul.launch(kernels[2], &bindings[2]),
    ];
    let graph = graphs.create(&[
        (launch_packet(&launches[0], null()), &[]),
        (launch_packet(&launches[1], null()), &[]),
        (launch_packet(&launches[2], null()), &[0, 1]),
    ])?;
    for value in 0..50_u64 {
        device.fill(stream, &fill(x, 0, bytes, value, 4))?;
        graphs.launch(graph, stream)?;
        let found = from_bytes(DType::I32, &device.download(stream, out, bytes)?);
        let expected = 2 * value * value.wrapping_sub(1) & 0xffff_ffff;
        check!(found.iter().all(|&v| v == expected), "x = {value} gives {}, expected {expected}", found[0]);
    }
    Ok(())
}

/// `out = exp(a) / (sum exp(a))`, which rounds at every step.
fn same_bits(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
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
        let values: Vec<u64> = (0..count).map(|i| u64::from((i as f32 / 1e4).to_bits())).collect();
        let (stream, input) = (device.stream()?, device.upload(&to_bytes(DType::F32, &values))?);
        let (eager, graphed) = (device.alloc(count * 4)?, device.alloc(count * 4)?);
        let (first, second) = (job.bindings(&[input, eager]), job.bindings(&[input, graphed]));
        device.launch(stream, &job.launch(handle, &first), "normalise")?;
        let launch = job.launch(handle, &second);
        let graph = graphs.create(&[(launch_packet(&launch, null()), &[])])?;
        graphs.launch(graph, stream)?;
        let eager = device.download(stream, eager, count * 4)?;
        let graphed = device.download(stream, graphed, count * 4)?;
        check!(eager == graphed, "{count} elements: a graph gives other bits than a launch");
    }
    Ok(())
}

/// `x = x + 1` in place, on i32.
fn increment() -> Kernel {
    let mut kernel = Kernel::new("increment", 1, 0);
    let input = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    let one = kernel.push(Node::Const { dtype: DType::I32, bits: 1 });
    let sum = kernel.op(ScalarOp::Add, &[value, one]);
    kernel.store(output, sum);
    kernel
}

/// A graph that adds 1 to `buffer`, as many times as it has nodes.
fn counter(graphs: &Graphs<'_>, buffer: u64, count: u64, nodes: u32) -> Result<u64, Stop> {
    let job = job(increment(), count);
    let kernel = graphs.device.compile(&job.kernel)?;
    let bindings = job.bindings(&[buffer, buffer]);
    let launch = job.launch(kernel, &bindings);
    let before: Vec<[u32; 1]> = (0..nodes).map(|i| [i.wrapping_sub(1)]).collect();
    let nodes: Vec<(Packet, &[u32])> = (before.iter().enumerate())
        .map(|(i, before)| (launch_packet(&launch, null()), if i == 0 { &[][..] } else { &before[..] }))
        .collect();
    Ok(graphs.create(&nodes)?)
}

fn relaunch(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 400])?);
    let graph = counter(&graphs, buffer, 100, 5)?;
    for _ in 0..1000 {
        graphs.launch(graph, stream)?;
    }
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 400)?);
    check_eq!(found, vec![5000; 100], "a counter after 1000 launches of 5 nodes");
    Ok(())
}

fn two_streams(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (s1, s2, event) = (device.stream()?, device.stream()?, device.event(false)?);
    let buffer = device.upload(&[0; 40])?;
    let graph = counter(&graphs, buffer, 10, 3)?;
    for _ in 0..200 {
        graphs.launch(graph, s1)?;
        device.record(event, s1)?;
        device.wait_event(s2, event)?;
        graphs.launch(graph, s2)?;
        device.record(event, s2)?;
        device.wait_event(s1, event)?;
    }
    let found = from_bytes(DType::I32, &device.download(s1, buffer, 40)?);
    check_eq!(found, vec![1200; 10], "a counter after 200 launches on each of two streams");
    Ok(device.join(s2)?)
}

fn in_stream_order(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer, log) = (device.stream()?, device.alloc(4)?, device.alloc(400)?);
    let graph = counter(&graphs, buffer, 1, 1)?;
    for i in 0..100_u64 {
        device.fill(stream, &fill(buffer, 0, 4, i * 10, 4))?;
        graphs.launch(graph, stream)?;
        device.copy(stream, &copy(at(log, i * 4), at(buffer, 0), 4))?;
    }
    let found = from_bytes(DType::I32, &device.download(stream, log, 400)?);
    let expected: Vec<u64> = (0..100).map(|i| i * 10 + 1).collect();
    check_eq!(found, expected, "what was copied after each launch");
    Ok(())
}

fn asynchronous(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 40])?);
    let graph = counter(&graphs, buffer, 10, 2)?;
    let gate = Gate::new(&device, stream)?;
    for _ in 0..10 {
        graphs.launch(graph, stream)?;
    }
    check!(!device.is_idle(stream)?, "query is true while launches wait behind a callback");
    gate.open();
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 40)?);
    check_eq!(found, vec![20; 10], "a counter after 10 launches of 2 nodes");
    Ok(())
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
    let graph = graphs.create(&[(launch_packet(&launch, null()), &[]), (fill_packet(&first, null()), &[0])])?;
    graphs.launch(graph, stream)?;
    check_eq!(device.download(stream, b, 40)?, to_bytes(DType::I32, &[1; 10]), "before updates");
    // Other buffers and other extents, then another range and value.
    let smaller = job(increment(), 4);
    let other = smaller.bindings(&[b, b]);
    graphs.update(graph, 0, launch_packet(&smaller.launch(kernel, &other), null()))?;
    graphs.update(graph, 1, fill_packet(&fill(a, 0, 40, 5, 4), null()))?;
    graphs.launch(graph, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, b, 40)?);
    check_eq!(found, vec![2, 2, 2, 2, 1, 1, 1, 1, 1, 1], "the launch with other arguments");
    check_eq!(device.download(stream, a, 40)?, to_bytes(DType::I32, &[5; 10]), "the fill of another buffer");
    graphs.update(graph, 1, fill_packet(&second, null()))?;
    // What a graph no longer uses may be freed.
    device.free(a)?;
    graphs.launch(graph, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, b, 40)?);
    check_eq!(found, vec![9, 9, 9, 9, 9, 1, 1, 1, 1, 1], "after the second update");
    Ok(())
}

fn update_later(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, a, b) = (device.stream()?, device.upload(&[0; 16])?, device.upload(&[0; 16])?);
    let (first, second) = (fill(a, 0, 16, 1, 1), fill(b, 0, 16, 2, 1));
    let graph = graphs.create(&[(fill_packet(&first, null()), &[])])?;
    let gate = Gate::new(&device, stream)?;
    graphs.launch(graph, stream)?;
    graphs.update(graph, 0, fill_packet(&second, null()))?;
    gate.open();
    check_eq!(device.download(stream, a, 16)?, vec![1; 16], "the launch before the update");
    check_eq!(device.download(stream, b, 16)?, vec![0; 16], "the update without a launch");
    Ok(())
}

fn refuse(result: Result<()>, expected: &[Status], what: &str) -> Check {
    match result {
        Ok(()) => crate::fail!("{what} is accepted"),
        Err(error) => {
            check!(expected.contains(&error.status), "{what}: {} ({error})", error.status);
            check!(!error.message.is_empty(), "{what}: no text");
        }
    }
    Ok(())
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
    refuse(graphs.update(graph, 1, launch_packet(&launch, null())), invalid, "an update of a node that is not there")?;
    refuse(graphs.update(graph, usize::MAX, launch_packet(&launch, null())), invalid, "an update of node usize::MAX")?;
    refuse(graphs.update(graph, 0, fill_packet(&fill_a, null())), invalid, "an update to another kind")?;
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
    check_eq!(found, vec![0x0303_0304; 10], "a launch after updates that were refused");
    Ok(())
}

fn freed_buffer(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, a, b) = (device.stream()?, device.upload(&[1; 64])?, device.upload(&[2; 64])?);
    let (first, second) = (fill(a, 0, 64, 7, 1), copy(at(b, 0), at(a, 0), 64));
    let graph = graphs.create(&[(fill_packet(&first, null()), &[]), (copy_packet(&second, null()), &[0])])?;
    device.free(a)?;
    let stale = &[Status::InvalidHandle];
    refuse(graphs.launch(graph, stream), stale, "a launch whose buffer was freed")?;
    // Another buffer in the same place is not the one that the graph was built with.
    let _again = device.alloc(64)?;
    refuse(graphs.launch(graph, stream), stale, "a launch whose buffer was freed and whose memory is in use again")?;
    check_eq!(device.download(stream, b, 64)?, vec![2; 64], "the other buffer after launches that were refused");
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
    check!(found.iter().all(|&b| b == 0x11), "memory that a graph still writes was handed to another stream");
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
        device.raw().status(unsafe { (table.release)(device.raw().context, kernel) })?;
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
    check_eq!(found, vec![3; 10], "a launch of a graph that was destroyed before it ran");
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
    for (what, nodes, count) in [("null dependencies", &raw const node, 1), ("null nodes", null(), 2)] {
        let args = GraphArgs {
            device: device.handle(),
            nodes,
            node_count: count,
        };
        // SAFETY: null is for the backend to refuse.
        let result = raw.out(0_u64, |out| unsafe { (graphs.table.create)(raw.context, &raw const args, out) });
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
    refuse(fill_packet(&long, null()), Status::OutOfBounds, "a node beyond its buffer")?;
    refuse(fill_packet(&far, null()), Status::InvalidHandle, "a node on another device")?;
    refuse(unknown, Status::InvalidArgument, "a node of an unknown kind")?;
    let empty = Packet {
        fill: null(),
        ..fill_packet(&good, null())
    };
    refuse(empty, Status::InvalidArgument, "a node that holds nothing")
}

fn empty(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let stream = device.stream()?;
    let graph = graphs.create(&[])?;
    graphs.launch(graph, stream)?;
    device.join(stream)?;
    Ok(graphs.destroy(graph)?)
}

fn large(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[0; 32])?);
    let graph = counter(&graphs, buffer, 8, 2000)?;
    graphs.launch(graph, stream)?;
    graphs.launch(graph, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, buffer, 32)?);
    check_eq!(found, vec![4000; 8], "a counter after two launches of 2000 nodes");
    Ok(())
}

fn foreign_stream(subject: &Subject) -> Check {
    let (device, other) = (Device::open(subject)?, Device::open(subject)?);
    let graphs = Graphs::new(&device)?;
    let (buffer, stream) = (device.alloc(8)?, other.stream()?);
    let work = fill(buffer, 0, 8, 1, 1);
    let graph = graphs.create(&[(fill_packet(&work, null()), &[])])?;
    refuse(graphs.launch(graph, stream), &[Status::InvalidHandle], "a launch on a foreign stream")
}

fn stale(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let graphs = Graphs::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(8)?);
    let work = fill(buffer, 0, 8, 1, 1);
    let graph = graphs.create(&[(fill_packet(&work, null()), &[])])?;
    graphs.destroy(graph)?;
    let gone = &[Status::InvalidHandle];
    refuse(graphs.launch(graph, stream), gone, "a launch of a graph that was destroyed")?;
    refuse(graphs.update(graph, 0, fill_packet(&work, null())), gone, "an update of a graph that was destroyed")?;
    refuse(graphs.destroy(graph), gone, "a second destroy")
}
