//! Graphs of steps in the form that TensorBoard draws.

use std::collections::HashMap;
use thalweg::graph::{self, Op};
use thalweg_summary::{Graph, Node};

/// The nodes of a graph under the names that its calls have in profiles. `inputs` names its inputs; others are captured tensors.
pub(crate) fn drawn(graph: &graph::Graph, inputs: &[String], device: &str) -> Graph {
    let mut names = Names::default();
    let mut nodes: Vec<Node> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let op = node.op.name();
        let name = match &node.op {
            Op::Input(number) => match inputs.get(*number as usize) {
                Some(name) => names.unique(name, op),
                None => names.unique("Default/captured", op),
            },
            _ => names.unique(&of_call(&node.name(), op), op),
        };
        let mut attributes = vec![("dtype".to_owned(), node.ty.dtype.to_string())];
        if let Some(place) = node.tag.location() {
            attributes.push(("place".to_owned(), format!("{}:{}", place.file(), place.line())));
        }
        nodes.push(Node {
            name,
            op: op.to_owned(),
            inputs: (node.inputs.iter())
                .filter_map(|input| nodes.get(input.index()).map(|node| node.name.clone()))
                .collect(),
            device: device.to_owned(),
            shape: node.ty.shape.iter().map(|&extent| extent as u64).collect(),
            attributes,
        });
    }
    Graph { nodes }
}

/// The name of a call, in the scope of all code where it has none.
fn of_call(call: &str, op: &str) -> String {
    match call {
        "" => format!("Default/{op}"),
        call if call.contains('/') => call.to_owned(),
        call => format!("Default/{call}"),
    }
}

/// Where a parameter by this path stands among the ops of its layer.
pub(crate) fn of_parameter(path: &str) -> String {
    format!("Default/{}", path.replace('.', "/"))
}

/// Names, each given once: the first node of a call has the call's, later ones a number behind it.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn unique(&mut self, name: &str, op: &str) -> String {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
        let name: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
        loop {
            let count = self.0.entry(name.clone()).or_default();
            *count += 1;
            let own = match *count {
                1 => return name,
                count => format!("{name}.{op}-{count}"),
            };
            if let std::collections::hash_map::Entry::Vacant(free) = self.0.entry(own.clone()) {
                free.insert(1);
                return own;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn each_name_is_given_once() {
        let mut names = Names::default();
        let given = ["a b", "a_b", "x", "a_b.exp-4", "a_b", "a_b"].map(|name| names.unique(name, "exp"));
        assert_eq!(
            given,
            ["a_b", "a_b.exp-2", "x", "a_b.exp-4", "a_b.exp-3", "a_b.exp-5"]
        );
    }
}
