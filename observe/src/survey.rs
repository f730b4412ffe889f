//! The first look at a recording: what the second one must know from the start.

use crate::error::{Error, Result};
use crate::peaks::Peaks;
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use thalweg::observe::recording::{Cut, Memory, MemoryKind, Reader, Record, Span, SpanKind, Start, TextId};

/// A recording, and what its first look gave.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) path: PathBuf,
    pub(crate) start: Start,
    /// Steps of training, by their begin.
    pub(crate) steps: Vec<Span>,
    /// Data, forward, backward and update on the host, by their begin.
    pub(crate) phases: Vec<Span>,
    /// Where most memory was in use, of each device.
    pub(crate) peaks: BTreeMap<u32, Peak>,
    /// Events that were not recorded, by whose they are.
    pub(crate) lost: BTreeMap<String, u64>,
    pub(crate) errors: Vec<String>,
    /// What devices can do, by target.
    can_do: BTreeMap<String, Peaks>,
    /// Devices without times, and why.
    pub(crate) unmeasured: Vec<(String, String)>,
    /// The scopes with which forward begins and whose gradient ends backward, where the profile named them.
    pub(crate) points: Points,
    pub(crate) cut: Option<Cut>,
    /// Whether it ends as it should.
    pub(crate) ended: bool,
    pub(crate) kernels: u64,
}

/// Scopes that bound forward and backward.
#[derive(Debug, Default)]
pub(crate) struct Points {
    forward: Option<String>,
    backward: Option<String>,
}

impl Points {
    /// Takes the mark of a profile: `fp_point layers.0`.
    fn add(&mut self, mark: &str) {
        if let Some(part) = mark.strip_prefix("fp_point ") {
            self.forward = Some(format!("Default/{}", part.replace('.', "/")));
        } else if let Some(part) = mark.strip_prefix("bp_point ") {
            self.backward = Some(format!("Gradients/Default/{}", part.replace('.', "/")));
        }
    }

    /// Whether a scope is a point or in it.
    pub(crate) fn has(&self, scope: &str) -> bool {
        let mut points = self.forward.iter().chain(&self.backward);
        points.any(|point| {
            scope
                .strip_prefix(point.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// The moment at which most memory of a device was in use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Peak {
    /// Number of the record among those of memory.
    pub(crate) record: u64,
    pub(crate) time: u64,
    pub(crate) bytes: u64,
}

/// Bytes of each device's buffers.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    bytes: HashMap<u32, u64>,
}

impl InUse {
    /// The bytes in use behind `memory`.
    pub(crate) fn after(&mut self, memory: &Memory) -> u64 {
        let bytes = self.bytes.entry(memory.device).or_default();
        match memory.kind {
            MemoryKind::Alloc => *bytes = bytes.saturating_add(memory.bytes),
            // What was taken before the recording began is not known.
            MemoryKind::Free => *bytes = bytes.saturating_sub(memory.bytes),
            MemoryKind::Reserve | MemoryKind::Release => {}
        }
        *bytes
    }
}

/// Opens a recording.
pub(crate) fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let file = File::open(path).map_err(Error::reading(path))?;
    Reader::new(BufReader::with_capacity(1 << 20, file)).map_err(Error::reading(path))
}

impl Survey {
    pub(crate) fn of(path: &Path) -> Result<Survey> {
        let mut reader = open(path)?;
        let mut survey = Survey {
            path: path.to_owned(),
            ..Survey::default()
        };
        let mut seen = Seen::default();
        for record in reader.by_ref() {
            survey.add(record, &mut seen);
        }
        survey.cut = reader.cut().cloned();
        survey.steps.sort_by_key(|span| span.start);
        survey.phases.sort_by_key(|span| span.start);
        for (source, count) in seen.lost {
            let source = seen.texts.get(&source).cloned().unwrap_or_default();
            let lost = survey.lost.entry(source).or_default();
            *lost = lost.saturating_add(count);
        }
        survey.errors = (seen.failures.iter())
            .map(|text| seen.texts.get(text).cloned().unwrap_or_default())
            .collect();
        let text = |id: &TextId| seen.texts.get(id).cloned().unwrap_or_default();
        survey.unmeasured = (seen.unmeasured.iter())
            .map(|(device, why)| (text(device), text(why)))
            .collect();
        Ok(survey)
    }

    fn add(&mut self, record: Record, seen: &mut Seen) {
        match record {
            Record::Start(start) => self.start = start,
            Record::Text { id, text } => drop(seen.texts.insert(id, text)),
            Record::Command(_) => self.kernels += 1,
            Record::Memory(memory) => {
                let bytes = seen.in_use.after(&memory);
                let peak = self.peaks.entry(memory.device).or_default();
                if bytes > peak.bytes {
                    *peak = Peak {
                        record: seen.memory,
                        time: memory.time,
                        bytes,
                    };
                }
                seen.memory += 1;
            }
            Record::Span(span) => match span.kind {
                SpanKind::Step => self.steps.push(span),
                SpanKind::Data | SpanKind::Forward | SpanKind::Backward | SpanKind::Update => {
                    self.phases.push(span);
                }
                SpanKind::Range
                | SpanKind::Scope
                | SpanKind::Epoch
                | SpanKind::Evaluation
                | SpanKind::Callback
                | SpanKind::Checkpoint
                | SpanKind::Trace
                | SpanKind::Rewrite
                | SpanKind::Lower
                | SpanKind::Compile
                | SpanKind::Wait => {}
            },
            Record::Mark { name, .. } => {
                if let Some(mark) = seen.texts.get(&name) {
                    self.points.add(mark);
                }
            }
            Record::Counter { name, value, .. } => {
                if let Some(name) = seen.texts.get(&name)
                    && let Some((target, _)) = name.split_once(" peak ")
                {
                    let peaks = self.can_do.entry(target.to_owned()).or_default();
                    peaks.add(name, value);
                }
            }
            Record::Failure { text, .. } => seen.failures.push(text),
            Record::Lost { source, count } => {
                let lost = seen.lost.entry(source).or_default();
                *lost = lost.saturating_add(count);
            }
            Record::End { .. } => self.ended = true,
            Record::Device(device) if device.unmeasured != 0 => {
                seen.unmeasured.push((device.target, device.unmeasured));
            }
            Record::Device(_)
            | Record::Thread { .. }
            | Record::Stream { .. }
            | Record::Place(_)
            | Record::Program(_)
            | Record::Op(_)
            | Record::Run(_) => {}
        }
    }

    /// What the device of a target can do.
    pub(crate) fn peaks_of(&self, target: &str) -> Peaks {
        self.can_do.get(target).copied().unwrap_or_default()
    }

    /// The step in which `time` is, of the same thread if there is one.
    pub(crate) fn step_at(&self, thread: u32, time: u64) -> Option<u32> {
        inside(&self.steps, thread, time).and_then(|at| u32::try_from(at).ok())
    }

    /// What the host did at `time`.
    pub(crate) fn phase_at(&self, thread: u32, time: u64) -> Option<SpanKind> {
        inside(&self.phases, thread, time).map(|at| self.phases[at].kind)
    }
}

/// What texts stand for, until the end.
#[derive(Default)]
struct Seen {
    texts: HashMap<TextId, String>,
    lost: HashMap<TextId, u64>,
    failures: Vec<TextId>,
    unmeasured: Vec<(TextId, TextId)>,
    in_use: InUse,
    memory: u64,
}

/// The span in which `time` is, the last that began; one of `thread` goes before others. Spans of several threads lie side by side, so a
/// few before the last are looked at.
fn inside(spans: &[Span], thread: u32, time: u64) -> Option<usize> {
    let until = spans.partition_point(|span| span.start <= time);
    let candidates = (until.saturating_sub(16)..until).rev();
    let mut holding = candidates.filter(|&at| time < spans[at].end);
    let first = holding.next()?;
    if spans[first].thread == thread {
        return Some(first);
    }
    holding.find(|&at| spans[at].thread == thread).or(Some(first))
}
