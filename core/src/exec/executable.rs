//! Programs that are compiled for a device, and how they run.

use super::arena::{Arena, Place};
use super::described::Described;
use super::eager::{Noted, note};
use super::packets::{Numbers, add};
use super::staged::Staged;
use super::values::{self, Recipe};
use crate::context::Context;
use crate::engine::{Engine, Lane, Run, Written};
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::error::tag::hal_tag;
use crate::graph::Type;
use crate::hal::{self, Buffer, Kernel, ProgramBuilder, ProgramSlots};
use crate::lower::{self, Program, Scalar, Slot};
use crate::record::place::Call;
use crate::record::{clock, switch};
use crate::types::layout::Layout;
use crate::value::{Repr, Shared, Storage, Tensor, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// An argument of a program.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// In a buffer.
    Value(&'a Value),
    /// The same everywhere, as bits; its number among the program's scalars is its number among the arguments.
    Scalar(u64),
}

/// The argument that a value or a constant is.
#[inline]
pub(super) fn arg(tensor: &Tensor) -> Arg<'_> {
    match &tensor.repr {
        Repr::Value(value) => Arg::Value(value),
        Repr::Constant(constant) => Arg::Scalar(constant.bits),
        Repr::Lazy(_) | Repr::Failed(_) => unreachable!("a program runs on values and constants"),
    }
}

/// What is recorded of a run that is no call of an op.
#[inline(always)]
fn seen() -> Option<Noted> {
    switch::seen().map(|on| Noted { on, operands: None })
}

/// The results of a program.
pub(crate) type Values = SmallVec<[Value; 1]>;

/// A program compiled for one device.
#[derive(Debug)]
pub(crate) struct Executable {
    work: Work,
    outputs: Box<[Output]>,
    /// What it was compiled from, for who looks at its values.
    recipe: Option<Box<Recipe>>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are ready, and a box would be a look-up in every run"
)]
enum Work {
    /// One call of the backend.
    Ready(Ready),
    /// Nothing: every output shows an input.
    Views,
    /// Loops and branches, and what is between them.
    Staged(Box<Staged>),
}

/// Where a piece of memory comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Input(u32),
    // One of the buffers that the run makes; the arena is the last.
    Made(u32),
}

#[derive(Debug)]
struct Output {
    source: Source,
    layout: Layout,
    ty: Type,
}

/// A program that the backend keeps, and which arguments it takes.
#[derive(Debug)]
struct Ready {
    program: hal::Program,
    inputs: Box<[u32]>,
    scalars: Box<[u32]>,
    /// The only result, if there is one alone and it is new.
    only: Option<(Layout, hal::DType)>,
    /// Of the first step.
    tag: OpTag,
    /// The ops that make the buffers.
    made: Box<[OpTag]>,
    described: Box<Described>,
}

/// Where a program runs: the record of a scope's stream, or of the default stream.
#[derive(Clone, Copy)]
struct Site<'a> {
    context: &'a Context,
    scoped: Option<&'a Arc<Lane>>,
    lane: &'a Lane,
}

impl<'a> Site<'a> {
    #[inline]
    fn new(context: &'a Context, scoped: Option<&'a Arc<Lane>>) -> Result<Site<'a>> {
        let lane = match scoped {
            Some(lane) => lane,
            None => context.engine().default_lane()?,
        };
        Ok(Site {
            context,
            scoped,
            lane,
        })
    }

    /// The memory of a result that was just submitted.
    #[inline]
    fn storage(&self, buffer: Buffer, tag: OpTag) -> Shared {
        Shared::new(Storage {
            _listed: self.context.engine().list(tag, buffer.size()),
            buffer,
            context: self.context.clone(),
            written: Written::by(self.scoped, self.lane),
        })
    }
}

impl Executable {
    /// A program with loops or branches.
    pub(super) fn staged(staged: Staged) -> Executable {
        Executable {
            work: Work::Staged(Box::new(staged)),
            outputs: Box::default(),
            recipe: None,
        }
    }

    pub(super) fn compile(engine: &Engine, program: &Program) -> Result<Executable> {
        Executable::compile_traced(engine, program, u32::MAX)
    }

    /// As [`Executable::compile`], where the arguments from `captured` on are the same values in every run.
    pub(super) fn compile_traced(engine: &Engine, program: &Program, captured: u32) -> Result<Executable> {
        let arena = Arena::plan(program);
        let place = |slot: Slot, offset: u64| match slot {
            Slot::Input(input) => (Source::Input(input), offset),
            Slot::Local(local) => match arena.places[local as usize] {
                Place::Own(own) => (Source::Made(own), offset),
                Place::Arena(start) => (Source::Made(arena.own.len() as u32), start + offset),
            },
        };
        let output = |output: &lower::Output| Output {
            // Outputs are never in the arena.
            source: place(output.slot, 0).0,
            layout: output.layout,
            ty: output.ty,
        };
        let outputs: Box<[Output]> = program.outputs.iter().map(output).collect();
        let mut made = vec![OpTag::NONE; arena.own.len()];
        for (output, of) in outputs.iter().zip(&program.outputs) {
            if let Source::Made(own) = output.source
                && let Some(tag) = made.get_mut(own as usize)
            {
                *tag = of.tag;
            }
        }
        let work = match program.steps.first() {
            None if arena.own.is_empty() => Work::Views,
            first => {
                let tag = first.map_or(OpTag::NONE, lower::Step::tag);
                let ready = Ready::compile(engine, program, captured, &arena, &place, &outputs, tag)?;
                Work::Ready(Ready {
                    made: made.into(),
                    ..ready
                })
            }
        };
        Ok(Executable {
            work,
            outputs,
            recipe: None,
        })
    }

    /// Keeps what it was compiled from.
    #[must_use]
    pub(super) fn with_recipe(mut self, recipe: Recipe) -> Executable {
        self.recipe = Some(Box::new(recipe));
        self
    }

    /// What it was compiled from, where somebody looks at values.
    #[inline]
    fn looked_at(&self) -> Option<&Recipe> {
        match switch::seen() {
            Some(on) if on.has(switch::VALUES) => self.recipe.as_deref(),
            Some(_) | None => None,
        }
    }

    /// Names the function that it computes, for recordings.
    #[must_use]
    pub(super) fn named(mut self, name: &'static str) -> Executable {
        if let Work::Ready(ready) = &mut self.work {
            ready.described.set_name(name);
        }
        self
    }

    /// Submits the work to a stream; `scoped` is the record of a scope's, `None` stands for the default stream. With `tag`, all
    /// work carries it instead of what it was compiled with. Whoever looks at values sees them.
    pub(super) fn run(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        args: &[Arg<'_>],
        tag: Option<OpTag>,
    ) -> Result<Values> {
        match self.looked_at() {
            None => self.submit(context, scoped, args, tag),
            Some(recipe) => recipe.run(&values::Run {
                plain: self,
                context,
                scoped,
                args,
                tag,
            }),
        }
    }

    /// [`Executable::run`] without anybody who looks at values.
    pub(super) fn submit(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        args: &[Arg<'_>],
        tag: Option<OpTag>,
    ) -> Result<Values> {
        let site = Site::new(context, scoped)?;
        let mut storages = SmallVec::<[Shared; 2]>::new();
        match &self.work {
            Work::Staged(staged) => return staged.run(context, scoped, args, tag),
            Work::Ready(ready) => {
                let arg = |number: u32| args[number as usize];
                ready.run(site, arg, tag, seen(), |buffer| {
                    let made = ready.made.get(storages.len());
                    let of = tag.or(made.copied()).unwrap_or(ready.tag);
                    storages.push(site.storage(buffer, of));
                })?;
            }
            Work::Views => {}
        }
        let value = |output: &Output| {
            let (storage, offset) = match output.source {
                Source::Made(own) => (&storages[own as usize], 0),
                Source::Input(input) => match args[input as usize] {
                    Arg::Value(value) => (&value.storage, value.layout.offset),
                    Arg::Scalar(_) => unreachable!("a scalar argument has no buffer to look into"),
                },
            };
            let mut layout = output.layout;
            layout.offset += offset;
            Value {
                storage: storage.clone(),
                layout,
                dtype: output.ty.dtype,
            }
        };
        Ok(self.outputs.iter().map(value).collect())
    }

    /// The result of an op with one. `inputs` are values and constants; `noted` is what is recorded of the call.
    #[inline(always)]
    pub(super) fn run_op(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        inputs: &[&Tensor],
        tag: OpTag,
        noted: Option<Noted>,
    ) -> Tensor {
        if let Work::Ready(ready) = &self.work
            && let Some((layout, dtype)) = &ready.only
        {
            let arg = |number: u32| arg(inputs[number as usize]);
            return match ready.run_only(context, scoped, arg, Some(tag), noted) {
                // In one piece, which is written where the caller wants it.
                Ok(storage) => Tensor {
                    repr: Repr::Value(Value {
                        storage,
                        layout: *layout,
                        dtype: *dtype,
                    }),
                    history: None,
                },
                Err(error) => Tensor::of_error(tag, error, Some(context)),
            };
        }
        self.run_op_looked_at(context, scoped, inputs, tag, noted)
    }

    /// As [`Executable::run`] on the stream that this thread has chosen, for a program whose only result is new and whose values nobody
    /// looks at; `None` for others.
    #[inline]
    pub(super) fn run_only<'a>(
        &self,
        context: &Context,
        arg: impl Fn(u32) -> Arg<'a>,
    ) -> Option<Result<Value>> {
        let Work::Ready(ready) = &self.work else {
            return None;
        };
        let (layout, dtype) = ready.only.as_ref()?;
        if self.looked_at().is_some() {
            return None;
        }
        let scoped = context.engine().scoped_lane();
        let made = ready.run_only(context, scoped.as_ref(), arg, None, seen());
        Some(made.map(|storage| Value {
            storage,
            layout: *layout,
            dtype: *dtype,
        }))
    }

    /// As [`Executable::run_op`], where somebody looks at values.
    #[cold]
    pub(super) fn run_op_looked_at(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        inputs: &[&Tensor],
        tag: OpTag,
        noted: Option<Noted>,
    ) -> Tensor {
        match self.run_any(context, scoped, inputs, tag, noted) {
            Ok(value) => Tensor::from_value(value),
            Err(error) => Tensor::of_error(tag, error, Some(context)),
        }
    }

    #[cold]
    fn run_any(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        inputs: &[&Tensor],
        tag: OpTag,
        noted: Option<Noted>,
    ) -> Result<Value> {
        let args: SmallVec<[Arg<'_>; 4]> = inputs.iter().map(|input| arg(input)).collect();
        let begun = noted.and_then(|noted| Some((noted.on, noted.operands?, clock::ticks())));
        let mut values = self.run(context, scoped, &args, Some(tag))?;
        if let Some((on, operands, start)) = begun {
            note(on, start, tag, operands);
        }
        let missing = || crate::error::failure::Refusal::new("the program has no output").into();
        values.pop().ok_or_else(missing)
    }
}

impl Ready {
    fn compile(
        engine: &Engine,
        program: &Program,
        captured: u32,
        arena: &Arena,
        place: &dyn Fn(Slot, u64) -> (Source, u64),
        outputs: &[Output],
        tag: OpTag,
    ) -> Result<Ready> {
        let (mut inputs, mut scalars) = (Numbers::default(), Numbers::default());
        for step in &program.steps {
            if let lower::Step::Launch {
                arguments,
                scalars: given,
                ..
            } = step
            {
                arguments.iter().for_each(|argument| match argument.slot {
                    Slot::Input(input) => inputs.add(input),
                    Slot::Local(_) => {}
                });
                given.iter().for_each(|scalar| match *scalar {
                    Scalar::Argument(argument) => scalars.add(argument),
                    Scalar::Bits(_) => {}
                });
            }
        }
        let number = |slot: Slot, offset: u64| match place(slot, offset) {
            (Source::Input(input), offset) => (inputs.place(input), offset),
            (Source::Made(made), offset) => (inputs.all.len() as u32 + made, offset),
        };
        let kernels: Vec<Option<Arc<Kernel>>> = (program.steps.iter())
            .map(|step| match step {
                lower::Step::Launch { source, .. } => engine.kernel(source).map(Some),
                lower::Step::Fill { .. } => Ok(None),
            })
            .collect::<hal::Result<_>>()?;
        let mut builder = ProgramBuilder::new(engine.device());
        for (step, kernel) in program.steps.iter().zip(kernels.iter().map(Option::as_deref)) {
            add(&mut builder, step, kernel, &number, &scalars)?;
        }
        let scratch = [arena.bytes];
        let constants: Vec<u32> = (0..)
            .zip(&inputs.all)
            .filter(|(_, argument)| **argument >= captured)
            .map(|(number, _)| number)
            .collect();
        let slots = ProgramSlots {
            inputs: inputs.all.len(),
            outputs: &arena.own,
            scratch: if arena.bytes > 0 { &scratch } else { &[] },
            arguments: scalars.all.len(),
            constants: &constants,
        };
        let made = builder.finish(&slots)?;
        let only = match outputs {
            [output] if matches!(output.source, Source::Made(_)) => Some((output.layout, output.ty.dtype)),
            _ => None,
        };
        Ok(Ready {
            program: made,
            inputs: inputs.all.into(),
            scalars: scalars.all.into(),
            only,
            tag,
            made: Box::default(),
            described: Box::new(Described::of(program)),
        })
    }

    #[inline(always)]
    fn run<'a>(
        &self,
        site: Site<'_>,
        arg: impl Fn(u32) -> Arg<'a>,
        tag: Option<OpTag>,
        noted: Option<Noted>,
        mut made: impl FnMut(Buffer),
    ) -> Result<()> {
        let own = tag.is_none();
        let called = tag;
        let tag = hal_tag(tag.unwrap_or(self.tag));
        let mut inputs = SmallVec::<[_; 6]>::new();
        for &number in &self.inputs {
            let Arg::Value(value) = arg(number) else {
                unreachable!("a scalar argument is bound as a scalar")
            };
            value.storage.wait_on(site.scoped, site.lane)?;
            let offset = value.layout.offset * value.dtype.size() as u64;
            inputs.push(self.program.input(&value.storage.buffer, offset, &tag)?);
        }
        let mut scalars = SmallVec::<[u64; 4]>::new();
        for &number in &self.scalars {
            let Arg::Scalar(bits) = arg(number) else {
                unreachable!("a value is bound as a buffer")
            };
            scalars.push(bits);
        }
        let stream = &site.lane.stream;
        let engine = site.context.engine();
        let mut submit = || {
            // SAFETY: outputs end in a `Storage`, whose context holds the device and is dropped after them.
            engine.with_memory(|| unsafe {
                self.program
                    .run(stream, &inputs, &scalars, (&tag, own), &mut made)
            })
        };
        match noted {
            None => submit(),
            Some(Noted { on, operands }) => {
                self.described.tell(on, engine.number());
                let run = Run {
                    stream,
                    program: self.described.number,
                    call: called.map_or(Call::default(), |tag| tag.of_record()),
                    operands,
                };
                engine.recorded(on, run, submit)
            }
        }
    }

    /// The memory of the only result.
    #[inline(always)]
    fn run_only<'a>(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        arg: impl Fn(u32) -> Arg<'a>,
        tag: Option<OpTag>,
        noted: Option<Noted>,
    ) -> Result<Shared> {
        let site = Site::new(context, scoped)?;
        let of = tag.or(self.made.first().copied()).unwrap_or(self.tag);
        let mut made = None;
        self.run(site, arg, tag, noted, |buffer| {
            made = Some(site.storage(buffer, of))
        })?;
        match made {
            Some(storage) => Ok(storage),
            None => unreachable!("a run makes every output"),
        }
    }
}
