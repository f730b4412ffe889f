//! What the files say of a kernel.

use super::{Told, Use};
use crate::error::tag::OpTag;
use crate::hal::ir::{Kernel, Level, Role};
use crate::lower::Source;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A call that a kernel computes.
fn call(tag: &OpTag) -> Value {
    let line = tag
        .location()
        .map(|line| format!("{}:{}", line.file(), line.line()));
    json!({ "op": tag.op, "name": tag.name(), "line": line })
}

/// Calls, each once.
fn calls<'a>(tags: impl Iterator<Item = &'a OpTag>) -> Vec<Value> {
    let mut calls: Vec<Value> = Vec::new();
    for tag in tags {
        let call = call(tag);
        if !calls.contains(&call) {
            calls.push(call);
        }
    }
    calls
}

fn calls_of(launch: &Use) -> Vec<Value> {
    calls(launch.origin.parts.iter().map(|part| &part.tag))
}

fn parameters(kernel: &Kernel) -> Vec<Value> {
    let of = |param: &crate::hal::ir::Param| {
        let (level, rank) = match param.level {
            Level::Row => ("row", kernel.outer),
            Level::Element => ("element", kernel.outer + kernel.inner),
        };
        let role = match param.role {
            Role::In => "in",
            Role::Out => "out",
        };
        json!({
            "role": role,
            "dtype": param.dtype.to_string(),
            "rank": rank,
            "level": level,
            "access": format!("{:?}", param.access).to_lowercase(),
        })
    };
    kernel.params.iter().map(of).collect()
}

impl Told<'_> {
    /// The kernel, or the definition of the library op, where it has one.
    fn kernel(&self) -> Option<Cow<'_, Kernel>> {
        match self.source {
            Source::Kernel(kernel) => Some(Cow::Borrowed(kernel)),
            Source::Library(op) => op.definition().ok().map(Cow::Owned),
        }
    }

    /// What the kernel is compiled from, as text.
    fn text(&self) -> String {
        match (self.source, self.kernel()) {
            (Source::Kernel(_), Some(kernel)) => kernel.to_text(),
            (Source::Library(op), _) => format!("{op:?}"),
            (Source::Kernel(_), None) => String::new(),
        }
    }

    /// FNV-1a of what the kernel is compiled from.
    pub(super) fn hash(&self) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.text().bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// What it is.
    pub(super) fn about(&self) -> Value {
        let launches = self.known.uses.iter();
        let launches = launches.map(|launch| json!({ "extents": launch.extents, "calls": calls_of(launch) }));
        let facts: Map<String, Value> = (self.facts.iter())
            .map(|(key, value)| (key.clone(), Value::String(value.clone())))
            .collect();
        let optimised = match (&self.known.optimised, self.level.optimises()) {
            (None, optimised) => json!(optimised),
            (Some(why), _) => json!({ "because": why }),
        };
        let mut about = json!({
            "kernel": self.source.name(),
            "kind": if matches!(self.source, Source::Kernel(_)) { "kernel" } else { "library op" },
            "device": self.target,
            "program": self.program,
            "op_debug_level": self.level as u8,
            "optimised": optimised,
            "launches": launches.collect::<Vec<_>>(),
            "facts": facts,
        });
        if let Some(kernel) = self.kernel() {
            about["axes"] = json!({ "outer": kernel.outer, "inner": kernel.inner });
            about["parameters"] = Value::Array(parameters(&kernel));
            about["scalars"] = json!(kernel.scalars.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        about
    }

    /// The calls that a node of the kernel, or of the definition of the library op, computes a part of.
    fn calls_of_node(&self, node: usize) -> Vec<Value> {
        let count = self.kernel().map_or(0, |kernel| kernel.nodes.len());
        let uses = self.known.uses.iter();
        calls(uses.filter_map(|launch| launch.origin.of_node(node, count)))
    }

    /// Which calls the lines of its source compute. `lines` are lines and nodes, as the backend tells them.
    pub(super) fn lines(&self, source: &str, lines: &str) -> Value {
        let number = |text: &str| text.parse::<usize>().ok();
        let lines: Vec<Value> = (lines.lines().filter_map(|line| line.split_once(' ')))
            .filter_map(|(line, node)| Some((number(line)?, number(node)?)))
            .map(|(line, node)| json!({ "line": line, "node": node, "calls": self.calls_of_node(node) }))
            .collect();
        let all = self.known.uses.iter().flat_map(|launch| &launch.origin.parts);
        json!({
            "source": source,
            "kernel": self.source.name(),
            "calls": calls(all.map(|part| &part.tag)),
            "lines": lines,
        })
    }

    /// The kernel in the IR.
    pub(super) fn compute(&self) -> Value {
        let mut compute = json!({ "kernel": self.source.name(), "ir": Value::Null });
        if let Source::Library(op) = self.source {
            compute["library_op"] = Value::String(format!("{op:?}"));
        }
        if let Some(kernel) = self.kernel() {
            let text = kernel.to_text();
            let node = |at: usize| {
                let name = format!("n{at} = ");
                let found = text.lines().find_map(|line| line.strip_prefix(name.as_str()));
                json!({ "node": at, "is": found, "calls": self.calls_of_node(at) })
            };
            compute["nodes"] = (0..kernel.nodes.len()).map(node).collect();
            compute["ir"] = Value::String(text);
        }
        compute
    }
}
