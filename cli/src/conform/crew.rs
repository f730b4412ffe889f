//! Runs workers until every case has a row. A worker that dies costs the case that it was in; a new one goes on behind it.

use super::worker::{LATENCY, MARK, Message};
use crate::args::Conform;
use crate::{ended, text};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use thalweg::loader::ABI;
use thalweg_conformance::{Case, Latency, Outcome, Report, Row};

/// Deaths in a row after which the rest is not tried any more.
const MOST_DEATHS: usize = 20;

/// Groups of cases that compute and measure no time, so that they may run beside one another.
pub(super) const COMPUTE: [&str; 2] = ["kernels", "library"];

/// Failures cross threads.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// What is told of a run while it goes on.
pub(super) enum Event {
    /// What was loaded, and the contract.
    Loaded(String, String),
    Row(Row),
}

/// `seen` is told as things happen, and ends the run by an error.
pub(super) fn run(
    args: &Conform,
    cases: &[Case],
    seen: impl FnMut(Event) -> Result<(), Failure> + Send,
) -> Result<Report, Failure> {
    let crew = Crew {
        args,
        cases,
        state: Mutex::new(State {
            rows: cases.iter().map(|_| None).collect(),
            deaths: 0,
            loaded: None,
            seen,
        }),
    };
    let (beside, alone): (Vec<usize>, Vec<usize>) =
        (0..cases.len()).partition(|&index| COMPUTE.contains(&cases[index].group));
    let mut first = Shift::new(&crew);
    first.all(&Mutex::new(alone.into_iter()))?;
    let beside = Mutex::new(beside.into_iter());
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..args.jobs.get())
            .map(|_| scope.spawn(|| Shift::new(&crew).all(&beside)))
            .collect();
        let own = first.all(&beside);
        let joined = others.into_iter().map(|other| {
            other
                .join()
                .unwrap_or_else(|_| Err("a thread that runs cases panicked".into()))
        });
        joined.fold(own, Result::and)
    })?;
    let latency = match args.filter {
        Some(_) => None,
        None => first.latency(),
    };
    let state = crew.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (subject, contract) = state
        .loaded
        .unwrap_or_else(|| (args.subject.clone().unwrap_or_default(), ABI.to_string()));
    Ok(Report {
        subject,
        contract,
        rows: state.rows.into_iter().flatten().collect(),
        latency,
    })
}

/// What the workers share.
struct Crew<'a, S> {
    args: &'a Conform,
    cases: &'a [Case],
    state: Mutex<State<S>>,
}

struct State<S> {
    rows: Vec<Option<Row>>,
    /// Workers that died since a case last came to its end.
    deaths: usize,
    /// The name of what was loaded, and the contract.
    loaded: Option<(String, String)>,
    seen: S,
}

impl<S: FnMut(Event) -> Result<(), Failure>> Crew<'_, S> {
    fn with<R>(&self, change: impl FnOnce(&mut State<S>) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, index: usize, row: Row) -> Result<(), Failure> {
        self.with(|state| {
            state.rows[index] = Some(row.clone());
            (state.seen)(Event::Row(row))
        })
    }

    fn fail(&self, index: usize, reason: String) -> Result<(), Failure> {
        let case = &self.cases[index];
        self.note(
            index,
            Row {
                group: case.group.into(),
                name: case.name.clone(),
                outcome: Outcome::Failed(reason),
                milliseconds: 0,
            },
        )
    }

    fn start(&self) -> Result<Worker, Failure> {
        let args = self.args;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["conform", "--work"])
            .arg(args.subject.as_deref().unwrap_or_default())
            .args(args.search.to_args());
        for (flag, value) in [
            ("--filter", args.filter.as_ref().map(AsRef::as_ref)),
            ("--ignore", args.ignore.as_deref().map(AsRef::as_ref)),
        ] {
            let value: Option<&std::ffi::OsStr> = value;
            command.args(value.into_iter().flat_map(|value| [flag.as_ref(), value]));
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            command.arg("-v");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (orders, answers) = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
        let mut worker = Worker {
            child,
            orders: Some(orders),
            answers: BufReader::new(answers),
        };
        match worker.answer()? {
            Some(Message::Loaded { subject, contract }) => {
                self.with(|state| {
                    if state.loaded.is_some() {
                        return Ok(());
                    }
                    state.loaded = Some((subject.clone(), contract.clone()));
                    (state.seen)(Event::Loaded(subject, contract))
                })?;
                Ok(worker)
            }
            Some(Message::Error(text)) => Err(text.into()),
            _ => Err(format!(
                "the process {} while the backend was loaded; `thalweg -v conform` shows at which step",
                ended::text(worker.child.wait()?)
            )
            .into()),
        }
    }
}

/// Cases one after the other, on one worker after the other.
struct Shift<'a, S> {
    crew: &'a Crew<'a, S>,
    worker: Option<Worker>,
}

impl<'a, S: FnMut(Event) -> Result<(), Failure>> Shift<'a, S> {
    fn new(crew: &'a Crew<'a, S>) -> Shift<'a, S> {
        Shift { crew, worker: None }
    }

    /// Runs the cases that the list still holds.
    fn all(&mut self, list: &Mutex<impl Iterator<Item = usize>>) -> Result<(), Failure> {
        loop {
            let next = list.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some(index) => self.one(index)?,
                None => return Ok(()),
            }
        }
    }

    fn one(&mut self, index: usize) -> Result<(), Failure> {
        let crew = self.crew;
        if crew.with(|state| state.deaths) >= MOST_DEATHS {
            let reason = format!("not run: the process died in {MOST_DEATHS} cases in a row");
            return crew.fail(index, reason);
        }
        match self.order(&index.to_string())? {
            Ok(Message::Row(row)) => {
                crew.with(|state| state.deaths = 0);
                crew.note(index, row)
            }
            Ok(_) => Err("a worker answered with something else than a row".into()),
            Err(status) => {
                crew.with(|state| state.deaths += 1);
                crew.fail(index, format!("the process {} in this case", ended::text(status)))
            }
        }
    }

    /// The latencies; `None` where no worker lives to tell them.
    fn latency(&mut self) -> Option<Latency> {
        if self.crew.with(|state| state.deaths) >= MOST_DEATHS {
            return None;
        }
        match self.order(LATENCY) {
            Ok(Ok(Message::Latency(latency))) => latency,
            _ => None,
        }
    }

    /// A worker's answer, or how it ended.
    fn order(&mut self, order: &str) -> Result<Result<Message, ExitStatus>, Failure> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.crew.start()?,
        };
        // A worker that is gone cannot read; its end is seen where its answer is awaited.
        let _ = worker.orders.as_mut().map(|orders| writeln!(orders, "{order}"));
        match worker.answer()? {
            Some(message) => {
                self.worker = Some(worker);
                Ok(Ok(message))
            }
            None => Ok(Err(worker.child.wait()?)),
        }
    }
}

struct Worker {
    child: Child,
    /// `None` once no more orders come.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// The next message; `None` when the process ended before.
    fn answer(&mut self) -> std::io::Result<Option<Message>> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if self.answers.read_until(b'\n', &mut bytes)? == 0 {
                return Ok(None);
            }
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end_matches('\n');
            match line
                .strip_prefix(MARK)
                .and_then(|json| serde_json::from_str(json).ok())
            {
                Some(message) => return Ok(Some(message)),
                None if line.is_empty() => {}
                None => eprintln!("{}", text::line(line)),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker ends when its input does.
        self.orders = None;
        let _ = self.child.wait();
    }
}
