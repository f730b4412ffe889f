//! Where the time of each step goes: `step_trace.csv`.

use crate::error::Result;
use crate::known::Known;
use crate::out::{Micros, Out};
use crate::pass::View;
use crate::phase::Phase;
use crate::split::split;
use crate::work::{Owner, Work};
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::path::Path;
use thalweg::observe::recording::{Span, SpanKind};

/// Steps whose commands are kept until those of later ones come: streams and threads deliver them in turns.
const OPEN: u32 = 8;

/// A step, in nanoseconds. From its start to its end each instant is counted once: `data` to `idle` sum to it.
///
/// It starts when the host begins it and the step before is done on the device, and ends with the last of the two. Where several
/// commands run at once, the instant is split evenly among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepRow {
    /// Rank of the process.
    pub rank: u32,
    /// Number of the step, from 1.
    pub step: u64,
    /// Since the first recording began.
    pub start: u64,
    /// Since the first recording began.
    pub end: u64,
    /// The devices have nothing to do, and the host waits for data.
    pub data: u64,
    /// Devices compute the network and its loss.
    pub forward: u64,
    /// Devices compute gradients.
    pub backward: u64,
    /// Devices change the parameters.
    pub update: u64,
    /// Devices exchange data with other ranks.
    pub communication: u64,
    /// Devices do what belongs to no phase.
    pub other: u64,
    /// The devices have nothing to do.
    pub idle: u64,
}

impl StepRow {
    /// How long it took.
    pub fn time(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    fn part(&mut self, what: What) -> &mut u64 {
        match what {
            What::Busy(Phase::Forward) => &mut self.forward,
            What::Busy(Phase::Backward) => &mut self.backward,
            What::Busy(Phase::Update) => &mut self.update,
            What::Busy(Phase::Communication) => &mut self.communication,
            What::Busy(Phase::Other) => &mut self.other,
            What::Data => &mut self.data,
        }
    }
}

/// What a stretch of time is spent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum What {
    Busy(Phase),
    /// The host waits for data; counts where nothing else runs.
    Data,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    end: u64,
    what: What,
    /// Whether it belongs to the part of the network that bounds its phase.
    point: bool,
}

/// The steps of all recordings.
#[derive(Default)]
pub(crate) struct Steps {
    rows: Vec<StepRow>,
    /// The pieces of steps that are not closed.
    open: BTreeMap<u32, Vec<Piece>>,
    /// Steps below are closed.
    closed: u32,
    /// End of the last step that is closed.
    end: u64,
    /// Of ops whose scope tells it.
    phases: HashMap<Owner, (Phase, bool)>,
}

impl Steps {
    pub(crate) fn finish(self) -> Vec<StepRow> {
        self.rows
    }

    /// Closes the steps before the one at `before` of the list.
    fn close(&mut self, known: &Known<'_>, before: u32) {
        while self.closed < before {
            let at = self.closed as usize;
            let Some(span) = known.survey.steps.get(at).copied() else {
                return;
            };
            let mut pieces = self.open.remove(&self.closed).unwrap_or_default();
            let host_end = span.end;
            let device_end = pieces.iter().map(|piece| piece.end).max().unwrap_or(0);
            let start = span.start.max(self.end);
            let end = device_end.max(host_end).max(start);
            bound(&mut pieces);
            pieces.extend(data(known, &span, start, end));
            let mut row = StepRow {
                rank: known.rank(),
                step: span.number,
                start: known.time(start),
                end: known.time(end),
                ..StepRow::default()
            };
            sweep(&pieces, start, end, &mut row);
            self.rows.push(row);
            (self.end, self.closed) = (end, self.closed + 1);
        }
    }

    /// The phase of a share, and whether it belongs to a part of the network that bounds one.
    fn phase(&mut self, known: &Known<'_>, work: &Work<'_>, at: usize) -> (Phase, bool) {
        let share = &work.shares[at];
        let scope = match share.owner {
            Owner::Place(place) => known
                .places
                .get(&place)
                .map_or("", |place| known.text(place.scope)),
            Owner::Program(_) | Owner::Kind(_) => "",
        };
        if scope.is_empty() {
            // What the host did is looked at for each run, where the scope does not tell.
            return (work.phase(known, share), false);
        }
        *(self.phases.entry(share.owner))
            .or_insert_with(|| (work.phase(known, share), known.survey.points.has(scope)))
    }
}

/// The waits for data of a step, as far as they are between `start` and `end`.
fn data<'k>(known: &'k Known<'_>, step: &Span, start: u64, end: u64) -> impl Iterator<Item = Piece> + 'k {
    let phases = &known.survey.phases;
    let first = phases.partition_point(|span| span.start < step.start);
    let host = known.survey.kernels == 0;
    let (until, thread) = (step.end, step.thread);
    phases[first..]
        .iter()
        .take_while(move |span| span.start < until)
        .filter(move |span| span.thread == thread)
        .filter_map(move |span| {
            let what = match span.kind {
                SpanKind::Data => What::Data,
                // Without times of devices, those of the host are what there is.
                kind => What::Busy(Phase::of_span(kind).filter(|_| host)?),
            };
            Some(Piece {
                start: span.start.max(start),
                end: span.end.min(end),
                what,
                point: false,
            })
        })
}

/// Takes what is before the point of forward and behind that of backward for other work.
fn bound(pieces: &mut [Piece]) {
    let of = |phase| move |piece: &&Piece| piece.point && piece.what == What::Busy(phase);
    let first = pieces
        .iter()
        .filter(of(Phase::Forward))
        .map(|piece| piece.start)
        .min();
    let last = pieces
        .iter()
        .filter(of(Phase::Backward))
        .map(|piece| piece.end)
        .max();
    for piece in pieces {
        let early =
            piece.what == What::Busy(Phase::Forward) && first.is_some_and(|first| piece.start < first);
        let late = piece.what == What::Busy(Phase::Backward) && last.is_some_and(|last| piece.start >= last);
        if early || late {
            piece.what = What::Busy(Phase::Other);
        }
    }
}

/// Counts each instant from `start` to `end` once.
fn sweep(pieces: &[Piece], start: u64, end: u64, row: &mut StepRow) {
    let mut edges: Vec<(u64, bool, What)> = Vec::with_capacity(2 * pieces.len());
    for piece in pieces {
        let (from, to) = (piece.start.max(start), piece.end.min(end));
        if from < to {
            edges.push((from, true, piece.what));
            edges.push((to, false, piece.what));
        }
    }
    edges.sort_unstable();
    let mut running = Running::default();
    let mut time = start;
    for (at, begins, what) in edges {
        count(&running, at - time, row);
        time = at;
        let number = match what {
            What::Busy(phase) => &mut running.busy[phase as usize],
            What::Data => &mut running.data,
        };
        *number = if begins {
            *number + 1
        } else {
            number.saturating_sub(1)
        };
    }
    count(&running, end - time, row);
}

/// How many pieces of each kind run.
#[derive(Default)]
struct Running {
    busy: [u32; Phase::ALL.len()],
    data: u32,
}

/// Counts `time`, during which `running` runs.
fn count(running: &Running, time: u64, row: &mut StepRow) {
    let busy = || {
        let all = Phase::ALL.into_iter().zip(running.busy);
        all.filter(|(_, number)| *number > 0)
            .map(|(phase, number)| (What::Busy(phase), number))
    };
    if busy().next().is_some() {
        for ((what, _), part) in busy().zip(split(time, busy().map(|(_, number)| number))) {
            *row.part(what) += part;
        }
    } else if running.data > 0 {
        row.data += time;
    } else {
        row.idle += time;
    }
}

impl View for Steps {
    fn recording(&mut self, _: &Known<'_>) -> Result<()> {
        self.open.clear();
        self.phases.clear();
        (self.closed, self.end) = (0, 0);
        Ok(())
    }

    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        let Some(step) = work.step else {
            return Ok(());
        };
        self.close(known, step.saturating_sub(OPEN));
        if step < self.closed {
            return Ok(());
        }
        // One piece for each phase, so that a fused kernel counts for all of its ops.
        let mut start = work.command.start;
        let mut at = 0;
        while at < work.shares.len() {
            let phase = self.phase(known, work, at);
            let mut end = start;
            while at < work.shares.len() && self.phase(known, work, at) == phase {
                end = end.saturating_add(work.shares[at].time);
                at += 1;
            }
            self.open.entry(step).or_default().push(Piece {
                start,
                end,
                what: What::Busy(phase.0),
                point: phase.1,
            });
            start = end;
        }
        Ok(())
    }

    fn recorded(&mut self, known: &Known<'_>) -> Result<()> {
        self.close(known, u32::MAX);
        Ok(())
    }
}

/// Writes `step_trace.csv`.
pub(crate) fn write(rows: &[StepRow], lost: u64, folder: &Path) -> Result<()> {
    let mut out = Out::new(folder, "step_trace.csv")?;
    out.write(format_args!(
        "rank,step,start_us,end_us,data_us,forward_us,backward_us,update_us,communication_us,other_us,idle_us\n"
    ))?;
    for row in rows {
        let times = [
            row.start,
            row.end,
            row.data,
            row.forward,
            row.backward,
            row.update,
            row.communication,
            row.other,
            row.idle,
        ];
        out.write(format_args!("{},{}", row.rank, row.step))?;
        for time in times {
            out.write(format_args!(",{}", Micros(time)))?;
        }
        out.write(format_args!("\n"))?;
    }
    super::ops::note_lost(&mut out, lost)?;
    out.finish().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(start: u64, end: u64, what: What) -> Piece {
        Piece {
            start,
            end,
            what,
            point: false,
        }
    }

    #[test]
    fn each_instant_is_counted_once() {
        let (forward, backward) = (What::Busy(Phase::Forward), What::Busy(Phase::Backward));
        let pieces = [
            piece(0, 30, What::Data),
            piece(10, 40, forward),
            piece(30, 50, backward),
            piece(70, 500, forward),
        ];
        let mut row = StepRow::default();
        sweep(&pieces, 5, 100, &mut row);
        let expected = StepRow {
            data: 5,
            forward: 20 + 5 + 30,
            backward: 5 + 10,
            idle: 20,
            ..StepRow::default()
        };
        assert_eq!(row, expected);
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_step(pieces in prop::collection::vec((0..1000_u64, 0..1000_u64, 0..6_usize), 0..30), start in 0..500_u64, time in 0..700_u64) {
            let what = |at: usize| Phase::ALL.get(at).map_or(What::Data, |phase| What::Busy(*phase));
            let pieces: Vec<Piece> = pieces.iter().map(|(from, to, at)| piece(*from, *to, what(*at))).collect();
            let mut row = StepRow::default();
            sweep(&pieces, start, start + time, &mut row);
            let sum = row.data + row.forward + row.backward + row.update + row.communication + row.other + row.idle;
            prop_assert_eq!(sum, time);
            // A slow form: each nanosecond by itself.
            let busy = (start..start + time).filter(|at| {
                pieces.iter().any(|piece| piece.what != What::Data && piece.start <= *at && *at < piece.end)
            });
            prop_assert_eq!(busy.count() as u64, sum - row.data - row.idle);
        }
    }
}
