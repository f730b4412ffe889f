//! Shadow records by handle, and the handles that have ended.

use super::site::SiteId;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// A hash of numbers that are small or count up, as handles do.
#[derive(Debug, Default)]
pub(super) struct Fast(u64);

impl Hasher for Fast {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let word = self.0 ^ number ^ (number >> 32);
        self.0 = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub(super) type Map<T> = HashMap<u64, T, BuildHasherDefault<Fast>>;

/// Most handles of a kind that are remembered after their objects have ended.
const REMEMBERED: usize = 1 << 12;

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Table<T> {
    live: Map<T>,
    // The site that made each object that has ended.
    ended: Map<SiteId>,
    order: VecDeque<u64>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            live: Map::default(),
            ended: Map::default(),
            order: VecDeque::new(),
        }
    }
}

/// What is known of a handle that leads to no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It was never given out.
    Never,
    /// Its object, which this site made, has ended.
    Ended(SiteId),
}

impl<T> Table<T> {
    #[inline]
    pub(super) fn find(&self, handle: u64) -> Result<&T, Missing> {
        self.live.get(&handle).ok_or_else(|| self.missing(handle))
    }

    #[inline]
    pub(super) fn find_mut(&mut self, handle: u64) -> Result<&mut T, Missing> {
        match self.live.get_mut(&handle) {
            Some(found) => Ok(found),
            None => Err(match self.ended.get(&handle) {
                Some(&site) => Missing::Ended(site),
                None => Missing::Never,
            }),
        }
    }

    #[cold]
    fn missing(&self, handle: u64) -> Missing {
        (self.ended.get(&handle)).map_or(Missing::Never, |&site| Missing::Ended(site))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.live.iter().map(|(&handle, object)| (handle, object))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.live.values_mut()
    }

    /// Adds an object. Whether its handle was free.
    pub(super) fn insert(&mut self, handle: u64, object: T) -> bool {
        // It may be forgotten a little early when it ends again.
        self.ended.remove(&handle);
        self.live.insert(handle, object).is_none()
    }

    /// Ends an object that `site` made.
    pub(super) fn remove(&mut self, handle: u64, site: impl FnOnce(&T) -> SiteId) -> Result<T, Missing> {
        let Some(object) = self.live.remove(&handle) else {
            return Err(self.missing(handle));
        };
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.order.push_back(handle);
        self.ended.insert(handle, site(&object));
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_that_ended_are_told_from_those_that_never_were() {
        let mut table = Table::default();
        assert!(table.insert(7, "seven"));
        assert!(!table.insert(7, "again"));
        assert_eq!(table.remove(7, |_| 3), Ok("again"));
        assert_eq!(table.find(7), Err(Missing::Ended(3)));
        assert_eq!(table.find(8), Err(Missing::Never));
        assert!(table.insert(7, "new"));
        assert_eq!(table.find(7), Ok(&"new"));
        for handle in 100..100 + 2 * REMEMBERED as u64 {
            table.insert(handle, "");
            table.remove(handle, |_| 0).unwrap();
        }
        assert_eq!(table.find(100), Err(Missing::Never));
    }
}
