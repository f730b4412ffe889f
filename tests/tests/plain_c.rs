//! The backend in plain C, through the loader and the bare tables.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "arguments live through each call"
)]

mod plugins;

use std::ffi::c_void;
use std::ptr;
use thalweg::hal::Runtime;
use thalweg::loader::{Backend, LoaderOptions, Registry};
use thalweg::observe::recording::{Reader, Record};
use thalweg::{Tensor, observe};
use thalweg_hal::tables::*;
use thalweg_hal::{Status, Str};

struct Plain {
    backend: &'static Backend,
    context: Context,
    device: u64,
    memory: &'static MemoryTable,
    streams: &'static StreamTable,
    events: &'static EventTable,
}

/// The status and text of a call.
type Outcome = std::result::Result<(), (Status, String)>;

impl Plain {
    fn new(folder: &str) -> Plain {
        let options = LoaderOptions {
            cache: None,
            ..LoaderOptions::default()
        };
        let backend = Registry::load_file(&plugins::plain_c(folder), &options).unwrap();
        let mut plain = Plain {
            backend,
            context: backend.api().context,
            device: 0,
            memory: backend.table().unwrap(),
            streams: backend.table().unwrap(),
            events: backend.table().unwrap(),
        };
        plain.device = plain.open(0).unwrap();
        plain
    }

    fn devices(&self) -> &'static DeviceTable {
        self.backend.table().unwrap()
    }

    fn outcome(&self, code: i32) -> Outcome {
        if code == 0 {
            return Ok(());
        }
        let core: &CoreTable = self.backend.table().unwrap();
        let mut text = [0; 512];
        let len = unsafe { (core.last_error)(self.context, text.as_mut_ptr(), text.len()) };
        Err((
            Status::from_code(code).unwrap(),
            String::from_utf8(text[..len].to_vec()).unwrap(),
        ))
    }

    fn open(&self, ordinal: u32) -> std::result::Result<u64, (Status, String)> {
        let options = DeviceOptions {
            ordinal,
            reserved: 0,
            memory_limit: 0,
            block_size: 0,
        };
        let mut device = 0;
        self.outcome(unsafe { (self.devices().open)(self.context, &options, &mut device) })?;
        Ok(device)
    }

    fn alloc(&self, bytes: u64) -> std::result::Result<u64, (Status, String)> {
        let op = Str::new("Add");
        let tag = Tag {
            op,
            file: Str::EMPTY,
            line: 0,
            node: 0,
        };
        let args = AllocArgs {
            device: self.device,
            bytes,
            stream: 0,
            tag: &tag,
        };
        let mut buffer = 0;
        self.outcome(unsafe { (self.memory.alloc)(self.context, &args, &mut buffer) })?;
        Ok(buffer)
    }

    fn free(&self, buffer: u64) -> Outcome {
        self.outcome(unsafe { (self.memory.free)(self.context, buffer) })
    }

    fn figures(&self) -> MemoryStatistics {
        let mut figures = MemoryStatistics::default();
        self.outcome(unsafe { (self.memory.statistics)(self.context, self.device, &mut figures) })
            .unwrap();
        figures
    }

    fn stream(&self) -> u64 {
        let args = StreamArgs {
            device: self.device,
            priority: 0,
            reserved: 0,
        };
        let mut stream = 0;
        self.outcome(unsafe { (self.streams.create)(self.context, &args, &mut stream) })
            .unwrap();
        stream
    }

    fn submit(&self, stream: u64, packets: &[Packet]) -> Outcome {
        self.outcome(unsafe { (self.streams.submit)(self.context, stream, packets.as_ptr(), packets.len()) })
    }

    fn copy(&self, stream: u64, copy: Copy) -> Outcome {
        self.submit(
            stream,
            &[Packet {
                copy: &copy,
                ..packet(PacketKind::Copy)
            }],
        )
    }

    fn read(&self, stream: u64, buffer: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0_u8; bytes];
        let copy = Copy {
            dst: host(&mut out),
            src: at(buffer, 0),
            width: bytes as u64,
            rows: 1,
        };
        self.copy(stream, copy).unwrap();
        out
    }

    fn event(&self, timing: u32) -> u64 {
        let args = EventArgs {
            device: self.device,
            timing,
            reserved: 0,
        };
        let mut event = 0;
        self.outcome(unsafe { (self.events.create)(self.context, &args, &mut event) })
            .unwrap();
        event
    }

    fn elapsed(&self, start: u64, end: u64) -> std::result::Result<i64, (Status, String)> {
        let mut nanoseconds = 0;
        let args = ElapsedArgs { start, end };
        self.outcome(unsafe { (self.events.elapsed)(self.context, &args, &mut nanoseconds) })?;
        Ok(nanoseconds)
    }
}

fn packet(kind: PacketKind) -> Packet {
    Packet {
        kind: kind as u32,
        reserved: 0,
        tag: ptr::null(),
        launch: ptr::null(),
        copy: ptr::null(),
        fill: ptr::null(),
    }
}

fn at(buffer: u64, offset: u64) -> Place {
    Place {
        buffer,
        host: ptr::null_mut(),
        offset,
        pitch: 0,
    }
}

fn host(bytes: &mut [u8]) -> Place {
    Place {
        buffer: 0,
        host: bytes.as_mut_ptr().cast(),
        offset: 0,
        pitch: 0,
    }
}

#[test]
fn it_is_loaded_and_says_what_it_is() {
    let plain = Plain::new("plain_c");
    assert_eq!(
        (plain.backend.name(), plain.backend.version()),
        ("plainc", "1.0.0")
    );
    assert_eq!(plain.backend.device_count().unwrap(), 1);
    assert!(plain.backend.table::<KernelTable>().is_none());
    assert!(plain.backend.table::<ProgramTable>().is_none());
    let text = "plainc has no device 1; its only device is 0".to_owned();
    assert_eq!(plain.open(1), Err((Status::InvalidArgument, text)));
}

#[test]
fn figures_are_true() {
    let plain = Plain::new("plain_c");
    let (a, b) = (plain.alloc(1000).unwrap(), plain.alloc(0).unwrap());
    let figures = plain.figures();
    assert_eq!(
        (figures.allocated, figures.reserved, figures.live),
        (1536, 1536, 2)
    );
    plain.free(a).unwrap();
    let (_, text) = plain.alloc(1 << 60).unwrap_err();
    assert!(
        text.starts_with("Add: 1152921504606846976 bytes do not fit: 512 of "),
        "{text}"
    );
    plain.free(b).unwrap();
    let figures = plain.figures();
    assert_eq!(
        (
            figures.allocated,
            figures.max_allocated,
            figures.out_of_memory,
            figures.frees
        ),
        (0, 1536, 1, 2)
    );
    plain
        .outcome(unsafe { (plain.memory.set_limit)(plain.context, plain.device, 1024) })
        .unwrap();
    assert_eq!(plain.alloc(1025).unwrap_err().0, Status::OutOfMemory);
    plain.alloc(1024).unwrap();
}

#[test]
fn copies_and_fills() {
    let plain = Plain::new("plain_c");
    let (buffer, stream) = (plain.alloc(64).unwrap(), plain.stream());
    let fill = Fill {
        buffer,
        offset: 8,
        bytes: 8,
        pattern: 0xbbaa,
        pattern_bytes: 2,
        reserved: 0,
    };
    let zero = Fill {
        offset: 0,
        bytes: 64,
        pattern: 0,
        pattern_bytes: 8,
        ..fill
    };
    let kind = packet(PacketKind::Fill);
    plain
        .submit(
            stream,
            &[Packet { fill: &zero, ..kind }, Packet { fill: &fill, ..kind }],
        )
        .unwrap();
    assert_eq!(
        plain.read(stream, buffer, 18)[6..],
        [0, 0, 0xaa, 0xbb, 0xaa, 0xbb, 0xaa, 0xbb, 0xaa, 0xbb, 0, 0]
    );

    let mut rows = *b"ab..cd..";
    let src = Place {
        pitch: 4,
        ..host(&mut rows)
    };
    let dst = Place {
        pitch: 3,
        ..at(buffer, 20)
    };
    plain
        .copy(
            stream,
            Copy {
                dst,
                src,
                width: 2,
                rows: 2,
            },
        )
        .unwrap();
    assert_eq!(plain.read(stream, buffer, 26)[20..], *b"ab\0cd\0");
}

#[test]
fn what_is_wrong_is_refused_before_anything_runs() {
    let plain = Plain::new("plain_c");
    let (buffer, stream) = (plain.alloc(64).unwrap(), plain.stream());
    let refused = |copy: Copy| plain.copy(stream, copy).unwrap_err();
    let inside = Copy {
        dst: at(buffer, 0),
        src: at(buffer, 32),
        width: 32,
        rows: 1,
    };
    plain.copy(stream, inside).unwrap();
    let text = "copy: the source reaches 32 bytes from 40 of a buffer of 64 bytes".to_owned();
    assert_eq!(
        refused(Copy {
            src: at(buffer, 40),
            ..inside
        }),
        (Status::OutOfBounds, text)
    );
    let text = "copy: source and destination overlap".to_owned();
    assert_eq!(
        refused(Copy {
            src: at(buffer, 31),
            ..inside
        }),
        (Status::Overlap, text)
    );
    let text = "copy: the destination is neither a buffer nor host memory".to_owned();
    assert_eq!(
        refused(Copy {
            dst: at(0, 0),
            ..inside
        }),
        (Status::InvalidArgument, text)
    );
    let wide = Copy {
        src: Place {
            pitch: 1,
            ..inside.src
        },
        rows: u64::MAX,
        ..inside
    };
    assert_eq!(refused(wide).0, Status::InvalidArgument);

    let fill = Fill {
        buffer,
        offset: 0,
        bytes: 64,
        pattern: 1,
        pattern_bytes: 1,
        reserved: 0,
    };
    let late = Fill { offset: 1, ..fill };
    let kind = packet(PacketKind::Fill);
    let before = plain.read(stream, buffer, 64);
    let outcome = plain.submit(
        stream,
        &[Packet { fill: &fill, ..kind }, Packet { fill: &late, ..kind }],
    );
    assert_eq!(outcome.unwrap_err().0, Status::OutOfBounds);
    assert_eq!(plain.read(stream, buffer, 64), before);
    assert_eq!(
        plain.submit(stream, &[kind]).unwrap_err().0,
        Status::InvalidArgument
    );
    assert_eq!(
        plain
            .submit(stream, &[Packet { kind: 99, ..kind }])
            .unwrap_err()
            .1,
        "unknown packet kind 99"
    );
    let null = plain.outcome(unsafe { (plain.memory.alloc)(plain.context, ptr::null(), &mut 0) });
    assert_eq!(
        null,
        Err((Status::InvalidArgument, "alloc: `args` is null".to_owned()))
    );
    let foreign = plain.outcome(unsafe { (plain.memory.free)(ptr::null_mut(), buffer) });
    assert_eq!(foreign.unwrap_err().0, Status::InvalidArgument);
}

#[test]
fn stale_handles_are_refused() {
    let plain = Plain::new("plain_c");
    let old = plain.alloc(64).unwrap();
    plain.free(old).unwrap();
    let new = plain.alloc(64).unwrap();
    assert_eq!(old as u32, new as u32, "the slot is used again");
    let text = format!("no buffer has the handle {old:#x}; it was destroyed or never created");
    assert_eq!(plain.free(old), Err((Status::InvalidHandle, text)));
    assert_eq!(plain.free(plain.device).unwrap_err().0, Status::InvalidHandle);
    assert_eq!(plain.free(0).unwrap_err().0, Status::InvalidHandle);

    let stream = plain.stream();
    plain
        .outcome(unsafe { (plain.devices().close)(plain.context, plain.device) })
        .unwrap();
    assert_eq!(plain.submit(stream, &[]).unwrap_err().0, Status::InvalidHandle);
    assert_eq!(plain.free(new).unwrap_err().0, Status::InvalidHandle);
}

#[test]
fn events_measure_and_callbacks_fail_once() {
    unsafe extern "C" fn slow(data: *mut c_void) -> i32 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        data as usize as i32
    }
    let plain = Plain::new("plain_c");
    let (stream, start, end, bare) = (plain.stream(), plain.event(1), plain.event(1), plain.event(0));
    let record = |event| {
        let args = EventStreamArgs { event, stream };
        plain
            .outcome(unsafe { (plain.events.record)(plain.context, &args) })
            .unwrap();
    };
    assert_eq!(
        plain.elapsed(start, end).unwrap_err().1,
        "elapsed: an event was never recorded"
    );
    assert_eq!(plain.elapsed(start, bare).unwrap_err().0, Status::Unsupported);
    record(start);
    let args = CallbackArgs {
        stream,
        function: Some(slow),
        data: 7 as *mut c_void,
    };
    plain
        .outcome(unsafe { (plain.streams.callback)(plain.context, &args) })
        .unwrap();
    record(end);
    assert!((2_000_000..1_000_000_000).contains(&plain.elapsed(start, end).unwrap()));
    assert!(plain.elapsed(end, start).unwrap() < 0);
    let synchronize = || plain.outcome(unsafe { (plain.streams.synchronize)(plain.context, stream) });
    assert_eq!(
        synchronize(),
        Err((Status::LaunchFailed, "the host's callback returned 7".to_owned()))
    );
    assert_eq!(synchronize(), Ok(()));
}

#[test]
fn after_a_shutdown_it_is_unavailable() {
    let plain = Plain::new("plain_c_shutdown");
    let buffer = plain.alloc(64).unwrap();
    let core: &CoreTable = plain.backend.table().unwrap();
    plain.outcome(unsafe { (core.shutdown)(plain.context) }).unwrap();
    let text = "the backend plainc was shut down".to_owned();
    assert_eq!(plain.free(buffer), Err((Status::Unavailable, text)));
}

/// Without the table of profiles a program is recorded all the same, and the recording says what it lacks.
#[test]
fn a_profile_says_that_the_table_is_missing() {
    let file = plugins::plain_c("plain_c_profile");
    let options = LoaderOptions {
        cache: None,
        folders: vec![file.parent().unwrap().to_owned()],
        ..LoaderOptions::default()
    };
    let device = Runtime::new(Registry::new(options)).device("plainc").unwrap();
    assert!(!device.has_profiles());
    let cx = thalweg::Context::on(device);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plain_c_recording");
    let profile = observe::Profile::to(&folder).memory(true).start(&cx).unwrap();
    let x = Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    profile.finish().unwrap();
    let bytes = std::fs::read(folder.join("rank_0/recording.tw")).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let (mut texts, mut why) = (std::collections::HashMap::new(), None);
    for record in reader.by_ref() {
        match record {
            Record::Text { id, text } => drop(texts.insert(id, text)),
            Record::Device(device) => why = texts.get(&device.unmeasured).cloned(),
            _ => {}
        }
    }
    assert!(reader.cut().is_none());
    let why = why.unwrap();
    assert!(
        why.contains("not measured by this backend, which has no profile table"),
        "{why}"
    );
}
