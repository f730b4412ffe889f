//! Graphs with fewer nodes.

use super::extents;
use super::search::{Question, least};
use super::trial::{Candidate, Trial};
use crate::text::count;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;
use thalweg::graph::{Graph, NodeId, Op};
use thalweg::tensor::tag::OpTag;

/// Which values of a graph are its results.
#[derive(Clone, Copy)]
enum Shown {
    /// All: what is wrong shows where it happens.
    Every,
    /// Those that no other node takes, so that ops are joined as in the whole graph.
    Last,
}

/// Whether a graph of some nodes is still wrong.
struct Nodes<'a, 'c> {
    graph: &'a Graph,
    shown: Shown,
    trial: &'a mut Trial<'c>,
}

impl Question<NodeId> for Nodes<'_, '_> {
    fn holds(&mut self, units: &[NodeId]) -> Result<bool, Box<dyn Error>> {
        match only(self.graph, units, self.shown)? {
            Some(graph) => self.trial.holds(&graph),
            None => Ok(false),
        }
    }

    fn needed(&self, units: &[NodeId]) -> Vec<NodeId> {
        let mut wanted: HashSet<NodeId> = units.last().copied().into_iter().collect();
        let mut kept = Vec::new();
        for &id in units.iter().rev() {
            if wanted.contains(&id) {
                wanted.extend(&self.graph.node(id).inputs);
                kept.push(id);
            }
        }
        kept.reverse();
        kept
    }

    fn is_over(&self) -> bool {
        self.trial.is_over()
    }
}

/// Writes a smaller graph. How many nodes there were, and how many are left; inputs are nodes too.
pub(super) fn reduce(
    graph: Graph,
    path: &Path,
    trial: &mut Trial<'_>,
) -> Result<(String, usize), Box<dyn Error>> {
    let before = count(graph.nodes().len(), "node");
    let mut best = graph;
    loop {
        best = fewest(best, trial)?;
        // What is wrong in a loop or a branch may be wrong outside of it.
        let Some(inner) = inside(&best, trial)? else { break };
        best = inner;
    }
    best = extents::smaller(best, trial)?;
    best = fewest(best, trial)?;
    best.write_to(path)?;
    Ok((before, best.nodes().len()))
}

fn is_token(op: &Op) -> bool {
    matches!(op, Op::Control(_))
}

fn fewest(graph: Graph, trial: &mut Trial<'_>) -> Result<Graph, Box<dyn Error>> {
    let ids = (0..).map(NodeId).take(graph.nodes().len());
    let ops: Vec<NodeId> = ids
        .filter(|&id| !matches!(graph.node(id).op, Op::Input(_)))
        .collect();
    let mut best = graph;
    for shown in [Shown::Every, Shown::Last] {
        let Some(whole) = only(&best, &ops, shown)? else {
            continue;
        };
        if !trial.holds(&whole)? {
            continue;
        }
        let mut question = Nodes {
            graph: &best,
            shown,
            trial,
        };
        let kept = least(ops, &mut question)?;
        for shown in [Shown::Last, shown] {
            if let Some(smaller) = only(&best, &kept, shown)?
                && trial.holds(&smaller)?
            {
                best = smaller;
                break;
            }
        }
        break;
    }
    Ok(best)
}

/// A graph that an op of this one runs, if that is still wrong on its own.
fn inside(graph: &Graph, trial: &mut Trial<'_>) -> Result<Option<Graph>, Box<dyn Error>> {
    for body in graph.nodes().iter().flat_map(|node| node.op.bodies()) {
        let alone: Graph = Graph::clone(body);
        if trial.holds(&alone)? {
            return Ok(Some(alone));
        }
    }
    Ok(None)
}

/// The graph with these nodes alone, in whose place what they take from others is an input; `None` where it would have no result.
fn only(graph: &Graph, ids: &[NodeId], shown: Shown) -> Result<Option<Graph>, Box<dyn Error>> {
    let mut small = Graph::new();
    let mut new: HashMap<NodeId, NodeId> = HashMap::new();
    let mut kept = Vec::new();
    for &id in ids {
        let node = graph.node(id);
        // A result of a loop that is gone is an input where it is taken.
        if matches!(node.op, Op::Result { .. }) && !node.inputs.iter().all(|input| new.contains_key(input)) {
            continue;
        }
        let inputs: Vec<NodeId> = node
            .inputs
            .iter()
            .map(|&input| {
                *new.entry(input)
                    .or_insert_with(|| small.input(graph.node(input).ty))
            })
            .collect();
        let pushed = small
            .push(node.op.clone(), &inputs, OpTag::NONE)
            .map_err(|refusal| refusal.message)?;
        new.insert(id, pushed);
        kept.push(id);
    }
    let taken: HashSet<NodeId> = kept
        .iter()
        .flat_map(|&id| graph.node(id).inputs.iter().copied())
        .collect();
    let results = kept.into_iter().filter(|id| {
        let shows = match shown {
            Shown::Every => true,
            Shown::Last => !taken.contains(id) || graph.outputs().contains(id),
        };
        shows && !is_token(&graph.node(*id).op)
    });
    results.for_each(|id| small.output(new[&id]));
    Ok((!small.outputs().is_empty()).then_some(small))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Graph {
        Graph::parse(text).unwrap()
    }

    #[test]
    fn what_nodes_take_from_others_is_an_input() {
        let graph = parse(
            "graph main\n%0: f32[2] = input\n%1: f32[2] = tanh %0\n%2: f32[2] = mul %1 %0\n%3: f32[2] = neg %2\n\
             %4: f32[2] = add %2 %3\nreturn %4\n",
        );
        let text = |ids: &[u32], shown| {
            let ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
            only(&graph, &ids, shown).unwrap().map(|graph| graph.to_text())
        };
        let alone = "graph main\n%0: f32[2] = input\n%1: f32[2] = input\n%2: f32[2] = mul %0 %1\nreturn %2\n";
        assert_eq!(text(&[2], Shown::Last).unwrap(), alone);
        let two = "graph main\n%0: f32[2] = input\n%1: f32[2] = input\n%2: f32[2] = mul %0 %1\n%3: f32[2] = neg %2\nreturn";
        assert_eq!(text(&[2, 3], Shown::Last).unwrap(), format!("{two} %3\n"));
        assert_eq!(text(&[2, 3], Shown::Every).unwrap(), format!("{two} %2 %3\n"));
        assert_eq!(text(&[], Shown::Every), None);
    }

    #[test]
    fn loops_stay_with_their_results() {
        let graph = parse(
            "graph @0\n%0: f32[2] = input\n%1: f32[2] = neg %0\nreturn %1\ngraph main\n%0: f32[2] = input\n\
             %1: token = call %0 body=@0\n%2: f32[2] = result %1 index=0\n%3: f32[2] = exp %2\nreturn %3\n",
        );
        let kept = |ids: &[u32]| {
            let ids: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
            only(&graph, &ids, Shown::Every)
                .unwrap()
                .map(|graph| graph.nodes().len())
        };
        assert_eq!(kept(&[1, 2, 3]), Some(4));
        assert_eq!(kept(&[2, 3]), Some(2));
        // Nothing but a token, and nothing but a result of what is gone.
        assert_eq!((kept(&[1]), kept(&[2])), (None, None));
    }
}
