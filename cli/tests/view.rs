//! `thalweg view` as a user calls it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::Place;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use thalweg::observe::recording::{Frame, Record, Span, SpanKind, Start, Writer as Recorder};
use thalweg_summary::{Data, Event, Value, Writer};

/// Two steps and a figure.
fn record(folder: &Path) {
    let step = |number, start, end| {
        Record::Span(Span {
            kind: SpanKind::Step,
            number,
            start,
            end,
            ..Span::default()
        })
    };
    let loss = |time, value| Record::Counter { time, name: 1, value };
    let (mut file, mut frame) = (Vec::new(), Frame::default());
    let mut writer = Recorder::new(&mut file).unwrap();
    for record in [
        Record::Start(Start::default()),
        Record::Text {
            id: 1,
            text: "loss\u{1b}[2J".to_owned(),
        },
        step(1, 0, 1_000_000),
        loss(1_000_000, 2.5),
        step(2, 1_000_000, 3_000_000),
        loss(3_000_000, 1.25),
        Record::End { time: 3_000_000 },
    ] {
        frame.push(&record);
    }
    writer.write(&mut frame).unwrap();
    fs::write(folder.join("recording.tw"), &file).unwrap();
}

/// A server that ends with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_run_is_served_until_it_is_stopped() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    record(folder.path());
    let path = folder.path().to_str().unwrap();
    let mut command = place.command(&["view", path, "--port", "0"]);
    let mut server = Server(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let out = server.0.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    let address = line
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    assert!(
        line.ends_with(&format!("/ shows {path}; Ctrl-C ends it\n")),
        "{line}"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("<title>thalweg view</title>"));
    // SAFETY: the process is a child that was not waited for, so its number is still its own.
    unsafe { libc::kill(i32::try_from(server.0.id()).unwrap(), libc::SIGINT) };
    assert!(!server.0.wait().unwrap().success(), "Ctrl-C ends it");
}

#[test]
fn a_page_is_one_file() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    record(folder.path());
    let (path, file) = (folder.path().to_str().unwrap(), folder.path().join("page.html"));
    let run = place.run(&["view", path, "--export", file.to_str().unwrap()]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert!(
        run.out.starts_with("wrote ") && run.out.contains("open it in any browser"),
        "{}",
        run.out
    );
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<!--VFdQQUdF"));
}

#[test]
fn a_terminal_gets_curves_and_tables() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    record(folder.path());
    let run = place.run(&["view", "--text", folder.path().to_str().unwrap()]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    for words in [
        "time of a step ms",
        "2 ┤",
        "2 step",
        "loss [2J",
        "2.5 ┤",
        "2 steps  mean 1.50 ms",
    ] {
        assert!(run.out.contains(words), "{words}\n{}", run.out);
    }
    assert!(!run.out.contains('\u{1b}'), "a name steers the terminal");
}

/// A loss that falls.
fn note(folder: &Path) {
    let mut writer = Writer::create(folder, None).unwrap();
    for step in 1..=100 {
        let loss = Value::new("loss/auto\u{1b}[2J", Data::Scalar(2.0 / step as f32));
        writer.write(&Event::now(step, vec![loss])).unwrap();
    }
}

#[test]
fn summaries_are_drawn_in_a_terminal_and_exported() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    note(&folder.path().join("runs/1"));
    note(&folder.path().join("runs/2"));
    let path = folder.path().to_str().unwrap();
    let run = place.run(&["view", "--text", path]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    for words in [
        "loss/auto [2J (runs/1)",
        "(runs/2)",
        "   2 ┤",
        "0.02 ┤",
        "100 step",
    ] {
        assert!(run.out.contains(words), "{words}\n{}", run.out);
    }
    assert!(!run.out.contains('\u{1b}'), "a name steers the terminal");
    let file = folder.path().join("page.html");
    let run = place.run(&["view", path, "--export", file.to_str().unwrap()]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    record(folder.path());
    let both = place.run(&["view", "--text", path]);
    assert!(
        both.out.contains("(runs/2)") && both.out.contains("2 steps  mean 1.50 ms"),
        "{}",
        both.out
    );
    fs::write(
        folder.path().join("runs/2/events.out.tfevents.9"),
        "this is no event file at all",
    )
    .unwrap();
    let broken = place.run(&["view", "--text", path]);
    assert!(
        broken.out.contains("byte 0: the checksum") && broken.out.contains("(runs/2)"),
        "{}",
        broken.out
    );
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
        &["view", "/nowhere/at/all"],
        1,
        "/nowhere/at/all: there is no such folder",
    );
    wrong(
        &["view", path, "--export", "/tmp/x.html"],
        1,
        "no recording.tw here",
    );
    wrong(&["view", path, "--text"], 1, "no recording.tw here");
    wrong(&["view"], 2, "required");
    wrong(&["view", path, "--text", "--port", "1"], 2, "cannot be used with");
    record(folder.path());
    wrong(
        &["view", path, "--export", "/nowhere/x.html"],
        1,
        "/nowhere/x.html: cannot be written",
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    wrong(
        &["view", path, "--port", &port],
        1,
        "`--port 0` takes a free port",
    );
}
