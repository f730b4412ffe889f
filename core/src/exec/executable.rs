//! Programs that are compiled for a device, and how they run.

mod ready;

use super::arena::{Arena, Place};
use super::eager::{Noted, note};
use super::staged::Staged;
use super::values::{self, Recipe};
use crate::context::{Context, Saves};
use crate::engine::{Engine, Lane};
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::graph::Type;
use crate::hal::{self, Buffer};
use crate::lower::{self, Program, Slot};
use crate::record::{clock, switch};
use crate::types::layout::Layout;
use crate::value::{Repr, Shared, Tensor, Value};
use ready::{Ready, Site};
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

/// What is known of a program's arguments.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// Those from here on are the same values in every run.
    pub(super) captured: u32,
    /// Those that steps write, and the buffers in which they lie at first; see [`Executable::bind`].
    pub(super) bound: &'a [(u32, &'a Buffer)],
}

impl Inputs<'_> {
    /// Of which none is written.
    pub(super) fn captured(captured: u32) -> Self {
        Inputs { captured, bound: &[] }
    }
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
        Executable::compile_traced(engine, program, Inputs::captured(u32::MAX))
    }

    /// As [`Executable::compile`], where more is known of the arguments.
    pub(super) fn compile_traced(
        engine: &Engine,
        program: &Program,
        inputs: Inputs<'_>,
    ) -> Result<Executable> {
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
                let mut ready = Ready::compile(engine, program, inputs, &arena, &place, &outputs, tag)?;
                ready.made = made.into();
                Work::Ready(ready)
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

    /// What it was compiled from.
    pub(super) fn recipe(&self) -> Option<&Recipe> {
        self.recipe.as_deref()
    }

    /// Has the later runs write argument `at` of those that steps write where `buffer` lies.
    pub(super) fn bind(&self, at: usize, buffer: &Buffer) -> hal::Result<()> {
        match &self.work {
            Work::Ready(ready) => ready.bind(at, buffer),
            Work::Views | Work::Staged(_) => {
                unreachable!("what has bound arguments has steps that write them")
            }
        }
    }

    /// What it was compiled from, where somebody looks at values.
    #[inline]
    pub(super) fn looked_at(&self) -> Option<&Recipe> {
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

    /// Saves the sources of its kernels when it has run.
    #[must_use]
    pub(super) fn saving_sources(mut self, saves: Saves, name: String) -> Executable {
        if let Work::Ready(ready) = &mut self.work {
            ready.described.save_sources(saves, name);
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
                ready.run(site, arg, tag.as_ref(), seen(), |buffer| {
                    let made = ready.made.get(storages.len());
                    let of = tag.as_ref().or(made).unwrap_or(&ready.tag);
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
        tag: &OpTag,
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
                Err(error) => Tensor::of_error(*tag, error, Some(context)),
            };
        }
        self.run_op_looked_at(context, scoped, inputs, *tag, noted)
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
