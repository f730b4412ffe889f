//! Graphs and programs: graphs of the driver, built from launches that were planned and compiled beforehand.

mod build;
mod executable;
mod program;
mod scratch;
mod step;

pub(crate) use program::ProgramGraph;

use crate::device::CudaDevice;
use crate::memory::Chunk;
use crate::stream::CuStream;
use executable::{Executable, Scratch};
use parking_lot::Mutex;
use std::fmt::Write;
use std::sync::Arc;
use step::Step;
use thalweg_hal::backend::{GraphNode, OwnedTag, Tag, Work};
use thalweg_hal::{Error, Result, Str, tables};

/// Ops that a graph's name lists.
const LISTED: usize = 6;

struct Node {
    step: Step,
    dependencies: Vec<u32>,
}

struct State {
    nodes: Vec<Node>,
    // None when a change needs a new one.
    executable: Option<Arc<Executable>>,
}

/// An executable graph.
pub(crate) struct CudaGraph {
    state: Mutex<State>,
    name: OwnedTag,
}

impl CudaGraph {
    /// Builds the graph.
    pub(crate) fn new(device: &CudaDevice, nodes: &[GraphNode<'_, CudaDevice>]) -> Result<CudaGraph> {
        device.context.enter()?;
        let node = |node: &GraphNode<'_, CudaDevice>| {
            Ok(Node {
                step: Step::new(device, &node.work)?,
                dependencies: node.dependencies.to_vec(),
            })
        };
        let owned: Vec<Node> = nodes.iter().map(node).collect::<Result<_>>()?;
        let executable = Some(Arc::new(instantiate(device, &owned)?));
        let tags = nodes.iter().map(|node| node.tag.to_owned());
        Ok(CudaGraph {
            name: name("graph", tags),
            state: Mutex::new(State {
                nodes: owned,
                executable,
            }),
        })
    }

    /// Changes one node. Launches that were queued keep what they were queued with.
    pub(crate) fn update(&self, device: &CudaDevice, node: usize, work: &Work<'_, CudaDevice>) -> Result<()> {
        device.context.enter()?;
        let step = Step::new(device, work)?;
        let mut state = self.state.lock();
        let State { nodes, executable } = &mut *state;
        let count = nodes.len();
        let Some(place) = nodes.get_mut(node) else {
            return Err(Error::invalid_argument(format!(
                "node {node} of a graph of {count} nodes"
            )));
        };
        let taken = match executable.as_ref() {
            Some(executable) => executable.set(node, &step, executable.scratch.base)?,
            None => false,
        };
        if !taken {
            *executable = None;
        }
        place.step = step;
        Ok(())
    }

    /// Queues the graph.
    ///
    /// # Safety
    /// As [`thalweg_hal::backend::Device::submit`] for every node.
    pub(crate) unsafe fn launch(&self, device: &CudaDevice, stream: &CuStream) -> Result<()> {
        let mut state = self.state.lock();
        let executable = match &state.executable {
            Some(executable) => Arc::clone(executable),
            None => {
                device.context.enter()?;
                let fresh = Arc::new(instantiate(device, &state.nodes)?);
                Arc::clone(state.executable.insert(fresh))
            }
        };
        let mut order = stream.order()?;
        // SAFETY: the caller vouches for the memory of every node.
        let code = unsafe { (device.context.api.graph_launch)(executable.raw, order.raw()) };
        order.check("cuGraphLaunch", code)?;
        order.belongings.waited |= executable.writes_host;
        let raw = self.name.raw();
        // SAFETY: `raw` borrows from the name, which lives through the call.
        order.done(unsafe { Tag::new(Some(&raw)) }, Some(executable));
        Ok(())
    }
}

/// A graph with scratch memory of its own. The context is current.
fn instantiate(device: &CudaDevice, nodes: &[Node]) -> Result<Executable> {
    let nodes: Vec<(&Step, &[u32])> = (nodes.iter())
        .map(|node| (&node.step, &node.dependencies[..]))
        .collect();
    build::executable(device, &nodes, |bytes| {
        let chunk = Chunk::new(&device.context, bytes)?;
        Ok(Scratch {
            base: chunk.base(),
            _chunk: Some(chunk),
        })
    })
}

/// What a graph is called in messages: the driver does not say which node failed.
fn name(what: &str, tags: impl ExactSizeIterator<Item = OwnedTag>) -> OwnedTag {
    let count = tags.len();
    let mut text = format!("a {what} of {count} nodes (");
    for (index, tag) in tags.take(LISTED).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(text, "{comma}{tag}");
    }
    text.push_str(if count > LISTED { ", …)" } else { ")" });
    let raw = tables::Tag {
        op: Str::new(&text),
        file: Str::EMPTY,
        line: 0,
        node: 0,
    };
    // SAFETY: the text lives through the call.
    unsafe { Tag::new(Some(&raw)) }.to_owned()
}
