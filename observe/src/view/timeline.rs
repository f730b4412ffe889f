//! A timeline: `trace.json`, a Chrome trace for Perfetto and its like.

use crate::error::Result;
use crate::known::Known;
use crate::out::{Micros, Out, json};
use crate::pass::{Instant, View};
use crate::view::kernels::{KEPT, Origin, ops_of, origin};
use crate::work::Work;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use thalweg::observe::recording::{Memory, MemoryKind, Op, Run, Span, SpanKind, TextId};

/// Processes of a recording: its own, and then its devices.
const PROCESSES: u32 = 1000;

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    Thread(u32),
    /// Stream, row of the backend, and lane, where commands of a row overlap.
    Lane(u32, u32, u32),
}

/// Writes `trace.json`: an event a line, so that a file that was cut is good up to its last whole line.
pub(crate) struct Timeline {
    out: Out,
    events: u64,
    recordings: u32,
    rows: HashMap<Row, (u32, u32)>,
    next_row: u32,
    devices: HashMap<u32, u32>,
    /// When each lane of a row is free again.
    lanes: HashMap<(u32, u32), Vec<u64>>,
    /// Names and arguments of commands.
    texts: HashMap<Origin, String>,
    memory: HashMap<u32, (u64, u64)>,
}

impl Timeline {
    pub(crate) fn new(folder: &Path) -> Result<Timeline> {
        let mut out = Out::new(folder, "trace.json")?;
        out.bytes(b"[\n")?;
        Ok(Timeline {
            out,
            events: 0,
            recordings: 0,
            rows: HashMap::new(),
            next_row: 1,
            devices: HashMap::new(),
            lanes: HashMap::new(),
            texts: HashMap::new(),
            memory: HashMap::new(),
        })
    }

    pub(crate) fn finish(mut self) -> Result<PathBuf> {
        self.out.bytes(b"\n]\n")?;
        self.out.finish()
    }

    /// Begins an event.
    fn event(&mut self) -> Result<()> {
        self.events += 1;
        match self.events {
            1 => Ok(()),
            _ => self.out.bytes(b",\n"),
        }
    }

    /// The process of the host.
    fn host(&self) -> u32 {
        (self.recordings.saturating_sub(1)).saturating_mul(PROCESSES) + 1
    }

    fn name(&mut self, what: &str, (pid, tid): (u32, u32), name: &str) -> Result<()> {
        self.event()?;
        self.out.write(format_args!(
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}_name\",\"args\":{{\"name\":{}}}}}",
            json(name)
        ))?;
        self.event()?;
        let index = if what == "process" { pid } else { tid };
        self.out.write(format_args!(
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}_sort_index\",\"args\":{{\"sort_index\":{index}}}}}"
        ))
    }

    fn device(&mut self, known: &Known<'_>, device: u32) -> Result<u32> {
        if let Some(pid) = self.devices.get(&device) {
            return Ok(*pid);
        }
        let pid = self.host() + 1 + self.devices.len() as u32;
        self.devices.insert(device, pid);
        let found = known.devices.get(&device);
        let (target, name) = (
            known.target(device),
            found.map_or("", |found| known.text(found.name)),
        );
        let mut text = format!("{target} {name}");
        if let Some(why) = found
            .map(|found| known.text(found.unmeasured))
            .filter(|why| !why.is_empty())
        {
            let _ = write!(text, " (not measured: {why})");
        }
        let text = format!("{} (rank {})", text.trim_end(), known.rank());
        self.name("process", (pid, 0), &text)?;
        Ok(pid)
    }

    /// Process and thread of a row.
    fn row(&mut self, known: &Known<'_>, row: Row) -> Result<(u32, u32)> {
        if let Some(at) = self.rows.get(&row) {
            return Ok(*at);
        }
        let (pid, name) = match row {
            Row::Thread(thread) => (self.host(), known.thread_name(thread)),
            Row::Lane(stream, of_backend, lane) => {
                let pid = self.device(known, known.device_of(stream))?;
                let mut name = known.stream_name(stream);
                if of_backend > 0 {
                    let _ = write!(name, ", row {of_backend}");
                }
                if lane > 0 {
                    let _ = write!(name, ", lane {lane}");
                }
                (pid, name)
            }
        };
        // No number of a process, so that no row passes for its main thread.
        let tid = 1_000_000 + self.next_row;
        self.next_row += 1;
        self.rows.insert(row, (pid, tid));
        self.name("thread", (pid, tid), &name)?;
        Ok((pid, tid))
    }

    /// A lane of a stream's row that is free at `start`.
    fn lane(&mut self, key: (u32, u32), start: u64, end: u64) -> u32 {
        let lanes = self.lanes.entry(key).or_default();
        let at = lanes
            .iter()
            .position(|free| *free <= start)
            .unwrap_or(lanes.len());
        match lanes.get_mut(at) {
            Some(free) => *free = end.max(start),
            None => lanes.push(end.max(start)),
        }
        at as u32
    }

    /// A slice; `rest` is name, category and what else there is, without braces.
    fn slice(&mut self, (pid, tid): (u32, u32), start: u64, time: u64, rest: &str) -> Result<()> {
        self.event()?;
        self.out.write(format_args!(
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},{rest}}}",
            Micros(start),
            Micros(time)
        ))
    }

    fn count(&mut self, pid: u32, time: u64, name: &str, values: &[(&str, f64)]) -> Result<()> {
        self.event()?;
        self.out.write(format_args!(
            "{{\"ph\":\"C\",\"pid\":{pid},\"ts\":{},\"name\":{},\"args\":{{",
            Micros(time),
            json(name)
        ))?;
        for (at, (series, value)) in values.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // JSON has no number for these.
            let value = if value.is_finite() { *value } else { 0.0 };
            self.out.write(format_args!("{comma}{}:{value}", json(series)))?;
        }
        self.out.bytes(b"}}")
    }
}

/// Name, category and arguments of a command.
fn text(known: &Known<'_>, work: &Work<'_>) -> String {
    let ops = ops_of(known, work);
    let list =
        |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| json(text)).collect::<Vec<_>>().join(",");
    let mut args = format!("\"ops\":[{}]", list(&mut ops.iter().map(|(name, _)| name)));
    if ops.iter().any(|(_, line)| !line.is_empty()) {
        let _ = write!(
            args,
            ",\"lines\":[{}]",
            list(&mut ops.iter().map(|(_, line)| line))
        );
    }
    if let Some(node) = work.node {
        let shape = known.text(node.shape);
        if !shape.is_empty() {
            let _ = write!(args, ",\"shape\":{}", json(shape));
        }
        for (name, value) in [("flops", node.flops), ("bytes", node.bytes)] {
            if value > 0 {
                let _ = write!(args, ",\"{name}\":{value}");
            }
        }
    }
    if let Some(program) = known.programs.get(&work.program) {
        let _ = write!(args, ",\"program\":{}", json(known.text(program.name)),);
        if work.node.is_some() {
            let _ = write!(args, ",\"node\":{}", work.command.node);
        }
    }
    let category = crate::work::kind_name(work.command.kind);
    format!(
        "\"name\":{},\"cat\":\"{category}\",\"args\":{{{args}",
        json(work.name(known))
    )
}

/// What spans of a kind are called; the category of their slices.
pub(crate) fn span_name(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Range => "range",
        SpanKind::Scope => "scope",
        SpanKind::Epoch => "epoch",
        SpanKind::Step => "step",
        SpanKind::Data => "data",
        SpanKind::Forward => "forward",
        SpanKind::Backward => "backward",
        SpanKind::Update => "update",
        SpanKind::Evaluation => "evaluation",
        SpanKind::Callback => "callback",
        SpanKind::Checkpoint => "checkpoint",
        SpanKind::Trace => "trace",
        SpanKind::Rewrite => "rewrite",
        SpanKind::Lower => "lower",
        SpanKind::Compile => "compile",
        SpanKind::Wait => "wait",
    }
}

impl View for Timeline {
    fn recording(&mut self, known: &Known<'_>) -> Result<()> {
        self.recordings += 1;
        self.rows.clear();
        self.devices.clear();
        self.lanes.clear();
        self.texts.clear();
        self.memory.clear();
        let start = &known.survey.start;
        let program = if start.program.is_empty() {
            "host"
        } else {
            &start.program
        };
        let name = format!("{program} (rank {}, process {})", start.rank, start.pid);
        self.name("process", (self.host(), 0), &name)
    }

    fn op(&mut self, known: &Known<'_>, op: &Op, _: u64) -> Result<()> {
        let row = self.row(known, Row::Thread(op.thread))?;
        let place = known.places.get(&op.place);
        let name = place.map_or("unknown", |place| known.text(place.op));
        let mut rest = format!("\"name\":{},\"cat\":\"op\",\"args\":{{", json(name));
        let _ = write!(rest, "\"op\":{}", json(&known.call_name(op.place, op.call)));
        let texts = [
            (
                "line",
                place.map_or_else(String::new, |place| known.source(place)),
            ),
            ("operands", known.text(op.operands).to_owned()),
        ];
        for (key, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
            let _ = write!(rest, ",\"{key}\":{}", json(text));
        }
        rest.push('}');
        let time = op.end.saturating_sub(op.start);
        self.slice(row, known.time(op.start), time, &rest)
    }

    fn run(&mut self, known: &Known<'_>, run: &Run) -> Result<()> {
        let row = self.row(known, Row::Thread(run.thread))?;
        let program = known.programs.get(&run.program).map(|one| known.text(one.name));
        let op = known.call_name(run.place, run.call);
        let name = program.filter(|name| !name.is_empty()).unwrap_or(&op);
        let rest = format!(
            "\"name\":{},\"cat\":\"run\",\"bind_id\":\"{}\",\"flow_out\":true,\"args\":{{\"stream\":{}}}",
            json(&format!("run {name}")),
            self.flow(run.correlation),
            json(&known.stream_name(run.stream))
        );
        let time = run.end.saturating_sub(run.start);
        self.slice(row, known.time(run.start), time, &rest)
    }

    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        let command = work.command;
        let key = (command.stream, command.row);
        let lane = self.lane(key, command.start, command.end);
        let (pid, tid) = self.row(known, Row::Lane(command.stream, command.row, lane))?;
        if self.texts.len() >= KEPT {
            self.texts.clear();
        }
        self.event()?;
        self.out.write(format_args!(
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},",
            Micros(known.time(command.start)),
            Micros(work.time())
        ))?;
        // An arrow to what began before the run would lead backwards.
        if work.run.is_some_and(|run| run.run.start <= command.start) {
            let flow = self.flow(command.correlation);
            self.out
                .write(format_args!("\"bind_id\":\"{flow}\",\"flow_in\":true,"))?;
        }
        match work.node {
            Some(_) => {
                let text = self
                    .texts
                    .entry(origin(work))
                    .or_insert_with(|| text(known, work));
                self.out.bytes(text.as_bytes())?;
            }
            None => self.out.bytes(text(known, work).as_bytes())?,
        }
        if command.bytes > 0 {
            self.out.write(format_args!(",\"moved\":{}", command.bytes))?;
        }
        if !command.exact {
            self.out.bytes(b",\"exact\":false")?;
        }
        self.out.bytes(b"}}")
    }

    fn memory(&mut self, known: &Known<'_>, memory: &Memory) -> Result<()> {
        let pid = self.device(known, memory.device)?;
        let (in_use, reserved) = self.memory.entry(memory.device).or_default();
        match memory.kind {
            MemoryKind::Alloc => *in_use = in_use.saturating_add(memory.bytes),
            MemoryKind::Free => *in_use = in_use.saturating_sub(memory.bytes),
            MemoryKind::Reserve => *reserved = reserved.saturating_add(memory.bytes),
            MemoryKind::Release => *reserved = reserved.saturating_sub(memory.bytes),
        }
        let (series, value) = match memory.kind {
            MemoryKind::Alloc | MemoryKind::Free => ("memory in use", *in_use),
            MemoryKind::Reserve | MemoryKind::Release => ("memory reserved", *reserved),
        };
        self.count(pid, known.time(memory.time), series, &[("bytes", value as f64)])
    }

    fn span(&mut self, known: &Known<'_>, span: &Span) -> Result<()> {
        let row = self.row(known, Row::Thread(span.thread))?;
        let (kind, own) = (span_name(span.kind), known.text(span.name));
        let name = match (own, span.number) {
            ("", 0) => kind.to_owned(),
            ("", number) => format!("{kind} {number}"),
            (own, _) => own.to_owned(),
        };
        let rest = format!("\"name\":{},\"cat\":\"{kind}\"", json(&name));
        let time = span.end.saturating_sub(span.start);
        self.slice(row, known.time(span.start), time, &rest)
    }

    fn instant(&mut self, known: &Known<'_>, instant: &Instant) -> Result<()> {
        let (pid, tid) = self.row(known, Row::Thread(instant.thread))?;
        self.event()?;
        self.out.write(format_args!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"name\":{},\"cat\":\"{}\"}}",
            Micros(known.time(instant.time)),
            json(known.text(instant.text)),
            if instant.failure { "error" } else { "mark" }
        ))
    }

    fn counter(&mut self, known: &Known<'_>, time: u64, name: TextId, value: f64) -> Result<()> {
        self.count(
            self.host(),
            known.time(time),
            known.text(name),
            &[("value", value)],
        )
    }

    fn recorded(&mut self, known: &Known<'_>) -> Result<()> {
        for (source, count) in &known.survey.lost {
            let (pid, tid) = self.row(known, Row::Thread(u32::MAX))?;
            self.event()?;
            self.out.write(format_args!(
                "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"name\":{},\"cat\":\"lost\"}}",
                Micros(known.time(known.survey.start.time)),
                json(&format!("lost {count} events of {source}: a buffer was full"))
            ))?;
        }
        Ok(())
    }
}

impl Timeline {
    /// The number of an arrow: one of a run in all recordings.
    fn flow(&self, correlation: u64) -> String {
        format!(
            "{:#x}",
            (u64::from(self.recordings) << 48).wrapping_add(correlation)
        )
    }
}
