//! The thread that writes a recording.

use super::error::ProfileError;
use super::event::{Event, OpOfRun};
use super::measure::{self, Drained, Measured, Told};
use super::place::Call;
use super::recording::{
    self, Command, CommandKind, Device, Frame, Op, Record, Run, Span, Start, TextId, Writer,
};
use super::ring::{self, Ring};
use super::session::{Options, Shared};
use super::{clock, place, text};
use crate::hal::ProfileRecord;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// Longest time that an event waits to be written.
const INTERVAL: Duration = Duration::from_millis(50);
/// Nanoseconds after which a thread has told of what ended.
const SETTLED: u64 = 1_000_000;
/// Bytes after which a frame is written.
const FRAME: usize = 1 << 20;

/// A file that is written.
pub(super) struct Output {
    path: PathBuf,
    writer: Writer<File>,
}

impl Output {
    /// Makes the file and its folder.
    pub(super) fn create(path: &Path) -> Result<Output, ProfileError> {
        let failed = |error: std::io::Error| ProfileError::Folder {
            path: path.to_owned(),
            error: Arc::new(error),
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let writer = File::create(path).and_then(Writer::new).map_err(failed)?;
        Ok(Output {
            path: path.to_owned(),
            writer,
        })
    }
}

/// The first record of a session that starts at `time`.
pub(super) fn first(options: &Options, time: u64) -> Start {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name);
    Start {
        time,
        unix: unix.map_or(0, |since| since.as_nanos() as u64),
        pid: std::process::id(),
        rank: options.rank,
        program: program.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: options.settings.clone(),
    }
}

/// Writes what the threads and devices of a session tell, until it ends.
pub(super) fn run(shared: &Shared, output: Option<Output>, first: Start) {
    let mut session = Session::new(shared, output);
    session.push(&Record::Start(first));
    loop {
        let ends = shared.ends.load(Ordering::Acquire);
        session.round(ends);
        if ends {
            break;
        }
        std::thread::park_timeout(INTERVAL);
    }
    session.end();
}

/// What is known of the file so far.
struct Session<'a> {
    shared: &'a Shared,
    output: Option<Output>,
    frame: Frame,
    scale: clock::Scale,
    texts: HashSet<TextId>,
    places: HashSet<u32>,
    threads: HashSet<u32>,
    devices: HashSet<u32>,
    /// By device and handle.
    streams: HashMap<(u32, u64), u32>,
    /// By device: what may not be all yet, in the order of ends.
    unsettled: HashMap<u32, Vec<ProfileRecord>>,
    /// The last op of each thread, with its serial number: later parts of the same call belong to it.
    ops: HashMap<u32, (Op, u32)>,
}

impl<'a> Session<'a> {
    fn new(shared: &'a Shared, output: Option<Output>) -> Session<'a> {
        Session {
            shared,
            output,
            frame: Frame::default(),
            scale: clock::Scale::new(),
            texts: HashSet::new(),
            places: HashSet::new(),
            threads: HashSet::new(),
            devices: HashSet::new(),
            streams: HashMap::new(),
            unsettled: HashMap::new(),
            ops: HashMap::new(),
        }
    }

    /// Takes what a device tells, in the order of ends. Unless it is the `last` time, what ended just now waits for the next one,
    /// because another thread may be about to tell what ended before.
    fn drained(&mut self, measured: &Measured, last: bool) -> Drained {
        let settled = match last {
            true => u64::MAX,
            false => clock::now().saturating_sub(SETTLED),
        };
        let mut drained = Drained {
            records: self.unsettled.remove(&measured.number).unwrap_or_default(),
            ..Drained::default()
        };
        measured.drain(&mut drained);
        drained.records.sort_by_key(|record| record.end_ns);
        let settled = drained.records.partition_point(|record| record.end_ns < settled);
        let rest = drained.records.split_off(settled);
        self.unsettled.insert(measured.number, rest);
        drained
    }

    /// Writes what is there. What events refer to was told before them, so it is asked for after them and written first.
    fn round(&mut self, last: bool) {
        let devices = self.shared.devices();
        let told: Vec<Drained> = (devices.iter())
            .map(|measured| self.drained(measured, last))
            .collect();
        let (mut events, mut lost, number) = (Vec::new(), Vec::new(), self.shared.number);
        ring::drain(
            &mut |ring: &Ring, words| {
                // What came after its session ended is of no one.
                if let Some((session, event)) = Event::of_words(words)
                    && session == number
                {
                    events.push((ring.thread, event));
                }
                self.thread(ring);
            },
            &mut |ring, count| lost.push((ring.name.clone(), count)),
        );
        self.scale.refresh();
        let large = std::mem::take(&mut *self.shared.large.lock());
        // Devices that came while events were taken.
        let devices = self.shared.devices();
        devices.iter().for_each(|measured| self.device(measured));
        large.into_iter().for_each(|record| self.large(&record));
        let idle = events.is_empty();
        for (thread, event) in events {
            self.event(thread, event);
        }
        if idle {
            self.flush_ops();
        }
        for (measured, drained) in devices.iter().zip(&told) {
            drained
                .records
                .iter()
                .for_each(|record| self.told(measured.number, record));
            if drained.lost > 0 {
                lost.push((measured.device.target().to_owned(), drained.lost));
            }
        }
        for (source, count) in lost {
            let source = text::intern(&source);
            self.text(source);
            self.push(&Record::Lost { source, count });
        }
        self.write();
    }

    fn end(&mut self) {
        self.flush_ops();
        self.push(&Record::End { time: clock::now() });
        self.write();
    }

    fn push(&mut self, record: &Record) {
        if self.output.is_some() {
            self.frame.push(record);
            if self.frame.bytes() > FRAME {
                self.write();
            }
        }
    }

    fn write(&mut self) {
        if let Some(output) = &mut self.output
            && let Err(error) = output.writer.write(&mut self.frame)
        {
            self.shared.fail(&output.path, error);
            self.output = None;
        }
    }

    fn text(&mut self, id: TextId) {
        if id != 0
            && self.texts.insert(id)
            && let Some(text) = text::get(id)
        {
            let text = text.to_string();
            self.push(&Record::Text { id, text });
        }
    }

    fn place(&mut self, id: u32) {
        if id != 0
            && self.places.insert(id)
            && let Some(place) = place::get(id)
        {
            [place.op, place.scope, place.file]
                .into_iter()
                .for_each(|id| self.text(id));
            self.push(&Record::Place(place));
        }
    }

    fn thread(&mut self, ring: &Ring) {
        if self.threads.insert(ring.thread) {
            let name = text::intern(&ring.name);
            self.text(name);
            let id = ring.thread;
            self.push(&Record::Thread { id, name });
        }
    }

    fn device(&mut self, measured: &Measured) {
        if !self.devices.insert(measured.number) {
            return;
        }
        let name = measured.device.properties().name.clone();
        let target = text::intern(measured.device.target());
        let (name, unmeasured) = (text::intern(&name), text::intern(&measured.unmeasured));
        [target, name, unmeasured]
            .into_iter()
            .for_each(|id| self.text(id));
        self.push(&Record::Device(Device {
            id: measured.number,
            target,
            name,
            unmeasured,
        }));
        if measured.default_stream != 0 {
            self.stream(measured.number, measured.default_stream, true);
        }
    }

    /// The number of a stream; 0 for none.
    fn stream(&mut self, device: u32, handle: u64, default: bool) -> u32 {
        if handle == 0 {
            return 0;
        }
        if let Some(&id) = self.streams.get(&(device, handle)) {
            return id;
        }
        let id = self.streams.len() as u32 + 1;
        self.streams.insert((device, handle), id);
        let name = match default {
            true => 0,
            false => text::intern(&format!("stream {id}")),
        };
        self.text(name);
        self.push(&Record::Stream { id, device, name });
        id
    }

    fn large(&mut self, record: &Record) {
        if let Record::Program(program) = record {
            self.text(program.name);
            for node in &program.nodes {
                self.text(node.kernel);
                self.text(node.shape);
                node.parts.iter().for_each(|part| self.place(part.place));
            }
        }
        self.push(record);
    }

    fn flush_ops(&mut self) {
        for (op, _) in std::mem::take(&mut self.ops).into_values() {
            self.push(&Record::Op(op));
        }
    }

    /// A user's call may be several ops of the library: one record.
    fn op(&mut self, op: Op, serial: u32) {
        match self.ops.get_mut(&op.thread) {
            Some((last, known)) if (last.place, last.call, *known) == (op.place, op.call, serial) => {
                last.end = op.end;
            }
            _ => {
                if let Some((last, _)) = self.ops.insert(op.thread, (op, serial)) {
                    self.push(&Record::Op(last));
                }
            }
        }
    }

    fn op_event(&mut self, thread: u32, (start, end): (u64, u64), call: Call, told: OpOfRun) {
        self.place(call.place);
        self.text(told.operands);
        let op = Op {
            thread,
            start: self.scale.nanoseconds(start),
            end: self.scale.nanoseconds(end),
            place: call.place,
            call: call.number,
            operands: told.operands,
        };
        self.op(op, told.serial);
    }

    fn event(&mut self, thread: u32, event: Event) {
        match event {
            Event::Op {
                start,
                end,
                call,
                operands,
                serial,
            } => self.op_event(thread, (start, end), call, OpOfRun { operands, serial }),
            Event::Run {
                start,
                end,
                correlation,
                device,
                stream,
                program,
                call,
                op,
            } => {
                self.place(call.place);
                if let Some(op) = op {
                    self.op_event(thread, (start, end), call, op);
                }
                let stream = self.stream(device, stream, false);
                self.push(&Record::Run(Run {
                    correlation,
                    thread,
                    stream,
                    start: self.scale.nanoseconds(start),
                    end: self.scale.nanoseconds(end),
                    program,
                    place: call.place,
                    call: call.number,
                }));
            }
            Event::Span {
                start,
                end,
                kind,
                name,
                number,
            } => {
                self.text(name);
                self.push(&Record::Span(Span {
                    thread,
                    kind,
                    name,
                    number,
                    start: self.scale.nanoseconds(start),
                    end: self.scale.nanoseconds(end),
                }));
            }
            Event::Mark { time, name } => {
                self.text(name);
                let time = self.scale.nanoseconds(time);
                self.push(&Record::Mark { thread, time, name });
            }
            Event::Counter { time, name, value } => {
                self.text(name);
                let time = self.scale.nanoseconds(time);
                self.push(&Record::Counter { time, name, value });
            }
            Event::Failure { time, text } => {
                self.text(text);
                let time = self.scale.nanoseconds(time);
                self.push(&Record::Failure { thread, time, text });
            }
            Event::Bracket {
                end,
                took,
                correlation,
                device,
                stream,
            } => {
                let stream = self.stream(device, stream, false);
                let end = self.scale.nanoseconds(end);
                self.push(&Record::Command(Command {
                    correlation,
                    node: recording::WHOLE,
                    kind: CommandKind::Launch,
                    stream,
                    start: end.saturating_sub(took),
                    end,
                    ..Command::default()
                }));
            }
        }
    }

    fn told(&mut self, device: u32, record: &ProfileRecord) {
        let stream = self.stream(device, record.stream, false);
        match measure::told(record, device, stream) {
            Some(Told::Command(command)) => self.push(&Record::Command(command)),
            Some(Told::Memory(memory)) => self.push(&Record::Memory(memory)),
            None => {}
        }
    }
}
