//! Cases, how they are run, and what they add up to.

mod ignore;
mod report;
mod runner;

pub use ignore::{Ignore, Ignores, matches};
pub use report::{Group, Latency, Outcome, Report, Row, width};
pub use runner::{Kit, Session};

use crate::rig::Subject;
use thalweg_hal::Error;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The backend does what the contract says.
    Passed,
    /// It does not, and what was seen.
    Failed(String),
    /// The backend says that it does not offer this, and why.
    Unsupported(String),
}

/// Why a case ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// See [`Verdict::Failed`].
    Failed(String),
    /// See [`Verdict::Unsupported`].
    Unsupported(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(format!("unexpected error: {error} ({})", error.status))
    }
}

impl From<Result<(), Stop>> for Verdict {
    fn from(result: Result<(), Stop>) -> Verdict {
        match result {
            Ok(()) => Verdict::Passed,
            Err(Stop::Failed(why)) => Verdict::Failed(why),
            Err(Stop::Unsupported(why)) => Verdict::Unsupported(why),
        }
    }
}

/// What a case returns to the kit.
pub type Check = Result<(), Stop>;

type Run = Box<dyn Fn(&Subject) -> Verdict + Send + Sync>;

/// One thing that a backend is held to.
pub struct Case {
    /// The group it is counted in.
    pub group: &'static str,
    /// Its name in the group.
    pub name: String,
    /// Runs it.
    pub run: Run,
}

impl Case {
    /// A case of `group`.
    pub fn new(
        group: &'static str,
        name: impl Into<String>,
        run: impl Fn(&Subject) -> Check + Send + Sync + 'static,
    ) -> Case {
        Case {
            group,
            name: name.into(),
            run: Box::new(move |subject| run(subject).into()),
        }
    }

    /// `group/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// Ends the case as failed, with a text as by `format!`.
#[macro_export]
macro_rules! fail {
    ($($text:tt)*) => { return ::std::result::Result::Err($crate::kit::Stop::Failed(::std::format!($($text)*))) };
}

/// Ends the case as failed unless a condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($text:tt)*) => {{
        let holds: bool = $condition;
        if !holds {
            $crate::fail!($($text)*)
        }
    }};
}

/// Ends the case as failed unless two values are equal; the text says what they are.
#[macro_export]
macro_rules! check_eq {
    ($found:expr, $expected:expr, $($text:tt)*) => {{
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            let what = ::std::format!($($text)*);
            $crate::fail!("{what}: {found:?}, expected {expected:?}")
        }
    }};
}
