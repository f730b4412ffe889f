//! Maps that gather by indices which are the same on every line, as along the last axis: they are computed once, for one line.

use super::columns::Cut;
use super::frame::{Frame, Lanes};
use super::launch::Launch;
use super::past;
use super::plan::{BLOCK, Step, Value};
use super::space::MAX_AXES;
use super::still::{alike, needed};
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::ops::RangeInclusive;

/// Fewer lines are not worth it.
const FEW_LINES: u64 = 4;
/// Lengths of lines: shorter ones are not worth a block each, and the indices of longer ones leave the second-level cache.
const LENGTHS: RangeInclusive<u64> = 256..=32 << 10;

/// A map that gathers by indices of a line.
pub(super) struct Across<'a> {
    /// The same launch with one line.
    line: Launch<'a>,
    /// Each index, and the steps that it needs beside those of the indices before.
    indices: SmallVec<[(Vec<Step>, Value); 2]>,
    /// What is left of the map.
    pub(super) steps: Vec<Step>,
}

impl<'a> Across<'a> {
    /// Of a launch; `None` where it gathers by no index that is the same on every line.
    pub(super) fn of(launch: &Launch<'a>) -> Option<Across<'a>> {
        let (plan, lanes) = (launch.plan, &launch.lanes);
        let last = lanes.rank - 1;
        let gathers = |step: &Step| matches!(step, Step::LoadAt { single: false, .. });
        let one_by_one = plan.phases.is_empty() && last > 0 && launch.tile.0 == 0 && launch.still.is_none();
        if !one_by_one || !plan.row.iter().any(gathers) || launch.shared.contains(&true) {
            return None;
        }
        let length = lanes.extents[last];
        if !LENGTHS.contains(&length) || lanes.total < FEW_LINES * length {
            return None;
        }
        let alike = alike(
            launch,
            |param| lanes.of(param as usize)[..last].iter().all(|&stride| stride == 0),
            |axis| lanes.find(axis).is_none_or(|axis| axis == last),
        );
        let by_table = |step: &Step| match *step {
            Step::LoadAt {
                index, out, single, ..
            } => !single && alike[index as usize] && !alike[out as usize],
            _ => false,
        };
        let none: SmallVec<[bool; 32]> = SmallVec::from_elem(false, plan.homes.len());
        let mut by_steps = none.clone();
        let kept = needed(&plan.row, &mut by_steps, by_table, |step| {
            matches!(step, Step::Store { .. })
        });
        let mut wanted = none;
        let mut found = SmallVec::<[Value; 2]>::new();
        for (step, _) in plan
            .row
            .iter()
            .zip(&kept)
            .filter(|(step, kept)| **kept && by_table(step))
        {
            if let Step::LoadAt { index, .. } = *step
                && !by_steps[index as usize]
                && !found.contains(&index)
            {
                wanted[index as usize] = true;
                found.push(index);
            }
        }
        let before = needed(&plan.row, &mut wanted, |_| false, |_| false);
        let mut indices = SmallVec::<[(Vec<Step>, Value); 2]>::new();
        let mut steps = Vec::new();
        for (at, step) in plan.row.iter().enumerate() {
            match *step {
                Step::LoadAt { index, .. } if kept[at] && by_table(step) && found.contains(&index) => {
                    found.retain(|value| *value != index);
                    indices.push((std::mem::take(&mut steps), index));
                }
                _ if before[at] && !matches!(step, Step::Aim { .. }) => steps.push(*step),
                _ => {}
            }
        }
        let rest = plan.row.iter().zip(&kept).filter(|(_, kept)| **kept);
        (!indices.is_empty()).then(|| Across {
            line: Launch::plain(
                plan,
                launch.args,
                launch.sizes,
                lanes.only_last(),
                launch.other.clone(),
                BLOCK,
            ),
            indices,
            steps: rest.map(|(step, _)| *step).collect(),
        })
    }

    /// The indices of a line, one after the other.
    fn tables(&self) -> Vec<i64> {
        let length = self.line.lanes.total as usize;
        let mut tables = vec![0; self.indices.len() * length];
        let mut frame = Frame::new(&self.line);
        for first in (0..length).step_by(BLOCK) {
            let n = BLOCK.min(length - first);
            frame.start[0] = first as u64;
            frame.point_at(&[0; MAX_AXES]);
            for ((steps, index), table) in self.indices.iter().zip(tables.chunks_exact_mut(length)) {
                frame.run(steps, Lanes::Block(n));
                let from = frame.value(*index).cast::<i64>().cast_const();
                // SAFETY: an index is a block of `n` numbers once its steps have run.
                unsafe { table[first..].as_mut_ptr().copy_from_nonoverlapping(from, n) };
            }
        }
        tables
    }

    /// Runs the launch that this is of.
    pub(super) fn run(&self, launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
        let (cut, tables) = (Cut::new(launch), self.tables());
        let length = self.line.lanes.total;
        launch.split(cut.units, threads, parallel, &|units| {
            let mut frame = Frame::new(launch);
            for unit in units {
                let (first, n) = cut.unit(unit);
                for ((_, index), table) in self.indices.iter().zip(tables.chunks_exact(length as usize)) {
                    let from = &raw const table[(first % length) as usize];
                    frame.point(*index, from.cast_mut().cast());
                }
                frame.start = launch.lanes.index(first);
                frame.block(n);
            }
            if launch.stream {
                past::fence();
            }
        });
    }
}
