//! How much a line matters.

use std::fmt;
use tracing::Metadata;

/// How much a line matters, the least first. Its number is that of `THALWEG_LOG_LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// 0: for those who look for a fault.
    Debug,
    /// 1: what happens.
    Info,
    /// 2: what may not be as meant.
    Warning,
    /// 3: what went wrong.
    Error,
    /// 4: what a program cannot go on after, such as a device that is lost. Of events, errors with the field `critical = true`.
    Critical,
}

impl Level {
    /// All, the least first.
    pub const ALL: [Level; 5] = [
        Level::Debug,
        Level::Info,
        Level::Warning,
        Level::Error,
        Level::Critical,
    ];

    /// Its name in lines and in names of files.
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
            Level::Critical => "CRITICAL",
        }
    }

    /// The level of a number.
    pub(super) fn of_number(text: &str) -> Option<Level> {
        let number: usize = text.trim().parse().ok()?;
        Level::ALL.get(number).copied()
    }

    /// The highest level that an event can have; `None` for traces, which are no lines of a log.
    pub(super) fn highest(event: &Metadata<'_>) -> Option<Level> {
        let level = match *event.level() {
            tracing::Level::TRACE => return None,
            tracing::Level::DEBUG => Level::Debug,
            tracing::Level::INFO => Level::Info,
            tracing::Level::WARN => Level::Warning,
            tracing::Level::ERROR if event.fields().field(CRITICAL).is_some() => Level::Critical,
            tracing::Level::ERROR => Level::Error,
        };
        Some(level)
    }
}

/// The field of errors that makes them critical.
pub(super) const CRITICAL: &str = "critical";

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
