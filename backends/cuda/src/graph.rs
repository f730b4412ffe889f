//! Programs as graphs of the driver, built from launches that were planned and compiled beforehand.

mod build;
mod executable;
mod nodes;
mod program;
mod scratch;
mod step;

pub(crate) use nodes::{Parts, noted};
pub(crate) use program::ProgramGraph;

use std::fmt::Write;
use thalweg_hal::backend::{OwnedTag, Tag};
use thalweg_hal::{Str, tables};

/// Ops that a program's name lists.
const LISTED: usize = 6;

/// What a program is called in messages: the driver does not say which node failed.
fn name(tags: impl ExactSizeIterator<Item = OwnedTag>) -> OwnedTag {
    let count = tags.len();
    let mut text = format!("a program of {count} nodes (");
    for (index, tag) in tags.take(LISTED).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(text, "{comma}{tag}");
    }
    text.push_str(if count > LISTED { ", …)" } else { ")" });
    let raw = tables::Tag {
        op: Str::new(&text),
        file: Str::EMPTY,
        line: 0,
        node: 0,
    };
    // SAFETY: the text lives through the call.
    unsafe { Tag::new(Some(&raw)) }.to_owned()
}
