//! The form that Graphviz draws.

use super::text::attributes;
use super::{Body, Graph, Op};
use std::collections::HashMap;
use std::fmt::Write;

impl Graph {
    /// The graph in the language DOT: a box a node with its op, its type, and the op that the user called with its line. Loops and
    /// branches have their graphs in frames, each graph where it is named first.
    ///
    /// ```
    /// use thalweg::{Context, Tensor, jit};
    /// let cx = Context::new("cpu")?;
    /// let f = jit(|x: &Tensor| x.exp().sum());
    /// let dot = f.graph(&Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx))?.to_dot();
    /// assert!(dot.starts_with("digraph thalweg {") && dot.contains("g0n0 -> g0n1"));
    /// // `dot -Tsvg` makes a picture of it.
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn to_dot(&self) -> String {
        let mut dot = Dot {
            text: "digraph thalweg {\n  node [shape=box fontname=monospace];\n".to_owned(),
            numbers: HashMap::new(),
        };
        dot.graph(self, 0, "  ");
        dot.text.push_str("}\n");
        dot.text
    }
}

struct Dot {
    text: String,
    /// Of the graphs that are drawn, by [`Body::identity`].
    numbers: HashMap<usize, usize>,
}

impl Dot {
    /// The nodes of a graph, whose names start with `g` and its number.
    fn graph(&mut self, graph: &Graph, number: usize, indent: &str) {
        for (at, node) in graph.nodes().iter().enumerate() {
            let mut bodies: Vec<(usize, Body)> = Vec::new();
            let attributes = attributes(&node.op, &mut |body| {
                let next = self.numbers.len() + 1;
                let number = *self.numbers.entry(body.identity()).or_insert_with(|| {
                    bodies.push((next, body.clone()));
                    next
                });
                format!("g{number}")
            });
            let mut label = format!("%{at} {}{attributes}", node.op.name());
            if !matches!(node.op, Op::Control(_)) {
                let _ = write!(label, "\n{}", node.ty);
            }
            if !node.tag.op.is_empty() {
                let _ = write!(label, "\n{}", node.tag.op);
                if let Some(place) = node.tag.location() {
                    let _ = write!(label, " {}:{}", place.file(), place.line());
                }
            }
            let style = match node.op {
                Op::Input(_) => " style=filled fillcolor=lightblue",
                _ if graph.outputs().iter().any(|output| output.index() == at) => {
                    " style=filled fillcolor=lightyellow"
                }
                _ => "",
            };
            let _ = writeln!(
                self.text,
                "{indent}g{number}n{at} [label=\"{}\"{style}];",
                escaped(&label)
            );
            for (operand, input) in node.inputs.iter().enumerate() {
                let which = match node.inputs.len() {
                    1 => String::new(),
                    _ => format!(" [label={operand}]"),
                };
                let _ = writeln!(
                    self.text,
                    "{indent}g{number}n{} -> g{number}n{at}{which};",
                    input.0
                );
            }
            for (inner, body) in bodies {
                let deeper = format!("{indent}  ");
                let _ = writeln!(
                    self.text,
                    "{indent}subgraph cluster_{inner} {{\n{deeper}label=\"g{inner}\";"
                );
                self.graph(&body, inner, &deeper);
                let _ = writeln!(self.text, "{indent}}}");
            }
        }
    }
}

/// A label of lines that start at the left.
fn escaped(label: &str) -> String {
    let mut out = String::new();
    for c in label.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\l"),
            c => out.push(c),
        }
    }
    out + "\\l"
}
