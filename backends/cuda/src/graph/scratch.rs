//! Where the scratch memory of a graph's nodes lies: nodes that may run side by side share none.

/// Scratch memory of a node starts at multiples of this.
const ALIGNMENT: u64 = 256;
/// Beyond this many bytes nodes wait for one another instead.
const MOST: u64 = 128 << 20;

/// Places in one range of memory.
pub(super) struct Places {
    /// First byte of each node's.
    pub(super) starts: Vec<u64>,
    /// Bytes of all.
    pub(super) bytes: u64,
    /// Earlier nodes that each node waits for on top of its dependencies, because it takes their place.
    pub(super) waits: Vec<Vec<u32>>,
}

/// Scratch memory of a node.
struct Range {
    start: u64,
    end: u64,
    node: usize,
    // Which of the nodes with scratch memory it is.
    number: usize,
}

/// A set of nodes with scratch memory.
#[derive(Clone, Default)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, number: usize) {
        self.0.resize(self.0.len().max(number / 64 + 1), 0);
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn contains(&self, number: usize) -> bool {
        (self.0.get(number / 64)).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn join(&mut self, other: &Set) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }
}

/// Places for nodes that need `sizes` bytes and wait for earlier ones.
pub(super) fn place(sizes: &[u64], dependencies: &[&[u32]]) -> Places {
    place_within(MOST, sizes, dependencies)
}

fn place_within(most: u64, sizes: &[u64], dependencies: &[&[u32]]) -> Places {
    let mut places = Places {
        starts: vec![0; sizes.len()],
        bytes: 0,
        waits: vec![Vec::new(); sizes.len()],
    };
    // By start.
    let mut ranges: Vec<Range> = Vec::new();
    // The nodes with scratch memory that are done before each node, and itself.
    let mut done: Vec<Set> = Vec::with_capacity(sizes.len());
    for (node, (&size, &before)) in sizes.iter().zip(dependencies).enumerate() {
        let mut own = Set::default();
        before
            .iter()
            .for_each(|&earlier| own.join(&done[earlier as usize]));
        if size > 0 {
            let size = size.next_multiple_of(ALIGNMENT);
            let beside = |range: &&Range| !own.contains(range.number);
            // The first gap between those that may run beside it.
            let mut start = 0;
            for range in ranges.iter().filter(beside) {
                if range.start >= start + size {
                    break;
                }
                start = start.max(range.end);
            }
            if start + size > most.max(size) {
                start = oldest(&ranges, &own, most.max(size), size);
                let taken = (ranges.iter().filter(beside))
                    .filter(|range| range.start < start + size && start < range.end);
                places.waits[node] = taken.map(|range| range.node as u32).collect();
                for &earlier in &places.waits[node] {
                    own.join(&done[earlier as usize]);
                }
            }
            let number = ranges.len();
            own.insert(number);
            let at = ranges.partition_point(|range| range.start <= start);
            ranges.insert(
                at,
                Range {
                    start,
                    end: start + size,
                    node,
                    number,
                },
            );
            places.starts[node] = start;
            places.bytes = places.bytes.max(start + size);
        }
        done.push(own);
    }
    places
}

/// Where `size` bytes take the place of the nodes that came longest ago.
fn oldest(ranges: &[Range], own: &Set, most: u64, size: u64) -> u64 {
    let latest = |&start: &u64| {
        (ranges.iter())
            .filter(|range| range.start < start + size && start < range.end && !own.contains(range.number))
            .map(|range| range.node)
            .max()
    };
    let starts = [0].into_iter().chain(ranges.iter().map(|range| range.end));
    let fitting = starts.filter(|start| start + size <= most);
    fitting.min_by_key(latest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What waits for what, by way of others too.
    fn reach(dependencies: &[&[u32]], places: &Places) -> Vec<Vec<bool>> {
        let mut all: Vec<Vec<bool>> = Vec::new();
        for (node, before) in dependencies.iter().enumerate() {
            let mut own = vec![false; dependencies.len()];
            for &earlier in before.iter().chain(&places.waits[node]) {
                assert!((earlier as usize) < node, "{node} waits for {earlier}");
                own[earlier as usize] = true;
                for (own, &further) in own.iter_mut().zip(&all[earlier as usize]) {
                    *own |= further;
                }
            }
            all.push(own);
        }
        all
    }

    fn check(most: u64, sizes: &[u64], dependencies: &[&[u32]]) -> Places {
        let places = place_within(most, sizes, dependencies);
        let reach = reach(dependencies, &places);
        for (node, &size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
            assert!(places.starts[node].is_multiple_of(ALIGNMENT));
            assert!(places.starts[node] + size <= places.bytes);
            for (earlier, &other) in sizes[..node].iter().enumerate().filter(|(_, size)| **size > 0) {
                let (at, its) = (places.starts[node], places.starts[earlier]);
                assert!(
                    reach[node][earlier] || at >= its + other || its >= at + size,
                    "{node} beside {earlier}"
                );
            }
        }
        places
    }

    #[test]
    fn a_chain_shares_one_place_and_branches_share_none() {
        let chain = check(MOST, &[100, 0, 300, 200], &[&[], &[0], &[1], &[2]]);
        assert_eq!((chain.starts, chain.bytes), (vec![0; 4], 512));
        let branches = check(MOST, &[100, 300, 200, 1000], &[&[], &[], &[], &[0, 1, 2]]);
        assert_eq!((branches.starts, branches.bytes), (vec![0, 256, 768, 0], 1024));
        assert!(branches.waits.iter().all(Vec::is_empty));
    }

    #[test]
    fn where_there_is_too_little_nodes_wait_for_the_oldest() {
        let dependencies: [&[u32]; 4] = [&[]; 4];
        let places = check(512, &[256; 4], &dependencies);
        assert_eq!(places.bytes, 512);
        assert_eq!(places.waits, [vec![], vec![], vec![0], vec![1]]);
        // One that is too large alone is alone.
        let places = check(512, &[256, 256, 700], &dependencies[..3]);
        assert_eq!((places.bytes, places.waits[2].len()), (768, 2));
    }

    #[test]
    fn nodes_that_may_run_side_by_side_share_nothing() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = (state.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..100 {
            let sizes: Vec<u64> = (0..90).map(|_| random(3) * random(2000)).collect();
            let before: Vec<Vec<u32>> = (0..90_u64)
                .map(|node| (0..random(3).min(node)).map(|_| random(node) as u32).collect())
                .collect();
            let before: Vec<&[u32]> = before.iter().map(Vec::as_slice).collect();
            for most in [MOST, 4096, 256] {
                check(most, &sizes, &before);
            }
        }
    }
}
