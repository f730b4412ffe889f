//! The page: what the server answers, what it refuses, and what the page gets.
#![allow(clippy::unwrap_used, reason = "a test")]

mod sample;

use sample::lenet;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_observe::page::{Data, Server, Source};
use thalweg_observe::{Error, StepRow, derive, find};
use thalweg_summary::{Data as Values, Event, Histogram, Image, Value as SummaryValue, Writer};

/// A server over `folders`, which serves until the tests end; its port.
fn serve(folders: &[PathBuf]) -> u16 {
    let server = Server::bind(Source::new(folders).unwrap(), "127.0.0.1", 0).unwrap();
    assert!(!server.is_public());
    let url = server.url();
    let port = url
        .strip_prefix("http://127.0.0.1:")
        .and_then(|rest| rest.strip_suffix('/'));
    let port = port.unwrap().parse().unwrap();
    std::thread::spawn(move || server.run());
    port
}

/// What the server answers to these bytes.
fn ask(port: u16, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A refusal may close the connection before all of a request was read.
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Head and body of the answer to a request for `path`.
fn get(port: u16, path: &str) -> (String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    let answer = ask(port, request.as_bytes());
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (
        String::from_utf8(answer[..end].to_vec()).unwrap(),
        answer[end + 4..].to_vec(),
    )
}

/// The index of what the page gets.
fn index(bytes: &[u8]) -> Value {
    assert_eq!(&bytes[..8], b"TWPAGE\0\x04");
    let length = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[24..24 + length]).unwrap()
}

/// The LEB128 numbers of a column that is there from the start.
fn column(bytes: &[u8], place: &Value) -> Vec<u64> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let start = (24 + word(8)).next_multiple_of(8) + place["at"].as_u64().unwrap() as usize;
    let end = start + place["bytes"].as_u64().unwrap() as usize;
    assert!(end <= word(16), "it comes late");
    let (mut numbers, mut shift) = (vec![0], 0);
    for byte in &bytes[start..end] {
        *numbers.last_mut().unwrap() |= u64::from(byte & 127) << shift;
        shift += 7;
        if *byte < 128 {
            numbers.push(0);
            shift = 0;
        }
    }
    numbers.pop();
    numbers
}

fn read(folder: &Path) -> Data {
    Source::new(&[folder.to_owned()]).unwrap().read()
}

#[test]
fn a_run_is_served_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    lenet(0).save(folder.path());
    fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    let port = serve(&[folder.path().to_owned()]);
    let (head, body) = get(port, "/");
    for line in [
        "HTTP/1.1 200 OK",
        "Content-Type: text/html; charset=utf-8",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        "Cache-Control: no-store",
        &format!("Content-Length: {}", body.len()),
    ] {
        assert!(head.lines().any(|other| other == line), "{line}\n{head}");
    }
    let policy = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Security-Policy: "));
    let policy = policy.unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && policy.ends_with("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(body.starts_with(b"<!doctype html>"));
    let (_, body) = get(port, "/data?again");
    assert_eq!(index(&body)["runs"][0]["error"], "");
    let (head, state) = get(port, "/state");
    assert!(head.starts_with("HTTP/1.1 200"));
    assert_eq!(index(&body)["state"], *String::from_utf8(state).unwrap());
    for path in [
        "/secret.txt",
        "/recording.tw",
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/data/../secret.txt",
        "//etc/passwd",
        "/data%00",
        "/favicon.ico",
    ] {
        let (head, body) = get(port, path);
        assert!(head.starts_with("HTTP/1.1 404"), "{path}: {head}");
        assert!(!String::from_utf8_lossy(&body).contains("secret"), "{path}");
    }
}

#[test]
fn requests_that_are_not_ours_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let port = serve(&[folder.path().to_owned()]);
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost:{port}\r\nX: {}\r\n\r\n",
        "a".repeat(20_000)
    );
    for (request, status) in [
        (
            format!("GET /data HTTP/1.1\r\nHost: example.com:{port}\r\n\r\n"),
            "421",
        ),
        (
            format!("GET /data HTTP/1.1\r\nHost: localhost.example.com:{port}\r\n\r\n"),
            "421",
        ),
        (
            "GET /data HTTP/1.1\r\nHost: localhost:1\r\n\r\n".to_owned(),
            "421",
        ),
        ("GET /data HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (
            format!("POST /data HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"),
            "405",
        ),
        (
            format!("DELETE / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"),
            "405",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 9\r\n\r\n"),
            "400",
        ),
        ("\u{16}\u{3}\u{1}\r\n\r\n".to_owned(), "400"),
        (long, "431"),
    ] {
        let answer = String::from_utf8(ask(port, request.as_bytes())).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:.50}: {answer}"
        );
    }
    // Others are served while some ask nothing.
    let silent: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    assert!(get(port, "/").0.starts_with("HTTP/1.1 200"));
    drop(silent);
}

#[test]
fn links_out_of_the_folder_are_refused() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = lenet(0).save(outside.path());
    symlink(&file, folder.path().join("recording.tw")).unwrap();
    let data = read(folder.path());
    assert_eq!(data.runs(), 0);
    assert!(
        data.errors()[0].contains("a link out of the folder"),
        "{:?}",
        data.errors()
    );
    // Folders behind links are not searched, a link that stays inside is followed, and a link that the user names is meant.
    let other = tempfile::tempdir().unwrap();
    symlink(outside.path(), other.path().join("rank_0")).unwrap();
    assert!(read(other.path()).errors()[0].contains("no recording.tw here"));
    let inside = tempfile::tempdir().unwrap();
    fs::copy(&file, inside.path().join("old.tw")).unwrap();
    symlink(inside.path().join("old.tw"), inside.path().join("recording.tw")).unwrap();
    assert_eq!(read(inside.path()).runs(), 1);
    let named = other.path().join("named");
    symlink(outside.path(), &named).unwrap();
    assert_eq!(read(&named).runs(), 1);
    let noted = tempfile::tempdir().unwrap();
    symlink(note(outside.path()), noted.path().join("events.out.tfevents.1")).unwrap();
    let data = index(read(noted.path()).bytes());
    let one = &data["runs"][0]["summaries"][0];
    assert_eq!(one["scalars"], json!([]));
    assert!(
        one["notes"][0]
            .as_str()
            .unwrap()
            .contains("a link out of the folder")
    );
}

#[test]
fn the_page_gets_what_the_tables_say() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..2)
        .map(|rank| lenet(rank).save(&folder.path().join(format!("rank_{rank}"))))
        .collect();
    let summary = derive(&find::recordings(folder.path()).unwrap(), None).unwrap();
    let data = read(folder.path());
    let index = index(data.bytes());
    let run = &index["runs"][0];
    let ops = serde_json::to_string(&summary.ops).unwrap();
    assert_eq!(run["ops"], serde_json::from_str::<Value>(&ops).unwrap());
    assert_eq!(run["kernels_run"], summary.kernels);
    assert_eq!(run["device_time"], summary.device_time);
    assert_eq!(run["step_count"], summary.steps.len());
    let times: Vec<u64> = summary.steps.iter().map(StepRow::time).collect();
    assert_eq!(column(data.bytes(), &run["steps"]["time"]), times);
    let idle: Vec<u64> = summary.steps.iter().map(|step| step.idle).collect();
    assert_eq!(column(data.bytes(), &run["steps"]["idle"]), idle);
    let end = summary.steps.iter().map(|step| step.end).max().unwrap();
    assert!(run["end"].as_u64().unwrap() >= end);
    let sum = |rows: &Value, key: &[&str]| -> u64 {
        let number = |row: &Value| key.iter().fold(row, |value, key| &value[*key]).as_u64().unwrap();
        rows.as_array().unwrap().iter().map(number).sum()
    };
    assert_eq!(sum(&run["kernels"], &["calls"]), summary.kernels);
    assert_eq!(sum(&run["kernels"], &["times", "total_ns"]), summary.device_time);
    let device: Vec<&Value> = (run["tracks"].as_array().unwrap().iter())
        .filter(|track| track["kind"] == "device")
        .collect();
    let slices: u64 = (device.iter())
        .map(|track| track["blocks"]["count"].as_u64().unwrap())
        .sum();
    assert_eq!(slices, summary.kernels);
    assert!(
        device
            .iter()
            .any(|track| track["group"].as_str().unwrap().contains("rank 1"))
    );
    // What changes is noticed, and what is cut is shown as far as it is whole.
    let source = Source::new(&[folder.path().to_owned()]).unwrap();
    assert_eq!(source.state(), data.state());
    let whole = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &whole[..whole.len() - 5]).unwrap();
    assert_ne!(source.state(), data.state());
    let cut = source.read();
    assert_eq!((cut.runs(), cut.errors().len()), (1, 0));
    let html = cut.to_html();
    assert!(html.contains("<!--VFdQQUdF") && html.ends_with("</html>\n"));
}

/// Three steps of a training, in a folder of its own.
fn note(folder: &Path) -> PathBuf {
    let mut writer = Writer::create(folder, None).unwrap();
    for step in 1..=3 {
        let image = Image::png(1, 1, 1, &[7]).unwrap();
        let values = vec![
            SummaryValue::new("loss", Values::Scalar(step as f32)),
            SummaryValue::new("w", Values::Histogram(Histogram::of([0.0, 1.0]))),
            SummaryValue::new("x", Values::Image(image)),
        ];
        writer.write(&Event::now(step, values)).unwrap();
    }
    drop(writer);
    thalweg_summary::files(folder).unwrap().remove(0)
}

#[test]
fn summaries_are_shown_with_and_without_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let events = note(&folder.path().join("runs/1"));
    fs::write(
        folder.path().join("runs/1/lineage.json"),
        r#"{"train": {"epochs": 3}}"#,
    )
    .unwrap();
    let data = read(folder.path());
    assert_eq!((data.runs(), data.errors().len()), (1, 0));
    let noted = |data: &Data| index(data.bytes())["runs"][0]["summaries"].clone();
    let one = &noted(&data)[0];
    assert_eq!((&one["name"], &one["notes"]), (&json!("runs/1"), &json!([])));
    assert_eq!(
        (&one["scalars"][0]["tag"], &one["scalars"][0]["seen"]),
        (&json!("loss"), &json!(3))
    );
    assert_eq!(one["histograms"][0]["frames"][2]["mean"], 0.5);
    assert_eq!(one["images"][0]["frames"][0]["kind"], "image/png");
    assert_eq!(one["lineage"]["train"]["epochs"], 3);
    // Another event is noticed, and a record that is not whole is left for later.
    let source = Source::new(&[folder.path().to_owned()]).unwrap();
    assert_eq!(source.state(), data.state());
    let whole = fs::read(&events).unwrap();
    fs::write(&events, &whole[..whole.len() - 3]).unwrap();
    assert_ne!(source.state(), data.state());
    let cut = noted(&source.read());
    assert_eq!(
        (&cut[0]["scalars"][0]["seen"], &cut[0]["notes"]),
        (&json!(2), &json!([]))
    );
    // A recording beside them, and one that is broken.
    lenet(0).save(folder.path());
    let both = source.read();
    assert!(index(both.bytes())["runs"][0]["kernels_run"].as_u64().unwrap() > 0);
    assert_eq!(noted(&both)[0]["name"], "runs/1");
    fs::write(folder.path().join("recording.tw"), "no recording").unwrap();
    let broken = source.read();
    assert_eq!((broken.runs(), broken.errors().len()), (1, 1));
    // Two folders: the names of the runs begin with theirs.
    let other = tempfile::tempdir().unwrap();
    note(other.path());
    let two = Source::new(&[folder.path().to_owned(), other.path().to_owned()]).unwrap();
    let two = index(two.read().bytes());
    let name = |at: usize| {
        two["runs"][at]["summaries"][0]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        name(0).ends_with("/runs/1") && !name(1).contains('/'),
        "{} {}",
        name(0),
        name(1)
    );
}

#[test]
fn pictures_are_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), None).unwrap();
    for (tag, encoded) in [
        ("script", "<svg onload='fail()'/>"),
        ("jpeg", "\u{ff}\u{d8}\u{ff}"),
    ] {
        let image = Image {
            encoded: encoded.chars().map(|c| c as u8).collect(),
            ..Image::default()
        };
        let value = SummaryValue::new(tag, Values::Image(image));
        writer.write(&Event::now(1, vec![value])).unwrap();
    }
    let index = index(read(folder.path()).bytes());
    let one = &index["runs"][0]["summaries"][0];
    assert_eq!(one["images"][0]["frames"][0]["kind"], "image/jpeg");
    assert_eq!(one["images"][1]["frames"], json!([]));
    assert!(
        one["notes"][0]
            .as_str()
            .unwrap()
            .contains("script are neither PNG, JPEG nor GIF")
    );
}

#[test]
fn what_cannot_be_shown_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Source::new(&[folder.path().join("none")]).unwrap_err();
    assert!(matches!(missing, Error::NotThere { .. }));
    fs::write(folder.path().join("recording.tw"), "no recording").unwrap();
    let data = read(folder.path());
    assert_eq!(data.runs(), 0);
    assert!(data.errors()[0].ends_with("this is no recording"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let bind = |host: &str, port| Server::bind(Source::new(&[]).unwrap(), host, port);
    let error = bind("127.0.0.1", port).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("127.0.0.1:{port}: cannot listen here")) && error.contains("`--port 0`"),
        "{error}"
    );
    assert!(
        bind("203.0.113.7", 0)
            .unwrap_err()
            .to_string()
            .contains("`--host 127.0.0.1`")
    );
    assert!(bind("0.0.0.0", 0).unwrap().is_public());
}
