//! Which stream has waited for which.

use crate::hal::{self, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream and what others need to know before they read what it wrote.
///
/// The epoch counts how often another stream waited for this one. A value that was written in epoch `e` is covered by any wait
/// that ended epoch `e` or a later one. This holds because the epoch is read after the work is submitted and ended before
/// the wait is recorded, and submissions to one stream are totally ordered.
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    // A stream may get another record when no value names the first any more; its epochs are others then.
    id: u64,
    epoch: AtomicU64,
    // Ids of other lanes, and the last of their epochs that this one waited for.
    waited: Mutex<SmallVec<[(u64, u64); 4]>>,
}

impl Lane {
    pub(crate) fn new(stream: Stream) -> Lane {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Lane {
            stream,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            epoch: AtomicU64::new(1),
            waited: Mutex::default(),
        }
    }

    /// The epoch of work that was just submitted; never 0.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Later work of this stream waits for what `other` wrote in `epoch`; 0 stands for nothing.
    #[cold]
    pub(crate) fn wait_for(&self, other: &Lane, epoch: u64) -> hal::Result<()> {
        let known = |waited: &[(u64, u64)]| waited.iter().position(|&(id, _)| id == other.id);
        {
            let waited = self.waited.lock();
            if epoch == 0 || known(&waited).is_some_and(|at| waited[at].1 >= epoch) {
                return Ok(());
            }
        }
        let covered = other.epoch.fetch_add(1, Ordering::AcqRel);
        self.stream.wait_stream(&other.stream)?;
        let mut waited = self.waited.lock();
        match known(&waited) {
            Some(at) => waited[at].1 = waited[at].1.max(covered),
            None => {
                // Streams come and go; the oldest entry costs one wait more at most.
                if waited.len() >= 64 {
                    waited.remove(0);
                }
                waited.push((other.id, covered));
            }
        }
        Ok(())
    }
}

/// When and on which stream memory was written.
pub(crate) struct Written {
    /// `None` for the default stream.
    pub(crate) lane: Option<Arc<Lane>>,
    pub(crate) epoch: u64,
}

impl Written {
    /// By the host, which waited until it was there.
    pub(crate) const BY_HOST: Written = Written { lane: None, epoch: 0 };

    /// By what was submitted last to `lane`, the record of `scoped` or of the default stream.
    #[inline]
    pub(crate) fn by(scoped: Option<&Arc<Lane>>, lane: &Lane) -> Written {
        Written {
            lane: scoped.map(Arc::clone),
            epoch: lane.epoch(),
        }
    }
}
