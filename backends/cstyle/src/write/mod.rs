//! The writer that every routine uses: values of nodes, entries with their arguments and words, loops over units of work.

mod entry;
mod node;
mod text;

pub(crate) use entry::{Outline, preamble};
pub(crate) use text::Text;

use crate::body::Body;
use crate::variant::Variant;
use crate::{Dialect, Target};
use thalweg_hal::DType;
use thalweg_hal::ir::Node;

/// Whether each node is the same at every point: nothing in it is loaded or an index.
fn uniform(body: &Body) -> Vec<bool> {
    let mut uniform: Vec<bool> = Vec::with_capacity(body.kernel.nodes.len());
    for node in &body.kernel.nodes {
        let own = match node {
            Node::Load { .. }
            | Node::LoadAt { .. }
            | Node::Index { .. }
            | Node::Reduce { .. }
            | Node::Store { .. } => false,
            Node::Const { .. }
            | Node::Scalar { .. }
            | Node::Op { .. }
            | Node::Cast { .. }
            | Node::Rand { .. } => true,
        };
        uniform.push(own && node.args().all(|arg| uniform[arg.index()]));
    }
    uniform
}

/// Whether each node's value is stored as it is.
fn stored(body: &Body) -> Vec<bool> {
    let mut stored = vec![false; body.kernel.nodes.len()];
    for node in &body.kernel.nodes {
        if let Node::Store { value, .. } = node {
            stored[value.index()] = true;
        }
    }
    stored
}

/// Writes the program of one variant.
pub(crate) struct Writer<'a> {
    pub(crate) body: &'a Body,
    pub(crate) variant: &'a Variant,
    pub(crate) target: &'a Target,
    pub(crate) text: Text,
    uniform: Vec<bool>,
    stored: Vec<bool>,
}

/// Where element-level nodes are evaluated.
pub(crate) struct Point<'a> {
    /// Index along the last axis.
    pub(crate) last: &'a str,
    /// The lane at which parameters with unit steps were loaded into `x`, and are stored from `y`.
    pub(crate) lane: Option<&'a str>,
    /// Which of several packs in `x` that is, as an index of its own.
    pub(crate) pack: &'a str,
    /// Where two points are written side by side: which of them this is, and the nodes that each has a value of.
    pub(crate) pair: Option<(usize, &'a [bool])>,
}

impl<'a> Point<'a> {
    /// A point whose parameters are reached in memory.
    pub(crate) fn at(last: &'a str) -> Point<'a> {
        Point {
            last,
            lane: None,
            pack: "",
            pair: None,
        }
    }

    /// What the name of a node's value ends in.
    pub(crate) fn suffix(&self, node: usize) -> String {
        match self.pair {
            Some((which, own)) if own[node] => format!("_{which}"),
            _ => String::new(),
        }
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn new(body: &'a Body, variant: &'a Variant, target: &'a Target) -> Writer<'a> {
        Writer {
            body,
            variant,
            target,
            text: Text::default(),
            uniform: uniform(body),
            stored: stored(body),
        }
    }

    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.text.line(line);
    }

    /// A line that ends in `{`.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.text.open(line);
    }

    pub(crate) fn close(&mut self) {
        self.text.close();
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.text.raw(text);
    }

    /// Writes lines that compute a node.
    pub(crate) fn within<R>(&mut self, node: usize, write: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.text.set_node(Some(node as u32));
        let written = write(self);
        self.text.set_node(before);
        written
    }

    /// Whether a parameter's elements may be assumed to be reached through it alone.
    fn restrict(&self) -> &'static str {
        if self.variant.in_place { "" } else { " TL_RESTRICT" }
    }

    pub(crate) fn is_cuda(&self) -> bool {
        self.target.dialect == Dialect::CudaC
    }
}

/// OpenCL's name of the element of a vector of sums.
pub(crate) fn vector_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::I64 | DType::U64 => "ulong",
        _ => "uint",
    }
}
