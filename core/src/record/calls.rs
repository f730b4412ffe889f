//! How ops of this thread are taken: traced or at once, named and counted or not.

use super::event::Event;
use super::place::Call;
use super::recording::TextId;
use super::{clock, ring, switch};
use std::cell::Cell;

/// Set in [`WAY`] when an op was called while something is recorded.
const OBSERVED: u64 = 1 << 63;

thread_local! {
    /// 0 for ops that run at once and that nobody looks at: the id of the innermost trace, and [`OBSERVED`].
    static WAY: Cell<u64> = const { Cell::new(0) };
    /// Calls that were counted since the trace or the step began.
    static COUNT: Cell<u32> = const { Cell::new(0) };
    /// Calls that began on this thread.
    static SERIAL: Cell<u32> = const { Cell::new(0) };
    /// Of the call with this serial number: primitives that were counted, and whether one stands for the call.
    static PRIMITIVES: Cell<(u32, u32, bool)> = const { Cell::new((0, 0, false)) };
}

/// Whether ops run at once and nobody looks at them.
#[inline(always)]
pub(crate) fn is_plain() -> bool {
    WAY.get() == 0
}

/// The id of the innermost trace; 0 for none.
#[inline]
pub(crate) fn tracing() -> u64 {
    WAY.get() & !OBSERVED
}

/// Ops of this thread look at what is recorded from now on.
pub(crate) fn observe() {
    WAY.set(WAY.get() | OBSERVED);
}

/// What is on, if ops of this thread are observed. Where nothing is on any more, they are plain again.
#[inline]
pub(crate) fn observed() -> Option<switch::On> {
    let on = switch::on();
    if switch::is_off() {
        WAY.set(WAY.get() & !OBSERVED);
        return None;
    }
    Some(on)
}

/// Runs `body` with ops of this thread recorded under the id of a trace. With `anew`, calls are counted from 1 in it.
pub(crate) fn trace<R>(id: u64, anew: bool, body: impl FnOnce() -> R) -> R {
    struct Restore {
        id: u64,
        count: Option<u32>,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            WAY.set(WAY.get() & OBSERVED | self.id);
            if let Some(count) = self.count {
                COUNT.set(count);
            }
        }
    }
    let _restore = Restore {
        id: tracing(),
        count: anew.then(|| COUNT.replace(0)),
    };
    WAY.set(WAY.get() & OBSERVED | id);
    body()
}

/// A call begins, or the way back through one.
pub(crate) fn begin() {
    SERIAL.set(SERIAL.get().wrapping_add(1));
}

/// Notes a call of an op that began at `start` and ends now.
#[inline]
pub(crate) fn note(on: switch::On, start: u64, call: Call, operands: TextId) {
    ring::push(
        on,
        Event::Op {
            start,
            end: clock::ticks(),
            call,
            operands,
            serial: serial(),
        },
    );
}

/// Tells calls apart that have the same name, such as those of two turns of a loop.
pub(crate) fn serial() -> u32 {
    SERIAL.get()
}

/// The number of the next call, from 1.
pub(crate) fn next() -> u32 {
    begin();
    let next = COUNT.get().wrapping_add(1).max(1);
    COUNT.set(next);
    next
}

/// The number of the next primitive of the call that is under way, from 1. The first that has the call's `own` name has none: 0.
pub(crate) fn primitive(own: bool) -> u32 {
    let (count, found) = match PRIMITIVES.get() {
        (serial, count, found) if serial == self::serial() => (count, found),
        _ => (0, false),
    };
    let next = if own && !found { 0 } else { count + 1 };
    PRIMITIVES.set((serial(), count.max(next), found || own));
    next
}

/// How many calls were counted.
pub(crate) fn count() -> u32 {
    COUNT.get()
}

/// The next call has the number behind `count`: each turn of a loop has the same names.
pub(crate) fn count_from(count: u32) {
    COUNT.set(count);
}

/// A step begins: its calls are counted from 1.
pub(crate) fn restart() {
    COUNT.set(0);
}
