//! Where work comes from.

use std::panic::Location;
use thalweg_hal::Str;
use thalweg_hal::backend::is_standard_library;
use thalweg_hal::tables;

/// The op that the user wrote and where. It stands in errors, profiles and out-of-memory tables.
#[derive(Clone, Copy, Debug)]
pub struct Tag<'a> {
    op: &'a str,
    location: &'static Location<'static>,
    node: u32,
}

impl<'a> Tag<'a> {
    /// Names the op `op` at the caller's place.
    #[inline]
    #[track_caller]
    pub fn new(op: &'a str) -> Tag<'a> {
        Tag::at(op, Location::caller())
    }

    /// Names the op `op` at `location`.
    #[inline]
    pub const fn at(op: &'a str, location: &'static Location<'static>) -> Tag<'a> {
        Tag {
            op,
            location,
            node: 0,
        }
    }

    /// Adds the node of the graph that the work came from; 0 for none.
    #[inline]
    #[must_use]
    pub const fn node(mut self, node: u32) -> Tag<'a> {
        self.node = node;
        self
    }

    /// The op.
    pub const fn op(&self) -> &'a str {
        self.op
    }

    /// The user's call; `None` where the standard library called a function that it was given.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        Some(self.location).filter(|at| !is_standard_library(at.file()))
    }

    /// The ABI form, without the lifetime.
    #[inline]
    pub(super) fn raw(&self) -> tables::Tag {
        tables::Tag {
            op: Str::new(self.op),
            file: Str::new(self.location.file()),
            line: self.location.line(),
            node: self.node,
        }
    }
}
