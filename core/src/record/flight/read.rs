//! What a flight recorder left behind.

use super::error::FlightError;
use super::ring::{Content, Event, TAKEN};
use super::table::Table;
use super::{ERRORS, LOG, NAMES, RING, log};
use crate::record::recording::{Place, Program, Reader, Record, Start};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// Launches, and lines of the log, that a summary shows.
const SHOWN: usize = 10;
/// How deep folders are searched: `PATH/rank_0/rdr/UNIX_PID`.
const DEPTH: usize = 3;

/// The last launches, changes of memory, graphs and errors of a process.
///
/// ```no_run
/// use thalweg::observe::flight::{Flight, find};
/// for folder in find("out".as_ref())? {
///     let flight = Flight::read(&folder)?;
///     flight.write()?; // order.csv, memory.csv
///     println!("{flight}");
/// }
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Flight {
    /// The folder of its files.
    pub folder: PathBuf,
    /// The process.
    pub start: Start,
    /// The status that the process ended with; `None` where it runs or was killed.
    pub status: Option<u32>,
    /// How many launches there were.
    pub launched: u64,
    /// The last of them, in the order of their submission.
    pub launches: Vec<Launch>,
    /// The last changes of memory.
    pub memory: Vec<MemoryEvent>,
    /// Events that were being noted when the process was killed.
    pub torn: usize,
    /// What was told of errors, the first first; empty for none.
    pub errors: String,
    /// The last lines of the log, where [`init`](crate::init) installed it; empty for none.
    pub log: String,
    /// The graphs that were compiled last, by number.
    pub graphs: Vec<PathBuf>,
}

/// Work that was given to a device in one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// Its number in the process, from 0.
    pub number: u64,
    /// Nanoseconds from the start to the launch, or to one of the 15 before it.
    pub time: Option<u64>,
    /// The device, as `cpu:0`.
    pub device: String,
    /// Handle of the stream.
    pub stream: u64,
    /// The traced function, or the op.
    pub function: String,
    /// Its kernels, with a space between them.
    pub kernels: String,
    /// The op that the user called; empty for a function.
    pub op: String,
    /// The name of the call, as `Default/conv1/conv2d-op3`.
    pub name: String,
    /// The user's line, as `src/net.rs:41`.
    pub line: String,
}

/// A buffer was made or went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEvent {
    /// Its number in the process, from 0.
    pub number: u64,
    /// Nanoseconds from the start to it, or to one of the 15 before it.
    pub time: Option<u64>,
    /// Whether it was made.
    pub made: bool,
    /// Number of the buffer on its device.
    pub buffer: u64,
    /// Its size.
    pub bytes: u64,
    /// The op that made it.
    pub op: String,
    /// The name of that call.
    pub name: String,
    /// The user's line.
    pub line: String,
}

/// The folders of flights in a folder: itself, those of a rank, those of all ranks; the oldest first.
///
/// # Errors
/// There is none.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, FlightError> {
    let mut found = Vec::new();
    search(path, DEPTH, &mut found);
    found.sort_unstable();
    match found.is_empty() {
        true => Err(FlightError::None {
            path: path.to_owned(),
        }),
        false => Ok(found),
    }
}

fn search(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if path.join(RING).is_file() {
        found.push(path.to_owned());
        return;
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        search(&entry.path(), depth, found);
    }
}

impl Flight {
    /// Reads the files of a folder. Those of a process that was killed are good to the last event.
    ///
    /// # Errors
    /// A file that cannot be read, or that is none of a flight recorder.
    pub fn read(folder: &Path) -> Result<Flight, FlightError> {
        let path = folder.join(RING);
        let failed = |why: String| FlightError::Read {
            path: path.clone(),
            why,
        };
        let bytes = fs::read(&path).map_err(|error| failed(error.to_string()))?;
        let content = Content::of(&bytes)
            .ok_or_else(|| failed("this is no file of a flight recorder of this version".to_owned()))?;
        let known = Known::read(&folder.join(NAMES))?;
        let start = known.start.time;
        let launches = times(&content.launches.1, start);
        let memory = times(&content.memory.1, start);
        let errors = match fs::read(folder.join(ERRORS)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(),
        };
        Ok(Flight {
            folder: folder.to_owned(),
            status: content.status,
            launched: content.launches.0,
            launches: launches.map(|(event, time)| known.launch(event, time)).collect(),
            memory: memory.map(|(event, time)| known.memory(event, time)).collect(),
            torn: content.torn,
            errors,
            log: log::read(&folder.join(LOG)),
            graphs: graphs(folder),
            start: known.start,
        })
    }

    /// Writes `order.csv` and `memory.csv` beside what was read.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self) -> Result<(), FlightError> {
        let mut order = Table::new("launch,time_ns,device,stream,function,kernels,op,name,line");
        let time = |time: Option<u64>| time.map_or_else(String::new, |time| time.to_string());
        for launch in &self.launches {
            let Launch {
                device,
                function,
                kernels,
                op,
                name,
                line,
                ..
            } = launch.clone();
            let (number, at, stream) = (
                launch.number.to_string(),
                time(launch.time),
                launch.stream.to_string(),
            );
            order.row([number, at, device, stream, function, kernels, op, name, line]);
        }
        let mut memory = Table::new("event,time_ns,kind,buffer,bytes,op,name,line");
        for event in &self.memory {
            let MemoryEvent { op, name, line, .. } = event.clone();
            let kind = if event.made { "made" } else { "freed" };
            let (number, at) = (event.number.to_string(), time(event.time));
            let (buffer, bytes) = (event.buffer.to_string(), event.bytes.to_string());
            memory.row([number, at, kind.to_owned(), buffer, bytes, op, name, line]);
        }
        for (name, table) in [("order.csv", order), ("memory.csv", memory)] {
            let path = self.folder.join(name);
            fs::write(&path, table.into_text()).map_err(|error| FlightError::Write {
                path,
                error: error.into(),
            })?;
        }
        Ok(())
    }

    /// `ended with status 0`, `runs` or `was killed`.
    fn end(&self) -> String {
        match self.status {
            Some(status) => format!("ended with status {status}"),
            None if Path::new(&format!("/proc/{}", self.start.pid)).exists() => "runs".to_owned(),
            None => "was killed".to_owned(),
        }
    }
}

/// The events with the time of the one in [`TAKEN`] that has one, in nanoseconds since the start.
fn times(events: &[Event], start: u64) -> impl Iterator<Item = (&Event, Option<u64>)> {
    let mut last: Option<(u64, u64)> = None;
    events.iter().map(move |event| {
        if let Some(time) = event.time {
            last = Some((event.number / TAKEN, time.saturating_sub(start)));
        }
        let time = last.filter(|(group, _)| *group == event.number / TAKEN);
        (event, time.map(|(_, time)| time))
    })
}

/// The graphs of a folder by number.
fn graphs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut graphs: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number = name.strip_prefix("graph_")?.strip_suffix(".ir")?;
            Some((number.parse().ok()?, entry.path()))
        })
        .collect();
    graphs.sort_unstable();
    graphs.into_iter().map(|(_, path)| path).collect()
}

/// What numbers in the mapped file stand for.
#[derive(Default)]
struct Known {
    start: Start,
    texts: HashMap<u32, String>,
    places: HashMap<u32, Place>,
    programs: HashMap<u32, Program>,
    devices: HashMap<u32, u32>,
}

impl Known {
    fn read(path: &Path) -> Result<Known, FlightError> {
        let failed = |error: io::Error| FlightError::Read {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let reader = Reader::new(BufReader::new(File::open(path).map_err(failed)?)).map_err(failed)?;
        let mut known = Known::default();
        // A file that was cut is good to its last whole frame.
        for record in reader {
            match record {
                Record::Start(start) => known.start = start,
                Record::Text { id, text } => {
                    known.texts.insert(id, text);
                }
                Record::Place(place) => {
                    known.places.insert(place.id, place);
                }
                Record::Program(program) => {
                    known.programs.insert(program.id, program);
                }
                Record::Device(device) => {
                    known.devices.insert(device.id, device.target);
                }
                Record::Thread { .. }
                | Record::Stream { .. }
                | Record::Op(_)
                | Record::Run(_)
                | Record::Command(_)
                | Record::Memory(_)
                | Record::Span(_)
                | Record::Mark { .. }
                | Record::Counter { .. }
                | Record::Failure { .. }
                | Record::Lost { .. }
                | Record::End { .. } => {}
            }
        }
        Ok(known)
    }

    fn text(&self, id: u32) -> String {
        self.texts.get(&id).cloned().unwrap_or_default()
    }

    /// The op of a call, its name and its line.
    fn call(&self, word: u64) -> (String, String, String) {
        let (place, number) = (word as u32, word >> 32);
        let Some(place) = self.places.get(&place) else {
            return <_>::default();
        };
        let (op, file) = (self.text(place.op), self.text(place.file));
        let mut name = self.text(place.scope);
        if !name.is_empty() {
            name.push('/');
        }
        name.push_str(&op);
        if number > 0 {
            name.push_str(&format!("-op{number}"));
        }
        let line = match file.is_empty() {
            true => file,
            false => format!("{file}:{}", place.line),
        };
        (op, name, line)
    }

    fn launch(&self, event: &Event, time: Option<u64>) -> Launch {
        let [call, at, stream] = event.content;
        let (op, name, line) = self.call(call);
        let program = self.programs.get(&(at as u32));
        let kernels = program.map_or_else(Vec::new, |program| {
            let kernels = program.nodes.iter().map(|node| self.text(node.kernel));
            kernels
                .map(|name| if name.is_empty() { "fill".into() } else { name })
                .collect()
        });
        Launch {
            number: event.number,
            time,
            device: self.text(self.devices.get(&((at >> 32) as u32)).copied().unwrap_or(0)),
            stream,
            function: program.map_or_else(String::new, |program| self.text(program.name)),
            kernels: kernels.join(" "),
            op,
            name,
            line,
        }
    }

    fn memory(&self, event: &Event, time: Option<u64>) -> MemoryEvent {
        let [call, buffer, bytes] = event.content;
        let (op, name, line) = self.call(call);
        MemoryEvent {
            number: event.number,
            time,
            made: buffer & 1 == 1,
            buffer: buffer >> 1,
            bytes,
            op,
            name,
            line,
        }
    }
}

impl fmt::Display for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Start {
            program, pid, rank, ..
        } = &self.start;
        writeln!(f, "{}", self.folder.display())?;
        writeln!(f, "{program} (process {pid}, rank {rank}) {}", self.end())?;
        let (kept, changes, graphs) = (self.launches.len(), self.memory.len(), self.graphs.len());
        writeln!(
            f,
            "{} launches, the last {kept} kept; {changes} changes of memory; {graphs} graphs",
            self.launched
        )?;
        if self.torn > 0 {
            writeln!(
                f,
                "{} events were being written at the end, or were written over",
                self.torn
            )?;
        }
        for launch in self.launches.iter().skip(kept.saturating_sub(SHOWN)) {
            let what = if launch.name.is_empty() {
                &launch.function
            } else {
                &launch.name
            };
            writeln!(
                f,
                "{:>8}  {}  {what}  {}",
                launch.number, launch.device, launch.line
            )?;
        }
        for line in self.errors.lines().filter(|line| !line.is_empty()) {
            writeln!(f, "error  {line}")?;
        }
        let lines = self.log.lines().count();
        for line in self.log.lines().skip(lines.saturating_sub(SHOWN)) {
            writeln!(f, "log  {line}")?;
        }
        Ok(())
    }
}
