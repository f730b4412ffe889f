//! The subscriber that writes lines.

use super::files::Files;
use super::level::Level;
use super::line::{Parts, line_of};
use super::module::Filter;
use super::place;
use crate::error::SessionError;
use crate::record::flight;
use parking_lot::Mutex;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// Writes the events that are wanted.
#[derive(Clone)]
pub(super) struct Logger(Arc<Inner>);

struct Inner {
    filter: Filter,
    program: String,
    /// `None` for the screen, to which lines go also where files cannot be written.
    files: Mutex<Option<Files>>,
}

impl Logger {
    /// A log on the screen, or in a folder, with files of at most so many bytes and of a number for each level.
    pub(super) fn new(filter: Filter, files: Option<(PathBuf, u64, usize)>) -> Logger {
        let least = filter.least();
        let files = files.map(|(folder, size, most)| Files::new(folder, size, most, least));
        Logger(Arc::new(Inner {
            filter,
            program: place::program(),
            files: Mutex::new(files),
        }))
    }

    fn write(&self, level: Level, line: &str) {
        flight::line(line);
        let mut files = self.0.files.lock();
        let Some(open) = &mut *files else {
            drop(files);
            return to_screen(line);
        };
        if let Err(error) = open.write(level, line) {
            *files = None;
            drop(files);
            self.tell(&error);
            to_screen(line);
        }
    }

    /// Tells why lines go to the screen.
    fn tell(&self, error: &SessionError) {
        let place = (file!(), u64::from(line!()));
        to_screen(&line_of(
            Level::Error,
            "OBSERVE",
            &self.0.program,
            place,
            &error.to_string(),
        ));
    }
}

/// Makes this the subscriber of all threads that have none of their own, unless there is one for all; whether it is.
pub(super) fn install(logger: Logger) -> bool {
    if tracing::subscriber::set_global_default(logger.clone()).is_err() {
        return false;
    }
    let mut files = logger.0.files.lock();
    if let Some(Err(error)) = files.as_ref().map(Files::make_folder) {
        *files = None;
        drop(files);
        logger.tell(&error);
    }
    true
}

/// Writes to standard error; where that is closed, the line is lost and the program goes on.
fn to_screen(line: &str) {
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

impl Subscriber for Logger {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.enabled(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let wanted = |level| self.0.filter.may_want(metadata.target(), level);
        metadata.is_event() && Level::highest(metadata).is_some_and(wanted)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.0.filter.least() {
            Level::Debug => LevelFilter::DEBUG,
            Level::Info => LevelFilter::INFO,
            Level::Warning => LevelFilter::WARN,
            Level::Error | Level::Critical => LevelFilter::ERROR,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let parts = Parts::of(event);
        let Some(level) = parts.level() else { return };
        let target = event.metadata().target();
        if let Some(module) = self.0.filter.wanted(target, parts.backend.as_deref(), level) {
            self.write(level, &parts.line(level, module, &self.0.program));
        }
    }

    // Spans are not enabled, so none comes here.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
