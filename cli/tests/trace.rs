//! `thalweg trace` as a user calls it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::Place;
use std::fs;
use std::path::Path;
use thalweg::observe::recording::{
    Command, CommandKind, Frame, Node, Part, Program, Record, Run, Span, SpanKind, Start, Writer,
};

/// A step of one op on one device, in frames of two records.
fn record(folder: &Path) -> Vec<u8> {
    let text = |id, text: &str| Record::Text {
        id,
        text: text.to_owned(),
    };
    let records = [
        Record::Start(Start::default()),
        text(1, "matmul"),
        text(2, "Default/fc"),
        text(3, "src/net.rs"),
        text(4, "cpu:0"),
        Record::Device(thalweg::observe::recording::Device {
            id: 1,
            target: 4,
            name: 0,
            unmeasured: 0,
        }),
        Record::Stream {
            id: 1,
            device: 1,
            name: 0,
        },
        Record::Place(thalweg::observe::recording::Place {
            id: 1,
            op: 1,
            scope: 2,
            file: 3,
            line: 48,
        }),
        Record::Program(Program {
            id: 1,
            device: 1,
            name: 0,
            nodes: vec![Node {
                kernel: 1,
                parts: vec![Part {
                    place: 1,
                    call: 1,
                    cost: 1,
                }],
                ..Node::default()
            }],
        }),
        Record::Run(Run {
            correlation: 1,
            start: 1_000,
            end: 2_000,
            program: 1,
            stream: 1,
            ..Run::default()
        }),
        Record::Command(Command {
            correlation: 1,
            kind: CommandKind::Launch,
            stream: 1,
            start: 2_000,
            end: 5_002_000,
            exact: true,
            ..Command::default()
        }),
        Record::Span(Span {
            kind: SpanKind::Step,
            number: 1,
            start: 0,
            end: 3_000,
            ..Span::default()
        }),
        Record::End { time: 6_000_000 },
    ];
    let (mut file, mut frame) = (Vec::new(), Frame::default());
    let mut writer = Writer::new(&mut file).unwrap();
    for some in records.chunks(2) {
        some.iter().for_each(|record| frame.push(record));
        writer.write(&mut frame).unwrap();
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("recording.tw"), &file).unwrap();
    file
}

#[test]
fn a_recording_becomes_a_table_and_files() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    record(&folder.path().join("rank_0"));
    let path = folder.path().to_str().unwrap();
    let run = place.run(&["trace", path]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert_eq!(
        run.out,
        format!(
            "\
step 1  5.00 ms   forward 5.00  idle 0.00
op                 calls  device ms    share  mean µs  host ms  where
Default/fc/matmul      1      5.000  100.0 %   5000.0        -  src/net.rs:48
function               1          -        -   5000.0    0.001
wrote {path}/trace.json for ui.perfetto.dev, and tables beside it
"
        )
    );
    for file in [
        "trace.json",
        "op_table.csv",
        "op_table.json",
        "kernels.csv",
        "step_trace.csv",
        "memory.csv",
        "stacks.collapsed",
        "speedscope.json",
    ] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    let other = folder.path().join("made/for/this");
    let run = place.run(&[
        "trace",
        path,
        "--out",
        other.to_str().unwrap(),
        "--top",
        "1",
        "--sort",
        "name",
    ]);
    assert_eq!(run.code, Some(0));
    assert!(run.out.contains("… 1 more op"), "{}", run.out);
    assert!(other.join("trace.json").is_file());
}

#[test]
fn what_was_cut_is_shown_and_repaired() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let whole = record(folder.path());
    let (path, file) = (
        folder.path().to_str().unwrap(),
        folder.path().join("recording.tw"),
    );
    fs::write(&file, &whole[..whole.len() - 3]).unwrap();
    let run = place.run(&["trace", path]);
    assert_eq!(run.code, Some(0));
    assert!(
        run.out.contains("Default/fc/matmul") && run.out.contains("`--repair` cuts it there"),
        "{}",
        run.out
    );
    let timeline = folder.path().join("trace.json");
    let text = fs::read(&timeline).unwrap();
    fs::write(&timeline, &text[..text.len() / 2]).unwrap();
    let run = place.run(&["trace", "--repair", timeline.to_str().unwrap()]);
    assert_eq!(
        (run.code, run.out.contains("are cut off")),
        (Some(0), true),
        "{}{}",
        run.out,
        run.err
    );
    let closed: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(&timeline).unwrap()).unwrap();
    assert!(!closed.is_empty());
    let run = place.run(&["trace", "--repair", path]);
    assert_eq!((run.code, run.out.contains("are cut off")), (Some(0), true));
    assert!(!run.out.contains("`--repair` cuts it there"));
    assert!(fs::metadata(&file).unwrap().len() < whole.len() as u64 - 3);
}

#[test]
fn what_is_wrong_is_one_line() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let path = folder.path().to_str().unwrap();
    let wrong = |args: &[&str], code: i32, words: &str| {
        let run = place.run(args);
        assert_eq!((run.code, run.out.as_str()), (Some(code), ""), "{}", run.err);
        assert!(
            run.err.contains(words) && run.err.lines().count() <= 2,
            "{}",
            run.err
        );
    };
    wrong(
        &["trace", "/nowhere/at/all"],
        1,
        "/nowhere/at/all: there is no such folder",
    );
    wrong(&["trace", path], 1, "no recording.tw here");
    wrong(&["trace"], 2, "required");
    wrong(&["trace", path, "--sort", "colour"], 2, "device, host, calls");
    let file = folder.path().join("recording.tw");
    fs::write(&file, b"THALWEG\x03").unwrap();
    wrong(&["trace", path], 1, "version 3; this program reads version 1");
    fs::write(&file, b"{}").unwrap();
    wrong(&["trace", path, "--repair"], 1, "this is no recording");
}
