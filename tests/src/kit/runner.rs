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

    /// Only cases whose `group/name` fits the pattern, where `*` stands for any text.
    pub fn only(mut self, pattern: &str) -> Kit {
        let cases = std::mem::take(&mut self.cases);
        if let Ok(mut cases) = Arc::try_unwrap(cases) {
            cases.retain(|case| matches(pattern, &case.path()));
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
        let mut rows = Vec::with_capacity(self.cases.len());
        let mut worker = None;
        for (index, case) in self.cases.iter().enumerate() {
            let start = Instant::now();
            let outcome = match self.ignores.reason(&case.path()) {
                Some(reason) => Outcome::Ignored(reason.to_owned()),
                None => match self.judge(subject, index, &mut worker) {
                    Verdict::Passed => Outcome::Passed,
                    Verdict::Failed(why) => Outcome::Failed(why),
                    Verdict::Unsupported(why) => Outcome::Unsupported(why),
                },
            };
            let row = Row {
                group: case.group.into(),
                name: case.name.clone(),
                outcome,
                milliseconds: start.elapsed().as_millis() as u64,
            };
            seen(&row);
            rows.push(row);
        }
        Report {
            subject: subject.name().to_owned(),
            contract: format!("{ABI_MAJOR}.{ABI_MINOR}"),
            rows,
            latency: self.measure.then(|| self.latency(subject)).flatten(),
        }
    }

    /// The latencies; `None` when they could not be measured within the deadline.
    fn latency(&self, subject: &Arc<Subject>) -> Option<Latency> {
        let (send, result) = channel();
        let subject = Arc::clone(subject);
        std::thread::spawn(move || {
            let measured = catch_unwind(AssertUnwindSafe(|| latency::measure(&subject)));
            // Nobody listens any more after the deadline.
            let _ = send.send(measured.ok());
        });
        result.recv_timeout(self.deadline).ok().flatten()
    }

    /// Runs one case on the worker; a worker that does not come back is left behind.
    fn judge(&self, subject: &Arc<Subject>, index: usize, worker: &mut Option<Worker>) -> Verdict {
        let current = worker.get_or_insert_with(|| self.worker(subject));
        let answer = match current.orders.send(index) {
            Ok(()) => current.verdicts.recv_timeout(self.deadline),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        answer.unwrap_or_else(|error| {
            *worker = None;
            Verdict::Failed(match error {
                RecvTimeoutError::Timeout => format!("not done within {:?}", self.deadline),
                RecvTimeoutError::Disconnected => "the thread of the case ended".into(),
            })
        })
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
