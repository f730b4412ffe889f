use super::*;
use proptest::prelude::*;

/// A record of each kind, from numbers.
fn record(kind: usize, words: &[u64], text: &str) -> Record {
    let word = |at: usize| words[at % words.len()];
    let small = |at: usize| word(at) as u32;
    let text = text.to_owned();
    let kinds = [
        CommandKind::Launch,
        CommandKind::Copy,
        CommandKind::Fill,
        CommandKind::Wait,
        CommandKind::Callback,
    ];
    match kind {
        0 => Record::Start(Start {
            time: word(0),
            unix: word(1),
            pid: small(2),
            rank: small(3),
            program: text.clone(),
            version: text.clone(),
            settings: text,
        }),
        1 => Record::Text { id: small(0), text },
        2 => Record::Thread {
            id: small(0),
            name: small(1),
        },
        3 => Record::Device(Device {
            id: small(0),
            target: small(1),
            name: small(2),
            unmeasured: small(3),
        }),
        4 => Record::Stream {
            id: small(0),
            device: small(1),
            name: small(2),
        },
        5 => Record::Place(Place {
            id: small(0),
            op: small(1),
            scope: small(2),
            file: small(3),
            line: small(4),
        }),
        6 => Record::Program(Program {
            id: small(0),
            device: small(1),
            name: small(2),
            nodes: (0..word(3) % 3)
                .map(|at| Node {
                    kind: kinds[at as usize],
                    kernel: small(4),
                    shape: small(5),
                    flops: word(6),
                    bytes: word(7),
                    parts: vec![
                        Part {
                            place: small(0),
                            call: small(1),
                            cost: small(2),
                        };
                        at as usize
                    ],
                })
                .collect(),
        }),
        7 => Record::Op(Op {
            thread: small(0),
            start: word(1),
            end: word(2),
            place: small(3),
            call: small(4),
            operands: small(5),
        }),
        8 => Record::Run(Run {
            correlation: word(0),
            thread: small(1),
            stream: small(2),
            start: word(3),
            end: word(4),
            program: small(5),
            place: small(6),
            call: small(7),
        }),
        9 => Record::Command(Command {
            correlation: word(0) % 3,
            node: small(1),
            nth: small(2) % 2,
            kind: kinds[word(3) as usize % 5],
            stream: small(4) % 2,
            row: small(5) % 2,
            queued: word(6) % 2,
            start: word(7),
            end: word(0),
            bytes: word(1) % 2,
            exact: word(2).is_multiple_of(2),
        }),
        10 => Record::Memory(Memory {
            time: word(0),
            device: small(1),
            kind: [
                MemoryKind::Alloc,
                MemoryKind::Free,
                MemoryKind::Reserve,
                MemoryKind::Release,
            ][word(2) as usize % 4],
            buffer: word(3),
            bytes: word(4),
            correlation: word(5),
        }),
        11 => Record::Span(Span {
            thread: small(0),
            kind: SpanKind::Wait,
            name: small(1),
            number: word(2),
            start: word(3),
            end: word(4),
        }),
        12 => Record::Mark {
            thread: small(0),
            time: word(1),
            name: small(2),
        },
        13 => Record::Counter {
            time: word(0),
            name: small(1),
            value: word(2) as f64,
        },
        14 => Record::Failure {
            thread: small(0),
            time: word(1),
            text: small(2),
        },
        15 => Record::Lost {
            source: small(0),
            count: word(1),
        },
        _ => Record::End { time: word(0) },
    }
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let word = prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..300_u64];
    let one = (0..17_usize, prop::collection::vec(word, 8), ".{0,8}");
    prop::collection::vec(one, 0..40).prop_map(|all| {
        all.iter()
            .map(|(kind, words, text)| record(*kind, words, text))
            .collect()
    })
}

/// The file of `records`, `chunk` of them in a frame.
fn file(records: &[Record], chunk: usize) -> Vec<u8> {
    let (mut file, mut frame) = (Vec::new(), Frame::default());
    let mut writer = Writer::new(&mut file).unwrap();
    for some in records.chunks(chunk) {
        some.iter().for_each(|record| frame.push(record));
        writer.write(&mut frame).unwrap();
    }
    let written = writer.written();
    assert_eq!(written, file.len() as u64);
    file
}

fn read(file: &[u8]) -> (Vec<Record>, Option<Cut>) {
    let mut reader = Reader::new(file).unwrap();
    let records = reader.by_ref().collect();
    (records, reader.cut().cloned())
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in records(), chunk in 1..7_usize) {
        prop_assert_eq!(read(&file(&records, chunk)), (records, None));
    }

    #[test]
    fn a_cut_file_is_good_up_to_the_last_whole_frame(records in records(), chunk in 1..7_usize, at in any::<prop::sample::Index>()) {
        let whole = file(&records, chunk);
        let cut = MAGIC.len() + at.index(whole.len() - MAGIC.len() + 1);
        let (found, why) = read(&whole[..cut]);
        prop_assert_eq!(found.len() % chunk * usize::from(found.len() < records.len()), 0);
        prop_assert_eq!(&found[..], &records[..found.len()]);
        let good = why.map_or(cut as u64, |why| why.whole);
        prop_assert!(good <= cut as u64);
        prop_assert_eq!(read(&whole[..good as usize]), (found, None));
    }

    #[test]
    fn a_changed_byte_gives_no_wrong_record(records in records(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let mut file = file(&records, 5);
        let at = MAGIC.len() + at.index((file.len() - MAGIC.len()).max(1));
        if let Some(byte) = file.get_mut(at) {
            *byte ^= 1 << bit;
            let (found, why) = read(&file);
            prop_assert!(why.is_some());
            prop_assert_eq!(&found[..], &records[..found.len()]);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut input = codec::In::new(&bytes);
        while !input.is_empty() && input.record().is_ok() {}
        let _ = Reader::new(&bytes[..]).map(Iterator::count);
    }
}

#[test]
fn a_command_takes_at_most_twelve_bytes() {
    let mut frame = Frame::default();
    let mut time = 5_000_000_000_000;
    for at in 0..10_000_u64 {
        let start = time + at * 13 % 900;
        time = start + 20_000 + at * 97 % 100_000;
        frame.push(&Record::Command(Command {
            correlation: 1 + at / 20,
            node: (at % 20) as u32,
            queued: 5_000_000_000_000 + at / 20 * 1_000_000,
            start,
            end: time,
            exact: true,
            ..Command::default()
        }));
    }
    assert!(frame.bytes() < 120_000, "{} bytes", frame.bytes());
}

#[test]
fn another_file_and_another_version_are_refused() {
    for (bytes, words) in [
        (&b""[..], "no recording"),
        (b"THALWEG", "no recording"),
        (b"PK\x03\x04\x05\x06\x07\x08", "no recording"),
        (b"THALWEG\x07", "version 7"),
    ] {
        let error = Reader::new(bytes).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
