//! Forms that a run makes of operands that many of its nodes read, as those of a recurrent layer's weights while it is trained.

use crate::device::CpuDevice;
use crate::library::Scratch;
use crate::prefetch::LINE;
use crate::step::{Kept, may_write, wanted};
use std::collections::HashMap;
use std::sync::OnceLock;
use thalweg_hal::kit::program::Node;

/// Nodes from which on a form is worth its memory: what each of them packs for itself, piece by piece, stays in the nearest caches.
const LEAST: usize = 4;
/// Most bytes of all forms of a run.
const MOST: usize = 64 << 20;

/// Which forms the nodes of a program share.
#[derive(Default)]
pub(super) struct Shared {
    /// First byte of each form.
    starts: Vec<usize>,
    bytes: usize,
    /// By node: the form that it reads. Empty where there is none.
    by_node: Box<[Option<usize>]>,
}

/// Nodes that read one form.
struct Readers {
    bytes: u64,
    nodes: Vec<usize>,
}

impl Shared {
    /// Those of nodes without a form of a constant.
    pub(super) fn of(nodes: &[Node<CpuDevice>], has_form: impl Fn(usize) -> bool) -> Shared {
        // By slot and key: what has been read and not been written since.
        let mut open: HashMap<(usize, Box<[u64]>), Readers> = HashMap::new();
        let mut all = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            if let Some((operand, bytes, key)) = wanted(&node.step).filter(|_| !has_form(at)) {
                let readers = open.entry((operand.slot, key)).or_insert(Readers {
                    bytes,
                    nodes: Vec::new(),
                });
                readers.nodes.push(at);
            }
            if !open.is_empty() {
                all.extend(
                    open.extract_if(|(slot, _), _| may_write(&node.step, *slot))
                        .map(|(_, of)| of),
                );
            }
        }
        all.extend(open.into_values());
        all.retain(|readers| readers.nodes.len() >= LEAST);
        all.sort_by_key(|readers| readers.nodes[0]);
        let mut shared = Shared::default();
        let mut by_node = vec![None; nodes.len()];
        for readers in all {
            let bytes = (readers.bytes as usize).next_multiple_of(LINE);
            if bytes > MOST - shared.bytes {
                continue;
            }
            for node in readers.nodes {
                by_node[node] = Some(shared.starts.len());
            }
            shared.starts.push(shared.bytes);
            shared.bytes += bytes;
        }
        if !shared.starts.is_empty() {
            shared.by_node = by_node.into();
        }
        shared
    }

    /// Room for the forms of a run, if there are any.
    pub(super) fn begin(&self) -> Option<RunForms> {
        (!self.starts.is_empty()).then(|| RunForms {
            memory: Scratch::take(self.bytes),
            made: self.starts.iter().map(|_| OnceLock::new()).collect(),
        })
    }
}

/// The forms of a run.
pub(super) struct RunForms {
    memory: Scratch,
    made: Vec<OnceLock<()>>,
}

impl RunForms {
    /// The form that a node reads.
    pub(super) fn kept(&self, shared: &Shared, node: usize) -> Option<Kept<'_>> {
        let form = (*shared.by_node.get(node)?)?;
        let start = self.memory.start().wrapping_add(*shared.starts.get(form)?);
        Some((start, self.made.get(form)?))
    }
}

// SAFETY: nodes of a run write a form once, behind its lock, and read it then.
unsafe impl Sync for RunForms {}
