//! Which node is computed in which phase.
//!
//! A phase is one walk over the inner space. An element-level value that uses a reduction's result belongs to a later
//! phase than the reduction; an element-level value that several phases use is kept or computed again.

use super::plan::Along;
use thalweg_hal::ir::{Access, Info, Kernel, Level, Node};

/// The part of a kernel that one plan covers.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Stores of the part, by node.
    pub(super) stores: Vec<usize>,
    /// Whether the inner axes are walked like outer ones: a kernel without reductions.
    pub(super) merged: bool,
}

/// Placement of every node.
pub(crate) struct Phases {
    /// Whether the node is one value for the whole launch.
    pub(crate) uniform: Vec<bool>,
    /// Whether the node changes along the inner space.
    pub(crate) element: Vec<bool>,
    /// Whether it changes along nothing else, and the lanes run along the outer space.
    pub(super) place: Vec<bool>,
    /// Row list that computes a row-level node.
    pub(crate) row: Vec<usize>,
    /// Whether a store depends on it.
    pub(crate) needed: Vec<bool>,
    /// Element-level nodes and stores of each phase, in order.
    pub(crate) members: Vec<Vec<usize>>,
    /// Nodes kept between phases, by node.
    pub(crate) kept: Vec<bool>,
}

/// The parts of a kernel: one, or the element-level and the row-level half of a kernel without reductions. The
/// element-level half comes first, so that row-level inputs are read before row-level outputs take their place.
pub(super) fn parts(kernel: &Kernel, info: &Info) -> Vec<Part> {
    let reduces = kernel.nodes.iter().any(|n| matches!(n, Node::Reduce { .. }));
    let stores = |level: Option<Level>| -> Vec<usize> {
        (0..kernel.nodes.len())
            .filter(|&i| matches!(kernel.nodes[i], Node::Store { .. }))
            .filter(|&i| level.is_none_or(|l| info.levels[i] == l))
            .collect()
    };
    if reduces {
        return vec![Part {
            stores: stores(None),
            merged: false,
        }];
    }
    let halves = [(Level::Element, true), (Level::Row, false)];
    halves
        .into_iter()
        .map(|(level, merged)| Part {
            stores: stores(Some(level)),
            merged,
        })
        .filter(|part| !part.stores.is_empty())
        .collect()
}

impl Phases {
    /// One walk over the inner space of a map.
    pub(crate) fn of_map(kernel: &Kernel, info: &Info) -> Phases {
        let stores = (0..kernel.nodes.len()).filter(|&i| matches!(kernel.nodes[i], Node::Store { .. }));
        let part = Part {
            stores: stores.collect(),
            merged: false,
        };
        Phases::new(kernel, info, &part, Along::Inner, true)
    }

    pub(super) fn new(kernel: &Kernel, info: &Info, part: &Part, along: Along, keep: bool) -> Phases {
        let count = kernel.nodes.len();
        let mut phases = Phases {
            uniform: vec![false; count],
            element: vec![false; count],
            place: vec![false; count],
            row: vec![0; count],
            needed: vec![false; count],
            members: Vec::new(),
            kept: vec![false; count],
        };
        phases.levels(kernel, info, part);
        if along == Along::Outer && !part.merged {
            phases.places(kernel);
        }
        phases.reach(kernel, part);
        let available = phases.available(kernel);
        phases.row = available.clone();
        let mut store_phase: Vec<usize> = part.stores.iter().map(|&s| available[s]).collect();
        loop {
            phases.fill(kernel, part, &available, &store_phase, keep);
            if !phases.delay_stores(kernel, part, &mut store_phase) {
                return phases;
            }
        }
    }

    fn levels(&mut self, kernel: &Kernel, info: &Info, part: &Part) {
        for (i, node) in kernel.nodes.iter().enumerate() {
            let uniform_args = node.args().all(|a| self.uniform[a.index()]);
            self.uniform[i] = match *node {
                Node::Const { .. } | Node::Scalar { .. } => true,
                Node::Load { param } | Node::LoadAt { param, .. } => {
                    uniform_args && kernel.params[param as usize].access == Access::Broadcast
                }
                Node::Op { .. } | Node::Cast { .. } | Node::Rand { .. } => uniform_args,
                Node::Index { .. } | Node::Reduce { .. } | Node::Store { .. } => false,
            };
            self.element[i] = info.levels[i] == Level::Element && !part.merged && !self.uniform[i];
        }
    }

    fn places(&mut self, kernel: &Kernel) {
        for (i, node) in kernel.nodes.iter().enumerate() {
            self.place[i] = match *node {
                Node::Index { axis } => self.element[i] && axis >= kernel.outer,
                Node::Op { .. } | Node::Cast { .. } => {
                    self.element[i]
                        && node
                            .args()
                            .all(|a| self.place[a.index()] || self.uniform[a.index()])
                }
                Node::Const { .. }
                | Node::Scalar { .. }
                | Node::Load { .. }
                | Node::LoadAt { .. }
                | Node::Rand { .. }
                | Node::Reduce { .. }
                | Node::Store { .. } => false,
            };
        }
    }

    fn reach(&mut self, kernel: &Kernel, part: &Part) {
        for &store in &part.stores {
            self.needed[store] = true;
        }
        for i in (0..kernel.nodes.len()).rev() {
            if self.needed[i] {
                kernel.nodes[i].args().for_each(|a| self.needed[a.index()] = true);
            }
        }
    }

    /// First phase (element level) or row list (row level) that can compute each node.
    fn available(&self, kernel: &Kernel) -> Vec<usize> {
        let mut available = vec![0; kernel.nodes.len()];
        for (i, node) in kernel.nodes.iter().enumerate() {
            let args = node.args().map(|a| available[a.index()]).max().unwrap_or(0);
            available[i] = args + usize::from(matches!(node, Node::Reduce { .. }));
        }
        available
    }

    /// Fills the phases from the reductions and stores back to the loads.
    fn fill(&mut self, kernel: &Kernel, part: &Part, available: &[usize], store_phase: &[usize], keep: bool) {
        let count = kernel.nodes.len();
        let mut roots: Vec<(usize, usize)> = Vec::new();
        for (i, node) in kernel.nodes.iter().enumerate() {
            if self.needed[i] && matches!(node, Node::Reduce { .. }) {
                roots.push((available[i] - 1, i));
            }
        }
        for (&store, &phase) in part.stores.iter().zip(store_phase) {
            if self.element[store] {
                roots.push((phase, store));
            }
        }
        let total = roots.iter().map(|&(phase, _)| phase + 1).max().unwrap_or(0);
        self.members = Vec::new();
        self.kept = vec![false; count];
        let mut seen = vec![false; count];
        for phase in 0..total {
            let mut wanted = vec![false; count];
            for &(_, root) in roots.iter().filter(|&&(p, _)| p == phase) {
                wanted[root] = true;
            }
            for i in (0..count).rev() {
                if !wanted[i] {
                    continue;
                }
                for arg in kernel.nodes[i].args().map(|a| a.index()) {
                    if !self.element[arg] {
                        continue;
                    }
                    if keep && seen[arg] && keepable(&kernel.nodes[arg]) && !self.place[arg] {
                        self.kept[arg] = true;
                    } else {
                        wanted[arg] = true;
                    }
                }
            }
            let members: Vec<usize> = (0..count).filter(|&i| wanted[i]).collect();
            for &i in &members {
                seen[i] = true;
            }
            self.members.push(members);
        }
    }

    /// Moves stores behind the last load that may read what they overwrite. Returns whether one was moved.
    fn delay_stores(&self, kernel: &Kernel, part: &Part, store_phase: &mut [usize]) -> bool {
        let mut moved = false;
        for (&store, phase) in part.stores.iter().zip(store_phase) {
            let Node::Store { param, .. } = kernel.nodes[store] else {
                continue;
            };
            if !self.element[store] {
                continue;
            }
            let out = kernel.params[param as usize];
            let reads = |i: usize| match kernel.nodes[i] {
                Node::Load { param } => {
                    let p = kernel.params[param as usize];
                    p.dtype == out.dtype && p.level == out.level
                }
                _ => false,
            };
            let last = self.members.iter().rposition(|m| m.iter().any(|&i| reads(i)));
            if let Some(last) = last.filter(|&last| last > *phase) {
                *phase = last;
                moved = true;
            }
        }
        moved
    }
}

/// Whether keeping beats computing again: loads mostly cost nothing.
fn keepable(node: &Node) -> bool {
    match node {
        Node::Op { .. } | Node::Cast { .. } | Node::Rand { .. } | Node::LoadAt { .. } => true,
        Node::Const { .. }
        | Node::Scalar { .. }
        | Node::Load { .. }
        | Node::Index { .. }
        | Node::Reduce { .. }
        | Node::Store { .. } => false,
    }
}
