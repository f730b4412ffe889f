//! Graphs for devices that have none: the nodes' work, submitted in order.

use crate::backend::{Bound, Copy, Device, Fill, GraphNode, Launch, OwnedTag, Place, Region, Tag, Work};
use crate::status::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

struct Memory<D: Device> {
    chunk: *const D::Chunk,
    offset: u64,
    bytes: u64,
}

impl<D: Device> Memory<D> {
    fn of(region: &Region<'_, D>) -> Memory<D> {
        Memory {
            chunk: region.chunk,
            offset: region.offset,
            bytes: region.bytes,
        }
    }

    /// # Safety
    /// The chunk still lives.
    unsafe fn region(&self) -> Region<'_, D> {
        // SAFETY: the caller vouches for the chunk.
        let chunk = unsafe { &*self.chunk };
        Region {
            chunk,
            offset: self.offset,
            bytes: self.bytes,
        }
    }
}

struct Argument<D: Device> {
    memory: Memory<D>,
    strides: Vec<i64>,
    gather_stride: i64,
    gather_extent: u64,
}

enum End<D: Device> {
    Host(*mut u8),
    Device(*const D, Memory<D>),
}

impl<D: Device> End<D> {
    fn of(place: &Place<'_, D>) -> End<D> {
        match place {
            Place::Host(ptr) => End::Host(*ptr),
            Place::Device(device, region) => End::Device(*device, Memory::of(region)),
        }
    }

    /// # Safety
    /// Device and chunk still live.
    unsafe fn place(&self) -> Place<'_, D> {
        match self {
            End::Host(ptr) => Place::Host(*ptr),
            // SAFETY: the caller vouches for both.
            End::Device(device, memory) => unsafe { Place::Device(&**device, memory.region()) },
        }
    }
}

/// Work that owns its arguments but for the memory they point to.
pub struct OwnedWork<D: Device>(Owned<D>);

enum Owned<D: Device> {
    Launch {
        kernel: Arc<D::Kernel>,
        extents: Vec<u64>,
        arguments: Vec<Argument<D>>,
        scalars: Vec<u64>,
    },
    Copy {
        dst: (End<D>, u64),
        src: (End<D>, u64),
        width: u64,
        rows: u64,
    },
    Fill {
        memory: Memory<D>,
        pattern: [u8; 8],
        pattern_bytes: u32,
    },
}

// SAFETY: the pointers lead to chunks, devices and host memory, which the contract of `Device::submit` lets any thread
// use; they are followed only in `with`, whose caller vouches for them.
unsafe impl<D: Device> Send for OwnedWork<D> {}
// SAFETY: as above.
unsafe impl<D: Device> Sync for OwnedWork<D> {}

impl<D: Device> OwnedWork<D> {
    /// Copies the arguments of `work`.
    pub fn new(work: &Work<'_, D>) -> Result<OwnedWork<D>> {
        Ok(OwnedWork(match work {
            Work::Launch(launch) => Owned::Launch {
                kernel: Arc::clone(launch.kernel),
                extents: launch.extents.to_vec(),
                arguments: (launch.bindings.iter())
                    .map(|b| Argument {
                        memory: Memory::of(&b.region),
                        strides: b.strides.to_vec(),
                        gather_stride: b.gather_stride,
                        gather_extent: b.gather_extent,
                    })
                    .collect(),
                scalars: launch.scalars.to_vec(),
            },
            Work::Copy(copy) => Owned::Copy {
                dst: (End::of(&copy.dst.0), copy.dst.1),
                src: (End::of(&copy.src.0), copy.src.1),
                width: copy.width,
                rows: copy.rows,
            },
            Work::Fill(fill) => Owned::Fill {
                memory: Memory::of(&fill.region),
                pattern: fill.pattern,
                pattern_bytes: fill.pattern_bytes,
            },
            Work::Callback(_) => return Err(Error::unsupported("a callback runs once and cannot be kept")),
        }))
    }

    /// Hands the work out in borrowed form.
    ///
    /// # Safety
    /// The chunks and devices that the work points to still live.
    pub unsafe fn with<R>(&self, run: impl FnOnce(&Work<'_, D>) -> R) -> R {
        match &self.0 {
            Owned::Launch {
                kernel,
                extents,
                arguments,
                scalars,
            } => {
                let bind = arguments.iter().map(|argument| Bound {
                    // SAFETY: the caller vouches for the chunks.
                    region: unsafe { argument.memory.region() },
                    strides: &argument.strides,
                    gather_stride: argument.gather_stride,
                    gather_extent: argument.gather_extent,
                });
                let bindings: Vec<Bound<'_, D>> = bind.collect();
                run(&Work::Launch(Launch {
                    kernel,
                    extents,
                    bindings: &bindings,
                    scalars,
                }))
            }
            Owned::Copy {
                dst,
                src,
                width,
                rows,
            } => {
                // SAFETY: the caller vouches for devices and chunks.
                let (to, from) = unsafe { (dst.0.place(), src.0.place()) };
                run(&Work::Copy(Copy {
                    dst: (to, dst.1),
                    src: (from, src.1),
                    width: *width,
                    rows: *rows,
                }))
            }
            Owned::Fill {
                memory,
                pattern,
                pattern_bytes,
            } => {
                // SAFETY: the caller vouches for the chunk.
                let region = unsafe { memory.region() };
                run(&Work::Fill(Fill {
                    region,
                    pattern: *pattern,
                    pattern_bytes: *pattern_bytes,
                }))
            }
        }
    }
}

type Node<D> = (Arc<OwnedWork<D>>, Arc<OwnedTag>);

/// An executable graph that submits its nodes one by one; in-order streams keep every dependency.
pub struct Replay<D: Device> {
    nodes: Mutex<Vec<Node<D>>>,
}

impl<D: Device> Replay<D> {
    /// Keeps the work of `nodes`.
    pub fn new(nodes: &[GraphNode<'_, D>]) -> Result<Replay<D>> {
        let keep = |node: &GraphNode<'_, D>| {
            Ok((
                Arc::new(OwnedWork::new(&node.work)?),
                Arc::new(node.tag.to_owned()),
            ))
        };
        Ok(Replay {
            nodes: Mutex::new(nodes.iter().map(keep).collect::<Result<_>>()?),
        })
    }

    /// Replaces the work of one node.
    pub fn update(&self, node: usize, work: &Work<'_, D>) -> Result<()> {
        let work = Arc::new(OwnedWork::new(work)?);
        let mut nodes = self.nodes.lock();
        let count = nodes.len();
        match nodes.get_mut(node) {
            Some(entry) => entry.0 = work,
            None => {
                return Err(Error::invalid_argument(format!(
                    "node {node} of a graph of {count} nodes"
                )));
            }
        }
        Ok(())
    }

    /// Submits every node.
    ///
    /// # Safety
    /// As [`Device::submit`] for every node.
    pub unsafe fn launch(&self, device: &D, stream: &D::Stream) -> Result<()> {
        let nodes = self.nodes.lock().clone();
        for (work, tag) in nodes {
            let raw = tag.raw();
            // SAFETY: the caller vouches for the memory; `raw` borrows from `tag`, which lives through the call.
            unsafe { work.with(|work| device.submit(stream, work, Tag::new(Some(&raw)))) }?;
        }
        Ok(())
    }
}
