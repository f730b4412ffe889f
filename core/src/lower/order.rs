//! The order of a program's steps.

use super::Group;
use smallvec::SmallVec;
use std::collections::{BinaryHeap, HashSet};

/// An order in which each group comes after those that make what it needs; the graph's order where there is a choice.
pub(super) fn order(groups: &[Group], nodes: usize) -> Option<Vec<usize>> {
    let mut makers = vec![SmallVec::<[usize; 1]>::new(); nodes];
    for (at, group) in groups.iter().enumerate() {
        for node in &group.makes {
            makers[node.index()].push(at);
        }
    }
    let mut waiting = vec![0; groups.len()];
    let mut dependents = vec![Vec::new(); groups.len()];
    for (at, group) in groups.iter().enumerate() {
        let before: HashSet<usize> = group
            .needs
            .iter()
            .flat_map(|node| makers[node.index()].iter().copied())
            .collect();
        for made in before {
            if made != at {
                waiting[at] += 1;
                dependents[made].push(at);
            }
        }
    }
    // Groups were made from the last node to the first: the greatest index is the earliest in the graph.
    let mut ready: BinaryHeap<usize> = (0..groups.len()).filter(|&at| waiting[at] == 0).collect();
    let mut order = Vec::with_capacity(groups.len());
    while let Some(at) = ready.pop() {
        order.push(at);
        for &next in &dependents[at] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.push(next);
            }
        }
    }
    (order.len() == groups.len()).then_some(order)
}
