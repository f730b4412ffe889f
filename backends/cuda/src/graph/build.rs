//! From nodes to a graph of the driver.

use super::executable::{Added, Executable, Kind, Plain, RawNodes};
use super::nodes::Watch;
use super::scratch;
use super::step::{Set, Step};
use crate::api::driver::{DevicePtr, RawContext, RawGraphExec, RawGraphNode};
use crate::context::Context;
use crate::copy::{End, joined};
use crate::device::CudaDevice;
use crate::launch;
use cudarc::driver::sys::{CUDA_MEMCPY3D, CUmemorytype};
use std::sync::Arc;
use thalweg_hal::Result;

/// A graph under construction.
struct Draft<'a> {
    context: &'a Arc<Context>,
    max_pitch: u64,
    graph: Plain,
}

/// Builds and instantiates steps with the earlier ones that each waits for. Their scratch memory is `scratch`, which the
/// launches vouch for. `watch` hears whose nodes are made. The context is current.
pub(super) fn executable(
    device: &CudaDevice,
    nodes: &[(&Step, &[u32])],
    scratch: impl FnOnce(u64) -> Result<DevicePtr>,
    watch: Option<&Watch>,
) -> Result<Executable> {
    let context = &device.context;
    let sizes: Vec<u64> = nodes.iter().map(|(step, _)| step.scratch_bytes()).collect();
    let dependencies: Vec<&[u32]> = nodes.iter().map(|(_, dependencies)| *dependencies).collect();
    let places = scratch::place(&sizes, &dependencies);
    let scratch = match places.bytes {
        0 => 0,
        bytes => scratch(bytes)?,
    };
    let mut draft = Draft {
        context,
        max_pitch: device.info.max_pitch,
        graph: Plain::new(context)?,
    };
    let mut added = Vec::with_capacity(nodes.len());
    // The nodes after which each node is done.
    let mut ends: Vec<RawNodes> = Vec::with_capacity(nodes.len());
    for (index, (step, dependencies)) in nodes.iter().enumerate() {
        let mut after = RawNodes::new();
        for &earlier in dependencies.iter().chain(&places.waits[index]) {
            for end in &ends[earlier as usize] {
                if !after.contains(end) {
                    after.push(*end);
                }
            }
        }
        let start = places.starts[index];
        if let Some(watch) = watch {
            watch.node(index);
        }
        let raw = draft.add(step, &after, scratch + start)?;
        ends.push(match raw.last() {
            Some(last) => RawNodes::from_slice(&[*last]),
            None => after,
        });
        added.push(Added {
            kind: Kind::of(step),
            raw,
            start,
            scratch_bytes: sizes[index],
        });
    }
    if let Some(watch) = watch {
        watch.executable();
    }
    let mut exec = RawGraphExec(std::ptr::null_mut());
    // SAFETY: plain call.
    let code = unsafe { (context.api.graph_instantiate)(&raw mut exec, draft.graph.raw, 0) };
    context.check("cuGraphInstantiateWithFlags", code)?;
    Ok(Executable {
        raw: exec,
        nodes: added,
        scratch_bytes: places.bytes,
        scratch,
        parts: None,
        _plain: draft.graph,
        context: Arc::clone(context),
    })
}

impl Draft<'_> {
    /// The driver's nodes of a step, each after the one before.
    fn add(&mut self, step: &Step, after: &[RawGraphNode], scratch: DevicePtr) -> Result<RawNodes> {
        let mut own = RawNodes::new();
        let last = |own: &RawNodes| own.last().map(|node| vec![*node]);
        match step {
            Step::Nothing => {}
            Step::Launch(prepared) => {
                for pass in 0..prepared.plan.passes.len() {
                    let before = last(&own).unwrap_or_else(|| after.to_vec());
                    let (api, graph) = (self.context.api, self.graph.raw);
                    let mut node = RawGraphNode(std::ptr::null_mut());
                    let code = launch::with_node(prepared, pass, scratch, |params| {
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
                // SAFETY: the callers of the launch vouch for the operands; the scratch memory is the node's own.
                let child = unsafe { Plain::of_product(self.context, call, scratch)? };
                own.push(self.child(after, &child)?);
            }
            Step::Copy(to, from, size) => own = self.copy(*to, *from, *size, after)?,
            Step::Fill(set) => own.push(self.set(set, after)?),
        }
        Ok(own)
    }

    /// One node, or one a row, each after the one before, where rows lie further apart than the driver takes.
    fn copy(
        &self,
        to: End,
        from: End,
        (width, rows): (u64, u64),
        after: &[RawGraphNode],
    ) -> Result<RawNodes> {
        let (width, rows) = joined(width, rows, to.1, from.1);
        if rows > 1 && to.1.max(from.1) <= self.max_pitch {
            return Ok(RawNodes::from_slice(&[self.rows(
                to,
                from,
                (width, rows),
                after,
            )?]));
        }
        let mut own = RawNodes::new();
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

    fn set(&self, set: &Set, after: &[RawGraphNode]) -> Result<RawGraphNode> {
        let params = set.params();
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

    /// A graph as one node.
    fn child(&self, after: &[RawGraphNode], child: &Plain) -> Result<RawGraphNode> {
        self.node("cuGraphAddChildGraphNode", |node, _| {
            // SAFETY: nodes of this graph; the driver clones the child.
            unsafe {
                let (before, count) = (after.as_ptr(), after.len());
                (self.context.api.graph_add_child)(node, self.graph.raw, before, count, child.raw)
            }
        })
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
