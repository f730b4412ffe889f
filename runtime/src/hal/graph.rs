//! Graphs: programs whose slots all hold buffers of the caller.

use super::batch::Batch;
use super::device::Device;
use super::error::Result;
use super::memory::Buffer;
use super::program::{Lists, Program, Slots};
use super::stream::Stream;
use super::tag::Tag;
use super::work::Packet;
use std::collections::HashMap;
use std::fmt;
use thalweg_hal::Status;
use thalweg_hal::tables::{ProgramDependency, ProgramInput};

/// One node of a graph: its work, and the indices of earlier nodes that must be done first.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The work: a launch, a fill, or a copy from buffer to buffer.
    pub packet: Packet<'a>,
    /// Indices of earlier nodes, beyond those that wrote what this node touches or read what it writes: it waits for these anyway.
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

/// Work on buffers of the caller, checked once and launched in one call. Its buffers must live when it is launched: a launch with
/// one that was dropped is an error. Kernels may be dropped before.
///
/// Extents, strides and scalars are those that it was built with. Buffers change by [`Graph::rebind`].
///
/// ```
/// use thalweg_runtime::hal::{self, Copy, Fill, Graph, Node, Place};
/// let device = hal::device("cpu")?;
/// let stream = device.default_stream()?;
/// let (a, b, c) = (device.alloc(4)?, device.alloc(4)?, device.alloc(4)?);
/// let copy = Copy::new(Place::buffer(&b, 0), Place::buffer(&a, 0), 4);
/// let mut graph = Graph::new(&device, &[Node::new(Fill::new(&a, 5_i32), &[]), Node::new(copy, &[])])?;
/// graph.launch(&stream)?;
/// assert_eq!(b.download::<i32>(&stream)?, [5]);
/// graph.rebind(&b, &c, 0)?;
/// graph.launch(&stream)?;
/// assert_eq!(c.download::<i32>(&stream)?, [5]);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
pub struct Graph {
    program: Program,
    nodes: usize,
    /// Handles of the buffers in its slots.
    held: Vec<u64>,
    device: Device,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes on {})", self.nodes, self.device.target())
    }
}

impl Graph {
    /// Checks the nodes and keeps them.
    ///
    /// # Errors
    /// As [`Stream::submit`]; [`Status::InvalidArgument`] for a node that depends on itself or a later one and for a copy of host
    /// memory; [`Status::Unsupported`] on a backend without programs.
    #[track_caller]
    pub fn new(device: &Device, nodes: &[Node<'_>]) -> Result<Graph> {
        let (mut held, mut numbers) = (Vec::new(), HashMap::new());
        let batch = Batch::renamed(device, nodes.iter().map(|node| &node.packet), |handle| {
            *numbers.entry(handle).or_insert_with(|| {
                held.push(handle);
                held.len() as u64
            })
        })?;
        let dependencies: Vec<ProgramDependency> = (0..)
            .zip(nodes)
            .flat_map(|(packet, node)| {
                let of = move |&earlier: &u32| ProgramDependency { packet, earlier };
                node.dependencies.iter().map(of)
            })
            .collect();
        let bound: Vec<ProgramInput> = held
            .iter()
            .map(|&buffer| ProgramInput { buffer, offset: 0 })
            .collect();
        let lists = Lists {
            packets: batch.packets(),
            dependencies: &dependencies,
            bound: &bound,
            ..Lists::default()
        };
        // SAFETY: the batch and the nodes live through the call.
        let program =
            unsafe { Program::create(device, &Slots::default(), &lists, &Tag::new("create graph"))? };
        Ok(Graph {
            program,
            nodes: nodes.len(),
            held,
            device: device.clone(),
        })
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its handle in the tables: a program.
    pub fn handle(&self) -> u64 {
        self.program.handle()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// Whether it has no node.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Takes `by` from byte `offset` on wherever it used `buffer`, for later launches.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] where it does not use `buffer`; [`Status::OutOfBounds`] where `by` is too small;
    /// [`Status::Overlap`] where it uses `by` already and writes one of both.
    #[track_caller]
    pub fn rebind(&mut self, buffer: &Buffer, by: &Buffer, offset: u64) -> Result<()> {
        let tag = Tag::new("rebind graph");
        if *by.device() != self.device {
            let text = format!("the buffer lies on another device, {}", by.device().target());
            return Err(self.device.refuse(Status::InvalidHandle, text, &tag));
        }
        let is_used = |&slot: &usize| self.held[slot] == buffer.handle() && *buffer.device() == self.device;
        let slots: Vec<usize> = (0..self.held.len()).filter(is_used).collect();
        if slots.is_empty() {
            let text = "the graph does not use the buffer that is to be replaced";
            return Err(self.device.refuse(Status::InvalidArgument, text, &tag));
        }
        for slot in slots {
            self.program.rebind(slot, by, offset, &tag)?;
            self.held[slot] = by.handle();
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
        // SAFETY: there is no output.
        unsafe {
            self.program
                .run(stream, &[], &[], (&Tag::new("launch graph"), true), |_| ())
        }
    }
}
