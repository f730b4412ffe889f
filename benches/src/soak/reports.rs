//! What the layer `validate` logs: leaks that it finds when a device is closed.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps lines of the layer.
struct Collector;

#[derive(Default)]
struct Line {
    own: bool,
    text: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.text, "{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.own |= field.name() == "backend" && value == "validate";
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if line.own {
            let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(line.text);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Collects from now on, in all threads.
pub(crate) fn collect() -> crate::Result<()> {
    Ok(tracing::subscriber::set_global_default(Collector)?)
}

/// What was logged since the last call.
pub(crate) fn take() -> Vec<String> {
    std::mem::take(&mut LINES.lock().unwrap_or_else(PoisonError::into_inner))
}
