//! A file that TensorBoard 2.21 wrote: `tests/data/make.py`.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use thalweg_summary::{
    Array, Content, Data, Element, Event, Graph, Histogram, Image, Node, Reader, Value, Writer, files,
    read_folder,
};

fn stored() -> Vec<Event> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tensorboard.tfevents");
    Reader::open(file).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn what_tensorboard_writes_is_read() {
    let events = stored();
    let heads: Vec<_> = events.iter().map(|event| (event.wall_time, event.step)).collect();
    assert_eq!(heads, [(1.5, 0), (2.5, 1), (3.5, 10), (4.5, 11)]);
    assert_eq!(events[0].content, Content::Version("brain.Event:2".into()));
    let node = Node {
        name: "Default/dense/matmul".into(),
        op: "matmul".into(),
        inputs: vec!["x".into(), "w".into()],
        device: "cpu:0".into(),
        shape: vec![2, 3],
        attributes: vec![("place".into(), "net.rs:7".into())],
    };
    assert_eq!(events[1].content, Content::Graph(Graph { nodes: vec![node] }));
    let histogram = Histogram {
        min: -1.5,
        max: 2.5,
        count: 4.0,
        sum: 2.0,
        sum_squares: 9.0,
        limits: vec![-0.5, 2.5],
        buckets: vec![1.0, 3.0],
    };
    let image = Image {
        height: 2,
        width: 3,
        channels: 1,
        encoded: b"\x89PNG".to_vec(),
    };
    let array = Array {
        element: Element::I32,
        shape: vec![2, 2],
        bytes: [1_i32, 2, 3, 4]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect(),
    };
    let values = vec![
        Value::new("loss", Data::Scalar(0.25)),
        Value::new("weights", Data::Histogram(histogram)),
        Value::new("input", Data::Image(image)),
        Value::new("numbers", Data::Tensor(array)),
    ];
    assert_eq!(events[2].content, Content::Values(values));
    let Content::Values(hparams) = &events[3].content else {
        panic!()
    };
    assert_eq!(hparams[0].plugin.as_ref().unwrap().name, "hparams");
}

/// What is read and written again is read as the same.
#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), None).unwrap();
    let events = stored();
    for event in &events[1..] {
        writer.write(event).unwrap();
    }
    let again: Vec<Event> = read_folder(folder.path())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(again[1..], events[1..]);
    let busy = Writer::create(folder.path(), None).unwrap_err().to_string();
    assert!(busy.contains("another training writes here"), "{busy}");
    drop(writer);
    // The next writer has a file behind the first.
    drop(Writer::create(folder.path(), None).unwrap());
    assert_eq!(files(folder.path()).unwrap().len(), 2);
}

#[test]
fn files_end_before_their_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), Some(200)).unwrap();
    let scalar = |step: i64| Event::now(step, vec![Value::new("loss", Data::Scalar(step as f32))]);
    for step in 1..=40 {
        writer.write(&scalar(step)).unwrap();
    }
    let large = Image::png(20, 20, 3, &[7; 1200]).unwrap();
    writer
        .write(&Event::now(
            41,
            vec![Value::new("x".repeat(300), Data::Image(large))],
        ))
        .unwrap();
    writer.write(&scalar(42)).unwrap();
    let files = files(folder.path()).unwrap();
    assert!(files.len() > 8, "{files:?}");
    for (number, file) in files.iter().enumerate() {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with("events.out.tfevents.") && name.ends_with(&format!(".{:06}_MS", number + 1)),
            "{name}"
        );
        let events = Reader::open(file).unwrap().count();
        assert!(fs::metadata(file).unwrap().len() <= 200 || events == 2, "{name}");
    }
    let steps: Vec<i64> = read_folder(folder.path())
        .unwrap()
        .map(|event| event.unwrap().step)
        .filter(|step| *step > 0)
        .collect();
    assert_eq!(steps, (1..=42).collect::<Vec<_>>());
}

#[test]
fn a_file_is_good_to_its_last_whole_record() {
    let folder = tempfile::tempdir().unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tensorboard.tfevents");
    let bytes = fs::read(file).unwrap();
    let path = folder.path().join("cut");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Reader::open(&path).unwrap().collect::<Vec<_>>()
    };
    let all = read(&bytes).len();
    for cut in [1, 7, 13, 40] {
        let events = read(&bytes[..bytes.len() - cut]);
        assert_eq!(events.len(), all - 1, "{cut}");
        assert!(events.iter().all(Result::is_ok));
    }
    // A byte that changed is found, wherever it is; nothing panics.
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let events = read(&damaged);
        let last = events.last().unwrap();
        // A length that is larger than the file looks like a cut only if its own checksum holds, which it cannot.
        let error = last.as_ref().unwrap_err().to_string();
        assert!(error.contains("the checksum of a record"), "{at}: {error}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below"), "/proc/none".into()] {
        let error = Writer::create(&path, None).unwrap_err().to_string();
        assert!(
            error.ends_with("name a folder that can be written") && error.lines().count() == 1,
            "{error}"
        );
    }
    let error = Reader::open(folder.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("name a folder with event files"), "{error}");
}
