//! Steps of a map whose values stay the same along a line.
//!
//! An index that selects whole lines of a tensor is one for each line. Where lines are long enough to be blocks, such steps compute
//! one value a line, and a gather copies the line that it leads to.

use super::launch::Launch;
use super::plan::{Home, Plan, Step, Value};
use smallvec::SmallVec;

/// Lines shorter than this are not worth a block each.
const SHORT_LINE: u64 = 32;

/// The steps of a map, and which of them compute one value.
pub(super) struct Still {
    /// Stretches of neighbours that are alike.
    pub(super) lists: SmallVec<[(Vec<Step>, bool); 2]>,
}

impl Still {
    /// Of a launch; `None` where it gathers by no index that stays the same along lines.
    pub(super) fn of(launch: &Launch<'_>) -> Option<Still> {
        let (plan, lanes) = (launch.plan, &launch.lanes);
        let last = lanes.rank - 1;
        let gathers = |step: &Step| matches!(step, Step::LoadAt { .. });
        let lines =
            plan.phases.is_empty() && last > 0 && launch.tile.0 == 0 && lanes.extents[last] >= SHORT_LINE;
        if !lines || !plan.row.iter().any(gathers) {
            return None;
        }
        let stays = |param: u32| lanes.of(param as usize)[last] == 0;
        let single = single(plan, stays);
        let mut lists = SmallVec::<[(Vec<Step>, bool); 2]>::new();
        let mut any = false;
        for (at, step) in plan.row.iter().enumerate() {
            let mut step = *step;
            if let Step::LoadAt {
                index,
                single: by_one,
                ..
            } = &mut step
            {
                let computed = (0..at).rev().find(|&k| defines(&plan.row[k]) == Some(*index));
                if computed.is_some_and(|k| single[k]) {
                    *by_one = true;
                    any = true;
                }
            }
            match lists.last_mut() {
                Some((steps, kind)) if *kind == single[at] => steps.push(step),
                _ => lists.push((vec![step], single[at])),
            }
        }
        any.then_some(Still { lists })
    }
}

/// The value that a step computes.
fn defines(step: &Step) -> Option<Value> {
    match *step {
        Step::Loop { out, .. }
        | Step::Load { out, .. }
        | Step::LoadAt { out, .. }
        | Step::Index { out, .. }
        | Step::Rand { out, .. } => Some(out),
        Step::Aim { .. } | Step::Store { .. } | Step::Reduce { .. } => None,
    }
}

/// Which steps of a map may compute one value a line: those whose operands stay the same and that only gathers and each other use.
fn single(plan: &Plan, stays: impl Fn(u32) -> bool) -> Vec<bool> {
    let steps = &plan.row;
    let mut still = vec![false; plan.homes.len()];
    for (value, home) in plan.homes.iter().enumerate() {
        still[value] = matches!(home, Home::Constant(_) | Home::Scalar(_) | Home::Cell(_));
    }
    for step in steps {
        match *step {
            Step::Load { param, out, .. } => still[out as usize] = stays(param),
            Step::Loop { out, a, b, c, .. } => {
                still[out as usize] = [a, b, c].into_iter().all(|v| still[v as usize]);
            }
            Step::LoadAt { out, .. } | Step::Index { out, .. } | Step::Rand { out, .. } => {
                still[out as usize] = false;
            }
            Step::Aim { .. } | Step::Store { .. } | Step::Reduce { .. } => {}
        }
    }
    let mut single = vec![false; steps.len()];
    // Values that are needed as blocks.
    let mut blocks = vec![false; plan.homes.len()];
    for (at, step) in steps.iter().enumerate().rev() {
        match *step {
            Step::Loop { out, a, b, c, .. } => {
                single[at] = still[out as usize] && !blocks[out as usize];
                if !single[at] {
                    [a, b, c].into_iter().for_each(|v| blocks[v as usize] = true);
                }
            }
            Step::Load { out, .. } => single[at] = still[out as usize] && !blocks[out as usize],
            Step::Store { value, .. } | Step::Aim { value, .. } => blocks[value as usize] = true,
            Step::Rand { key, counter, .. } => {
                [key, counter].into_iter().for_each(|v| blocks[v as usize] = true);
            }
            Step::LoadAt { .. } | Step::Index { .. } | Step::Reduce { .. } => {}
        }
    }
    single
}
