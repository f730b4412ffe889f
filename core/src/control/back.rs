//! The way back through loops and branches.

use super::body::{Trace, trace, widen};
use super::record::{emit, replay};
use crate::grad::{add, vjp};
use crate::graph::{Body, Control, Type};
use crate::hal::DType;
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::value::Many;
use std::sync::Arc;

type Gradients = Vec<Option<Tensor>>;

/// The rule of a loop or branch.
pub(super) fn rule(control: Arc<Control>) -> Arc<dyn Fn(&Many<'_>) -> Gradients + Send + Sync> {
    Arc::new(move |many| {
        let gradients = match &*control {
            Control::Repeat { .. } => repeat(&control, many),
            Control::While {
                condition,
                body,
                carries,
            } => unbounded(condition, body, *carries, many),
            Control::Unwind { .. } => Err(Tensor::refused(
                OpTag::uncounted("while_loop"),
                Refusal::new("a traced while_loop has no second derivatives")
                    .help("use fori_loop or scan, or call it outside of jit"),
                &[],
            )),
            Control::Call { body } => call(body, many),
            Control::Cond { then, otherwise } => branch(then, otherwise, many),
            Control::Print { .. } | Control::Inspect { .. } => Ok(vec![None; many.inputs.len()]),
        };
        gradients.unwrap_or_else(|failed| many.inputs.iter().map(|_| Some(failed.clone())).collect())
    })
}

fn zeros(ty: Type) -> Tensor {
    Tensor::constant(ty.shape, ty.dtype, 0)
}

fn ty(tensor: &Tensor) -> Type {
    tensor.ty().unwrap_or(Type::new(Shape::SCALAR, DType::F32))
}

fn refused(refusal: Refusal) -> Tensor {
    Tensor::refused(OpTag::new("gradient"), refusal, &[])
}

fn output_types(body: &Body) -> Vec<Type> {
    body.outputs()
        .iter()
        .map(|&output| body.node(output).ty)
        .collect()
}

/// The gradients of `body`'s inputs at `places`, when its inputs are `full` and its outputs' gradients `seeds`.
fn pull(body: &Body, full: &[Tensor], places: &[usize], seeds: &Vec<Tensor>) -> Vec<Tensor> {
    let variable: Vec<Tensor> = places.iter().map(|&place| full[place].clone()).collect();
    // What it prints was printed on the way forward.
    let body = body.silent();
    let run = |variable: &Vec<Tensor>| {
        let mut full = full.to_vec();
        for (&place, tensor) in places.iter().zip(variable) {
            full[place] = tensor.clone();
        }
        replay(&body, &full)
    };
    // The ops of the body keep their names and lines, as do their gradients.
    OpTag::apart(|| vjp(run, &variable).1.call(seeds))
}

/// The numbers below `count` for which `is`.
fn which(count: usize, is: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..count).filter(|&at| is(at)).collect()
}

/// Takes tensors from the front, group by group.
struct Groups<'a>(&'a [Tensor]);

impl<'a> Groups<'a> {
    fn take(&mut self, count: usize) -> &'a [Tensor] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }
}

/// Gradients of the carries go from turn to turn, and so do the sums of those of captured tensors; those of slices are parts.
fn repeat(control: &Control, many: &Many<'_>) -> Result<Gradients, Tensor> {
    let Control::Repeat {
        body,
        trips,
        start,
        carries,
        slices,
        reverse,
    } = control
    else {
        return Err(refused(Refusal::new("it is no loop")));
    };
    let (trips, carries, slices) = (*trips, *carries, *slices);
    let mut groups = Groups(many.inputs);
    let carried = groups.take(carries);
    let sliced = groups.take(slices);
    let captured = groups.0;
    let floats = which(carries, |at| ty(&carried[at]).dtype.is_float());
    let wanted_slices = which(slices, |at| many.wanted[carries + at]);
    let wanted = which(captured.len(), |at| many.wanted[carries + slices + at]);
    let results = output_types(body);
    let parts: Vec<usize> = which(results.len(), |at| at >= carries && many.gradients[at].is_some());

    let mut operands: Vec<Tensor> = (floats.iter())
        .map(|&at| {
            many.gradients[at]
                .clone()
                .unwrap_or_else(|| zeros(ty(&carried[at])))
        })
        .collect();
    operands.extend(wanted.iter().map(|&at| zeros(ty(&captured[at]))));
    let new_carries = operands.len();
    operands.extend(many.saved.iter().chain(sliced).cloned());
    operands.extend(parts.iter().filter_map(|&at| many.gradients[at].clone()));
    let new_slices = operands.len() - new_carries;
    operands.extend(captured.iter().cloned());

    let first = Axes::one(0);
    let mut types = vec![Type::new(Shape::SCALAR, DType::I64)];
    types.extend(operands.iter().enumerate().map(|(at, operand)| {
        let ty = ty(operand);
        if (new_carries..new_carries + new_slices).contains(&at) {
            Type::new(ty.shape.without(first), ty.dtype)
        } else {
            ty
        }
    }));
    let back = trace(
        types,
        operands.iter().find_map(|operand| operand.context()),
        |inputs| {
            let mut groups = Groups(inputs);
            let index = groups.take(1);
            let gradients = groups.take(floats.len());
            let sums = groups.take(wanted.len());
            let inner = [index, groups.take(carries), groups.take(slices)].concat();
            let given = groups.take(parts.len());
            let full = [inner.as_slice(), groups.0].concat();
            let seeds = (results.iter().enumerate())
                .map(|(at, &ty)| {
                    let carry = floats.iter().position(|&float| float == at && at < carries);
                    let part = parts.iter().position(|&part| part == at);
                    match (carry, part) {
                        (Some(carry), _) => gradients[carry].clone(),
                        (None, Some(part)) => given[part].clone(),
                        (None, None) => zeros(ty),
                    }
                })
                .collect();
            let places: Vec<usize> = (floats.iter().map(|at| 1 + at))
                .chain(wanted.iter().map(|at| 1 + carries + slices + at))
                .chain(wanted_slices.iter().map(|at| 1 + carries + at))
                .collect();
            let mut pulled = pull(body, &full, &places, &seeds);
            for (sum, pulled) in sums.iter().zip(&mut pulled[floats.len()..]) {
                *pulled = add(sum, pulled);
            }
            pulled
        },
    )?;
    let mut extra = Vec::new();
    let graph = back.close(&mut extra).map_err(refused)?;
    operands.extend(extra);
    let control = Control::Repeat {
        body: Body::new(graph),
        trips,
        start: *start,
        carries: new_carries,
        slices: new_slices,
        reverse: !reverse,
    };
    let results = emit(control, &operands, OpTag::new("gradient"))?;
    let mut gradients: Gradients = vec![None; many.inputs.len()];
    let places = (floats.iter().copied())
        .chain(wanted.iter().map(|at| carries + slices + at))
        .chain(wanted_slices.iter().map(|at| carries + at));
    for (place, result) in places.zip(results) {
        gradients[place] = Some(result);
    }
    Ok(gradients)
}

fn unbounded(condition: &Body, body: &Body, carries: usize, many: &Many<'_>) -> Result<Gradients, Tensor> {
    let (carried, captured) = many.inputs.split_at(carries);
    let floats = which(carries, |at| ty(&carried[at]).dtype.is_float());
    let wanted = which(captured.len(), |at| many.wanted[carries + at]);
    let mut sums: Vec<Tensor> = (floats.iter())
        .map(|&at| {
            many.gradients[at]
                .clone()
                .unwrap_or_else(|| zeros(ty(&carried[at])))
        })
        .collect();
    sums.extend(wanted.iter().map(|&at| zeros(ty(&captured[at]))));
    let types: Vec<Type> = sums.iter().chain(many.inputs).map(ty).collect();
    let context = many.inputs.iter().find_map(|input| input.context());
    let back = trace(types, context, |inputs| {
        let mut groups = Groups(inputs);
        let gradients = groups.take(floats.len());
        let sums = groups.take(wanted.len());
        let full = groups.0;
        let seeds = (output_types(body).into_iter().enumerate())
            .map(|(at, ty)| match floats.iter().position(|&float| float == at) {
                Some(float) => gradients[float].clone(),
                None => zeros(ty),
            })
            .collect();
        let places: Vec<usize> = (floats.iter().copied())
            .chain(wanted.iter().map(|at| carries + at))
            .collect();
        let mut pulled = pull(body, full, &places, &seeds);
        for (sum, pulled) in sums.iter().zip(&mut pulled[floats.len()..]) {
            *pulled = add(sum, pulled);
        }
        pulled
    })?;
    let mut extra = Vec::new();
    let graph = back.close(&mut extra).map_err(refused)?;
    let control = Control::Unwind {
        condition: condition.silent(),
        body: body.silent(),
        back: Body::new(graph),
        carries,
        captured: captured.len(),
        sums: sums.len(),
    };
    let operands = [many.inputs, &sums, &extra].concat();
    let results = emit(control, &operands, OpTag::new("gradient"))?;
    let mut gradients: Gradients = vec![None; many.inputs.len()];
    let places = floats.iter().copied().chain(wanted.iter().map(|at| carries + at));
    for (place, result) in places.zip(results) {
        gradients[place] = Some(result);
    }
    Ok(gradients)
}

/// The way back through graphs that run once, from their inputs alone.
struct Once<'a> {
    /// What the graphs take.
    taken: &'a [Tensor],
    /// Which of it wants gradients.
    wanted: Vec<usize>,
    /// The results that have gradients.
    given: Vec<usize>,
    /// What the way back takes: `taken` and those gradients.
    inputs: Vec<Tensor>,
}

impl<'a> Once<'a> {
    fn new(taken: &'a [Tensor], wanted: &[bool], gradients: &[Option<Tensor>]) -> Once<'a> {
        let seeds: Vec<Tensor> = gradients.iter().flatten().cloned().collect();
        Once {
            taken,
            wanted: which(taken.len(), |at| wanted[at]),
            given: which(gradients.len(), |at| gradients[at].is_some()),
            inputs: [taken, &seeds].concat(),
        }
    }

    fn back(&self, body: &Body) -> Result<Trace, Tensor> {
        let types: Vec<Type> = self.inputs.iter().map(ty).collect();
        let context = self.inputs.iter().find_map(|input| input.context());
        trace(types, context, |inputs| {
            let (full, given_seeds) = inputs.split_at(self.taken.len());
            let seeds = (output_types(body).into_iter().enumerate())
                .map(
                    |(at, ty)| match self.given.iter().position(|&given| given == at) {
                        Some(given) => given_seeds[given].clone(),
                        None => zeros(ty),
                    },
                )
                .collect();
            pull(body, full, &self.wanted, &seeds)
        })
    }
}

/// The body runs again on the way back, so that nothing of it is kept until then.
fn call(body: &Body, many: &Many<'_>) -> Result<Gradients, Tensor> {
    let once = Once::new(many.inputs, many.wanted, many.gradients);
    let mut extra = Vec::new();
    let back = once.back(body)?.close(&mut extra).map_err(refused)?;
    let control = Control::Call {
        body: Body::new(back),
    };
    let operands = [once.inputs, extra].concat();
    let results = emit(control, &operands, OpTag::new("gradient"))?;
    let mut gradients: Gradients = vec![None; many.inputs.len()];
    for (place, result) in once.wanted.into_iter().zip(results) {
        gradients[place] = Some(result);
    }
    Ok(gradients)
}

fn branch(then: &Body, otherwise: &Body, many: &Many<'_>) -> Result<Gradients, Tensor> {
    let (condition, captured) = many.inputs.split_at(1);
    let once = Once::new(captured, &many.wanted[1..], many.gradients);
    let mut extra = Vec::new();
    let mut then = once.back(then)?.close(&mut extra).map_err(refused)?;
    let otherwise = once.back(otherwise)?.close(&mut extra).map_err(refused)?;
    let Once { wanted, inputs, .. } = once;
    widen(&mut then, inputs.len(), &extra);
    let control = Control::Cond {
        then: Body::new(then),
        otherwise: Body::new(otherwise),
    };
    let operands = [condition, &inputs, &extra].concat();
    let results = emit(control, &operands, OpTag::new("gradient"))?;
    let mut gradients: Gradients = vec![None; many.inputs.len()];
    for (at, result) in wanted.into_iter().zip(results) {
        gradients[1 + at] = Some(result);
    }
    Ok(gradients)
}
