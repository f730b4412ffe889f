//! Graphs: dependencies, updates, launches again and again, and what became of their buffers and kernels. Programs.

mod changes;
mod launches;
mod programs;
mod refused;

use crate::check;
use crate::kit::{Case, Check, Stop};
use crate::rig::Device;
use crate::rig::device::launch_packet;
use crate::rig::run::{Argument, Job};
use std::ptr::null;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role, ScalarOp};
use thalweg_hal::tables::{GraphArgs, GraphLaunchArgs, GraphNode, GraphTable, GraphUpdateArgs, Packet};
use thalweg_hal::{DType, Result, Status};

pub(super) fn cases() -> Vec<Case> {
    [
        launches::cases(),
        changes::cases(),
        refused::cases(),
        programs::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
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
        raw.out(0, |out| unsafe {
            (self.table.create)(raw.context, &raw const args, out)
        })
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

fn job(kernel: Kernel, count: u64) -> Job {
    let arguments = vec![Argument::default(); kernel.params.len()];
    Job {
        kernel,
        extents: vec![count],
        arguments,
        scalars: Vec::new(),
    }
}

/// `x = x + 1` in place, on i32.
fn increment() -> Kernel {
    let mut kernel = Kernel::new("increment", 1, 0);
    let input = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    let one = kernel.push(Node::Const {
        dtype: DType::I32,
        bits: 1,
    });
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
        .map(|(i, before)| {
            (
                launch_packet(&launch, null()),
                if i == 0 { &[][..] } else { &before[..] },
            )
        })
        .collect();
    Ok(graphs.create(&nodes)?)
}

fn refuse(result: Result<()>, expected: &[Status], what: &str) -> Check {
    match result {
        Ok(()) => crate::fail!("{what} is accepted"),
        Err(error) => {
            check!(
                expected.contains(&error.status),
                "{what}: {} ({error})",
                error.status
            );
            check!(!error.message.is_empty(), "{what}: no text");
        }
    }
    Ok(())
}
