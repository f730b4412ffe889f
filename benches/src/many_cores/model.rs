//! A fork-join pool on a machine with many cores: when its threads come to a region, and when the last piece ends.

/// The pieces of one region in their order, nanoseconds each on one core.
pub(crate) type Region = Vec<u32>;

/// How threads come to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crew {
    /// They look for work: regions follow each other.
    Awake,
    /// They sleep, and the caller wakes them one after the other.
    WokenByCaller,
    /// They sleep, and each that comes wakes `FAN` more.
    WokenInTree,
    /// They look for work, and each node has a list, a lock and a counter of pieces of its own.
    AwakeByNode,
}

/// Threads that one wakes in [`Crew::WokenInTree`], as in the pool.
const FAN: usize = 2;

/// What the machine takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The caller, for each thread that it wakes.
    pub(crate) wake: f64,
    /// From there until the thread runs.
    pub(crate) sleep: f64,
    /// Until a thread that looks for work sees a region.
    pub(crate) hand_off: f64,
    /// The pool's lock, from one thread to the next.
    pub(crate) lock: f64,
    /// The counter of pieces, from one thread to the next.
    pub(crate) piece: f64,
    /// Cores of a node.
    pub(crate) node: usize,
}

impl Machine {
    /// When each of `threads` threads begins with a region of `pieces`, the caller first.
    fn starts(&self, crew: Crew, threads: usize, pieces: usize) -> Vec<f64> {
        let helpers = threads.min(pieces).saturating_sub(1);
        let mut starts = vec![0.0; helpers + 1];
        let mut callers = vec![0.0; helpers + 1];
        for helper in 1..=helpers {
            starts[helper] = match crew {
                Crew::Awake => self.hand_off + self.lock * helper as f64,
                Crew::AwakeByNode => {
                    // The first of each node brings the region to its node.
                    let (node, at) = (helper / self.node, helper % self.node);
                    self.hand_off * if node > 0 { 2.0 } else { 1.0 } + self.lock * (at + 1) as f64
                }
                Crew::WokenByCaller => {
                    starts[0] += self.wake;
                    starts[0] + self.sleep
                }
                Crew::WokenInTree => {
                    let parent = (helper - 1) / FAN;
                    callers[parent] += self.wake;
                    starts[parent] + callers[parent] + self.sleep
                }
            };
        }
        if crew == Crew::WokenInTree {
            // A thread wakes others before its first piece.
            for (start, calls) in starts.iter_mut().zip(&callers) {
                *start += calls;
            }
        }
        starts
    }

    /// How long a region takes: pieces go in order to whoever is free first.
    pub(crate) fn region(&self, crew: Crew, threads: usize, pieces: &[u32]) -> f64 {
        if threads == 1 || pieces.len() < 2 {
            return pieces.iter().map(|&piece| f64::from(piece)).sum();
        }
        let mut free = self.starts(crew, threads, pieces.len());
        let lists = match crew {
            Crew::AwakeByNode => free.len().div_ceil(self.node),
            _ => 1,
        };
        // Nodes have contiguous shares. None takes from another, which is the worse case.
        let mut end = 0.0_f64;
        for list in 0..lists {
            let share = pieces.len() * list / lists..pieces.len() * (list + 1) / lists;
            let members = free.len() * list / lists..free.len() * (list + 1) / lists;
            let threads = &mut free[members];
            let mut counter = 0.0_f64;
            for &piece in &pieces[share] {
                let Some(first) = threads.iter_mut().min_by(|a, b| a.total_cmp(b)) else {
                    break;
                };
                counter = counter.max(*first) + self.piece;
                *first = counter + f64::from(piece);
                end = end.max(*first);
            }
        }
        // The caller sees that the last helper has left.
        end + self.hand_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        wake: 10.0,
        sleep: 100.0,
        hand_off: 1.0,
        lock: 2.0,
        piece: 0.0,
        node: 4,
    };

    #[test]
    fn threads_come_one_after_the_other_or_in_a_tree() {
        assert_eq!(MACHINE.starts(Crew::Awake, 8, 3), [0.0, 3.0, 5.0]);
        assert_eq!(
            MACHINE.starts(Crew::WokenByCaller, 4, 9),
            [30.0, 110.0, 120.0, 130.0]
        );
        // The caller wakes 1 and 2, and 1 wakes 3.
        assert_eq!(
            MACHINE.starts(Crew::WokenInTree, 4, 9),
            [20.0, 120.0, 120.0, 220.0]
        );
        assert_eq!(
            MACHINE.starts(Crew::AwakeByNode, 6, 9),
            [0.0, 5.0, 7.0, 9.0, 4.0, 6.0]
        );
    }

    #[test]
    fn pieces_go_to_whoever_is_free() {
        // The caller has 100 and 50 behind it; the helper comes at 3 and has 60 and 70.
        assert_eq!(MACHINE.region(Crew::Awake, 2, &[100, 60, 70]), 134.0);
        assert_eq!(MACHINE.region(Crew::Awake, 1, &[100, 60, 70]), 230.0);
        assert_eq!(MACHINE.region(Crew::Awake, 2, &[100]), 100.0);
    }
}
