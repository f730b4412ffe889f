//! The table of kernels: one row for a kernel with the same shape and the same ops.

use crate::distribution::Distribution;
use crate::page::labels::{Label, LabelOp};
use crate::view::ops::Times;
use foldhash::HashMap;
use serde::Serialize;

/// A kernel, copy or fill.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KernelRow {
    name: String,
    kind: &'static str,
    phase: &'static str,
    shape: String,
    ops: Vec<LabelOp>,
    calls: u64,
    times: Times,
    bracketed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    flops_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_s: Option<f64>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    shape: String,
    ops: Vec<LabelOp>,
}

#[derive(Debug, Default)]
struct Row {
    /// The first label of the row.
    label: u32,
    times: Distribution,
    flops: u64,
    bytes: u64,
    bracketed: bool,
}

/// The kernels of a run.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    rows: Vec<Row>,
    at: HashMap<Key, usize>,
    /// Rows by label.
    of: HashMap<u32, usize>,
}

impl Kernels {
    pub(crate) fn add(&mut self, labels: &[Label], label: u32, time: u64) {
        let at = match self.of.get(&label) {
            Some(at) => *at,
            None => self.row(labels, label),
        };
        let (row, label) = (&mut self.rows[at], &labels[label as usize]);
        row.times.add(time);
        row.flops = row.flops.saturating_add(label.flops);
        row.bytes = row.bytes.saturating_add(label.bytes);
        row.bracketed |= label.bracketed;
    }

    /// The row of a label: calls of an op are told apart by their number in a timeline, not in a table.
    fn row(&mut self, labels: &[Label], label: u32) -> usize {
        let found = &labels[label as usize];
        let key = Key {
            name: found.name.clone(),
            shape: found.shape.clone(),
            ops: found.ops.iter().map(without_call).collect(),
        };
        let at = *self.at.entry(key).or_insert_with(|| {
            self.rows.push(Row {
                label,
                ..Row::default()
            });
            self.rows.len() - 1
        });
        self.of.insert(label, at);
        at
    }

    /// The rows, those that take most time first.
    pub(crate) fn finish(self, labels: &[Label]) -> Vec<KernelRow> {
        let finished = |row: Row| {
            let label = &labels[row.label as usize];
            let time = row.times.sum();
            let rate = |count: u64| (count > 0 && time > 0).then(|| count as f64 * 1e9 / time as f64);
            KernelRow {
                name: label.name.clone(),
                kind: label.kind,
                phase: label.phase,
                shape: label.shape.clone(),
                ops: label.ops.iter().map(without_call).collect(),
                calls: row.times.count(),
                times: Times::of(time, &row.times),
                bracketed: row.bracketed,
                flops_per_s: rate(row.flops),
                bytes_per_s: rate(row.bytes),
            }
        };
        let mut rows: Vec<KernelRow> = self.rows.into_iter().map(finished).collect();
        rows.sort_by(|a, b| (b.times.total, &a.name).cmp(&(a.times.total, &b.name)));
        rows
    }
}

fn without_call(op: &LabelOp) -> LabelOp {
    let name = match op.name.rsplit_once("-op") {
        Some((name, call)) if call.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => &op.name,
    };
    LabelOp {
        name: name.to_owned(),
        ..op.clone()
    }
}
