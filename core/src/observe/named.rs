//! What users name: parts of a network, stretches and points of time, figures.

use crate::record::{self, recording::SpanKind};
use crate::record::{calls, scope as scopes, span as spans};

/// While it lives, calls of ops on this thread are in a part of a network: see [`scope`].
#[must_use = "the scope ends when this is dropped"]
#[derive(Debug)]
pub struct Scope {
    _entered: scopes::Entered,
}

impl Scope {
    pub(super) fn of(entered: scopes::Entered) -> Scope {
        Scope { _entered: entered }
    }
}

/// Calls of ops are in a part of the network by this name, below the part that they were in, until the result is dropped. Points
/// in the name make parts of parts. Layers of the library need none.
///
/// ```
/// use thalweg::{Context, Tensor, jit, observe};
/// let cx = Context::new("cpu")?;
/// let head = jit(|x: &Tensor| {
///     let _scope = observe::scope("head");
///     x.exp()
/// });
/// let graph = head.graph(&Tensor::from_slice(&[1.0_f32], 1, &cx))?;
/// assert_eq!(graph.nodes()[1].tag.name(), "Default/head/exp-op1");
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn scope(name: &str) -> Scope {
    Scope::of(scopes::enter(scopes::current().child(name)))
}

/// Calls of ops on this thread change the parameter by this name, until the result is dropped: their scope is `Update/conv1/bias`.
/// `None` where nobody wants names.
pub fn update_scope(name: &str) -> Option<Scope> {
    record::parts::is_naming().then(|| Scope::of(scopes::enter(scopes::ScopeId::update(name))))
}

/// A stretch of time that ends when it is dropped: see [`range`].
#[must_use = "the stretch ends when this is dropped"]
#[derive(Debug)]
pub struct Range {
    _span: spans::Span,
}

/// A stretch of time on this thread, until the result is dropped. It is recorded if a profile runs from its begin to its end.
///
/// ```
/// use thalweg::observe;
/// let reading = observe::range("read files");
/// // …
/// drop(reading);
/// observe::mark("all files are read");
/// observe::counter("files", 12.0);
/// ```
pub fn range(name: &str) -> Range {
    span(SpanKind::Range, name, 0)
}

/// As [`range`], of a kind that readers know: epochs and steps with their number, which counts from 1.
pub fn span(kind: SpanKind, name: &str, number: u64) -> Range {
    Range {
        _span: spans::begin(kind, name, number),
    }
}

/// A part of a step that runs op by op: forward, backward or update. `None` while ops are traced, whose scopes say that, and while
/// nothing is recorded.
pub fn phase(kind: SpanKind) -> Option<Range> {
    spans::phase(kind).map(|span| Range { _span: span })
}

/// A point in time.
pub fn mark(name: &str) {
    spans::mark(name);
}

/// The value of a figure from now on.
pub fn counter(name: &str, value: f64) {
    spans::counter(name, value);
}

/// A step begins on this thread: its calls of ops are counted from 1, so that they have the same names in every step.
pub fn restart_calls() {
    calls::restart();
}
