//! Files are read as they were written, and wrong ones are typed.

use super::*;

fn sample() -> File {
    let record = |call| Record { backend: 0, call };
    let tag = Tag {
        op: "matmul".into(),
        file: "src/main.rs".into(),
        line: 7,
        node: 3,
    };
    let launch = Work::Launch(Launch {
        kernel: 1 << 32,
        extents: vec![2, 3],
        bindings: vec![Binding {
            buffer: 5,
            offset: 8,
            strides: Some(vec![-1, 4]),
            gather_stride: -2,
            gather_extent: 9,
        }],
        scalars: vec![u64::MAX],
    });
    let copy = Work::Copy(Copy {
        dst: End::To(4),
        src: End::From(Contents::Data(vec![1, 2, 3])),
        width: 3,
        rows: 1,
    });
    let library = Source::Library {
        op: 1,
        dtypes: vec![1, 2, 3],
        attributes: vec![-1; 24],
        epilogue: Some("kernel k outer=0 inner=0\n".into()),
    };
    let packets = [launch, copy].map(|work| Packet {
        tag: tag.clone(),
        work,
    });
    File {
        start: Start {
            pid: 12,
            program: "lenet".into(),
            version: "1.0.0".into(),
            fresh: 0,
        },
        records: vec![
            record(Call::Backend(Backend {
                name: "cpu".into(),
                ..Backend::default()
            })),
            record(Call::Import(Import {
                buffer: 5,
                device: 1,
                bytes: 16,
                contents: Contents::Seed { hash: 3, seed: 4 },
            })),
            record(Call::Compile(Kernel {
                kernel: 1 << 32,
                device: 1,
                source: library,
                options: "fast".into(),
            })),
            record(Call::Submit(Submission {
                stream: 2,
                packets: packets.to_vec(),
            })),
            record(Call::CreateProgram(Program {
                program: 9,
                packets: packets[..1].to_vec(),
                dependencies: vec![(1, 0)],
                outputs: vec![64],
                bound: vec![Place { buffer: 5, offset: 4 }],
                given: vec![Given::default()],
                constants: vec![0],
                ..Program::default()
            })),
            record(Call::Run(Run {
                program: 9,
                outputs: vec![8],
                tag: Some(tag),
                ..Run::default()
            })),
            record(Call::Result(Answer { number: 4, hash: 99 })),
        ],
        cut: None,
    }
}

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn files_are_read_as_they_were_written() {
    let file = sample();
    assert_eq!(File::read(&bytes(&file)[..]).unwrap(), file);
}

#[test]
fn a_cut_file_is_good_to_its_last_whole_record() {
    let (file, whole) = (sample(), bytes(&sample()));
    for length in 0..whole.len() {
        match File::read(&whole[..length]) {
            Ok(read) => {
                let count = read.records.len();
                assert!(read.records[..] == file.records[..count] && count < file.records.len());
                // A cut between two frames is no damage.
                assert!(matches!(read.cut, None | Some("a frame is cut")));
            }
            Err(Refusal::Io(error)) => assert!(length < 8, "{error} at {length}"),
            Err(Refusal::Empty) => {}
            Err(Refusal::NoStart) => panic!("the start comes first"),
        }
    }
}

#[test]
fn damage_is_found_and_named() {
    let (file, whole) = (sample(), bytes(&sample()));
    for at in 8..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        match File::read(&damaged[..]) {
            Ok(read) => assert!(
                read.cut.is_some() && read.records.len() < file.records.len(),
                "byte {at}"
            ),
            Err(error) => assert!(matches!(error, Refusal::Empty), "byte {at}: {error}"),
        }
    }
    let refused = |bytes: &[u8]| File::read(bytes).unwrap_err().to_string();
    assert_eq!(refused(b"PNG"), "this is no capture");
    let mut other = whole.clone();
    other[7] = 9;
    assert_eq!(
        refused(&other),
        "a capture of version 9; this program reads version 1"
    );
    assert_eq!(refused(&MAGIC), "the capture has no whole record");
}

#[test]
fn a_file_that_does_not_begin_with_its_start_is_refused() {
    let mut file = MAGIC.to_vec();
    let mut frame = Vec::new();
    seal(&sample().records[0], &mut frame).unwrap();
    file.extend(frame);
    let error = File::read(&file[..]).unwrap_err();
    assert_eq!(error.to_string(), "the capture does not begin with its start");
}
