//! Seeing values while they are computed.

use crate::context::Context;
use crate::exec::values::{self, Asked, Begun, Mode, Watched};
use crate::types::call::{CallInfo, Phase};
use std::fmt;
use std::sync::Arc;

/// Bytes of values that are kept at once unless something else is said.
const MEMORY_LIMIT: u64 = 256 << 20;

type Wants = Arc<dyn Fn(&CallInfo) -> bool + Send + Sync>;

/// Which values are watched: those of calls that it selects. It begins with one condition, and [`and`](Selector::and),
/// [`or`](Selector::or) and [`not`](Selector::not) make others of it.
#[derive(Clone)]
pub struct Selector {
    wants: Wants,
    mode: Mode,
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Selector {
    /// Calls for which `wants` holds.
    pub fn by(wants: impl Fn(&CallInfo) -> bool + Send + Sync + 'static) -> Selector {
        Selector {
            wants: Arc::new(wants),
            mode: Mode {
                inputs: false,
                outputs: true,
                values: true,
                figures: false,
                memory_limit: MEMORY_LIMIT,
            },
        }
    }

    /// Every call.
    pub fn all() -> Selector {
        Selector::by(|_| true)
    }

    /// Calls of an op: `exp`.
    pub fn op(op: impl Into<String>) -> Selector {
        let op = op.into();
        Selector::by(move |call| call.op == op)
    }

    /// The call of a name: `Default/head/exp-op3`.
    pub fn name(name: impl Into<String>) -> Selector {
        let name = name.into();
        Selector::by(move |call| call.name == name)
    }

    /// Calls in a part of the network and in its parts: `Default/head`, or `Gradients` for all gradients.
    pub fn scope(scope: impl Into<String>) -> Selector {
        let scope = scope.into();
        Selector::by(move |call| {
            let rest = call.scope.strip_prefix(scope.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Calls of a phase.
    pub fn phase(phase: Phase) -> Selector {
        Selector::by(move |call| call.phase == phase)
    }

    /// Calls that both select.
    #[must_use]
    pub fn and(self, other: Selector) -> Selector {
        let (one, other) = (self.wants, other.wants);
        Selector {
            wants: Arc::new(move |call| one(call) && other(call)),
            mode: self.mode,
        }
    }

    /// Calls that either selects.
    #[must_use]
    pub fn or(self, other: Selector) -> Selector {
        let (one, other) = (self.wants, other.wants);
        Selector {
            wants: Arc::new(move |call| one(call) || other(call)),
            mode: self.mode,
        }
    }

    /// Calls that it did not select.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "`!` on a selector would read worse in a chain"
    )]
    pub fn not(self) -> Selector {
        let wants = self.wants;
        Selector {
            wants: Arc::new(move |call| !wants(call)),
            mode: self.mode,
        }
    }

    /// What calls are given, beside what they return.
    #[must_use]
    pub fn with_inputs(mut self) -> Selector {
        self.mode.inputs = true;
        self
    }

    /// What calls are given alone.
    #[must_use]
    pub fn inputs_only(mut self) -> Selector {
        (self.mode.inputs, self.mode.outputs) = (true, false);
        self
    }

    /// Figures of values, computed on the device, instead of the values.
    #[must_use]
    pub fn statistics(mut self) -> Selector {
        (self.mode.values, self.mode.figures) = (false, true);
        self
    }

    /// Keeps at most about so many bytes of values at once, 256 MiB unless changed. What needs more is computed in several passes,
    /// each from the inputs of the function.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Selector {
        self.mode.memory_limit = bytes;
        self
    }
}

/// Watches until it is dropped: see [`Context::watch`].
#[must_use = "values are watched until this is dropped"]
pub struct Watch {
    _begun: Begun,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Context {
    /// Calls `sink` with the values that `selector` selects, whenever this context computes them, until the result is dropped. They
    /// are the exact values of eager ops, recorded graphs and compiled functions. Watching changes no bit of any result.
    ///
    /// A loop delivers each turn, a branch the one that is taken, a checkpoint its first pass. Values come in the order of calls, on the
    /// thread that runs them. A value is the result of a call: what an op is made of inside, and views, are none. Eager code
    /// delivers each program that it runs, and a few ops and most gradients are several programs there. What `sink` itself computes is not watched.
    ///
    /// A function that is watched is computed once more for it, in an executable of its own.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use thalweg::{Context, Tensor, jit, observe::Selector};
    /// let cx = Context::new("cpu")?;
    /// let energy = jit(|x: &Tensor| (x.exp() * 2.0).sum());
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let sink = Arc::clone(&seen);
    /// let watch = cx.watch(Selector::op("exp"), move |value| {
    ///     let figures = value.statistics().unwrap();
    ///     sink.lock().unwrap().push((value.call().name.clone(), figures.max));
    /// });
    /// energy.call(&Tensor::from_slice(&[0.0_f32, -1.0], 2, &cx)).item::<f32>()?;
    /// drop(watch);
    /// assert_eq!(*seen.lock().unwrap(), [("Default/exp-op1".to_owned(), 1.0)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn watch(&self, selector: Selector, sink: impl Fn(&Watched<'_>) + Send + Sync + 'static) -> Watch {
        let Selector { wants, mode } = selector;
        let wants = Box::new(move |_: &Asked<'_>, call: &CallInfo| wants(call));
        Watch {
            _begun: values::begin(self, wants, mode, Box::new(sink)),
        }
    }
}
