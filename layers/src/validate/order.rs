//! What is ordered before what: vector clocks of streams, and the accesses to memory that they have not ordered yet.

use super::region::Region;
use super::site::SiteId;
use super::table::Map;

/// A stream in clocks. No two streams of a process have the same one.
pub(super) type Actor = u64;

/// Of each stream the last of its submissions that is ordered before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<(Actor, u64)>);

impl Clock {
    /// Whether submission `epoch` of `actor` is ordered before.
    #[inline]
    fn covers(&self, actor: Actor, epoch: u64) -> bool {
        self.0.iter().any(|&(own, last)| own == actor && last >= epoch)
    }

    /// Orders submissions of `actor` up to `epoch` before.
    pub(super) fn reach(&mut self, actor: Actor, epoch: u64) {
        match self.0.iter_mut().find(|(own, _)| *own == actor) {
            Some((_, last)) => *last = (*last).max(epoch),
            None => self.0.push((actor, epoch)),
        }
    }
}

/// The submissions that the host knows to be done: those of streams that have ended, and of others up to a number.
#[derive(Debug, Default)]
pub(super) struct Done {
    live: Map<u64>,
    last: Actor,
}

impl Done {
    /// A new stream.
    pub(super) fn begin(&mut self) -> Actor {
        self.last += 1;
        self.live.insert(self.last, 0);
        self.last
    }

    /// All work of a stream is done, and there will be no more.
    pub(super) fn end(&mut self, actor: Actor) {
        self.live.remove(&actor);
    }

    /// Whether submission `epoch` of `actor` is done.
    #[inline]
    pub(super) fn has(&self, actor: Actor, epoch: u64) -> bool {
        self.live.get(&actor).is_none_or(|&done| done >= epoch)
    }

    /// What a clock covers is done.
    pub(super) fn reach(&mut self, clock: &Clock) {
        for &(actor, epoch) in &clock.0 {
            if let Some(done) = self.live.get_mut(&actor) {
                *done = (*done).max(epoch);
            }
        }
    }

    /// Orders what `other` covers before `clock`, but for what is done anyway.
    pub(super) fn merge(&self, clock: &mut Clock, other: &Clock) {
        clock.0.retain(|&(actor, epoch)| !self.has(actor, epoch));
        for &(actor, epoch) in &other.0 {
            if !self.has(actor, epoch) {
                clock.reach(actor, epoch);
            }
        }
    }
}

/// One access that is under way.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) actor: Actor,
    pub(super) epoch: u64,
    pub(super) writes: bool,
    pub(super) region: Region,
    pub(super) site: SiteId,
}

/// Most accesses that are kept of a buffer.
const KEPT: usize = 64;

/// What a new access meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Race {
    /// Whether the earlier access writes.
    pub(super) writes: bool,
    pub(super) actor: Actor,
    pub(super) site: SiteId,
    /// The bytes of the earlier access.
    pub(super) bytes: (u64, u64),
}

/// The accesses to one buffer that later ones may meet.
#[derive(Debug, Default)]
pub(super) struct Accesses(Vec<Access>);

impl Accesses {
    /// Adds an access and returns the first one that it races with: both meet, one of them writes, and nothing orders them. `clock` is
    /// what the stream has waited for. Goes: what is done, and what the new access covers and is ordered behind.
    #[inline]
    pub(super) fn add(&mut self, new: Access, clock: &Clock, done: &Done) -> Option<Race> {
        let mut race = None;
        self.0.retain(|old| {
            if old.actor != new.actor {
                if done.has(old.actor, old.epoch) {
                    return false;
                }
                if !clock.covers(old.actor, old.epoch) {
                    if race.is_none() && (old.writes || new.writes) && old.region.meets(&new.region) {
                        race = Some(Race {
                            writes: old.writes,
                            actor: old.actor,
                            site: old.site,
                            bytes: (old.region.start, old.region.end),
                        });
                    }
                    return true;
                }
            }
            // A read supersedes those of its own stream only: work that waits for it need not wait for others.
            let superseded = new.writes || (!old.writes && old.actor == new.actor);
            !(superseded && new.region.covers(&old.region))
        });
        if self.0.len() == KEPT {
            self.0.remove(0);
        }
        self.0.push(new);
        race
    }

    /// Whether work under way writes bytes of a region.
    pub(super) fn is_written(&self, region: &Region, done: &Done) -> bool {
        let open = |old: &&Access| old.writes && !done.has(old.actor, old.epoch);
        self.0.iter().filter(open).any(|old| old.region.meets(region))
    }

    /// Whether work under way touches the buffer.
    pub(super) fn is_used(&self, done: &Done) -> bool {
        self.0.iter().any(|old| !done.has(old.actor, old.epoch))
    }

    /// Takes back what a refused submission was to do.
    pub(super) fn undo(&mut self, actor: Actor, epoch: u64) {
        self.0.retain(|old| (old.actor, old.epoch) != (actor, epoch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(actor: Actor, epoch: u64, writes: bool, start: u64, end: u64) -> Access {
        Access {
            actor,
            epoch,
            writes,
            region: Region::dense(start, end),
            site: epoch as SiteId,
        }
    }

    fn two() -> (Done, Actor, Actor) {
        let mut done = Done::default();
        let (one, two) = (done.begin(), done.begin());
        (done, one, two)
    }

    #[test]
    fn a_race_needs_a_write_common_bytes_and_no_order() {
        let (done, one, two) = two();
        let mut clock = Clock::default();
        let begun = || {
            let mut accesses = Accesses::default();
            assert!(
                accesses
                    .add(access(one, 1, true, 0, 64), &Clock::default(), &done)
                    .is_none()
            );
            accesses
        };
        assert!(
            begun()
                .add(access(two, 1, false, 32, 96), &clock, &done)
                .is_some()
        );
        assert!(begun().add(access(two, 1, true, 64, 96), &clock, &done).is_none());
        assert!(begun().add(access(one, 2, true, 0, 64), &clock, &done).is_none());
        clock.reach(one, 1);
        assert!(
            begun()
                .add(access(two, 1, false, 32, 96), &clock, &done)
                .is_none()
        );
        let mut reads = Accesses::default();
        reads.add(access(one, 1, false, 0, 64), &Clock::default(), &done);
        assert!(
            reads
                .add(access(two, 1, false, 0, 64), &Clock::default(), &done)
                .is_none()
        );
    }

    #[test]
    fn what_is_done_races_with_nothing() {
        let (mut done, one, two) = two();
        let mut accesses = Accesses::default();
        let none = Clock::default();
        accesses.add(access(one, 3, true, 0, 64), &none, &done);
        let mut clock = Clock::default();
        clock.reach(one, 2);
        done.reach(&clock);
        assert!(accesses.add(access(two, 1, false, 0, 64), &none, &done).is_some());
        clock.reach(one, 3);
        done.reach(&clock);
        assert!(accesses.add(access(two, 2, true, 0, 64), &none, &done).is_none());
        done.end(two);
        assert!(accesses.add(access(one, 4, true, 0, 64), &none, &done).is_none());
    }

    #[test]
    fn a_reader_keeps_an_earlier_writer_in_view() {
        let (done, one, two) = two();
        let mut accesses = Accesses::default();
        let none = Clock::default();
        accesses.add(access(one, 1, true, 0, 64), &none, &done);
        accesses.add(access(one, 2, false, 0, 64), &none, &done);
        accesses.add(access(one, 3, false, 0, 64), &none, &done);
        assert_eq!(accesses.0.len(), 2);
        // Behind the write, and not behind the reads.
        let mut clock = Clock::default();
        clock.reach(one, 1);
        assert!(
            accesses
                .add(access(two, 1, false, 0, 64), &clock, &done)
                .is_none()
        );
        let race = accesses.add(access(two, 2, true, 0, 64), &clock, &done).unwrap();
        assert_eq!((race.writes, race.site), (false, 3));
        accesses.undo(two, 2);
        accesses.undo(two, 1);
        assert_eq!(accesses.0.len(), 1);
    }
}
