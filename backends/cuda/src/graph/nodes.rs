//! Whose work the driver's nodes of a graph are, for records that name the node.
//!
//! The driver copies nodes: those of a product into its graph, and all of them when a graph becomes executable. CUPTI tells of
//! each node that is made or copied, on the thread that does it. Records name the last copy.

use crate::api::cupti::Cupti;
use crate::api::driver::RawGraphNode;
use crate::device::CudaDevice;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_hal::kit::profile::Command;
use thalweg_hal::kit::program::{Node, Program};

/// What a node of the driver's does, as records say it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) packet: u32,
    pub(crate) kernel: u64,
    pub(crate) command: Command,
    pub(crate) row: u32,
}

/// What nodes do, by CUPTI's numbers of them.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    of: HashMap<u64, Part>,
    // A record named a node that is none of these.
    missed: AtomicBool,
}

impl Parts {
    /// What a node does.
    pub(crate) fn find(&self, number: u64) -> Option<&Part> {
        let part = self.of.get(&number);
        if part.is_none() {
            self.missed.store(true, Ordering::Relaxed);
        }
        part
    }

    /// Whether records named nodes of these alone so far.
    pub(super) fn are_all(&self) -> bool {
        !self.missed.load(Ordering::Relaxed)
    }
}

/// A node of the program, and which of the driver's nodes for it.
type Place = (usize, u32);

#[derive(Default)]
struct Noted {
    node: usize,
    count: u32,
    places: HashMap<u64, Place>,
    executable: bool,
    // Places of nodes of the executable graph.
    last: BTreeSet<Place>,
}

thread_local! {
    // The nodes of the graph that this thread builds.
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Notes a node that was made, as a copy of `original` or anew.
pub(crate) fn noted(api: &Cupti, node: RawGraphNode, original: Option<RawGraphNode>) {
    let note = |noted: &mut Noted| {
        let place = match original {
            Some(original) => *noted.places.get(&api.number(original)?)?,
            None => {
                noted.count += 1;
                (noted.node, noted.count)
            }
        };
        noted.places.insert(api.number(node)?, place);
        if noted.executable {
            noted.last.insert(place);
        }
        Some(())
    };
    // A thread that ends builds nothing.
    let _ = NOTED.try_with(|own| own.borrow_mut().as_mut().and_then(note));
}

/// While it lives, nodes that this thread makes are noted.
pub(super) struct Watch(());

impl Watch {
    /// Begins to note nodes.
    pub(super) fn new() -> Watch {
        NOTED.set(Some(Noted::default()));
        Watch(())
    }

    /// What is made from now on is for a node of the program.
    pub(super) fn node(&self, index: usize) {
        NOTED.with_borrow_mut(|own| {
            if let Some(noted) = own {
                noted.node = index;
            }
        });
    }

    /// What is made from now on belongs to the executable graph.
    pub(super) fn executable(&self) {
        NOTED.with_borrow_mut(|own| {
            if let Some(noted) = own {
                noted.executable = true;
            }
        });
    }

    /// What the nodes do; `None` where CUPTI did not tell of all of them.
    pub(super) fn parts(self, program: &Program<CudaDevice>) -> Option<Parts> {
        parts(&NOTED.take()?, &program.nodes)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        NOTED.set(None);
    }
}

fn parts(noted: &Noted, nodes: &[Node<CudaDevice>]) -> Option<Parts> {
    let dependencies: Vec<&[u32]> = nodes.iter().map(|node| &*node.dependencies).collect();
    let rows = rows(&dependencies);
    let part = |&(index, count): &Place| {
        let node = nodes.get(index)?;
        let own = noted.last.range((index, 0)..(index + 1, 0));
        let nth = own.clone().position(|&(_, other)| other == count);
        // Attempts that failed leave nodes that became no part of the graph.
        if nth.is_none() && own.count() > 0 {
            return Some(None);
        }
        Some(Some(Part {
            packet: node.packet,
            kernel: node.kernel,
            command: Command::of_node(node).nth(nth? as u32),
            row: rows[index],
        }))
    };
    let mut all = HashMap::new();
    for (&number, place) in &noted.places {
        if let Some(part) = part(place)? {
            all.insert(number, part);
        }
    }
    (!all.is_empty()).then(|| Parts {
        of: all,
        missed: AtomicBool::new(false),
    })
}

/// A row for each node: nodes of one row wait for each other, so that they never overlap.
fn rows(dependencies: &[&[u32]]) -> Vec<u32> {
    let words = dependencies.len().div_ceil(64);
    // Of each node a bit for each that it waits for, be it through others.
    let mut before: Vec<Vec<u64>> = Vec::with_capacity(dependencies.len());
    let (mut rows, mut last) = (Vec::with_capacity(dependencies.len()), Vec::<usize>::new());
    for (index, own) in dependencies.iter().enumerate() {
        let mut bits = vec![0_u64; words];
        for &earlier in *own {
            let earlier = earlier as usize;
            bits[earlier / 64] |= 1 << (earlier % 64);
            for (word, other) in bits.iter_mut().zip(&before[earlier]) {
                *word |= other;
            }
        }
        let row = last.iter().position(|&node| bits[node / 64] >> (node % 64) & 1 == 1);
        let row = row.unwrap_or_else(|| {
            last.push(index);
            last.len() - 1
        });
        last[row] = index;
        rows.push(row as u32);
        before.push(bits);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn nodes_of_a_row_wait_for_each_other() {
        assert_eq!(rows(&[]), []);
        // A chain, and two chains beside each other.
        assert_eq!(rows(&[&[], &[0], &[1]]), [0, 0, 0]);
        assert_eq!(rows(&[&[], &[], &[0], &[1]]), [0, 1, 0, 1]);
        // Forks that are joined again take the rows of those before them.
        let forks: &[&[u32]] = &[&[], &[0], &[0], &[1, 2], &[3], &[3], &[3], &[4, 5, 6]];
        assert_eq!(rows(forks), [0, 0, 1, 0, 0, 1, 2, 0]);
    }
}
