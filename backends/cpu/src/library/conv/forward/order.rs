//! Which positions share a tile.
//!
//! A tile leaves out a tap that none of its positions meets. So positions that miss the same taps, those along one side of the padding, are
//! put together: a plane of n by n positions and three by three taps saves nearly all products with the padding, `1 - (1 - 2 / 3n)^2` of all.

use super::rows::cut;
use crate::library::conv::geometry::AXES;
use crate::library::conv::steps::{PLACES, Place};
use smallvec::SmallVec;
use std::ops::Range;

/// Most groups of positions: forming them takes the square of their number.
const MOST: usize = 32;

/// Places one after the other that meet the same taps.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) first: Place<u8>,
    pub(super) len: usize,
}

/// The places of a block, one after the other.
pub(super) struct Places {
    pub(super) runs: Vec<Run>,
    /// Bytes from a place of a run to the next: to what it meets at distance zero, and to its sums.
    pub(super) step: [isize; 2],
}

/// Some places that are summed together.
pub(super) struct Tile {
    pub(super) places: Range<u32>,
    /// The taps that any of them meets.
    pub(super) meets: u64,
}

/// Places, in the order in which tiles take them.
pub(super) struct Order {
    places: Vec<Place<u8>>,
    pub(super) tiles: Vec<Tile>,
}

/// The order of all positions of a block, or of those whose sums are held together.
pub(super) struct Orders {
    /// The block's first position, and what its sums are counted by.
    of: ([usize; AXES], [isize; AXES]),
    /// What the first position meets at distance zero.
    origin: *const u8,
    pub(super) each: Vec<Order>,
}

impl Orders {
    /// Of places that lie at `origin`, `held` of them at a time; the sums of fewer than `least` wait for each other.
    pub(super) fn new(
        of: ([usize; AXES], [isize; AXES]),
        origin: *const u8,
        places: &Places,
        [held, least]: [usize; 2],
    ) -> Orders {
        let some = cut(places.len(), held).into_iter();
        let order = |some: Range<u32>| Order::new(&places.some(some), least);
        Orders {
            of,
            origin,
            each: some.map(order).collect(),
        }
    }

    /// The same for a block at the same positions, of another sample or group.
    pub(super) fn moved(mut self, of: ([usize; AXES], [isize; AXES]), origin: *const u8) -> Option<Orders> {
        if self.of != of {
            return None;
        }
        let far = origin.addr().wrapping_sub(self.origin.addr()).cast_signed();
        if far != 0 {
            let places = self.each.iter_mut().flat_map(|order| &mut order.places);
            places.for_each(|place| place.at = place.at.wrapping_offset(far));
        }
        self.origin = origin;
        Some(self)
    }
}

/// Places that meet the same taps, or are summed as if they did.
#[derive(Clone, Copy)]
struct Group {
    meets: u64,
    len: usize,
    /// The group that took this one in.
    into: Option<usize>,
}

/// What the tiles of so many places take, in halves of what a channel takes of one place; the sums of `least` wait for each other anyway.
fn cost(len: usize, meets: u64, least: usize) -> usize {
    let (tiles, most) = (len.div_ceil(PLACES), len.div_ceil(len.div_ceil(PLACES)));
    let places = if most < least { tiles * least } else { len };
    meets.count_ones() as usize * (2 * places + tiles)
}

/// Takes groups in that are dearer alone, small ones first. The first of equals takes them.
fn merge(groups: &mut [Group], least: usize) {
    let mut small: SmallVec<[usize; MOST]> = (0..groups.len()).collect();
    small.sort_by_key(|&i| groups[i].len);
    let cost = |of: &Group| cost(of.len, of.meets, least);
    for i in small {
        let together = |other: &Group| Group {
            meets: groups[i].meets | other.meets,
            len: groups[i].len + other.len,
            into: None,
        };
        let others = (0..groups.len()).filter(|&other| other != i && groups[other].into.is_none());
        let more = |&other: &usize| cost(&together(&groups[other])) as isize - cost(&groups[other]) as isize;
        let best = others.min_by_key(more);
        if let Some(best) = best.filter(|best| more(best) <= cost(&groups[i]) as isize) {
            groups[best] = together(&groups[best]);
            groups[i].into = Some(best);
        }
    }
}

impl Places {
    fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// Those from one number to another.
    fn some(&self, range: Range<u32>) -> Places {
        let (mut runs, mut start) = (Vec::with_capacity(self.runs.len()), 0);
        for run in &self.runs {
            let inside = |end: u32| (end as usize).saturating_sub(start).min(run.len);
            let (from, to) = (inside(range.start), inside(range.end));
            if from < to {
                runs.push(Run {
                    first: self.place(run, from),
                    len: to - from,
                });
            }
            start += run.len;
        }
        Places { runs, ..*self }
    }

    fn place(&self, run: &Run, index: usize) -> Place<u8> {
        let [at, out] = self.step.map(|step| step * index as isize);
        Place {
            at: run.first.at.wrapping_offset(at),
            out: run.first.out + out,
            ..run.first
        }
    }
}

impl Order {
    /// The sums of fewer than `least` places wait for each other.
    pub(super) fn new(places: &Places, least: usize) -> Order {
        let mut groups: SmallVec<[Group; MOST]> = SmallVec::new();
        let mut of_run = Vec::with_capacity(places.runs.len());
        for run in &places.runs {
            let meets = run.first.meets;
            let found = groups.iter().position(|group| group.meets == meets);
            let group = found.unwrap_or(groups.len());
            if found.is_none() {
                groups.push(Group {
                    meets,
                    len: 0,
                    into: None,
                });
            }
            groups[group].len += run.len;
            of_run.push(group);
            if groups.len() > MOST {
                return Order::plain(places);
            }
        }
        merge(&mut groups, least);
        let end = |mut i: usize| {
            while let Some(into) = groups[i].into {
                i = into;
            }
            i
        };
        let ends: SmallVec<[usize; MOST]> = (0..groups.len()).map(end).collect();
        // Those that meet most come first.
        let mut left: SmallVec<[usize; MOST]> =
            (0..groups.len()).filter(|&i| groups[i].into.is_none()).collect();
        left.sort_by_key(|&i| std::cmp::Reverse(groups[i].meets.count_ones()));
        let (mut tiles, mut starts, mut start) = (Vec::new(), [0; MOST], 0);
        for i in left {
            starts[i] = start;
            let tile = |some: Range<u32>| Tile {
                places: start as u32 + some.start..start as u32 + some.end,
                meets: groups[i].meets,
            };
            tiles.extend(cut(groups[i].len, PLACES).into_iter().map(tile));
            start += groups[i].len;
        }
        let none = Place {
            at: std::ptr::null(),
            meets: 0,
            out: 0,
        };
        let mut order = vec![none; start];
        for (run, group) in places.runs.iter().zip(of_run) {
            let to = &mut starts[ends[group]];
            for (i, place) in order[*to..][..run.len].iter_mut().enumerate() {
                *place = places.place(run, i);
            }
            *to += run.len;
        }
        // A tile comes when its last place would, so that it meets what is near; but first one that meets most. Sums lie in the order of
        // places.
        if let [_, rest @ ..] = &mut tiles[..] {
            rest.sort_by_key(|tile| order[tile.places.end as usize - 1].out);
        }
        Order { places: order, tiles }
    }

    pub(super) fn places(&self, tile: &Tile) -> &[Place<u8>] {
        &self.places[tile.places.start as usize..tile.places.end as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// In the order as it is.
    fn plain(places: &Places) -> Order {
        let each = places
            .runs
            .iter()
            .flat_map(|run| (0..run.len).map(|i| places.place(run, i)));
        let places: Vec<Place<u8>> = each.collect();
        let tile = |some: Range<u32>| Tile {
            meets: places[some.start as usize..some.end as usize]
                .iter()
                .fold(0, |all, place| all | place.meets),
            places: some,
        };
        Order {
            tiles: cut(places.len(), PLACES).into_iter().map(tile).collect(),
            places,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of `lines` by `line` positions and three by three taps, with padding around them.
    fn plane(lines: usize, line: usize) -> Places {
        let along = |at: usize, extent: usize, taps: [u64; 3]| {
            let there = (0..3).filter(|tap| (1..=extent).contains(&(at + tap)));
            there.fold(0, |all, tap| all | taps[tap])
        };
        let meets = |i: usize| {
            along(i / line, lines, [0o007, 0o070, 0o700]) & along(i % line, line, [0o111, 0o222, 0o444])
        };
        let mut runs: Vec<Run> = Vec::new();
        for i in 0..lines * line {
            match runs.last_mut() {
                Some(run) if run.first.meets == meets(i) => run.len += 1,
                _ => runs.push(Run {
                    first: Place {
                        at: std::ptr::null::<u8>().wrapping_add(i),
                        meets: meets(i),
                        out: i as isize,
                    },
                    len: 1,
                }),
            }
        }
        Places { runs, step: [1, 1] }
    }

    #[test]
    fn tiles_have_every_place_once_and_all_its_taps() {
        for (lines, line) in (1..16).flat_map(|lines| (1..16).map(move |line| (lines, line))) {
            for least in [3, 4, 6] {
                let order = Order::new(&plane(lines, line), least);
                let mut found = vec![0; lines * line];
                for tile in &order.tiles {
                    assert!((1..=PLACES).contains(&tile.places.len()));
                    for place in order.places(tile) {
                        found[place.out as usize] += 1;
                        assert_eq!(place.meets & !tile.meets, 0, "{lines} x {line}");
                    }
                }
                assert!(
                    found.iter().all(|&times| times == 1),
                    "{lines} x {line}: {found:?}"
                );
                assert_eq!(order.len(), lines * line);
            }
        }
    }

    /// Nine tiles of six and five places each leave out three taps along the sides of a plane of 7 by 7.
    #[test]
    fn sides_have_tiles_of_their_own() {
        let products = |order: &Order| -> usize {
            let of = |tile: &Tile| tile.places.len() * tile.meets.count_ones() as usize;
            order.tiles.iter().map(of).sum()
        };
        let order = Order::new(&plane(7, 7), 3);
        assert_eq!((order.tiles.len(), products(&order)), (9, 25 * 9 + 24 * 6));
        assert_eq!(order.tiles[0].meets, 0o777);
        for (extent, most) in [(14, 0.92), (28, 0.96), (56, 0.98)] {
            let order = Order::new(&plane(extent, extent), 4);
            let share = products(&order) as f64 / (9 * extent * extent) as f64;
            assert!(share < most, "{extent}: {share}");
        }
    }

    #[test]
    fn places_of_another_sample_are_moved() {
        let (places, of) = (plane(4, 5), ([0; AXES], [1; AXES]));
        let orders = Orders::new(of, std::ptr::null(), &places, [12, 4]);
        assert_eq!(orders.each.iter().map(Order::len).sum::<usize>(), 20);
        let moved = orders.moved(of, std::ptr::null::<u8>().wrapping_add(7)).unwrap();
        let all = moved.each.iter().flat_map(|order| &order.places);
        assert!(all.clone().all(|place| place.at.addr() == place.out as usize + 7));
        assert!(moved.moved(([1; AXES], [1; AXES]), std::ptr::null()).is_none());
    }
}
