//! Where the time of ops goes: `op_table.csv` and `op_table.json`.

use crate::distribution::Distribution;
use crate::error::Result;
use crate::known::Known;
use crate::out::{Cell, Maybe, Micros, Out, json};
use crate::pass::View;
use crate::peaks::Peaks;
use crate::work::{Owner, Work, kind_name, time};
use foldhash::HashMap;
use serde::Serialize;
use std::path::Path;
use thalweg::observe::recording::{Op, Run};

/// Most shapes that a row lists.
const SHAPES: usize = 4;

/// An op that the user called at one place, a traced function, or copies and the like that belong to no op.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OpRow {
    /// The op: `conv2d`; a traced function's name; `copy`.
    pub name: String,
    /// The part of the network: `Default/conv1`; empty outside of any.
    pub scope: String,
    /// The user's line: `src/net.rs:48`.
    pub line: String,
    /// Shapes and dtypes, at most four of them.
    pub shapes: String,
    /// How often it ran.
    pub calls: u64,
    /// On the host: from the call to its return.
    pub host: Times,
    /// On devices.
    pub device: Times,
    /// Its part of the time of all devices, 0 to 1.
    pub share: f64,
    /// Whether device times are shares of fused kernels, split by estimated cost.
    pub estimated: bool,
    /// Estimated arithmetic operations a second of device time; `None` where they are not known.
    pub flops_per_s: Option<f64>,
    /// Estimated bytes read and written a second of device time; `None` where they are not known.
    pub bytes_per_s: Option<f64>,
    /// `flops_per_s` as a part of the most that the device was seen to do; `None` where that was not measured.
    pub flops_of_peak: Option<f64>,
    /// `bytes_per_s` as a part of the most that the device was seen to copy; `None` where that was not measured.
    pub bytes_of_peak: Option<f64>,
}

/// Times of the calls of an op in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// What nothing inside it took.
    #[serde(rename = "self_ns")]
    pub own: u64,
    /// All of it.
    #[serde(rename = "total_ns")]
    pub total: u64,
    /// Mean of a call.
    #[serde(rename = "mean_ns")]
    pub mean: u64,
    /// Shortest call.
    #[serde(rename = "min_ns")]
    pub min: u64,
    /// Longest call.
    #[serde(rename = "max_ns")]
    pub max: u64,
    /// Half of the calls took at most this, within 0.4 %.
    #[serde(rename = "p50_ns")]
    pub p50: u64,
    /// 99 % of the calls took at most this, within 0.4 %.
    #[serde(rename = "p99_ns")]
    pub p99: u64,
}

impl Times {
    pub(crate) fn of(own: u64, calls: &Distribution) -> Times {
        Times {
            own,
            total: calls.sum(),
            mean: calls.mean(),
            min: calls.min(),
            max: calls.max(),
            p50: calls.percentile(50),
            p99: calls.percentile(99),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    scope: String,
    line: String,
}

#[derive(Default)]
struct Row {
    key: Key,
    shapes: Vec<String>,
    host: Distribution,
    host_own: u64,
    device: Distribution,
    device_own: u64,
    estimated: bool,
    flops: u64,
    bytes: u64,
    flops_of_peak: Part,
    bytes_of_peak: Part,
}

/// What of its time work would take at the peak of its device.
#[derive(Default)]
struct Part {
    ideal: f64,
    time: u64,
}

impl Part {
    /// Adds work in nanoseconds, which did a part of what the device can do.
    fn add(&mut self, part: Option<f64>, time: u64) {
        if let Some(part) = part {
            self.ideal += part * time as f64;
            self.time = self.time.saturating_add(time);
        }
    }

    fn of_whole(&self) -> Option<f64> {
        (self.time > 0).then(|| self.ideal / self.time as f64)
    }
}

/// A run of which commands come.
#[derive(Default)]
struct Open {
    correlation: u64,
    /// Row and number of the call.
    calls: HashMap<(usize, u32), u64>,
    /// The row of the traced function, and the time of all commands.
    function: Option<(usize, u64)>,
}

/// The table of ops.
#[derive(Default)]
pub(crate) struct Ops {
    rows: Vec<Row>,
    at: HashMap<Key, usize>,
    /// Rows of this recording.
    of: HashMap<Owner, usize>,
    /// By stream.
    open: HashMap<u32, Open>,
    device: u64,
    /// Of this recording, by device.
    peaks: HashMap<u32, Peaks>,
}

impl Ops {
    fn row(&mut self, known: &Known<'_>, owner: Owner) -> usize {
        if let Some(at) = self.of.get(&owner) {
            return *at;
        }
        let key = key(known, owner);
        let at = *self.at.entry(key.clone()).or_insert_with(|| {
            self.rows.push(Row {
                key,
                ..Row::default()
            });
            self.rows.len() - 1
        });
        self.of.insert(owner, at);
        at
    }

    /// Takes what a run did as one call of each of its ops.
    fn close(rows: &mut [Row], open: &mut Open) {
        for ((row, _), time) in open.calls.drain() {
            rows[row].device.add(time);
        }
        if let Some((row, time)) = open.function.take() {
            rows[row].device.add(time);
        }
    }

    fn shape(&mut self, row: usize, shape: &str) {
        let shapes = &mut self.rows[row].shapes;
        if shape.is_empty() || shapes.len() > SHAPES || shapes.iter().any(|old| old == shape) {
            return;
        }
        let more = shapes.len() == SHAPES;
        shapes.push(if more { "…" } else { shape }.to_owned());
    }

    pub(crate) fn device_time(&self) -> u64 {
        self.device
    }

    /// The rows, those that take most device time first.
    pub(crate) fn finish(self) -> Vec<OpRow> {
        let all = self.device;
        let mut rows: Vec<OpRow> = self.rows.into_iter().map(|row| finished(row, all)).collect();
        rows.sort_by(|a, b| {
            let by_time = (b.device.own, b.host.own).cmp(&(a.device.own, a.host.own));
            by_time.then_with(|| (&a.scope, &a.name, &a.line).cmp(&(&b.scope, &b.name, &b.line)))
        });
        rows
    }
}

fn finished(row: Row, all: u64) -> OpRow {
    let rate =
        |count: u64| (count > 0 && row.device_own > 0).then(|| count as f64 * 1e9 / row.device_own as f64);
    OpRow {
        calls: row.host.count().max(row.device.count()),
        host: Times::of(row.host_own, &row.host),
        device: Times::of(row.device_own, &row.device),
        share: row.device_own as f64 / all.max(1) as f64,
        estimated: row.estimated,
        flops_per_s: rate(row.flops),
        bytes_per_s: rate(row.bytes),
        flops_of_peak: row.flops_of_peak.of_whole(),
        bytes_of_peak: row.bytes_of_peak.of_whole(),
        shapes: row.shapes.join(" "),
        name: row.key.name,
        scope: row.key.scope,
        line: row.key.line,
    }
}

fn key(known: &Known<'_>, owner: Owner) -> Key {
    match owner {
        Owner::Place(place) => match known.places.get(&place) {
            Some(place) => Key {
                name: known.text(place.op).to_owned(),
                scope: known.text(place.scope).to_owned(),
                line: known.source(place),
            },
            None => Key {
                name: "unknown".to_owned(),
                ..Key::default()
            },
        },
        Owner::Program(program) => {
            let name = known
                .programs
                .get(&program)
                .map_or("", |one| known.text(one.name));
            Key {
                name: if name.is_empty() { "function" } else { name }.to_owned(),
                ..Key::default()
            }
        }
        Owner::Kind(kind) => Key {
            name: kind_name(kind).to_owned(),
            ..Key::default()
        },
    }
}

impl View for Ops {
    fn op(&mut self, known: &Known<'_>, op: &Op, own: u64) -> Result<()> {
        let at = self.row(known, Owner::Place(op.place));
        let row = &mut self.rows[at];
        row.host.add(op.end.saturating_sub(op.start));
        row.host_own = row.host_own.saturating_add(own);
        self.shape(at, known.text(op.operands));
        Ok(())
    }

    fn run(&mut self, known: &Known<'_>, run: &Run) -> Result<()> {
        if run.place == 0 && run.program != 0 {
            let at = self.row(known, Owner::Program(run.program));
            let (row, time) = (&mut self.rows[at], run.end.saturating_sub(run.start));
            row.host.add(time);
            row.host_own = row.host_own.saturating_add(time);
        }
        Ok(())
    }

    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        let (command, whole) = (work.command, time(work.command));
        self.device = self.device.saturating_add(whole);
        let open = self.open.entry(command.stream).or_default();
        if open.correlation != command.correlation || command.correlation == 0 {
            Ops::close(&mut self.rows, open);
            open.correlation = command.correlation;
        }
        let device = known.device_of(command.stream);
        let peaks = self.peaks.entry(device);
        let peaks = *peaks.or_insert_with(|| known.survey.peaks_of(&known.target(device)));
        let single = work.shares.len() == 1;
        let mut function = None;
        for share in work.shares {
            let at = self.row(known, share.owner);
            let row = &mut self.rows[at];
            row.device_own = row.device_own.saturating_add(share.time);
            row.flops = row.flops.saturating_add(share.flops);
            row.bytes = row.bytes.saturating_add(share.bytes);
            let (flops, bytes) = peaks.parts(share.flops, share.bytes, share.time);
            row.flops_of_peak.add(flops, share.time);
            row.bytes_of_peak.add(bytes, share.time);
            row.estimated |= share.estimated;
            match share.owner {
                Owner::Program(_) => {}
                Owner::Place(_) | Owner::Kind(_) => {
                    let open = self.open.entry(command.stream).or_default();
                    let call = open.calls.entry((at, share.call)).or_default();
                    *call = call.saturating_add(share.time);
                }
            }
            if let (true, Some(node)) = (single, work.node) {
                self.shape(at, known.text(node.shape));
            }
        }
        if work.program != 0 && work.run.is_some_and(|known| known.run.place == 0) {
            function = Some(self.row(known, Owner::Program(work.program)));
        }
        if let Some(at) = function {
            let open = self.open.entry(command.stream).or_default();
            let (_, time) = open.function.get_or_insert((at, 0));
            *time = time.saturating_add(whole);
        }
        Ok(())
    }

    fn recorded(&mut self, _: &Known<'_>) -> Result<()> {
        for open in self.open.values_mut() {
            Ops::close(&mut self.rows, open);
        }
        self.open.clear();
        self.of.clear();
        self.peaks.clear();
        Ok(())
    }
}

/// Writes `op_table.csv`.
pub(crate) fn write_csv(rows: &[OpRow], lost: u64, folder: &Path) -> Result<()> {
    let mut out = Out::new(folder, "op_table.csv")?;
    out.write(format_args!("name,scope,line,shapes,calls"))?;
    for side in ["host", "device"] {
        for figure in ["self", "total", "mean", "min", "max", "p50", "p99"] {
            out.write(format_args!(",{side}_{figure}_us"))?;
        }
    }
    out.write(format_args!(
        ",share,estimated,flops_per_s,bytes_per_s,flops_of_peak,bytes_of_peak\n"
    ))?;
    for row in rows {
        let [name, scope, line, shapes] =
            [&row.name, &row.scope, &row.line, &row.shapes].map(|cell| Cell(cell));
        out.write(format_args!("{name},{scope},{line},{shapes},{}", row.calls))?;
        for times in [row.host, row.device] {
            for figure in [
                times.own,
                times.total,
                times.mean,
                times.min,
                times.max,
                times.p50,
                times.p99,
            ] {
                out.write(format_args!(",{}", Micros(figure)))?;
            }
        }
        out.write(format_args!(
            ",{:.6},{},{:.0},{:.0},{:.4},{:.4}\n",
            row.share,
            if row.estimated { "~" } else { "" },
            Maybe(row.flops_per_s),
            Maybe(row.bytes_per_s),
            Maybe(row.flops_of_peak),
            Maybe(row.bytes_of_peak)
        ))?;
    }
    note_lost(&mut out, lost)?;
    out.finish().map(drop)
}

/// The last line of a table where events are missing.
pub(crate) fn note_lost(out: &mut Out, lost: u64) -> Result<()> {
    match lost {
        0 => Ok(()),
        lost => out.write(format_args!("# lost {lost} events: a buffer was full\n")),
    }
}

/// Writes `op_table.json`.
pub(crate) fn write_json(rows: &[OpRow], lost: u64, folder: &Path) -> Result<()> {
    let mut out = Out::new(folder, "op_table.json")?;
    out.write(format_args!("{{\"lost\":{lost},\"ops\":["))?;
    for (at, row) in rows.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // A row has texts, integers and finite floats alone, so it is never refused.
        let row = serde_json::to_string(row).unwrap_or_else(|error| json(&error.to_string()));
        out.write(format_args!("{comma}\n{row}"))?;
    }
    out.write(format_args!("\n]}}\n"))?;
    out.finish().map(drop)
}
