//! Steps over a batch, part after part: what a step makes of some samples is still in the caches when the next one reads it.

use super::program::{Argument, Local, Program, Slot, Source, Step};
use crate::hal::ir::{Access, Level, Node, Role};
use crate::hal::library::LibraryOp;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use thalweg_hal::kit::checks::{self, Extents, Footprint, Signature};

/// Which runs of steps are cut.
pub(crate) struct Bounds {
    /// Bytes of a buffer from which on it is no longer in the caches when the next step reads it.
    pub(super) least: u64,
    /// Most bytes of such a buffer that a part makes.
    pub(super) part: u64,
    /// Least bytes of such buffers for each byte that a further part reads again, as it does weights.
    pub(super) again: u64,
}

impl Bounds {
    /// Those of processors whose last cache holds a few megabytes for each core.
    pub(crate) const CACHES: Bounds = Bounds {
        least: 8 << 20,
        part: 4 << 20,
        again: 2,
    };
}

/// Rows of a product that a sample has at least: those of fewer may be computed otherwise.
const LEAST_ROWS: u64 = 64;
/// Each part has launches of its own.
const MOST_PARTS: u64 = 256;

/// A buffer of a step whose axis of samples is cut.
struct Touch {
    slot: Slot,
    writes: bool,
    /// Bytes from one sample to the next.
    step: i64,
    /// Bytes of the first sample, from the start of the buffer.
    range: Range<i64>,
}

/// A step of which each sample can be done alone.
struct Cut {
    /// Of the extents.
    axis: usize,
    /// One for each argument.
    touches: Vec<Touch>,
}

impl Cut {
    /// How a step is cut into so many samples.
    fn of(step: &Step, samples: u64) -> Option<Cut> {
        let Step::Launch { source, launch, .. } = step else {
            return None;
        };
        let axis = launch.extents.iter().position(|&extent| extent != 1)?;
        let extent = launch.extents[axis];
        if !extent.is_multiple_of(samples) {
            return None;
        }
        let is_index = |node: &Node| matches!(*node, Node::Index { axis: of } if of as usize == axis);
        let (signature, apart) = match &**source {
            Source::Kernel(kernel) => (
                Signature::of(kernel),
                axis < kernel.outer as usize && !kernel.nodes.iter().any(is_index),
            ),
            Source::Library(op) => {
                let apart = match op {
                    LibraryOp::Conv(conv) | LibraryOp::ConvGradInput(conv) => axis == 0 && !conv.fast,
                    LibraryOp::Matmul(matmul) => match axis.cmp(&(matmul.batch as usize)) {
                        Ordering::Less => true,
                        Ordering::Equal => extent / samples >= LEAST_ROWS,
                        Ordering::Greater => false,
                    },
                    LibraryOp::Attention(attention) => axis < attention.batch as usize,
                    _ => false,
                };
                (op.signature().ok()?, apart)
            }
        };
        if !apart {
            return None;
        }
        let mut extents = launch.extents.clone();
        extents[axis] /= samples;
        let arguments = launch.arguments.iter().enumerate();
        let touches = arguments
            .map(|(at, argument)| touch(&signature, argument, at, (axis, &extents)))
            .collect::<Option<_>>()?;
        Some(Cut { axis, touches })
    }
}

/// What an argument of a launch touches for the first sample, over which the extents are these.
fn touch(
    signature: &Signature,
    argument: &Argument,
    at: usize,
    (axis, extents): (usize, &[u64]),
) -> Option<Touch> {
    let slot = signature.slots.get(at)?;
    let place = Footprint {
        base: 0,
        offset: argument.offset,
        bytes: u64::MAX,
        strides: argument.strides.as_deref().unwrap_or_default(),
        gather_stride: argument.gather.0,
        gather_extent: argument.gather.1,
    };
    let all = Extents::new(extents, signature).ok()?;
    let (start, end) = checks::reach(&signature.name, at, slot, &all, &place).ok()??;
    let step = match slot.access {
        Access::Broadcast => 0,
        // Axes before the samples have one element.
        Access::Contiguous => i64::try_from(match slot.level {
            Level::Row => extents[..signature.outer].iter().product::<u64>(),
            Level::Element => extents.iter().product(),
        })
        .ok()?,
        Access::Strided => place
            .strides
            .get(axis)?
            .checked_mul(i64::try_from(extents[axis]).ok()?)?,
    };
    Some(Touch {
        slot: argument.slot,
        writes: slot.role == Role::Out,
        step: step.checked_mul(slot.dtype.size() as i64)?,
        range: i64::try_from(start).ok()?..i64::try_from(end).ok()?,
    })
}

/// A run of steps that is cut into parts of so many samples.
struct Run {
    steps: Range<usize>,
    parts: u64,
    samples: u64,
}

/// The program with steps over a batch in parts, where buffers between them are greater than caches. Each sample is computed as before.
/// What [`Program::stored`] says of steps no longer holds, so it is empty then.
pub(crate) fn in_parts(program: Program, bounds: &Bounds) -> Program {
    let great = program.locals.iter().any(|local| local.bytes >= bounds.least);
    let Some(samples) = samples(&program).filter(|_| great) else {
        return program;
    };
    let cuts: Vec<Option<Cut>> = (program.steps.iter())
        .map(|step| Cut::of(step, samples))
        .collect();
    let mut runs = Vec::new();
    let mut from = 0;
    while from < cuts.len() {
        let to = legal(&program, &cuts, from, samples);
        runs.extend(worthwhile(&program, &cuts, from..to, (samples, bounds)));
        from = to.max(from + 1);
    }
    // From the last one, so that steps before it keep their numbers.
    runs.iter()
        .rev()
        .fold(program, |program, run| cut(program, &cuts, run))
}

/// Samples of a batch: as many as most convolutions have.
fn samples(program: &Program) -> Option<u64> {
    let mut counts = HashMap::new();
    for step in &program.steps {
        if let Step::Launch { source, launch, .. } = step
            && let Source::Library(LibraryOp::Conv(_)) = &**source
        {
            *counts.entry(launch.extents[0]).or_insert(0) += 1;
        }
    }
    let most = counts
        .into_iter()
        .max_by_key(|&(extent, count)| (count, extent))?;
    (most.0 > 1).then_some(most.0)
}

/// Whether a step touches of a buffer of the program only what belongs to the sample.
fn is_own(program: &Program, touch: &Touch, samples: u64) -> bool {
    let Slot::Local(local) = touch.slot else {
        return false;
    };
    let bytes = program.locals[local as usize].bytes;
    let own = (bytes / samples) as i64;
    bytes.is_multiple_of(samples) && touch.step == own && touch.range.start >= 0 && touch.range.end <= own
}

/// The end of the longest run of steps from one on whose samples do not meet: what one of them writes is touched sample by sample.
fn legal(program: &Program, cuts: &[Option<Cut>], from: usize, samples: u64) -> usize {
    let (mut written, mut foreign) = (HashSet::new(), HashSet::new());
    for (at, cut) in cuts.iter().enumerate().skip(from) {
        let Some(cut) = cut else { return at };
        let (own, other): (Vec<&Touch>, Vec<_>) =
            (cut.touches.iter()).partition(|touch| is_own(program, touch, samples));
        foreign.extend(other.iter().map(|touch| touch.slot));
        written.extend(own.iter().filter(|touch| touch.writes).map(|touch| touch.slot));
        if other.iter().any(|touch| touch.writes) || !written.is_disjoint(&foreign) {
            return at;
        }
    }
    cuts.len()
}

/// The parts of a run between whose steps there are great buffers, and into how many parts each is cut.
fn worthwhile(
    program: &Program,
    cuts: &[Option<Cut>],
    steps: Range<usize>,
    (samples, bounds): (u64, &Bounds),
) -> Vec<Run> {
    let touches = |at: usize| cuts[at].iter().flat_map(|cut| &cut.touches);
    // From the first writer to the last reader.
    let mut lives: HashMap<u32, Range<usize>> = HashMap::new();
    for at in steps.clone() {
        for touch in touches(at) {
            let Slot::Local(local) = touch.slot else { continue };
            if program.locals[local as usize].bytes < bounds.least {
                continue;
            }
            if touch.writes {
                lives.entry(local).or_insert(at..at);
            } else if let Some(life) = lives.get_mut(&local) {
                life.end = at;
            }
        }
    }
    let mut lives: Vec<(u32, Range<usize>)> = lives.into_iter().collect();
    lives.retain(|(_, life)| !life.is_empty());
    lives.sort_by_key(|(local, life)| (life.start, *local));
    let mut runs: Vec<(Range<usize>, Vec<u64>)> = Vec::new();
    for (local, life) in lives {
        let bytes = program.locals[local as usize].bytes;
        match runs.last_mut() {
            Some((steps, all)) if life.start < steps.end => {
                steps.end = steps.end.max(life.end + 1);
                all.push(bytes);
            }
            _ => runs.push((life.start..life.end + 1, vec![bytes])),
        }
    }
    let run = |(steps, all): (Range<usize>, Vec<u64>)| {
        let shared = (steps.clone().flat_map(touches))
            .filter(|touch| touch.step == 0)
            .map(|touch| (touch.range.end - touch.range.start) as u64)
            .sum::<u64>();
        let (most, sum) = (all.iter().max()?, all.iter().sum::<u64>());
        let again = bounds.again.saturating_mul(shared);
        let worth = |parts: &u64| samples.is_multiple_of(*parts) && again.saturating_mul(parts - 1) <= sum;
        let enough = |parts: &u64| most / parts <= bounds.part;
        let possible = || (2..=samples.min(MOST_PARTS)).filter(worth);
        let parts = possible().find(enough).or_else(|| possible().next_back())?;
        Some(Run {
            steps,
            parts,
            samples: samples / parts,
        })
    };
    runs.into_iter().filter_map(run).collect()
}

/// The program with a run cut. Buffers that only the run touches are those of a part.
fn cut(mut program: Program, cuts: &[Option<Cut>], run: &Run) -> Program {
    let slots = |step: &Step| -> Vec<Slot> {
        match step {
            Step::Launch { launch, .. } => launch.arguments.iter().map(|argument| argument.slot).collect(),
            Step::Fill { slot, .. } => vec![*slot],
        }
    };
    let mut inside: BTreeSet<Slot> = program.steps[run.steps.clone()].iter().flat_map(slots).collect();
    let (before, after) = (&program.steps[..run.steps.start], &program.steps[run.steps.end..]);
    let outputs = program.outputs.iter().map(|output| output.slot);
    for slot in before.iter().chain(after).flat_map(slots).chain(outputs) {
        inside.remove(&slot);
    }
    let of_locals = |slot| match slot {
        Slot::Local(local) => Some(local),
        Slot::Input(_) => None,
    };
    let own: Vec<u32> = inside.into_iter().filter_map(of_locals).collect();
    let (mut steps, mut origins) = (Vec::new(), Vec::new());
    for part in 0..run.parts {
        let mut moved = HashMap::new();
        for &local in &own {
            let bytes = program.locals[local as usize].bytes / run.parts;
            moved.insert(Slot::Local(local), (program.locals.len() as u32, part * bytes));
            program.locals.push(Local { bytes });
        }
        for (step, cut) in program.steps[run.steps.clone()]
            .iter()
            .zip(&cuts[run.steps.clone()])
        {
            let mut step = step.clone();
            if let (Step::Launch { launch, .. }, Some(cut)) = (&mut step, cut) {
                launch.extents[cut.axis] /= run.parts;
                for (argument, touch) in launch.arguments.iter_mut().zip(&cut.touches) {
                    let before = (part * run.samples) as i64 * touch.step;
                    argument.offset = argument.offset.wrapping_add_signed(before);
                    if let Some(&(local, start)) = moved.get(&argument.slot) {
                        argument.slot = Slot::Local(local);
                        argument.offset -= start;
                    }
                }
            }
            steps.push(step);
        }
        origins.extend_from_slice(&program.origins[run.steps.clone()]);
    }
    program.stored.clear();
    program.steps.splice(run.steps.clone(), steps);
    program.origins.splice(run.steps.clone(), origins);
    program
}
