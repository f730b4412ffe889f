//! What a recording says, in the words of tests.

use crate::observe::recording::*;
use std::collections::BTreeMap;
use std::path::Path;

/// A file, read whole. Reading asserts that what is referred to was there before.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) start: Option<Start>,
    texts: BTreeMap<TextId, String>,
    places: BTreeMap<PlaceId, Place>,
    threads: BTreeMap<u32, String>,
    pub(super) devices: Vec<Device>,
    streams: BTreeMap<u32, u32>,
    pub(super) programs: BTreeMap<u32, Program>,
    pub(super) ops: Vec<Op>,
    pub(super) runs: Vec<Run>,
    pub(super) commands: Vec<Command>,
    pub(super) memory: Vec<Memory>,
    pub(super) spans: Vec<Span>,
    pub(super) marks: Vec<String>,
    pub(super) counters: Vec<(String, f64)>,
    pub(super) failures: Vec<String>,
    pub(super) lost: u64,
    pub(super) is_ended: bool,
    pub(super) cut: Option<Cut>,
}

impl Recording {
    /// That of a rank's folder.
    pub(super) fn read(folder: &Path) -> Recording {
        let file = std::fs::File::open(folder.join("recording.tw")).unwrap();
        let mut reader = Reader::new(std::io::BufReader::new(file)).unwrap();
        let mut recording = Recording::default();
        for record in reader.by_ref() {
            assert!(!recording.is_ended, "{record:?} behind the end");
            recording.add(record);
        }
        recording.cut = reader.cut().cloned();
        recording
    }

    fn knows_text(&self, id: TextId) {
        assert!(id == 0 || self.texts.contains_key(&id), "text {id}");
    }

    fn know_texts(&self, ids: [TextId; 3]) {
        ids.into_iter().for_each(|id| self.knows_text(id));
    }

    fn knows_place(&self, id: PlaceId) {
        assert!(id == 0 || self.places.contains_key(&id), "place {id}");
    }

    fn knows_thread(&self, id: u32) {
        assert!(self.threads.contains_key(&id), "thread {id}");
    }

    fn knows_stream(&self, id: u32) {
        assert!(id == 0 || self.streams.contains_key(&id), "stream {id}");
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Start(start) => assert!(self.start.replace(start).is_none()),
            Record::Text { id, text } => assert!(self.texts.insert(id, text).is_none()),
            Record::Thread { id, name } => {
                self.knows_text(name);
                assert!(self.threads.insert(id, self.text(name)).is_none());
            }
            Record::Device(device) => {
                self.know_texts([device.target, device.name, device.unmeasured]);
                self.devices.push(device);
            }
            Record::Stream { id, device, name } => {
                self.knows_text(name);
                assert!(self.devices.iter().any(|known| known.id == device));
                assert!(self.streams.insert(id, device).is_none());
            }
            Record::Place(place) => {
                self.know_texts([place.op, place.scope, place.file]);
                assert!(self.places.insert(place.id, place).is_none());
            }
            Record::Program(program) => {
                self.knows_text(program.name);
                for node in &program.nodes {
                    self.knows_text(node.kernel);
                    self.knows_text(node.shape);
                    assert!(!node.parts.is_empty());
                    node.parts.iter().for_each(|part| self.knows_place(part.place));
                }
                assert!(self.programs.insert(program.id, program).is_none());
            }
            Record::Op(op) => {
                self.knows_thread(op.thread);
                self.knows_place(op.place);
                self.knows_text(op.operands);
                assert!(op.start <= op.end);
                self.ops.push(op);
            }
            Record::Run(run) => {
                self.knows_thread(run.thread);
                self.knows_place(run.place);
                self.knows_stream(run.stream);
                assert!(run.program == 0 || self.programs.contains_key(&run.program));
                assert!(run.start <= run.end && run.correlation != 0);
                self.runs.push(run);
            }
            Record::Command(command) => {
                self.knows_stream(command.stream);
                assert!(command.start <= command.end);
                self.commands.push(command);
            }
            Record::Memory(memory) => self.memory.push(memory),
            Record::Span(span) => {
                self.knows_thread(span.thread);
                self.knows_text(span.name);
                assert!(span.start <= span.end);
                self.spans.push(span);
            }
            Record::Mark { thread, name, .. } => {
                self.knows_thread(thread);
                self.knows_text(name);
                self.marks.push(self.text(name));
            }
            Record::Counter { name, value, .. } => {
                self.knows_text(name);
                self.counters.push((self.text(name), value));
            }
            Record::Failure { thread, text, .. } => {
                self.knows_thread(thread);
                self.knows_text(text);
                self.failures.push(self.text(text));
            }
            Record::Lost { source, count } => {
                self.knows_text(source);
                self.lost += count;
            }
            Record::End { .. } => self.is_ended = true,
        }
    }

    pub(super) fn text(&self, id: TextId) -> String {
        self.texts.get(&id).cloned().unwrap_or_default()
    }

    /// `Default/head/exp-op2`.
    pub(super) fn name(&self, place: PlaceId, call: u32) -> String {
        let Some(place) = self.places.get(&place) else {
            return String::new();
        };
        let name = format!("{}/{}", self.text(place.scope), self.text(place.op));
        match call {
            0 => name,
            call => format!("{name}-op{call}"),
        }
    }

    /// The user's file and line of a place.
    pub(super) fn line(&self, place: PlaceId) -> (String, u32) {
        let place = &self.places[&place];
        (self.text(place.file), place.line)
    }

    /// The names of the ops that were called, in order.
    pub(super) fn called(&self) -> Vec<String> {
        self.ops.iter().map(|op| self.name(op.place, op.call)).collect()
    }

    /// The names of what runs of programs computed, in order of the names, each once.
    pub(super) fn computed(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for run in &self.runs {
            if run.place != 0 {
                names.push(self.name(run.place, run.call));
            } else if let Some(program) = self.programs.get(&run.program) {
                let parts = program.nodes.iter().flat_map(|node| &node.parts);
                names.extend(parts.map(|part| self.name(part.place, part.call)));
            }
        }
        names.sort();
        names.dedup();
        names
    }
}
