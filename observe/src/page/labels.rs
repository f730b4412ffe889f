//! What slices are called, and what a reader finds when one is picked.

use crate::known::Known;
use crate::phase::Phase;
use crate::view::kernels::{Origin, origin};
use crate::view::timeline::span_name;
use crate::work::{Owner, Share, Work, kind_name};
use foldhash::HashMap;
use serde::Serialize;
use thalweg::observe::recording::{CommandKind, Op, PlaceId, Run, Span, SpanKind, TextId};

/// Most labels that tell calls of an op apart; further calls share one.
const MOST: usize = 1 << 17;

/// What a slice is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Label {
    pub(crate) name: String,
    /// `kernel`, `copy`, `op`, `run`, `step`, ….
    pub(crate) kind: &'static str,
    /// What it is coloured by: a part of a step, or its kind.
    pub(crate) phase: &'static str,
    /// The ops that are in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ops: Vec<LabelOp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) shape: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) program: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) flops: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) bytes: u64,
    /// Its times are those of events around it.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) bracketed: bool,
    /// Whether a slice's run is a number that belongs to its name.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) numbered: bool,
}

/// An op in a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct LabelOp {
    /// `Default/conv1/conv2d-op3`.
    pub(crate) name: String,
    /// `src/net.rs:48`.
    pub(crate) line: String,
    /// Estimated part of the kernel's time in percent; 100 where it is alone.
    pub(crate) percent: u8,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What a label depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Command(Origin, CommandKind, u64, bool),
    Op(PlaceId, u32, TextId),
    Run(u32, PlaceId, u32, u32),
    Span(SpanKind, TextId, bool),
}

/// The labels of a run.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    pub(crate) all: Vec<Label>,
    /// Of this recording.
    known: HashMap<Key, u32>,
}

impl Labels {
    /// Another recording begins, in which numbers mean something else.
    pub(crate) fn recording(&mut self) {
        self.known.clear();
    }

    fn label(&mut self, key: Key, label: impl FnOnce() -> Label) -> u32 {
        *self.known.entry(key).or_insert_with(|| {
            self.all.push(label());
            self.all.len() as u32 - 1
        })
    }

    /// Numbers of calls, as long as there are not too many.
    fn call(&self, call: u32) -> u32 {
        if self.all.len() < MOST { call } else { 0 }
    }

    pub(crate) fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> u32 {
        let (program, node, place, call) = origin(work);
        let command = work.command;
        let moved = if work.node.is_some() { 0 } else { command.bytes };
        let key = (program, node, place, self.call(call));
        self.label(Key::Command(key, command.kind, moved, command.exact), || Label {
            name: work.name(known).to_owned(),
            kind: kind_name(command.kind),
            phase: phase_name(
                work.shares
                    .iter()
                    .max_by_key(|share| share.time)
                    .map_or(Phase::Other, |share| work.phase(known, share)),
            ),
            ops: ops(known, work),
            shape: (work.node).map_or("", |node| known.text(node.shape)).to_owned(),
            program: program_name(known, program).to_owned(),
            flops: work.node.map_or(0, |node| node.flops),
            bytes: work.node.map_or(command.bytes, |node| node.bytes),
            bracketed: !command.exact,
            numbered: false,
        })
    }

    pub(crate) fn op(&mut self, known: &Known<'_>, op: &Op) -> u32 {
        let call = self.call(op.call);
        self.label(Key::Op(op.place, call, op.operands), || Label {
            name: (known.places.get(&op.place))
                .map_or("unknown", |place| known.text(place.op))
                .to_owned(),
            kind: "op",
            phase: "op",
            ops: placed(known, op.place, call),
            shape: known.text(op.operands).to_owned(),
            ..Label::default()
        })
    }

    pub(crate) fn run(&mut self, known: &Known<'_>, run: &Run) -> u32 {
        let call = self.call(run.call);
        self.label(Key::Run(run.program, run.place, call, run.stream), || {
            let op = known.call_name(run.place, call);
            let name = match program_name(known, run.program) {
                "" if op.is_empty() => "memory or copy",
                "" => &op,
                name => name,
            };
            Label {
                name: format!("run {name}"),
                kind: "run",
                phase: "run",
                ops: placed(known, run.place, call),
                program: program_name(known, run.program).to_owned(),
                shape: known.stream_name(run.stream),
                ..Label::default()
            }
        })
    }

    pub(crate) fn span(&mut self, known: &Known<'_>, span: &Span) -> u32 {
        let numbered = span.number > 0 && known.text(span.name).is_empty();
        self.label(Key::Span(span.kind, span.name, numbered), || {
            let kind = span_name(span.kind);
            let own = known.text(span.name);
            Label {
                name: if own.is_empty() { kind } else { own }.to_owned(),
                kind,
                phase: kind,
                numbered,
                ..Label::default()
            }
        })
    }
}

fn program_name<'k>(known: &'k Known<'_>, program: u32) -> &'k str {
    known
        .programs
        .get(&program)
        .map_or("", |program| known.text(program.name))
}

fn placed(known: &Known<'_>, place: PlaceId, call: u32) -> Vec<LabelOp> {
    let found = known.places.get(&place);
    let op = found.map(|found| LabelOp {
        name: known.call_name(place, call),
        line: known.source(found),
        percent: 100,
    });
    op.into_iter().collect()
}

/// The ops of a command, with the part that each has of its time by estimated cost.
fn ops(known: &Known<'_>, work: &Work<'_>) -> Vec<LabelOp> {
    let parts = work.node.map_or(&[][..], |node| &node.parts);
    let costs: u64 = parts.iter().map(|part| u64::from(part.cost)).sum();
    let op = |(at, share): (usize, &Share)| {
        let Owner::Place(place) = share.owner else {
            return None;
        };
        let (part, whole) = match parts.get(at) {
            _ if !share.estimated => (1, 1),
            Some(part) if costs > 0 => (u64::from(part.cost), costs),
            Some(_) => (1, parts.len() as u64),
            None => (share.time, work.time().max(1)),
        };
        let mut op = placed(known, place, share.call).pop()?;
        op.percent = (u128::from(part) * 100 / u128::from(whole)).min(100) as u8;
        Some(op)
    };
    work.shares.iter().enumerate().filter_map(op).collect()
}

pub(crate) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Update => "update",
        Phase::Communication => "communication",
        Phase::Other => "other",
    }
}
