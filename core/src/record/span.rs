//! Stretches and points of time.

use super::event::Event;
use super::recording::{SpanKind, TextId};
use super::switch::{SPANS, VALUES};
use super::{calls, clock, ring, switch, text};
use std::sync::atomic::{AtomicU64, Ordering};

/// A stretch of time on this thread that ends when it is dropped, also by a panic. It is recorded if it began and ended in one
/// recording.
#[derive(Debug)]
pub(crate) struct Span {
    // Ticks; 0 where nothing was recorded.
    start: u64,
    kind: SpanKind,
    name: TextId,
    number: u64,
    // A span ends on the thread that it began on.
    _not_send: std::marker::PhantomData<*const ()>,
}

/// Steps that were begun.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// How many stretches that are steps were begun in this process while something was recorded or looked at.
pub(crate) fn steps() -> u64 {
    STEPS.load(Ordering::Relaxed)
}

/// Begins a stretch.
#[inline]
pub(crate) fn begin(kind: SpanKind, name: &str, number: u64) -> Span {
    let now = switch::on();
    let on = now.has(SPANS);
    if kind == SpanKind::Step && (on || now.has(VALUES)) {
        STEPS.fetch_add(1, Ordering::Relaxed);
    }
    Span {
        start: if on { clock::ticks() } else { 0 },
        kind,
        name: if on { text::intern(name) } else { 0 },
        number,
        _not_send: std::marker::PhantomData,
    }
}

/// As [`begin`], for a part of a step that runs op by op. While ops are traced it is none: that the step is traced then says a span
/// of its own.
pub(crate) fn phase(kind: SpanKind) -> Option<Span> {
    (calls::tracing() == 0 && switch::on().has(SPANS)).then(|| begin(kind, "", 0))
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        let on = switch::on();
        if self.start != 0 && on.has(SPANS) {
            ring::push(
                on,
                Event::Span {
                    start: self.start,
                    end: clock::ticks(),
                    kind: self.kind,
                    name: self.name,
                    number: self.number,
                },
            );
        }
    }
}

/// Notes a stretch that began at `start`, in ticks, and ends now.
pub(crate) fn since(start: u64, kind: SpanKind, name: &str, number: u64) {
    let on = switch::on();
    if on.has(SPANS) {
        let (end, name) = (clock::ticks(), text::intern(name));
        ring::push(
            on,
            Event::Span {
                start,
                end,
                kind,
                name,
                number,
            },
        );
    }
}

/// Notes a point in time.
pub(crate) fn mark(name: &str) {
    let on = switch::on();
    if on.has(SPANS) {
        let (time, name) = (clock::ticks(), text::intern(name));
        ring::push(on, Event::Mark { time, name });
    }
}

/// Notes the value of a figure.
pub(crate) fn counter(name: &str, value: f64) {
    let on = switch::on();
    if on.has(SPANS) {
        let (time, name) = (clock::ticks(), text::intern(name));
        ring::push(on, Event::Counter { time, name, value });
    }
}
