//! A recording by hand: four steps of a compiled training, and some eager ops before it.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use thalweg::observe::recording::*;

/// Nanoseconds of the process's clock at which it begins.
pub(crate) const BEGIN: u64 = 5_000_000_000_000;
/// Steps.
pub(crate) const STEPS: u64 = 4;
/// Nanoseconds from one step's begin to the next.
pub(crate) const STEP: u64 = 2_000_000;

/// Records that intern their texts.
#[derive(Default)]
pub(crate) struct Sample {
    pub(crate) records: Vec<Record>,
    texts: HashMap<String, u32>,
}

impl Sample {
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let next = self.texts.len() as u32 + 1;
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        self.texts.insert(text.to_owned(), next);
        self.records.push(Record::Text {
            id: next,
            text: text.to_owned(),
        });
        next
    }

    pub(crate) fn place(&mut self, id: u32, op: &str, scope: &str, line: u32) {
        let (op, scope, file) = (self.text(op), self.text(scope), self.text("src/net.rs"));
        self.records.push(Record::Place(Place {
            id,
            op,
            scope,
            file,
            line,
        }));
    }

    pub(crate) fn span(&mut self, thread: u32, kind: SpanKind, number: u64, start: u64, end: u64) {
        self.records.push(Record::Span(Span {
            thread,
            kind,
            name: 0,
            number,
            start,
            end,
        }));
    }

    /// The file, with `chunk` records in a frame.
    pub(crate) fn file(&self, chunk: usize) -> Vec<u8> {
        let (mut file, mut frame) = (Vec::new(), Frame::default());
        let mut writer = Writer::new(&mut file).unwrap();
        for some in self.records.chunks(chunk) {
            some.iter().for_each(|record| frame.push(record));
            writer.write(&mut frame).unwrap();
        }
        file
    }

    pub(crate) fn save(&self, folder: &Path) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let path = folder.join("recording.tw");
        std::fs::write(&path, self.file(50)).unwrap();
        path
    }

    /// The commands of the records.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.records.iter().filter_map(|record| match record {
            Record::Command(command) => Some(command),
            _ => None,
        })
    }
}

fn head(sample: &mut Sample, rank: u32) {
    sample.records.push(Record::Start(Start {
        time: BEGIN,
        unix: 1_790_000_000_000_000_000 + u64::from(rank) * 1_000_000,
        pid: 4711 + rank,
        rank,
        program: "lenet".to_owned(),
        version: "1.0.0".to_owned(),
        settings: String::new(),
    }));
    for (id, name) in [(0, "main"), (1, "loader \"1\"")] {
        let name = sample.text(name);
        sample.records.push(Record::Thread { id, name });
    }
    let (target, name) = (sample.text("cpu:0"), sample.text("AMD EPYC, 2 cores"));
    sample.records.push(Record::Device(Device {
        id: 1,
        target,
        name,
        unmeasured: 0,
    }));
    let copies = sample.text("copies");
    for (id, name) in [(1, 0), (2, copies)] {
        sample.records.push(Record::Stream { id, device: 1, name });
    }
    sample.place(1, "conv2d", "Default/conv1", 44);
    sample.place(2, "relu", "Default/conv1", 45);
    sample.place(3, "matmul", "Default/fc", 51);
    sample.place(4, "matmul", "Gradients/Default/fc", 51);
    sample.place(5, "conv2d", "Gradients/Default/conv1", 44);
    sample.place(6, "adam", "Update", 0);
    sample.place(7, "exp", "", 12);
    sample.place(8, "softmax, \"last\"", "", 13);
}

fn node(sample: &mut Sample, kernel: &str, flops: u64, parts: &[(u32, u32, u32)]) -> Node {
    let (kernel, shape) = (sample.text(kernel), sample.text("f32[32, 6, 24, 24]"));
    Node {
        kind: CommandKind::Launch,
        kernel,
        shape,
        flops,
        bytes: 4_000,
        parts: (parts.iter())
            .map(|(place, call, cost)| Part {
                place: *place,
                call: *call,
                cost: *cost,
            })
            .collect(),
    }
}

/// An eager op, whose kernel follows.
fn eager(sample: &mut Sample, correlation: u64, place: u32, start: u64) {
    let operands = sample.text("f32[3], f32[3]");
    let run = Run {
        correlation,
        thread: 0,
        stream: 1,
        start: start + 100,
        end: start + 900,
        program: 0,
        place,
        call: correlation as u32,
    };
    sample.records.push(Record::Run(run));
    sample.records.push(Record::Op(Op {
        thread: 0,
        start,
        end: start + 1_000,
        place,
        call: correlation as u32,
        operands,
    }));
    sample.records.push(Record::Command(Command {
        correlation,
        stream: 1,
        start: start + 500,
        end: start + 777,
        exact: true,
        ..Command::default()
    }));
}

fn step(sample: &mut Sample, number: u64, begin: u64) {
    let correlation = 100 + number;
    let memory = |kind, buffer, bytes, time| {
        Record::Memory(Memory {
            time,
            device: 1,
            kind,
            buffer,
            bytes,
            correlation,
        })
    };
    sample.span(0, SpanKind::Data, 0, begin, begin + 100_000);
    sample.records.push(Record::Run(Run {
        correlation,
        thread: 0,
        stream: 1,
        start: begin + 110_000,
        end: begin + 150_000,
        program: 1,
        place: 0,
        call: 0,
    }));
    sample.records.push(memory(
        MemoryKind::Alloc,
        number,
        1_000_000 * number,
        begin + 115_000,
    ));
    // Node, row, begin and end in µs: the last two run side by side.
    let commands = [
        (0, 0, 120, 420),
        (1, 0, 420, 520),
        (2, 0, 530, 731),
        (3, 0, 731, 1_031),
        (4, 1, 731, 931),
        (5, 0, 1_040, 1_090),
    ];
    for (node, row, from, to) in commands {
        sample.records.push(Record::Command(Command {
            correlation,
            node,
            stream: 1,
            row,
            queued: begin + 112_000,
            start: begin + from * 1_000,
            end: begin + to * 1_000 + u64::from(node) * u64::from(node > 3),
            exact: node != 1,
            ..Command::default()
        }));
    }
    sample.records.push(memory(
        MemoryKind::Free,
        number,
        1_000_000 * number,
        begin + 1_200_000,
    ));
    sample.span(0, SpanKind::Step, number, begin, begin + 1_500_000);
}

/// The recording of a rank.
pub(crate) fn lenet(rank: u32) -> Sample {
    let mut sample = Sample::default();
    head(&mut sample, rank);
    sample.records.push(Record::Memory(Memory {
        time: BEGIN + 1_000,
        device: 1,
        kind: MemoryKind::Reserve,
        buffer: 0,
        bytes: 64 << 20,
        correlation: 0,
    }));
    for at in 0..3 {
        eager(&mut sample, 1 + at, 7, BEGIN + 10_000 + at * 2_000);
    }
    // A call in which the three before lie.
    sample.records.push(Record::Op(Op {
        thread: 0,
        start: BEGIN + 10_000,
        end: BEGIN + 18_000,
        place: 8,
        call: 1,
        operands: 0,
    }));
    let nodes = vec![
        node(&mut sample, "conv2d", 6_000_000, &[(1, 1, 97), (2, 2, 3)]),
        node(&mut sample, "map relu", 100, &[(2, 3, 1)]),
        node(&mut sample, "matmul", 3_000_000, &[(3, 4, 2), (4, 4, 1)]),
        node(&mut sample, "conv2d", 6_000_000, &[(5, 1, 1)]),
        node(&mut sample, "matmul", 3_000_000, &[(4, 4, 1)]),
        node(&mut sample, "map adam", 100, &[(6, 9, 1)]),
    ];
    let name = sample.text("train_step");
    sample.records.push(Record::Program(Program {
        id: 1,
        device: 1,
        name,
        nodes,
    }));
    for number in 1..=STEPS {
        step(&mut sample, number, BEGIN + number * STEP);
    }
    sample.span(0, SpanKind::Epoch, 1, BEGIN + STEP, BEGIN + (STEPS + 1) * STEP);
    let loss = sample.text("loss");
    for at in 0..3_u64 {
        sample.records.push(Record::Counter {
            time: BEGIN + (at + 1) * STEP,
            name: loss,
            value: 2.5 / (at + 1) as f64,
        });
    }
    let mark = sample.text("half");
    sample.records.push(Record::Mark {
        thread: 0,
        time: BEGIN + 3 * STEP,
        name: mark,
    });
    sample.records.push(Record::Command(Command {
        correlation: 0,
        kind: CommandKind::Copy,
        stream: 2,
        start: BEGIN + 3 * STEP,
        end: BEGIN + 3 * STEP + 5_000,
        bytes: 4096,
        exact: true,
        ..Command::default()
    }));
    sample.records.push(Record::End {
        time: BEGIN + 20 * STEP,
    });
    sample
}
