//! Values that are watched: who watches, and how the values come to them.

use super::super::executable::Executable;
use super::calls::calls;
use super::statistics::{self, Statistics};
use super::{Recipe, Run};
use crate::context::Context;
use crate::error::Result;
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::graph::{NodeId, Type};
use crate::record::values::Looking;
use crate::value::{Repr, Tensor};
use parking_lot::RwLock;
use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;

/// All that is watched.
static WATCHERS: RwLock<Vec<Arc<Watcher>>> = RwLock::new(Vec::new());

/// Lists of watched values that are kept with a program.
const LISTS: usize = 4;

thread_local! {
    /// Whether a watcher is called on this thread, whose own ops are not watched.
    static DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// What a call is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// What the user wrote.
    Forward,
    /// The gradient of it.
    Gradient,
    /// What changes parameters.
    Update,
}

/// Which value of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Port {
    /// What it was given, from 0; constants are not counted.
    Input(usize),
    /// What it returns, from 0.
    Output(usize),
}

/// A call of an op.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallInfo {
    /// `Default/head/log-op3`.
    pub name: String,
    /// The op that the user called.
    pub op: &'static str,
    /// The part of the network: `Default/head`; `Gradients/Default/head` for the gradients of what it computes.
    pub scope: String,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
    /// Number of the call in its trace or step, from 1; 0 where nobody counted.
    pub number: u32,
    /// What it is a part of.
    pub phase: Phase,
}

impl CallInfo {
    fn of(tag: OpTag) -> CallInfo {
        CallInfo {
            name: tag.name(),
            op: tag.op,
            scope: tag.scope.path().to_string(),
            location: tag.location,
            number: tag.call,
            phase: match tag.scope {
                scope if scope.is_gradients() => Phase::Gradient,
                scope if scope.is_update() => Phase::Update,
                _ => Phase::Forward,
            },
        }
    }
}

/// A value that is watched.
#[derive(Debug)]
pub struct Watched<'a> {
    call: &'a CallInfo,
    port: Port,
    ty: Type,
    seen: Seen,
    figures: bool,
}

#[derive(Debug)]
enum Seen {
    Tensor(Tensor),
    Figures(Statistics),
}

impl Watched<'_> {
    /// The call of the op.
    pub fn call(&self) -> &CallInfo {
        self.call
    }

    /// Which value of the call.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Its element type.
    pub fn dtype(&self) -> crate::hal::DType {
        self.ty.dtype
    }

    /// Its extents.
    pub fn shape(&self) -> crate::types::shape::Shape {
        self.ty.shape
    }

    /// The value, bit for bit; `None` where statistics alone were asked for.
    pub fn tensor(&self) -> Option<&Tensor> {
        match &self.seen {
            Seen::Tensor(tensor) if !self.figures => Some(tensor),
            Seen::Tensor(_) | Seen::Figures(_) => None,
        }
    }

    /// Its figures, computed on the device. Waits for them.
    ///
    /// # Errors
    /// Of the device.
    pub fn statistics(&self) -> Result<Statistics> {
        match &self.seen {
            Seen::Figures(figures) => Ok(*figures),
            Seen::Tensor(Tensor {
                repr: Repr::Value(value),
                ..
            }) => Statistics::of(value),
            Seen::Tensor(_) => Err(Refusal::new("a watched value is none").into()),
        }
    }
}

/// What is delivered of a call that is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) inputs: bool,
    pub(crate) outputs: bool,
    /// Figures instead of values.
    pub(crate) statistics: bool,
    /// Bytes of values that are kept at once.
    pub(crate) memory_limit: u64,
}

/// Whom values are delivered to.
type Sink = Box<dyn Fn(&Watched<'_>) + Send + Sync>;
type Wants = Box<dyn Fn(&CallInfo) -> bool + Send + Sync>;

pub(super) struct Watcher {
    context: Context,
    wants: Wants,
    mode: Mode,
    sink: Sink,
}

/// Watches until it is dropped.
pub(crate) struct Begun {
    watcher: Arc<Watcher>,
    _looking: Looking,
}

/// Delivers the values of calls that `wants`, in a context.
pub(crate) fn begin(context: &Context, wants: Wants, mode: Mode, sink: Sink) -> Begun {
    let context = context.clone();
    let watcher = Arc::new(Watcher {
        context,
        wants,
        mode,
        sink,
    });
    WATCHERS.write().push(Arc::clone(&watcher));
    Begun {
        watcher,
        _looking: Looking::begin(),
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        WATCHERS
            .write()
            .retain(|known| !Arc::ptr_eq(known, &self.watcher));
    }
}

/// Who watches a context.
pub(super) fn of(context: &Context) -> Vec<Arc<Watcher>> {
    let watchers = WATCHERS.read();
    let own = watchers.iter().filter(|watcher| watcher.context.is(context));
    own.cloned().collect()
}

/// Whether a watcher is called on this thread.
pub(super) fn is_delivering() -> bool {
    DELIVERING.get()
}

/// Calls a watcher, whose own ops are not watched.
fn deliver(watcher: &Watcher, watched: &Watched<'_>) {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            DELIVERING.set(false);
        }
    }
    DELIVERING.set(true);
    let _restore = Restore;
    (watcher.sink)(watched);
}

/// A value to deliver.
struct Point {
    node: NodeId,
    call: usize,
    port: Port,
    /// Who wants it, by number.
    watchers: Vec<usize>,
    /// Figures alone.
    figures: bool,
}

/// What programs for a list of watched values depend on: the values, and how many bytes of them are kept at once.
type List = (Vec<(NodeId, bool)>, u64);

/// Executables whose outputs are watched values.
pub(super) struct Passes {
    list: List,
    /// Each with the number of points that it delivers.
    passes: Vec<(Executable, usize)>,
}

impl Recipe {
    /// Computes what is watched, and delivers it in the order of calls.
    pub(super) fn watch(&self, run: &Run<'_>, watchers: &[Arc<Watcher>]) -> Result<()> {
        let (infos, points) = self.points(run.tag, watchers);
        if points.is_empty() {
            return Ok(());
        }
        let limit = watchers.iter().map(|watcher| watcher.mode.memory_limit).min();
        let list = points.iter().map(|point| (point.node, point.figures)).collect();
        let passes = self.passes(run.context, (list, limit.unwrap_or(0)))?;
        let mut rest = points.as_slice();
        for (executable, count) in &passes.passes {
            let (now, later) = rest.split_at(*count);
            rest = later;
            let mut values = run.submit(executable)?.into_iter();
            for point in now {
                let ty = self.graph.node(point.node).ty;
                let seen = match point.figures {
                    true => Seen::Figures(Statistics::read(
                        ty.shape.elements(),
                        values.by_ref().take(2).collect(),
                    )?),
                    false => match values.next() {
                        Some(value) => Seen::Tensor(Tensor::from_value(value)),
                        None => return Err(Refusal::new("a watched value is missing").into()),
                    },
                };
                let mut watched = Watched {
                    call: &infos[point.call],
                    port: point.port,
                    ty,
                    seen,
                    figures: false,
                };
                for &at in &point.watchers {
                    watched.figures = watchers[at].mode.statistics;
                    deliver(&watchers[at], &watched);
                }
            }
        }
        Ok(())
    }

    /// The calls that somebody wants, and their values.
    fn points(&self, tag: Option<OpTag>, watchers: &[Arc<Watcher>]) -> (Vec<CallInfo>, Vec<Point>) {
        let (mut infos, mut points) = (Vec::new(), Vec::new());
        for call in calls(&self.graph, &self.given, tag) {
            // What the way back computes again was delivered on the way forward.
            if self.how.again && !call.tag.is_gradient() {
                continue;
            }
            let info = CallInfo::of(call.tag);
            let wanted: Vec<usize> = (0..watchers.len())
                .filter(|&at| (watchers[at].wants)(&info))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let inputs = (0..)
                .zip(&call.operands)
                .map(|(at, &node)| (Port::Input(at), node));
            let outputs = (0..)
                .zip(&call.results)
                .map(|(at, &node)| (Port::Output(at), node));
            for (port, node) in inputs.chain(outputs) {
                let watchers_of: Vec<usize> = (wanted.iter().copied())
                    .filter(|&at| match port {
                        Port::Input(_) => watchers[at].mode.inputs,
                        Port::Output(_) => watchers[at].mode.outputs,
                    })
                    .collect();
                if !watchers_of.is_empty() {
                    points.push(Point {
                        node,
                        call: infos.len(),
                        port,
                        figures: watchers_of.iter().all(|&at| watchers[at].mode.statistics),
                        watchers: watchers_of,
                    });
                }
            }
            infos.push(info);
        }
        (infos, points)
    }

    fn passes(&self, context: &Context, list: List) -> Result<Arc<Passes>> {
        if let Some(known) = self.watched.lock().iter().find(|known| known.list == list) {
            return Ok(Arc::clone(known));
        }
        let mut passes = Vec::new();
        let mut rest = list.0.as_slice();
        while !rest.is_empty() {
            let count = self.fitting(rest, list.1);
            let (now, later) = rest.split_at(count);
            rest = later;
            let mut graph = self.graph.without_outputs();
            for &(node, figures) in now {
                let outputs = match figures {
                    true => statistics::add(&mut graph, node)?.to_vec(),
                    false => vec![node],
                };
                outputs.into_iter().for_each(|output| graph.output(output));
            }
            passes.push((self.executable(context, &graph)?, count));
        }
        let passes = Arc::new(Passes { list, passes });
        let mut watched = self.watched.lock();
        let keep = watched.len().min(LISTS - 1);
        let old = watched.split_off(keep);
        watched.insert(0, Arc::clone(&passes));
        drop(watched);
        drop(old);
        Ok(passes)
    }

    /// How many of the first values fit into `limit` bytes; at least one.
    fn fitting(&self, list: &[(NodeId, bool)], limit: u64) -> usize {
        let mut bytes = 0_u64;
        let fits = |&(node, figures): &(NodeId, bool)| {
            let ty = self.graph.node(node).ty;
            let own = ty.shape.elements() as u64 * ty.dtype.size() as u64;
            bytes = bytes.saturating_add(if figures { 0 } else { own });
            bytes <= limit
        };
        list.iter().map(fits).take_while(|fits| *fits).count().max(1)
    }
}
