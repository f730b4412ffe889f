//! Runs cases, each within a deadline.

use super::ignore::{Ignores, matches};
use super::report::{Latency, Outcome, Report, Row};
use super::{Case, Verdict};
use crate::cases::latency;
use crate::rig::Subject;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use thalweg_hal::tables::{ABI_MAJOR, ABI_MINOR};

/// Runs the cases of a list against backends.
pub struct Kit {
    cases: Arc<Vec<Case>>,
    ignores: Ignores,
    deadline: Duration,
    measure: bool,
}

impl Default for Kit {
    fn default() -> Kit {
        Kit::new()
    }
}

struct Worker {
    orders: Sender<usize>,
    verdicts: Receiver<Verdict>,
}

impl Kit {
    /// Every case, without exceptions, 60 seconds for each, latencies measured.
    pub fn new() -> Kit {
        Kit::of(crate::cases())
    }

    /// Other cases.
    pub fn of(cases: Vec<Case>) -> Kit {
        Kit {
            cases: Arc::new(cases),
            ignores: Ignores::default(),
            deadline: Duration::from_secs(60),
            measure: true,
        }
    }

    /// Only cases whose `group/name` fits the pattern, where `*` stands for any text, or one of several with spaces between them.
    pub fn only(mut self, patterns: &str) -> Kit {
        let cases = std::mem::take(&mut self.cases);
        if let Ok(mut cases) = Arc::try_unwrap(cases) {
            cases.retain(|case| {
                let path = case.path();
                patterns.split_whitespace().any(|pattern| matches(pattern, &path))
            });
            self.cases = Arc::new(cases);
        }
        self
    }

    /// The exceptions of the backend.
    pub fn ignores(mut self, ignores: Ignores) -> Kit {
        self.ignores = ignores;
        self
    }

    /// How long one case may take.
    pub fn deadline(mut self, deadline: Duration) -> Kit {
        self.deadline = deadline;
        self
    }

    /// Whether latencies are measured at the end.
    pub fn measure(mut self, measure: bool) -> Kit {
        self.measure = measure;
        self
    }

    /// Number of cases.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there are no cases.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Runs all cases, one after the other, and calls `seen` after each.
    pub fn run(&self, subject: &Arc<Subject>, mut seen: impl FnMut(&Row)) -> Report {
        let mut session = self.session(subject);
        let rows = (0..self.cases.len())
            .filter_map(|index| session.run(index))
            .inspect(|row| seen(row))
            .collect();
        Report {
            subject: subject.name().to_owned(),
            contract: format!("{ABI_MAJOR}.{ABI_MINOR}"),
            rows,
            latency: self.measure.then(|| session.latency()).flatten(),
        }
    }

    /// Runs cases one at a time, in an order that the caller chooses.
    pub fn session(&self, subject: &Arc<Subject>) -> Session<'_> {
        Session {
            kit: self,
            subject: Arc::clone(subject),
            worker: None,
        }
    }

    fn worker(&self, subject: &Arc<Subject>) -> Worker {
        let (orders, jobs) = channel::<usize>();
        let (answers, verdicts) = channel();
        let (cases, subject) = (Arc::clone(&self.cases), Arc::clone(subject));
        std::thread::spawn(move || {
            for index in jobs {
                let run = || (cases[index].run)(&subject);
                let verdict = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
                    let text = (payload.downcast_ref::<&str>().copied())
                        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                        .unwrap_or("no message");
                    Verdict::Failed(format!("the case panicked: {text}"))
                });
                if answers.send(verdict).is_err() {
                    return;
                }
            }
        });
        Worker { orders, verdicts }
    }
}

/// Cases run one at a time: [`Kit::session`].
pub struct Session<'a> {
    kit: &'a Kit,
    subject: Arc<Subject>,
    worker: Option<Worker>,
}

impl Session<'_> {
    /// Runs the case at `index` of the kit's list; `None` when the list is shorter.
    pub fn run(&mut self, index: usize) -> Option<Row> {
        let case = self.kit.cases.get(index)?;
        let start = Instant::now();
        let outcome = match self.kit.ignores.reason(&case.path()) {
            Some(reason) => Outcome::Ignored(reason.to_owned()),
            None => match self.judge(index) {
                Verdict::Passed => Outcome::Passed,
                Verdict::Failed(why) => Outcome::Failed(why),
                Verdict::Unsupported(why) => Outcome::Unsupported(why),
            },
        };
        Some(Row {
            group: case.group.into(),
            name: case.name.clone(),
            outcome,
            milliseconds: start.elapsed().as_millis() as u64,
        })
    }

    /// The latencies; `None` when they could not be measured within the deadline.
    pub fn latency(&self) -> Option<Latency> {
        let (send, result) = channel();
        let subject = Arc::clone(&self.subject);
        std::thread::spawn(move || {
            let measured = catch_unwind(AssertUnwindSafe(|| latency::measure(&subject)));
            // Nobody listens any more after the deadline.
            let _ = send.send(measured.ok());
        });
        result.recv_timeout(self.kit.deadline).ok().flatten()
    }

    /// Runs one case on the worker; a worker that does not come back is left behind.
    fn judge(&mut self, index: usize) -> Verdict {
        let current = self.worker.get_or_insert_with(|| self.kit.worker(&self.subject));
        let answer = match current.orders.send(index) {
            Ok(()) => current.verdicts.recv_timeout(self.kit.deadline),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        answer.unwrap_or_else(|error| {
            self.worker = None;
            Verdict::Failed(match error {
                RecvTimeoutError::Timeout => format!("not done within {:?}", self.kit.deadline),
                RecvTimeoutError::Disconnected => "the thread of the case ended".into(),
            })
        })
    }
}
