//! `thalweg replay`.

mod apart;
mod graph;
mod list;
mod times;

use crate::Outcome;
use crate::args::Replay;
use crate::text::{count, line};
use std::fmt;
use std::io::Write;
use std::path::Path;
use thalweg::graph::Graph;
use thalweg::hal::{Runtime, Target as Name};
use thalweg::loader::Registry;
use thalweg_layers::captured::{Answer, Call, File, Refusal};
use thalweg_layers::replay::{self, Player, Target};

pub(crate) fn run(args: &Replay, out: &mut dyn Write) -> Outcome {
    let file = match open(&args.file)? {
        Opened::Capture(file) => *file,
        Opened::Graph(graph) => return graph::run(args, &graph, out),
    };
    tell(&args.file, &file, out)?;
    if args.list {
        list::write(&file, out)?;
        return Ok(true);
    }
    let runtime = Runtime::new(Registry::new(args.search.options()?));
    let targets = targets(&runtime, &file, args.target.as_deref())?;
    let same = if args.against.is_some() || args.compare.is_some() {
        let other = args.compare.as_deref().map(capture).transpose()?;
        let other = other.as_ref().unwrap_or(&file);
        let place = args.against.as_deref().or(args.target.as_deref());
        let other_targets = self::targets(&runtime, other, place)?;
        apart::run(args, [(&file, &targets), (other, &other_targets)], out)?
    } else if args.check {
        check(args, &file, &targets, out)?
    } else {
        times::run(args, &file, &targets, out)?;
        true
    };
    Ok(same != args.differs)
}

/// A capture that cannot be used.
#[derive(Debug)]
struct Unusable {
    path: String,
    why: Refusal,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

impl std::error::Error for Unusable {}

/// What a file holds.
pub(crate) enum Opened {
    Capture(Box<File>),
    Graph(Graph),
}

/// The most bytes of a text.
const MAX_TEXT: u64 = 64 << 20;

/// Reads a capture, or a graph in text.
pub(crate) fn open(path: &Path) -> Result<Opened, Box<dyn std::error::Error>> {
    if let Some(text) = text(path) {
        let graph = Graph::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(Opened::Graph(graph));
    }
    Ok(Opened::Capture(Box::new(capture(path)?)))
}

/// The text of a file that has a graph in it.
fn text(path: &Path) -> Option<String> {
    let file = std::fs::metadata(path).ok()?;
    if !file.is_file() || file.len() > MAX_TEXT {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    text.lines()
        .any(|line| line.starts_with("graph "))
        .then_some(text)
}

fn capture(path: &Path) -> Result<File, Box<dyn std::error::Error>> {
    let refused = |why| Unusable {
        path: path.display().to_string(),
        why,
    };
    Ok(File::open(path).map_err(refused)?)
}

fn tell(path: &Path, file: &File, out: &mut dyn Write) -> std::io::Result<()> {
    let start = &file.start;
    let names: Vec<String> = replay::backends(file)
        .iter()
        .map(|backend| line(&backend.name))
        .collect();
    writeln!(
        out,
        "{}: {} (process {}, thalweg {}) on {}, {}",
        line(&path.display().to_string()),
        line(&start.program),
        start.pid,
        line(&start.version),
        names.join(" and "),
        count(file.records.len(), "record")
    )?;
    if let Some(why) = file.cut {
        writeln!(out, "the file ends early, because {why}")?;
    }
    let mapped = file
        .records
        .iter()
        .filter(|record| matches!(record.call, Call::Map(_)))
        .count();
    if mapped > 0 {
        let buffers = count(mapped, "buffer");
        writeln!(
            out,
            "the program had the address of {buffers}, and what it wrote there is not captured"
        )?;
    }
    Ok(())
}

/// Where the work of each captured backend is done.
fn targets(
    runtime: &Runtime,
    file: &File,
    target: Option<&str>,
) -> Result<Vec<Target>, Box<dyn std::error::Error>> {
    let backends = replay::backends(file);
    let one = target.map(Name::parse).transpose()?;
    let target = |captured: &str| -> Result<Target, Box<dyn std::error::Error>> {
        let (name, ordinal) = match &one {
            None => (captured.to_owned(), None),
            Some(Name::Device { backend, id }) => {
                let id = id.unwrap_or(0);
                let ordinal =
                    u32::try_from(id).map_err(|_| format!("there is no device {id} of {backend}"))?;
                (backend.clone(), Some(ordinal))
            }
            Some(_) => (runtime.device("auto")?.backend().name().to_owned(), Some(0)),
        };
        Ok(Target {
            tables: runtime.backend(&name)?.replay_tables()?,
            ordinal,
        })
    };
    backends.iter().map(|backend| target(&backend.name)).collect()
}

/// What happened to a record.
fn played(player: &mut Player, at: usize, file: &File) -> Result<(), String> {
    let done = player.play(&file.records[at]);
    // The start of the file is record 1.
    done.map_err(|error| format!("record {}: {error}", at + 2))
}

/// Does everything once and compares what was read back with what the program read.
fn check(args: &Replay, file: &File, targets: &[Target], out: &mut dyn Write) -> Outcome {
    if !replay::has_contents(file) {
        return Err(
            "the capture does not have the bytes that came from the host; capture with contents=data to check results".into(),
        );
    }
    let expected = file.records.iter().filter_map(|record| record.call.answer());
    let expected: Vec<&Answer> = expected.collect();
    let mut wrong = 0;
    for _ in 0..args.times.get() {
        let mut player = Player::new(file, targets, 0)?;
        for at in 0..file.records.len() {
            played(&mut player, at, file)?;
        }
        player.finish()?;
        for answer in &expected {
            if player.answers().get(&answer.number) != Some(&answer.hash) {
                wrong += 1;
                let place = list::place_of(file, answer.number);
                writeln!(out, "result {} differs: {}", answer.number, line(&place))?;
            }
        }
    }
    let results = count(expected.len(), "result");
    match wrong {
        0 => writeln!(out, "{results} read back, with the bits of the captured program")?,
        wrong => writeln!(out, "{wrong} of {results} differ from the captured program")?,
    }
    Ok(wrong == 0)
}
