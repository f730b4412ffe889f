//! Ops that were recorded and not run.

use super::{Tensor, Value};
use crate::context::Context;
use crate::error::tag::OpTag;
use crate::graph::{Op, Type};
use crate::record::calls;
use parking_lot::{RwLock, RwLockReadGuard};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

/// A recorded op. [`Op::Input`] is a placeholder of the trace with the id `trace`.
pub(crate) struct Lazy {
    pub(crate) op: Op,
    // Emptied when the value is there.
    inputs: RwLock<SmallVec<[Tensor; 3]>>,
    value: OnceLock<Value>,
    pub(crate) ty: Type,
    pub(crate) tag: OpTag,
    pub(crate) context: Option<Context>,
    /// The innermost trace whose placeholder it depends on; 0 for none.
    pub(crate) trace: u64,
}

impl Lazy {
    pub(crate) fn new(
        op: Op,
        inputs: SmallVec<[Tensor; 3]>,
        ty: Type,
        tag: OpTag,
        context: Option<Context>,
        trace: u64,
    ) -> Lazy {
        Lazy {
            op,
            inputs: RwLock::new(inputs),
            value: OnceLock::new(),
            ty,
            tag,
            context,
            trace,
        }
    }

    /// The operands, unless it has a [`value`](Lazy::value); that is settled while the guard is held.
    pub(crate) fn inputs(&self) -> RwLockReadGuard<'_, SmallVec<[Tensor; 3]>> {
        self.inputs.read()
    }

    /// Its value, once it was evaluated.
    pub(crate) fn value(&self) -> Option<&Value> {
        self.value.get()
    }

    /// Remembers the value and lets go of the operands.
    pub(crate) fn set_value(&self, value: Value) {
        // Where another thread was first, the values are the same.
        let _ = self.value.set(value);
        let inputs = std::mem::take(&mut *self.inputs.write());
        drop_chain(inputs.into_iter().collect());
    }
}

/// Long chains end without recursion.
fn drop_chain(mut rest: Vec<Tensor>) {
    while let Some(mut tensor) = rest.pop() {
        if let super::Repr::Lazy(lazy) = &mut tensor.repr
            && let Some(lazy) = std::sync::Arc::get_mut(lazy)
        {
            rest.extend(lazy.inputs.get_mut().drain(..));
        }
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        drop_chain(self.inputs.get_mut().drain(..).collect());
    }
}

thread_local! {
    static BODY: Cell<bool> = const { Cell::new(false) };
    /// What the innermost trace does beside computing, in the order of calls. It is empty outside of traces, and what needs no drop can
    /// be reached until a thread is gone: ops run in destructors of its other values.
    static EFFECTS: RefCell<ManuallyDrop<Vec<Tensor>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Records what the innermost trace does beside computing: an op of the host that nobody has to use. The result is its token.
pub(crate) fn record_effect(
    op: Op,
    inputs: &[&Tensor],
    ty: Type,
    tag: OpTag,
    context: Option<Context>,
) -> Tensor {
    let inputs = operands(inputs);
    let token = Tensor::from_lazy(Lazy::new(op, inputs, ty, tag, context, tracing()));
    EFFECTS.with_borrow_mut(|effects| effects.push(token.clone()));
    token
}

/// The effects of the innermost trace so far, which forgets them.
pub(crate) fn take_effects() -> Vec<Tensor> {
    ManuallyDrop::into_inner(EFFECTS.take())
}

/// Operands as a recorded op keeps them.
pub(crate) fn operands(inputs: &[&Tensor]) -> SmallVec<[Tensor; 3]> {
    let kept = |&input: &&Tensor| Tensor {
        history: input.history.clone().filter(|_| in_body()),
        repr: input.repr.clone(),
    };
    inputs.iter().map(kept).collect()
}

/// Runs `body` as a trace with effects of its own.
fn with_effects<R>(body: impl FnOnce() -> R) -> R {
    struct Restore(Vec<Tensor>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let own = EFFECTS.replace(ManuallyDrop::new(std::mem::take(&mut self.0)));
            // What they hold may call a backend.
            drop(ManuallyDrop::into_inner(own));
        }
    }
    let _restore = Restore(take_effects());
    body()
}

pub(crate) use calls::tracing;

fn next() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Runs `body` with every op on this thread recorded under a new trace id. Calls are counted from 1.
pub(crate) fn trace<R>(body: impl FnOnce(u64) -> R) -> R {
    let id = next();
    calls::trace(id, true, || with_effects(|| OpTag::counting(|| body(id))))
}

/// Whether the body of a loop or a branch is traced: then recorded ops keep their operands' histories, since gradients flow to
/// what a body captures.
pub(crate) fn in_body() -> bool {
    BODY.get()
}

/// As [`trace`], for the body of a loop or a branch, whose calls are counted with those around it.
pub(crate) fn trace_body<R>(body: impl FnOnce(u64) -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            BODY.set(self.0);
        }
    }
    let _restore = Restore(BODY.replace(true));
    let id = next();
    calls::trace(id, false, || with_effects(|| OpTag::counting(|| body(id))))
}
