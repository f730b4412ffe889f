//! Graphs: work that is checked once and launched in one call.

use super::batch::Batch;
use super::device::Device;
use super::error::Result;
use super::stream::Stream;
use super::tag::Tag;
use super::work::Packet;
use std::fmt;
use thalweg_hal::Status;
use thalweg_hal::tables::{GraphArgs, GraphLaunchArgs, GraphNode, GraphTable, GraphUpdateArgs};

/// One node of a graph: its work, and the indices of earlier nodes that must be done first.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The work.
    pub packet: Packet<'a>,
    /// Indices of earlier nodes.
    pub dependencies: &'a [u32],
}

impl<'a> Node<'a> {
    /// `packet` after the nodes `dependencies`.
    pub fn new(packet: impl Into<Packet<'a>>, dependencies: &'a [u32]) -> Node<'a> {
        Node {
            packet: packet.into(),
            dependencies,
        }
    }
}

/// Work with dependencies, launched as one piece of a stream's work. Its buffers must live when it is launched: a launch with
/// one that was dropped is an error. Kernels may be dropped before.
///
/// ```
/// use thalweg_runtime::hal::{self, Copy, Fill, Graph, Node, Place};
/// let device = hal::device("cpu")?;
/// let stream = device.default_stream()?;
/// let (a, b) = (device.alloc(4)?, device.alloc(4)?);
/// let copy = Copy::new(Place::buffer(&b, 0), Place::buffer(&a, 0), 4);
/// let graph = Graph::new(&device, &[Node::new(Fill::new(&a, 5_i32), &[]), Node::new(copy, &[0])])?;
/// graph.launch(&stream)?;
/// assert_eq!(b.download::<i32>(&stream)?, [5]);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
pub struct Graph {
    handle: u64,
    nodes: usize,
    device: Device,
    table: &'static GraphTable,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes on {})", self.nodes, self.device.target())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: plain call of a table; the handle is this value's own.
        let code = unsafe { (self.table.destroy)(self.device.context(), self.handle) };
        if code != 0 {
            tracing::error!("{}", self.device.error(code, &Tag::new("destroy graph")));
        }
    }
}

impl Graph {
    /// Checks the nodes and builds an executable graph.
    ///
    /// # Errors
    /// As [`Stream::submit`]; [`Status::InvalidArgument`] for a node that depends on a later one;
    /// [`Status::Unsupported`] on a backend without graphs.
    #[track_caller]
    pub fn new(device: &Device, nodes: &[Node<'_>]) -> Result<Graph> {
        let tag = Tag::new("create graph");
        let Some(table) = device.tables().graph else {
            return Err(device.refuse(
                Status::Unsupported,
                "this backend has no graphs; submit the packets",
                &tag,
            ));
        };
        let batch = Batch::new(device, nodes.iter().map(|node| &node.packet))?;
        let raw: Vec<GraphNode> = (batch.packets().iter().zip(nodes))
            .map(|(&packet, node)| GraphNode {
                packet,
                dependencies: node.dependencies.as_ptr(),
                dependency_count: node.dependencies.len(),
            })
            .collect();
        let args = GraphArgs {
            device: device.handle(),
            nodes: raw.as_ptr(),
            node_count: raw.len(),
        };
        let mut handle = 0;
        // SAFETY: all that the nodes point to lives through the call; `handle` is writable.
        let code = unsafe { (table.create)(device.context(), &raw const args, &raw mut handle) };
        device.check(code, &tag)?;
        Ok(Graph {
            handle,
            nodes: nodes.len(),
            device: device.clone(),
            table,
        })
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its handle in the tables.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// Whether it has no node.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Changes the arguments of one node for later launches; kind and kernel stay.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] for another kind or kernel, or a node that does not exist; as [`Stream::submit`].
    #[track_caller]
    pub fn update(&mut self, node: usize, packet: &Packet<'_>) -> Result<()> {
        let batch = Batch::new(&self.device, std::iter::once(packet))?;
        for &packet in batch.packets() {
            let args = GraphUpdateArgs {
                graph: self.handle,
                node,
                packet,
            };
            // SAFETY: all that the packet points to lives through the call.
            let code = unsafe { (self.table.update)(self.device.context(), &raw const args) };
            self.device.check(code, &Tag::new("update graph"))?;
        }
        Ok(())
    }

    /// Launches all nodes as one piece of the stream's work.
    ///
    /// # Errors
    /// [`Status::InvalidHandle`] for another device's stream or a buffer that was dropped.
    #[inline]
    #[track_caller]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        let tag = Tag::new("launch graph");
        if *stream.device() != self.device {
            let text = format!("the stream lies on another device, {}", stream.device().target());
            return Err(self.device.refuse(Status::InvalidHandle, text, &tag));
        }
        let args = GraphLaunchArgs {
            graph: self.handle,
            stream: stream.handle(),
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.table.launch)(self.device.context(), &raw const args) };
        self.device.check(code, &tag)
    }
}
