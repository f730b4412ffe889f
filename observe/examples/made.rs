//! Makes a recording of a training that never ran, with as many kernels as asked for: `made DIR KERNELS [SLOWED]`.
//! The kernels of the node SLOWED take three times as long.
//!
//! Readers are measured and tested with it: it has every kind of record, two streams, work side by side, fused ops and memory.
#![allow(clippy::print_stdout, reason = "an example")]

use std::fs::{self, File};
use std::io;
use std::path::Path;
use thalweg::observe::recording::*;

/// Kernels of a step.
const NODES: u64 = 20;
const LAYERS: [&str; 5] = ["conv1", "conv2", "fc1", "fc2", "fc3"];

/// Texts in the order of their numbers, which count from 1.
const TEXTS: [&str; 20] = [
    "cpu:0",
    "a processor <b>&amp;</b>",
    "main",
    "copies",
    "src/net.rs",
    "train_step",
    "loss",
    "half of it",
    "conv2d",
    "relu",
    "linear",
    "adam",
    "Default/conv1",
    "Default/conv2",
    "Default/fc1",
    "Default/fc2",
    "Default/fc3",
    "map relu",
    "matmul",
    "f32[32, 16, 24, 24]",
];

fn text(text: &str) -> TextId {
    TEXTS
        .iter()
        .position(|known| *known == text)
        .map_or(0, |at| at as TextId + 1)
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn head() -> Vec<Record> {
    let mut records = vec![Record::Start(Start {
        time: 1_000_000,
        unix: 1_790_000_000_000_000_000,
        pid: 4711,
        rank: 0,
        program: "made".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: String::new(),
    })];
    records.extend(TEXTS.iter().zip(1..).map(|(text, id)| Record::Text {
        id,
        text: (*text).to_owned(),
    }));
    records.push(Record::Thread {
        id: 1,
        name: text("main"),
    });
    records.push(Record::Device(Device {
        id: 1,
        target: text("cpu:0"),
        name: text("a processor <b>&amp;</b>"),
        unmeasured: 0,
    }));
    records.push(Record::Stream {
        id: 1,
        device: 1,
        name: 0,
    });
    records.push(Record::Stream {
        id: 2,
        device: 1,
        name: text("copies"),
    });
    let place = |id: usize, op: &str, scope: &str, line| {
        Record::Place(Place {
            id: id as PlaceId,
            op: text(op),
            scope: text(scope),
            file: text("src/net.rs"),
            line,
        })
    };
    for (at, layer) in LAYERS.iter().enumerate() {
        let (scope, op) = (
            format!("Default/{layer}"),
            if at < 2 { "conv2d" } else { "linear" },
        );
        records.push(place(2 * at + 1, op, &scope, 40 + 2 * at as u32));
        records.push(place(2 * at + 2, "relu", &scope, 41 + 2 * at as u32));
    }
    records.push(place(11, "adam", "", 0));
    records.push(Record::Program(Program {
        id: 1,
        device: 1,
        name: text("train_step"),
        nodes: (0..NODES).map(node).collect(),
    }));
    records
}

fn node(at: u64) -> Node {
    let place = 1 + (at % 11) as PlaceId;
    let part = |place, cost| Part {
        place,
        call: at as u32 + 1,
        cost,
    };
    Node {
        kind: CommandKind::Launch,
        kernel: text(if at.is_multiple_of(2) {
            "matmul"
        } else {
            "map relu"
        }),
        shape: text("f32[32, 16, 24, 24]"),
        flops: 1_000_000 * (at + 1),
        bytes: 10_000 * (at + 1),
        parts: if at.is_multiple_of(3) {
            vec![part(place, 90), part(place % 11 + 1, 10)]
        } else {
            vec![part(place, 1)]
        },
    }
}

/// A step that begins at `begin`; returns when it ends. The host is done long before the device.
fn step(number: u64, begin: u64, slowed: Option<u64>, dice: &mut Dice, frame: &mut Frame) -> u64 {
    let correlation = 10 * number;
    let span = |kind, number, start, end| {
        Record::Span(Span {
            thread: 1,
            kind,
            name: 0,
            number,
            start,
            end,
        })
    };
    frame.push(&span(SpanKind::Data, 0, begin, begin + 20_000));
    frame.push(&Record::Op(Op {
        thread: 1,
        start: begin + 21_000,
        end: begin + 21_000 + dice.below(900),
        place: 1,
        call: 1,
        operands: text("f32[32, 16, 24, 24]"),
    }));
    frame.push(&Record::Run(Run {
        correlation,
        thread: 1,
        stream: 1,
        start: begin + 22_000,
        end: begin + 40_000,
        program: 1,
        place: 0,
        call: 0,
    }));
    let memory = |kind, time| {
        Record::Memory(Memory {
            time,
            device: 1,
            kind,
            buffer: number,
            bytes: 1 << 20,
            correlation,
        })
    };
    frame.push(&memory(MemoryKind::Alloc, begin + 23_000));
    let mut time = begin + 30_000;
    for node in 0..NODES {
        // Every fifth runs beside the one before.
        let row = u32::from(node % 5 == 4);
        let start = time + dice.below(2_000);
        let factor = if slowed == Some(node) { 3 } else { 1 };
        let end = start + factor * (500 + dice.below(if node % 2 == 0 { 50_000 } else { 5_000 }));
        frame.push(&Record::Command(Command {
            correlation,
            node: node as u32,
            stream: 1,
            row,
            queued: begin + 24_000,
            start,
            end,
            exact: node != 7,
            ..Command::default()
        }));
        if row == 0 {
            time = end;
        }
    }
    frame.push(&memory(MemoryKind::Free, time));
    if number.is_multiple_of(100) {
        frame.push(&Record::Command(Command {
            correlation: 0,
            kind: CommandKind::Copy,
            stream: 2,
            start: begin,
            end: begin + 9_000,
            bytes: 1 << 20,
            exact: true,
            ..Command::default()
        }));
    }
    frame.push(&Record::Counter {
        time,
        name: text("loss"),
        value: 3.0 / number as f64,
    });
    frame.push(&span(SpanKind::Step, number, begin, begin + 60_000));
    time.max(begin + 60_000)
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(Ok(kernels))) = (args.next(), args.next().map(|text| text.parse::<u64>())) else {
        return Err(io::Error::other("usage: made DIR KERNELS [SLOWED]"));
    };
    let slowed = args.next().and_then(|text| text.parse().ok());
    fs::create_dir_all(&folder)?;
    let path = Path::new(&folder).join("recording.tw");
    let mut writer = Writer::new(File::create(&path)?)?;
    let (mut frame, mut dice, mut time) = (Frame::default(), Dice(7), 1_000_000);
    head().iter().for_each(|record| frame.push(record));
    let steps = kernels.div_ceil(NODES);
    for number in 1..=steps {
        time = step(number, time, slowed, &mut dice, &mut frame);
        if number == steps / 2 {
            frame.push(&Record::Mark {
                thread: 1,
                time,
                name: text("half of it"),
            });
        }
        if frame.bytes() > 1 << 20 {
            writer.write(&mut frame)?;
        }
    }
    frame.push(&Record::End { time });
    writer.write(&mut frame)?;
    println!(
        "{}: {} kernels, {} bytes",
        path.display(),
        steps * NODES,
        writer.written()
    );
    Ok(())
}
