//! The first op of a run that makes a NaN or an infinity out of numbers.

use super::super::executable::Arg;
use super::super::read;
use super::calls::{Call, calls};
use super::flags::{Mark, flag, joined};
use super::{Recipe, Run, numbers};
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::error::{InputRange, NumericsError};
use crate::graph::{NodeId, Op, Type};
use crate::hal::DType;
use crate::types::scalar::Scalar;
use crate::types::shape::Shape;
use crate::value::Value;

impl Recipe {
    /// The error of the first such op; `None` where everything that is no number comes from outside or from a constant.
    pub(super) fn first(&self, run: &Run<'_>) -> Result<Option<NumericsError>> {
        let calls = calls(&self.graph, &self.given, run.tag);
        let raised = self.raised(run, &calls)?;
        let is = |id: &NodeId| raised[id.index()];
        for call in &calls {
            if call.results.iter().any(is)
                && !call.operands.iter().any(is)
                && let Some(error) = self.judge(run, call)?
            {
                return Ok(Some(error));
            }
        }
        Ok(None)
    }

    /// By node: whether it is an operand or a result of a call, and not finite.
    fn raised(&self, run: &Run<'_>, calls: &[Call]) -> Result<Vec<bool>> {
        let mut asked: Vec<NodeId> = (calls.iter())
            .flat_map(|call| call.operands.iter().chain(&call.results).copied())
            .filter(|&id| {
                let ty = self.graph.node(id).ty;
                ty.dtype.is_float() && ty.shape.elements() > 0
            })
            .collect();
        asked.sort_unstable();
        asked.dedup();
        let mut raised = vec![false; self.graph.nodes().len()];
        if asked.is_empty() {
            return Ok(raised);
        }
        let mut graph = self.graph.without_outputs();
        let flags: Vec<NodeId> = (asked.iter())
            .map(|&id| flag(&mut graph, id, Mark::NotFinite))
            .collect::<Result<_, _>>()?;
        let flags = joined(&mut graph, &flags)?;
        graph.output(flags);
        let values = run.submit(&self.executable(run.context, &graph)?)?;
        for flags in values {
            let found = read::download_bytes(flags, OpTag::uncounted("check_numerics"))?;
            for (id, found) in asked.iter().zip(found) {
                raised[id.index()] = found != 0;
            }
        }
        Ok(raised)
    }

    /// The error of a call with finite operands whose results are not, unless it was given constants like that.
    fn judge(&self, run: &Run<'_>, call: &Call) -> Result<Option<NumericsError>> {
        let nodes: Vec<NodeId> = call.results.iter().chain(&call.operands).copied().collect();
        let mut values = self.values(run, &nodes)?.into_iter().map(Elements::of);
        let results: Vec<Elements> = values.by_ref().take(call.results.len()).collect::<Result<_>>()?;
        let operands: Vec<Elements> = values.collect::<Result<_>>()?;
        let constants: Vec<f64> = (call.constants.iter()).map(|&id| self.number(run, id)).collect();
        if constants.iter().any(|number| number.is_nan()) {
            return Ok(None);
        }
        let infinite = constants.iter().any(|number| number.is_infinite());
        let wrong = |number: &f64| number.is_nan() || !infinite && number.is_infinite();
        let found = (results.iter().enumerate())
            .find_map(|(output, result)| Some((output, result.numbers.iter().position(wrong)?)));
        let Some((output, at)) = found else {
            return Ok(None);
        };
        let result = &results[output];
        let elementwise = call.is_elementwise(&self.graph);
        let inputs = (operands.iter())
            .map(|operand| {
                let place = operand.place(at, &result.ty.shape).filter(|_| elementwise);
                operand.range(place)
            })
            .collect();
        let range = result.range(None);
        Ok(Some(NumericsError {
            op: call.tag.op.to_owned(),
            name: call.tag.name(),
            scope: call.tag.scope.path().to_string(),
            location: call.tag.location(),
            device: run.context.device().target().to_owned(),
            output,
            dtype: result.ty.dtype,
            shape: result.ty.shape.to_vec(),
            index: unravelled(at, &result.ty.shape),
            value: result.numbers[at],
            nan: range.nan,
            infinite: range.infinite,
            inputs,
        }))
    }

    /// A constant.
    pub(super) fn number(&self, run: &Run<'_>, id: NodeId) -> f64 {
        let node = self.graph.node(id);
        let bits = match node.op {
            Op::Full { bits, .. } => bits,
            Op::Input(at) => match run.args.get(at as usize) {
                Some(Arg::Scalar(bits)) => *bits,
                Some(Arg::Value(_)) | None => 0,
            },
            _ => 0,
        };
        number(node.ty.dtype, bits)
    }
}

fn number(dtype: DType, bits: u64) -> f64 {
    Scalar::from_bits(dtype, bits).to_f64()
}

/// A value on the host.
struct Elements {
    ty: Type,
    numbers: Vec<f64>,
}

impl Elements {
    fn of(value: Value) -> Result<Elements> {
        let ty = Type::new(value.layout.shape, value.dtype);
        let numbers = numbers(value)?;
        Ok(Elements { ty, numbers })
    }

    /// The place of the element that the one at `at` of `shape` comes from, where this one expands to it.
    fn place(&self, at: usize, shape: &Shape) -> Option<usize> {
        let new = shape.len().checked_sub(self.ty.shape.len())?;
        let index = unravelled(at, shape);
        let mut place = 0;
        for ((&extent, &full), index) in self.ty.shape.iter().zip(&shape[new..]).zip(&index[new..]) {
            if extent != full && extent != 1 {
                return None;
            }
            place = place * extent + if extent == 1 { 0 } else { *index };
        }
        Some(place)
    }

    fn range(&self, place: Option<usize>) -> InputRange {
        let finite = || self.numbers.iter().copied().filter(|number| number.is_finite());
        let count = finite().count();
        let bounds = finite().fold(None, |bounds: Option<(f64, f64)>, number| match bounds {
            Some((min, max)) => Some((min.min(number), max.max(number))),
            None => Some((number, number)),
        });
        InputRange {
            dtype: self.ty.dtype,
            shape: self.ty.shape.to_vec(),
            element: place.and_then(|place| self.numbers.get(place).copied()),
            bounds,
            mean: finite().sum::<f64>() / count.max(1) as f64,
            nan: self.numbers.iter().filter(|number| number.is_nan()).count(),
            infinite: self.numbers.iter().filter(|number| number.is_infinite()).count(),
        }
    }
}

/// The index of the element at `at` in row-major order.
pub(super) fn unravelled(mut at: usize, shape: &Shape) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, &extent) in shape.iter().enumerate().rev() {
        index[axis] = at % extent.max(1);
        at /= extent.max(1);
    }
    index
}
