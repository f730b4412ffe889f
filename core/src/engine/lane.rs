//! Which stream has waited for which.

use super::epochs::Epochs;
use crate::hal::{self, Stream};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Streams by their handles, and epochs.
pub(super) type Streams = SmallVec<[(u64, u64); 4]>;

/// A stream and what others need to know before they read what it wrote.
///
/// An epoch of the device ends before each wait of one stream for another. A value that was written in epoch `e` is covered by any
/// wait that ended epoch `e` or a later one. This holds because the epoch is read after the work is submitted and ended before
/// the wait is recorded, and submissions to one stream are totally ordered.
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    // Other streams whose work comes before later work of this one, and the last epoch of theirs for which that holds. Those that the
    // others had waited for are among them.
    waited: Mutex<Streams>,
}

impl Lane {
    pub(super) fn new(stream: Stream) -> Lane {
        Lane {
            stream,
            waited: Mutex::default(),
        }
    }

    /// The streams that it waited for, and up to which epoch.
    pub(super) fn waited(&self) -> Streams {
        self.waited.lock().clone()
    }

    /// Later work of this stream waits for what `other` wrote in `epoch`; 0 stands for nothing.
    #[cold]
    pub(super) fn wait_for(&self, other: &Lane, epoch: u64, epochs: &Epochs) -> hal::Result<()> {
        let (own, handle) = (self.stream.handle(), other.stream.handle());
        let covers = |&(stream, last): &(u64, u64)| stream == handle && last >= epoch;
        if epoch == 0 || self.waited.lock().iter().any(covers) {
            return Ok(());
        }
        let before = other.waited();
        let covered = epochs.end();
        self.stream.wait_stream(&other.stream)?;
        let mut waited = self.waited.lock();
        let before = before.into_iter().filter(|&(stream, _)| stream != own);
        for (stream, epoch) in before.chain([(handle, covered)]) {
            match waited.iter_mut().find(|known| known.0 == stream) {
                Some(known) => known.1 = known.1.max(epoch),
                None => waited.push((stream, epoch)),
            }
        }
        // Streams come and go.
        if waited.len() >= 64 && waited.len().is_power_of_two() {
            waited.retain(|&mut (stream, _)| epochs.matters(stream));
        }
        Ok(())
    }
}

/// When and on which stream memory was written.
pub(crate) struct Written {
    /// `None` for the default stream.
    pub(crate) lane: Option<Arc<Lane>>,
    // Changes where a result takes the memory of an argument, which nobody else sees.
    epoch: AtomicU64,
}

impl Written {
    /// To `lane` in `epoch`.
    #[inline]
    pub(super) fn new(lane: Option<Arc<Lane>>, epoch: u64) -> Written {
        Written {
            lane,
            epoch: AtomicU64::new(epoch),
        }
    }

    /// By the host, which waited until it was there.
    pub(crate) fn by_host() -> Written {
        Written::new(None, 0)
    }

    /// The epoch.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Written once more by the same stream, as `last` says.
    pub(crate) fn again(&self, last: &Written) {
        self.epoch.store(last.epoch(), Ordering::Relaxed);
    }
}
