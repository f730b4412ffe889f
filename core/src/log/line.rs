//! One event as a line.

use super::level::{CRITICAL, Level};
use super::module::{BACKEND, HOST};
use super::place;
use std::fmt::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::Event;
use tracing::field::{Field, Visit};

/// The parts of an event that its line is made of.
pub(super) struct Parts<'a> {
    event: &'a Event<'a>,
    /// Whether it stands for a record of a backend.
    of_host: bool,
    message: String,
    fields: String,
    pub(super) backend: Option<String>,
    file: Option<String>,
    line: Option<u64>,
    critical: bool,
}

impl<'a> Parts<'a> {
    pub(super) fn of(event: &'a Event<'a>) -> Parts<'a> {
        let mut parts = Parts {
            event,
            of_host: event.metadata().target() == HOST,
            message: String::new(),
            fields: String::new(),
            backend: None,
            file: None,
            line: None,
            critical: false,
        };
        event.record(&mut parts);
        parts
    }

    /// The level; `None` for traces.
    pub(super) fn level(&self) -> Option<Level> {
        match Level::highest(self.event.metadata())? {
            Level::Critical if !self.critical => Some(Level::Error),
            level => Some(level),
        }
    }

    /// The line of the event, which is of this module.
    pub(super) fn line(&self, level: Level, module: &str, program: &str) -> String {
        let facts = self.event.metadata();
        let file = self.file.as_deref().or(facts.file()).unwrap_or("unknown");
        let number = self.line.or(facts.line().map(u64::from)).unwrap_or(0);
        let text = match (&self.backend, module) {
            (Some(name), BACKEND) => format!("{name}: {}{}", self.message, self.fields),
            (Some(_) | None, _) => format!("{}{}", self.message, self.fields),
        };
        line_of(level, module, program, (file, number), &text)
    }
}

/// A line of a text from a place.
pub(super) fn line_of(level: Level, module: &str, program: &str, place: (&str, u64), text: &str) -> String {
    let mut line = format!(
        "[{level}] {module}({},{},{program}):",
        std::process::id(),
        place::thread()
    );
    let now = Moment::of(SystemTime::now());
    // Writing to a string cannot fail.
    let _ = write!(line, "{now} [{}:{}] ", place.0, place.1);
    for c in text.chars() {
        match c {
            // A text of several lines is one line, and no text can look like two.
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line.push('\n');
    line
}

impl Visit for Parts<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "log.file" => self.file = Some(value.to_owned()),
            "backend" if self.of_host => self.backend = Some(value.to_owned()),
            _ => self.record_debug(field, &format_args!("{value}")),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "log.line" => self.line = Some(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            CRITICAL => self.critical = value,
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string fails only where the value's own formatting does.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// A local time.
pub(super) struct Moment {
    parts: libc::tm,
    micros: u32,
}

impl Moment {
    pub(super) fn of(time: SystemTime) -> Moment {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let seconds = libc::time_t::try_from(since.as_secs()).unwrap_or(0);
        // SAFETY: a struct of integers and a pointer, for which zeros are valid.
        let mut parts: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to values that live through the call.
        unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
        Moment {
            parts,
            micros: since.subsec_micros(),
        }
    }

    /// As names of files have it: `20261120-133616-756957`.
    pub(super) fn compact(&self) -> String {
        let Moment { parts, micros } = self;
        format!(
            "{:04}{:02}{:02}-{:02}{:02}{:02}-{micros:06}",
            parts.tm_year + 1900,
            parts.tm_mon + 1,
            parts.tm_mday,
            parts.tm_hour,
            parts.tm_min,
            parts.tm_sec
        )
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moment { parts, micros } = self;
        write!(
            f,
            "{:04}-{:02}-{:02}-{:02}:{:02}:{:02}.{:03}.{:03}",
            parts.tm_year + 1900,
            parts.tm_mon + 1,
            parts.tm_mday,
            parts.tm_hour,
            parts.tm_min,
            parts.tm_sec,
            micros / 1000,
            micros % 1000
        )
    }
}
