//! From nodes to a graph of the driver.

use super::{Executable, HostCopies, Node, Step};
use crate::api::driver::{DevicePtr, HostNode, RawContext, RawGraph, RawGraphExec, RawGraphNode, RawStream};
use crate::context::Context;
use crate::copy::{End, joined};
use crate::device::CudaDevice;
use crate::memory::{Chunk, Pinned};
use crate::stage::Way;
use cudarc::driver::sys::{CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUmemorytype};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;
use thalweg_hal::{Error, Result};

/// Scratch memory of a node starts at multiples of this.
const SCRATCH_ALIGNMENT: u64 = 256;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: u32 = 2;

type Nodes = SmallVec<[RawGraphNode; 2]>;

/// A graph of the driver that is not executable.
pub(super) struct Plain {
    raw: RawGraph,
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

/// A graph under construction.
struct Draft<'a> {
    context: &'a Arc<Context>,
    max_pitch: u64,
    graph: Plain,
    staging: Vec<Pinned>,
    host_copies: HostCopies,
}

/// Rows between a slot of pinned memory, where they have no gaps, and other host memory.
pub(super) struct HostCopy {
    way: Way,
    slot: *mut u8,
    host: *mut u8,
    pitch: usize,
    width: usize,
    rows: usize,
}

/// # Safety
/// `data` is a [`HostCopy`] whose memory the caller of the launch vouches for.
unsafe extern "C" fn carry(data: *mut c_void) {
    // SAFETY: the caller vouches for it; each row lies in both.
    unsafe {
        let copy = &*data.cast::<HostCopy>();
        for row in 0..copy.rows {
            let (slot, host) = (copy.slot.add(row * copy.width), copy.host.add(row * copy.pitch));
            match copy.way {
                Way::ToDevice => slot.copy_from_nonoverlapping(host, copy.width),
                Way::ToHost => host.copy_from_nonoverlapping(slot, copy.width),
            }
        }
    }
}

/// Builds and instantiates. The context is current.
pub(super) fn executable(device: &CudaDevice, nodes: &[Node]) -> Result<Executable> {
    let context = &device.context;
    let mut starts = Vec::with_capacity(nodes.len());
    let (mut scratch_sizes, mut total) = (Vec::with_capacity(nodes.len()), 0);
    for node in nodes {
        let bytes = match &node.step {
            Step::Launch(prepared) => prepared.scratch_bytes,
            Step::Product(call) => call.scratch_bytes(),
            Step::Copy(..) | Step::HostCopy(..) | Step::Peer(..) | Step::Fill(..) | Step::Nothing => 0,
        };
        starts.push(total);
        scratch_sizes.push(bytes);
        total += bytes.next_multiple_of(SCRATCH_ALIGNMENT);
    }
    let scratch = match total {
        0 => None,
        bytes => Some(Chunk::new(context, bytes)?),
    };
    let mut raw = RawGraph(std::ptr::null_mut());
    // SAFETY: plain call.
    context.check("cuGraphCreate", unsafe {
        (context.api.graph_create)(&raw mut raw, 0)
    })?;
    let mut draft = Draft {
        context,
        max_pitch: device.info.max_pitch,
        graph: Plain {
            raw,
            context: Arc::clone(context),
        },
        staging: Vec::new(),
        host_copies: Vec::new(),
    };
    let mut added = Vec::with_capacity(nodes.len());
    // The nodes after which each node is done.
    let mut ends: Vec<Nodes> = Vec::with_capacity(nodes.len());
    for (node, start) in nodes.iter().zip(starts) {
        let mut after = Nodes::new();
        for &earlier in &node.dependencies {
            for end in &ends[earlier as usize] {
                if !after.contains(end) {
                    after.push(*end);
                }
            }
        }
        let at = scratch.as_ref().map(|chunk| chunk.base() + start);
        let own = draft.add(&node.step, &after, at)?;
        ends.push(match own.last() {
            Some(last) => Nodes::from_slice(&[*last]),
            None => after,
        });
        added.push((own, start));
    }
    let mut exec = RawGraphExec(std::ptr::null_mut());
    // SAFETY: plain call.
    let code = unsafe { (context.api.graph_instantiate)(&raw mut exec, draft.graph.raw, 0) };
    context.check("cuGraphInstantiateWithFlags", code)?;
    Ok(Executable {
        raw: exec,
        nodes: added,
        writes_host: nodes.iter().any(|node| node.step.writes_host()),
        scratch_sizes,
        scratch,
        _plain: draft.graph,
        _staging: draft.staging,
        _host_copies: draft.host_copies,
        context: Arc::clone(context),
    })
}

impl Draft<'_> {
    fn add(&mut self, step: &Step, after: &[RawGraphNode], scratch: Option<DevicePtr>) -> Result<Nodes> {
        let mut own = Nodes::new();
        let last = |own: &Nodes| own.last().map(|node| vec![*node]);
        match step {
            Step::Nothing => {}
            Step::Launch(prepared) => {
                let scratch = scratch.filter(|_| prepared.scratch_bytes > 0);
                for pass in 0..prepared.passes() {
                    let before = last(&own).unwrap_or_else(|| after.to_vec());
                    let (api, graph) = (self.context.api, self.graph.raw);
                    let mut node = RawGraphNode(std::ptr::null_mut());
                    let code = prepared.with_node(pass, scratch, |params| {
                        // SAFETY: nodes of this graph; the driver copies the arguments.
                        unsafe {
                            (api.graph_add_kernel)(
                                &raw mut node,
                                graph,
                                before.as_ptr(),
                                before.len(),
                                params,
                            )
                        }
                    })?;
                    self.context.check("cuGraphAddKernelNode", code)?;
                    own.push(node);
                }
            }
            Step::Product(call) => {
                let scratch = scratch.unwrap_or(0);
                // SAFETY: the callers of the launch vouch for the operands; the scratch memory is the node's own.
                own.push(self.child(after, |stream| unsafe { call.queue(stream, scratch) })?);
            }
            Step::Copy(to, from, size, _) => own = self.copy(*to, *from, *size, after)?,
            Step::HostCopy(way, (memory, pitch), end, (width, rows)) => {
                let slot = Pinned::new(self.context, (width * rows) as usize)?;
                let here = End(slot.device(), *width);
                let copy = Box::new(HostCopy {
                    way: *way,
                    slot: slot.at(0),
                    host: *memory,
                    pitch: *pitch as usize,
                    width: *width as usize,
                    rows: *rows as usize,
                });
                match way {
                    Way::ToDevice => {
                        own.push(self.host(&copy, after)?);
                        own.extend(self.copy(*end, here, (*width, *rows), &own)?);
                    }
                    Way::ToHost => {
                        own = self.copy(here, *end, (*width, *rows), after)?;
                        own.push(self.host(&copy, last(&own).as_deref().unwrap_or(after))?);
                    }
                }
                self.staging.push(slot);
                self.host_copies.push(copy);
            }
            Step::Peer(to, from, size) => own.push(self.peer(to, from, *size, after)?),
            Step::Fill(at, count, 8, pattern) => {
                // Columns of four bytes in rows of eight.
                for half in 0..2 {
                    let before = last(&own).unwrap_or_else(|| after.to_vec());
                    let word = (pattern >> (32 * half)) as u32;
                    own.push(self.set((*at + 4 * half, 8), (word, 4), (1, *count), &before)?);
                }
            }
            Step::Fill(at, count, bytes, pattern) => {
                let value = (pattern & (u64::MAX >> (64 - 8 * bytes))) as u32;
                own.push(self.set((*at, 0), (value, *bytes), (*count, 1), after)?);
            }
        }
        Ok(own)
    }

    /// One node, or one a row, each after the one before, where rows lie further apart than the driver takes.
    fn copy(&self, to: End, from: End, (width, rows): (u64, u64), after: &[RawGraphNode]) -> Result<Nodes> {
        let (width, rows) = joined(width, rows, to.1, from.1);
        if rows > 1 && to.1.max(from.1) <= self.max_pitch {
            return Ok(Nodes::from_slice(&[self.rows(to, from, (width, rows), after)?]));
        }
        let mut own = Nodes::new();
        for row in 0..rows {
            let (at, source) = (End(to.0 + row * to.1, 0), End(from.0 + row * from.1, 0));
            let before = own.last().map_or(after, std::slice::from_ref);
            let node = self.rows(at, source, (width, 1), before)?;
            own.push(node);
        }
        Ok(own)
    }

    /// A copy that is one node of the driver's; a single row has no pitches.
    fn rows(
        &self,
        to: End,
        from: End,
        (width, rows): (u64, u64),
        after: &[RawGraphNode],
    ) -> Result<RawGraphNode> {
        let params = CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            srcHost: std::ptr::null(),
            srcDevice: from.0,
            srcArray: std::ptr::null_mut(),
            reserved0: std::ptr::null_mut(),
            srcPitch: from.1 as usize,
            srcHeight: rows as usize,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            dstHost: std::ptr::null_mut(),
            dstDevice: to.0,
            dstArray: std::ptr::null_mut(),
            reserved1: std::ptr::null_mut(),
            dstPitch: to.1 as usize,
            dstHeight: rows as usize,
            WidthInBytes: width as usize,
            Height: rows as usize,
            Depth: 1,
        };
        self.node("cuGraphAddMemcpyNode", |node, context| {
            // SAFETY: nodes of this graph, and parameters that the driver copies.
            unsafe {
                let (before, count) = (after.as_ptr(), after.len());
                (self.context.api.graph_add_copy)(
                    node,
                    self.graph.raw,
                    before,
                    count,
                    &raw const params,
                    context,
                )
            }
        })
    }

    fn set(
        &self,
        (at, pitch): (DevicePtr, usize),
        (value, bytes): (u32, u32),
        (width, height): (u64, u64),
        after: &[RawGraphNode],
    ) -> Result<RawGraphNode> {
        let params = CUDA_MEMSET_NODE_PARAMS {
            dst: at,
            pitch,
            value,
            elementSize: bytes,
            width: width as usize,
            height: height as usize,
        };
        self.node("cuGraphAddMemsetNode", |node, context| {
            // SAFETY: as above.
            unsafe {
                let (before, count) = (after.as_ptr(), after.len());
                (self.context.api.graph_add_set)(
                    node,
                    self.graph.raw,
                    before,
                    count,
                    &raw const params,
                    context,
                )
            }
        })
    }

    fn host(&self, copy: &HostCopy, after: &[RawGraphNode]) -> Result<RawGraphNode> {
        let params = HostNode {
            function: carry,
            data: std::ptr::from_ref(copy).cast_mut().cast(),
        };
        self.node("cuGraphAddHostNode", |node, _| {
            // SAFETY: the copy lives as long as the executable graph.
            unsafe {
                let (before, count) = (after.as_ptr(), after.len());
                (self.context.api.graph_add_host)(node, self.graph.raw, before, count, &raw const params)
            }
        })
    }

    /// A copy between devices, captured from a stream: the parameters of copy nodes know one context.
    fn peer(
        &self,
        to: &(End, Arc<Context>),
        from: &(End, Arc<Context>),
        (width, rows): (u64, u64),
        after: &[RawGraphNode],
    ) -> Result<RawGraphNode> {
        self.child(after, |stream| {
            for row in 0..rows {
                // SAFETY: the callers of the launch vouch for both ends.
                let code = unsafe {
                    (self.context.api.copy_peer_async)(
                        to.0.0 + row * to.0.1,
                        to.1.raw,
                        from.0.0 + row * from.0.1,
                        from.1.raw,
                        width as usize,
                        stream,
                    )
                };
                self.context.check("cuMemcpyPeerAsync", code)?;
            }
            Ok(())
        })
    }

    /// What `queue` queues, as one node.
    fn child(
        &self,
        after: &[RawGraphNode],
        queue: impl FnOnce(RawStream) -> Result<()>,
    ) -> Result<RawGraphNode> {
        let child = self.captured(queue)?;
        self.node("cuGraphAddChildGraphNode", |node, _| {
            // SAFETY: nodes of this graph; the driver clones the child.
            unsafe {
                let (before, count) = (after.as_ptr(), after.len());
                (self.context.api.graph_add_child)(node, self.graph.raw, before, count, child.raw)
            }
        })
    }

    /// What `queue` queues, as a graph.
    fn captured(&self, queue: impl FnOnce(RawStream) -> Result<()>) -> Result<Plain> {
        let (api, mut stream) = (self.context.api, RawStream(std::ptr::null_mut()));
        let mut raw = RawGraph(std::ptr::null_mut());
        // SAFETY: a stream of our own, destroyed whatever happens.
        let (queued, code) = unsafe {
            let code = (api.stream_create)(&raw mut stream, 1, 0);
            self.context.check("cuStreamCreateWithPriority", code)?;
            let code = (api.begin_capture)(stream, RELAXED);
            let queued = self
                .context
                .check("cuStreamBeginCapture", code)
                .and_then(|()| queue(stream));
            let code = (api.end_capture)(stream, &raw mut raw);
            (api.stream_destroy)(stream);
            (queued, code)
        };
        // There is a graph whether or not all of it was queued.
        let graph = (!raw.0.is_null()).then(|| Plain {
            raw,
            context: Arc::clone(self.context),
        });
        queued?;
        self.context.check("cuStreamEndCapture", code)?;
        graph.ok_or_else(|| Error::internal("cuStreamEndCapture returned no graph and no error"))
    }

    fn node(
        &self,
        call: &str,
        add: impl FnOnce(*mut RawGraphNode, RawContext) -> u32,
    ) -> Result<RawGraphNode> {
        let mut node = RawGraphNode(std::ptr::null_mut());
        let code = add(&raw mut node, self.context.raw);
        self.context.check(call, code).map(|()| node)
    }
}
