//! What the layer `validate` and the OpenCL backend warn of.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<(tracing::Level, String)>> = Mutex::new(Vec::new());

struct Collector;

/// The text of an event of theirs.
#[derive(Default)]
struct Line {
    own: bool,
    text: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.text, "{value:?}").unwrap();
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.own |= field.name() == "backend" && ["validate", "opencl"].contains(&value);
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
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
            LINES.lock().unwrap().push((*event.metadata().level(), line.text));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Collects from now on, in all threads.
pub(crate) fn collect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Collector).unwrap());
}

/// What was logged since the last call.
pub(crate) fn take() -> Vec<(tracing::Level, String)> {
    std::mem::take(&mut LINES.lock().unwrap())
}
