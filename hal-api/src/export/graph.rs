//! The graph table.

use super::objects::{Graph, Owner, full, stale};
use super::resolve::{Resolved, handles};
use super::stream::mark;
use super::{arg, array, enter, optional, put, writable};
use crate::backend::{Backend, Device, GraphNode, Tag};
use crate::status::{Error, Result};
use crate::tables::{self, Context, GraphArgs, GraphLaunchArgs, GraphTable, GraphUpdateArgs};
use parking_lot::Mutex;
use std::sync::Arc;

pub(super) const fn table<B: Backend>() -> GraphTable {
    GraphTable {
        create: create::<B>,
        update: update::<B>,
        launch: launch::<B>,
        destroy: destroy::<B>,
    }
}

fn unique(per_node: &[Vec<u64>]) -> Vec<u64> {
    let mut all: Vec<u64> = per_node.iter().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

unsafe extern "C" fn create<B: Backend>(context: Context, args: *const GraphArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let open = instance.device(args.device)?;
            let owner = Owner::new(open);
            let nodes = array(args.nodes, args.node_count)?;
            let mut resolved = Vec::with_capacity(nodes.len());
            for (index, node) in nodes.iter().enumerate() {
                let within =
                    |error: Error| Error::new(error.status, format!("node {index}: {}", error.message));
                let dependencies = array(node.dependencies, node.dependency_count).map_err(within)?;
                if let Some(late) = dependencies.iter().find(|&&earlier| earlier as usize >= index) {
                    return Err(Error::invalid_argument(format!(
                        "node {index} depends on node {late}, which does not come before it"
                    )));
                }
                let mut into = Resolved::new();
                instance.packet(owner, &node.packet, &mut into).map_err(within)?;
                resolved.push((into, dependencies));
            }
            let mut work = Vec::with_capacity(nodes.len());
            for (index, ((resolved, dependencies), node)) in resolved.iter().zip(nodes).enumerate() {
                work.push(GraphNode {
                    work: resolved.work().ok_or_else(|| nothing(index))?,
                    tag: Tag::new(optional(node.packet.tag)?),
                    dependencies,
                });
            }
            let graph = open.device.create_graph(&work)?;
            drop(work);
            let kinds = resolved.iter().zip(nodes).map(|((resolved, _), node)| {
                (
                    node.packet.kind,
                    resolved.kernel().map(|kernel| Arc::clone(&kernel.kernel)),
                )
            });
            let per_node: Vec<Vec<u64>> = nodes
                .iter()
                .map(|node| handles(&node.packet))
                .collect::<Result<_>>()?;
            let all = unique(&per_node);
            let entry = Graph {
                owner,
                graph,
                nodes: kinds.collect(),
                buffers: Mutex::new((per_node, all)),
            };
            put(out, instance.graphs.insert(entry).ok_or_else(|| full("graph"))?)
        })
    }
}

fn nothing(index: usize) -> Error {
    Error::invalid_argument(format!("node {index} copies or fills nothing; leave it out"))
}

unsafe extern "C" fn update<B: Backend>(context: Context, args: *const GraphUpdateArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let graph = instance.graph(args.graph)?;
            let Some((kind, kernel)) = graph.nodes.get(args.node) else {
                return Err(Error::invalid_argument(format!(
                    "node {} of a graph of {} nodes",
                    args.node,
                    graph.nodes.len()
                )));
            };
            let mut resolved = Resolved::new();
            instance.packet(graph.owner, &args.packet, &mut resolved)?;
            let same_kernel = match (kernel, resolved.kernel()) {
                (None, None) => true,
                (Some(old), Some(new)) => Arc::ptr_eq(old, &new.kernel),
                _ => false,
            };
            if *kind != args.packet.kind || !same_kernel {
                return Err(Error::invalid_argument(format!(
                    "node {}: an update keeps the kind and the kernel; build a new graph",
                    args.node
                )));
            }
            let work = resolved.work().ok_or_else(|| nothing(args.node))?;
            graph
                .owner
                .get()
                .device
                .update_graph(&graph.graph, args.node, &work)?;
            let mut buffers = graph.buffers.lock();
            buffers.0[args.node] = handles(&args.packet)?;
            buffers.1 = unique(&buffers.0);
            Ok(())
        })
    }
}

unsafe extern "C" fn launch<B: Backend>(context: Context, args: *const GraphLaunchArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args: &tables::GraphLaunchArgs = arg(args)?;
            let (graph, stream) = (instance.graph(args.graph)?, instance.stream(args.stream)?);
            if !graph.owner.is(stream.owner) {
                return Err(Error::invalid_handle(
                    "graph launch: graph and stream belong to different devices",
                ));
            }
            let buffers = graph.buffers.lock();
            for &handle in &buffers.1 {
                instance.buffer(handle)?;
            }
            graph
                .owner
                .get()
                .device
                .launch_graph(&graph.graph, &stream.stream)?;
            mark(
                stream,
                buffers
                    .1
                    .iter()
                    .filter_map(|&handle| instance.buffers.get(handle)),
            );
            Ok(())
        })
    }
}

unsafe extern "C" fn destroy<B: Backend>(context: Context, graph: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| -> Result<()> {
            instance
                .graphs
                .remove(graph)
                .map(drop)
                .ok_or_else(|| stale("graph", graph))
        })
    }
}
