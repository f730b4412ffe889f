//! The text form: one line a node, `%NUMBER: TYPE = OP OPERANDS ATTRIBUTES`, and the outputs. What follows a `#` is a comment.
//!
//! ```text
//! graph main
//! %0: f32[2,3] = input
//! %1: f32[2] = reduce_sum %0 axes=[1]
//! %2: f32[2] = full value=0.5
//! %3: f32[2] = mul %1 %2
//! return %3
//! ```
//!
//! Graphs that loops and branches run come first, as `graph @0`, `graph @1`, …, each once and in front of the graphs that name it; a loop or
//! a branch itself is a `token`. Constants are as in the text form of kernels: the shortest decimal that is the same bits, or bits in hex.

use super::rows::{Written, list};
use super::{Body, Graph, Node, NodeId, Op, ScatterMode, Type};
use crate::error::tag::OpTag;
use std::collections::HashMap;
use std::fmt::{self, Display, Write};

impl Graph {
    /// The graph as text, which [`Graph::parse`] reads back to the last bit. The same graph gives the same text in every process. Who
    /// called an op, and where, is not in it: [`Graph::to_dot`] shows that.
    ///
    /// ```
    /// use thalweg::{Context, Tensor, graph::Graph, jit};
    /// let cx = Context::new("cpu")?;
    /// let half = jit(|x: &Tensor| (x * 0.5).sum());
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 4.0], 3, &cx);
    /// let graph = half.graph(&x)?;
    /// let text = "graph main\n\
    ///     %0: f32[3] = input\n\
    ///     %1: f32[3] = full value=0.5\n\
    ///     %2: f32[3] = mul %0 %1\n\
    ///     %3: f32[] = reduce_sum %2 axes=[0]\n\
    ///     return %3\n";
    /// assert_eq!(graph.to_text(), text);
    /// assert_eq!(Graph::parse(text)?.call(&[x])?[0].item::<f32>()?, 3.5);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn to_text(&self) -> String {
        let mut printer = Printer::default();
        let body = printer.graph(self, None);
        printer.done + "graph main\n" + &body
    }

    /// As [`Graph::to_text`], with the name and the line of the calls of each node as a comment. In front of each node of the main graph
    /// stands what `before` writes.
    pub(crate) fn annotated(&self, before: &mut dyn FnMut(NodeId, &mut String)) -> String {
        let mut printer = Printer {
            names_calls: true,
            ..Printer::default()
        };
        let body = printer.graph(self, Some(before));
        printer.done + "graph main\n" + &body
    }
}

/// The calls that a node computes, as ` # Default/mul-op1 src/main.rs:12`; nothing for work that nobody called.
fn calls(node: &Node) -> String {
    let mut text = String::new();
    for (tag, name) in node
        .tags()
        .zip(std::iter::once(node.name()).chain(node.others.iter().map(OpTag::name)))
    {
        if name.is_empty() {
            continue;
        }
        text.push_str(if text.is_empty() { " # " } else { ", " });
        text.push_str(&name);
        if let Some(at) = tag.location() {
            // Writing to a string does not fail.
            let _ = write!(text, " {}:{}", at.file(), at.line());
        }
    }
    // A name that the program made up must not end the comment.
    text.replace(char::is_control, "\u{fffd}")
}

impl Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, list(self.shape.iter()))
    }
}

impl ScatterMode {
    /// Every mode.
    pub const ALL: [ScatterMode; 4] = [
        ScatterMode::Set,
        ScatterMode::Add,
        ScatterMode::Max,
        ScatterMode::Min,
    ];

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            ScatterMode::Set => "set",
            ScatterMode::Add => "add",
            ScatterMode::Max => "max",
            ScatterMode::Min => "min",
        }
    }
}

/// The attributes of an op as ` key=value`, without what its type says; `body` names a graph that it runs.
pub(super) fn attributes(op: &Op, body: &mut dyn FnMut(&Body) -> String) -> String {
    let mut written = Written {
        out: String::new(),
        name: body,
    };
    // Writing sets nothing and refuses nothing.
    let _ = op.clone().attributes(&mut written);
    written.out
}

#[derive(Default)]
struct Printer {
    done: String,
    names: HashMap<usize, String>,
    names_calls: bool,
}

/// What stands in front of a node.
type Before<'a> = &'a mut dyn FnMut(NodeId, &mut String);

impl Printer {
    /// The lines of a graph; those of the graphs that it runs are done before.
    fn graph(&mut self, graph: &Graph, mut before: Option<Before<'_>>) -> String {
        let mut out = String::new();
        for (at, node) in graph.nodes().iter().enumerate() {
            if let Some(before) = &mut before {
                before(NodeId(at as u32), &mut out);
            }
            let attributes = attributes(&node.op, &mut |body| self.body(body));
            let operands: String = node.inputs.iter().map(|id| format!(" %{}", id.0)).collect();
            let name = node.op.name();
            let calls = if self.names_calls {
                calls(node)
            } else {
                String::new()
            };
            let _ = match node.op {
                Op::Control(_) => writeln!(out, "%{at}: token = {name}{operands}{attributes}{calls}"),
                _ => writeln!(out, "%{at}: {} = {name}{operands}{attributes}{calls}", node.ty),
            };
        }
        let outputs: String = graph.outputs().iter().map(|id| format!(" %{}", id.0)).collect();
        let _ = writeln!(out, "return{outputs}");
        out
    }

    fn body(&mut self, body: &Body) -> String {
        if let Some(name) = self.names.get(&body.identity()) {
            return name.clone();
        }
        let text = self.graph(body, None);
        let name = format!("@{}", self.names.len());
        self.names.insert(body.identity(), name.clone());
        let _ = write!(self.done, "graph {name}\n{text}");
        name
    }
}
