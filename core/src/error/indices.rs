//! Indices that are outside of their axes.

use std::fmt;
use std::panic::Location;

/// An op was given an index that its axis does not have: see [`Context::check_indices`](crate::Context::check_indices).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexError {
    /// The op that the user called.
    pub op: String,
    /// The call: `Default/head/embedding-op3`.
    pub name: String,
    /// The part of the network: `Default/head`.
    pub scope: String,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
    /// The device, as `cpu:0`.
    pub device: String,
    /// The first index that is outside.
    pub value: i64,
    /// Where it lies among the indices.
    pub at: Vec<usize>,
    /// Extents of the indices.
    pub shape: Vec<usize>,
    /// How many of them are outside.
    pub count: usize,
    /// The axis that they are of.
    pub axis: usize,
    /// The least index that it has.
    pub low: i64,
    /// One more than the greatest.
    pub high: i64,
    /// An index that is meant to be outside, such as that of classes which do not count.
    pub except: Option<i64>,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexError {
            op,
            value,
            at,
            low,
            high,
            axis,
            ..
        } = self;
        write!(
            f,
            "{op}: index {value} at {at:?} is outside of {low}..{high}, axis {axis}"
        )?;
        if let Some(except) = self.except {
            write!(f, ", and not {except}")?;
        }
        if let Some(at) = self.location {
            write!(f, "\n  at {}:{}, device {}", at.file(), at.line(), self.device)?;
        }
        if !self.name.is_empty() {
            write!(f, "\n  call {}", self.name)?;
        }
        write!(
            f,
            "\n  {} of {} indices are outside",
            self.count,
            self.shape.iter().product::<usize>()
        )
    }
}

impl std::error::Error for IndexError {}
