//! Places for the temporaries of a program in one buffer.

use crate::lower::{Output, Program, Slot, Step};
use std::collections::HashMap;

/// Temporaries start at multiples of this many bytes.
const ALIGNMENT: u64 = 512;

/// Where a local lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a buffer of its own, which an output shows: its number among those.
    Own(u32),
    /// In the arena from this byte on.
    Arena(u64),
}

/// Places of all locals, sizes of the buffers of their own, size of the arena.
pub(super) struct Arena {
    pub(super) places: Vec<Place>,
    pub(super) own: Vec<u64>,
    pub(super) bytes: u64,
}

/// The first and the last step that touches each slot.
pub(super) fn lives(program: &Program) -> HashMap<Slot, (usize, usize)> {
    let mut lives = HashMap::new();
    for (at, step) in program.steps.iter().enumerate() {
        let mut touch = |slot: Slot| lives.entry(slot).or_insert((at, at)).1 = at;
        match step {
            Step::Launch { launch, .. } => launch.arguments.iter().for_each(|argument| touch(argument.slot)),
            Step::Fill { slot, .. } => touch(*slot),
        }
    }
    lives
}

/// Those of each local.
fn lifetimes(program: &Program) -> Vec<Option<(usize, usize)>> {
    let lives = lives(program);
    let of = |local: usize| lives.get(&Slot::Local(local as u32)).copied();
    (0..program.locals.len()).map(of).collect()
}

impl Arena {
    /// Largest first, each at the lowest place that is free through its life.
    pub(super) fn plan(program: &Program) -> Arena {
        let lives = lifetimes(program);
        let mut places = vec![Place::Arena(0); program.locals.len()];
        let mut own = Vec::new();
        for &Output { slot, .. } in &program.outputs {
            if let Slot::Local(local) = slot
                && matches!(places[local as usize], Place::Arena(_))
            {
                places[local as usize] = Place::Own(own.len() as u32);
                own.push(program.locals[local as usize].bytes);
            }
        }
        let mut order: Vec<usize> = (0..places.len())
            .filter(|&local| matches!(places[local], Place::Arena(_)) && lives[local].is_some())
            .collect();
        order.sort_by_key(|&local| std::cmp::Reverse(program.locals[local].bytes));
        // Start, end and life of what has a place, by start.
        let mut placed: Vec<(u64, u64, (usize, usize))> = Vec::new();
        let mut total = 0;
        for local in order {
            let Some(life) = lives[local] else { continue };
            let bytes = program.locals[local].bytes.max(1).next_multiple_of(ALIGNMENT);
            let mut start = 0;
            for &(from, end, other) in &placed {
                if other.0 > life.1 || other.1 < life.0 {
                    continue;
                }
                if start + bytes <= from {
                    break;
                }
                start = start.max(end);
            }
            places[local] = Place::Arena(start);
            let at = placed.partition_point(|&(from, ..)| from <= start);
            placed.insert(at, (start, start + bytes, life));
            total = total.max(start + bytes);
        }
        Arena {
            places,
            own,
            bytes: total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::tag::OpTag;
    use crate::graph::Type;
    use crate::hal::DType;
    use crate::lower::{Local, Output};
    use crate::types::layout::Layout;
    use crate::types::shape::Shape;

    fn program(sizes: &[u64], uses: &[&[u32]], output: u32) -> Program {
        let fill = |&local: &u32| Step::Fill {
            slot: Slot::Local(local),
            offset: 0,
            bytes: 4,
            pattern: 0,
            pattern_bytes: 4,
            tag: OpTag::NONE,
        };
        Program {
            stored: Vec::new(),
            locals: sizes.iter().map(|&bytes| Local { bytes }).collect(),
            steps: uses.iter().flat_map(|uses| uses.iter().map(fill)).collect(),
            origins: Vec::new(),
            outputs: vec![Output {
                slot: Slot::Local(output),
                layout: Layout::contiguous(Shape::SCALAR),
                ty: Type::new(Shape::SCALAR, DType::F32),
                tag: OpTag::NONE,
            }],
        }
    }

    #[test]
    fn what_never_lives_at_once_shares_a_place() {
        // 0 lives in steps 0..=1, 1 in 1..=2 (as step 2 is a second use), 2 later; 3 is the output.
        let chain = program(&[4096, 4096, 4096, 8], &[&[0], &[1], &[0], &[1], &[2], &[3]], 3);
        let arena = Arena::plan(&chain);
        assert_eq!(arena.own, [8]);
        assert_eq!(arena.places[3], Place::Own(0));
        assert_eq!(arena.bytes, 8192);
        assert_ne!(arena.places[0], arena.places[1]);
        assert!([arena.places[0], arena.places[1]].contains(&arena.places[2]));
    }

    #[test]
    fn no_two_that_live_at_once_overlap() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let sizes: Vec<u64> = (0..20).map(|_| random(5000)).collect();
            let uses: Vec<u32> = (0..60).map(|_| random(20) as u32).collect();
            let program = program(&sizes, &[&uses], uses[0]);
            let (arena, lives) = (Arena::plan(&program), lifetimes(&program));
            let spans: Vec<_> = (0..20)
                .filter_map(|local| match (arena.places[local], lives[local]) {
                    (Place::Arena(at), Some(life)) => Some((at, at + sizes[local], life)),
                    _ => None,
                })
                .collect();
            for (i, one) in spans.iter().enumerate() {
                assert!(one.1 <= arena.bytes && one.0 % ALIGNMENT == 0);
                for other in &spans[i + 1..] {
                    let at_once = one.2.0 <= other.2.1 && other.2.0 <= one.2.1;
                    assert!(
                        !at_once
                            || one.1 <= other.0
                            || other.1 <= one.0
                            || one.0 == one.1
                            || other.0 == other.1
                    );
                }
            }
        }
    }
}
