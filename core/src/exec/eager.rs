//! One op at once.

use super::cache::WordHasher;
use super::evaluate::{How, compile};
use super::executable::Executable;
use crate::context::{Context, Mode};
use crate::engine::Engine;
use crate::engine::Lane;
use crate::error::failure::{Failure, Refusal};
use crate::error::tag::OpTag;
use crate::error::tag::hal_tag;
use crate::error::{Error, Result};
use crate::graph::{Graph, Op, Type};
use crate::hal::ir::ScalarOp;
use crate::hal::{self, Buffer, DType};
use crate::lower::{Given, lower};
use crate::record::recording::TextId;
use crate::record::{calls, flight, switch, text};
use crate::types::layout::Layout;
use crate::types::shape::Shape;
use crate::value::{Constant, Repr, Shared, Storage, Tensor, Value};
use smallvec::SmallVec;
use std::cell::{Cell, OnceCell};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a plan depends on of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operand {
    /// Shape and strides; the offset is 0.
    Value(Layout, DType),
    Constant(Type),
}

impl Operand {
    /// `None` for what is neither a value nor a constant.
    pub(super) fn of(tensor: &Tensor) -> Option<Operand> {
        match &tensor.repr {
            Repr::Value(value) => Some(Operand::of_value(value)),
            Repr::Constant(constant) => Some(Operand::Constant(constant.ty)),
            Repr::Lazy(_) | Repr::Failed(_) => None,
        }
    }

    pub(super) fn of_value(value: &Value) -> Operand {
        let mut layout = value.layout;
        layout.offset = 0;
        Operand::Value(layout, value.dtype)
    }

    #[inline(always)]
    pub(super) fn is_of(&self, tensor: &Tensor) -> bool {
        match (self, &tensor.repr) {
            (Operand::Value(layout, dtype), Repr::Value(value)) => {
                *dtype == value.dtype && layout.is_like(&value.layout)
            }
            (Operand::Constant(ty), Repr::Constant(constant)) => {
                ty.dtype == constant.ty.dtype && ty.shape.is_like(&constant.ty.shape)
            }
            _ => false,
        }
    }

    /// Hashes what [`Operand::is_of`] compares, folded into one word.
    #[inline]
    pub(super) fn hash(tensor: &Tensor, hasher: &mut WordHasher) {
        let fold = |word: u64, part: u64| word.rotate_left(11) ^ part;
        let (shape, dtype, strides): (&Shape, DType, &[i64]) = match &tensor.repr {
            Repr::Value(value) => (&value.layout.shape, value.dtype, value.layout.strides()),
            Repr::Constant(constant) => (&constant.ty.shape, constant.ty.dtype, &[]),
            Repr::Lazy(_) | Repr::Failed(_) => return,
        };
        let kind = u64::from(dtype.code()) << 8 | (shape.len() as u64) << 4 | strides.len() as u64;
        let extents = shape.iter().fold(kind, |word, &extent| fold(word, extent as u64));
        let strides = strides.iter().fold(0, |word, &stride| fold(word, stride as u64));
        hasher.write_u64(extents ^ strides.rotate_left(37));
    }

    /// How the argument of this number comes to a program.
    pub(super) fn given(&self, number: u32) -> Given {
        match self {
            Operand::Value(layout, _) => Given::Buffer(*layout),
            Operand::Constant(_) => Given::Scalar(number),
        }
    }

    pub(super) fn ty(&self) -> Type {
        match self {
            Operand::Value(layout, dtype) => Type::new(layout.shape, *dtype),
            Operand::Constant(ty) => *ty,
        }
    }
}

/// The plan of an op for operands.
pub(crate) struct Eager {
    op: Op,
    operands: SmallVec<[Operand; 2]>,
    plan: Executable,
    // What recordings say of the operands; 0 until they do.
    text: Cell<TextId>,
    // The plan for who looks at values.
    looked_at: OnceCell<Box<Executable>>,
}

impl Eager {
    fn new(op: &Op, operands: SmallVec<[Operand; 2]>, plan: Executable) -> Eager {
        Eager {
            op: op.clone(),
            operands,
            plan,
            text: Cell::new(0),
            looked_at: OnceCell::new(),
        }
    }

    /// The plan for who looks at values, if somebody does.
    #[cold]
    fn looked_at(&self, context: &Context) -> Option<&Executable> {
        if let Some(known) = self.looked_at.get() {
            return Some(known);
        }
        let how = How {
            exact: true,
            ..How::default()
        };
        // It compiled before without being looked at.
        let (graph, given) = graph(&self.op, &self.operands, OpTag::NONE).ok()?;
        let plan = compile(context, graph, &given, how).ok()?;
        Some(self.looked_at.get_or_init(|| Box::new(plan)))
    }

    /// Runs it, and notes the call where that is recorded.
    #[inline(always)]
    fn run(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        inputs: &[&Tensor],
        tag: &OpTag,
        on: Option<switch::On>,
    ) -> Tensor {
        let noted = on.map(|on| Noted::new(on, &self.text, &self.operands));
        if let Some(on) = on
            && on.has(switch::VALUES)
            && let Some(plan) = self.looked_at(context)
        {
            return plan.run_op_looked_at(context, scoped, inputs, *tag, noted);
        }
        self.plan.run_op(context, scoped, inputs, tag, noted)
    }

    #[inline(always)]
    fn fits(&self, op: &Op, inputs: &[&Tensor]) -> bool {
        // Most are maps; their comparison is one word.
        let same = match (&self.op, op) {
            (Op::Map(one), Op::Map(other)) => one == other,
            (one, other) => one == other,
        };
        // A loop of unknown length over two operands is a call.
        same && match (&self.operands[..], inputs) {
            ([a, b], [x, y]) => a.is_of(x) && b.is_of(y),
            (operands, inputs) => {
                operands.len() == inputs.len()
                    && operands
                        .iter()
                        .zip(inputs)
                        .all(|(operand, input)| operand.is_of(input))
            }
        }
    }
}

/// What is recorded of a call of an op.
#[derive(Clone, Copy)]
pub(super) struct Noted {
    pub(super) on: switch::On,
    /// Its operands; `None` where calls are not recorded.
    pub(super) operands: Option<TextId>,
}

impl Noted {
    pub(super) fn new(on: switch::On, known: &Cell<TextId>, operands: &[Operand]) -> Noted {
        let operands = on.has(switch::OPS).then(|| text_of(known, operands));
        Noted { on, operands }
    }
}

/// Notes a call of an op that began at `start` and ends now.
pub(super) fn note(on: switch::On, start: u64, tag: OpTag, operands: TextId) {
    calls::note(on, start, tag.of_record(), operands);
}

/// What recordings say of operands: `f32[2,3] f32[3]`. It is kept in `known`.
#[inline]
pub(super) fn text_of(known: &Cell<TextId>, operands: &[Operand]) -> TextId {
    #[cold]
    fn new(known: &Cell<TextId>, operands: &[Operand]) -> TextId {
        known.set(text_of_types(operands.iter().map(Operand::ty)));
        known.get()
    }
    match known.get() {
        0 => new(known, operands),
        known => known,
    }
}

/// As [`text_of`], of operands of these types.
pub(super) fn text_of_types(types: impl Iterator<Item = Type>) -> TextId {
    let texts: Vec<String> = types.map(|ty| ty.to_string()).collect();
    text::intern(&texts.join(" "))
}

#[inline(always)]
fn hash(op: &Op, inputs: &[&Tensor]) -> u64 {
    let mut hasher = WordHasher::default();
    match op {
        Op::Map(op) => hasher.write_u32(*op as u32 + 1),
        op => op.hash(&mut hasher),
    }
    for input in inputs {
        Operand::hash(input, &mut hasher);
    }
    hasher.finish()
}

/// The result of an op that this thread ran before for operands of the same types and strides, which were checked then.
/// That of `otherwise` when it did not, and for anything but plain values of one eager device and constants.
pub(crate) fn again(op: &Op, inputs: &[&Tensor], tag: OpTag, otherwise: &dyn Fn() -> Tensor) -> Tensor {
    if !calls::is_plain() {
        return recorded(op, inputs, tag, otherwise);
    }
    known(op, inputs, &tag, None, otherwise)
}

/// [`again`] of a scalar op on two operands, which is what most eager code is made of: a copy of its own, whose loops over
/// operands are none.
pub(crate) fn again_pair(
    op: ScalarOp,
    inputs: [&Tensor; 2],
    tag: OpTag,
    otherwise: &dyn Fn() -> Tensor,
) -> Tensor {
    if !calls::is_plain() {
        return recorded_pair(op, inputs, tag, otherwise);
    }
    known(&Op::Map(op), &inputs, &tag, None, otherwise)
}

// An optional result would be copied on its way out, and a copy of what was just written waits until it is in the cache.
#[inline(always)]
fn known(
    op: &Op,
    inputs: &[&Tensor],
    tag: &OpTag,
    on: Option<switch::On>,
    otherwise: &dyn Fn() -> Tensor,
) -> Tensor {
    if let Some(context) = plain_context(inputs) {
        let engine = context.engine();
        // Before the caches are borrowed: it notes the stream there.
        let scoped = engine.scoped_lane();
        if let Ok(local) = engine.local().try_borrow()
            && let Some(entry) = local.eager.get(hash(op, inputs), |entry| entry.fits(op, inputs))
        {
            return entry.run(context, scoped.as_ref(), inputs, tag, on);
        }
    }
    otherwise()
}

/// [`again`] while ops are traced or something is recorded.
#[cold]
fn recorded(op: &Op, inputs: &[&Tensor], tag: OpTag, otherwise: &dyn Fn() -> Tensor) -> Tensor {
    match calls::tracing() {
        0 => known(op, inputs, &tag.within(), calls::observed(), otherwise),
        _ => otherwise(),
    }
}

/// [`again_pair`] while ops are traced or something is recorded.
#[cold]
fn recorded_pair(op: ScalarOp, inputs: [&Tensor; 2], tag: OpTag, otherwise: &dyn Fn() -> Tensor) -> Tensor {
    match calls::tracing() {
        0 => known(&Op::Map(op), &inputs, &tag.within(), calls::observed(), otherwise),
        _ => otherwise(),
    }
}

/// The context of operands that are plain values of one eager device, or constants beside such. No op is traced.
#[inline(always)]
fn plain_context<'a>(inputs: &[&'a Tensor]) -> Option<&'a Context> {
    let mut context: Option<&Context> = None;
    for input in inputs {
        match &input.repr {
            Repr::Value(value) if input.history.is_none() => {
                let own = &value.storage.context;
                match context {
                    None if own.mode() == Mode::Eager => context = Some(own),
                    Some(first) if Arc::ptr_eq(first.engine(), own.engine()) => {}
                    _ => return None,
                }
            }
            Repr::Constant(_) if input.history.is_none() => {}
            _ => return None,
        }
    }
    context
}

/// Runs one op on values and constants now. The plan of an op is kept per thread under the op and the operands' dtypes, shapes
/// and strides; the bits of constants are arguments of the plan.
pub(crate) fn eager(
    op: &Op,
    inputs: &[&Tensor],
    ty: Type,
    context: Option<&Context>,
    tag: OpTag,
) -> Result<Tensor> {
    let Some(context) = context else {
        return without_context(op, inputs, ty, tag);
    };
    if let Op::Full { bits, .. } = op {
        return full(context, Constant { ty, bits: *bits }, tag).map(Tensor::from_value);
    }
    let (hash, engine) = (hash(op, inputs), context.engine());
    let scoped = engine.scoped_lane();
    if let Ok(local) = engine.local().try_borrow()
        && let Some(entry) = local.eager.get(hash, |entry| entry.fits(op, inputs))
    {
        return Ok(entry.run(context, scoped.as_ref(), inputs, &tag, switch::seen()));
    }
    let operands: SmallVec<[Operand; 2]> = inputs.iter().filter_map(|input| Operand::of(input)).collect();
    if operands.len() != inputs.len() {
        return Err(Refusal::new("an operand is not evaluated").into());
    }
    let plan = plan(engine, op, &operands, tag)?;
    let entry = Eager::new(op, operands, plan);
    let result = entry.run(context, scoped.as_ref(), inputs, &tag, switch::seen());
    let old = match engine.local().try_borrow_mut() {
        Ok(mut local) => local.eager.insert(hash, entry),
        Err(_) => None,
    };
    drop(old);
    Ok(result)
}

fn plan(engine: &Engine, op: &Op, operands: &[Operand], tag: OpTag) -> Result<Executable> {
    let refused = |refusal| Error::from(Failure::tagged(refusal, tag, Some(engine.device())));
    let (graph, given) = graph(op, operands, tag).map_err(refused)?;
    Executable::compile(engine, &lower(&graph, &given, engine).map_err(refused)?)
}

/// The graph of one op, and how its inputs come.
fn graph(op: &Op, operands: &[Operand], tag: OpTag) -> Result<(Graph, SmallVec<[Given; 4]>), Refusal> {
    let mut graph = Graph::new();
    let inputs: SmallVec<[_; 4]> = operands.iter().map(|operand| graph.input(operand.ty())).collect();
    let output = graph.push(op.clone(), &inputs, tag)?;
    graph.output(output);
    let given = (operands.iter().zip(0..))
        .map(|(operand, number)| operand.given(number))
        .collect();
    Ok((graph, given))
}

/// A buffer of one element everywhere.
pub(crate) fn full(context: &Context, constant: Constant, tag: OpTag) -> Result<Value> {
    let Type { shape, dtype } = constant.ty;
    let engine = context.engine();
    let scoped = engine.scoped_lane();
    let lane = match &scoped {
        Some(lane) => lane,
        None => engine.default_lane()?,
    };
    let bytes = (shape.elements() * dtype.size()) as u64;
    let submit = || -> Result<Buffer> {
        let buffer = engine.alloc(&lane.stream, bytes, hal_tag(&tag))?;
        let pattern = (constant.bits, dtype.size() as u32);
        fill(lane, &buffer, (0, bytes), pattern, tag)?;
        Ok(buffer)
    };
    if flight::is_on() {
        flight::launch(tag.of_record(), 0, engine.number(), lane.stream.handle());
    }
    let buffer = match switch::seen() {
        None => submit()?,
        Some(on) => engine.recorded_work(on, &lane.stream, tag.of_record(), submit)?,
    };
    let storage = Storage {
        _listed: engine.list(&tag, &buffer),
        buffer,
        context: context.clone(),
        written: engine.written(scoped.as_ref()),
    };
    Ok(Value {
        storage: Shared::new(storage),
        layout: Layout::contiguous(shape),
        dtype,
    })
}

/// An op on nothing but constants, on no device: what works element by element is done for one element on the process's best
/// device and stays a constant; the rest makes buffers there.
#[cold]
fn without_context(op: &Op, inputs: &[&Tensor], ty: Type, tag: OpTag) -> Result<Tensor> {
    if let Op::Full { bits, .. } = op {
        return Ok(Tensor::constant(ty.shape, ty.dtype, *bits));
    }
    let context = Context::auto()?;
    let elementwise = match op {
        Op::Map(_) | Op::Cast(_) | Op::Rand => true,
        Op::Input(_)
        | Op::Full { .. }
        | Op::Index { .. }
        | Op::Reduce { .. }
        | Op::Permute(_)
        | Op::Expand(_)
        | Op::Reshape(_)
        | Op::Slice { .. }
        | Op::Indices { .. }
        | Op::Window { .. }
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::Gather { .. }
        | Op::Scatter { .. }
        | Op::Matmul { .. }
        | Op::Attention { .. }
        | Op::Conv(_)
        | Op::ConvGradInput(..)
        | Op::ConvGradWeight(..)
        | Op::Scan { .. }
        | Op::Sort { .. }
        | Op::ArgSort { .. }
        | Op::Control(_)
        | Op::Result { .. } => false,
    };
    let mut operands = SmallVec::<[Tensor; 3]>::new();
    for input in inputs {
        let Repr::Constant(mut constant) = input.repr else {
            return Err(Refusal::new("an operand has no device").into());
        };
        if elementwise {
            constant.ty.shape = Shape::SCALAR;
        }
        operands.push(Tensor::from_value(full(&context, constant, tag)?));
    }
    let operands: SmallVec<[&Tensor; 3]> = operands.iter().collect();
    if !elementwise {
        return eager(op, &operands, ty, Some(&context), tag);
    }
    let scalar = Type::new(Shape::SCALAR, ty.dtype);
    let result = eager(op, &operands, scalar, Some(&context), tag)?;
    let bits = match &result.repr {
        Repr::Value(value) => super::read::bits(value.clone(), OpTag::uncounted("item"))?,
        Repr::Constant(constant) => constant.bits,
        Repr::Lazy(_) | Repr::Failed(_) => return Err(Refusal::new("an op on constants was not run").into()),
    };
    Ok(Tensor::constant(ty.shape, ty.dtype, bits))
}

/// Fills a range (offset, bytes) of a buffer with an element (bits, bytes).
fn fill(
    lane: &Lane,
    buffer: &Buffer,
    (offset, bytes): (u64, u64),
    (pattern, pattern_bytes): (u64, u32),
    tag: OpTag,
) -> hal::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let fill = match pattern_bytes {
        1 => hal::Fill::new(buffer, pattern as u8),
        2 => hal::Fill::new(buffer, pattern as u16),
        4 => hal::Fill::new(buffer, pattern as u32),
        _ => hal::Fill::new(buffer, pattern),
    };
    lane.stream.fill(&fill.range(offset, bytes).tag(hal_tag(&tag)))
}
