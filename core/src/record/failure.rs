//! Errors that occur while something is recorded.

use super::event::Event;
use super::switch::SPANS;
use super::{clock, flight, ring, switch, text};
use std::fmt::Display;

/// Notes the text of an error.
pub(crate) fn note(error: &dyn Display) {
    flight::failed(error);
    let on = switch::on();
    if on.has(SPANS) {
        let (time, text) = (clock::ticks(), text::intern(&error.to_string()));
        ring::push(on, Event::Failure { time, text });
    }
}
