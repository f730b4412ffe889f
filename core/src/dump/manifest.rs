//! What a folder of values holds, as JSON and as tables.

use super::item::{Item, Standing, slot};
use super::options::{DumpOptions, Figure};
use crate::hal::DType;
use crate::types::call::{CallInfo, Phase, Port};
use crate::types::shape::Shape;
use crate::types::statistics::Statistics;
use serde_json::{Map, Value, json};

/// A value that was written.
#[derive(Debug)]
pub(super) struct Entry {
    call: CallInfo,
    port: Port,
    dtype: DType,
    shape: Shape,
    bytes: u64,
    /// Its file, and the sum of it.
    file: Option<(String, String)>,
    figures: Option<Statistics>,
    hash: Option<String>,
    standing: Standing,
}

impl Entry {
    /// The entry of an item, with its file and the sum of its elements.
    pub(super) fn of(item: Item, file: Option<(String, String)>, hash: Option<String>) -> Entry {
        Entry {
            bytes: item.shape.elements() as u64 * item.dtype.size() as u64,
            call: item.call,
            port: item.port,
            dtype: item.dtype,
            shape: item.shape,
            file,
            figures: item.figures,
            hash,
            standing: item.standing,
        }
    }

    fn figure(&self, figure: Figure) -> Value {
        let count = self.shape.elements() as u64;
        match (figure, &self.figures) {
            (Figure::Count, _) => json!(count),
            (Figure::Hash, _) => json!(self.hash),
            (_, None) => Value::Null,
            (Figure::Min, Some(figures)) => json!(figures.min),
            (Figure::Max, Some(figures)) => json!(figures.max),
            (Figure::Mean, Some(figures)) => json!(figures.mean),
            (Figure::L2, Some(figures)) => json!(figures.l2),
            (Figure::Nan, Some(figures)) => json!(figures.nan),
            (Figure::Inf, Some(figures)) => json!(figures.infinite),
            (Figure::Zeros, Some(figures)) => json!(figures.zeros),
        }
    }

    fn json(&self, options: &DumpOptions) -> Value {
        let (io, at) = slot(self.port);
        let figures = Figure::ALL
            .into_iter()
            .filter(|figure| options.has_figure(*figure));
        let figures: Map<String, Value> = figures
            .map(|figure| (figure.name().to_owned(), self.figure(figure)))
            .collect();
        let mut entry = json!({
            "name": self.call.name, "op": self.call.op, "scope": self.call.scope, "phase": phase(&self.call),
            "line": line(&self.call), "io": io, "slot": at, "dtype": self.dtype.to_string(), "shape": &self.shape[..],
            "bytes": self.bytes, "file": self.file.as_ref().map(|(name, _)| name),
            "sha256": self.file.as_ref().map(|(_, sum)| sum),
        });
        if options.has_figures() {
            entry["statistics"] = Value::Object(figures);
        }
        match self.standing {
            Standing::Nothing => {}
            Standing::Overflows => entry["overflows"] = json!(true),
            Standing::Unspecified => entry["unspecified"] = json!(true),
        }
        entry
    }
}

fn phase(call: &CallInfo) -> &'static str {
    match call.phase {
        Phase::Forward => "forward",
        Phase::Gradient => "gradient",
        Phase::Update => "update",
    }
}

/// The user's line: `src/main.rs:9`.
fn line(call: &CallInfo) -> Option<String> {
    call.location.map(|at| format!("{}:{}", at.file(), at.line()))
}

/// What a folder is of.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    /// The device.
    pub(super) target: String,
    pub(super) iteration: u64,
    /// What failed, and whether the device is lost.
    pub(super) failed: Option<(String, bool)>,
}

/// The manifest of a folder: an object, with a line for each value.
pub(super) fn manifest(options: &DumpOptions, head: &Head, entries: &[Entry]) -> String {
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| entry.json(options).to_string())
        .collect();
    let of = match &head.failed {
        Some((error, lost)) => format!("\"error\": {}, \"device_lost\": {lost}", json!(error)),
        None => format!(
            "\"net\": {}, \"iteration\": {}, \"step\": {}",
            json!(options.net_name),
            head.iteration,
            head.iteration.saturating_add(1)
        ),
    };
    format!(
        "{{\"format\": 1, {of}, \"device\": {}, \"values\": [\n{}\n]}}\n",
        json!(head.target),
        lines.join(",\n")
    )
}

/// The figures of all values.
pub(super) fn statistic_csv(options: &DumpOptions, entries: &[Entry]) -> String {
    let figures: Vec<Figure> = (Figure::ALL.into_iter())
        .filter(|figure| options.has_figure(*figure))
        .collect();
    let names: Vec<&str> = figures.iter().map(|figure| figure.name()).collect();
    let mut csv = format!("op,name,io,slot,bytes,dtype,shape,{}\n", names.join(","));
    for entry in entries {
        csv.push_str(&row(entry));
        for figure in &figures {
            let cell = match entry.figure(*figure) {
                Value::Null => "NaN".to_owned(),
                Value::String(text) => text,
                number => number.to_string(),
            };
            csv.push(',');
            csv.push_str(&cell);
        }
        csv.push('\n');
    }
    csv
}

/// The results that overflowed; `None` where there are none.
pub(super) fn overflow_csv(entries: &[Entry]) -> Option<String> {
    let mut csv = "op,name,io,slot,bytes,dtype,shape,line,nan,inf,min,max\n".to_owned();
    let before = csv.len();
    let overflows = |entry: &&Entry| entry.standing == Standing::Overflows;
    for entry in entries.iter().filter(overflows) {
        let line = line(&entry.call).unwrap_or_default();
        csv.push_str(&format!("{},{}", row(entry), quoted(&line)));
        for figure in [Figure::Nan, Figure::Inf, Figure::Min, Figure::Max] {
            let number = entry.figure(figure);
            let cell = if number.is_null() {
                "NaN".to_owned()
            } else {
                number.to_string()
            };
            csv.push_str(&format!(",{cell}"));
        }
        csv.push('\n');
    }
    (csv.len() > before).then_some(csv)
}

/// The calls of an iteration as they ran.
pub(super) fn order_csv(calls: &[CallInfo]) -> String {
    let mut csv = "order,op,name,phase,line\n".to_owned();
    for (at, call) in calls.iter().enumerate() {
        let line = line(call).unwrap_or_default();
        let (op, name) = (quoted(call.op), quoted(&call.name));
        csv.push_str(&format!("{at},{op},{name},{},{}\n", phase(call), quoted(&line)));
    }
    csv
}

/// What all tables begin with.
fn row(entry: &Entry) -> String {
    let (io, at) = slot(entry.port);
    let extents: Vec<String> = entry.shape.iter().map(ToString::to_string).collect();
    let (op, name) = (quoted(entry.call.op), quoted(&entry.call.name));
    let (bytes, dtype) = (entry.bytes, entry.dtype);
    format!("{op},{name},{io},{at},{bytes},{dtype},{}", extents.join("x"))
}

/// A cell of a table.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
