//! Programs: work over slots of memory that each run is given.

use super::profile::Submission;
use crate::backend::{Bound, Copy, Device, Fill, Launch, OwnedTag, Place, Region, Tag, Work};
use crate::status::{Error, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// One buffer argument of a launch.
pub struct Operand {
    /// Number of the slot that it lies in.
    pub slot: usize,
    /// Byte of the slot where the element at index 0 lies.
    pub offset: u64,
    /// As [`Bound::strides`].
    pub strides: Box<[i64]>,
    /// As [`Bound::gather_stride`].
    pub gather_stride: i64,
    /// As [`Bound::gather_extent`].
    pub gather_extent: u64,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Number of the slot.
    pub slot: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
}

/// What a node does.
pub enum Step<D: Device> {
    /// Runs a kernel.
    Launch {
        /// What to run.
        kernel: Arc<D::Kernel>,
        /// Outer extents, then inner ones.
        extents: Box<[u64]>,
        /// One for each parameter.
        operands: Box<[Operand]>,
        /// Bits of the scalar arguments.
        scalars: Box<[u64]>,
        /// Scalars whose bits are an argument of the run: which scalar, which argument.
        given: Box<[(usize, usize)]>,
    },
    /// Copies rows from slot to slot; both numbers are at least 1, and the ends do not overlap.
    Copy {
        /// Destination.
        dst: End,
        /// Source.
        src: End,
        /// Bytes of a row.
        width: u64,
        /// Number of rows.
        rows: u64,
    },
    /// Fills a range of a slot.
    Fill {
        /// Number of the slot.
        slot: usize,
        /// First byte.
        offset: u64,
        /// How many bytes.
        bytes: u64,
        /// As [`Fill::pattern`].
        pattern: [u8; 8],
        /// As [`Fill::pattern_bytes`].
        pattern_bytes: u32,
    },
}

/// A piece of a program's work.
pub struct Node<D: Device> {
    /// What it does.
    pub step: Step<D>,
    /// Where it comes from.
    pub tag: OwnedTag,
    /// Earlier nodes that must be done first. What those need is not repeated.
    pub dependencies: Box<[u32]>,
    /// Index of the packet that it was made from.
    pub packet: u32,
    /// Handle of the kernel, for records; 0 where there is none.
    pub kernel: u64,
}

/// Another form of a constant input, which a backend makes once and reads in every run: packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The node that reads it.
    pub node: u32,
    /// Number of the input.
    pub input: usize,
    /// Bytes of the form.
    pub bytes: u64,
    /// Forms of one place with equal keys have equal bytes, and are shared by the programs of a device.
    pub key: Box<[u64]>,
}

/// Work over slots; its order keeps every dependency. What it reaches in each slot was checked.
pub struct Program<D: Device> {
    /// The work.
    pub nodes: Box<[Node<D>]>,
    /// What [`Device::forms`] asked for.
    pub forms: Box<[Form]>,
    /// Number of the slot of the first form.
    pub forms_at: usize,
    /// For each form what is passed once its bytes are there, by whoever comes first. Set by the first run; empty where there is
    /// no memory for the forms, which then have no slots.
    pub made: OnceLock<Box<[Arc<OnceLock<()>>]>>,
    /// Room for what the backend works out once, such as what a run costs.
    pub plan: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Bytes of a slot that a node reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Number of the slot.
    pub slot: usize,
    /// First byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
    /// Whether they are written.
    pub written: bool,
}

/// For what each node touches, the earlier nodes that it must wait for: those that wrote what it touches, and those that read
/// what it writes.
pub fn dependencies(touches: &[Vec<Touch>]) -> Vec<Box<[u32]>> {
    // By slot: what was touched and not wholly written over since.
    let mut live: HashMap<usize, Vec<(Touch, u32)>> = HashMap::new();
    let mut all = Vec::with_capacity(touches.len());
    for (node, own) in (0..).zip(touches) {
        let mut before = Vec::new();
        for touch in own {
            for (other, earlier) in live.get(&touch.slot).into_iter().flatten() {
                let meets = touch.start < other.end && other.start < touch.end;
                if meets && (touch.written || other.written) {
                    before.push(*earlier);
                }
            }
        }
        before.sort_unstable();
        before.dedup();
        all.push(before.into());
        for touch in own {
            let slot = live.entry(touch.slot).or_default();
            if touch.written {
                // Who meets one of these later meets this node too, which waits for them.
                slot.retain(|(other, _)| other.start < touch.start || touch.end < other.end);
            }
        }
        for &touch in own {
            live.entry(touch.slot).or_default().push((touch, node));
        }
    }
    all
}

/// The scalars of a launch of a run, where they stand in one place: all are its own, or all are the run's, in order.
#[inline]
pub fn plain_scalars<'a>(
    fixed: &'a [u64],
    given: &[(usize, usize)],
    arguments: &'a [u64],
) -> Option<&'a [u64]> {
    let Some(&(_, first)) = given.first() else {
        return Some(fixed);
    };
    let in_order =
        given.len() == fixed.len() && (0..).zip(given).all(|(at, &place)| place == (at, first + at));
    in_order.then(|| &arguments[first..][..given.len()])
}

/// The scalars of a launch of a run.
pub fn scalars<'a>(
    fixed: &'a [u64],
    given: &[(usize, usize)],
    arguments: &'a [u64],
    place: &'a mut SmallVec<[u64; 4]>,
) -> &'a [u64] {
    if let Some(scalars) = plain_scalars(fixed, given, arguments) {
        return scalars;
    }
    place.clear();
    place.extend_from_slice(fixed);
    for &(scalar, argument) in given {
        place[scalar] = arguments[argument];
    }
    place
}

impl<D: Device> Step<D> {
    /// Work as a step with a slot of its own for each parameter of a launch, destination and source of a copy, or the region of a
    /// fill.
    ///
    /// # Errors
    /// A callback, which runs once.
    pub fn of(work: &Work<'_, D>) -> Result<Step<D>> {
        let end = |slot, pitch| End {
            slot,
            offset: 0,
            pitch,
        };
        Ok(match work {
            Work::Launch(launch) => Step::Launch {
                kernel: Arc::clone(launch.kernel),
                extents: launch.extents.into(),
                operands: (launch.bindings.iter().enumerate())
                    .map(|(slot, bound)| Operand {
                        slot,
                        offset: 0,
                        strides: bound.strides.into(),
                        gather_stride: bound.gather_stride,
                        gather_extent: bound.gather_extent,
                    })
                    .collect(),
                scalars: launch.scalars.into(),
                given: Box::default(),
            },
            Work::Copy(copy) => Step::Copy {
                dst: end(0, copy.dst.1),
                src: end(1, copy.src.1),
                width: copy.width,
                rows: copy.rows,
            },
            Work::Fill(fill) => Step::Fill {
                slot: 0,
                offset: 0,
                bytes: fill.region.bytes,
                pattern: fill.pattern,
                pattern_bytes: fill.pattern_bytes,
            },
            Work::Callback(_) => return Err(Error::unsupported("a callback runs once and cannot be kept")),
        })
    }
}

impl<D: Device> Node<D> {
    /// The slots that it touches.
    pub fn slots(&self) -> SmallVec<[usize; 4]> {
        match &self.step {
            Step::Launch { operands, .. } => operands.iter().map(|operand| operand.slot).collect(),
            Step::Copy { dst, src, .. } => SmallVec::from_slice(&[dst.slot, src.slot]),
            Step::Fill { slot, .. } => SmallVec::from_slice(&[*slot]),
        }
    }

    /// Hands its work out for the memory of a run on `device`.
    pub fn with<R>(
        &self,
        device: &D,
        slots: &[Region<'_, D>],
        arguments: &[u64],
        run: impl FnOnce(&Work<'_, D>) -> R,
    ) -> R {
        let region = |slot: usize, offset: u64| {
            let region = slots[slot];
            Region {
                chunk: region.chunk,
                offset: region.offset.wrapping_add(offset),
                // What an input has before its origin is not counted.
                bytes: region.bytes.saturating_sub(offset),
            }
        };
        match &self.step {
            Step::Launch {
                kernel,
                extents,
                operands,
                scalars: fixed,
                given,
            } => {
                let mut place = SmallVec::new();
                let bindings: SmallVec<[Bound<'_, D>; 8]> = (operands.iter())
                    .map(|operand| Bound {
                        region: region(operand.slot, operand.offset),
                        strides: &operand.strides,
                        gather_stride: operand.gather_stride,
                        gather_extent: operand.gather_extent,
                    })
                    .collect();
                run(&Work::Launch(Launch {
                    kernel,
                    extents,
                    bindings: &bindings,
                    scalars: scalars(fixed, given, arguments, &mut place),
                }))
            }
            Step::Copy {
                dst,
                src,
                width,
                rows,
            } => {
                let end = |end: &End| (Place::Device(device, region(end.slot, end.offset)), end.pitch);
                run(&Work::Copy(Copy {
                    dst: end(dst),
                    src: end(src),
                    width: *width,
                    rows: *rows,
                }))
            }
            Step::Fill {
                slot,
                offset,
                bytes,
                pattern,
                pattern_bytes,
            } => run(&Work::Fill(Fill {
                region: Region {
                    bytes: *bytes,
                    ..region(*slot, *offset)
                },
                pattern: *pattern,
                pattern_bytes: *pattern_bytes,
            })),
        }
    }
}

impl<D: Device> Program<D> {
    /// Submits the nodes one by one. Where the run comes from stands in `tag`, or in each node's own.
    ///
    /// # Safety
    /// As [`Device::submit`] for every node.
    pub unsafe fn submit(
        &self,
        device: &D,
        stream: &D::Stream,
        slots: &[Region<'_, D>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
    ) -> Result<()> {
        for node in &self.nodes {
            let own = node.tag.raw();
            // SAFETY: `own` borrows from the node's tag, which lives through the call; the caller vouches for the memory.
            node.with(device, slots, arguments, |work| unsafe {
                device.submit(stream, work, tag.unwrap_or(Tag::new(Some(&own))))
            })?;
        }
        Ok(())
    }

    /// As [`Program::submit`] while a profile runs: each node is recorded.
    ///
    /// # Safety
    /// As [`Device::submit`] for every node.
    pub unsafe fn submit_profiled(
        &self,
        device: &D,
        stream: &D::Stream,
        slots: &[Region<'_, D>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        submission: &Submission,
    ) -> Result<()> {
        for node in &self.nodes {
            let (own, submission) = (node.tag.raw(), submission.of_node(node));
            // SAFETY: as in `submit`.
            node.with(device, slots, arguments, |work| unsafe {
                device.submit_profiled(stream, work, tag.unwrap_or(Tag::new(Some(&own))), &submission)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(slot: usize, start: u64, end: u64, written: bool) -> Touch {
        Touch {
            slot,
            start,
            end,
            written,
        }
    }

    #[test]
    fn scalars_are_the_launchs_own_or_the_runs() {
        let (fixed, arguments) = ([7, 8], [1, 2, 3]);
        let of = |given: &[(usize, usize)]| {
            let plain = plain_scalars(&fixed, given, &arguments).map(<[u64]>::to_vec);
            let all = scalars(&fixed, given, &arguments, &mut SmallVec::new()).to_vec();
            (plain, all)
        };
        assert_eq!(of(&[]), (Some(vec![7, 8]), vec![7, 8]));
        assert_eq!(of(&[(0, 1), (1, 2)]), (Some(vec![2, 3]), vec![2, 3]));
        // One of each kind, another order, and one argument twice.
        assert_eq!(of(&[(1, 0)]), (None, vec![7, 1]));
        assert_eq!(of(&[(0, 2), (1, 1)]), (None, vec![3, 2]));
        assert_eq!(of(&[(0, 1), (1, 1)]), (None, vec![2, 2]));
    }

    #[test]
    fn nodes_wait_for_writers_and_writers_for_readers() {
        let (read, write) = (false, true);
        let found = dependencies(&[
            vec![touch(0, 0, 8, write)],
            vec![touch(0, 0, 8, read), touch(1, 0, 8, write)],
            vec![touch(0, 4, 8, read), touch(2, 0, 8, write)],
            // Another range and another slot.
            vec![touch(0, 8, 16, write)],
            // Writes over what 1 and 2 read.
            vec![touch(0, 0, 6, write)],
            // Reads what 0 and what 4 left.
            vec![touch(0, 0, 8, read)],
            // In place.
            vec![touch(1, 0, 8, read), touch(1, 0, 8, write)],
            vec![touch(1, 0, 1, read)],
        ]);
        let found: Vec<&[u32]> = found.iter().map(|before| &**before).collect();
        assert_eq!(found, [&[][..], &[0], &[0], &[], &[0, 1, 2], &[0, 4], &[1], &[6]]);
    }

    #[test]
    fn every_order_of_dependencies_keeps_every_conflict() {
        let mut state = 3_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..50 {
            let nodes: Vec<Vec<Touch>> = (0..30)
                .map(|_| {
                    let some = (0..1 + random(3)).map(|_| {
                        let start = random(20);
                        touch(random(2) as usize, start, start + 1 + random(8), random(3) == 0)
                    });
                    some.collect()
                })
                .collect();
            let direct = dependencies(&nodes);
            // Everything that each node waits for, by way of others too.
            let mut waits = vec![0_u64; nodes.len()];
            for node in 0..nodes.len() {
                for &before in &direct[node] {
                    waits[node] |= waits[before as usize] | 1 << before;
                }
                for before in 0..node {
                    let conflict = nodes[node].iter().any(|one| {
                        nodes[before].iter().any(|other| {
                            one.slot == other.slot
                                && one.start < other.end
                                && other.start < one.end
                                && (one.written || other.written)
                        })
                    });
                    assert!(
                        !conflict || waits[node] >> before & 1 == 1,
                        "{node} after {before}: {nodes:?}"
                    );
                }
            }
        }
    }
}
