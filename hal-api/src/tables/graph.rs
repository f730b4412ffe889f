//! Graphs: packets with dependencies, checked once and launched in one call.

use super::{Context, Packet};

/// One node of a graph.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GraphNode {
    /// Its work.
    pub packet: Packet,
    /// Indices of earlier nodes that must be done first.
    pub dependencies: *const u32,
    /// Number of dependencies.
    pub dependency_count: usize,
}

/// Arguments of [`GraphTable::create`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GraphArgs {
    /// Device handle.
    pub device: u64,
    /// The nodes; a node comes after what it depends on.
    pub nodes: *const GraphNode,
    /// Number of nodes.
    pub node_count: usize,
}

/// Arguments of [`GraphTable::update`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GraphUpdateArgs {
    /// Graph handle.
    pub graph: u64,
    /// Which node.
    pub node: usize,
    /// New arguments: same kind and same kernel, other buffers, offsets, strides, extents or scalars.
    pub packet: Packet,
}

/// Arguments of [`GraphTable::launch`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GraphLaunchArgs {
    /// Graph handle.
    pub graph: u64,
    /// Stream handle; the graph runs as one piece of its work.
    pub stream: u64,
}

/// Graphs. The buffers of a graph must live when it is launched; one that was freed is `InvalidHandle`. Kernels may be
/// released before.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GraphTable {
    /// Checks the nodes and builds an executable graph.
    pub create: unsafe extern "C" fn(context: Context, args: *const GraphArgs, out: *mut u64) -> i32,
    /// Changes the arguments of one node for later launches.
    pub update: unsafe extern "C" fn(context: Context, args: *const GraphUpdateArgs) -> i32,
    /// Launches all nodes.
    pub launch: unsafe extern "C" fn(context: Context, args: *const GraphLaunchArgs) -> i32,
    /// Frees a graph; launches that were submitted go on.
    pub destroy: unsafe extern "C" fn(context: Context, graph: u64) -> i32,
}
