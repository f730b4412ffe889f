//! Places for values: a linear scan over the lists in the order in which they run.

use super::build::Draft;
use super::plan::{Home, Plan, Step, Value};

/// Calls `visit(value, is_definition)` for every value of a step; `results` has that of every reduction.
pub(super) fn values(step: &Step, results: &[Value], mut visit: impl FnMut(Value, bool)) {
    match *step {
        Step::Loop { out, a, b, c, .. } => {
            [a, b, c].into_iter().for_each(|v| visit(v, false));
            visit(out, true);
        }
        Step::Load { out, .. } | Step::Index { out, .. } => visit(out, true),
        Step::LoadAt { out, index, .. } => {
            visit(index, false);
            visit(out, true);
        }
        Step::Rand {
            out, key, counter, ..
        } => {
            visit(key, false);
            visit(counter, false);
            visit(out, true);
        }
        Step::Aim { value, .. } => visit(value, true),
        Step::Store { value, .. } => visit(value, false),
        Step::Reduce { reduce, arg } => {
            visit(arg, false);
            visit(results[reduce as usize], true);
        }
    }
}

/// Gives every value its home and every step its slot.
pub(super) fn assign(plan: &mut Plan, drafts: &[Draft]) {
    let results: Vec<Value> = plan.reduces.iter().map(|r| r.result).collect();
    let mut lists: Vec<&mut Vec<Step>> = vec![&mut plan.uniform, &mut plan.row];
    for phase in &mut plan.phases {
        lists.push(&mut phase.place);
        lists.push(&mut phase.element);
        lists.push(&mut phase.row);
    }
    let count = drafts.len();
    // Position after which a value is not needed any more, and the list that computes it.
    let (mut last, mut defined) = (vec![0usize; count], vec![usize::MAX; count]);
    let mut position = 0;
    for (l, list) in lists.iter().enumerate() {
        let end = position + list.len();
        for step in list.iter() {
            values(step, &results, |v, defines| {
                let v = v as usize;
                if defines && defined[v] == usize::MAX {
                    defined[v] = l;
                }
                // A list may run many times: what comes from outside of it, or leaves it, stays until its end.
                let reduced = defines && results.contains(&(v as Value));
                last[v] = if defined[v] != l || reduced { end } else { position };
            });
            position += 1;
        }
    }

    let mut homes: Vec<Option<Home>> = drafts.iter().map(|d| d.home).collect();
    let mut free: Vec<u32> = Vec::new();
    let mut expiring: Vec<(usize, u32)> = Vec::new();
    let (mut slots, mut cells, mut position, mut widest) = (0u32, 0u32, 0usize, 1usize);
    for list in &mut lists {
        for step in list.iter_mut() {
            expiring.retain(|&(end, slot)| {
                if end < position {
                    free.push(slot);
                }
                end >= position
            });
            values(step, &results, |v, defines| {
                let v = v as usize;
                if !defines || homes[v].is_some() {
                    return;
                }
                homes[v] = Some(if drafts[v].is_single() {
                    cells += 1;
                    Home::Cell(cells - 1)
                } else {
                    let slot = free.pop().unwrap_or_else(|| {
                        slots += 1;
                        slots - 1
                    });
                    widest = widest.max(drafts[v].size);
                    expiring.push((last[v], slot));
                    Home::Slot(slot)
                });
            });
            let slot_of = |v: Value| match homes[v as usize] {
                Some(Home::Slot(slot)) => slot,
                _ => NO_SLOT,
            };
            match step {
                Step::Load { out, slot, .. } | Step::LoadAt { out, slot, .. } => *slot = slot_of(*out),
                Step::Aim { value, slot, .. } => *slot = slot_of(*value),
                Step::Loop { .. }
                | Step::Index { .. }
                | Step::Rand { .. }
                | Step::Store { .. }
                | Step::Reduce { .. } => {}
            }
            position += 1;
        }
    }
    let steps = || {
        plan.row
            .iter()
            .chain(plan.phases.iter().flat_map(|p| p.element.iter().chain(&p.row)))
    };
    plan.row_loops = (plan.row.iter())
        .filter(|s| matches!(s, Step::Loop { .. }))
        .count();
    let mut pointed = vec![false; count];
    for step in steps() {
        match *step {
            Step::Load { out: v, .. } | Step::Aim { value: v, .. } => pointed[v as usize] = true,
            Step::Loop { .. }
            | Step::LoadAt { .. }
            | Step::Index { .. }
            | Step::Rand { .. }
            | Step::Store { .. }
            | Step::Reduce { .. } => {}
        }
    }
    let in_slot = |v: &usize| matches!(homes[*v], Some(Home::Slot(_)));
    plan.bare = (0..count).filter(in_slot).all(|v| pointed[v]);
    plan.homes = homes.into_iter().map(|h| h.unwrap_or(Home::Cell(0))).collect();
    let fixed = |(v, h): (usize, &Home)| (!matches!(h, Home::Slot(_))).then_some((v as Value, *h));
    plan.fixed = plan.homes.iter().enumerate().filter_map(fixed).collect();
    plan.slots = slots as usize;
    plan.widest = widest;
    plan.cells = cells.max(1) as usize;
}

/// The step works on single values and has no slot.
pub(super) const NO_SLOT: u32 = u32::MAX;
