//! The calls that gradients are taken in.

use super::history::History;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A call of `grad` or `vjp`, or what `requires_grad` marked.
///
/// Calls that are not nested share a bit, and a pullback outlives its call; so a level is its bit and the time of the call: no
/// history of the call is older, and none that the bit stands for in an earlier call is younger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Of [`History::levels`].
    pub(crate) bit: u64,
    since: u64,
}

/// Calls that may be nested.
const MOST: u32 = 63;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// When the calls under way began, by their bits.
    static SINCE: [Cell<u64>; MOST as usize + 1] = const { [const { Cell::new(0) }; MOST as usize + 1] };
}

/// Whether the process takes gradients, which its session says.
static GRADIENTS: AtomicBool = AtomicBool::new(true);

/// Whether the process takes gradients from now on.
pub(crate) fn set_gradients(on: bool) {
    GRADIENTS.store(on, Ordering::Relaxed);
}

/// Whether the process takes gradients.
pub(crate) fn has_gradients() -> bool {
    GRADIENTS.load(Ordering::Relaxed)
}

impl Level {
    /// That of tensors that [`Tensor::requires_grad`](crate::Tensor::requires_grad) made.
    pub(crate) const IMPERATIVE: Level = Level { bit: 1, since: 0 };

    /// One that no history leads to.
    pub(crate) const NONE: Level = Level {
        bit: 0,
        since: u64::MAX,
    };

    /// Runs `body` in a level of its own; `None` when [`MOST`] are under way, or where the process takes no gradients.
    pub(crate) fn enter<R>(body: impl FnOnce(Level) -> R) -> Option<R> {
        struct Restore(u32);
        impl Drop for Restore {
            fn drop(&mut self) {
                DEPTH.set(self.0);
            }
        }
        let depth = DEPTH.get();
        if depth == MOST || !has_gradients() {
            return None;
        }
        let _restore = Restore(depth);
        let since = History::number();
        SINCE.with(|begun| begun[depth as usize + 1].set(since));
        DEPTH.set(depth + 1);
        Some(body(Level {
            bit: 1 << (depth + 1),
            since,
        }))
    }

    /// Whether gradients of this level flow through `history`.
    #[inline]
    pub(crate) fn holds(self, history: &History) -> bool {
        history.levels & self.bit != 0 && history.id >= self.since
    }

    /// Whether gradients of another level that is under way on this thread flow through `history`.
    pub(crate) fn others_hold(self, history: &History) -> bool {
        let mut bits = history.levels & (u64::MAX >> (MOST - DEPTH.get()));
        SINCE.with(|begun| {
            while bits != 0 {
                let other = Level {
                    bit: bits & bits.wrapping_neg(),
                    since: begun[bits.trailing_zeros() as usize].get(),
                };
                if other != self && other.holds(history) {
                    return true;
                }
                bits &= bits - 1;
            }
            false
        })
    }
}
