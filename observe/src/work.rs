//! A command with everything that is known of it.

use crate::known::Known;
use crate::phase::Phase;
use crate::runs::KnownRun;
use crate::split::split;
use thalweg::observe::recording::{Command, CommandKind, Node, PlaceId};

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
        divide(command, run, program, node, shares);
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
        match self.node.map(|node| known.text(node.kernel)) {
            Some(kernel) if !kernel.is_empty() => kernel,
            Some(_) | None => kind_name(self.command.kind),
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
    command: &Command,
    run: Option<&KnownRun>,
    program: u32,
    node: Option<&Node>,
    shares: &mut Vec<Share>,
) {
    let whole = time(command);
    // The figures of a node count once.
    let counted = node.filter(|_| command.nth == 0);
    let (flops, bytes) = counted.map_or((0, command.bytes), |node| (node.flops, node.bytes));
    let place = run.map(|run| (run.run.place, run.run.call));
    if let (Some((0, _)) | None, Some(node)) = (place, node)
        && !node.parts.is_empty()
    {
        let costs = node.parts.iter().map(|part| part.cost);
        let divided = split(whole, costs.clone())
            .zip(split(flops, costs.clone()))
            .zip(split(bytes, costs));
        shares.extend(
            (node.parts.iter().zip(divided)).map(|(part, ((time, flops), bytes))| Share {
                owner: Owner::Place(part.place),
                call: part.call,
                time,
                flops,
                bytes,
                estimated: node.parts.len() > 1,
            }),
        );
        return;
    }
    let (owner, call) = match (place, program) {
        (Some((0, _)) | None, 0) => (Owner::Kind(command.kind), 0),
        (Some((0, _)) | None, program) => (Owner::Program(program), 0),
        (Some((place, call)), _) => (Owner::Place(place), call),
    };
    shares.push(Share {
        owner,
        call,
        time: whole,
        flops,
        bytes,
        estimated: false,
    });
}
