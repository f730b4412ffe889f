//! Simpler kernels: a node in the place of one that is computed from it.

use super::trial::Trial;
use std::error::Error;
use thalweg::hal::ir::{Kernel, Node};
use thalweg_layers::captured::{Call, File, Source};

/// Kernels with fewer nodes.
pub(super) fn simpler(mut file: File, trial: &mut Trial<'_>) -> Result<File, Box<dyn Error>> {
    for at in 0..file.records.len() {
        let Some(mut kernel) = kernel_at(&file, at) else {
            continue;
        };
        let mut node = kernel.nodes.len();
        // From the last on: what a node that is gone was computed from goes with it.
        while let Some(earlier) = node.checked_sub(1) {
            node = earlier;
            if trial.is_over() {
                return Ok(file);
            }
            for smaller in without(&kernel, node) {
                let mut changed = file.clone();
                if let Call::Compile(compiled) = &mut changed.records[at].call {
                    compiled.source = Source::Kernel(smaller.to_text());
                }
                if trial.holds(&changed)? {
                    (file, kernel) = (changed, smaller);
                    node = node.min(kernel.nodes.len());
                    break;
                }
            }
        }
    }
    Ok(file)
}

fn kernel_at(file: &File, at: usize) -> Option<Kernel> {
    match &file.records[at].call.kernel()?.source {
        Source::Kernel(text) => Kernel::parse(text).ok(),
        Source::Library { .. } => None,
    }
}

/// Sound kernels with an argument of a node in its place.
fn without(kernel: &Kernel, node: usize) -> Vec<Kernel> {
    let Some(gone) = kernel.nodes.get(node) else {
        return Vec::new();
    };
    if matches!(gone, Node::Store { .. }) {
        return Vec::new();
    }
    let replaced = gone.args().filter_map(|argument| {
        let mut smaller = kernel.clone();
        for later in &mut smaller.nodes[node + 1..] {
            *later = later.map_args(|id| if id.index() == node { argument } else { id });
        }
        let smaller = smaller.without_unused();
        (smaller.nodes.len() < kernel.nodes.len() && smaller.verify().is_ok()).then_some(smaller)
    });
    replaced.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_goes_with_what_only_it_needs() {
        let text = "kernel k outer=1 inner=0\np0 in f32 row contiguous\np1 in f32 row contiguous\np2 out f32 row contiguous\n\
                    n0 = load p0\nn1 = load p1\nn2 = exp n1\nn3 = mul n0 n2\nn4 = store p2 n3\n";
        let kernel = Kernel::parse(text).unwrap();
        let smaller = without(&kernel, 3);
        assert_eq!(smaller.len(), 2);
        assert!(
            smaller[0].to_text().ends_with("n0 = load p0\nn1 = store p2 n0\n"),
            "{}",
            smaller[0].to_text()
        );
        assert!(
            smaller[1]
                .to_text()
                .ends_with("n0 = load p1\nn1 = exp n0\nn2 = store p2 n1\n")
        );
        // A store is what a kernel is for.
        assert!(without(&kernel, 4).is_empty());
    }

    #[test]
    fn kernels_that_break_a_rule_are_no_candidates() {
        let text = "kernel k outer=1 inner=0\np0 in i32 row contiguous\np1 out f32 row contiguous\n\
                    n0 = load p0\nn1 = cast f32 n0\nn2 = store p1 n1\n";
        assert!(without(&Kernel::parse(text).unwrap(), 1).is_empty());
    }
}
