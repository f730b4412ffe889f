//! What can be dropped from a capture: packets of streams and of programs, and runs of programs.

use super::clean::{buffers_of, clean};
use super::search::{Question, least};
use super::trial::Trial;
use std::collections::HashSet;
use std::error::Error;
use thalweg_layers::captured::{Call, File, Handle, Program, Work};

/// A packet of a record, or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unit {
    record: usize,
    packet: usize,
}

/// Whether a capture of some units is still wrong.
struct Packets<'a, 'c> {
    file: &'a File,
    trial: &'a mut Trial<'c>,
}

impl Question<Unit> for Packets<'_, '_> {
    fn holds(&mut self, units: &[Unit]) -> Result<bool, Box<dyn Error>> {
        self.trial.holds(&only(self.file, units))
    }

    fn needed(&self, units: &[Unit]) -> Vec<Unit> {
        needed(self.file, units)
    }

    fn is_over(&self) -> bool {
        self.trial.is_over()
    }
}

/// The capture with as few units as are found.
pub(super) fn fewest(file: File, trial: &mut Trial<'_>) -> Result<File, Box<dyn Error>> {
    let mut question = Packets { file: &file, trial };
    let kept = least(units(&file), &mut question)?;
    let reduced = only(&file, &kept);
    // Nothing was dropped where nothing held.
    Ok(if trial.holds(&reduced)? { reduced } else { file })
}

/// The units of a capture in order.
fn units(file: &File) -> Vec<Unit> {
    let count = |call: &Call| match call {
        Call::CreateProgram(program) => program.packets.len(),
        Call::Run(_) => 1,
        other => other.packets().len(),
    };
    let records = file.records.iter().enumerate();
    records
        .flat_map(|(record, one)| (0..count(&one.call)).map(move |packet| Unit { record, packet }))
        .collect()
}

/// The capture with these units alone, and with what they need.
fn only(file: &File, units: &[Unit]) -> File {
    let keep: HashSet<Unit> = units.iter().copied().collect();
    let mut kept = file.clone();
    for (record, one) in kept.records.iter_mut().enumerate() {
        let stays = |packet: usize| keep.contains(&Unit { record, packet });
        if let Call::CreateProgram(program) = &mut one.call {
            cut(program, stays);
        } else if let Call::Submit(submission) = &mut one.call {
            let mut packet = 0..;
            submission.packets.retain(|_| packet.next().is_some_and(stays));
        }
    }
    let mut record = 0..;
    kept.records.retain(|one| {
        let at = record.next().unwrap_or_default();
        let empty = matches!(&one.call, Call::Submit(submission) if submission.packets.is_empty());
        let run = matches!(one.call, Call::Run(_));
        !empty
            && (!run
                || keep.contains(&Unit {
                    record: at,
                    packet: 0,
                }))
    });
    clean(kept)
}

/// Drops packets of a program.
fn cut(program: &mut Program, stays: impl Fn(usize) -> bool) {
    let mut next = 0..;
    let numbers: Vec<Option<u32>> = (0..program.packets.len())
        .map(|packet| stays(packet).then(|| next.next()).flatten())
        .collect();
    let number = |old: u32| numbers.get(old as usize).copied().flatten();
    let mut packet = 0..;
    program.packets.retain(|_| packet.next().is_some_and(&stays));
    program.dependencies = (program.dependencies.iter())
        .filter_map(|&(later, earlier)| Some((number(later)?, number(earlier)?)))
        .collect();
    program.given.retain_mut(|given| match number(given.packet) {
        Some(new) => {
            given.packet = new;
            true
        }
        None => false,
    });
}

/// The units that the last one needs: those that write what it reads, and so on.
fn needed(file: &File, units: &[Unit]) -> Vec<Unit> {
    let mut wanted: HashSet<(u32, Handle)> = HashSet::new();
    let mut kept = Vec::new();
    for (at, unit) in units.iter().enumerate().rev() {
        let record = &file.records[unit.record];
        let (reads, writes) = buffers(&record.call, unit.packet);
        let key = |&buffer: &Handle| (record.backend, buffer);
        let last = at + 1 == units.len();
        if last || writes.iter().map(key).any(|key| wanted.contains(&key)) {
            wanted.extend(reads.iter().chain(&writes).map(key));
            kept.push(*unit);
        }
    }
    kept.reverse();
    kept
}

/// The buffers that a unit uses; of a launch each may be written.
fn buffers(call: &Call, packet: usize) -> (Vec<Handle>, Vec<Handle>) {
    if let Call::Run(run) = call {
        let inputs = run.inputs.iter().map(|place| place.buffer).collect();
        return (inputs, run.outputs.clone());
    }
    let Some(packet) = call.packets().get(packet) else {
        return (Vec::new(), Vec::new());
    };
    let all = buffers_of(&packet.work);
    match packet.work {
        Work::Launch(_) => (all.clone(), all),
        Work::Copy(_) | Work::Fill(_) => (all.clone(), all.into_iter().take(1).collect()),
    }
}
