//! How the tasks of a launch come to threads, and what a thread keeps from one of them to the next.

use super::order::Orders;
use crate::library::gemm::{Scratch, piece};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The pieces of a launch. A thread takes neighbours, which share planes and lie where it has written a launch before, and what
/// other threads have left when its own share is done.
pub(super) struct Deal {
    launch: u64,
    pieces: usize,
    helpers: AtomicUsize,
    taken: SmallVec<[AtomicUsize; 8]>,
}

impl Deal {
    pub(super) fn new(pieces: usize, shares: usize) -> Deal {
        static LAUNCHES: AtomicU64 = AtomicU64::new(1);
        Deal {
            launch: LAUNCHES.fetch_add(1, Ordering::Relaxed),
            pieces,
            helpers: AtomicUsize::new(0),
            taken: (0..shares).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// A piece that nobody has taken; there is one as long as it has been called less often than there are pieces.
    fn take(&self, share: usize) -> Option<usize> {
        let shares = self.taken.len();
        (share..shares).chain(0..share).find_map(|share| {
            let own = piece(self.pieces, shares, share);
            let at = self.taken[share].fetch_add(1, Ordering::Relaxed);
            (at < own.len()).then_some(own.start + at)
        })
    }

    /// Calls `body` with a piece and what this thread has kept of the launch. `call` counts the calls of a region: the first is its
    /// caller's, who has the first share in every launch, whoever comes first.
    pub(super) fn run(&self, call: usize, body: impl FnOnce(usize, &mut Kept)) {
        thread_local! {
            static KEPT: Cell<Option<Kept>> = const { Cell::new(None) };
        }
        let kept = KEPT.take().filter(|kept| kept.launch == self.launch);
        let mut kept = kept.unwrap_or_else(|| Kept {
            launch: self.launch,
            share: match call {
                0 => 0,
                _ => 1 + self.helpers.fetch_add(1, Ordering::Relaxed) % (self.taken.len() - 1).max(1),
            },
            scratch: None,
            orders: None,
            block: None,
            met: 0,
        });
        if let Some(piece) = self.take(kept.share) {
            body(piece, &mut kept);
        }
        KEPT.set(Some(kept));
    }
}

/// What a thread keeps from one task of a launch to the next.
pub(super) struct Kept {
    launch: u64,
    share: usize,
    pub(super) scratch: Option<Scratch>,
    pub(super) orders: Option<Orders>,
    /// Index of the block whose planes the scratch memory holds.
    pub(super) block: Option<usize>,
    /// Bits of the parts of rows whose weights this thread has met.
    met: u64,
}

impl Kept {
    /// Notes that this thread meets the weights of a part; whether it does so for the first time, as far as is known.
    pub(super) fn meets_first(&mut self, part: usize) -> bool {
        let bit = u32::try_from(part).ok().and_then(|part| 1_u64.checked_shl(part));
        let is_first = bit.is_none_or(|bit| self.met & bit == 0);
        self.met |= bit.unwrap_or(0);
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_comes_once_and_a_thread_goes_on_with_neighbours() {
        for (pieces, shares) in [(1, 1), (7, 2), (16, 2), (5, 5), (9, 4)] {
            let deal = Deal::new(pieces, shares);
            let mut seen = Vec::new();
            for _ in 0..pieces {
                deal.run(0, |piece, kept| {
                    assert_eq!(kept.block.replace(piece), seen.last().copied());
                    seen.push(piece);
                });
            }
            assert_eq!(seen, (0..pieces).collect::<Vec<_>>());
            deal.run(0, |piece, _| panic!("piece {piece} comes twice"));
        }
    }

    #[test]
    fn a_thread_meets_the_weights_of_a_part_for_the_first_time_once() {
        let deal = Deal::new(6, 1);
        let mut firsts = Vec::new();
        for part in [0, 1, 0, 1, 63, 63] {
            deal.run(0, |_, kept| firsts.push(kept.meets_first(part)));
        }
        assert_eq!(firsts, [true, true, false, false, true, false]);
        let other = Deal::new(3, 1);
        let mut firsts = Vec::new();
        for part in [1, 64, 64] {
            other.run(0, |_, kept| firsts.push(kept.meets_first(part)));
        }
        // Parts without a bit might be new.
        assert_eq!(firsts, [true; 3]);
    }

    #[test]
    fn threads_begin_apart_and_take_what_others_leave() {
        let deal = Deal::new(8, 2);
        let taken = |call: usize| {
            let mut got = None;
            deal.run(call, |piece, _| got = Some(piece));
            got
        };
        // The helper comes first, and does not take the caller's share.
        let helped = std::thread::scope(|scope| {
            let helper = scope.spawn(|| [7, 6, 5].map(taken));
            helper.join().unwrap_or_default()
        });
        assert_eq!(helped, [4, 5, 6].map(Some));
        assert_eq!([0, 1, 2, 3, 4].map(taken), [0, 1, 2, 3, 7].map(Some));
        assert_eq!(taken(0), None);
    }
}
