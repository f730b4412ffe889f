//! Whether the indices of a run are inside of their axes.

use super::super::executable::{Executable, Values};
use super::super::read;
use super::calls;
use super::first::unravelled;
use super::flags::joined;
use super::{Recipe, Run};
use crate::context::Context;
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::error::{Error, IndexError, Result};
use crate::graph::{Graph, NodeId, Op};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::types::element::Element;
use crate::types::shape::{Axes, Shape};
use std::sync::{Arc, OnceLock};

/// The program with a flag for each list of indices as its last output; `None` where it is given no indices.
pub(super) type State = OnceLock<Option<Arc<Checked>>>;

pub(super) struct Checked {
    executable: Executable,
    /// Nodes of the graph before rewriting, in the order of the flags, which is that of the calls.
    lists: Vec<NodeId>,
}

/// The numbers that a list of indices may hold.
#[derive(Clone, Copy)]
struct Bounds {
    axis: u8,
    low: i64,
    high: i64,
    except: Option<i64>,
}

impl Bounds {
    fn of(op: &Op) -> Option<Bounds> {
        match *op {
            Op::Indices {
                axis,
                low,
                high,
                except,
            } => Some(Bounds {
                axis,
                low,
                high,
                except,
            }),
            _ => None,
        }
    }

    fn has(&self, index: i64) -> bool {
        (self.low..self.high).contains(&index) || self.except == Some(index)
    }

    /// Adds the flag of a list to a graph, as bool of the shape `[1]`.
    fn flag(&self, graph: &mut Graph, list: NodeId) -> Result<NodeId, Refusal> {
        let tag = OpTag {
            op: "check_indices",
            ..OpTag::NONE
        };
        let shape = *graph.shape(list);
        let number = |graph: &mut Graph, number: i64, shape| {
            let (dtype, bits) = (DType::I64, number as u64);
            graph.push(Op::Full { dtype, bits, shape }, &[], tag)
        };
        let low = number(graph, self.low, shape)?;
        let high = number(graph, self.high, shape)?;
        let below = graph.push(Op::Map(ScalarOp::Lt), &[list, low], tag)?;
        let above = graph.push(Op::Map(ScalarOp::Le), &[high, list], tag)?;
        let mut outside = graph.push(Op::Map(ScalarOp::Or), &[below, above], tag)?;
        if let Some(except) = self.except {
            let except = number(graph, except, shape)?;
            let other = graph.push(Op::Map(ScalarOp::Ne), &[list, except], tag)?;
            outside = graph.push(Op::Map(ScalarOp::And), &[outside, other], tag)?;
        }
        let mut count = graph.push(Op::Cast(DType::I64), &[outside], tag)?;
        let axes = Axes::all(shape.len());
        if !axes.is_empty() {
            let op = ReduceOp::Sum;
            count = graph.push(Op::Reduce { op, axes }, &[count], tag)?;
        }
        let zero = number(graph, 0, Shape::SCALAR)?;
        let raised = graph.push(Op::Map(ScalarOp::Ne), &[count, zero], tag)?;
        graph.push(Op::Reshape(Shape::of(&[1])), &[raised], tag)
    }
}

impl Recipe {
    /// Runs the program, unless it is given no indices.
    ///
    /// # Errors
    /// The first call with an index that its axis does not have.
    pub(super) fn check_indices(&self, run: &Run<'_>) -> Result<Option<Values>> {
        let Some(checked) = self.indices_checked(run.context)? else {
            return Ok(None);
        };
        let mut values = run.submit(&checked.executable)?;
        let flags = values
            .pop()
            .ok_or_else(|| Error::from(Refusal::new("the program has no flags")))?;
        let raised = read::download_bytes(flags, OpTag::uncounted("check_indices"))?;
        match raised.iter().position(|&raised| raised != 0) {
            None => Ok(Some(values)),
            Some(at) => Err(Error::Index(Box::new(self.outside(run, checked.lists[at])?))),
        }
    }

    fn indices_checked(&self, context: &Context) -> Result<Option<Arc<Checked>>> {
        if let Some(known) = self.indices.get() {
            return Ok(known.clone());
        }
        let mut lists: Vec<NodeId> = (self.graph.nodes().iter().zip(0..))
            .filter(|(node, _)| Bounds::of(&node.op).is_some() && node.ty.shape.elements() > 0)
            .map(|(_, at)| NodeId(at))
            .collect();
        lists.sort_unstable_by_key(|&list| (calls::order(&self.graph.node(list).tag), list));
        let checked = match lists.is_empty() {
            true => None,
            false => {
                let mut graph = self.graph.without_outputs();
                self.graph
                    .outputs()
                    .iter()
                    .for_each(|&output| graph.output(output));
                let flags: Vec<NodeId> = (lists.iter())
                    .filter_map(|&list| Some((list, Bounds::of(&self.graph.node(list).op)?)))
                    .map(|(list, bounds)| bounds.flag(&mut graph, list))
                    .collect::<Result<_, _>>()?;
                let flags = joined(&mut graph, &flags)?;
                graph.output(flags);
                let executable = self.in_place(context, self.executable(context, &graph)?);
                Some(Arc::new(Checked { executable, lists }))
            }
        };
        Ok(self.indices.get_or_init(|| checked).clone())
    }

    /// The error of a list that holds an index which its axis does not have.
    fn outside(&self, run: &Run<'_>, list: NodeId) -> Result<IndexError> {
        let node = self.graph.node(list);
        let changed = || Error::from(Refusal::new("indices changed while they were checked"));
        let bounds = Bounds::of(&node.op).ok_or_else(changed)?;
        let mut values = self.values(run, &[list])?;
        let value = values.pop().ok_or_else(changed)?;
        let tag = run.tag.unwrap_or(node.tag);
        let numbers = <i64 as Element>::from_raw(read::download(value, tag)?);
        let outside = |index: &i64| !bounds.has(*index);
        let at = numbers.iter().position(outside).ok_or_else(changed)?;
        Ok(IndexError {
            op: tag.op.to_owned(),
            name: tag.name(),
            scope: tag.scope.path().to_string(),
            location: tag.location(),
            device: run.context.device().target().to_owned(),
            value: numbers[at],
            at: unravelled(at, &node.ty.shape),
            shape: node.ty.shape.to_vec(),
            count: numbers.iter().filter(|index| outside(index)).count(),
            axis: usize::from(bounds.axis),
            low: bounds.low,
            high: bounds.high,
            except: bounds.except,
        })
    }
}
