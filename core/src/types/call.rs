//! A call of an op, as those who look at values know it.

use crate::error::tag::OpTag;
use std::panic::Location;

/// What a call is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// What the user wrote.
    Forward,
    /// The gradient of it.
    Gradient,
    /// What changes parameters.
    Update,
}

/// Which value of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Port {
    /// What it was given, from 0; constants are not counted.
    Input(usize),
    /// What it returns, from 0.
    Output(usize),
}

/// A call of an op.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallInfo {
    /// `Default/head/log-op3`.
    pub name: String,
    /// The op that the user called.
    pub op: &'static str,
    /// The part of the network: `Default/head`; `Gradients/Default/head` for the gradients of what it computes.
    pub scope: String,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
    /// Number of the call in its trace or step, from 1; 0 where nobody counted.
    pub number: u32,
    /// What it is a part of.
    pub phase: Phase,
}

impl CallInfo {
    pub(crate) fn of(tag: OpTag) -> CallInfo {
        CallInfo {
            name: tag.name(),
            op: tag.op,
            scope: tag.scope.path().to_string(),
            location: tag.location(),
            number: tag.call,
            phase: match tag.scope {
                scope if scope.is_gradients() => Phase::Gradient,
                scope if scope.is_update() => Phase::Update,
                _ => Phase::Forward,
            },
        }
    }
}
