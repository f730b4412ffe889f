//! Graphs: the driver's, built from launches that were planned and compiled beforehand.

mod build;

use crate::api::driver::{DevicePtr, RawGraphExec, RawGraphNode};
use crate::context::Context;
use crate::copy::{End, span};
use crate::device::CudaDevice;
use crate::launch::{Prepared, Ready};
use crate::library::Call;
use crate::memory::{Chunk, Pinned, is_pinned};
use crate::stage::Way;
use crate::stream::CuStream;
use build::{HostCopy, Plain};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::fmt::Write;
use std::sync::Arc;
use thalweg_hal::backend::{Copy, GraphNode, OwnedTag, Place, Tag, Work};
use thalweg_hal::{Error, Result, Str, tables};

/// Ops that a graph's name lists.
const LISTED: usize = 6;

/// The work of one node.
enum Step {
    Launch(Box<Prepared>),
    Product(Box<Call>),
    /// Between ends that the driver reaches; whether it writes host memory.
    Copy(End, End, (u64, u64), bool),
    /// Between host memory that is not pinned and the device.
    HostCopy(Way, (*mut u8, u64), End, (u64, u64)),
    /// Between devices.
    Peer((End, Arc<Context>), (End, Arc<Context>), (u64, u64)),
    /// Address, elements, and what to fill with: bytes of an element and its value.
    Fill(DevicePtr, u64, u32, u64),
    /// A launch over an empty space.
    Nothing,
}

// SAFETY: the pointers lead to memory that the callers of `launch` vouch for.
unsafe impl Send for Step {}

impl Step {
    fn new(device: &CudaDevice, work: &Work<'_, CudaDevice>) -> Result<Step> {
        Ok(match work {
            Work::Launch(launch) => match Ready::new(launch)? {
                Ready::Kernel(prepared) => Step::Launch(prepared),
                Ready::Product(call) => Step::Product(call),
                Ready::Nothing => Step::Nothing,
            },
            Work::Copy(copy) => Step::copy(device, copy)?,
            Work::Fill(fill) => Step::Fill(
                fill.region.chunk.at(fill.region.offset),
                fill.region.bytes / u64::from(fill.pattern_bytes),
                fill.pattern_bytes,
                u64::from_le_bytes(fill.pattern),
            ),
            Work::Callback(_) => {
                return Err(Error::unsupported("a callback runs once and cannot be kept"));
            }
        })
    }

    /// Whether host memory is written.
    fn writes_host(&self) -> bool {
        matches!(self, Step::HostCopy(Way::ToHost, ..) | Step::Copy(.., true))
    }

    fn copy(device: &CudaDevice, copy: &Copy<'_, CudaDevice>) -> Result<Step> {
        let (size, to, from) = copy.joined();
        let host = |way, memory: *mut u8, pitch, end: End| {
            let here = End(memory as u64, pitch);
            let pinned = is_pinned(&device.context, memory, span(pitch, size));
            match (pinned, way) {
                (true, Way::ToDevice) => Step::Copy(end, here, size, false),
                (true, Way::ToHost) => Step::Copy(here, end, size, true),
                (false, _) => Step::HostCopy(way, (memory, pitch), end, size),
            }
        };
        Ok(match (&copy.dst.0, &copy.src.0) {
            (Place::Device(here, target), Place::Device(there, source)) => {
                let ends = (
                    End(target.chunk.at(target.offset), to),
                    End(source.chunk.at(source.offset), from),
                );
                if Arc::ptr_eq(&here.context, &there.context) {
                    Step::Copy(ends.0, ends.1, size, false)
                } else {
                    let (here, there) = (Arc::clone(&here.context), Arc::clone(&there.context));
                    Step::Peer((ends.0, here), (ends.1, there), size)
                }
            }
            (Place::Device(_, region), Place::Host(memory)) => {
                let end = End(region.chunk.at(region.offset), to);
                host(Way::ToDevice, *memory, from, end)
            }
            (Place::Host(memory), Place::Device(_, region)) => {
                let end = End(region.chunk.at(region.offset), from);
                host(Way::ToHost, *memory, to, end)
            }
            (Place::Host(_), Place::Host(_)) => {
                return Err(Error::invalid_argument(
                    "copy: neither end is a buffer of the device",
                ));
            }
        })
    }
}

struct Node {
    step: Step,
    dependencies: Vec<u32>,
}

/// The driver keeps the address of each.
#[allow(clippy::vec_box, reason = "they must not move when the list grows")]
type HostCopies = Vec<Box<HostCopy>>;

/// The driver's graph, with what its launches use.
struct Executable {
    raw: RawGraphExec,
    // The driver's nodes of each of ours, and where its scratch memory starts.
    nodes: Vec<(SmallVec<[RawGraphNode; 2]>, u64)>,
    // Whether a node writes host memory.
    writes_host: bool,
    // Bytes of scratch memory of each node.
    scratch_sizes: Vec<u64>,
    scratch: Option<Chunk>,
    // Owns the nodes, by which launches are changed.
    _plain: Plain,
    _staging: Vec<Pinned>,
    _host_copies: HostCopies,
    context: Arc<Context>,
}

// SAFETY: the boxes are read by the driver's calls alone.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: owned; streams that run it hold it until they have passed it.
            unsafe { (self.context.api.graph_exec_destroy)(self.raw) };
        }
    }
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
        let executable = Some(Arc::new(build::executable(device, &owned)?));
        Ok(CudaGraph {
            name: name(nodes),
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
        let fits = match (executable.as_ref(), &step, &place.step) {
            (Some(executable), Step::Launch(new), Step::Launch(old)) => {
                new.passes() == old.passes() && new.scratch_bytes <= executable.scratch_sizes[node]
            }
            _ => false,
        };
        if let (true, Some(executable), Step::Launch(prepared)) = (fits, executable.as_ref(), &step) {
            if let Err(error) = executable.set(node, prepared) {
                // Some of its passes may have changed.
                state.executable = None;
                return Err(error);
            }
        } else {
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
                let fresh = Arc::new(build::executable(device, &state.nodes)?);
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

impl Executable {
    fn scratch_at(&self, start: u64) -> Option<DevicePtr> {
        self.scratch.as_ref().map(|chunk| chunk.base() + start)
    }

    fn set(&self, node: usize, prepared: &Prepared) -> Result<()> {
        let (raw, start) = &self.nodes[node];
        let scratch = self.scratch_at(*start).filter(|_| prepared.scratch_bytes > 0);
        for (pass, raw) in raw.iter().enumerate() {
            let code = prepared.with_node(pass, scratch, |params| {
                // SAFETY: a kernel node of this graph; the driver copies the arguments.
                unsafe { (self.context.api.graph_set_kernel)(self.raw, *raw, params) }
            })?;
            self.context.check("cuGraphExecKernelNodeSetParams", code)?;
        }
        Ok(())
    }
}

/// What a graph is called in messages: the driver does not say which node failed.
fn name(nodes: &[GraphNode<'_, CudaDevice>]) -> OwnedTag {
    let mut text = format!("a graph of {} nodes (", nodes.len());
    for (index, node) in nodes.iter().take(LISTED).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(text, "{comma}{}", node.tag.to_owned());
    }
    text.push_str(if nodes.len() > LISTED { ", …)" } else { ")" });
    let raw = tables::Tag {
        op: Str::new(&text),
        file: Str::EMPTY,
        line: 0,
        node: 0,
    };
    // SAFETY: the text lives through the call.
    unsafe { Tag::new(Some(&raw)) }.to_owned()
}
