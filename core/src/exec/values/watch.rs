//! Values that are watched: who watches, and how the values come to them.

use super::super::executable::{Arg, Executable};
use super::calls::{Call, calls};
use super::dump;
use super::statistics;
use super::{Recipe, Run};
use crate::context::Context;
use crate::error::Result;
use crate::error::failure::Refusal;
use crate::graph::{NodeId, Op, Type};
use crate::record::values::Looking;
use crate::types::call::{CallInfo, Port};
use crate::types::statistics::Statistics;
use crate::value::{Repr, Tensor, Value};
use parking_lot::RwLock;
use std::cell::Cell;
use std::sync::Arc;

/// All that is watched.
static WATCHERS: RwLock<Vec<Arc<Watcher>>> = RwLock::new(Vec::new());

/// Lists of watched values that are kept with a program.
const LISTS: usize = 4;

thread_local! {
    /// Whether a watcher is called on this thread, whose own ops are not watched.
    static DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// What is known of a call that may be watched, beside its names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(super) context: &'a Context,
    /// The number of the compiled function; 0 for an op that runs by itself.
    pub(super) graph: u64,
    /// Whether it was given an infinite constant.
    pub(super) infinite: bool,
}

/// A value that is watched.
#[derive(Debug)]
pub struct Watched<'a> {
    call: &'a CallInfo,
    pub(super) asked: Asked<'a>,
    port: Port,
    /// Of a result: whether it is that of a reduction or scatter.
    pub(super) reduced: bool,
    ty: Type,
    tensor: Option<Tensor>,
    figures: Option<Statistics>,
    mode: Mode,
    last: bool,
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
        self.tensor.as_ref().filter(|_| self.mode.values)
    }

    /// Its figures, computed on the device. Waits for them.
    ///
    /// # Errors
    /// Of the device.
    pub fn statistics(&self) -> Result<Statistics> {
        match (&self.figures, &self.tensor) {
            (Some(figures), _) => Ok(*figures),
            (
                None,
                Some(Tensor {
                    repr: Repr::Value(value),
                    ..
                }),
            ) => Statistics::of(value),
            (None, _) => Err(Refusal::new("a watched value is none").into()),
        }
    }

    /// Whether figures were asked for.
    pub(super) fn has_figures(&self) -> bool {
        self.mode.figures
    }

    /// Whether no other value of the call comes to this watcher.
    pub(super) fn is_last(&self) -> bool {
        self.last
    }
}

/// What is delivered of a call that is watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mode {
    pub(crate) inputs: bool,
    pub(crate) outputs: bool,
    pub(crate) values: bool,
    pub(crate) figures: bool,
    /// Bytes of values that are kept at once.
    pub(crate) memory_limit: u64,
}

/// Whom values are delivered to.
pub(super) type Sink = Box<dyn Fn(&Watched<'_>) + Send + Sync>;
pub(super) type Wants = Box<dyn Fn(&Asked<'_>, &CallInfo) -> bool + Send + Sync>;

pub(super) struct Watcher {
    /// `None` for all contexts.
    context: Option<Context>,
    wants: Wants,
    mode: Mode,
    sink: Sink,
}

/// Watches until it is dropped.
pub(crate) struct Begun {
    watcher: Arc<Watcher>,
    _looking: Looking,
}

impl Watcher {
    pub(super) fn new(context: Option<Context>, wants: Wants, mode: Mode, sink: Sink) -> Watcher {
        Watcher {
            context,
            wants,
            mode,
            sink,
        }
    }
}

/// Delivers the values of calls that `wants`, in a context.
pub(crate) fn begin(context: &Context, wants: Wants, mode: Mode, sink: Sink) -> Begun {
    let watcher = Arc::new(Watcher::new(Some(context.clone()), wants, mode, sink));
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
    let is_own = |watcher: &Watcher| watcher.context.as_ref().is_none_or(|own| own.is(context));
    let own = watchers.iter().filter(|watcher| is_own(watcher));
    own.chain(dump::lasting()).cloned().collect()
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

/// What is computed of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    value: bool,
    figures: bool,
}

/// A value to deliver.
struct Point {
    node: NodeId,
    call: usize,
    port: Port,
    /// As [`Watched::reduced`].
    reduced: bool,
    /// Who wants it, by number, and whether it is the last of the call for them.
    watchers: Vec<(usize, bool)>,
    parts: Parts,
}

/// What programs for a list of watched values depend on: the values, and how many bytes of them are kept at once.
type List = (Vec<(NodeId, Parts)>, u64);

/// Executables whose outputs are watched values.
pub(super) struct Passes {
    list: List,
    /// Each with the number of points that it delivers.
    passes: Vec<(Executable, usize)>,
}

impl Recipe {
    /// Computes what is watched, and delivers it in the order of calls.
    pub(super) fn watch(&self, run: &Run<'_>, watchers: &[Arc<Watcher>]) -> Result<()> {
        let (infos, points) = self.points(run, watchers);
        if points.is_empty() {
            return Ok(());
        }
        let limit = watchers.iter().map(|watcher| watcher.mode.memory_limit).min();
        let list = points.iter().map(|point| (point.node, point.parts)).collect();
        let passes = self.passes(run.context, (list, limit.unwrap_or(0)))?;
        let mut rest = points.as_slice();
        for (executable, count) in &passes.passes {
            let (now, later) = rest.split_at(*count);
            rest = later;
            let mut values = run.submit(executable)?.into_iter();
            for point in now {
                let (info, asked) = &infos[point.call];
                let mut watched = self.watched(point, info, *asked, &mut values)?;
                for &(at, last) in &point.watchers {
                    (watched.mode, watched.last) = (watchers[at].mode, last);
                    deliver(&watchers[at], &watched);
                }
            }
        }
        Ok(())
    }

    /// The value of a point, from the next outputs of its pass.
    fn watched<'a>(
        &self,
        point: &Point,
        call: &'a CallInfo,
        asked: Asked<'a>,
        values: &mut dyn Iterator<Item = Value>,
    ) -> Result<Watched<'a>> {
        let ty = self.graph.node(point.node).ty;
        let tensor = point.parts.value.then(|| values.next()).flatten();
        let figures = match point.parts.figures {
            true => Some(Statistics::read(ty.shape.elements(), values.take(2).collect())?),
            false => None,
        };
        if point.parts.value && tensor.is_none() {
            return Err(Refusal::new("a watched value is missing").into());
        }
        Ok(Watched {
            call,
            asked,
            port: point.port,
            reduced: point.reduced,
            ty,
            tensor: tensor.map(Tensor::from_value),
            figures,
            mode: Mode::default(),
            last: false,
        })
    }

    /// The calls that somebody wants, and their values.
    fn points<'a>(
        &self,
        run: &Run<'a>,
        watchers: &[Arc<Watcher>],
    ) -> (Vec<(CallInfo, Asked<'a>)>, Vec<Point>) {
        let (mut infos, mut points) = (Vec::new(), Vec::new());
        for mut call in calls(&self.graph, &self.given, run.tag) {
            // What the way back computes again was delivered on the way forward.
            if self.how.again && !call.tag.is_gradient() {
                continue;
            }
            let (info, asked) = (CallInfo::of(call.tag), self.asked(run, &call));
            let wanted: Vec<usize> = (0..watchers.len())
                .filter(|&at| (watchers[at].wants)(&asked, &info))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            self.unite(run, &mut call.operands);
            let first = points.len();
            points.extend(self.points_of(&call, infos.len(), &wanted, watchers));
            // Who gets a value of the call gets one that is the last.
            for at in wanted {
                let own = points[first..]
                    .iter_mut()
                    .rev()
                    .flat_map(|point: &mut Point| &mut point.watchers);
                if let Some((_, last)) = own.into_iter().find(|(watcher, _)| *watcher == at) {
                    *last = true;
                }
            }
            infos.push((info, asked));
        }
        (infos, points)
    }

    /// Leaves one of several operands that are the same tensor: an op that runs by itself has an argument for each.
    fn unite(&self, run: &Run<'_>, operands: &mut Vec<NodeId>) {
        let argument = |id: NodeId| match self.graph.node(id).op {
            Op::Input(at) => match run.args.get(at as usize) {
                Some(Arg::Value(value)) => Some((value.storage.address(), value.layout)),
                Some(Arg::Scalar(_)) | None => None,
            },
            _ => None,
        };
        let mut seen = Vec::new();
        operands.retain(|&id| {
            let known = argument(id);
            let fresh = known.is_none() || !seen.contains(&known);
            seen.push(known);
            fresh
        });
    }

    fn asked<'a>(&self, run: &Run<'a>, call: &Call) -> Asked<'a> {
        Asked {
            context: run.context,
            graph: if run.tag.is_some() { 0 } else { self.number },
            infinite: call
                .constants
                .iter()
                .any(|&id| self.number(run, id).is_infinite()),
        }
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
            for &(node, parts) in now {
                if parts.value {
                    graph.output(node);
                }
                if parts.figures {
                    let figures = statistics::add(&mut graph, node)?;
                    figures.into_iter().for_each(|output| graph.output(output));
                }
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
    fn fitting(&self, list: &[(NodeId, Parts)], limit: u64) -> usize {
        let mut bytes = 0_u64;
        let fits = |&(node, parts): &(NodeId, Parts)| {
            let ty = self.graph.node(node).ty;
            let own = ty.shape.elements() as u64 * ty.dtype.size() as u64;
            bytes = bytes.saturating_add(if parts.value { own } else { 0 });
            bytes <= limit
        };
        list.iter().map(fits).take_while(|fits| *fits).count().max(1)
    }

    /// The values of a call that watchers want, of those that want the call.
    fn points_of(
        &self,
        call: &Call,
        number: usize,
        wanted: &[usize],
        watchers: &[Arc<Watcher>],
    ) -> Vec<Point> {
        let inputs = (0..).zip(&call.operands);
        let inputs = inputs.map(|(at, &node)| (Port::Input(at), node, false));
        let outputs = (0..).zip(&call.results).zip(call.reduced(&self.graph));
        let outputs = outputs.map(|((at, &node), reduced)| (Port::Output(at), node, reduced));
        let mut points = Vec::new();
        for (port, node, reduced) in inputs.chain(outputs) {
            let mode = |at: usize| watchers[at].mode;
            let of: Vec<(usize, bool)> = (wanted.iter().copied())
                .filter(|&at| match port {
                    Port::Input(_) => mode(at).inputs,
                    Port::Output(_) => mode(at).outputs,
                })
                .map(|at| (at, false))
                .collect();
            if !of.is_empty() {
                points.push(Point {
                    node,
                    call: number,
                    port,
                    reduced,
                    parts: Parts {
                        value: of.iter().any(|&(at, _)| mode(at).values),
                        figures: of.iter().any(|&(at, _)| mode(at).figures),
                    },
                    watchers: of,
                });
            }
        }
        points
    }
}
