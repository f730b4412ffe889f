//! A run: what its recordings become in the page.

use crate::error::Result;
use crate::known::Known;
use crate::page::columns::{Heap, Place, number, signed};
use crate::page::host::Thread;
use crate::page::kernels::{KernelRow, Kernels};
use crate::page::labels::{Label, Labels};
use crate::page::lane::{Blocks, Lane, Slice};
use crate::page::memory::{DeviceMemories, DeviceMemory};
use crate::page::summaries::SummaryIndex;
use crate::page::texts::Texts;
use crate::pass::{self, Instant, View};
use crate::survey::Survey;
use crate::view::ops::{OpRow, Ops};
use crate::view::steps::{StepRow, Steps};
use crate::work::Work;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use thalweg::observe::recording::{Command, Memory, Op, Run, Span, TextId};

/// Most marks and failures that are shown of a recording.
const INSTANTS: usize = 10_000;

/// What the page knows of a run. The columns lie in the heap.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RunIndex {
    pub(crate) name: String,
    pub(crate) folder: String,
    /// Why the recording cannot be shown; empty where it can, and where there is none beside summaries.
    pub(crate) error: String,
    pub(crate) notes: Vec<String>,
    pub(crate) lost: u64,
    /// Whether every recording ended as it should; others may still grow.
    pub(crate) ended: bool,
    /// Wall-clock time in nanoseconds since 1970 at which times count from 0.
    pub(crate) origin: u64,
    /// When the last event ended.
    pub(crate) end: u64,
    pub(crate) kernels_run: u64,
    pub(crate) device_time: u64,
    /// None where the folder has summaries alone.
    pub(crate) recordings: Vec<RecordingIndex>,
    pub(crate) summaries: Vec<SummaryIndex>,
    /// Logs, saved graphs and dumps.
    pub(crate) texts: Texts,
    pub(crate) tracks: Vec<Track>,
    pub(crate) labels: Vec<Label>,
    pub(crate) ops: Vec<OpRow>,
    pub(crate) kernels: Vec<KernelRow>,
    pub(crate) memory: Vec<DeviceMemory>,
    pub(crate) counters: Vec<Counter>,
    pub(crate) step_count: usize,
    /// Columns of the steps by name. A start is the difference to that of the step before.
    pub(crate) steps: BTreeMap<&'static str, Place>,
}

/// A recording of a run: one of each rank.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RecordingIndex {
    path: String,
    program: String,
    rank: u32,
    pid: u32,
    version: String,
    settings: String,
    devices: Vec<String>,
    instants: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    time: u64,
    text: String,
    failure: bool,
}

/// A row of the timeline.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Track {
    /// The process or the device.
    group: String,
    name: String,
    /// `host` or `device`.
    kind: &'static str,
    /// How far below the first row of its thread it lies.
    depth: usize,
    blocks: Blocks,
}

/// A figure of the user's that changes in time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Counter {
    /// The group of the process in the timeline.
    group: String,
    name: String,
    rank: u32,
    times: Place,
    values: Place,
}

impl RunIndex {
    /// Whether there is something to show.
    pub(crate) fn shows(&self) -> bool {
        self.error.is_empty() || !self.summaries.is_empty() || !self.texts.is_empty()
    }

    /// Reads the recordings of a run.
    pub(crate) fn read(paths: &[PathBuf], heap: &mut Heap) -> Result<RunIndex> {
        let surveys: Vec<Survey> = (paths.iter())
            .map(|path| Survey::of(path))
            .collect::<Result<_>>()?;
        let origin = surveys.iter().map(|survey| survey.start.unix).min().unwrap_or(0);
        let lost = (surveys.iter().flat_map(|survey| survey.lost.values()))
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        let mut events = Events {
            heap,
            run: RunIndex {
                notes: crate::derive::notes(&surveys),
                lost,
                ended: surveys.iter().all(|survey| survey.ended),
                origin,
                kernels_run: surveys.iter().map(|survey| survey.kernels).sum(),
                ..RunIndex::default()
            },
            labels: Labels::default(),
            kernels: Kernels::default(),
            recording: Recording::default(),
            several: surveys.len() > 1,
        };
        // The recordings are read by two threads, because what the figures take lasts as long as what the rows take.
        let (ops, steps) = std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, || figures(&surveys, origin));
            for survey in &surveys {
                pass::run(survey, origin, &mut [&mut events])?;
            }
            match other {
                Ok(other) => other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => figures(&surveys, origin),
            }
        })?;
        let Events {
            heap,
            mut run,
            labels,
            kernels,
            ..
        } = events;
        let rows = steps.finish();
        (run.step_count, run.steps) = (rows.len(), put_steps(&rows, heap));
        (run.device_time, run.ops) = (ops.device_time(), ops.finish());
        run.kernels = kernels.finish(&labels.all);
        run.labels = labels.all;
        Ok(run)
    }
}

/// The ops and the steps of recordings.
fn figures(surveys: &[Survey], origin: u64) -> Result<(Ops, Steps)> {
    let (mut ops, mut steps) = (Ops::default(), Steps::default());
    for survey in surveys {
        pass::run(survey, origin, &mut [&mut ops, &mut steps])?;
    }
    Ok((ops, steps))
}

fn put_steps(rows: &[StepRow], heap: &mut Heap) -> BTreeMap<&'static str, Place> {
    type Column = fn(&StepRow) -> u64;
    let columns: [(&str, Column); 10] = [
        ("rank", |row| u64::from(row.rank)),
        ("step", |row| row.step),
        ("time", StepRow::time),
        ("data", |row| row.data),
        ("forward", |row| row.forward),
        ("backward", |row| row.backward),
        ("update", |row| row.update),
        ("communication", |row| row.communication),
        ("other", |row| row.other),
        ("idle", |row| row.idle),
    ];
    let (mut starts, mut last) = (Vec::new(), 0);
    for row in rows {
        // Ranks come after each other.
        signed(&mut starts, (row.start as i64).wrapping_sub(last));
        last = row.start as i64;
    }
    let mut places = BTreeMap::from([("start", heap.put(&starts))]);
    for (name, of) in columns {
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| number(&mut bytes, of(row)));
        places.insert(name, heap.put(&bytes));
    }
    places
}

/// The columns of the recording that is read.
#[derive(Default)]
struct Recording {
    threads: BTreeMap<u32, Thread>,
    /// By stream and row: lanes, where commands overlap.
    streams: BTreeMap<(u32, u32), Vec<Lane>>,
    memory: DeviceMemories,
    counters: BTreeMap<TextId, Vec<(f64, f64)>>,
    instants: Vec<Point>,
}

/// Makes the columns, recording by recording.
struct Events<'a> {
    heap: &'a mut Heap,
    run: RunIndex,
    labels: Labels,
    kernels: Kernels,
    recording: Recording,
    /// Whether there are several ranks, which names tell apart then.
    several: bool,
}

impl Events<'_> {
    fn slice(&mut self, known: &Known<'_>, start: u64, end: u64, label: u32, run: u64) -> Slice {
        let slice = Slice {
            start: known.time(start),
            end: known.time(end.max(start)),
            label,
            run: run as u32,
        };
        self.run.end = self.run.end.max(slice.end);
        slice
    }

    fn host(&mut self, known: &Known<'_>, thread: u32, times: (u64, u64), label: u32, run: u64) {
        let slice = self.slice(known, times.0, times.1, label, run);
        self.recording.threads.entry(thread).or_default().push(slice);
    }

    /// A lane that is free when a slice begins.
    fn lane(&mut self, command: &Command, start: u64) -> &mut Lane {
        let lanes = (self.recording.streams)
            .entry((command.stream, command.row))
            .or_default();
        let free = lanes.iter().position(|lane| lane.end() <= start);
        let at = free.unwrap_or(lanes.len());
        if free.is_none() {
            lanes.push(Lane::default());
        }
        &mut lanes[at]
    }

    fn track(&mut self, group: &str, name: String, kind: &'static str, depth: usize, lane: Lane) {
        self.run.tracks.push(Track {
            group: group.to_owned(),
            name,
            kind,
            depth,
            blocks: lane.put(self.heap),
        });
    }
}

/// `digits (rank 0)`; the rank where there are several.
fn group(known: &Known<'_>, name: &str, several: bool) -> String {
    let name = if name.is_empty() { "host" } else { name };
    match several {
        true => format!("{name} (rank {})", known.rank()),
        false => name.to_owned(),
    }
}

impl View for Events<'_> {
    fn recording(&mut self, _: &Known<'_>) -> Result<()> {
        self.labels.recording();
        self.recording = Recording::default();
        Ok(())
    }

    fn op(&mut self, known: &Known<'_>, op: &Op, _: u64) -> Result<()> {
        let label = self.labels.op(known, op);
        self.host(known, op.thread, (op.start, op.end), label, 0);
        Ok(())
    }

    fn run(&mut self, known: &Known<'_>, run: &Run) -> Result<()> {
        let label = self.labels.run(known, run);
        self.host(known, run.thread, (run.start, run.end), label, run.correlation);
        Ok(())
    }

    fn span(&mut self, known: &Known<'_>, span: &Span) -> Result<()> {
        let label = self.labels.span(known, span);
        self.host(known, span.thread, (span.start, span.end), label, span.number);
        Ok(())
    }

    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        let label = self.labels.command(known, work);
        self.kernels.add(&self.labels.all, label, work.time());
        let command = work.command;
        let slice = self.slice(known, command.start, command.end, label, command.correlation);
        self.lane(command, slice.start).push(slice);
        Ok(())
    }

    fn memory(&mut self, known: &Known<'_>, memory: &Memory) -> Result<()> {
        self.run.end = self.run.end.max(known.time(memory.time));
        self.recording.memory.add(known, memory);
        Ok(())
    }

    fn instant(&mut self, known: &Known<'_>, instant: &Instant) -> Result<()> {
        let time = known.time(instant.time);
        self.run.end = self.run.end.max(time);
        if self.recording.instants.len() < INSTANTS {
            self.recording.instants.push(Point {
                time,
                text: known.text(instant.text).to_owned(),
                failure: instant.failure,
            });
        }
        Ok(())
    }

    fn counter(&mut self, known: &Known<'_>, time: u64, name: TextId, value: f64) -> Result<()> {
        let time = known.time(time);
        self.run.end = self.run.end.max(time);
        let values = self.recording.counters.entry(name).or_default();
        values.push((time as f64, value));
        Ok(())
    }

    fn recorded(&mut self, known: &Known<'_>) -> Result<()> {
        let recording = std::mem::take(&mut self.recording);
        let start = &known.survey.start;
        let several = self.several;
        let host = group(known, &start.program, several);
        for (thread, rows) in recording.threads {
            for (depth, lane) in rows.rows().into_iter().enumerate() {
                self.track(&host, known.thread_name(thread), "host", depth, lane);
            }
        }
        for ((stream, row), lanes) in recording.streams {
            let target = known.target(known.device_of(stream));
            for (depth, lane) in lanes.into_iter().enumerate() {
                let mut name = known.stream_name(stream);
                if row > 0 {
                    name = format!("{name}, row {row}");
                }
                self.track(&group(known, &target, several), name, "device", depth, lane);
            }
        }
        let memory = (recording.memory).put(known, |device| group(known, device, several), self.heap);
        self.run.memory.extend(memory);
        for (name, mut values) in recording.counters {
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.run.counters.push(Counter {
                group: host.clone(),
                name: known.text(name).to_owned(),
                rank: known.rank(),
                times: self.heap.floats(values.iter().map(|(time, _)| *time)),
                values: self.heap.floats(values.iter().map(|(_, value)| *value)),
            });
        }
        let mut devices: Vec<_> = known.devices.values().collect();
        devices.sort_by_key(|device| device.id);
        let device = |device: &thalweg::observe::recording::Device| {
            format!("{} {}", known.target(device.id), known.text(device.name))
        };
        self.run.recordings.push(RecordingIndex {
            path: known.survey.path.display().to_string(),
            program: start.program.clone(),
            rank: start.rank,
            pid: start.pid,
            version: start.version.clone(),
            settings: start.settings.clone(),
            devices: devices.into_iter().map(device).collect(),
            instants: recording.instants,
        });
        Ok(())
    }
}
