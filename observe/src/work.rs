//! A command with everything that is known of it.

use crate::known::Known;
use crate::phase::Phase;
use crate::runs::KnownRun;
use crate::split::split;
use thalweg::observe::recording::{Command, CommandKind, Node, PlaceId, WHOLE};

/// Whose a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// An op that the user called.
    Place(PlaceId),
    /// A program: a traced function whose nodes name no op.
    Program(u32),
    /// Nobody that is known.
    Kind(CommandKind),
}

/// What an op has of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    pub(crate) owner: Owner,
    /// Number of the user's call.
    pub(crate) call: u32,
    pub(crate) time: u64,
    /// Arithmetic operations and bytes, once for all commands of a node.
    pub(crate) flops: u64,
    pub(crate) bytes: u64,
    /// Whether the time was split by estimated cost.
    pub(crate) estimated: bool,
}

/// A command with everything that is known of it.
pub(crate) struct Work<'a> {
    pub(crate) command: &'a Command,
    pub(crate) run: Option<&'a KnownRun>,
    /// The program; 0 for none.
    pub(crate) program: u32,
    pub(crate) node: Option<&'a Node>,
    /// Place in the list of steps.
    pub(crate) step: Option<u32>,
    /// They sum to its time.
    pub(crate) shares: &'a [Share],
}

impl<'a> Work<'a> {
    /// What is known of `command`; `shares` is written anew.
    pub(crate) fn of(known: &'a Known<'_>, command: &'a Command, shares: &'a mut Vec<Share>) -> Work<'a> {
        let run = known.runs.get(command.correlation);
        let program = run.map_or(0, |known| known.run.program);
        let node = known.node(program, command.node);
        let step = match run {
            Some(run) => run.step,
            None => known.survey.step_at(u32::MAX, command.start),
        };
        shares.clear();
        divide(known, command, run, program, node, shares);
        Work {
            command,
            run,
            program,
            node,
            step,
            shares,
        }
    }

    pub(crate) fn time(&self) -> u64 {
        time(self.command)
    }

    /// What a timeline calls it.
    pub(crate) fn name<'k>(&self, known: &'k Known<'_>) -> &'k str {
        let kernel = self.node.map_or("", |node| known.text(node.kernel));
        let program = match known.programs.get(&self.program) {
            Some(program) if self.command.node == WHOLE => known.text(program.name),
            Some(_) | None => "",
        };
        match (kernel, program) {
            ("", "") => kind_name(self.command.kind),
            ("", program) => program,
            (kernel, _) => kernel,
        }
    }

    /// The part of a step that a share belongs to.
    pub(crate) fn phase(&self, known: &Known<'_>, share: &Share) -> Phase {
        let of_place = match share.owner {
            Owner::Place(place) => known
                .places
                .get(&place)
                .and_then(|place| Phase::of_place(known.text(place.op), known.text(place.scope))),
            Owner::Program(_) | Owner::Kind(_) => None,
        };
        let of_host = || {
            let run = self.run?.run;
            Phase::of_span(known.survey.phase_at(run.thread, run.start)?)
        };
        of_place.or_else(of_host).unwrap_or(Phase::Other)
    }
}

pub(crate) fn time(command: &Command) -> u64 {
    command.end.saturating_sub(command.start)
}

pub(crate) fn kind_name(kind: CommandKind) -> &'static str {
    match kind {
        CommandKind::Launch => "kernel",
        CommandKind::Copy => "copy",
        CommandKind::Fill => "fill",
        CommandKind::Wait => "wait",
        CommandKind::Callback => "callback",
    }
}

fn divide(
    known: &Known<'_>,
    command: &Command,
    run: Option<&KnownRun>,
    program: u32,
    node: Option<&Node>,
    shares: &mut Vec<Share>,
) {
    let (place, call) = run.map_or((0, 0), |run| (run.run.place, run.run.call));
    let whole = Share {
        owner: match (place, program) {
            (0, 0) => Owner::Kind(command.kind),
            (0, program) => Owner::Program(program),
            (place, _) => Owner::Place(place),
        },
        call,
        time: time(command),
        flops: 0,
        bytes: command.bytes,
        estimated: false,
    };
    // The figures of a node count once.
    let counted = |node: &Node| match command.nth {
        0 => (node.flops, node.bytes),
        _ => (0, 0),
    };
    if let Some(node) = node {
        let (flops, bytes) = counted(node);
        let whole = Share {
            flops,
            bytes,
            ..whole
        };
        if place == 0 && !node.parts.is_empty() {
            among_parts(node, &whole, node.parts.len() > 1, shares);
        } else {
            shares.push(whole);
        }
        return;
    }
    let nodes = match known.programs.get(&program) {
        Some(program) if command.node == WHOLE => &program.nodes[..],
        Some(_) | None => &[],
    };
    let (flops, bytes) = nodes.iter().fold((0_u64, 0_u64), |sum, node| {
        (sum.0.saturating_add(node.flops), sum.1.saturating_add(node.bytes))
    });
    if place != 0 || nodes.iter().all(|node| node.parts.is_empty()) {
        let bytes = bytes.max(command.bytes);
        shares.push(Share {
            flops,
            bytes,
            ..whole
        });
        return;
    }
    // A device that measures whole runs: its nodes share the time by their estimated work.
    let shift = flops
        .saturating_add(bytes)
        .checked_ilog2()
        .unwrap_or(0)
        .saturating_sub(31);
    let work = |node: &Node| (node.flops.saturating_add(node.bytes) >> shift) as u32;
    for (node, time) in nodes.iter().zip(split(whole.time, nodes.iter().map(work))) {
        let (flops, bytes) = counted(node);
        let of_node = Share {
            time,
            flops,
            bytes,
            estimated: true,
            ..whole
        };
        match node.parts.is_empty() {
            true => shares.push(of_node),
            false => among_parts(node, &of_node, true, shares),
        }
    }
}

/// What each op of a node has of `whole`.
fn among_parts(node: &Node, whole: &Share, estimated: bool, shares: &mut Vec<Share>) {
    let costs = node.parts.iter().map(|part| part.cost);
    let divided = split(whole.time, costs.clone())
        .zip(split(whole.flops, costs.clone()))
        .zip(split(whole.bytes, costs));
    shares.extend(
        (node.parts.iter().zip(divided)).map(|(part, ((time, flops), bytes))| Share {
            owner: Owner::Place(part.place),
            call: part.call,
            time,
            flops,
            bytes,
            estimated,
        }),
    );
}
