//! Ops that were recorded and not run.

use super::Tensor;
use super::tag::OpTag;
use crate::context::Context;
use crate::graph::{Op, Type};
use smallvec::SmallVec;
use std::cell::Cell;

/// A recorded op. [`Op::Input`] is a placeholder of the trace with the id `trace`.
pub(crate) struct Lazy {
    pub(crate) op: Op,
    pub(crate) inputs: SmallVec<[Tensor; 3]>,
    pub(crate) ty: Type,
    pub(crate) tag: OpTag,
    pub(crate) context: Option<Context>,
    /// The innermost trace whose placeholder it depends on; 0 for none.
    pub(crate) trace: u64,
}

impl Drop for Lazy {
    /// Long chains end without recursion.
    fn drop(&mut self) {
        let mut rest: Vec<Tensor> = self.inputs.drain(..).collect();
        while let Some(mut tensor) = rest.pop() {
            if let super::Repr::Lazy(lazy) = &mut tensor.repr
                && let Some(lazy) = std::sync::Arc::get_mut(lazy)
            {
                rest.extend(lazy.inputs.drain(..));
            }
        }
    }
}

thread_local! {
    static TRACE: Cell<u64> = const { Cell::new(0) };
}

/// Whether ops on this thread are recorded: the id of the innermost trace, or 0.
pub(crate) fn tracing() -> u64 {
    TRACE.get()
}

/// Runs `body` with every op on this thread recorded under a new trace id.
pub(crate) fn trace<R>(body: impl FnOnce(u64) -> R) -> R {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRACE.set(self.0);
        }
    }
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let _restore = Restore(TRACE.replace(id));
    body(id)
}
