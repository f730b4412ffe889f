//! Executable graphs of the driver, and what of them can change between launches.

use super::nodes::Parts;
use super::step::Step;
use crate::api::driver::{DevicePtr, RawGraph, RawGraphExec, RawGraphNode, RawStream};
use crate::context::Context;
use crate::launch;
use crate::library::Call;
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_hal::{Error, Result};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: u32 = 2;

/// The driver's nodes of one of ours.
pub(super) type RawNodes = SmallVec<[RawGraphNode; 2]>;

/// A graph of the driver that is not executable.
pub(super) struct Plain {
    pub(super) raw: RawGraph,
    context: Arc<Context>,
}

impl Drop for Plain {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: owned, and not used after this.
            unsafe { (self.context.api.graph_destroy)(self.raw) };
        }
    }
}

impl Plain {
    /// A graph without nodes. The context is current.
    pub(super) fn new(context: &Arc<Context>) -> Result<Plain> {
        let mut raw = RawGraph(std::ptr::null_mut());
        // SAFETY: plain call.
        let code = unsafe { (context.api.graph_create)(&raw mut raw, 0) };
        context.check("cuGraphCreate", code)?;
        Ok(Plain {
            raw,
            context: Arc::clone(context),
        })
    }

    /// What `queue` queues, as a graph. The context is current.
    pub(super) fn captured(
        context: &Arc<Context>,
        queue: impl FnOnce(RawStream) -> Result<()>,
    ) -> Result<Plain> {
        let (api, mut raw) = (context.api, RawGraph(std::ptr::null_mut()));
        let stream = context.capturing()?;
        // SAFETY: a stream of our own, on which nobody else captures.
        let (queued, code) = unsafe {
            let code = (api.begin_capture)(stream.raw, RELAXED);
            context.check("cuStreamBeginCapture", code)?;
            let queued = queue(stream.raw);
            (queued, (api.end_capture)(stream.raw, &raw mut raw))
        };
        // There is a graph whether or not all of it was queued.
        let graph = (!raw.0.is_null()).then(|| Plain {
            raw,
            context: Arc::clone(context),
        });
        queued?;
        context.check("cuStreamEndCapture", code)?;
        stream.keep();
        graph.ok_or_else(|| Error::internal("cuStreamEndCapture returned no graph and no error"))
    }

    /// A product with what follows it, as a graph. The context is current.
    ///
    /// # Safety
    /// As [`Call::queue`], for launches of the graph.
    pub(super) unsafe fn of_product(
        context: &Arc<Context>,
        call: &Call,
        scratch: DevicePtr,
    ) -> Result<Plain> {
        // SAFETY: the caller vouches for the memory.
        let capture = || Plain::captured(context, |stream| unsafe { call.queue(stream, scratch) });
        let form = call.form();
        match capture() {
            // A bias that the library refuses may have ended the capture; it is not asked for again.
            Err(_) if call.form() != form => capture(),
            made => made,
        }
    }
}

/// By which calls of the driver a node changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Kernels,
    /// A graph of its own; its nodes stay what they are.
    Child((usize, usize)),
    Set,
    Nothing,
    /// By none.
    Fixed,
}

impl Kind {
    pub(super) fn of(step: &Step) -> Kind {
        match step {
            Step::Launch(_) => Kind::Kernels,
            Step::Product(call) => Kind::Child(call.form()),
            Step::Fill(_) => Kind::Set,
            Step::Nothing => Kind::Nothing,
            Step::Copy(..) => Kind::Fixed,
        }
    }
}

/// A node, as it was built.
pub(super) struct Added {
    pub(super) kind: Kind,
    pub(super) raw: RawNodes,
    /// First byte of its scratch memory.
    pub(super) start: u64,
    /// Bytes of it.
    pub(super) scratch_bytes: u64,
}

/// The driver's executable graph, with what its launches use.
pub(super) struct Executable {
    pub(super) raw: RawGraphExec,
    pub(super) nodes: Vec<Added>,
    /// Bytes of the scratch memory of all nodes.
    pub(super) scratch_bytes: u64,
    /// Where that starts.
    pub(super) scratch: DevicePtr,
    /// What its nodes do, where that was noted when it was made.
    pub(super) parts: Option<Arc<Parts>>,
    // Owns the nodes, by which launches are changed.
    pub(super) _plain: Plain,
    pub(super) context: Arc<Context>,
}

impl Drop for Executable {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: owned; streams that run it hold it until they have passed it.
            unsafe { (self.context.api.graph_exec_destroy)(self.raw) };
        }
    }
}

impl Executable {
    /// Changes a node for later launches, with scratch memory that starts at `scratch`; those that were queued keep what they
    /// have, by the driver's word. False where the driver cannot: then the graph must be built anew, since a part may have
    /// changed. The context is current.
    ///
    /// # Errors
    /// That the device is lost.
    pub(super) fn set(&self, node: usize, step: &Step, scratch: DevicePtr) -> Result<bool> {
        let (api, Some(node)) = (self.context.api, self.nodes.get(node)) else {
            return Ok(false);
        };
        if node.kind != Kind::of(step) || step.scratch_bytes() > node.scratch_bytes {
            return Ok(false);
        }
        let changed = match step {
            Step::Launch(prepared) => {
                if prepared.plan.passes.len() != node.raw.len() {
                    return Ok(false);
                }
                (node.raw.iter().enumerate()).try_for_each(|(pass, &raw)| {
                    let code = launch::with_node(prepared, pass, scratch + node.start, |params| {
                        // SAFETY: a kernel node of this graph; the driver copies the arguments.
                        unsafe { (api.graph_set_kernel)(self.raw, raw, params) }
                    })?;
                    self.context.check("cuGraphExecKernelNodeSetParams", code)
                })
            }
            Step::Product(call) => {
                // SAFETY: the callers of the launch vouch for the operands; the scratch memory is the node's own.
                let child = unsafe { Plain::of_product(&self.context, call, scratch + node.start) };
                // The library may have refused a bias while it was captured.
                if node.kind != Kind::of(step) {
                    return self.context.alive().map(|()| false);
                }
                child.and_then(|child| {
                    (node.raw.iter()).try_for_each(|&raw| {
                        // SAFETY: a node of this graph that was made of a child; the driver copies what it needs.
                        let code = unsafe { (api.graph_set_child)(self.raw, raw, child.raw) };
                        self.context.check("cuGraphExecChildGraphNodeSetParams", code)
                    })
                })
            }
            Step::Fill(set) => node.raw.iter().try_for_each(|&raw| {
                let params = set.params();
                // SAFETY: a node of this graph that sets memory; the driver copies the parameters.
                let code = unsafe { (api.graph_set_set)(self.raw, raw, &raw const params, self.context.raw) };
                self.context.check("cuGraphExecMemsetNodeSetParams", code)
            }),
            Step::Nothing => Ok(()),
            Step::Copy(..) => return Ok(false),
        };
        match changed {
            Ok(()) => Ok(true),
            Err(_) => self.context.alive().map(|()| false),
        }
    }
}
