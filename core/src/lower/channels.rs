//! Which values lie with their channels last: neighbours in memory are the channels of one place of an image.

use super::Lowering;
use crate::graph::{Graph, NodeId, Op, view_layout};
use crate::hal::DType;
use crate::types::layout::Layout;
use crate::types::shape::{Axes, Shape};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};

/// Least channels of a convolution's result, and what divides their number: others leave lanes of vectors empty.
const LEAST: usize = 16;
const STEP: usize = 16;
/// What divides it where the lanes are few beside what copies cost: of layers with a group for each channel, and of those with one tap that
/// narrow at least so many channels.
const FEW: usize = 8;
const NARROWED: usize = 32;

/// What a use of a value says about where its channels should be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It is as good with the channels last.
    Takes,
    /// It writes a value with the channels first, and reads either.
    Reads,
    /// It would need a copy.
    Refuses,
}

/// The nodes whose values have their channels last, and how they lie: results of wide convolutions, and maps of such values and
/// reductions of their windows, as far as no use of a value refuses it and one takes it. Outputs keep their channels first, and so does
/// all of a graph with gradients of convolutions.
pub(super) fn last(lowering: &Lowering<'_>) -> HashMap<NodeId, Layout> {
    let graph = lowering.graph;
    let is_gradient = |op: &Op| matches!(op, Op::ConvGradInput(..) | Op::ConvGradWeight(..));
    if graph.nodes().iter().any(|node| is_gradient(&node.op)) {
        return HashMap::new();
    }
    let mut search = Search::new(lowering);
    let mut asked: BTreeSet<NodeId> = search.last.keys().copied().collect();
    while let Some(id) = asked.pop_last() {
        if search.last.contains_key(&id) && !search.stays(id) {
            asked.extend(search.last.remove(&id).unwrap_or_default());
        }
    }
    let layout = |id: NodeId| Some((id, channels_last(graph.shape(id))?));
    search.last.into_keys().filter_map(layout).collect()
}

struct Search<'a> {
    lowering: &'a Lowering<'a>,
    /// Those that may have their channels last, each with others that it was made from and that were made from it.
    last: HashMap<NodeId, SmallVec<[NodeId; 4]>>,
}

impl<'a> Search<'a> {
    fn new(lowering: &'a Lowering<'a>) -> Search<'a> {
        let graph = lowering.graph;
        let mut search = Search {
            lowering,
            last: HashMap::new(),
        };
        for (at, node) in graph.nodes().iter().enumerate() {
            let id = NodeId(at as u32);
            if lowering.outputs.contains(&id) || channels_last(&node.ty.shape).is_none() {
                continue;
            }
            let is_known = |of: &NodeId| search.last.contains_key(of);
            let sources: SmallVec<[NodeId; 4]> = match &node.op {
                Op::Map(_) | Op::Cast(_) => node.inputs.iter().copied().filter(is_known).collect(),
                Op::Reduce { axes, .. } => windows_of(graph, node.inputs[0], *axes)
                    .into_iter()
                    .filter(is_known)
                    .collect(),
                _ => SmallVec::new(),
            };
            if sources.is_empty() && !is_wide(lowering, id) {
                continue;
            }
            for source in &sources {
                if let Some(ties) = search.last.get_mut(source) {
                    ties.push(id);
                }
            }
            search.last.insert(id, sources);
        }
        search
    }

    /// Whether a value still has its channels last, after others have not.
    fn stays(&self, id: NodeId) -> bool {
        let graph = self.lowering.graph;
        let made = matches!(graph.node(id).op, Op::Conv(_))
            || self.last[&id]
                .iter()
                .any(|tie| *tie < id && self.last.contains_key(tie));
        let uses = self.uses(id);
        made && uses.contains(&Use::Takes) && !uses.contains(&Use::Refuses)
    }

    fn uses(&self, id: NodeId) -> SmallVec<[Use; 4]> {
        let (graph, users) = (self.lowering.graph, &self.lowering.users);
        let mut uses = SmallVec::new();
        // The value, and views of it.
        let mut rest: Vec<(NodeId, Layout)> = Vec::new();
        rest.extend(channels_last(graph.shape(id)).map(|layout| (id, layout)));
        while let Some((at, layout)) = rest.pop() {
            let is_itself = at == id;
            for &user in &users[at.index()] {
                let node = graph.node(user);
                let view = match &node.op {
                    // Of windows alone, so that no copy is made.
                    Op::Pad { .. } if is_itself && self.is_in_windows(user) => channels_last(&node.ty.shape),
                    op => view_layout(op, &layout, node.ty),
                };
                if let Some(view) = view.filter(|_| !self.lowering.outputs.contains(&user)) {
                    rest.push((user, view));
                    continue;
                }
                let follows = self.last.contains_key(&user) || channels_last(&node.ty.shape).is_none();
                uses.push(match &node.op {
                    Op::Conv(_) if is_itself && takes(self.lowering, user) && node.inputs[1] != id => {
                        Use::Takes
                    }
                    Op::Map(_) | Op::Cast(_) if is_itself && follows => Use::Takes,
                    Op::Map(_) | Op::Cast(_) if is_itself => Use::Reads,
                    Op::Reduce { axes, .. } if windows_of(graph, at, *axes).is_some() && !follows => {
                        Use::Reads
                    }
                    Op::Reduce { axes, .. } if walks(&layout, *axes) => Use::Takes,
                    _ => Use::Refuses,
                });
            }
        }
        uses
    }

    fn is_in_windows(&self, padded: NodeId) -> bool {
        let is_window = |user: &NodeId| matches!(self.lowering.graph.node(*user).op, Op::Window { .. });
        !self.lowering.outputs.contains(&padded) && self.lowering.users[padded.index()].iter().all(is_window)
    }
}

/// The layout of images with their channels last, where that is another one than with their channels first.
fn channels_last(shape: &Shape) -> Option<Layout> {
    let [_, channels, height, width] = **shape else {
        return None;
    };
    let strides = [channels * height * width, 1, channels * width, channels];
    let layout = Layout::strided(*shape, &strides.map(|stride| stride as i64), 0);
    (!layout.is_contiguous()).then_some(layout)
}

/// Whether a node is a convolution of images, without groups or with one for each channel, whose channels fill vectors, and of f32 or of
/// bytes if the device computes these fastest with the channels last.
fn is_wide(lowering: &Lowering<'_>, id: NodeId) -> bool {
    let node = lowering.graph.node(id);
    let Op::Conv(attributes) = &node.op else {
        return false;
    };
    let channels = node.ty.shape[1];
    let [x, taps] = [0, 1].map(|operand| lowering.graph.shape(node.inputs[operand]));
    let narrows =
        taps.iter().skip(2).all(|&extent| extent == 1) && x[1] >= NARROWED && suits(lowering, id, x[1], STEP);
    let step = match attributes.groups > 1 || narrows {
        true => FEW,
        false => STEP,
    };
    suits(lowering, id, channels, step)
}

/// Whether it is one that reads channels that fill vectors: a narrow one too, but it writes its own channels first.
fn takes(lowering: &Lowering<'_>, id: NodeId) -> bool {
    let inputs = &lowering.graph.node(id).inputs;
    is_wide(lowering, id) || suits(lowering, id, lowering.graph.shape(inputs[0])[1], FEW)
}

fn suits(lowering: &Lowering<'_>, id: NodeId, channels: usize, step: usize) -> bool {
    let graph = lowering.graph;
    let node = graph.node(id);
    let Op::Conv(attributes) = &node.op else {
        return false;
    };
    let dtypes = [node.inputs[0], node.inputs[1], id].map(|id| graph.dtype(id));
    let singles = [DType::F32, DType::F32, DType::F32];
    let suit = matches!(dtypes, [DType::U8, DType::I8, DType::I32]) || dtypes == singles;
    let [of_x, of_y] = [node.inputs[0], id].map(|id| graph.shape(id).get(1).copied());
    let by_channel = [of_x, of_y] == [Some(attributes.groups); 2];
    (attributes.groups == 1 || (by_channel && dtypes == singles))
        && node.ty.shape.len() == 4
        && channels >= LEAST
        && channels.is_multiple_of(step)
        && suit
        && lowering.support.channels_last(dtypes[0])
}

/// What lies under windows that are reduced, padded or not.
fn windows_of(graph: &Graph, operand: NodeId, axes: Axes) -> Option<NodeId> {
    let mut at = operand;
    while let Op::Window { .. } = graph.node(at).op {
        at = graph.node(at).inputs[0];
    }
    let places = (graph.shape(at).len(), graph.shape(operand).len());
    if at == operand || !axes.iter().eq(places.0..places.1) {
        return None;
    }
    Some(match graph.node(at).op {
        Op::Pad { .. } => graph.node(at).inputs[0],
        _ => at,
    })
}

/// Whether a reduction walks memory in one direction: along the channels alone, or beside them.
fn walks(layout: &Layout, axes: Axes) -> bool {
    let reduced = || axes.iter().filter(|&axis| layout.shape[axis] != 1);
    let is_channel = |axis: usize| layout.strides()[axis] == 1;
    reduced().all(is_channel) || !reduced().any(is_channel)
}
