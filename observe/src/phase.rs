//! Which part of a step an op belongs to.

use thalweg::observe::recording::SpanKind;

/// A part of a step that a device is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Forward,
    Backward,
    Update,
    Communication,
    /// Work of no phase: the user's own, or work of which nothing is known.
    Other,
}

impl Phase {
    pub(crate) const ALL: [Phase; 5] = [
        Phase::Forward,
        Phase::Backward,
        Phase::Update,
        Phase::Communication,
        Phase::Other,
    ];

    /// The phase of an op, from its name and scope; `None` where they do not tell.
    pub(crate) fn of_place(op: &str, scope: &str) -> Option<Phase> {
        if COLLECTIVES.contains(&op) {
            return Some(Phase::Communication);
        }
        match scope.split('/').next().unwrap_or_default() {
            "" => None,
            "Gradients" => Some(Phase::Backward),
            "Update" => Some(Phase::Update),
            _ => Some(Phase::Forward),
        }
    }

    /// The phase of what was submitted while the host was in a span of this kind.
    pub(crate) fn of_span(kind: SpanKind) -> Option<Phase> {
        match kind {
            SpanKind::Forward => Some(Phase::Forward),
            SpanKind::Backward => Some(Phase::Backward),
            SpanKind::Update => Some(Phase::Update),
            SpanKind::Range
            | SpanKind::Scope
            | SpanKind::Epoch
            | SpanKind::Step
            | SpanKind::Data
            | SpanKind::Evaluation
            | SpanKind::Callback
            | SpanKind::Checkpoint
            | SpanKind::Trace
            | SpanKind::Rewrite
            | SpanKind::Lower
            | SpanKind::Compile
            | SpanKind::Wait => None,
        }
    }
}

/// Ops between ranks.
const COLLECTIVES: [&str; 7] = [
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast_from",
    "send",
    "receive",
];
